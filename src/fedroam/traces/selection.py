"""A part of a trace: a window of time, a square around the middle, the most active devices."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fedroam.errors import InputError
from fedroam.traces.trace import Trace, bounds_of


@dataclass(frozen=True, eq=False)
class Selection:
    """Fixes of the selected devices, most active first; layout as in `Trace`.

    start: seconds since the trace's epoch; time: float64 [fixes], seconds since `start`; length: seconds. around: the
    same devices in the same order with the last fix before the window and the first one after it, too, which tell where
    they are at its ends; None: that was not asked for.
    """

    names: tuple[str, ...]
    first: np.ndarray
    time: np.ndarray
    point: np.ndarray
    start: float
    length: float
    around: Selection | None = None

    @property
    def devices(self) -> int:
        """Number of devices."""
        return len(self.names)

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """Corners of all fixes, as `Trace.bounds`."""
        return bounds_of(self.point)

    def only(self, chosen: np.ndarray) -> Selection:
        """These devices (int64, places in `names`), in this order."""
        counts = np.diff(self.first)[chosen]
        first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        rows = np.arange(first[-1]) + np.repeat(self.first[:-1][chosen] - first[:-1], counts)
        names = tuple(self.names[k] for k in chosen.tolist())
        around = None if self.around is None else self.around.only(chosen)
        return replace(
            self, names=names, first=first, time=self.time[rows], point=self.point[rows], around=around
        )

    def seek(self, moment: float) -> np.ndarray:
        """For each device, its first fix at `moment` (seconds since start) or later, int64 [devices].

        first[i + 1] for a device without one. Binary search, all devices at once.
        """
        low, high = self.first[:-1].copy(), self.first[1:].copy()
        while True:
            open_ = low < high
            if not open_.any():
                return low
            middle = (low + high) // 2
            earlier = open_ & (self.time[np.minimum(middle, len(self.time) - 1)] < moment)
            low = np.where(earlier, middle + 1, low)
            high = np.where(open_ & ~earlier, middle, high)

    def runs(self, max_gap: float) -> np.ndarray:
        """For each fix, the first one of its run without a gap above `max_gap` (s), int64 [fixes]."""
        begins = np.zeros(len(self.time), dtype=bool)
        begins[1:] = np.diff(self.time) > max_gap
        begins[self.first[:-1]] = True
        return np.maximum.accumulate(np.where(begins, np.arange(len(begins)), 0))


def select(
    trace: Trace,
    start: float | None = None,
    length: float | None = None,
    box: float = math.inf,
    *,
    around: bool = False,
) -> Selection:
    """The fixes from `start` (seconds since the trace's epoch; None: its first fix) for `length` (s; None: to its end).

    Of those, the ones in the square of side `box` (m) around their median fix (medians of x and of y). Devices are
    ordered by their number of fixes that are left, equals as in the trace; those with none are left out. around: also
    with the fixes, in the square, that are next to the window. Raises InputError where nothing is left.
    """
    earliest, latest = float(trace.time.min()), float(trace.time.max())
    begin = earliest if start is None else start
    end = math.inf if length is None else begin + length
    window, inside = (trace.time >= begin) & (trace.time < end), np.ones(trace.fixes, dtype=bool)
    if not window.any():
        raise InputError(
            f"no fix between {begin:.15g} s and {begin + (length or math.inf):.15g} s, "
            f"the trace covers {earliest:.15g} s to {latest:.15g} s"
        )
    if math.isfinite(box):
        middle = np.median(trace.point[window], axis=0)
        inside = (np.abs(trace.point - middle) <= box / 2).all(axis=1)
        window &= inside
        if not window.any():
            raise InputError(f"no fix within the square of {box:g} m around the median fix: make it larger")
    owner = trace.device
    counts = np.bincount(owner[window], minlength=trace.devices)
    order = np.argsort(-counts, kind="stable")[: int((counts > 0).sum())]
    rank = np.full(trace.devices, trace.devices)
    rank[order] = np.arange(len(order))

    def of(chosen: np.ndarray) -> Selection:
        rows = np.flatnonzero(chosen)
        rows = rows[np.argsort(rank[owner[rows]], kind="stable")]
        each = np.bincount(owner[rows], minlength=trace.devices)[order]
        return Selection(
            tuple(trace.names[k] for k in order),
            np.concatenate([[0], np.cumsum(each)]).astype(np.int64),
            trace.time[rows] - begin,
            trace.point[rows],
            begin,
            latest - begin if length is None else length,
        )

    found = of(window)
    if not around:
        return found
    beside = inside & (rank < trace.devices)[owner]
    before, after = (np.flatnonzero(beside & out) for out in (trace.time < begin, trace.time >= end))
    wide = window.copy()
    wide[before[np.diff(owner[before], append=-1) != 0]] = True  # the last of each device
    wide[after[np.diff(owner[after], prepend=-1) != 0]] = True  # the first
    return replace(found, around=of(wide))
