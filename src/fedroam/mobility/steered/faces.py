"""Faces: the sets of static clients that points hear, of which there are far fewer than there are points."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from scipy import sparse

_FACTOR = 0x9E3779B97F4A7C15  # odd, and without a pattern in its bits: 2^64 over the golden ratio


@dataclass(frozen=True)
class Faces:
    """The points of a coverage by whom they hear: those of one face hear the same static clients.

    Named after the faces into which the circles of the radio reach around the static clients cut the plane.

    covers: int64 CSR [faces, statics], 1 where a static client is heard; of: int64 [points], the face of each point.
    Faces come in the order of their first points, so that what is looked up for points side by side lies side by side.
    """

    covers: sparse.csr_array
    of: np.ndarray

    @classmethod
    def of_points(cls, covers: sparse.csr_array) -> Faces:
        """covers: int64 CSR [points, statics], its indices sorted, 1 where a static client is heard."""
        # Each set has a number, which sorts far sooner than the set; that two have the same one is all but impossible.
        factors = np.cumprod(np.full(covers.shape[1], _FACTOR, dtype=np.uint64)).view(np.int64)
        _, first, of = np.unique(covers @ factors, return_index=True, return_inverse=True)
        if not _same_rows(covers, first[of]):
            return cls(covers, np.arange(covers.shape[0]))
        order = np.argsort(first)
        rank = np.empty(len(first), dtype=np.int64)
        rank[order] = np.arange(len(first))
        return cls(covers[first[order]], rank[of])

    def __len__(self) -> int:
        return int(self.covers.shape[0])

    @functools.cached_property
    def columns(self) -> sparse.csc_array:
        """`covers`, by static client."""
        return self.covers.tocsc()

    def points(self, faces: np.ndarray) -> np.ndarray:
        """The points of these faces, int64 [faces]: one face after the other; int64 [points]."""
        points, first = self.by_face
        count = first[faces + 1] - first[faces]
        return np.asarray(
            points[np.repeat(first[faces] - np.cumsum(count) + count, count) + np.arange(count.sum())]
        )

    @functools.cached_property
    def by_face(self) -> tuple[np.ndarray, np.ndarray]:
        """All points by their faces, and where those of each face begin."""
        first = np.append(0, np.cumsum(np.bincount(self.of, minlength=len(self))))
        return np.argsort(self.of, kind="stable"), first


def _same_rows(rows: sparse.csr_array, like: np.ndarray) -> bool:
    """Whether each row is the same as the one that `like` names, int64 [rows]."""
    count, begin = np.diff(rows.indptr), rows.indptr[:-1]
    if (count != count[like]).any():
        return False
    there = np.repeat(begin[like] - begin, count) + np.arange(len(rows.indices))
    return bool((rows.indices == rows.indices[there]).all())
