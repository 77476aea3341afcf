"""The chance that seeds to come decide a claim, which is what studies are planned by. It decides no verdict itself.

Two questions are asked. How many seeds would decide it, if effect and spread were as estimated (`needed`)? And does it
still pay to go on to the last look that is planned (`predicted`)? The second takes nothing for known: after four
seeds an effect may well be twice the one estimated, or none, and whoever gives up by the estimate alone gives up one in
five of the claims that twenty seeds would have found to hold.
"""

from __future__ import annotations

import math

import numpy as np

from fedroam.analysis.statistics.paired import MOST_SEEDS, POWER, Evidence


def needed(evidence: Evidence, holds: float, fails: float) -> int | None:
    """The number of seeds that would decide a claim with probability `POWER`; None: unknown or above `MOST_SEEDS`.

    holds, fails: the levels of the two tests. See `chance` for what it supposes.
    """
    seeds = np.arange(2, MOST_SEEDS + 1)
    enough = chance(evidence, seeds, holds, fails) >= POWER
    return int(seeds[enough.argmax()]) if enough.any() else None


def chance(evidence: Evidence, seeds: np.ndarray, holds: float, fails: float) -> np.ndarray:
    """The chance that so many seeds decide a claim, for each number of `seeds`.

    It takes the observed effect and spread for the true ones, so it is a rough guide after few seeds. holds, fails:
    the levels of the two tests. The power is that of a one-sided t test (noncentral t), with as many degrees of freedom
    beyond n - 1 as the test has now, or that of the sign test, if it is larger, where all seeds agree exactly: it takes
    over where no spread is known. Of a claim with several parts, all that point to yes are needed for yes, one that
    points to no is enough for no.
    """
    nothing = np.zeros(len(seeds))
    if evidence.parts:
        yes = [chance(part, seeds, holds, 0.0) for part in evidence.parts if points_to_yes(part)]
        no = [
            chance(part, seeds, 0.0, fails / len(evidence.parts))
            for part in evidence.parts
            if not points_to_yes(part)
        ]
        return np.asarray(np.max(no, axis=0) if no else np.min(yes, axis=0))
    if evidence.n < 2 or math.isnan(evidence.estimate):
        return nothing
    yes_wins = points_to_yes(evidence)
    level = holds if yes_wins else fails
    if evidence.kind == "sign":
        return _chance_by_sign(evidence, seeds, level)
    if _agree(evidence):
        signs = _chance_by_sign(evidence, seeds, level)
        return np.asarray(np.maximum(signs, _chance_by_t(evidence, seeds, level)))
    return _chance_by_t(evidence, seeds, level)


def _chance_by_t(evidence: Evidence, seeds: np.ndarray, level: float) -> np.ndarray:
    """That of the t test."""
    yes_wins = points_to_yes(evidence)
    spread, more = evidence.spread, evidence.df - (evidence.n - 1)
    if evidence.kind == "within":
        near, far = sorted(evidence.bound + sign * abs(evidence.estimate) for sign in (-1, 1))
        if yes_wins:
            both = power(near, spread, seeds, level, more) + power(far, spread, seeds, level, more) - 1
            return np.asarray(np.maximum(both, 0.0))
        return power(abs(near), spread, seeds, level / 2, more)
    # The distance from the bound on the scale on which the test was made (logarithms, for ratios).
    effect = abs(evidence.statistic) * spread / math.sqrt(evidence.n)
    return power(effect, spread, seeds, level, more)


def predicted(evidence: Evidence, last: int, holds: float, fails: float) -> float:
    """The predictive power: the chance that the look at `last` seeds decides a claim, whatever effects the seeds so far
    leave open, each by its weight; 0 where no seed is to come, and where there is nothing to go by.

    Source: Spiegelhalter, Freedman & Blackburn, Control. Clin. Trials 7 (1986) 8, with a flat prior of the mean: after
    n seeds the mean of N is spread about the present one as Student's t times spread * sqrt(1/n - 1/N), with the test's
    degrees of freedom. The spread is taken to stay, which makes small chances rather too large: where it comes out
    larger than now, fewer are decided. So does, for numbers that are capped, that both directions go by the ends that
    are shown. holds, fails: the levels of the two tests at that look. Of a claim of several parts it is the most that
    the chance can be, however they depend on each other: it holds no more often than any of them, and does not hold no
    more often than all of them fail together. Where all seeds agree exactly it is that of the sign test, where larger.
    """
    if evidence.n >= last:
        return 0.0
    if evidence.parts:
        yes = min(predicted(part, last, holds, 0.0) for part in evidence.parts)
        no = sum(predicted(part, last, 0.0, fails / len(evidence.parts)) for part in evidence.parts)
        return min(1.0, yes + no)
    if evidence.kind == "sign":
        return _predicted_by_sign(evidence, last, holds, fails)
    if evidence.n < 2 or math.isnan(evidence.estimate):
        return 0.0
    by_t = _predicted_by_t(evidence, last, holds, fails)
    return max(by_t, _predicted_by_sign(evidence, last, holds, fails)) if _agree(evidence) else by_t


def _agree(evidence: Evidence) -> bool:
    """Whether all seeds agree exactly. Their spread is then that of other contrasts, and where these have not as many
    seeds, none is known and the sign test decides."""
    return not evidence.most and len(set(evidence.values)) == 1


