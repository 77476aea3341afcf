"""What a grid offers to those who fly by data: who is covered from where, and how classes are mixed there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse


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
        return ((self.points[:, 0] - 1) * self.grid + self.points[:, 1] - 1).astype(np.int64)

    def uncovered_point(self, number: int) -> np.ndarray:
        """The grid point that is `number` (from 0) among those that cover nobody, ordered by x, then y."""
        # Before the k-th covered point lie cells[k] - k uncovered ones.
        before = self._cells - np.arange(len(self._cells))
        at = number + int(np.searchsorted(before, number, side="right"))
        return np.array([at // self.grid + 1, at % self.grid + 1], dtype=np.float64)


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
    coverage = sparse.csr_array(atlas.coverage * known[None, :])
    coverage.eliminate_zeros()
    columns = coverage.tocsc()
    left = known.copy()
    gain = np.asarray(coverage.sum(axis=1)).astype(np.int64)
    every = gain.copy()
    seats = np.array([atlas.row(place) for place in atlas.places])
    centres: list[np.ndarray] = []
    while left.any():
        allowed = gain
        if sought == "clients" and centres:
            allowed = np.zeros_like(gain)
            allowed[seats[left]] = gain[seats[left]]
        best = np.flatnonzero(allowed == allowed.max())
        if ties == "coverage":
            best = best[every[best] == every[best].max()]
        chosen = int(best[stream.integers(len(best))])
        centres.append(atlas.points[chosen])
        covered = coverage.indices[coverage.indptr[chosen] : coverage.indptr[chosen + 1]]
        for static in covered[left[covered]]:
            gain[columns.indices[columns.indptr[static] : columns.indptr[static + 1]]] -= 1
        left[covered] = False
    return np.array(centres).reshape(-1, 2)
