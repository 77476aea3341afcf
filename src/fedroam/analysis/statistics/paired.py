"""Tests over seeds. Everything that is judged is one number a seed; seeds are independent, so Student's t applies.

The number is a difference of two variants with the same seed (paired), a trend over several, or a plain value. A
test asks on which side of a bound its mean lies, in both directions: `p_holds` is the p-value of the hypothesis that
a claim is false (small: the claim holds), `p_fails` of the hypothesis that it is true (small: it does not hold).

**Never reached.** Of a run that ends before it reaches a threshold one knows the least that the number can be: its
horizon. So a number of a seed may be an interval, from the least to the most that it can be, and each direction is
tested with the end that speaks against it: "above" with the least, "below" with the most. That is conservative. Let L
be the least and X the number, L <= X in every seed; then mean(X) <= bound makes mean(L) <= bound, so that whoever
rejects the second rejects the first, and errs no more often than the test of L does (one of the restricted mean:
Royston & Parmar, Stat. Med. 30 (2011) 2409), in which t takes numbers that are cut off for normal ones. In a difference
A - B, or a slope, a number that is added has its horizon in the least, one that is subtracted has it in the most; so a
cap never helps the direction that it is used for. Where the end that is needed is infinite, no cap is conservative, and
the exact sign test takes the place of t in this direction.

What varies within a seed may be dependent in any way: a trend is one slope a seed and its test is over seeds. (Page's
test of order would need the values of one seed to be exchangeable where there is no trend; with paired seeds
neighbouring settings share most of their draws.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from fedroam.analysis.variants import mean_and_error
from fedroam.errors import InputError

LEVEL = 0.95  # of confidence intervals
POWER = 0.8  # chance of a verdict that a number of seeds is to give
MOST_SEEDS = 1000  # more are not looked for
ROUNDING = 1e-12  # of what is added up: sums that differ by less are equal

Asks = Literal["above", "below", "within", "ratio above"]
Numbers = Sequence[float] | Sequence[tuple[float, float]] | np.ndarray


@dataclass(frozen=True)
class VariancePrior:
    """What a study's contrasts say of the variance of each of them (see `moderated`).

    variance: the one to shrink to; weight: how many degrees of freedom it is worth; df: of the test.
    """

    variance: float
    weight: float
    df: float

    def of(self, observed: float, n: int) -> tuple[float, float]:
        """The variance that a test of n seeds uses, and its degrees of freedom. Never less than is observed."""
        if math.isinf(self.weight):
            return max(observed, self.variance), self.df
        shrunk = (self.weight * self.variance + (n - 1) * observed) / (self.weight + n - 1)
        return max(observed, shrunk), self.df


@dataclass(frozen=True)
class Evidence:
    """What n seeds say of a claim.

    test: its name in words; n: seeds; estimate, error: mean over seeds and its standard error; low, high: the
    confidence interval of the mean (level 0.95, two-sided, not corrected, by the variance that the test uses); bound:
    what the estimate is compared with; statistic, df: of the test (NaN where it has none); p_holds, p_fails: see the
    module; note: what a reader must know; kind: what the chance of a verdict is reckoned by; asks: on which side of the
    bound the claim has the mean; name: of the test where t can be used; values: the number of each seed, or the least
    that it can be (of ratios logarithms); most: the most that it can be, empty where that is the same; unit, seeds: of
    the values, where known (variances of one unit are compared); spread: the standard deviation that the test uses;
    parts: of a claim with several parts; said_by: of a sequence of looks the one whose p_holds is the smallest, and the
    one whose p_fails is (see `looks.shared`).
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
    kind: Literal["t", "sign", "within"] = "t"
    asks: Asks = "above"
    name: str = ""
    values: tuple[float, ...] = ()
    most: tuple[float, ...] = ()
    unit: str = ""
    seeds: tuple[int, ...] = ()
    spread: float = math.nan
    parts: tuple[Evidence, ...] = field(default=())
    said_by: tuple[Evidence, ...] = field(default=())


def above(values: Numbers, bound: float = 0.0, test: str = "one-sided t") -> Evidence:
    """Evidence that the mean of `values` is above `bound`: one-sided t tests, upwards and downwards.

    values: [seeds], or [seeds, 2] with the least and the most that each can be. Fewer than two seeds decide nothing.
    Where the end that a direction needs is infinite, or values are all equal, t has no spread to go by and the exact
    sign test takes its place; equal to the bound counts for neither side. A value that is no number makes the evidence
    void, and the note says so.
    """
    return examined(_asked(values, test, bound=bound, asks="above"))


