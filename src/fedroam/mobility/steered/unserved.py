"""What others leave to serve around the points of a grid or of a rectangle, kept while they draw."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, SupportsIndex

import numpy as np

from fedroam import native
from fedroam.mobility.distance import within_reach
from fedroam.mobility.steered.coverage import CoverageMap, near_pairs
from fedroam.mobility.steered.targets import OtherTargets, overlap
from fedroam.mobility.steered.windows import NONE, take

MOST_CELLS = 1 << 22  # of a grid all of which is kept: 36 MiB
MANY = 1 << 14  # points of a grid from which on compiling what is done around each other pays
_AT_ONCE = 1 << 10  # others that compiled code is told of at once


class UnservedGrid:
    """All points of a grid: see `Unserved`.

    Others whose places are added in the order of `OtherTargets.places` leave the very same shares. `windows` are the
    parts of the grid outside of which each of them has left all as it was: first row and end, first column and end.
    It lives as long as a round's draws, and is not copied: compiled code has the addresses of its arrays.
    """

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("what others leave of a grid is neither copied nor pickled")

    def __init__(self, grid: int, cells: np.ndarray, reach: float, discount: float) -> None:
        """cells: the numbers of the points of the coverage, int64 [points]."""
        self._grid, self._cells = grid, cells
        self.others, self.windows = 0, list[tuple[int, int, int, int]]()
        self._span = int(min(2 * reach, grid - 1))
        around = np.arange(-self._span, self._span + 1)
        dx, dy = np.meshgrid(around, around, indexing="ij")
        self._factors = 1 - discount * overlap(np.hypot(dx, dy), reach)
        # Whom others come near, by the distance: what they leave there may be everything.
        self._close = within_reach(dx, dy, 2 * reach)
        self._none_left = self._factors == 0
        self._left = np.ones((grid, grid))
        self._near = np.zeros((grid, grid), dtype=bool)
        self._taken = np.zeros((grid, grid), dtype=bool)
        self._take: Callable[[int], int] | None = None
        self._places = np.empty(2 * _AT_ONCE, dtype=np.int64)
        if grid**2 >= MANY and (compiled := native.compiled(take)) is not None:
            changing = (self._left, self._near, self._taken, self._factors)
            widths = (_widths(self._close), _widths(self._none_left))
            flat = (each.reshape(-1) for each in changing)
            self._take = compiled.given(*flat, *widths, grid, self._span, self._places)

    @property
    def window_size(self) -> int:
        """How many points a window has at most."""
        return int((2 * self._span + 1) ** 2)

    @classmethod
    def of(cls, grid: int, cells: np.ndarray, others: OtherTargets) -> UnservedGrid | None:
        """What these others leave; None where the grid is too large to keep, or others head for no points of it."""
        places = others.places
        if grid**2 > MOST_CELLS or (places % 1).any() or places.min() < 1 or places.max() > grid:
            return None
        found = cls(grid, cells, others.reach, others.discount)
        found.add(places)
        return found

    def add(self, places: np.ndarray) -> None:
        """More others head for these places, float64 [others, 2], m."""
        self.others += len(places)
        span, last = self._span, self._grid
        numbers = (places - 1).astype(np.int64)
        for x, y in numbers.tolist():
            window = max(0, x - span), min(last, x + span + 1), max(0, y - span), min(last, y + span + 1)
            self.windows.append(window)
            if self._take is None:
                self._take_slowly(window, x, y)
        if self._take is not None:
            for some in (numbers[first : first + _AT_ONCE] for first in range(0, len(numbers), _AT_ONCE)):
                self._places[: 2 * len(some)] = some.reshape(-1)
                self._take(len(some))

    def _take_slowly(self, window: tuple[int, int, int, int], x: int, y: int) -> None:
        """`take` of one place, where it is not compiled."""
        there = slice(*window[:2]), slice(*window[2:])
        own = tuple(
            slice(each.start - at + self._span, each.stop - at + self._span)
            for each, at in zip(there, (x, y), strict=True)
        )
        self._left[there] *= self._factors[own]
        self._near[there] |= self._close[own]
        self._taken[there] |= self._none_left[own]

    def at(self, rows: np.ndarray) -> np.ndarray:
        """The shares left around the points in these rows of the coverage, float64 [rows]."""
        return self.at_cells(self._cells[rows])

    def taken(self, rows: np.ndarray) -> np.ndarray:
        """Whether one of the others leaves nothing around the points in these rows, bool [rows]."""
        return np.asarray(self._taken.ravel()[self._cells[rows]])

    def at_cells(self, cells: np.ndarray) -> np.ndarray:
        """The shares left around points of these numbers, float64 [cells]."""
        return np.asarray(self._left.ravel()[cells])

    def everywhere(self) -> np.ndarray:
        """The shares left around all points, by their numbers, float64 [grid^2]; they change with what is added."""
        return self._left.reshape(-1)

    def all_near(self) -> np.ndarray:
        """The numbers of all points that lie within 2 reach of another's place, int64."""
        return np.flatnonzero(self._near)

    def near(self, cells: np.ndarray) -> np.ndarray:
        """Whether the points of these numbers lie within 2 reach of another's place, bool [cells]."""
        return np.asarray(self._near.ravel()[cells])


class UnservedPoints:
    """The points of a coverage, wherever they lie: see `Unserved`."""

    def __init__(self, coverage: CoverageMap, discount: float) -> None:
        self._coverage, self._discount = coverage, discount
        self.others = 0
        self._left = np.ones(len(coverage.points))
        self._taken = np.zeros(len(coverage.points), dtype=bool)

    def add(self, places: np.ndarray) -> None:
        """More others head for these places, float64 [others, 2], m."""
        self.others += len(places)
        points, reach = self._coverage.points, self._coverage.reach
        at, near = near_pairs(places, points, self._coverage.tree, 2 * reach)
        factors = 1 - self._discount * overlap(np.hypot(*(points[near] - places[at]).T), reach)
        np.multiply.at(self._left, near, factors)
        self._taken[near[factors == 0]] = True

    def at(self, rows: np.ndarray) -> np.ndarray:
        """The shares left around the points in these rows of the coverage, float64 [rows]."""
        return np.asarray(self._left[rows])

    def taken(self, rows: np.ndarray) -> np.ndarray:
        """Whether one of the others leaves nothing around the points in these rows, bool [rows]."""
        return np.asarray(self._taken[rows])


def _widths(flags: np.ndarray) -> np.ndarray:
    """How far from its middle each row reaches that is true there, on both sides alike; int64 [rows]."""
    middle = flags.shape[1] // 2
    return np.where(flags[:, middle], flags[:, middle:].sum(axis=1) - 1, NONE)
