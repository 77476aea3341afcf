"""Tests over seeds. Everything that is judged is one number a seed; seeds are independent, so Student's t applies.

The number is a difference of two variants with the same seed (paired), a trend over several, or a plain value. A
test asks on which side of a bound its mean lies, in both directions: `p_holds` is the p-value of the hypothesis that
a claim is false (small: the claim holds), `p_fails` of the hypothesis that it is true (small: it does not hold).

What varies within a seed may be dependent in any way: a trend is one slope a seed and its test is over seeds. Page's
test (Page 1963, `page`) would also use the order within a seed, but needs the values of one seed to be exchangeable
where there is no trend; with paired seeds neighbouring settings share most of their draws, so it is offered as an
addition and decides nothing by itself.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import stats

from fedroam.analysis.variants import mean_and_error
from fedroam.errors import InputError

LEVEL = 0.95  # of confidence intervals
POWER = 0.8  # chance of a verdict that a number of seeds is to give
MOST_SEEDS = 1000  # more are not looked for


@dataclass(frozen=True)
class Evidence:
    """What n seeds say of a claim.

    test: its name in words; n: seeds; estimate, error: mean over seeds and its standard error; low, high: the
    confidence interval of the mean (level 0.95, two-sided, not corrected); bound: what the estimate is compared
    with; statistic, df: of the test (NaN where it has none); p_holds, p_fails: see the module; note: what a reader
    must know; values: the number of each seed; parts: of a claim with several parts.
    """

    test: str
    n: int
    estimate: float = math.nan
    error: float = math.nan
    low: float = math.nan
    high: float = math.nan
    bound: float = 0.0
    statistic: float = math.nan
    df: float = math.nan
    p_holds: float = 1.0
    p_fails: float = 1.0
    note: str = ""
    kind: str = "t"
    values: tuple[float, ...] = ()
    parts: tuple[Evidence, ...] = field(default=())


def interval(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """95 % confidence interval of the mean by Student's t with n - 1 degrees of freedom; NaN below 2 values."""
    return interval_of(*mean_and_error(values), len(values))


def interval_of(mean: float, error: float, n: int) -> tuple[float, float]:
    """95 % confidence interval of a mean of n values with standard error `error`, as `interval` gives it."""
    if n < 2 or not math.isfinite(error):
        return math.nan, math.nan
    half = float(stats.t.ppf((1 + LEVEL) / 2, n - 1)) * error
    return mean - half, mean + half


def above(values: Sequence[float] | np.ndarray, bound: float = 0.0, test: str = "one-sided t") -> Evidence:
    """Evidence that the mean of `values` [seeds] is above `bound`: one-sided t tests, upwards and downwards.

    Fewer than two seeds decide nothing. Where values are infinite (a threshold that was never reached) or all
    equal, t has no spread to go by and the exact sign test takes its place; equal to the bound counts for neither
    side. A value that is no number makes the evidence void, and the note says so.
    """
    x = np.asarray(values, dtype=np.float64)
    (low, high), (mean, error) = interval(x), mean_and_error(x)
    untested = Evidence(test, n=len(x), bound=bound, values=tuple(map(float, x)))
    if np.isnan(x).any():
        return replace(untested, note=f"undefined in {int(np.isnan(x).sum())} of {len(x)} seeds")
    if len(x) < 2:
        note = "one seed: nothing can be tested" if len(x) else "no seed has run"
        return replace(untested, estimate=mean, note=note)
    if np.isinf(x).any() or np.ptp(x) <= 1e-12 * max(1.0, float(np.abs(x).max())):
        up, down = int((x > bound).sum()), int((x < bound).sum())
        why = "some values are infinite" if np.isinf(x).any() else "all seeds agree exactly"
        with np.errstate(invalid="ignore"):
            middle = float(np.median(x)) if np.isinf(x).any() else mean
        return replace(
            untested,
            test="exact sign test",
            estimate=middle,
            error=error,
            statistic=float(up),
            p_holds=_tail(up, len(x)),
            p_fails=_tail(down, len(x)),
            note=f"{why}: sign test, {up} of {len(x)} seeds above",
            kind="sign",
        )
    upwards = stats.ttest_1samp(x, bound, alternative="greater")
    return replace(
        untested,
        estimate=mean,
        error=error,
        low=low,
        high=high,
        statistic=float(upwards.statistic),
        df=float(len(x) - 1),
        p_holds=float(upwards.pvalue),
        p_fails=float(stats.t.cdf(upwards.statistic, len(x) - 1)),
    )


