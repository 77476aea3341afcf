"""All that a worker process needs, loaded in one go: what the fork server imports, and its workers then have.

Meanwhile Python does not look for garbage, which it would do many times over in what torch has made: a quarter of the
time that loading takes.
"""

from __future__ import annotations

from fedroam.components import collecting_nothing

with collecting_nothing():
    from fedroam.sweep import worker as worker
