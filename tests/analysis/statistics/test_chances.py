"""The chance that runs to come decide a claim: against draws of what is to come, closed forms, and whole studies."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedroam.analysis.statistics.chances import chance, needed, power, predicted
from fedroam.analysis.statistics.looks import FUTILE, LOOKS
from fedroam.analysis.statistics.paired import Evidence, above, below, every, ratio_above, within
from fedroam.analysis.statistics.verdicts import ALPHA
from fedroam.randomness import stream

LAST = LOOKS[-1]
LEVEL = ALPHA / len(LOOKS)


def test_predictive_power_by_hand() -> None:
    """Four seeds with mean 0 and spread 1: t of 19 degrees of freedom has 1 % beyond 2.5395, which is 0.5679 spreads
    of a mean of 20; that mean is spread about 0 as t of 3 degrees times sqrt(1/4 - 1/20) = 0.4472."""
    unit = math.sqrt(0.75)
    none = above([unit, -unit, unit, -unit])
    assert none.spread == pytest.approx(1.0)
    one_way = stats.t.sf(2.539483 / math.sqrt(20) / math.sqrt(0.2), 3)
    assert one_way == pytest.approx(0.147, abs=5e-4)
    assert predicted(none, 20, 0.01, 0.0) == pytest.approx(one_way, rel=1e-5)
    assert predicted(none, 20, 0.01, 0.01) == pytest.approx(2 * one_way, rel=1e-5)
    # What nobody looks for, and what nobody looks at any more, is not found.
    assert predicted(none, 20, 0.0, 0.0) == predicted(none, 4, 0.01, 0.01) == 0.0
    # Its own variance has three degrees of freedom; one that is worth twelve more is all but known.
    sure = replace(none, df=15.0)
    assert predicted(sure, 20, 0.01, 0.0) == pytest.approx(
        stats.t.sf(stats.t.isf(0.01, 31) / math.sqrt(20) / math.sqrt(0.2), 15), rel=1e-9
    )


def to_come(found: Evidence, last: int, draws: int) -> np.ndarray:
    """Means of the last look, of mean and variance drawn from what the seeds so far say of them (flat priors of the
    mean and of the logarithm of the variance), and of the seeds to come drawn from these."""
    draw = stream(3, "predictive power")
    n, centre = found.n, float(np.mean(found.values))
    spread = found.spread * np.sqrt((n - 1) / draw.chisquare(n - 1, draws))
    mean = centre + spread / math.sqrt(n) * draw.standard_normal(draws)
    later = mean + spread / math.sqrt(last - n) * draw.standard_normal(draws)
    return np.asarray((n * centre + (last - n) * later) / last)


CASES: list[
    tuple[Evidence, Callable[[np.ndarray, float], np.ndarray], Callable[[np.ndarray, float], np.ndarray]]
]
CASES = [
    (above([2.0, 0.5, 1.4, 0.1], 0.4), lambda m, c: m > 0.4 + c, lambda m, c: m < 0.4 - c),
    (below([2.0, 0.5, 1.4, 0.1, 0.9, -0.7], 1.1), lambda m, c: m < 1.1 - c, lambda m, c: m > 1.1 + c),
    (
        ratio_above([3.0, 2.2, 4.0, 1.5], [2.0, 2.0, 2.5, 1.0], 1.2),
        lambda m, c: m > math.log(1.2) + c,
        lambda m, c: m < math.log(1.2) - c,
    ),
]


@pytest.mark.parametrize(("found", "yes", "no"), CASES)
def test_predictive_power_is_that_of_draws_of_what_is_to_come(
    found: Evidence,
    yes: Callable[[np.ndarray, float], np.ndarray],
    no: Callable[[np.ndarray, float], np.ndarray],
) -> None:
    means = to_come(found, LAST, 200_000)
    for holds, fails in ((LEVEL, LEVEL), (LEVEL, LEVEL / 10)):
        ends = [found.spread / math.sqrt(LAST) * stats.t.isf(level, LAST - 1) for level in (holds, fails)]
        drawn = yes(means, ends[0]).mean() + no(means, ends[1]).mean()
        assert predicted(found, LAST, holds, fails) == pytest.approx(drawn, abs=0.005)


def test_predictive_power_of_a_claim_to_be_near_0_counts_both_ends() -> None:
    for values in ([0.5, -0.2, 0.4, 0.1], [1.5, 0.2, 0.9, -0.3], [-1.5, -1.2, -0.9, -1.0]):
        found = within(values, 1.0)
        means = to_come(found, LAST, 200_000)
        inside, outside = (
            found.spread / math.sqrt(LAST) * stats.t.isf(level, LAST - 1) for level in (LEVEL, LEVEL / 2)
        )
        drawn = (np.abs(means) < 1 - inside).mean() + (np.abs(means) > 1 + outside).mean()
        assert predicted(found, LAST, LEVEL, LEVEL) == pytest.approx(drawn, abs=0.005)


@pytest.mark.parametrize("heads", range(7))
def test_predictive_power_of_signs_is_that_of_all_shares_alike(heads: int) -> None:
    """Each share of seeds above is as likely as any other beforehand. Then `heads` of 6 seeds say that 14 to come have
    k above with a chance of (6+1) C(6, heads) C(14, k) / ((20+1) C(20, heads + k)), which Beta's integral gives."""
    found = above([np.inf] * heads + [-np.inf] * (6 - heads))
    assert found.kind == "sign"
    decided = Fraction(0)
    for k in range(15):
        weight = Fraction(7 * math.comb(6, heads) * math.comb(14, k), 21 * math.comb(20, heads + k))
        ways = sum(math.comb(20, each) for each in range(heads + k, 21))
        against = sum(math.comb(20, each) for each in range(heads + k + 1))
        decided += weight * ((ways / 2**20 <= 0.01) + (against / 2**20 <= 0.01))
    assert predicted(found, 20, 0.01, 0.01) == pytest.approx(float(decided), rel=1e-9)


