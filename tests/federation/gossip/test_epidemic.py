"""Epidemic Learning: who is drawn, what is averaged, and that nobody is sent more than the rule says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedroam.components import build
from fedroam.federation import Round
from fedroam.randomness import stream
from support.gossiping import begun, context_of, drawn_graph, meeting_of, round_of, rows_of
from support.one_weight import Script, weights_after_each_round


def part(fanout: int, draw: str) -> Any:
    return build("federation", {"kind": "epidemic", "fanout": fanout, "draw": draw})


def a_round(clients: int, seed: int, number: int = 1) -> Round:
    context = context_of(np.ones(clients, np.int64), seed)
    rows = stream(seed, "models of a test").standard_normal((clients, 4))
    start = begun(part(1, "local"), rows, context)
    return round_of(number, start.models, start.state, context)


def sent(fanout: int, draw: str, round: Round, graph: np.ndarray) -> np.ndarray:
    """Who (row) is sent whose model (column)."""
    sends = part(fanout, draw).sends(round, meeting_of(graph))
    assert set(sends.data.tolist()) <= {round.models.bytes_each}
    found: np.ndarray = sends.toarray() > 0
    return found


def test_a_meeting_is_asked_once_a_round() -> None:
    """What is drawn for the timetable is what the exchange goes by; the next round draws anew."""
    federation, meeting = part(1, "local"), meeting_of(~np.eye(9, dtype=bool))
    first, second = (a_round(9, seed=3, number=number) for number in (1, 2))
    asked = [meeting.sends(federation, each) for each in (first, first, second)]
    assert asked[0] is asked[1]
    for each, found in zip((first, second), asked[1:], strict=True):
        np.testing.assert_array_equal(found.toarray(), federation.sends(each, meeting).toarray())
    assert (asked[1].toarray() != asked[2].toarray()).any()


@pytest.mark.parametrize("draw", ["local", "oracle"])
def test_a_pair_by_hand(draw: str) -> None:
    """Alone with each other, both send and average: 0.5 and 2.5 give 1.5, then 1.25 and 3.25 give 2.25."""
    federation = {"kind": "epidemic", "fanout": 3, "draw": draw}
    weights, bytes_sent, _ = weights_after_each_round(
        federation=federation, mobility=Script(x=(0.0, 0.0, 0.0))
    )
    assert weights == [[1.5, 1.5], [2.25, 2.25]]
    assert bytes_sent == [8, 16]


def test_three_by_hand_of_whom_one_hears_two() -> None:
    """0 gets 1's and 2's models, 1 gets 0's, 2 gets nothing: means of three, two and one."""
    context = context_of(np.array([5, 0, 1]))
    rows = np.array([[0.0, 3.0], [6.0, 0.0], [3.0, 6.0]])
    start = begun(part(2, "local"), rows, context)
    got = np.array([[0, 1, 1], [1, 0, 0], [0, 0, 0]], dtype=bool)
    round = round_of(1, start.models, start.state, context, received=got)
    done = part(2, "local").exchange(round, meeting_of(~np.eye(3, dtype=bool)))
    np.testing.assert_allclose(rows_of(done.models), [[3.0, 3.0], [3.0, 1.5], [3.0, 6.0]], rtol=1e-6)
    assert sorted(zip(done.traffic.sender.tolist(), done.traffic.receiver.tolist(), strict=True)) == [
        (0, 1),
        (1, 0),
        (2, 0),
    ]
    assert done.traffic.distance.tolist() == [1.0, 2.0, 1.0]  # 1 to 0, 2 to 0, 0 to 1
    assert done.aggregated.tolist() == [0, 1, 2]
    assert done.meeting.graph.toarray().tolist() == (got | got.T).tolist()


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), clients=st.integers(1, 10), fanout=st.integers(1, 10))
def test_who_draws_for_itself_sends_to_so_many_in_contact(seed: int, clients: int, fanout: int) -> None:
    graph = drawn_graph(stream(seed, "contacts of a test"), clients)
    found = sent(fanout, "local", a_round(clients, seed), graph)
    assert not (found & ~graph).any()
    assert (found.sum(0) == np.minimum(graph.sum(0), fanout)).all()


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), clients=st.integers(1, 10), fanout=st.integers(1, 10))
def test_an_oracle_gives_nobody_more_than_so_many(seed: int, clients: int, fanout: int) -> None:
    graph = drawn_graph(stream(seed, "contacts of a test"), clients)
    found = sent(fanout, "oracle", a_round(clients, seed), graph)
    assert not (found & ~graph).any()
    assert found.sum(0).max() <= fanout
    assert found.sum(1).max() <= fanout
    if graph.sum(0).max() <= fanout:
        assert (found == graph).all()
    # No further model could be sent: of each pair in contact one end has enough.
    short = (found.sum(1) < fanout)[:, None] & (found.sum(0) < fanout)[None]
    assert not (graph & ~found & short).any()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), clients=st.integers(2, 12), fanout=st.integers(1, 11))
def test_with_all_in_contact_the_oracle_is_regular(seed: int, clients: int, fanout: int) -> None:
    """Everybody sends and gets the same number, so that the mean of all models stays (the paper's EL-Oracle)."""
    graph, round = ~np.eye(clients, dtype=bool), a_round(clients, seed)
    found, count = sent(fanout, "oracle", round, graph), min(fanout, clients - 1)
    assert (found.sum(0) == count).all()
    assert (found.sum(1) == count).all()
    mean = rows_of(round.models).mean(0)
    done = part(fanout, "oracle").exchange(round, meeting_of(graph))
    np.testing.assert_allclose(rows_of(done.models).mean(0), mean, atol=1e-6)


@pytest.mark.parametrize("draw", ["local", "oracle"])
def test_draws_are_fair_and_new_in_each_round(draw: str) -> None:
    """Over 400 rounds of eight in contact, each pair is drawn 3/7 of the time, within five standard deviations."""
    graph = ~np.eye(8, dtype=bool)
    found = np.array([sent(3, draw, a_round(8, 5, number), graph) for number in range(1, 401)])
    share, expected = found.mean(0)[graph], 3 / 7
    assert (np.abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / 400)).all()
    assert len({each.tobytes() for each in found}) > 390


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), clients=st.integers(1, 9))
def test_averages_beside_plain_loops(seed: int, clients: int) -> None:
    draws, round = stream(seed, "losses of a test"), a_round(clients, seed)
    graph = drawn_graph(draws, clients)
    got = sent(2, "local", round, graph) & (draws.random(graph.shape) < 0.7)
    rows = rows_of(round.models)
    expected = [rows[[i, *np.flatnonzero(got[i])]].mean(0) for i in range(clients)]
    lossy = round_of(1, round.models, dict(round.state), round.context, received=got)
    done = part(2, "local").exchange(lossy, meeting_of(graph))
    np.testing.assert_allclose(rows_of(done.models), expected, rtol=1e-5, atol=1e-6)
