"""Sketches: what all points of a grid weigh for several flyers at once, but for the last digits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedroam.mobility.grid import points_at
from fedroam.mobility.steered.certainty import Laid, rounding
from fedroam.mobility.steered.coverage import CoverageMap, Flyer
from fedroam.mobility.steered.targets import OtherTargets
from fedroam.mobility.steered.unserved import UnservedGrid

_EPS = float(np.finfo(np.float64).eps)
_NEAR = 0.01  # a distance of class mixes below which its error is told by another bound
_AT_ONCE = 1 << 22  # distances that are held at once: 32 MiB
_BLOCK = 1 << 11  # points at once, for several flyers: they stay in a core's cache


@dataclass(frozen=True)
class Sketch:
    """What the points of a grid weigh for a flyer.

    weights: float64 [points], of those listed (the points of a coverage), each off by little; doubt: by how much sums
    of them may be off; elsewhere: what each other point weighs; cells: the numbers of the listed points, rising;
    others: those of the others, rising; both int64. grid: points along a side.
    """

    weights: np.ndarray
    doubt: float
    elsewhere: float
    cells: np.ndarray
    others: np.ndarray
    grid: int

    def draw(self, value: float, avoided: OtherTargets | None) -> np.ndarray | None:
        """The point that `GridTargets.draw` gives, float64 [2]; None where the sketch does not decide it.

        value: uniform in [0, 1); avoided: others that discount a target.
        """
        if avoided is None:
            number = self._falls_on(value, None)
        elif isinstance(avoided.kept, UnservedGrid):
            number = self._falls_on(value, avoided.kept)
        else:
            return None
        return None if number is None else points_at(number, self.grid)

    def _falls_on(self, value: float, unserved: UnservedGrid | None) -> int | None:
        # As `GridTargets` lays them: listed points, then others that lose something, then all that weigh the same.
        listed, losing, free = Laid(self.weights), Laid(np.zeros(0)), self.others
        joining = free[:0]
        if unserved is not None:
            listed = Laid(self.weights * unserved.at_cells(self.cells))
            near = unserved.near(free)
            joining, free = free[near], free[~near]
            losing = Laid(self.elsewhere * unserved.at_cells(joining))
        before = listed.total + losing.total
        total = before + self.elsewhere * len(free)
        doubt = self.doubt + rounding(total, len(self.cells) + 2 * len(self.others))
        target = value * total
        if (at := listed.falls_on(target, doubt)) is not None:
            return int(self.cells[at])
        if (at := losing.falls_on(target - listed.total, doubt)) is not None:
            return int(joining[at])
        if not self.elsewhere:
            return None
        number = int((target - before) / self.elsewhere)
        over = target - before - number * self.elsewhere
        sure = 3 * doubt < over < self.elsewhere - 3 * doubt and 0 <= number < len(free)
        return int(free[number]) if sure else None


class Distances:
    """Distances of class mixes at all points of a coverage, by one matrix product for several flyers.

    A flyer with own samples o (by class; n in all) at a place of mix h finds samples s (u in all) at a point, and
    ||(s + o) / (u + n) - h|| = ||s - u h + o - n h|| / (u + n). The square of the norm above is a sum of products of
    what belongs to the point (s, u s, |s|^2, u^2, u, 1) and to the flyer (2 b, -2 h, 1, |h|^2, -2 h b, |b|^2, with
    b = o - n h).
    """

    def __init__(self, sums: np.ndarray) -> None:
        """sums: samples by class at each point, int64 [points, classes]."""
        held = sums.T.astype(np.float64)
        self._samples = held.sum(axis=0)
        self._of_points = np.concatenate(
            [
                held,
                held * self._samples,
                [(held * held).sum(axis=0), self._samples**2, self._samples, np.ones(len(sums))],
            ]
        )

    def of(self, own: np.ndarray, here: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The distances, float64 [flyers, points], and how far sums of some of each flyer's may be off, [flyers].

        own: int64 [flyers, classes]; here: the class mixes at the flyers' places, float64 [flyers, classes]. All that
        is off by more than can be told (where a flyer has no samples) has an infinite doubt.
        """
        flyers, points = len(own), len(self._samples)
        n = own.sum(axis=1, keepdims=True).astype(np.float64)
        b = own - n * here
        norm = (here * here).sum(axis=1, keepdims=True)
        cross, rest = (here * b).sum(axis=1, keepdims=True), (b * b).sum(axis=1, keepdims=True)
        of_flyers = np.concatenate([2 * b, -2 * here, np.ones((flyers, 1)), norm, -2 * cross, rest], axis=1)
        found = np.empty((flyers, points))
        for first in range(0, points, _BLOCK):
            part = slice(first, first + _BLOCK)
            squares = of_flyers @ self._of_points[:, part]
            np.sqrt(np.maximum(squares, 0.0, out=squares), out=squares)
            np.divide(squares, self._samples[part] + np.maximum(n, 1.0), out=found[:, part])
        near = np.array([np.count_nonzero(distances < _NEAR) for distances in found])
        # The products sum up to at most 4 (u + n)^2 in absolute values, so the square of a distance is off by at most
        # this; a distance d by it over d, and never by more than its root.
        off = 4 * (4 * own.shape[1] + 16) * _EPS
        doubt = near * np.sqrt(off) + points * off / _NEAR
        return found, np.where(n[:, 0] > 0, doubt, np.inf)


def distances_of(
    coverage: CoverageMap, every: Distances, flyers: Sequence[Flyer], here: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The distances at all points of a coverage from the mixes `here`, float64 [flyers, classes], and how far sums may
    be off, float64 [flyers]: see `Distances.of`."""
    if all(flyer.known.all() for flyer in flyers):
        return every.of(np.array([flyer.own for flyer in flyers]), here)
    found = [_of_some(coverage, flyer, mix) for flyer, mix in zip(flyers, here, strict=True)]
    return np.array([distances for distances, _ in found]), np.array([doubt for _, doubt in found])


def _of_some(coverage: CoverageMap, flyer: Flyer, here: np.ndarray) -> tuple[np.ndarray, float]:
    """The distances, float64 [points], and their doubt, for one flyer that does not know everybody."""
    knows, statics = int(flyer.known.sum()), len(flyer.known)
    if 8 * knows < statics or not flyer.own.any():
        return coverage.distances(flyer, here), 0.0  # few points are in reach of those
    which = np.flatnonzero(flyer.known if 2 * knows < statics else ~flyer.known)
    sums = coverage.columns[:, which] @ coverage.counts[which].astype(np.float64)
    if 2 * knows >= statics:
        np.subtract(coverage.sums, sums, out=sums)
    found, every = np.empty(len(sums)), np.ones(len(here))
    for part in (slice(first, first + _BLOCK) for first in range(0, len(sums), _BLOCK)):
        mixes = sums[part] + flyer.own
        mixes /= (mixes @ every)[:, None]
        mixes -= here
        found[part] = np.sqrt(np.einsum("ij,ij->i", mixes, mixes))
    # Each share of a class is off by a unit in the last place, the root by one for each of them.
    return found, len(sums) * 8 * (len(here) + 4) * _EPS


def batches(flyers: Sequence[Flyer], points: int) -> list[Sequence[Flyer]]:
    """The flyers in groups of which the distances at so many points are held at once."""
    size = max(1, _AT_ONCE // max(points, 1))
    return [flyers[first : first + size] for first in range(0, len(flyers), size)]
