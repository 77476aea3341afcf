"""Tests over seeds: against hand calculations, closed forms, and simulated data of known effect."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from fedroam.analysis.statistics.paired import (
    above,
    apart,
    below,
    every,
    interval,
    ratio_above,
    slope_weights,
    slopes,
    two_sided,
    within,
)
from fedroam.analysis.statistics.threshold import smallest_reaching
from fedroam.analysis.statistics.verdicts import holm, judge
from fedroam.errors import InputError
from fedroam.randomness import stream

FOUR = [1.0, 2.0, 4.0, 5.0]  # mean 3, s² = 10/3, standard error sqrt(10/12)


def test_interval_and_t_by_hand() -> None:
    low, high = interval(FOUR)
    half = 3.182446 * math.sqrt(10 / 12)  # t(0.975, 3) from a printed table
    assert low == pytest.approx(3 - half, abs=1e-5)
    assert high == pytest.approx(3 + half, rel=1e-6)
    found = above(FOUR, 1.0)
    assert (found.n, found.df, found.estimate) == (4, 3.0, 3.0)
    assert found.error == pytest.approx(0.912871, rel=1e-5)
    assert found.statistic == pytest.approx(2 / 0.912871, rel=1e-5)
    # Student's t with 3 degrees of freedom has a closed form.
    u = found.statistic / math.sqrt(3)
    tail = 0.5 - (math.atan(u) + u / (1 + u * u)) / math.pi
    assert found.p_holds == pytest.approx(tail, rel=1e-9)
    assert found.p_fails == pytest.approx(1 - tail, rel=1e-9)


def test_paired_is_a_test_of_differences() -> None:
    a, b = np.array([5.0, 7.0, 9.5, 4.0]), np.array([4.5, 6.0, 7.0, 3.5])
    assert above(a - b).p_holds == pytest.approx(stats.ttest_rel(a, b, alternative="greater").pvalue)
    assert below(a - b).p_holds == pytest.approx(stats.ttest_rel(a, b, alternative="less").pvalue)


def test_fewer_than_two_seeds_decide_nothing_and_say_so() -> None:
    for values, words in (([], "no seed"), ([7.0], "one seed")):
        verdict = judge([above(values)])[0]
        assert verdict.word == "undecided"
        assert words in verdict.reason
        assert verdict.seeds is None


def test_undefined_values_make_evidence_void() -> None:
    found = above([1.0, math.nan, 2.0])
    assert (found.p_holds, found.p_fails) == (1.0, 1.0)
    assert "undefined in 1 of 3" in judge([found])[0].reason


@pytest.mark.parametrize("values", [[math.inf, 3.0, 2.0, 5.0, 1.0], [2.0] * 5])
def test_infinite_or_equal_values_are_judged_by_sign(values: list[float]) -> None:
    found = above(values)
    assert found.kind == "sign"
    assert found.p_holds == pytest.approx(1 / 32)
    assert found.p_fails == 1.0
    assert judge([found])[0].word == "holds"
    four = judge([above(values[:4])])[0]
    assert (four.word, four.seeds) == ("undecided", 5)


def test_values_equal_to_the_bound_count_for_neither_side() -> None:
    found = above([0.0] * 8)
    assert (found.p_holds, found.p_fails) == (1.0, 1.0)


def test_within_by_two_one_sided_tests() -> None:
    x = [0.1, -0.2, 0.3, 0.0]
    found = within(x, 1.0)
    error = np.std(x, ddof=1) / 2
    by_hand = max(stats.t.sf((np.mean(x) + 1) / error, 3), stats.t.cdf((np.mean(x) - 1) / error, 3))
    assert found.p_holds == pytest.approx(by_hand)
    assert judge([found])[0].word == "holds"
    assert judge([within([5.0, 5.2, 4.9], 1.0)])[0].word == "does not hold"
    assert judge([within([-5.0, -5.2, -4.9], 1.0)])[0].word == "does not hold"


def test_ratio_is_judged_on_logarithms() -> None:
    a, b = [20.0, 44.0, 90.0], [10.0, 20.0, 40.0]
    found = ratio_above(a, b, 1.5)
    logs = np.log([2.0, 2.2, 2.25])
    assert found.estimate == pytest.approx(math.exp(logs.mean()))
    assert found.p_holds == pytest.approx(
        stats.ttest_1samp(logs, math.log(1.5), alternative="greater").pvalue
    )
    assert found.low < found.estimate < found.high
    assert ratio_above([1.0, 0.0], [1.0, 1.0]).p_holds == 1.0


def test_a_ratio_or_an_interval_too_large_for_a_number_is_infinite() -> None:
    """Logarithms of 0 and 460.5: their mean is 230.3, and the end of the interval 230.3 * (1 + t(0.975; 1) = 12.7)."""
    found = ratio_above([1.0, 1e100], [1.0, 1e-100])
    assert (found.estimate, found.high) == (pytest.approx(1e100), math.inf)
    assert judge([found])[0].word == "undecided"
    assert ratio_above([1e200], [1e-200]).estimate == math.inf


def test_slope_is_the_rise_of_the_fitted_line() -> None:
    keys = [0.0, 0.05, 0.2, 1.0]
    values = np.array([[1.0, 2.0, 2.5, 4.0], [0.0, 0.0, 1.0, 0.5]])
    expected = [np.polyfit(keys, row, 1)[0] * (max(keys) - min(keys)) for row in values]
    assert slopes(values, keys) == pytest.approx(expected)
    assert slope_weights([1, 2]).tolist() == [-1.0, 1.0]
    with pytest.raises(InputError, match="two different finite numbers"):
        slope_weights([3, 3])


def test_every_part_must_hold_and_one_may_refuse() -> None:
    good, bad, open_ = above([5.0, 5.1, 4.9]), above([-5.0, -5.1, -4.9]), above([1.0, -1.0, 0.5])
    assert judge([every([good, good])])[0].word == "holds"
    assert judge([every([good, bad])])[0].word == "does not hold"
    assert judge([every([good, open_])])[0].word == "undecided"
    assert every([good, open_]).p_holds == open_.p_holds
    assert every([good, every([good, open_])]).note == every([good, open_]).note  # told once, however deep
    assert every([good, bad]).p_fails == pytest.approx(2 * bad.p_fails)
    assert judge([every([good, open_])])[0].seeds == judge([open_])[0].seeds


@pytest.mark.slow
def test_intervals_cover_and_tests_keep_their_size() -> None:
    """Simulated seeds of known effect: coverage, size, Holm's error rate, the threshold's confidence."""
    draw = stream(0, "seeds of known effect")
    trials = 1000
    tolerance = 4 * math.sqrt(0.05 * 0.95 / trials)  # four standard errors
    for n, effect in ((3, 0.0), (5, 2.0), (10, -1.0)):
        shared = draw.normal(0, 10, (trials, n))  # the luck of a seed, which pairing cancels
        a, b = shared + draw.normal(effect, 1, (trials, n)), shared + draw.normal(0, 1, (trials, n))
        evidence = [above(row, effect) for row in a - b]
        covered = np.mean([e.low <= effect <= e.high for e in evidence])
        assert covered == pytest.approx(0.95, abs=tolerance)
        assert np.mean([e.p_holds <= 0.05 for e in evidence]) == pytest.approx(0.05, abs=tolerance)
        assert np.mean([e.p_fails <= 0.05 for e in evidence]) == pytest.approx(0.05, abs=tolerance)
    # Trends: neighbouring keys share draws (a random walk within a seed), yet a flat mean is not called a trend.
    keys = np.arange(6.0)
    walks = draw.normal(0, 1, (trials, 4, 6)).cumsum(axis=2)
    rising = np.mean([above(slopes(walk, keys)).p_holds <= 0.05 for walk in walks])
    assert rising == pytest.approx(0.05, abs=tolerance)
    # Five claims of which none is true, in a study of five seeds: some verdict is wrong in at most 5 %.
    wrong = 0
    for claims in draw.normal(0, 1, (600, 5, 5)):
        wrong += min(holm([above(claim).p_holds for claim in claims])) <= 0.05
    assert wrong / 600 <= 0.05 + 4 * math.sqrt(0.05 * 0.95 / 600)
    # Thresholds: the true one is 3 (value 10 reached exactly); `sure` may be smaller in at most 5 %.
    means = np.array([6.0, 9.0, 10.0, 12.0])
    too_small = missed = 0
    for table in draw.normal(means, 1.0, (600, 5, 4)):
        found = smallest_reaching([1, 2, 3, 4], table, 10.0)
        too_small += found.sure is not None and found.sure < 3
        missed += found.ruled_out is not None and found.ruled_out >= 3
    assert too_small / 600 <= 0.05
    assert missed / 600 <= 0.05 + 4 * math.sqrt(0.05 * 0.95 / 600)


def test_interval_against_the_table_of_student() -> None:
    step = 0.05 * math.sqrt(
        3
    )  # the standard deviation of three numbers so far apart; their standard error is 0.05
    low, high = interval([0.25 - step, 0.25, 0.25 + step])  # t(0.975; 2) = 4.3027
    assert (low, high) == (
        pytest.approx(0.25 - 4.3027 * 0.05, abs=1e-5),
        pytest.approx(0.25 + 4.3027 * 0.05, abs=1e-5),
    )
    assert math.isnan(interval([0.25])[0])


def test_values_that_agree_have_no_interval_beside_their_sign_test() -> None:
    """One of 36 test samples more with both seeds: 1/36 each, up to the last bit. The sign test has p = 0.5."""
    gaps = [30 / 36 - 29 / 36, 23 / 36 - 22 / 36]
    assert 0 < abs(gaps[0] - gaps[1]) < 1e-15
    assert two_sided(gaps) == 0.5
    assert all(math.isnan(end) for end in interval(gaps))


def test_a_sum_that_is_no_more_than_its_rounding_is_zero() -> None:
    assert apart((0.1 + 0.2, -0.3)) == 0.0
    assert apart((1e9 + 1e-4, -1e9)) == 0.0
    assert apart((1e9 + 1.0, -1e9)) == 1.0
    assert apart((5.0, -3.0)) == 2.0
    assert apart(()) == 0.0
    assert apart((math.inf, -1.0)) == math.inf
    assert math.isnan(apart((math.inf, -math.inf)))
    assert math.isnan(apart((math.nan, 1.0)))
