"""Verdicts: Holm's correction, three-way verdicts, and how many seeds would decide."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedroam.analysis.statistics.chances import chance, needed, points_to_yes, power
from fedroam.analysis.statistics.looks import shared
from fedroam.analysis.statistics.moderated import moderate
from fedroam.analysis.statistics.paired import Evidence, above, below, every, ratio_above, within
from fedroam.analysis.statistics.verdicts import holm, judge, judge_in_order
from fedroam.errors import InputError
from fedroam.randomness import stream


def test_holm_by_hand() -> None:
    # Sorted .005 .01 .03 .04, times 4 3 2 1: .02 .03 .06 .06 (kept from falling).
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    with pytest.raises(InputError):
        holm([1.2])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.001, 0.3))
def test_holm_rejects_what_the_step_down_procedure_rejects(p: list[float], alpha: float) -> None:
    rejected: set[int] = set()
    order = sorted(range(len(p)), key=lambda k: p[k])
    for step, k in enumerate(order):  # the procedure as the paper words it
        if p[k] * (len(p) - step) > alpha:
            break
        rejected.add(k)
    assert {k for k, adjusted in enumerate(holm(p)) if adjusted <= alpha} == rejected


def test_three_way_verdict_after_correction() -> None:
    strong, weak, against = (
        above([3.0, 3.1, 2.9, 3.0]),
        above([2.0, 0.6, 1.0, 0.3]),
        above([-3.0, -3.1, -2.8]),
    )
    assert weak.p_holds < 0.05  # alone it would hold
    verdicts = judge([strong, weak, against])
    assert [v.word for v in verdicts] == ["holds", "undecided", "does not hold"]
    assert judge([weak])[0].word == "holds"
    assert f"about {verdicts[1].seeds} seeds" in verdicts[1].reason
    assert verdicts[1].seeds is not None
    assert verdicts[1].seeds > 4


def test_seeds_needed_agree_with_a_printed_table_and_with_trials() -> None:
    # One-sample t test, one-sided 5 %, power 80 %, effect of one and of half a standard deviation: 8 and 27.
    seeds = np.arange(2, 100)
    for effect, enough in ((1.0, 8), (0.5, 27)):
        assert seeds[(power(effect, 1.0, seeds, 0.05) >= 0.8).argmax()] == enough
    assert (power(0.01, 1.0, seeds, 0.05) < 0.1).all()
    assert (power(0.0, 1.0, seeds, 0.05) == 0.0).all()
    assert power(1e9, 1.0, seeds, 0.05) == pytest.approx(1.0)
    draws = stream(1, "power").normal(1.0, 1.0, (4000, 8))
    p = stats.ttest_1samp(draws, 0, axis=1, alternative="greater").pvalue
    assert (p < 0.05).mean() == pytest.approx(power(1.0, 1.0, np.array(8), 0.05), abs=0.02)


def test_seeds_that_are_said_to_decide_do_so_when_there_are_as_many() -> None:
    pattern = np.array([2.0, 0.2, 1.5, -0.3])
    found = above(pattern)
    seeds = needed(found, 0.01, 0.01)
    assert seeds is not None
    repeated = np.resize(pattern, seeds)
    assert above(repeated).p_holds < 0.01
    assert judge([above([0.001, -1.0, 1.0])])[0].reason.startswith("more than 1000 seeds")


@pytest.mark.parametrize(("under", "inside", "over"), [(1, 8, 1), (8, 2, 0), (0, 2, 8), (0, 9, 1)])
def test_seeds_for_a_claim_to_be_near_0_whose_signs_are_tested_count_both_ends(
    under: int, inside: int, over: int
) -> None:
    """Against the chance of each outcome of n seeds that fall under, between and over the ends as those did."""
    values = [-np.inf] * under + [0.0] * inside + [np.inf] * over
    found = within(values, 1.0)
    assert found.kind == "sign"
    shares = np.array([under, inside, over]) / len(values)
    for n in (6, 9, 13, 20):
        decided = 0.0
        for low in range(n + 1):
            for high in range(n + 1 - low):
                counts = (low, n - low - high, high)
                tested = within(np.repeat([-np.inf, 0.0, np.inf], counts), 1.0)
                said = tested.p_holds if points_to_yes(found) else tested.p_fails
                decided += (said <= 0.05) * stats.multinomial.pmf(counts, n, shares)
        told = float(chance(found, np.array([n]), 0.05, 0.05)[0])
        assert told <= decided + 1e-9, n
        # Two tests that both have to succeed are bounded by Bonferroni's inequality, which is close where it matters.
        assert told >= decided - (0.02 if decided > 0.8 or not points_to_yes(found) else 1 - decided), n


def test_where_evidence_points_is_told_by_its_estimate_not_by_looks_before() -> None:
    """Of a sequence of looks both p-values may be 1, or the smaller one of a look that pointed the other way."""
    yes, no = above([2.0, 0.5, 1.4, 0.1]), above([-0.2, 0.3, -0.1, -0.6])
    assert (points_to_yes(yes), points_to_yes(no)) == (True, False)
    for early in (no, yes):
        late = shared([early, replace(no, n=6)], 5)
        assert late.p_holds <= late.p_fails == 1.0  # the p-values of the whole sequence do not say so
        assert not points_to_yes(late)
    assert points_to_yes(below([-1.0, -2.0, 0.5]))
    assert points_to_yes(within([0.5, -0.2, 0.4], 1.0))
    assert not points_to_yes(within([1.5, 1.2, 0.9], 1.0))
    assert points_to_yes(ratio_above([3.0, 4.0], [2.0, 2.0], 1.5))
    assert points_to_yes(every([yes, yes]))
    assert not points_to_yes(every([yes, no]))
    assert not points_to_yes(above([]))
    # What points to no is decided by the level of "does not hold", which Holm's method divides.
    last = np.array([20])
    assert chance(late, last, 0.0, 0.01) > chance(late, last, 0.01, 0.0) == 0


def test_a_claim_of_several_parts_that_does_not_hold_says_which_way_its_clearest_part_lies() -> None:
    """The second part is refuted more clearly than the first, and it is the other way round."""
    (verdict,) = judge(
        [every([above([-3.0, -3.1, -2.2, -3.0]), below([9.0, 9.1, 9.05, 9.0], 1.0), above([1.0, 1.1])])]
    )
    assert verdict.word == "does not hold"
    assert "of at least one of its 3 parts (where it is clearest, the mean is above 1), p" in verdict.reason


def test_an_equality_that_is_refuted_says_so_by_the_test_that_refutes_it() -> None:
    """Of a number without a least, its most is finite: t refutes. Where seeds agree exactly, it is their signs."""
    most = np.array([-200.0, -190.0, -210.0, -205.0])
    open_ended = within([(-np.inf, one) for one in most], 20.0)
    (verdict,) = judge([open_ended])
    assert (verdict.word, open_ended.kind) == ("does not hold", "within")
    assert verdict.p_fails == pytest.approx(2 * stats.ttest_1samp(most, -20, alternative="less").pvalue)
    assert (open_ended.estimate, open_ended.df) == (-201.25, 3.0)  # of the end that refutes it
    assert "the mean is farther from 0 than 20, p" in verdict.reason

    (verdict,) = judge([within([5.0] * 7, 1.0)])
    assert verdict.p_fails == 2 / 2**7
    assert "more than half of all seeds are farther from 0 than 1, p = 0.016" in verdict.reason


def test_a_verdict_is_told_by_the_test_of_the_look_that_decides() -> None:
    """Four seeds need some 20 rounds, far below 50: t decides. Of six, one never arrives: signs could not decide."""
    rounds = [(one, one) for one in (20.0, 21.0, 19.0, 20.5)]
    sixth = [*rounds, (20.0, 20.0), (300.0, np.inf)]
    four, six = below(rounds, 50.0), below(sixth, 50.0)
    assert (four.kind, six.kind) == ("t", "sign")
    assert six.p_holds == 7 / 2**6
    found = shared([four, six], 5)
    assert (found.n, found.p_holds, found.kind) == (6, 5 * four.p_holds, "sign")
    assert [look.n for look in found.said_by] == [4, 6]
    (verdict,) = judge([found], looks=(4, 6))
    assert verdict.word == "holds"
    assert "more than half" not in verdict.reason
    assert verdict.reason.endswith("after Holm's correction; decided at the look at 4 seeds, by one-sided t")

    (verdict,) = judge([shared([above(rounds, 50.0), above(sixth, 50.0)], 5)], looks=(4, 6))
    assert (
        "the mean is below 50, p < 0.0001 after Holm's correction; decided at the look at 4" in verdict.reason
    )

    # The other way round: what signs decide speaks of half of all seeds, whatever tests the look behind it.
    never, late = below([(20.0, 20.0)] * 9, 50.0), below([*rounds * 3, (40.0, 90.0)], 50.0)
    assert (never.kind, late.kind) == ("sign", "t")
    signs = shared([never, replace(late, p_holds=0.01)], 5)
    assert "not of their mean; decided at the look at 9 seeds, by exact sign test" in judge([signs])[0].reason
    # Nothing is added where the last look tests alike.
    assert "look at" not in judge([shared([four, below([*rounds, (20.0, 20.0)], 50.0)], 5)])[0].reason


# Ends and bounds that meet, beside any number of a sane size.
NUMBERS = st.sampled_from([-np.inf, -200.0, -1.0, 0.0, 1.0, 5.0, np.inf, np.nan]) | st.floats(-1e6, 1e6)


@st.composite
def values(draw: st.DrawFn) -> list[tuple[float, float]]:
    """The least and the most of each of some seeds, often all alike, or of one end alike, or without a width."""
    n = draw(st.integers(0, 9))
    columns = [
        [draw(NUMBERS)] * n if draw(st.booleans()) else draw(st.lists(NUMBERS, min_size=n, max_size=n))
    ]
    columns.append(columns[0] if draw(st.booleans()) else [draw(NUMBERS)] * n)
    return [(min(pair), max(pair)) for pair in zip(*columns, strict=True)]


@st.composite
def evidence(draw: st.DrawFn) -> Evidence:
    """Of a claim of any kind, or of several such as parts, perhaps of one unit."""
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        found, bound = draw(values()), draw(st.sampled_from([1.0, 20.0]))
        asked = [above(found, bound), below(found, bound), within(found, bound)]
        part = draw(st.sampled_from([*asked, ratio_above(found, found[::-1], bound)]))
        parts.append(replace(part, unit=draw(st.sampled_from(["", "points"])), seeds=tuple(range(part.n))))
    return every(parts)


@given(st.lists(st.lists(evidence(), min_size=1, max_size=3), max_size=3), st.sampled_from([0.05, 0.45]))
def test_no_family_of_claims_is_too_odd_to_be_judged(family: list[list[Evidence]], alpha: float) -> None:
    """Infinities, ties, seeds that agree, nothing at all: each gets a word and a reason, at once or look after look."""
    last, looked = [seen[-1] for seen in family], [shared(seen, 2) for seen in family]
    for judged in (judge, judge_in_order):
        for found, looks in ((last, ()), (moderate(last), ()), (looked, (4, 6))):
            verdicts = judged(found, alpha, looks)
            assert len(verdicts) == len(family)
            assert all(verdict.word and verdict.reason for verdict in verdicts)
