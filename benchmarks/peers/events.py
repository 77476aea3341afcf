"""The schedule of transfers by SimPy: one event queue, a process for each transfer.

What fedroam finds from the devices' ways (who is in reach of whom from when to when) is read here: less work than
fedroam's. A transfer begins as the contact does, and gets through if the contact lasts long enough; if not, the next
contact of the same two is another try.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import simpy
from interface import Tell, Work, run


def play(work: Work, rounds: int, tell: Tell) -> None:
    """A round is a run of the queue up to its end."""
    contacts, rows = work.array("contacts"), work.array("rows")
    takes = float(work.array("seconds")[1])
    through = 0

    def transfer(queue: simpy.Environment, windows: list[tuple[float, float]]) -> Iterator[Any]:
        nonlocal through
        for opens, closes in windows:
            yield queue.timeout(opens - queue.now)
            over, done = queue.timeout(closes - opens), queue.timeout(takes)
            yield done | over
            if done.processed or closes - opens == takes:
                through += 1
                return

    tell(0.0)
    for t in range(rounds):
        queue, through = simpy.Environment(), 0
        pairs = groupby(contacts[rows[t] : rows[t + 1]].tolist(), key=lambda contact: contact[:2])
        for _, meetings in pairs:
            windows = [(opens, closes) for _, _, opens, closes in meetings]
            for _ in range(2):  # both ways
                queue.process(transfer(queue, windows))
        queue.run()
        tell(float(through))


if __name__ == "__main__":
    run(play, "simpy", "numpy")
