"""Sweeps: many runs at once, each identified by its digest, and one table over all of them."""

from fedroam.sweep.estimate import Estimate, estimate
from fedroam.sweep.folder import Sweep, SweptRun, open_sweep, sweep_damage
from fedroam.sweep.progress import Event, Observer, Progress
from fedroam.sweep.running import run_sweep
from fedroam.sweep.scale import one_scale

__all__ = [
    "Estimate",
    "Event",
    "Observer",
    "Progress",
    "Sweep",
    "SweptRun",
    "estimate",
    "one_scale",
    "open_sweep",
    "run_sweep",
    "sweep_damage",
]
