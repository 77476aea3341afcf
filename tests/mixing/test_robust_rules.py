"""Rules that see the models: worked by hand, held against slow versions, and by what they promise."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedroam.components import build
from fedroam.contacts import graph_of
from fedroam.errors import InputError
from fedroam.mixing import Facts, Surroundings
from fedroam.mixing.clipped_gossip import ClippedGossip
from fedroam.mixing.contact_duration import ContactDuration
from fedroam.mixing.krum import assumed, scores
from fedroam.mobility import Paths
from fedroam.randomness import stream
from support.contract import facts_of, received


def made(
    kind: str, models: Any, own: int | None = 0, about: dict[str, Any] | None = None, **given: Any
) -> list[float]:
    """What a rule makes of models, given as lists."""
    rule: Any = build("aggregation", {"kind": kind, **(about or {})})
    values = np.array(models, dtype=np.float32)
    if "weights" in given:
        given["weights"] = np.array(given["weights"], dtype=np.float64)
    found: np.ndarray = rule.aggregate(received(values, own, **given), facts_of(rule, len(values)))
    return found.tolist()


def test_average_by_hand() -> None:
    assert made("average", [[1, 0], [3, 8]], weights=[0.75, 0.25]) == [1.5, 2.0]


def test_median_by_hand() -> None:
    assert made("median", [[1, 10], [2, -5], [900, 0]]) == [2, 0]
    assert made("median", [[1, 10], [2, -5], [900, 0], [4, 2]]) == [3, 1]
    assert made("median", [[1], [2], [math.nan]]) == [2], "what is no number counts as an extreme one"


def test_trimmed_mean_by_hand() -> None:
    models = [[1], [2], [3], [4], [1000]]
    assert made("trimmed_mean", models) == [3]  # ceil(0.2 * 5) = 1 at each end
    assert made("trimmed_mean", models, about={"beta": 0.4}) == [3]
    assert made("trimmed_mean", models, about={"beta": 0.0}) == [202]
    assert made("trimmed_mean", [[1], [5]]) == [3]  # cut to 0 at each end: a value must be left
    assert made("trimmed_mean", [[0], [6], [8], [math.inf]]) == [7]


# On a line: five models near one another, two far away together.
LINE = [[0.0], [1.0], [3.0], [2.0], [1.5], [100.0], [101.0]]


def test_krum_by_hand() -> None:
    # m = 7, f = ceil(0.2 * 7) = 2: the 3 nearest of each. Of 1: 0.25 + 1 + 1; of 1.5: 0.25 + 0.25 + 2.25 (both of 0 and
    # 3 are as far); of 2: 0.25 + 1 + 1; of 0: 1 + 2.25 + 4; of 3: 1 + 2.25 + 4.
    found = scores(np.array(LINE, dtype=np.float32), 2)
    np.testing.assert_allclose(found[:5], [7.25, 2.25, 7.25, 2.25, 2.75])
    np.testing.assert_allclose(found[5:], [1 + 97**2 + 98**2, 1 + 98**2 + 99**2])
    assert made("krum", LINE) == [1.0]  # of equal scores the first


def test_multi_krum_by_hand() -> None:
    assert made("multi_krum", LINE) == [1.5]  # m - f = 5: (0 + 1 + 3 + 2 + 1.5) / 5
    assert made("multi_krum", LINE, about={"keep": 3}) == [1.5]  # 1, 2, 1.5
    assert made("multi_krum", LINE, about={"keep": 1}) == made("krum", LINE)
    assert made("multi_krum", LINE, about={"keep": 99}) == made("multi_krum", LINE)


@pytest.mark.parametrize("missing", [1, 2, 3, 4])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_models_of_no_numbers_are_never_taken_by_krum_however_many(missing: int, bad: float) -> None:
    """f is 2 of 7: one and two such models are reckoned with, more are not."""
    near = [[0.0], [1.0], [3.0], [2.0], [1.5], [2.5], [0.5]][missing:]
    models = [[bad]] * missing + near
    left = sorted(value for (value,) in near)
    assert made("krum", models, own=6)[0] in left
    expected = np.mean(left) if missing >= 2 else None
    found = made("multi_krum", models, own=6)[0]
    assert left[0] <= found <= left[-1]
    if expected is not None:
        assert found == pytest.approx(expected), "m - f models, or all that are left"


@pytest.mark.parametrize("kind", ["krum", "multi_krum"])
def test_krum_keeps_its_own_where_fewer_than_three_models_are_numbers(kind: str) -> None:
    models = [[math.nan], [math.nan], [math.nan], [5.0], [6.0]]
    assert made(kind, models, own=4) == [6.0]


@pytest.mark.parametrize("kind", ["krum", "multi_krum"])
def test_of_two_models_krum_keeps_its_own(kind: str) -> None:
    assert made(kind, [[1], [5]], own=1) == [5]
    assert made(kind, [[1], [5]], own=None) == [0]


def test_the_attackers_reckoned_with_leave_a_majority() -> None:
    assert [assumed(0.2, m) for m in (3, 4, 5, 7, 10, 20)] == [0, 0, 1, 2, 2, 4]
    assert all(2 * assumed(0.49, m) + 2 < m for m in range(3, 60))


def test_clipped_gossip_by_hand() -> None:
    # From (0, 0): a model at distance 5 is drawn in to 1, one at 0.5 is not. 0.25 (0.6, 0.8) + 0.25 (0, 0.5).
    models = [[0, 0], [3, 4], [0, 0.5]]
    found = made("clipped_gossip", models, about={"tau": 1.0}, weights=[0.5, 0.25, 0.25])
    np.testing.assert_allclose(found, [0.15, 0.325], rtol=1e-6)


def test_the_clipping_radius_by_hand() -> None:
    # The farthest has weight 0.2 = delta and is left out; tau^2 = (0.2 * 1 + 0.2 * 4) / 0.2 = 5.
    away, weights = np.array([0.0, 1.0, 2.0, 50.0]), np.array([0.4, 0.2, 0.2, 0.2])
    assert ClippedGossip().radius(away, weights) == pytest.approx(math.sqrt(5))
    assert ClippedGossip(delta=0.1).radius(away, weights) == pytest.approx(math.sqrt(10 * (0.2 + 0.8 + 500)))
    assert ClippedGossip(delta=0.0).radius(away, weights) == math.inf


def test_without_attackers_to_reckon_with_clipped_gossip_is_the_average() -> None:
    models, weights = [[1, 5], [2, -7], [4, 900]], [0.5, 0.3, 0.2]
    found = made("clipped_gossip", models, about={"delta": 0.0}, weights=weights)
    np.testing.assert_allclose(found, made("average", models, weights=weights), rtol=1e-6)


@pytest.mark.parametrize("wrong", [0, -1.0, math.inf, True, "wide"])
def test_a_clipping_radius_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match=r"aggregation.tau .*allowed is a number above 0"):
        build("aggregation", {"kind": "clipped_gossip", "tau": wrong})


def test_balance_by_hand() -> None:
    # ||own|| = 10, gamma = 0.5, kappa = ln 4, round 5 of 10: accepted up to 10 * 0.5 * 4^-0.5 = 2.5.
    about = {"gamma": 0.5, "kappa": math.log(4), "alpha": 0.5}
    models = [[6, 8], [6, 10], [8, 8], [6, 10.6]]
    found = made("balance", models, about=about, round=5)
    np.testing.assert_allclose(found, [(6 + 7) / 2, (8 + 9) / 2])


def test_balance_keeps_the_own_model_where_nothing_is_like_it() -> None:
    assert made("balance", [[1, 0], [50, 0], [-50, 0]]) == [1, 0]
    assert made("balance", [[1, 0], [math.nan, 0]]) == [1, 0]


def test_balance_trusts_less_and_less() -> None:
    models = [[10.0], [12.0]]
    assert made("balance", models, round=1) == [11.0]  # 0.3 e^-0.1 * 10 = 2.7
    assert made("balance", models, round=10) == [10.0]  # 0.3 e^-1 * 10 = 1.1


@settings(max_examples=80, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(5, 12),
    st.sampled_from(["median", "trimmed_mean", "krum", "multi_krum"]),
)
def test_a_minority_of_far_models_does_not_move_the_result_out_of_the_honest(
    seed: int, m: int, kind: str
) -> None:
    draws = stream(seed, "robust")
    far = min(math.ceil(0.2 * m - 1e-9), (m - 3) // 2)
    honest = draws.standard_normal((m - far, 3)).astype(np.float32)
    lies = (1e6 * np.sign(draws.standard_normal(3)) + draws.standard_normal((far, 3))).astype(np.float32)
    models = np.concatenate([honest, lies])[draws.permutation(m)]
    found = np.array(made(kind, models))
    assert (found >= honest.min(0) - 1e-5).all()
    assert (found <= honest.max(0) + 1e-5).all()


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 8), st.floats(0.1, 100))
def test_nobody_pulls_further_than_its_weight_times_tau(seed: int, m: int, tau: float) -> None:
    draws = stream(seed, "clipping")
    models = (draws.standard_normal((m, 4)) * 50).astype(np.float32)
    weights = draws.random(m) + 0.01
    weights /= weights.sum()
    moved = np.array(made("clipped_gossip", models, about={"tau": tau}, weights=weights)) - models[0]
    assert np.linalg.norm(moved) <= (1 - weights[0]) * tau * (1 + 1e-4) + 1e-4


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(3, 8), st.integers(0, 2))
def test_krum_scores_are_the_slow_ones(seed: int, m: int, f: int) -> None:
    models = stream(seed, "krum").standard_normal((m, 3)).astype(np.float32)
    near = max(m - f - 2, 1)
    slow = []
    for i in range(m):
        others = [float(((models[i].astype(float) - models[j]) ** 2).sum()) for j in range(m) if j != i]
        slow.append(min(sum(some) for some in itertools.combinations(others, near)))
    np.testing.assert_allclose(scores(models, f), slow, rtol=1e-9)


def test_weights_by_contact_duration_by_hand() -> None:
    # 1 stays with 0 all the round, 2 passes by for 0.4 of it.
    start, end = np.array([[0.0, 0], [1, 0], [-10, 3]]), np.array([[0.0, 0], [1, 0], [10, 3]])
    graph = graph_of(np.array([[0, 1], [0, 2]]), 3)
    around = Surroundings(Paths.straight(start, end), graph, 5.0, np.ones((3, 2), dtype=np.int64))
    rule = ContactDuration()
    found = rule.weights(graph, Facts.of(rule, np.ones(3, dtype=np.int64), around)).toarray()
    np.testing.assert_allclose(found[0], np.array([1, 1, 0.4]) / 2.4)
    np.testing.assert_allclose(found[1], [0.5, 0.5, 0])
    np.testing.assert_allclose(found[2], np.array([0.4, 0, 1]) / 1.4)
