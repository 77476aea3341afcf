"""What a grid offers to those who fly by data: who is covered from where, and how classes are mixed there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from fedroam.mobility.grid import within


@dataclass(frozen=True)
class Atlas:
    """The grid points from which somebody still can be heard, and whom.

    places: float64 [statics, 2]; points: float64 [points, 2], ordered by x, then y; coverage: int64 CSR [points,
    statics], 1 where the static client lies within reach of the point; counts: int64 [statics, classes], samples
    of each by class. All other grid points cover nobody; `grid` points lie along a side.
    """

    grid: int
    places: np.ndarray
    points: np.ndarray
    coverage: sparse.csr_array
    counts: np.ndarray

    @classmethod
    def of(cls, places: np.ndarray, counts: np.ndarray, reach: float, grid: int) -> Atlas:
        """The atlas of static clients at `places` (float64 [statics, 2], grid points), within reach inclusive.

        Cost grows with the points covered: statics times the points of a disc.
        """
        span = int(min(reach, grid - 1))
        around = np.arange(-span, span + 1)
        dx, dy = (offset.ravel() for offset in np.meshgrid(around, around, indexing="ij"))
        # Distances, not their squares: see `within` of the grid.
        inside = np.ones(len(dx), dtype=bool) if math.isinf(reach) else np.hypot(dx, dy) <= reach
        offsets = np.stack([dx[inside], dy[inside]], axis=1)
        cells, statics = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for i, place in enumerate(places.astype(np.int64)):
            reached = place + offsets
            reached = reached[((reached >= 1) & (reached <= grid)).all(axis=1)]
            cells.append((reached[:, 0] - 1) * grid + reached[:, 1] - 1)
            statics.append(np.full(len(reached), i))
        cell, static = np.concatenate(cells), np.concatenate(statics)
        covered, row = np.unique(cell, return_inverse=True)
        shape = (len(covered), len(places))
        coverage = sparse.coo_array((np.ones(len(row), np.int64), (row, static)), shape=shape).tocsr()
        points = np.stack([covered // grid + 1, covered % grid + 1], axis=1).astype(np.float64)
        return cls(grid, places, points, coverage, counts.astype(np.int64))

    @property
    def uncovered(self) -> int:
        """How many grid points cover nobody."""
        return self.grid * self.grid - len(self.points)

    def sums(self, known: np.ndarray) -> np.ndarray:
        """Samples of each class held within reach of each covered point by the static clients in `known`
        (bool [statics]); int64 [points, classes].
        """
        return np.asarray(self.coverage @ (self.counts * known[:, None]))

    def row(self, place: np.ndarray) -> int | None:
        """The row of a grid point among the covered points, or None."""
        at = int(np.searchsorted(self._cells, (place[0] - 1) * self.grid + place[1] - 1))
        return at if at < len(self.points) and (self.points[at] == place).all() else None

    @cached_property
    def _cells(self) -> np.ndarray:
        """The number of each covered point among all grid points, rising."""
        return self.numbers(self.points)

    def uncovered_point(self, number: int) -> np.ndarray:
        """The grid point that is `number` (from 0) among those that cover nobody, ordered by x, then y."""
        return self._free_point(self._cells, number)

    def uncovered_around(self, places: np.ndarray, reach: float) -> np.ndarray:
        """The grid points within `reach` of any of `places` (grid points [places, 2]) that cover nobody.

        float64 [points, 2], ordered by x, then y.
        """
        discs = [self.numbers(within(place, reach, self.grid)) for place in places]
        found = np.setdiff1d(np.concatenate(discs), self._cells)
        return np.stack([found // self.grid + 1, found % self.grid + 1], axis=1).astype(np.float64)

    def uncovered_beyond(self, points: np.ndarray, number: int) -> np.ndarray:
        """As `uncovered_point`, among those that are none of `points` either (grid points that cover nobody)."""
        return self._free_point(np.sort(np.append(self._cells, self.numbers(points))), number)

    def _free_point(self, cells: np.ndarray, number: int) -> np.ndarray:
        """The grid point that is `number` among those whose numbers are not in `cells` (rising)."""
        # Before the k-th of the cells lie cells[k] - k others.
        before = cells - np.arange(len(cells))
        at = number + int(np.searchsorted(before, number, side="right"))
        return np.array([at // self.grid + 1, at % self.grid + 1], dtype=np.float64)

    def numbers(self, points: np.ndarray) -> np.ndarray:
        """The numbers of grid points among all of them, int64 [points]."""
        return ((points[:, 0] - 1) * self.grid + points[:, 1] - 1).astype(np.int64)


def class_mix(sums: np.ndarray) -> np.ndarray:
    """Shares of the classes: samples by class (int64 [..., classes]) over their sum; zeros where there are none."""
    total = sums.sum(axis=-1, keepdims=True)
    return np.divide(sums, total, out=np.zeros(sums.shape), where=total > 0)


def mix_distances(
    atlas: Atlas, here: np.ndarray, own: np.ndarray, known: np.ndarray
) -> tuple[np.ndarray, float]:
    """Distance d(L) = ||D_L - D_here||_2 of the class mix at every covered point, and that of all other points.

    The mix at L is over the static clients within reach of L that are known (bool [statics]) and the mobile
    client itself (`own`, int64 [classes]): Reza et al., Eqs. 4 and 5.
    """
    sums = atlas.sums(known) + own
    row = atlas.row(here)
    present = class_mix(own if row is None else sums[row])
    return np.linalg.norm(class_mix(sums) - present, axis=1), float(np.linalg.norm(class_mix(own) - present))


def cluster_centres(
    atlas: Atlas, known: np.ndarray, ties: str, sought: str, stream: np.random.Generator
) -> np.ndarray:
    """Greedy cover of the known static clients (bool [statics]); centres float64 [clusters, 2].

    Each centre covers most of those not yet covered. ties = "coverage": then most of all (Reza et al., Alg. 1),
    then at random; "random": at random (Jahani et al., Alg. 3). sought = "grid": any grid point; "clients":
    all but the first only where a known client not yet covered is (the text of both papers).
    """
    seats = np.array([atlas.row(place) for place in atlas.places]) if sought == "clients" else None
    return atlas.points[greedy_cover(atlas.coverage, known, ties == "coverage", stream, seats)]


def greedy_cover(
    coverage: sparse.csr_array,
    known: np.ndarray,
    by_all: bool,
    stream: np.random.Generator,
    seats: np.ndarray | None = None,
    allowed: np.ndarray | None = None,
) -> np.ndarray:
    """Rows of `coverage` (int64 CSR [points, statics]) that cover all `known` clients (bool [statics]), as chosen.

    Each covers most of those not yet covered; ties by the number of all known ones covered (`by_all`), then at
    random. seats: int64 [statics]; given, all but the first are the row of a client not yet covered. allowed: bool
    [points], which rows may be chosen; every known client must be in one of them. int64 [clusters].
    """
    coverage = sparse.csr_array(coverage * known[None, :])
    if allowed is not None:
        coverage = sparse.csr_array(coverage * allowed[:, None])
    coverage.eliminate_zeros()
    columns = coverage.tocsc()
    left = known.copy()
    gain = np.asarray(coverage.sum(axis=1)).astype(np.int64)
    every = gain.copy()
    centres: list[int] = []
    while left.any():
        open_to = gain
        if seats is not None and centres:
            open_to = np.zeros_like(gain)
            open_to[seats[left]] = gain[seats[left]]
        best = np.flatnonzero(open_to == open_to.max())
        if by_all:
            best = best[every[best] == every[best].max()]
        chosen = int(best[stream.integers(len(best))])
        centres.append(chosen)
        covered = coverage.indices[coverage.indptr[chosen] : coverage.indptr[chosen + 1]]
        for static in covered[left[covered]]:
            gain[columns.indices[columns.indptr[static] : columns.indptr[static + 1]]] -= 1
        left[covered] = False
    return np.array(centres, dtype=np.int64)
