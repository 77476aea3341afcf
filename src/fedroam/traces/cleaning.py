"""Fixes that cannot be true."""

from __future__ import annotations

import numpy as np


def too_fast(device: np.ndarray, time: np.ndarray, point: np.ndarray, limit: float) -> np.ndarray:
    """Fixes to drop so that no device moves faster than `limit` (m/s) between two that stay; bool [fixes].

    Fixes are sorted by device (int64), then time (seconds, rising); point: float64 [fixes, 2], metres. A device's
    fixes fall into runs without a faster leg. The longest run (of equals the first) is taken to be true; from there, in
    both directions of time, fixes are dropped until one can be reached from the last that stayed. So a spike falls and
    its neighbours stay, and a wrong first fix does not cost all that follow.
    """
    drop = np.zeros(len(time), dtype=bool)
    same = np.diff(device) == 0
    gap = np.diff(time)
    way = np.hypot(*np.diff(point, axis=0).T)
    fast = same & (way > limit * gap)
    for owner in np.unique(device[1:][fast]):
        begin, end = np.searchsorted(device, (owner, owner + 1))
        cuts = begin + 1 + np.flatnonzero(fast[begin : end - 1])
        starts, ends = np.append(begin, cuts), np.append(cuts, end)
        anchor = int(np.argmax(ends - starts))

        runs = list(zip(starts, ends, strict=True))
        held = ends[anchor] - 1
        for low, high in runs[anchor + 1 :]:
            fine = np.flatnonzero(_reached(time, point, held, slice(low, high), limit))
            drop[low : low + fine[0] if len(fine) else high] = True
            held = high - 1 if len(fine) else held
        held = starts[anchor]
        for low, high in reversed(runs[:anchor]):
            fine = np.flatnonzero(_reached(time, point, held, slice(low, high), limit))
            drop[low + fine[-1] + 1 if len(fine) else low : high] = True
            held = low if len(fine) else held
    return drop


def _reached(time: np.ndarray, point: np.ndarray, held: int, other: slice, limit: float) -> np.ndarray:
    """Whether each of some fixes can be reached from the fix `held`, or it from them, bool [fixes]."""
    way = np.hypot(*(point[other] - point[held]).T)
    return np.asarray(way <= limit * np.abs(time[other] - time[held]))