def apart(numbers: Iterable[float]) -> float:
    """The sum of some numbers, which is 0 where it is no more than their rounding.

    Differences of what is the same are so: the same joules, added up in another order, differ in their last digits, and
    by the same in every seed, of which a sign test would make evidence.
    """
    parts = list(numbers)
    found = float(sum(parts))
    size = sum(map(abs, parts))
    return 0.0 if math.isfinite(size) and abs(found) <= ROUNDING * size else found


def two_sided(values: Numbers) -> float:
    """The p-value of the hypothesis that the mean of `values` is 0: twice the smaller of both directions of `above`, 1
    at most; NaN of fewer than two values."""
    evidence = above(values)
    return min(1.0, 2 * min(evidence.p_holds, evidence.p_fails)) if len(values) > 1 else math.nan


def interval(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """95 % confidence interval of the mean by Student's t with n - 1 degrees of freedom, as `above` gives it: NaN of
    fewer than two values, and of values that are all equal, which have no spread to go by."""
    evidence = above(values)
    return evidence.low, evidence.high


def below(values: Numbers, bound: float = 0.0, test: str = "one-sided t") -> Evidence:
    """The mirror image of `above`."""
    return examined(_asked(values, test, bound=bound, asks="below"))


def within(values: Numbers, margin: float) -> Evidence:
    """Evidence that the mean of `values` (as in `above`) lies between -margin and margin.

    Holds by two one-sided tests (Schuirmann 1987): the larger p-value of "above -margin" and "below margin". Does
    not hold where the mean is beyond either end: twice the smaller p-value of the reverse tests.
    """
    if not margin > 0:
        raise InputError(f"margin = {margin:g}: allowed is a number above 0")
    return examined(_asked(values, "two one-sided t tests, the weaker", bound=margin, asks="within"))


def ratio_above(first: Numbers, second: Numbers, bound: float = 1.0) -> Evidence:
    """Evidence that first / second (as in `above`), paired by seed, is above `bound`: a t test on logarithms.

    The estimate is the geometric mean of the ratios; error is the standard error of its logarithm, so about a
    relative one. Values at or below 0 have no logarithm and make the evidence void.
    """
    if not bound > 0:
        raise InputError(f"bound of a ratio = {bound:g}: allowed is a number above 0")
    a, b = ends(first), ends(second)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where((a > 0) & (b > 0), np.log(a), np.nan) - np.log(np.where(b > 0, b, np.nan))[:, ::-1]
    return examined(_asked(logs, "one-sided t on logarithms of ratios", bound=bound, asks="ratio above"))


def ends(values: Numbers) -> np.ndarray:
    """Numbers as [seeds, 2]: the least and the most that each can be, the same where only one is given."""
    x = np.asarray(values, dtype=np.float64)
    if x.ndim == 2 and x.shape[1] == 2:
        return x
    return np.repeat(x.reshape(-1, 1), 2, axis=1)


def _asked(values: Numbers, test: str, *, bound: float, asks: Asks) -> Evidence:
    low, high = (tuple(map(float, column)) for column in ends(values).T)
    known = all(one == other or one != one for one, other in zip(low, high, strict=True))
    return Evidence(
        test, n=len(low), bound=bound, asks=asks, name=test, values=low, most=() if known else high
    )


def examined(asked: Evidence, spread: VariancePrior | None = None) -> Evidence:
    """The evidence of the values and the bound of `asked`, which has no parts.

    spread: what other contrasts say of the variance; without it the values speak for themselves.
    """
    logarithms = asked.asks == "ratio above"
    least, most = np.asarray(asked.values), np.asarray(asked.most or asked.values)
    blank = Evidence(
        asked.name, asked.n, bound=asked.bound, asks=asked.asks, name=asked.name, values=asked.values,
        most=asked.most, unit=asked.unit, seeds=asked.seeds,
    )  # fmt: skip
    undefined = int((np.isnan(least) | np.isnan(most)).sum())
    if undefined:
        return replace(blank, note=f"undefined in {undefined} of {asked.n} seeds")
    if asked.n < 2:
        estimate = mean_and_error(least)[0]
        note = "one seed: nothing can be tested" if asked.n else "no seed has run"
        return replace(blank, estimate=_exp(estimate) if logarithms else estimate, note=note)
    bound = math.log(asked.bound) if logarithms else asked.bound
    if asked.asks == "within":
        yes = max(_Side(least, -bound, 1, spread), _Side(most, bound, -1, spread), key=lambda side: side.p)
        no = min(_Side(most, -bound, -1, spread), _Side(least, bound, 1, spread), key=lambda side: side.p)
        p_holds, p_fails = yes.p, min(1.0, 2 * no.p)
        shown = no if p_fails < p_holds and asked.most else yes
    else:
        up, down = _Side(least, bound, 1, spread), _Side(most, bound, -1, spread)
        yes, no = (down, up) if asked.asks == "below" else (up, down)
        p_holds, p_fails = yes.p, no.p
        # The numbers are the same both ways but where a seed has no number: then those of the side that says more.
        shown = no if no.p < yes.p and asked.most else up if not asked.most else yes
    estimate, low, high = shown.estimate, shown.low, shown.high
    if asked.most and math.isinf(estimate):  # an end, not a number
        estimate = math.nan
    if logarithms:
        estimate, low, high = (_exp(end) for end in (estimate, low, high))
    kind: Literal["t", "sign", "within"] = "within" if asked.asks == "within" else "t"
    return replace(
        blank,
        test=shown.test(asked.name),
        estimate=estimate,
        error=shown.error,
        low=low,
        high=high,
        statistic=shown.statistic,
        df=shown.df,
        p_holds=p_holds,
        p_fails=p_fails,
        note="; ".join(filter(None, [_capped(least, most), shown.note])),
        kind="sign" if shown.sign else kind,
        spread=shown.spread,
    )


def _exp(x: float) -> float:
    """The number with this logarithm, infinite where it is too large for one."""
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


class _Side:
    """A test that the mean of x is on one side of a bound: way 1: above, -1: below; by t, or by sign.

    p, statistic, df, spread, estimate, error, low, high: as in `Evidence`.
    """

    def __init__(self, x: np.ndarray, bound: float, way: int, spread: VariancePrior | None) -> None:
        n = len(x)
        self.estimate, self.error = mean_and_error(x)
        self.df = self.spread = self.low = self.high = math.nan
        self.moderated, self.note = spread is not None, ""
        finite = bool(np.isfinite(x).all())
        variance, df = float(x.var(ddof=1)) if finite else math.nan, float(n - 1)
        alike = finite and bool(np.ptp(x) <= ROUNDING * max(1.0, float(np.abs(x).max())))
        if spread is not None:
            variance, df = spread.of(0.0 if alike else variance, n)
        self.sign = not finite or (alike and not (spread is not None and variance > 0))
        if self.sign:
            above_it, hits = int((x > bound).sum()), int((way * x > way * bound).sum())
            with np.errstate(invalid="ignore"):
                self.estimate = self.estimate if finite else float(np.median(x))
            self.statistic, self.p = float(above_it), _tail(hits, n)
            why = "all seeds agree exactly" if finite else "some values are infinite"
            self.note = f"{why}: sign test, {above_it} of {n} seeds above"
            return
        from scipy.special import stdtr, stdtrit

        self.df, self.spread = df, math.sqrt(variance)
        error = self.spread / math.sqrt(n)
        self.statistic = (self.estimate - bound) / error
        self.p = float(stdtr(df, -way * self.statistic))
        half = float(stdtrit(df, (1 + LEVEL) / 2)) * error
        self.low, self.high = self.estimate - half, self.estimate + half

    def test(self, name: str) -> str:
        """What it is called."""
        return "exact sign test" if self.sign else f"{name}, moderated" if self.moderated else name


def _capped(least: np.ndarray, most: np.ndarray) -> str:
    """A note on seeds whose number is known to be at least, or at most, something."""
    seeds = int((least != most).sum())
    if not seeds:
        return ""
    told = f"never reached in {seeds} of {len(least)} seeds, which count with the end of the run"
    if np.isinf(most).any() and np.isfinite(least).all():
        return f"{told}: the true mean is larger"
    if np.isinf(least).any() and np.isfinite(most).all():
        return f"{told}: the true mean is smaller"
    return told


def _tail(hits: int, n: int) -> float:
    """Probability of at least so many heads in n throws."""
    ways: int = sum(math.comb(n, heads) for heads in range(hits, n + 1))
    return math.ldexp(ways, -n)


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


WEAKEST = "the part that holds least is shown"


def every(parts: Sequence[Evidence]) -> Evidence:
    """Evidence that all of several claims hold.

    It holds by the intersection-union test (Berger 1982): the largest p-value of its parts. It does not hold where
    any part does not: the smallest p-value, times the number of parts.
    """
    if not parts:
        raise InputError("a claim with no parts: give at least one")
    weakest = max(parts, key=lambda part: (part.p_holds, -part.p_fails))
    if len(parts) == 1:
        return weakest
    return replace(
        weakest,
        test=f"all of {len(parts)}: {weakest.test}",
        n=min(part.n for part in parts),
        p_fails=min(1.0, len(parts) * min(part.p_fails for part in parts)),
        note=weakest.note if WEAKEST in weakest.note else "; ".join(filter(None, [WEAKEST, weakest.note])),
        parts=tuple(parts),
    )
