"""Moderated variance: what a study's contrasts together say of the spread of each of them.

With four seeds a variance has three degrees of freedom. A study has dozens of contrasts of one unit, whose variances
are alike, so that each is shrunk to what they have in common (Smyth, Stat. Appl. Genet. Mol. Biol. 3 (2004) 3:
variances are drawn from a scaled inverse chi-square distribution, whose scale and degrees of freedom follow from mean
and variance of their logarithms).

That supposes independent contrasts, and those of a study share runs and seeds. Three things make up for it:

- **Degrees of freedom as if pooled from as many contrasts as are independent.** A mean of m variances of d degrees of
  freedom has d m^2 / sum r_ij^2 of them (Satterthwaite), r_ij being the correlation of two contrasts over seeds. Few
  seeds make observed correlations too large, which errs on the safe side: n seeds never give more than (n - 1)^2.
  Logarithms of correlated variances vary together, so less of their scatter is noise: that, too, goes by r_ij^2.
- **A variance is never made smaller than observed**, so a contrast that is more spread than others keeps its own.
- **Only half of the degrees of freedom that are gained are used** (`SHARE`): calibrated by simulation, so that the
  family-wise error of Holm's method is at most the level it is given, for independent, equally correlated, blocked and
  factor-driven contrasts of equal and of unequal variances (tests/analysis/statistics/test_moderated.py).

What is controlled is the error over the contrasts of a study, not that of one whose spread is unlike all others'; so
primary claims, which are tested singly, are judged by their own variance (see `verdicts`). Below `FEWEST` seeds or
contrasts nothing is moderated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.special import digamma, zeta

from fedroam.analysis.statistics.paired import Evidence, VariancePrior, every, examined

SHARE = 0.5  # of the degrees of freedom gained
FEWEST = 3  # seeds, and contrasts of a unit


def moderate(evidence: Sequence[Evidence]) -> list[Evidence]:
    """The evidence of a study's claims, each tested with the spread that all of them together suggest.

    Contrasts of one unit that have the same seeds are compared with each other; a claim's parts are contrasts of
    their own. One that stands in several claims counts once. Those without a unit share nothing but that: bounds,
    distances between models and shares are of quite different sizes. They keep their own spread.
    """
    groups: dict[tuple[str, tuple[int, ...], int], dict[tuple[float, ...], np.ndarray]] = {}
    for leaf in _leaves(evidence):
        x = _finite(leaf)
        if leaf.unit and leaf.n >= FEWEST and x is not None:
            groups.setdefault(_group(leaf), {})[tuple(x)] = x
    spreads = {group: spread_of(np.stack(list(rows.values()))) for group, rows in groups.items()}
    return [_moderated(each, spreads) for each in evidence]


def _leaves(evidence: Sequence[Evidence]) -> Iterator[Evidence]:
    for each in evidence:
        yield from _leaves(each.parts) if each.parts else (each,)


def _group(leaf: Evidence) -> tuple[str, tuple[int, ...], int]:
    return leaf.unit, leaf.seeds, leaf.n


def _finite(leaf: Evidence) -> np.ndarray | None:
    """The end of its numbers that is finite; None where neither is."""
    for side in (leaf.values, leaf.most):
        if side and np.isfinite(side).all():
            return np.asarray(side)
    return None


def _moderated(
    each: Evidence, spreads: dict[tuple[str, tuple[int, ...], int], VariancePrior | None]
) -> Evidence:
    if each.parts:
        return every([_moderated(part, spreads) for part in each.parts])
    spread = spreads.get(_group(each))
    return each if spread is None else examined(each, spread)


def spread_of(values: np.ndarray) -> VariancePrior | None:
    """What contrasts [contrasts, seeds] say of their variances; None where they are too few to say anything.

    Contrasts that are equal in all seeds have no logarithm of a variance: they are left out, which makes the common
    variance larger.
    """
    around = values - values.mean(axis=1, keepdims=True)
    moving = np.ptp(values, axis=1) > 1e-12 * np.maximum(1.0, np.abs(values).max(axis=1))
    if moving.sum() < FEWEST or values.shape[1] < FEWEST:
        return None
    variance, weight, df = (float(one) for one in fitted(around[moving]))
    return VariancePrior(variance, weight, df)


def fitted(residuals: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The common variance, its weight in degrees of freedom (may be infinite), and the degrees of freedom of a test.

    residuals: [..., contrasts, seeds], each around its mean over seeds and none of them all 0.
    """
    m, d = residuals.shape[-2], residuals.shape[-1] - 1
    squares = (residuals**2).sum(axis=-1)
    unit = residuals / np.sqrt(squares)[..., None]
    # The sum of r_ij^2 over all pairs, by the smaller of the two products.
    correlations = ((np.swapaxes(unit, -1, -2) @ unit) ** 2).sum(axis=(-1, -2))
    alike = (correlations - m) / (m * (m - 1))
    logs = np.log(squares / d) - digamma(d / 2) + math.log(d / 2)
    noise = zeta(2, d / 2) * (1 - alike)  # trigamma
    excess = logs.var(axis=-1, ddof=1) - noise
    weight = 2 * _inverse_trigamma(np.maximum(excess, 1e-10))
    weight = np.where(excess > 1e-10, weight, np.inf)
    known = np.where(np.isinf(weight), 1e10, weight)
    variance = np.exp(logs.mean(axis=-1) + digamma(known / 2) - np.log(known / 2))
    most = np.minimum(d + weight, d * m * m / correlations)
    return variance, weight, d + SHARE * np.maximum(most - d, 0.0)


def _inverse_trigamma(x: np.ndarray) -> np.ndarray:
    """The y whose trigamma is x > 0, by Newton's method on 1 / trigamma (Smyth 2004, appendix).

    trigamma(y) = zeta(2, y) and its derivative is -2 zeta(3, y): what `polygamma` computes, besides a digamma that it
    throws away.
    """
    given = np.ravel(np.asarray(x, dtype=np.float64))
    y, going = 0.5 + 1 / given, np.arange(given.size)
    for _ in range(50):  # each until it has arrived: of thousands a few take long
        value = zeta(2, y[going])
        step = value * (1 - value / given[going]) / (-2 * zeta(3, y[going]))
        y[going] += step
        going = going[-step / y[going] >= 1e-10]
        if not going.size:
            break
    return y.reshape(np.shape(x))
