"""Draws by weights that are known but for their last digits: what they decide for certain, and where they do not.

A destination is drawn by very many weights, which are sums, products and roots; found in the order that is quickest,
they differ from those of the rule as it stands by some units in the last place. That matters only to a draw that falls
so near to the end of a weight. `Laid.falls_on` tells these from all others, which fall on the same weight either way.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

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
    """Weights laid end to end, none of which is negative, a block after the other."""

    def __init__(self, sums: np.ndarray, inside: Callable[[int], tuple[int, np.ndarray]]) -> None:
        """sums: of the weights of each block, float64 [blocks]; inside: for a block the index of its first weight, and
        its weights, float64."""
        self._ends, self._inside = sums.cumsum(), inside

    @classmethod
    def of(cls, weights: np.ndarray, shares: np.ndarray | None = None) -> Laid:
        """These weights, float64 [weights], or these shares of them, float64 [weights]."""

        def inside(block: int) -> tuple[int, np.ndarray]:
            part = slice(block * _BLOCK, (block + 1) * _BLOCK)
            return block * _BLOCK, weights[part] if shares is None else weights[part] * shares[part]

        return cls(_sums(weights, shares), inside)

    @functools.cached_property
    def total(self) -> float:
        """The sum of all."""
        return float(self._ends[-1]) if len(self._ends) else 0.0

    def falls_on(self, target: float, doubt: float) -> int | None:
        """The index of the weight that `target` falls on, from 0 to the total; None where that is not certain.

        doubt: how far the end of a weight, the total, and so the target, may be from where they belong.
        """
        block = int(self._ends.searchsorted(target, side="right"))
        if block == len(self._ends):
            return None
        before = float(self._ends[block - 1]) if block else 0.0
        first, weights = self._inside(block)
        ends = before + weights.cumsum()
        at = int(ends.searchsorted(target, side="right"))
        if at == len(ends):
            return None
        begin, end = (float(ends[at - 1]) if at else before), float(ends[at])
        return first + at if begin + 3 * doubt < target and target + 3 * doubt < end else None


def _sums(weights: np.ndarray, shares: np.ndarray | None) -> np.ndarray:
    """The sums of the weights, or of these shares of them, of each block."""
    whole = len(weights) // _BLOCK * _BLOCK
    blocks = weights[:whole].reshape(-1, _BLOCK)
    if shares is None:
        sums, rest = blocks.sum(axis=1), weights[whole:]
    else:  # without laying out the products
        sums = np.einsum("bw,bw->b", blocks, shares[:whole].reshape(-1, _BLOCK))
        rest = weights[whole:] * shares[whole:]
    return np.append(sums, rest.sum()) if len(rest) else sums