@pytest.mark.parametrize("n", [4, 6, 9])
def test_seeds_that_agree_exactly_are_not_given_up_while_the_sign_test_may_come_to_decide(n: int) -> None:
    """Other contrasts lend a spread of 1, by which a mean of 0 is hardly ever within 0.1; the sign test, which takes
    over where they have not as many seeds, needs nothing but seeds."""
    signs = within([0.0] * n, 0.1)
    assert signs.kind == "sign"
    lent = replace(signs, kind="within", spread=1.0, df=20.0, statistic=0.1 * math.sqrt(n))
    chances = [predicted(each, LAST, LEVEL, LEVEL) for each in (lent, signs)]
    assert chances[0] == chances[1] > 0.5
    seeds = np.arange(2, 30)
    assert (chance(lent, seeds, LEVEL, LEVEL) == chance(signs, seeds, LEVEL, LEVEL)).all()
    assert needed(lent, LEVEL, LEVEL) == 7, "2^-7 is the first power below 1 %"
    apart = replace(lent, values=(*[0.0] * (n - 1), 1e-9))
    assert predicted(apart, LAST, LEVEL, LEVEL) < chances[0], (
        "one that differs at all has a spread of its own"
    )


VALUES = st.lists(st.floats(-5, 5).map(lambda x: round(x, 3)), min_size=2, max_size=19)


@given(VALUES, st.floats(-2, 2), st.floats(1e-6, 0.5), st.floats(1e-6, 0.5))
def test_predictive_power_is_a_chance_and_the_same_seen_in_a_mirror(
    values: Sequence[float], bound: float, holds: float, fails: float
) -> None:
    found = above(values, bound)
    likely = predicted(found, LAST, holds, fails)
    assert 0 <= likely <= 1
    mirrored = below([-value for value in values], -bound)
    assert predicted(mirrored, LAST, holds, fails) == pytest.approx(likely, abs=1e-9)
    # A claim to the contrary is refuted where this one holds.
    assert predicted(below(values, bound), LAST, fails, holds) == pytest.approx(likely, abs=1e-9)
    # A higher level finds no less.
    assert predicted(found, LAST, min(0.5, 2 * holds), fails) >= likely - 1e-9
    assert 0 <= predicted(within(values, 1.0), LAST, holds, fails) <= 1


