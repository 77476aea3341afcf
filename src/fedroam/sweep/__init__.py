"""Sweeps: many runs at once, each identified by its digest, and one table over all of them.

What runs them is imported from its own file, so that reading a sweep does not wait for torch.
"""

from fedroam.sweep.folder import Sweep as Sweep
from fedroam.sweep.folder import SweptRun as SweptRun
from fedroam.sweep.folder import open_sweep as open_sweep
from fedroam.sweep.folder import sweep_damage as sweep_damage
from fedroam.sweep.progress import Event as Event
from fedroam.sweep.progress import Observer as Observer
from fedroam.sweep.progress import Progress as Progress
