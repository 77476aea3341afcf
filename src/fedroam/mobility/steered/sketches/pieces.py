"""Pieces: points of a coverage, in their order, that are summed up together."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from fedroam.mobility.steered.coverage import CoverageMap
from fedroam.mobility.steered.sketches.distances import Distances

BLOCK = 1 << 11  # points: with fewer there are more pieces, with more a look into a block takes longer


@dataclass(frozen=True)
class Pieces:
    """The points of a grid, in their order, in blocks: those of a block that hear the same static clients are one
    piece, as what they weigh is the same, and is summed up together. Points that hear nobody are in none.

    of: the piece of each point, int64 [points], or the number of pieces; block: that of each piece, int64 [pieces];
    covers: int64 CSR [pieces, statics], 1 where a static client is heard; counts: their samples by class, float64
    [statics, classes]; sums: samples by class that are heard, float64 [pieces, classes].
    """

    of: np.ndarray
    block: np.ndarray
    covers: sparse.csr_array
    counts: np.ndarray
    sums: np.ndarray

    @classmethod
    def of_grid(cls, coverage: CoverageMap, cells: np.ndarray, points: int) -> Pieces:
        """Those of so many points, the pieces of one block after those of the other.

        cells: the numbers of the points of the coverage, int64.
        """
        faces = coverage.faces
        numbers, piece = np.unique(cells // BLOCK * len(faces) + faces.of, return_inverse=True)
        block, face = np.divmod(numbers, max(len(faces), 1))
        of = np.full(points, len(numbers))
        of[cells] = piece
        counts = coverage.counts.astype(np.float64)
        return cls(of, block, faces.covers[face], counts, coverage.sums[face].astype(np.float64))

    def __len__(self) -> int:
        return len(self.block)

    @functools.cached_property
    def by_samples(self) -> Pieces:
        """The same in the order of how many samples are heard, as `SumsOfAll` is quickest."""
        order = np.argsort(self.held, kind="stable")
        rank = np.append(order, len(order))
        rank[order] = np.arange(len(order))
        return Pieces(rank[self.of], self.block[order], self.covers[order], self.counts, self.sums[order])

    @functools.cached_property
    def blocks(self) -> int:
        """How many blocks there are."""
        return -(-len(self.of) // BLOCK)

    @functools.cached_property
    def held(self) -> np.ndarray:
        """Samples that are heard, of all classes, float64 [pieces]."""
        return np.asarray(self.sums.sum(axis=1))

    @functools.cached_property
    def points(self) -> np.ndarray:
        """How many points each piece has, float64 [pieces]."""
        return self.shares(np.ones(len(self.of)))

    def shares(self, shares: np.ndarray) -> np.ndarray:
        """Of such shares of the points (float64 [points]) the sum over each piece, float64 [pieces]."""
        return np.bincount(self.of, shares, minlength=len(self) + 1)[:-1]

    @functools.cached_property
    def all(self) -> np.ndarray:
        """The numbers of all pieces, int64."""
        return np.arange(len(self))

    @functools.cached_property
    def in_blocks(self) -> list[tuple[Handed, np.ndarray]]:
        """The pieces of each block, each with a weight of 1; and for each of its points the number of its piece among
        these, or how many they are. For pieces in the order of blocks."""
        first = np.searchsorted(self.block, np.arange(self.blocks + 1)).tolist()
        found = []
        for k, (begin, end) in enumerate(itertools.pairwise(first)):
            of = np.minimum(self.of[k * BLOCK : (k + 1) * BLOCK], end) - begin
            found.append((Handed(self.all[begin:end], np.ones(end - begin)), of))
        return found

    @functools.cached_property
    def to_blocks(self) -> Handed:
        """Where a kernel adds each piece: to its block."""
        return Handed(self.block)

    @functools.cached_property
    def to_themselves(self) -> Handed:
        """Where a kernel adds each piece: to its own number in its block."""
        return Handed(self.all - np.searchsorted(self.block, self.block))

    @functools.cached_property
    def products(self) -> Distances:
        """Their distances for flyers who know everybody, as products of matrices."""
        return Distances(self.sums)

    @functools.cached_property
    def for_all(self) -> Handed:
        """What `SumsOfAll` takes of them."""
        return Handed(self.sums, self.held)

    @functools.cached_property
    def for_some(self) -> Handed:
        """What `SumsOfSome` takes of them."""
        at, heard = (
            np.ascontiguousarray(each, np.int64) for each in (self.covers.indptr, self.covers.indices)
        )
        return Handed(at, heard, self.counts, self.counts.sum(axis=1))


class Handed:
    """Arrays that kernels are handed again and again: to ask each for its address takes as long as to use some."""

    def __init__(self, *arrays: np.ndarray) -> None:
        self.arrays = tuple(np.ascontiguousarray(each) for each in arrays)
        self.addresses = [each.ctypes.data for each in self.arrays]
