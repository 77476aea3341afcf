"""Distances of class mixes for several flyers at once, known but for their last digits."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

_EPS = float(np.finfo(np.float64).eps)
_NEAR = 0.01  # a distance of class mixes below which its error is told by another bound
_PRODUCT = 1 << 19  # multiplications of a matrix product: it stays in a core's cache, and on that core

FLYERS = 16  # at once: more make no distance cheaper


@dataclass(frozen=True)
class Rounded:
    """Distances that are known but for the last digits.

    values: float64 [places]; off: how far each of them may be off, but those at `close`, int64 [some], which may be off
    by `close_off`.
    """

    values: np.ndarray
    off: float
    close: np.ndarray
    close_off: float

    def doubt(self, shares: np.ndarray | None = None) -> float:
        """How far a sum of some of them may be off, or of these shares of them, float64 [places]."""
        if shares is None:
            return self.off * len(self.values) + self.close_off * len(self.close)
        return self.off * float(shares.sum()) + self.close_off * float(shares[self.close].sum())


class Distances:
    """Distances of class mixes to many others, by one matrix product for several flyers.

    A flyer with own samples o (by class; n in all) at a place of mix h finds samples s (u in all) at a point, and
    ||(s + o) / (u + n) - h|| = ||s - u h + o - n h|| / (u + n). The square of the norm above is a sum of products of
    what belongs to the point (s, u s, |s|^2, u^2, u, 1) and to the flyer (2 b, -2 h, 1, |h|^2, -2 h b, |b|^2, with
    b = o - n h).
    """

    def __init__(self, sums: np.ndarray) -> None:
        """sums: samples by class that are found, int64 or float64 [rows, classes]."""
        held = sums.T.astype(np.float64, order="C")
        self._samples = held.sum(axis=0)
        self._of_rows = np.concatenate(
            [
                held,
                held * self._samples,
                [(held * held).sum(axis=0), self._samples**2, self._samples, np.ones(len(sums))],
            ]
        )

    def of(self, own: np.ndarray, here: np.ndarray) -> list[Rounded]:
        """The distances of all rows, for each flyer.

        own: int64 [flyers, classes]; here: the class mixes at the flyers' places, float64 [flyers, classes]. All that
        is off by more than can be told (where a flyer has no samples) is off by infinity.
        """
        flyers, rows = len(own), len(self._samples)
        n = own.sum(axis=1, keepdims=True).astype(np.float64)
        b = own - n * here
        norm = (here * here).sum(axis=1, keepdims=True)
        cross, rest = (here * b).sum(axis=1, keepdims=True), (b * b).sum(axis=1, keepdims=True)
        of_flyers = np.concatenate([2 * b, -2 * here, np.ones((flyers, 1)), norm, -2 * cross, rest], axis=1)
        found = np.empty((flyers, rows))
        size = max(1, _PRODUCT // of_flyers.size)
        for first in range(0, rows, size):
            part = slice(first, min(first + size, rows))
            squares = of_flyers @ self._of_rows[:, part]
            np.sqrt(np.maximum(squares, 0.0, out=squares), out=squares)
            np.divide(squares, self._samples[part] + np.maximum(n, 1.0), out=found[:, part])
        return [
            _rounded(distances, own.shape[1], held)
            for distances, held in zip(found, n[:, 0].tolist(), strict=True)
        ]


def _rounded(distances: np.ndarray, classes: int, samples: float) -> Rounded:
    """Distances that are found by sums of products, float64 [places], of a flyer with so many samples."""
    off = off_by_products(classes) if samples else math.inf
    return Rounded(distances, off, np.flatnonzero(distances < _NEAR), _off_square(classes) ** 0.5)


def off_by_products(classes: int) -> float:
    """How far distances may be off that are found by products of matrices, but those that are close."""
    return _off_square(classes) / _NEAR


def _off_square(classes: int) -> float:
    # The products sum up to at most 4 (u + n)^2 in absolute values, so the square of a distance is off by at most
    # this; a distance d by it over d, and never by more than its root.
    return 4 * (4 * classes + 16) * _EPS
