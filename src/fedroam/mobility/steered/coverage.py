"""Coverage: which static clients are heard at the points that may be flown to, and how classes are mixed there."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from fedroam.mobility.distance import within_reach
from fedroam.mobility.steered.targets import Targets

NOBODY = -1


@dataclass(frozen=True)
class Flyer:
    """A mobile client that looks for a destination.

    here: where it is, float64 [2]; own: its samples by class, int64 [classes]; known: the static clients that it
    knows, bool [statics].
    """

    here: np.ndarray
    own: np.ndarray
    known: np.ndarray


@dataclass(frozen=True)
class CoverageMap:
    """Points of a grid, or candidate points of a rectangle, and the static clients within reach of each.

    places: float64 [statics, 2], m; counts: int64 [statics, classes], samples of each by class; reach: radio range,
    m; points: float64 [points, 2]; covers: int64 CSR [points, statics], 1 where the static client lies within reach
    of the point, inclusive; owners: int64 [points, 2], the static clients that one must know to know of the point
    (-1: none).
    """

    places: np.ndarray
    counts: np.ndarray
    reach: float
    points: np.ndarray
    covers: sparse.csr_array
    owners: np.ndarray

    @classmethod
    def of_grid(cls, places: np.ndarray, counts: np.ndarray, reach: float, grid: int) -> CoverageMap:
        """The points of a grid at which somebody is heard, ordered by x, then y; all others cover nobody.

        Cost grows with the points covered: statics times the points of a disc.
        """
        span = int(min(reach, grid - 1))
        around = np.arange(-span, span + 1)
        dx, dy = (offset.ravel() for offset in np.meshgrid(around, around, indexing="ij"))
        # Distances, not their squares: see `within` of the grid.
        inside = within_reach(dx, dy, reach)
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
        covers = sparse.coo_array((np.ones(len(row), np.int64), (row, static)), shape=shape).tocsr()
        points = np.stack([covered // grid + 1, covered % grid + 1], axis=1).astype(np.float64)
        return cls(places, counts.astype(np.int64), reach, points, covers, np.full((len(points), 2), NOBODY))

    @classmethod
    def of_candidates(
        cls, places: np.ndarray, counts: np.ndarray, reach: float, points: np.ndarray, owners: np.ndarray
    ) -> CoverageMap:
        """Candidate points anywhere, and the place of every static client that none of them would cover."""
        covers = _covers(points, places, reach)
        if len(alone := np.flatnonzero(covers.sum(axis=0) == 0)):
            points = np.concatenate([points, places[alone]])
            owners = np.concatenate([owners, np.stack([alone, np.full(len(alone), NOBODY)], axis=1)])
            covers = _covers(points, places, reach)
        return cls(places, counts.astype(np.int64), reach, points, covers, owners)

    def in_reach(self, here: np.ndarray) -> np.ndarray:
        """The static clients within reach of `here`, bool [statics]."""
        gap = self.places - here
        return within_reach(gap[:, 0], gap[:, 1], self.reach)

    def allowed(self, known: np.ndarray) -> np.ndarray:
        """The points that those know of who know the static clients in `known` (bool [statics]); bool [points]."""
        return np.asarray(np.append(known, True)[self.owners].all(axis=1))

    def mix_here(self, flyer: Flyer) -> np.ndarray:
        """The class mix at the place where the flyer is, float64 [classes]."""
        heard = flyer.known & self.in_reach(flyer.here)
        return class_mix(heard @ self.counts + flyer.own)

    def distances(self, flyer: Flyer, here: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """Distance d(L) = ||D_L - D_here||_2 of the class mix at the points (all, or those in `rows`) from `here`.

        The mix at L is over the static clients within reach of L that are known and the mobile client itself:
        Reza et al., Eqs. 4 and 5. float64 [points].
        """
        covers = self.covers if rows is None else self.covers[rows]
        mixes = class_mix(covers @ (self.counts * flyer.known[:, None]) + flyer.own)
        return np.asarray(np.linalg.norm(mixes - here, axis=1))

    def targets(self, flyer: Flyer, rows: np.ndarray) -> Targets:
        """The points in `rows`, weighed by the distance of their class mix from the one here."""
        return Targets(self.points[rows], self.distances(flyer, self.mix_here(flyer), rows))

    def centres(
        self,
        known: np.ndarray,
        most_of_all: bool,
        stream: np.random.Generator,
        seats: np.ndarray | None = None,
    ) -> np.ndarray:
        """Rows of points that together cover all `known` clients (bool [statics]), greedily; int64 [clusters].

        Each covers most of those not yet covered. Ties go to those that cover most of all the known ones if
        `most_of_all`, then to one at random. seats: int64 [statics]; given, all but the first are the row of a
        client not yet covered. Only points that are `allowed` are chosen.
        """
        covers = sparse.csr_array(self.covers * known[None, :])
        if not (allowed := self.allowed(known)).all():
            covers = sparse.csr_array(covers * allowed[:, None])
        covers.eliminate_zeros()
        columns = covers.tocsc()
        left = known.copy()
        gain = np.asarray(covers.sum(axis=1)).astype(np.int64)
        of_all = gain.copy()
        chosen: list[int] = []
        while left.any():
            open_to = gain
            if seats is not None and chosen:
                open_to = np.zeros_like(gain)
                open_to[seats[left]] = gain[seats[left]]
            best = np.flatnonzero(open_to == open_to.max())
            if most_of_all:
                best = best[of_all[best] == of_all[best].max()]
            row = int(best[stream.integers(len(best))])
            chosen.append(row)
            covered = covers.indices[covers.indptr[row] : covers.indptr[row + 1]]
            for static in covered[left[covered]]:
                gain[columns.indices[columns.indptr[static] : columns.indptr[static + 1]]] -= 1
            left[covered] = False
        return np.array(chosen, dtype=np.int64)


def class_mix(sums: np.ndarray) -> np.ndarray:
    """Shares of the classes: samples by class (int64 [..., classes]) over their sum; zeros where there are none."""
    total = sums.sum(axis=-1, keepdims=True)
    return np.asarray(np.divide(sums, total, out=np.zeros(sums.shape), where=total > 0))


def _covers(points: np.ndarray, places: np.ndarray, reach: float) -> sparse.csr_array:
    """1 where a static client lies within reach of a point, inclusive; int64 CSR [points, statics]."""
    shape = (len(points), len(places))
    if not len(points) or not len(places):
        return sparse.csr_array(shape, dtype=np.int64)
    if math.isinf(reach):
        return sparse.csr_array(np.ones(shape, dtype=np.int64))
    from scipy.spatial import cKDTree

    # Candidates with a margin, then a test of the distance itself: as the contact rule "radius" decides.
    near = cKDTree(points).sparse_distance_matrix(cKDTree(places), reach * (1 + 1e-9), output_type="ndarray")
    gap = points[near["i"]] - places[near["j"]]
    near = near[within_reach(gap[:, 0], gap[:, 1], reach)]
    ones = np.ones(len(near), dtype=np.int64)
    return sparse.coo_array((ones, (near["i"], near["j"])), shape=shape).tocsr()