def _predicted_by_t(evidence: Evidence, last: int, holds: float, fails: float) -> float:
    """`predicted` of the t test."""
    from scipy import stats  # here: a second to load, and most reports never ask for it

    more = evidence.df - (evidence.n - 1)
    wide = math.sqrt(1 / evidence.n - 1 / last)

    def farther(distance: float, level: float) -> float:
        """The chance that the mean of all, which is now `distance` spreads beyond an end, is found to be beyond it."""
        if level <= 0:
            return 0.0
        least = float(stats.t.isf(level, last - 1 + more)) / math.sqrt(last)
        return float(stats.t.sf((least - distance) / wide, evidence.df))

    if evidence.kind == "within":
        near, far = ((evidence.bound + way * evidence.estimate) / evidence.spread for way in (-1, 1))
        inside = max(0.0, farther(near, holds) + farther(far, holds) - 1)
        return min(1.0, inside + farther(-near, fails / 2) + farther(-far, fails / 2))
    # On the scale on which the test was made (logarithms, for ratios).
    ahead = evidence.statistic / math.sqrt(evidence.n) * (-1 if evidence.asks == "below" else 1)
    return min(1.0, farther(ahead, holds) + farther(-ahead, fails))


def points_to_yes(evidence: Evidence) -> bool:
    """Whether a claim is observed: its estimate is on the claim's side of the bound, of several parts that of each.

    P-values do not tell it of a sequence of looks: they are the smallest so far, and may both be 1.
    """
    if evidence.parts:
        return all(points_to_yes(part) for part in evidence.parts)
    if math.isnan(evidence.estimate):
        return False
    if evidence.asks == "within":
        return abs(evidence.estimate) <= evidence.bound
    below = evidence.asks == "below"
    return evidence.estimate <= evidence.bound if below else evidence.estimate >= evidence.bound


def power(effect: float, spread: float, seeds: np.ndarray, level: float, more: float = 0.0) -> np.ndarray:
    """The chance that a one-sided t test over so many seeds finds a mean of `effect`, for each number of `seeds`.

    spread: the standard deviation of a seed; more: degrees of freedom beyond n - 1.
    """
    n = np.asarray(seeds)
    if not effect > 0 or not spread > 0 or not 0 < level < 1:
        return np.zeros(n.shape)
    from scipy import stats

    df = n - 1 + more
    found = stats.nct.sf(stats.t.isf(level, df), df, np.sqrt(n) * effect / spread)
    return np.asarray(np.nan_to_num(found, nan=1.0))  # SciPy gives up where the effect is enormous


def _chance_by_sign(evidence: Evidence, seeds: np.ndarray, level: float) -> np.ndarray:
    """That of the sign test, if each seed has the observed chance to lie on the side where most do.

    That the mean is within -bound and bound takes two tests, each at the level; that it is not one of two, each at half
    of it (see `paired.within`).
    """
    least, most = np.asarray(evidence.values), np.asarray(evidence.most or evidence.values)
    bound = math.log(evidence.bound) if evidence.asks == "ratio above" else evidence.bound
    if evidence.asks != "within":
        return _chance_of_heads(max((least > bound).mean(), (most < bound).mean()), seeds, level)
    if points_to_yes(evidence):
        inside = [(least > -bound).mean(), (most < bound).mean()]
        both = sum(_chance_of_heads(share, seeds, level) for share in inside) - 1
        return np.asarray(np.maximum(both, 0.0))
    return _chance_of_heads(max((least > bound).mean(), (most < -bound).mean()), seeds, level / 2)


def _predicted_by_sign(evidence: Evidence, last: int, holds: float, fails: float) -> float:
    """`predicted` of the sign test: the share of seeds on a side is as likely to be any, before the first is seen."""
    least, most = np.asarray(evidence.values), np.asarray(evidence.most or evidence.values)
    bound = math.log(evidence.bound) if evidence.asks == "ratio above" else evidence.bound

    def found(hits: np.ndarray, level: float) -> float:
        return _predicted_heads(int(hits.sum()), evidence.n, last, level)

    if evidence.asks == "within":
        inside = max(0.0, found(least > -bound, holds) + found(most < bound, holds) - 1)
        return min(1.0, inside + found(least > bound, fails / 2) + found(most < -bound, fails / 2))
    up, down = (fails, holds) if evidence.asks == "below" else (holds, fails)
    return min(1.0, found(least > bound, up) + found(most < bound, down))


def _predicted_heads(heads: int, n: int, last: int, level: float) -> float:
    """The chance that an exact test of `last` throws finds heads to be more than half, of which n gave `heads`."""
    if level <= 0:
        return 0.0
    from scipy import stats

    more = int(stats.binom.isf(level, last, 0.5)) + 1 - heads  # that the throws to come have to give
    return float(stats.betabinom.sf(more - 1, last - n, 1 + heads, 1 + n - heads))


def _chance_of_heads(share: float, seeds: np.ndarray, level: float) -> np.ndarray:
    """The chance that an exact test finds heads, which come with the chance `share`, to be more than half of all."""
    if share <= 0.5 or level <= 0:
        return np.zeros(len(seeds))
    from scipy import stats

    hits = stats.binom.isf(level, seeds, 0.5) + 1  # the fewest whose tail is at most the level
    return np.asarray(np.where(hits <= seeds, stats.binom.sf(hits - 1, seeds, share), 0.0))
