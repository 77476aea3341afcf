"""Draws by weights that are known but for their last digits: what they decide for certain, and where they do not.

A destination is drawn by very many weights, which are sums, products and roots; found in the order that is quickest,
they differ from those of the rule as it stands by some units in the last place. That matters only to a draw that falls
so near to the end of a weight. `Laid.falls_on` tells these from all others, which fall on the same weight either way.
"""

from __future__ import annotations

import functools

import numpy as np

_EPS = float(np.finfo(np.float64).eps)
_BLOCK = 512  # weights that are summed up together, before those of one block are laid end to end
_TINY = 1e-290  # below it rounding is not relative any more


def rounding(total: float, operations: int) -> float:
    """How far sums of weights may be from each other by rounding alone.

    total: of all weights, none of which is negative; operations: of each sum, and of each weight, at most.
    """
    return total * _EPS * (2 * operations + 64) + operations * _TINY


class Laid:
    """Weights laid end to end, float64 [weights], or these shares of them, float64 [weights]; none is negative."""

    def __init__(self, weights: np.ndarray, shares: np.ndarray | None = None) -> None:
        self._weights, self._shares = weights, shares
        self.blocks = np.cumsum(self._sums())

    @functools.cached_property
    def total(self) -> float:
        """The sum of all."""
        return float(self.blocks[-1]) if len(self.blocks) else 0.0

    def falls_on(self, target: float, doubt: float) -> int | None:
        """The index of the weight that `target` falls on, from 0 to the total; None where that is not certain.

        doubt: how far the end of a weight, the total, and so the target, may be from where they belong.
        """
        block = int(np.searchsorted(self.blocks, target, side="right"))
        if block == len(self.blocks):
            return None
        before = float(self.blocks[block - 1]) if block else 0.0
        first = block * _BLOCK
        ends = before + np.cumsum(self._part(slice(first, first + _BLOCK)))
        at = int(np.searchsorted(ends, target, side="right"))
        if at == len(ends):
            return None
        begin, end = (float(ends[at - 1]) if at else before), float(ends[at])
        return first + at if begin + 3 * doubt < target and target + 3 * doubt < end else None

    def _part(self, part: slice) -> np.ndarray:
        return self._weights[part] if self._shares is None else self._weights[part] * self._shares[part]

    def _sums(self) -> np.ndarray:
        """The sum of each block."""
        whole = len(self._weights) // _BLOCK * _BLOCK
        blocks = self._weights[:whole].reshape(-1, _BLOCK)
        if self._shares is None:
            sums = blocks.sum(axis=1)
        else:  # without laying out the products
            sums = np.einsum("bw,bw->b", blocks, self._shares[:whole].reshape(-1, _BLOCK))
        return np.append(sums, self._part(slice(whole, None)).sum()) if whole < len(self._weights) else sums
