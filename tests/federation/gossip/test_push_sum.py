"""Push-sum, by hand, beside plain loops, and its mass, whatever breaks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedroam.analysis.planned_time import Idle
from fedroam.attacks import Withheld
from fedroam.components import build
from fedroam.federation.gossip.push_sum import NUMERATORS, WEIGHTS
from fedroam.randomness import stream
from fedroam.simulation import begin, play_round
from support.gossiping import (
    begun,
    context_of,
    drawn_graph,
    meeting_of,
    models_of,
    round_of,
    rows_of,
    same_exchanges,
)
from support.holders import Apart
from support.one_weight import Script, weights_after_each_round
from support.timed import timed_scene

PUSH_SUM: Any = build("federation", "push_sum")
PAIR = ~np.eye(2, dtype=bool)


def test_two_who_hear_each_other_by_hand() -> None:
    """0 -> 0.5 and 0 -> 2.5, of each half to the other: 1.5 each. Then 1.25 and 3.25: 2.25. A model and a weight are
    eight bytes."""
    weights, sent, _ = weights_after_each_round(federation="push_sum", mobility=Script(x=(0.0, 0.0, 0.0)))
    assert weights == [[1.5, 1.5], [2.25, 2.25]]
    assert sent == [16, 32]


def test_one_way_by_hand() -> None:
    """0.5 and 2.5, of which only the second's half gets through: x = 0.5 + 1.25 and 1.25, w = 1.5 and 0.5, z = 7/6 and
    2.5. Then the first learns 1 (x = 2.75), and both halves get through: x = 1.375 + 0.625, w = 0.75 + 0.25."""
    context = context_of(np.ones(2, np.int64))
    start = begun(PUSH_SUM, np.array([[0.5, 0.0], [2.5, 0.0]]), context)
    round = round_of(
        1, start.models, start.state, context, received=np.array([[False, True], [False, False]])
    )
    done = PUSH_SUM.exchange(round, meeting_of(PAIR))
    np.testing.assert_allclose(done.state[NUMERATORS][:, 0], [1.75, 1.25])
    assert done.state[WEIGHTS].tolist() == [1.5, 0.5]
    np.testing.assert_allclose(rows_of(done.models)[:, 0], [7 / 6, 2.5], rtol=1e-7)
    assert done.facts == {"push_weight_least": 0.5}
    assert (done.traffic.sender.tolist(), done.traffic.receiver.tolist()) == ([1], [0])
    assert done.aggregated.tolist() == [1]
    assert done.meeting.graph.nnz == 2

    done.models.parameters[0] += 1.0
    done = PUSH_SUM.exchange(round_of(2, done.models, done.state, context), meeting_of(PAIR))
    np.testing.assert_allclose(done.state[NUMERATORS][:, 0], [2.0, 2.0], rtol=1e-7)
    assert done.state[WEIGHTS].tolist() == [1.0, 1.0]
    mean = PUSH_SUM.evaluation_models(done.models, done.state, context)["own"].mean
    np.testing.assert_allclose(rows_of(mean), [[2.0, 0.0]], rtol=1e-7)


def slow(x: np.ndarray, w: np.ndarray, graph: np.ndarray, got: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One exchange of numerators that have learnt, client by client."""
    new_x, new_w = np.zeros_like(x), np.zeros_like(w)
    for j in range(len(w)):
        out = [i for i in range(len(w)) if graph[i, j]]
        kept = 1.0
        for i in out:
            if got[i, j]:
                kept -= 1 / (1 + len(out))
                new_x[i] += x[j] / (1 + len(out))
                new_w[i] += w[j] / (1 + len(out))
        new_x[j] += kept * x[j]
        new_w[j] += kept * w[j]
    return new_x, new_w


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), clients=st.integers(1, 9))
def test_any_losses_beside_plain_loops_and_the_mass_stays(seed: int, clients: int) -> None:
    draws = stream(seed, "push-sum of a test")
    context = context_of(np.ones(clients, np.int64))
    rows = draws.standard_normal((clients, 5)) * 10.0 ** draws.integers(-3, 4, (clients, 1))
    start = begun(PUSH_SUM, rows, context)
    models, state = start.models, start.state
    for number in range(1, 6):
        graph = drawn_graph(draws, clients)
        got = graph & (draws.random(graph.shape) < 0.6)
        before = rows_of(models)
        models.parameters.add_(torch.from_numpy(draws.standard_normal((clients, 4))).float())
        learnt = state[NUMERATORS] + (rows_of(models) - before)
        x, w = slow(learnt, state[WEIGHTS], graph, got)
        total = learnt.sum(0)
        done = PUSH_SUM.exchange(round_of(number, models, state, context, got), meeting_of(graph))
        models, state = done.models, done.state
        scale = np.abs(learnt).sum()
        np.testing.assert_allclose(state[NUMERATORS], x, rtol=1e-5, atol=1e-6 * scale)
        np.testing.assert_allclose(state[WEIGHTS], w, rtol=1e-5)
        # The mass, up to the rounding of a few sums in float64, although messages are float32.
        np.testing.assert_allclose(state[NUMERATORS].sum(0), total, rtol=0, atol=1e-14 * scale)
        assert abs(state[WEIGHTS].sum() - clients) <= 1e-14 * clients
        assert (state[WEIGHTS] > 0).all()
        z = state[NUMERATORS] / state[WEIGHTS][:, None]
        np.testing.assert_allclose(rows_of(models), z, rtol=1e-6, atol=1e-30)
        assert set(zip(done.traffic.receiver.tolist(), done.traffic.sender.tolist(), strict=True)) == {
            (int(i), int(j)) for i, j in np.argwhere(got)
        }


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), clients=st.integers(1, 7), lies=st.booleans())
def test_each_peer_for_itself_gives_the_same_bits(seed: int, clients: int, lies: bool) -> None:
    """Whatever does not get through, and whoever does not tell what it made of what did."""
    draws = stream(seed, "push-sum at peers")
    context = context_of(np.ones(clients, np.int64))
    start = begun(PUSH_SUM, draws.standard_normal((clients, 5)), context)
    models, state = start.models, start.state
    for number in range(1, 4):
        graph = drawn_graph(draws, clients)
        got = graph & (draws.random(graph.shape) < 0.7)
        models.parameters.add_(torch.from_numpy(draws.standard_normal((clients, 4))).float())
        liars = np.flatnonzero(draws.random(clients) < 0.5) if lies else np.zeros(0, np.int64)
        withheld = Withheld(liars, torch.from_numpy(draws.standard_normal((len(liars), 4))).float())
        here = round_of(number, models_of(rows_of(models)), state, context, got)
        lost = frozenset((number, int(j), int(i)) for i, j in np.argwhere(graph & ~got))
        silent = frozenset((number, int(i)) for i in np.flatnonzero(draws.random(clients) < 0.3))
        there = round_of(number, models, state, context)
        there = replace(there, aggregator=Apart(PUSH_SUM, context, lost, silent))
        one, other = (
            PUSH_SUM.exchange(replace(each, withheld=withheld if lies else None), meeting_of(graph))
            for each in (here, there)
        )
        same_exchanges(one, other)
        models, state = other.models, other.state


