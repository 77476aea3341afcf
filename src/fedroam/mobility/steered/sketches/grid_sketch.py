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
from fedroam.mobility.steered.sketches.remaining import Remaining
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

    def sketches(self, flyers: Sequence[Flyer], here: np.ndarray, remaining: Remaining) -> Iterator[Sketch]:
        """For each flyer of a flock, in turn, a sketch of all points of the grid.

        here: the class mixes at their places, float64 [flyers, classes]; remaining: what flocks share that draw one
        after the other.
        """
        weighed = Weighed(self, Flock(flyers, here), remaining)
        # Where nobody is heard, each is alone with its own samples.
        elsewhere = np.linalg.norm(class_mix(np.array([flyer.own for flyer in flyers])) - here, axis=1)
        return (Sketch(weighed, number, weight) for number, weight in enumerate(elsewhere.tolist()))

    def remaining(self) -> Remaining:
        """What others leave of its points, for flocks that draw one after the other."""
        return Remaining(self.pieces.by_samples, self.grid)

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

    def __init__(self, listed: Listed, flock: Flock, remaining: Remaining) -> None:
        """remaining: of the listed points, which flocks that draw one after the other share."""
        self.listed, self._flock, self._remaining = listed, flock, remaining
        self.off = flock.off
        self._sums: np.ndarray | None = None  # of the blocks, as `Flock.sums` gives them
        self._kept: UnservedGrid | None = None
        self._seen = (0, 0)  # how often the remaining were summed up, and who was followed since
        self._taken = 0.0  # by others when it began
        self._added = 0  # numbers, to the sum of any block since
        self._last = 0  # who has drawn

    def laid(self, flyer: int, kept: UnservedGrid | None) -> tuple[Laid, float, float, int]:
        """The weights of the listed points for one of the flock, given what others leave.

        Also how far the sum of any of them may be off, by what distances and shares are off alone; what they may sum up
        to on the way to it; and how many numbers are added, or multiplied, for it.
        """
        left, begun = self._remaining, self._sums is not None and kept is self._kept and flyer >= self._last
        if kept is not None:
            # What a flock has not seen, as another one drew meanwhile, it has to begin with.
            begun = begun and self._seen == (left.times, left.followed)
            for count in left.look(kept):
                if begun and self._sums is not None:
                    self._flock.add(self._sums, left.pieces, left.changed, count, flyer)
                    self._added += count
            begun = begun and self._seen[0] == left.times
            self._seen = left.times, left.followed
        if not begun:
            self._begin(kept)
        assert self._sums is not None
        self._last = flyer
        laid = Laid(self._flock.of(self._sums, flyer), lambda block: self._inside(block, flyer, kept))
        weighed = float(self._flock.of(self._begun, flyer)[0])
        off, numbers = self.off * self._shares, len(self.listed.cells) + self._added
        if kept is None:
            return laid, off, weighed, numbers
        # What was left of a piece when all was summed up is what is now and what was taken since.
        off = self.off * (left.begun + 2 * left.taken)
        off += rounding(weighed + _LARGEST * left.taken, left.numbers)
        return laid, off, weighed + _LARGEST * (left.taken - self._taken), numbers

    def elsewhere(self, kept: UnservedGrid | None) -> tuple[float, float]:
        """What is left of the points that are not listed, all together, when somebody is laid; and how far it may be
        off."""
        if kept is None:
            return float(len(self.listed.unlisted)), 0.0
        return float(self._remaining.shares[-1]), rounding(*self._remaining.elsewhere)

    def _begin(self, kept: UnservedGrid | None) -> None:
        pieces = self.listed.pieces.by_samples
        weights = pieces.points if kept is None else self._remaining.shares[:-1]
        self._kept, self._sums = kept, self._flock.sums(pieces, weights)
        self._begun = self._sums.sum(axis=1, keepdims=True)
        self._shares, self._taken, self._added = float(weights.sum()), self._remaining.taken, 0

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
        left, left_off = self.weighed.elsewhere(kept)
        total = listed.total + self.elsewhere * left
        numbers += len(others) + (0 if kept is None else kept.others)
        doubt = off + self.weighed.off * left + self.elsewhere * left_off
        doubt += rounding(largest + self.elsewhere * left, numbers)
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
