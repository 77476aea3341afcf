"""The smallest value of a key at which something is reached: how large a radius, how many moving clients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedroam.analysis.statistics.paired import Evidence, above
from fedroam.errors import InputError


@dataclass(frozen=True)
class Threshold:
    """Where a rising quantity reaches its bound, over the keys that were tried.

    first: the smallest key whose mean over seeds reaches it; sure: the smallest key from which on it is established
    that it does, at confidence 1 - alpha; ruled_out: the largest key up to which it is established that it does
    not; so the true smallest key lies above ruled_out and is at most sure. by_seed: the smallest key of each seed.
    None: there is none (None in by_seed: never). evidence: of each key, in rising order, on value - share * bound.
    """

    keys: tuple[float, ...]
    first: float | None
    sure: float | None
    ruled_out: float | None
    by_seed: tuple[float | None, ...]
    evidence: tuple[Evidence, ...]

    def words(self) -> str:
        """The result in one sentence."""
        if not self.evidence or self.evidence[0].n == 0:
            return "no seed has run at every key"
        at = (
            "never reached on average" if self.first is None else f"reached on average from {self.first:g} on"
        )
        sure = "established nowhere" if self.sure is None else f"established from {self.sure:g} on"
        out = "" if self.ruled_out is None else f", ruled out up to {self.ruled_out:g}"
        each = ", ".join("never" if key is None else f"{key:g}" for key in self.by_seed)
        return f"{at}; {sure}{out} (by seed: {each})"


def smallest_reaching(
    keys: Sequence[float],
    values: np.ndarray,
    bound: float | Sequence[float] | np.ndarray,
    *,
    share: float = 1.0,
    alpha: float = 0.05,
) -> Threshold:
    """The smallest key whose value reaches `share` of a bound. values: [seeds, keys]; bound: one, or one a seed.

    The quantity is supposed to rise with the key. Tests go from the largest key downwards, each one-sided at level
    alpha, and stop at the first that does not reject; so the chance that `sure` is too small is at most alpha,
    without any correction (fixed-sequence test, as for the minimum effective dose: Tamhane, Hochberg & Dunnett,
    Biometrics 52 (1996) 21). `ruled_out` is found likewise from the smallest key upwards. Fewer than two seeds
    establish nothing.
    """
    order = np.argsort(np.asarray(keys, dtype=np.float64), kind="stable")
    sorted_keys = [float(keys[k]) for k in order]
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] != len(sorted_keys) or not sorted_keys:
        raise InputError(f"values of shape {table.shape}: wanted is [seeds, {len(sorted_keys)} keys]")
    if not 0 < share <= 1 or not 0 < alpha < 0.5:
        raise InputError(f"share = {share:g}, alpha = {alpha:g}: allowed are 0 < share <= 1, 0 < alpha < 0.5")
    bounds = np.broadcast_to(np.asarray(bound, dtype=np.float64), (len(table),))
    margins = table[:, order] - share * bounds[:, None]
    evidence = tuple(above(column) for column in margins.T)
    with np.errstate(invalid="ignore"):
        reached = [k for k, e in zip(sorted_keys, evidence, strict=True) if e.estimate >= 0]
    sure = _last_of_run(sorted_keys[::-1], [e.p_holds <= alpha for e in evidence][::-1])
    out = _last_of_run(sorted_keys, [e.p_fails <= alpha for e in evidence])
    by_seed = [next((k for k, m in zip(sorted_keys, row, strict=True) if m >= 0), None) for row in margins]
    return Threshold(tuple(sorted_keys), reached[0] if reached else None, sure, out, tuple(by_seed), evidence)


def _last_of_run(keys: Sequence[float], rejected: Sequence[bool]) -> float | None:
    """The last key of the unbroken run of rejections that begins at the first key."""
    last = None
    for key, yes in zip(keys, rejected, strict=True):
        if not yes or math.isnan(key):
            break
        last = key
    return last
