"""Sketches: what all points of a grid weigh for a flyer, but for the last digits."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedroam.mobility.grid import points_at
from fedroam.mobility.steered.certainty import Laid, rounding
from fedroam.mobility.steered.coverage import CoverageMap, Flyer
from fedroam.mobility.steered.targets import OtherTargets
from fedroam.mobility.steered.unserved import UnservedGrid

_EPS = float(np.finfo(np.float64).eps)
_NEAR = 0.01  # a distance of class mixes below which its error is told by another bound
_AT_ONCE = 1 << 22  # distances that are held at once: 32 MiB
_FLYERS = 16  # at once: more make no distance cheaper
_PRODUCT = 1 << 19  # multiplications of a matrix product: it stays in a core's cache, and on that core
_BLOCK = 1 << 11  # points at once, for one flyer: they stay in a core's cache


@dataclass(frozen=True)
class Rounded:
    """Distances that are known but for the last digits.

    values: float64 [places]; off: how far each of them may be off, but those at `close`, int64 [some], which may be off
    by `close_off`.
    """

    values: np.ndarray
    off: float
    close: np.ndarray
    close_off: float

    def doubt(self, shares: np.ndarray | None = None) -> float:
        """How far a sum of some of them may be off, or of these shares of them, float64 [places]."""
        if shares is None:
            return self.off * len(self.values) + self.close_off * len(self.close)
        return self.off * float(shares.sum()) + self.close_off * float(shares[self.close].sum())


@dataclass(frozen=True)
class Sketch:
    """What the points of a grid weigh for a flyer.

    listed: of all points, in the order of their numbers, what those weigh that are listed (the points of a coverage),
    and 0 of all others; elsewhere: what each of the others weighs; others: their numbers, rising, int64. grid: points
    along a side.
    """

    listed: Rounded
    elsewhere: float
    others: np.ndarray
    grid: int

    def draw(self, value: float, avoided: OtherTargets | None) -> np.ndarray | None:
        """The point that `GridTargets.draw` gives, float64 [2]; None where the sketch does not decide it.

        value: uniform in [0, 1); avoided: others that discount a target.
        """
        if avoided is None:
            number = self._falls_on(value, None, 0)
        elif isinstance(avoided.kept, UnservedGrid):
            number = self._falls_on(value, avoided.kept, len(avoided.places))
        else:
            return None
        return None if number is None else points_at(number, self.grid)

    def _falls_on(self, value: float, unserved: UnservedGrid | None, avoided: int) -> int | None:
        # As `GridTargets` lays them: listed points, then others that lose something, then all that weigh the same.
        weights, losing, free = self.listed.values, Laid(np.zeros(0)), self.others
        joining, shares = free[:0], None
        if unserved is not None:
            shares = unserved.everywhere()
            near = unserved.near(free)
            joining, free = free[near], free[~near]
            losing = Laid(self.elsewhere * shares[joining])
        listed = Laid(weights, shares)
        before = listed.total + losing.total
        total = before + self.elsewhere * len(free)
        operations = len(weights) + len(self.others) + avoided
        doubt = self.listed.doubt(shares) + rounding(total, operations)
        target = value * total
        if (at := listed.falls_on(target, doubt)) is not None:
            return at
        if (at := losing.falls_on(target - listed.total, doubt)) is not None:
            return int(joining[at])
        if not self.elsewhere:
            return None
        number = int((target - before) / self.elsewhere)
        over = target - before - number * self.elsewhere
        sure = 3 * doubt < over < self.elsewhere - 3 * doubt and 0 <= number < len(free)
        return int(free[number]) if sure else None


class Distances:
    """Distances of class mixes to many others, by one matrix product for several flyers.

    A flyer with own samples o (by class; n in all) at a place of mix h finds samples s (u in all) at a point, and
    ||(s + o) / (u + n) - h|| = ||s - u h + o - n h|| / (u + n). The square of the norm above is a sum of products of
    what belongs to the point (s, u s, |s|^2, u^2, u, 1) and to the flyer (2 b, -2 h, 1, |h|^2, -2 h b, |b|^2, with
    b = o - n h).
    """

    def __init__(self, sums: np.ndarray) -> None:
        """sums: samples by class that are found, int64 [rows, classes]."""
        held = sums.T.astype(np.float64)
        self._samples = held.sum(axis=0)
        self._of_rows = np.concatenate(
            [
                held,
                held * self._samples,
                [(held * held).sum(axis=0), self._samples**2, self._samples, np.ones(len(sums))],
            ]
        )

    def of(self, own: np.ndarray, here: np.ndarray) -> list[Rounded]:
        """The distances of all rows, for each flyer.

        own: int64 [flyers, classes]; here: the class mixes at the flyers' places, float64 [flyers, classes]. All that
        is off by more than can be told (where a flyer has no samples) is off by infinity.
        """
        flyers, rows = len(own), len(self._samples)
        n = own.sum(axis=1, keepdims=True).astype(np.float64)
        b = own - n * here
        norm = (here * here).sum(axis=1, keepdims=True)
        cross, rest = (here * b).sum(axis=1, keepdims=True), (b * b).sum(axis=1, keepdims=True)
        of_flyers = np.concatenate([2 * b, -2 * here, np.ones((flyers, 1)), norm, -2 * cross, rest], axis=1)
        found = np.empty((flyers, rows))
        size = max(1, _PRODUCT // of_flyers.size)
        for first in range(0, rows, size):
            part = slice(first, min(first + size, rows))
            squares = of_flyers @ self._of_rows[:, part]
            np.sqrt(np.maximum(squares, 0.0, out=squares), out=squares)
            np.divide(squares, self._samples[part] + np.maximum(n, 1.0), out=found[:, part])
        # The products sum up to at most 4 (u + n)^2 in absolute values, so the square of a distance is off by at most
        # this; a distance d by it over d, and never by more than its root.
        off = 4 * (4 * own.shape[1] + 16) * _EPS
        return [
            Rounded(
                distances,
                off / _NEAR if held else math.inf,
                np.flatnonzero(distances < _NEAR),
                off**0.5,
            )
            for distances, held in zip(found, n[:, 0], strict=True)
        ]


class GridDistances:
    """Distances of class mixes at all points of a grid; 0 where no static client is heard."""

    def __init__(self, coverage: CoverageMap, cells: np.ndarray, grid: int) -> None:
        """cells: the numbers of the points of the coverage, int64 [points]."""
        self._coverage, self._cells, self._points = coverage, cells, grid**2

    def of(self, flyers: Sequence[Flyer], here: np.ndarray) -> Iterator[Rounded]:
        """For each flyer those from the mix at its place; here: float64 [flyers, classes]."""
        for found in self._in_faces(flyers, here):
            values = np.append(found.values, 0.0).take(self._face)
            yield replace(found, values=values, close=self._cells[self._coverage.faces.points(found.close)])

    def at_once(self) -> int:
        """For how many flyers it is found at once, so that the memory that takes is bounded."""
        return max(1, min(_FLYERS, _AT_ONCE // max(len(self._coverage.faces), 1)))

    def _in_faces(self, flyers: Sequence[Flyer], here: np.ndarray) -> list[Rounded]:
        if all(flyer.known.all() for flyer in flyers):
            return self._knowing_all.of(np.array([flyer.own for flyer in flyers]), here)
        return [_of_some(self._coverage, flyer, mix) for flyer, mix in zip(flyers, here, strict=True)]

    @functools.cached_property
    def _knowing_all(self) -> Distances:
        return Distances(self._coverage.sums)

    @functools.cached_property
    def _face(self) -> np.ndarray:
        """The face of each point of the grid; where nobody is heard, one behind them all."""
        found = np.full(self._points, len(self._coverage.faces))
        found[self._cells] = self._coverage.faces.of
        return found


def _of_some(coverage: CoverageMap, flyer: Flyer, here: np.ndarray) -> Rounded:
    """The distances in the faces, for one flyer that does not know everybody."""
    knows, statics, nowhere = int(flyer.known.sum()), len(flyer.known), np.zeros(0, dtype=np.int64)
    if 8 * knows < statics or not flyer.own.any():
        return Rounded(coverage.face_distances(flyer, here), 0.0, nowhere, 0.0)  # few are in reach of those
    which = np.flatnonzero(flyer.known if 2 * knows < statics else ~flyer.known)
    sums = coverage.faces.columns[:, which] @ coverage.counts[which].astype(np.float64)
    if 2 * knows >= statics:
        np.subtract(coverage.sums, sums, out=sums)
    found, every = np.empty(len(sums)), np.ones(len(here))
    for part in (slice(first, first + _BLOCK) for first in range(0, len(sums), _BLOCK)):
        mixes = sums[part] + flyer.own
        mixes /= (mixes @ every)[:, None]
        mixes -= here
        found[part] = np.sqrt(np.einsum("ij,ij->i", mixes, mixes))
    # Each share of a class is off by a unit in the last place, the root by one for each of them.
    return Rounded(found, 8 * (len(here) + 4) * _EPS, nowhere, 0.0)
