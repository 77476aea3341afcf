"""Coverage: which static clients are heard at the points that may be flown to, and how classes are mixed there."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from fedroam import native
from fedroam.mobility.distance import within_reach
from fedroam.mobility.grid import disc
from fedroam.mobility.steered.faces import Faces
from fedroam.mobility.steered.greedy_cover import UNDECIDED, WHOLE, Heard, cover
from fedroam.mobility.steered.targets import Targets

if TYPE_CHECKING:
    from scipy.spatial import cKDTree

NOBODY = -1
MANY = 200  # static clients that are known, from which on compiling a cover of them pays

_FLYERS = 1 << 8  # whose places are looked around in one go: with an infinite reach they hear everybody
_AT_ONCE = 1 << 12  # points whose class mixes are found in one go: they stay in a core's cache


@dataclass(frozen=True)
class Flyer:
    """A mobile client that looks for a destination.

    here: where it is, float64 [2]; own: its samples by class, int64 [classes]; known: the static clients that it
    knows, bool [statics]; mix: the class mix at its place, float64 [classes], where that was found already.
    """

    here: np.ndarray
    own: np.ndarray
    known: np.ndarray
    mix: np.ndarray | None = None


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
        offsets = disc(reach, grid)
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

    @functools.cached_property
    def static_tree(self) -> cKDTree:
        """The static clients' places, to ask who is near."""
        return tree_of(self.places)

    @functools.cached_property
    def tree(self) -> cKDTree:
        """The points, to ask which are near."""
        return tree_of(self.points)

    @functools.cached_property
    def faces(self) -> Faces:
        """The points by whom they hear."""
        return Faces.of_points(self.covers)

    @functools.cached_property
    def sums(self) -> np.ndarray:
        """Samples by class of all static clients that are heard in each face, int64 [faces, classes]."""
        return np.asarray(self.faces.covers @ self.counts)

    def heard(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Who is within reach of which of `places`, float64 [places, 2]: the index of a place and that of a static
        client for each pair, int64 [pairs] both, in no order."""
        return near_pairs(places, self.places, self.static_tree, self.reach)

    def allowed(self, known: np.ndarray) -> np.ndarray:
        """The points that those know of who know the static clients in `known` (bool [statics]); bool [points]."""
        found = np.ones(len(self.points), dtype=bool)
        found[self._owned] = np.append(known, True)[self.owners[self._owned]].all(axis=1)
        return found

    @functools.cached_property
    def _owned(self) -> np.ndarray:
        return np.flatnonzero((self.owners != NOBODY).any(axis=1))

    def mix_here(self, flyer: Flyer) -> np.ndarray:
        """The class mix at the place where the flyer is, float64 [classes]."""
        if flyer.mix is not None:
            return flyer.mix
        return np.asarray(self.mixes_at(flyer.here[None], flyer.own[None], flyer.known[None])[0])

    def mixes_at(self, places: np.ndarray, own: np.ndarray, known: np.ndarray) -> np.ndarray:
        """The class mixes at the places of several flyers, float64 [flyers, classes]: of the static clients that are
        heard there and known, and their own samples.

        places: float64 [flyers, 2]; own: int64 [flyers, classes]; known: bool [flyers, statics].
        """
        found = np.empty(own.shape)
        for part in (slice(first, first + _FLYERS) for first in range(0, len(places), _FLYERS)):
            at, static = self.heard(places[part])
            knows = known[part][at, static]
            shape = (len(places[part]), len(self.places))
            heard = sparse.coo_array(
                (np.ones(knows.sum(), np.int64), (at[knows], static[knows])), shape=shape
            )
            found[part] = class_mix(heard @ self.counts + own[part])
        return found

    def distances(self, flyer: Flyer, here: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """Distance d(L) = ||D_L - D_here||_2 of the class mix at the points (all, or those in `rows`) from `here`.

        The mix at L is over the static clients within reach of L that are known and the mobile client itself:
        Reza et al., Eqs. 4 and 5. float64 [points].
        """
        if rows is None:
            return np.asarray(self.face_distances(flyer, here)[self.faces.of])
        return self._distances_in(self.faces.of[rows], flyer, here)

    def face_distances(self, flyer: Flyer, here: np.ndarray) -> np.ndarray:
        """The same at the points of each face, float64 [faces]."""
        if flyer.known.all():
            return _distances(self.sums, flyer.own, here)
        # Wherever nobody is known, the client is alone with its own samples.
        knowing = self.faces.columns[:, np.flatnonzero(flyer.known)].indices
        near = np.bincount(knowing, minlength=len(self.faces)) > 0
        found = np.full(len(near), _distances(np.zeros((1, len(here)), np.int64), flyer.own, here)[0])
        found[near] = self._distances_in(np.flatnonzero(near), flyer, here)
        return found

    def _distances_in(self, faces: np.ndarray, flyer: Flyer, here: np.ndarray) -> np.ndarray:
        if flyer.known.all():
            return _distances(self.sums[faces], flyer.own, here)
        return _distances(self.faces.covers[faces] @ (self.counts * flyer.known[:, None]), flyer.own, here)

    def targets(self, flyer: Flyer, rows: np.ndarray) -> Targets:
        """The points in `rows`, weighed by the distance of their class mix from the one here."""
        return Targets(self.points[rows], self.distances(flyer, self.mix_here(flyer), rows), rows=rows)

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
        client not yet covered. Only points that are `allowed` are chosen. stream: of this alone; how far it is drawn
        from does not say anything.
        """
        faces, allowed = self.faces, self.allowed(known)
        gain = np.bincount(faces.columns[:, np.flatnonzero(known)].indices, minlength=len(faces))
        # Faces in their order: by how many they cover that are left, then by how many of all.
        each = int(gain.max(initial=0)) + 1 if most_of_all else 1
        worth = each * gain + (gain if most_of_all else 0)
        open_to = np.zeros(len(faces), dtype=bool)
        open_to[faces.of[allowed]] = True
        worth[~open_to] = -1
        if seats is None and known.sum() >= MANY and (compiled := _compiled()) is not None:
            before = stream.bit_generator.state
            draws = stream.integers(WHOLE, size=known.sum() + MANY, dtype=np.uint32).astype(np.int64)
            alive, chosen = np.arange(len(faces)), np.empty(known.sum(), dtype=np.int64)
            best, room = np.empty((2, len(self.points)), dtype=np.int64)
            memory = alive, len(alive), best, room, chosen
            uncovered, left = int(known.sum()), known.copy()
            args = self._heard, worth.copy(), each, allowed, left, uncovered, draws, len(draws), *memory
            if (count := compiled(*args)) != UNDECIDED:
                return chosen[:count]
            stream.bit_generator.state = before
        return self._centres(known, each, worth, allowed, stream, seats)

    def _centres(
        self,
        known: np.ndarray,
        each: int,
        worth: np.ndarray,
        allowed: np.ndarray,
        stream: np.random.Generator,
        seats: np.ndarray | None,
    ) -> np.ndarray:
        """The same; each, worth: as `cover` takes them."""
        faces = self.faces
        # What they are worth only falls: none comes to the highest one, so that those who have it are looked for once.
        highest, best = 0, np.zeros(0, dtype=np.int64)
        heard_in, begin = faces.columns.indices, faces.columns.indptr.tolist()
        left, chosen = known.copy(), list[int]()
        while left.any():
            if seats is not None and chosen:
                seated = np.unique(seats[left & allowed[seats]])
                found = worth[faces.of[seated]]
                best = seated[found == found.max()]
            elif not len(best := best[worth[faces.of[best]] == highest]):
                highest = worth.max()
                points = np.sort(faces.points(np.flatnonzero(worth == highest)))
                best = points[allowed[points]]
            row = int(best[stream.integers(len(best))])
            chosen.append(row)
            covered = self.covers.indices[self.covers.indptr[row] : self.covers.indptr[row + 1]]
            covered = covered[left[covered]]
            left[covered] = False
            there = [heard_in[begin[static] : begin[static + 1]] for static in covered.tolist()]
            np.subtract.at(worth, np.concatenate(there), each)
        return np.array(chosen, dtype=np.int64)

    @functools.cached_property
    def _heard(self) -> Heard:
        """Who is heard in which face, as `cover` takes it."""
        covers, columns = self.faces.covers, self.faces.columns
        points, first = self.faces.by_face
        arrays = self.faces.of, covers.indptr, covers.indices, columns.indptr, columns.indices, first, points
        return Heard(*(np.ascontiguousarray(each, dtype=np.int64) for each in arrays))


def _compiled() -> Callable[..., int] | None:
    """`cover`, compiled where that can be."""
    return native.compiled(cover)


def class_mix(sums: np.ndarray) -> np.ndarray:
    """Shares of the classes: samples by class (int64 [..., classes]) over their sum; zeros where there are none."""
    total = sums.sum(axis=-1, keepdims=True)
    return np.asarray(np.divide(sums, total, out=np.zeros(sums.shape), where=total > 0))


def tree_of(points: np.ndarray) -> cKDTree:
    """What finds near ones among points, float64 [points, 2], quickly."""
    from scipy.spatial import cKDTree

    return cKDTree(points)


def near_pairs(
    places: np.ndarray, points: np.ndarray, tree: cKDTree, reach: float
) -> tuple[np.ndarray, np.ndarray]:
    """Which of `points` (whose tree is `tree`) lie within reach of which of `places`, inclusive.

    places: float64 [places, 2]; points: float64 [points, 2]. The index of a place and that of a point for each pair,
    int64 [pairs] both, in no order.
    """
    if not len(points) or not len(places):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    if math.isinf(reach):
        at, near_at = np.indices((len(places), len(points)))
        return at.ravel(), near_at.ravel()
    # Candidates with a margin, then a test of the distance itself: as the contact rule "radius" decides.
    near = tree_of(places).sparse_distance_matrix(tree, reach * (1 + 1e-9), output_type="ndarray")
    gap = places[near["i"]] - points[near["j"]]
    near = near[within_reach(gap[:, 0], gap[:, 1], reach)]
    return near["i"], near["j"]


def _distances(sums: np.ndarray, own: np.ndarray, here: np.ndarray) -> np.ndarray:
    """The distances from `here` of the class mixes of `own` samples with others, int64 [points, classes]; [points]."""
    found = np.empty(len(sums))
    for part in (slice(first, first + _AT_ONCE) for first in range(0, len(sums), _AT_ONCE)):
        found[part] = np.linalg.norm(class_mix(sums[part] + own) - here, axis=1)
    return found


def _covers(points: np.ndarray, places: np.ndarray, reach: float) -> sparse.csr_array:
    """1 where a static client lies within reach of a point, inclusive; int64 CSR [points, statics]."""
    shape = (len(points), len(places))
    if math.isinf(reach):
        return sparse.csr_array(np.ones(shape, dtype=np.int64))
    i, j = near_pairs(points, places, tree_of(places), reach)
    return sparse.coo_array((np.ones(len(i), dtype=np.int64), (i, j)), shape=shape).tocsr()
