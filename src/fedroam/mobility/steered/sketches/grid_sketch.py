"""Sketches of grids: what all points of a grid weigh for a flyer, but for the last digits."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedroam.mobility.grid import points_at
from fedroam.mobility.steered.coverage import CoverageMap, Flyer, class_mix
from fedroam.mobility.steered.sketches.certainty import Laid, rounding
from fedroam.mobility.steered.sketches.flock import Flock
from fedroam.mobility.steered.sketches.pieces import BLOCK, Pieces
from fedroam.mobility.steered.targets import Unserved
from fedroam.mobility.steered.unserved import UnservedGrid

_LARGEST = 1.5  # no distance of class mixes is larger: the root of 2


@dataclass(frozen=True)
class Listed:
    """The points of a grid that are listed: those of a coverage, in pieces.

    coverage: of the static clients; cells: the numbers of its points, rising, int64 [points]; grid: points along a
    side.
    """

    coverage: CoverageMap
    cells: np.ndarray
    grid: int

    def sketches(self, flyers: Sequence[Flyer], here: np.ndarray) -> Iterator[Sketch]:
        """For each flyer of a flock, in turn, a sketch of all points of the grid.

        here: the class mixes at their places, float64 [flyers, classes].
        """
        weighed = Weighed(self, Flock(flyers, here))
        # Where nobody is heard, each is alone with its own samples.
        elsewhere = np.linalg.norm(class_mix(np.array([flyer.own for flyer in flyers])) - here, axis=1)
        return (Sketch(weighed, number, weight) for number, weight in enumerate(elsewhere.tolist()))

    @functools.cached_property
    def pieces(self) -> Pieces:
        """The pieces of all points of the grid."""
        return Pieces.of_grid(self.coverage, self.cells, self.grid**2)

    @functools.cached_property
    def unlisted(self) -> np.ndarray:
        """The numbers of all other points, rising, int64."""
        return np.delete(np.arange(self.grid**2), self.cells)


class Weighed:
    """What the listed points weigh for the flyers of a flock, who draw in turn, less what others take meanwhile."""

    def __init__(self, listed: Listed, flock: Flock) -> None:
        self.listed, self._flock = listed, flock
        self.off = flock.off
        self._sums: np.ndarray | None = None  # of the blocks, as `Flock.sums` gives them
        self._kept: UnservedGrid | None = None
        # Shares of the points when that was begun, all together, and what of these was taken since.
        self._shares, self._taken = 0.0, 0.0
        self._last = 0  # who has drawn

    def laid(self, flyer: int, kept: UnservedGrid | None) -> tuple[Laid, float, float, int]:
        """The weights of the listed points for one of the flock, given what others leave.

        Also how far the sum of any of them may be off, by what their distances are off alone; what they may sum up to
        on the way to it; and how many numbers are added, or multiplied, for it.
        """
        begun = self._sums is not None and kept is self._kept and flyer >= self._last
        if begun and kept is not None:
            self._follow(kept, flyer)
        # Where much has been taken, what is left is known less well.
        if not begun or 2 * self._taken > self._shares:
            self._begin(kept)
        assert self._sums is not None
        self._last = flyer
        laid = Laid(self._flock.of(self._sums, flyer), lambda block: self._inside(block, flyer, kept))
        largest = float(self._flock.of(self._begun, flyer)[0]) + _LARGEST * self._taken
        return laid, self.off * (self._shares + 2 * self._taken), largest, self._numbers

    def _begin(self, kept: UnservedGrid | None) -> None:
        pieces = self.listed.pieces.by_samples if self._flock.knows_all else self.listed.pieces
        weights = pieces.points
        if kept is not None:
            self._left, self._followed = kept.everywhere().copy(), len(kept.windows)
            weights = pieces.shares(self._left)
        self._kept, self._sums = kept, self._flock.sums(pieces, weights)
        self._begun = self._sums.sum(axis=1, keepdims=True)
        self._shares, self._taken, self._numbers = float(weights.sum()), 0.0, len(self.listed.cells)

    def _follow(self, kept: UnservedGrid, flyer: int) -> None:
        """Subtract what others have taken since."""
        assert self._sums is not None
        grid = self.listed.grid, self.listed.grid
        pieces, now, before = self.listed.pieces, kept.everywhere().reshape(grid), self._left.reshape(grid)
        for window in kept.windows[self._followed :]:
            change = now[window] - before[window]
            before[window] = now[window]
            which = pieces.of.reshape(grid)[window]
            self._flock.add(self._sums, pieces, which.ravel(), change.ravel(), flyer)
            self._taken -= float(change.sum())
            self._numbers += change.size
        self._followed = len(kept.windows)

    def _inside(self, block: int, flyer: int, kept: UnservedGrid | None) -> tuple[int, np.ndarray]:
        """The number of the first point of a block, and what the points in it weigh that are listed; 0 of others."""
        weights, first = self._flock.distances(self.listed.pieces, block, flyer), block * BLOCK
        if kept is not None:
            weights *= kept.everywhere()[first : first + len(weights)]
        return first, weights


@dataclass(frozen=True)
class Sketch:
    """What the points of a grid weigh for a flyer.

    weighed: the listed points, for its flock; number: of the flyer in it; elsewhere: what each of the others weighs.
    """

    weighed: Weighed
    number: int
    elsewhere: float

    def draw(self, value: float, kept: Unserved | None) -> np.ndarray | None:
        """The point that `GridTargets.draw` gives, float64 [2]; None where the sketch does not decide it.

        value: uniform in [0, 1); kept: what is left by others that discount a target.
        """
        if kept is None or isinstance(kept, UnservedGrid):
            number = self._falls_on(value, kept)
            return None if number is None else points_at(number, self.weighed.listed.grid)
        return None

    def _falls_on(self, value: float, kept: UnservedGrid | None) -> int | None:
        # As `GridTargets` lays them: listed points, then others that lose something, then all that weigh the same.
        others = self.weighed.listed.unlisted
        listed, off, largest, numbers = self.weighed.laid(self.number, kept)
        left = float(len(others)) if kept is None else float(kept.at_cells(others).sum())
        total = listed.total + self.elsewhere * left
        numbers += len(others) + (0 if kept is None else kept.others)
        doubt = off + self.weighed.off * left + rounding(largest + self.elsewhere * left, numbers)
        target = value * total
        if (at := listed.falls_on(target, doubt)) is not None:
            return at
        losing, free, joining = Laid.of(np.zeros(0)), others, others[:0]
        if kept is not None:
            near = kept.near(others)
            joining, free = others[near], others[~near]
            losing = Laid.of(self.elsewhere * kept.at_cells(joining))
        if (at := losing.falls_on(target - listed.total, doubt)) is not None:
            return int(joining[at])
        if not self.elsewhere:
            return None
        before = listed.total + losing.total
        place = int((target - before) / self.elsewhere)
        over = target - before - place * self.elsewhere
        sure = 3 * doubt < over < self.elsewhere - 3 * doubt and 0 <= place < len(free)
        return int(free[place]) if sure else None