def test_predictive_power_of_a_claim_to_be_near_0_whose_signs_are_tested_counts_both_ends() -> None:
    """Six seeds, four of them above the margin, two within: 14 more have k above it with the chance of Beta's integral,
    and those within are none too few to be below."""
    found = within([np.inf] * 4 + [0.0] * 2, 1.0)
    assert found.kind == "sign"
    weights = [Fraction(7 * math.comb(6, 4) * math.comb(14, k), 21 * math.comb(20, 4 + k)) for k in range(15)]
    for fails in (0.1, 0.05, 0.02):
        least = int(stats.binom.isf(fails / 2, 20, 0.5)) + 1
        above_it = sum((weights[k] for k in range(15) if 4 + k >= least), Fraction(0))
        below_it = sum(
            (Fraction(7 * math.comb(14, k), 21 * math.comb(20, k)) for k in range(15) if k >= least),
            Fraction(0),
        )
        told = predicted(found, 20, 0.0, fails)
        assert told == pytest.approx(float(above_it + below_it), rel=1e-9)


def test_of_several_parts_the_least_likely_one_bounds_that_all_hold() -> None:
    sure, open_, against = (
        above([3.0, 2.0, 2.6, 2.2]),
        above([1.0, -0.6, 0.9, 0.4]),
        above([-1.0, 0.3, -0.8, -0.9]),
    )
    for weakest in (open_, against):
        holds = predicted(weakest, LAST, LEVEL, 0.0)
        fails = sum(predicted(part, LAST, 0.0, LEVEL / 2) for part in (sure, weakest))
        found = predicted(every([sure, weakest]), LAST, LEVEL, LEVEL)
        assert found == pytest.approx(holds + fails, rel=1e-9)


def test_what_is_no_number_decides_nothing() -> None:
    void = above([1.0, math.nan, 2.0])
    assert predicted(void, LAST, LEVEL, LEVEL) == predicted(above([1.0]), LAST, LEVEL, LEVEL) == 0.0
    assert predicted(every([void, above([3.0, 2.0, 2.5])]), LAST, LEVEL, 0.0) == 0.0
    assert predicted(above([1.0, 2.0, 3.0], math.inf), LAST, 0.0, 0.0) == 0.0


def test_claims_that_are_true_lose_hardly_any_power_by_what_is_given_up() -> None:
    """Claims that the last look finds with a chance of 80 %, and claims that are at their bound: of the first hardly
    any is lost, and the second take clearly fewer seeds than where none is given up."""
    efforts = np.linspace(0.3, 1.5, 1201)
    chances = np.array([power(effort, 1.0, np.array([LAST]), LEVEL)[0] for effort in efforts])
    effect = efforts[(chances >= 0.8).argmax()]
    draw, studies = stream(4, "given up"), 400
    lost, fewer = 0, 0
    for row in draw.standard_normal((studies, LAST)):
        (word, _), (without, _) = ended(row + effect)
        lost += (without == "holds") - (word == "holds")
        (_, seeds), (_, all_of_them) = ended(row)
        fewer += all_of_them - seeds
    assert 0 <= lost / studies < 0.04
    assert fewer / studies > 4


def ended(values: np.ndarray) -> tuple[tuple[str, int], tuple[str, int]]:
    """The verdict by planned looks, and the seeds that it took: where hopeless claims are given up, and where not."""
    given_up = 0
    for seeds in LOOKS:
        found = above(values[:seeds].tolist())
        word = (
            "holds" if found.p_holds <= LEVEL else "does not hold" if found.p_fails <= LEVEL else "undecided"
        )
        if word != "undecided":
            break
        if not given_up and predicted(found, LAST, LEVEL, LEVEL) < FUTILE:
            given_up = seeds
    return ("undecided", given_up) if given_up else (word, seeds), (word, seeds)