def _tail(hits: int, n: int) -> float:
    """Probability of at least so many heads in n throws."""
    return float(stats.binomtest(hits, n, alternative="greater").pvalue)


def below(values: Sequence[float] | np.ndarray, bound: float = 0.0, test: str = "one-sided t") -> Evidence:
    """The mirror image of `above`."""
    mirrored = above(values, bound, test)
    return replace(mirrored, p_holds=mirrored.p_fails, p_fails=mirrored.p_holds)


def within(values: Sequence[float] | np.ndarray, margin: float) -> Evidence:
    """Evidence that the mean of `values` [seeds] lies between -margin and margin.

    Holds by two one-sided tests (Schuirmann 1987): the larger p-value of "above -margin" and "below margin". Does
    not hold where the mean is beyond either end: twice the smaller p-value of the reverse tests.
    """
    if not margin > 0:
        raise InputError(f"margin = {margin:g}: allowed is a number above 0")
    lower, upper = above(values, -margin), below(values, margin)
    p_fails = min(1.0, 2 * min(lower.p_fails, upper.p_fails))
    weaker = max(lower, upper, key=lambda evidence: evidence.p_holds)
    return replace(
        weaker,
        test="two one-sided t tests, the weaker",
        bound=margin,
        p_fails=p_fails,
        kind="sign" if upper.kind == "sign" else "within",
    )


def ratio_above(
    first: Sequence[float] | np.ndarray, second: Sequence[float] | np.ndarray, bound: float = 1.0
) -> Evidence:
    """Evidence that first / second, paired by seed, is above `bound`: a t test on logarithms.

    The estimate is the geometric mean of the ratios; error is the standard error of its logarithm, so about a
    relative one. Values at or below 0 have no logarithm and make the evidence void.
    """
    if not bound > 0:
        raise InputError(f"bound of a ratio = {bound:g}: allowed is a number above 0")
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where((a > 0) & (b > 0), np.log(a) - np.log(b), np.nan)
    found = above(logs, math.log(bound), "one-sided t on logarithms of ratios")
    middle, low, high = (math.exp(end) for end in (found.estimate, found.low, found.high))
    return replace(found, bound=bound, estimate=middle, low=low, high=high)


def slopes(values: np.ndarray, keys: Sequence[float]) -> np.ndarray:
    """The least-squares slope of each seed's values [seeds, keys] over the keys, times the span of the keys.

    That is the rise from the lowest to the highest key along the fitted line, in the unit of the values.
    """
    return np.asarray(np.asarray(values, dtype=np.float64) @ slope_weights(keys))


def slope_weights(keys: Sequence[float]) -> np.ndarray:
    """The weights [keys] that turn values into the rise of their fitted line. Raises InputError below 2 keys."""
    k = np.asarray(keys, dtype=np.float64)
    if len(k) < 2 or len(set(k.tolist())) < 2 or not np.isfinite(k).all():
        raise InputError(f"a trend over {list(keys)}: allowed are at least two different finite numbers")
    centred = k - k.mean()
    return np.asarray(np.ptp(k) * centred / (centred @ centred))


def page(values: np.ndarray) -> tuple[float, float]:
    """Page's L test of values [seeds, keys] that rise, and that fall, with the order of the keys: two p-values.

    See the module on what it supposes. Source: Page, J. Am. Stat. Assoc. 58 (1963) 216, as in SciPy.
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] < 2 or table.shape[1] < 3 or not np.isfinite(table).all():
        return math.nan, math.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rise = stats.page_trend_test(table).pvalue
        fall = stats.page_trend_test(table[:, ::-1]).pvalue
    return float(rise), float(fall)


def every(parts: Sequence[Evidence]) -> Evidence:
    """Evidence that all of several claims hold.

    It holds by the intersection-union test (Berger 1982): the largest p-value of its parts. It does not hold where
    any part does not: the smallest p-value, times the number of parts.
    """
    if not parts:
        raise InputError("a claim with no parts: give at least one")
    weakest = max(parts, key=lambda part: (part.p_holds, -part.p_fails))
    return replace(
        weakest,
        test=f"all of {len(parts)}: {weakest.test}",
        n=min(part.n for part in parts),
        p_fails=min(1.0, len(parts) * min(part.p_fails for part in parts)),
        note="; ".join(filter(None, ["the part that holds least is shown", weakest.note])),
        parts=tuple(parts),
    )
