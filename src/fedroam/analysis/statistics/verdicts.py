"""From evidence to verdicts: holds, does not hold, or undecided and how many seeds would decide."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

from fedroam.analysis.statistics.paired import MOST_SEEDS, POWER, Evidence
from fedroam.errors import InputError

ALPHA = 0.05
Word = Literal["holds", "does not hold", "undecided"]


@dataclass(frozen=True)
class Verdict:
    """What is said of a claim. p_holds, p_fails: corrected by Holm's method over all claims judged together; seeds:
    how many would decide an undecided claim (None: not known, or more than `MOST_SEEDS`); reason: one sentence.
    """

    word: Word
    evidence: Evidence
    p_holds: float
    p_fails: float
    seeds: int | None
    reason: str


def holm(p: Sequence[float]) -> list[float]:
    """P-values adjusted by Holm's step-down method, in the given order.

    Rejecting those of at most alpha keeps the chance of any false rejection below alpha, however the tests depend
    on one another. Source: Holm, Scand. J. Stat. 6 (1979) 65.
    """
    values = np.asarray(p, dtype=np.float64)
    if not ((values >= 0) & (values <= 1)).all():
        raise InputError(f"p-values {list(p)}: allowed are numbers from 0 to 1")
    order = np.argsort(values, kind="stable")
    adjusted = np.empty(len(values))
    factors = np.arange(len(values), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(values[order] * factors), 1.0)
    return [float(value) for value in adjusted]


def judge(evidence: Sequence[Evidence], alpha: float = ALPHA) -> list[Verdict]:
    """A verdict on each claim of a study.

    Two families are corrected, each at level alpha: "it holds" and "it does not hold". So the chance that any claim
    is wrongly said to hold is at most alpha, and so is the chance that any is wrongly said not to.
    """
    if not 0 < alpha < 0.5:
        raise InputError(f"alpha = {alpha:g}: allowed is a number between 0 and 0.5")
    holds, fails = holm([e.p_holds for e in evidence]), holm([e.p_fails for e in evidence])
    verdicts = []
    for each, yes, no in zip(evidence, holds, fails, strict=True):
        if yes <= alpha:
            verdicts.append(Verdict("holds", each, yes, no, None, f"{p_text(yes)} after Holm's correction"))
        elif no <= alpha:
            reason = f"the reverse is established, {p_text(no)} after Holm's correction"
            verdicts.append(Verdict("does not hold", each, yes, no, None, reason))
        else:
            seeds = needed(each, _level(holds, alpha), _level(fails, alpha))
            verdicts.append(Verdict("undecided", each, yes, no, seeds, _undecided(each, seeds)))
    return verdicts


def _level(adjusted: Sequence[float], alpha: float) -> float:
    """The level that the next claim of a family has to meet."""
    return alpha / max(sum(p > alpha for p in adjusted), 1)


def _undecided(evidence: Evidence, seeds: int | None) -> str:
    if evidence.n < 2 or math.isnan(evidence.estimate):
        return evidence.note or "nothing can be tested"
    if seeds is None:
        return f"more than {MOST_SEEDS} seeds would be needed if effect and spread are as observed"
    if seeds <= evidence.n:
        had = f"{evidence.n} seeds had a chance of at least {POWER * 100:.0f} % to decide"
        return f"{had} if effect and spread are as observed; more would tell"
    return f"about {seeds} seeds would decide with a chance of {POWER * 100:.0f} % if effect and spread are as observed"


def needed(evidence: Evidence, holds: float, fails: float) -> int | None:
    """The number of seeds that would decide a claim with probability `POWER`; None: unknown or above `MOST_SEEDS`.

    It takes the observed effect and spread for the true ones, so it is a rough guide after few seeds. holds, fails:
    the levels of the two tests. The power is that of a one-sided t test (noncentral t); of a claim with several
    parts, all that point to yes are needed for yes, one that points to no is enough for no.
    """
    if evidence.parts:
        yes = [needed(part, holds, 0.0) for part in evidence.parts if _points_to_yes(part)]
        no = [
            needed(part, 0.0, fails / len(evidence.parts))
            for part in evidence.parts
            if not _points_to_yes(part)
        ]
        if no:
            return min((n for n in no if n is not None), default=None)
        known = [n for n in yes if n is not None]
        return max(known) if len(known) == len(yes) else None
    if evidence.n < 2 or math.isnan(evidence.estimate):
        return None
    yes_wins = _points_to_yes(evidence)
    level = holds if yes_wins else fails
    if evidence.kind == "sign":
        return _sign_seeds(evidence, level)
    x = np.asarray(evidence.values, dtype=np.float64)
    spread = float(x.std(ddof=1))
    if evidence.kind == "within":
        near, far = sorted(evidence.bound + sign * abs(float(x.mean())) for sign in (-1, 1))
        if yes_wins:
            return _first(lambda n: power(near, spread, n, level) + power(far, spread, n, level) - 1)
        return seeds_needed(abs(near), spread, level / 2)
    # The distance from the bound on the scale on which the test was made (logarithms, for ratios).
    effect = abs(evidence.statistic) * spread / math.sqrt(len(x))
    return seeds_needed(effect, spread, level)


def _points_to_yes(evidence: Evidence) -> bool:
    return evidence.p_holds <= evidence.p_fails


def power(effect: float, spread: float, n: int, level: float) -> float:
    """The chance that a one-sided t test over n seeds finds a mean of `effect` (standard deviation `spread`)."""
    if n < 2 or not 0 < level < 1:
        return 0.0
    critical = stats.t.isf(level, n - 1)
    return float(stats.nct.sf(critical, n - 1, math.sqrt(n) * effect / spread))


def seeds_needed(effect: float, spread: float, level: float, wanted: float = POWER) -> int | None:
    """The smallest number of seeds with at least the wanted power; None above `MOST_SEEDS`."""
    if not effect > 0 or not spread > 0:
        return None
    return _first(lambda n: power(effect, spread, n, level), wanted)


def _first(chance: Callable[[int], float], wanted: float = POWER) -> int | None:
    """The smallest n from 2 to `MOST_SEEDS` whose chance, which rises with n, is as wanted."""
    low, high = 2, MOST_SEEDS
    if chance(high) < wanted:
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if chance(middle) >= wanted else (middle + 1, high)
    return low


def _sign_seeds(evidence: Evidence, level: float) -> int | None:
    """Seeds for the sign test, if each has the observed chance to lie on the side where most do."""
    x = np.asarray(evidence.values)
    share = max((x > evidence.bound).mean(), (x < evidence.bound).mean())
    if share <= 0.5 or level <= 0:
        return None
    for n in range(2, MOST_SEEDS + 1):
        hits = int(stats.binom.isf(level, n, 0.5)) + 1  # the fewest whose tail is at most the level
        if hits <= n and stats.binom.sf(hits - 1, n, share) >= POWER:
            return n
    return None


def p_text(p: float) -> str:
    """`p = 0.012`, very small ones as a bound."""
    return "p < 0.0001" if p < 1e-4 else f"p = {p:.2g}"