def test_without_learning_all_come_to_the_mean_over_links_that_break() -> None:
    """Where decentralized learning needs both ways: 200 rounds in which each message gets through every other time."""
    draws = stream(4, "push-sum of a test")
    context, rows = context_of(np.ones(6, np.int64)), draws.standard_normal((6, 3))
    start = begun(PUSH_SUM, rows, context)
    models, state, graph = start.models, start.state, ~np.eye(6, dtype=bool)
    for number in range(1, 201):
        got = graph & (draws.random(graph.shape) < 0.5)
        done = PUSH_SUM.exchange(round_of(number, models, state, context, got), meeting_of(graph))
        models, state = done.models, done.state
    np.testing.assert_allclose(
        rows_of(models), np.tile(np.float32(rows).mean(0), (6, 1)), rtol=1e-5, atol=1e-6
    )


def test_attackers_push_what_they_say_and_keep_what_they_learnt() -> None:
    """Both began at 0. The attacker learnt 4 and says -4: the other gets -2 and keeps 1 of its 2; the attacker keeps 2
    and gets 1."""
    context = context_of(np.ones(2, np.int64))
    start = begun(PUSH_SUM, np.zeros((2, 2)), context)
    told = models_of(np.array([[2.0, 0.0], [-4.0, 0.0]]))
    withheld = Withheld(np.array([1]), torch.tensor([[4.0]]))
    round = replace(round_of(1, told, start.state, context), withheld=withheld)
    done = PUSH_SUM.exchange(round, meeting_of(PAIR))
    assert rows_of(done.models)[:, 0].tolist() == [-1.0, 3.0]


@pytest.mark.parametrize("late", ["dropped", "carried"])
def test_the_mass_of_a_run_under_a_clock_stays(late: str) -> None:
    """Models of four seconds in short contacts, on shared air: many break, and nothing is lost."""
    scene = timed_scene(
        (2.0, 6.0, 14.0, 0.0, 1.0),
        rounds=12,
        federation="push_sum",
        start_models="independent",
        clock={"kind": "seconds", "length": 10.0, "late": late},
        link={"kind": "fixed", "throughput": 8e-6 * 2600 / 4, "shared": True, "simultaneous": 2},
        mobility={"kind": "random", "grid": 4, "mobile": 4},
        contacts={"kind": "closest_approach", "radius": 1.5},
    )
    scene = replace(scene, learner=Idle(scene.learner))
    state = begin(scene)
    total, through, wanted = state.federation[NUMERATORS].sum(0), 0.0, 0.0
    for _ in range(12):
        state, done = play_round(scene, state)
        through, wanted = through + done.facts["through"], wanted + done.facts["transfers"]
    assert 0 < through < wanted
    np.testing.assert_allclose(state.federation[NUMERATORS].sum(0), total, rtol=0, atol=1e-12)
    assert abs(state.federation[WEIGHTS].sum() - 5) < 1e-13
    assert np.ptp(state.federation[WEIGHTS]) > 0.1, "nothing broke one way only"
