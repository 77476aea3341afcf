"""Sketches: what all points of a grid weigh for a flyer, but for the last digits."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedroam.mobility.grid import points_at
from fedroam.mobility.steered.certainty import Laid, rounding
from fedroam.mobility.steered.coverage import CoverageMap, Flyer
from fedroam.mobility.steered.distances import FLYERS, Distances, Rounded, distances_to
from fedroam.mobility.steered.targets import Unserved
from fedroam.mobility.steered.unserved import UnservedGrid

_AT_ONCE = 1 << 22  # distances that are held at once: 32 MiB


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

    def draw(self, value: float, kept: Unserved | None) -> np.ndarray | None:
        """The point that `GridTargets.draw` gives, float64 [2]; None where the sketch does not decide it.

        value: uniform in [0, 1); kept: what is left by others that discount a target.
        """
        if kept is None or isinstance(kept, UnservedGrid):
            number = self._falls_on(value, kept)
            return None if number is None else points_at(number, self.grid)
        return None

    def _falls_on(self, value: float, unserved: UnservedGrid | None) -> int | None:
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
        operations = len(weights) + len(self.others) + (unserved.others if unserved is not None else 0)
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
        return max(1, min(FLYERS, _AT_ONCE // max(len(self._coverage.faces), 1)))

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
    return distances_to(sums, flyer.own, here)
