"""AD-PSGD: two devices by hand, in seconds and in models, and any schedule beside a plain one, event by event."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedroam.clock import TOTALS, Timetable
from fedroam.components import build
from fedroam.contacts import Legs, distance_at, graph_of
from fedroam.federation import AtHand, Averagings, Meeting
from fedroam.federation.gossip.ad_psgd import AVERAGED, BEGUN, SINCE
from fedroam.learning import Job, Models
from fedroam.mobility import Paths
from fedroam.randomness import stream
from fedroam.scene import Scene
from fedroam.simulation import begin, play_round
from support.gossiping import begun, context_of, drawn_graph, meeting_of, round_of, rows_of
from support.holders import Apart
from support.one_weight import Script, weights_after_each_round
from support.timed import meeting, timed, timed_scene

AD_PSGD: Any = build("federation", "ad_psgd")
REACH = 10.0
# One stands; the other passes 6 m away at 1 m/s: within 10 m from second 12 to 28.
PASSING = meeting([[0, 0], [-20, 6]], [[0, 0], [20, 6]])
MODEL = 4 * (64 * 10 + 10)
TEN = {"kind": "fixed", "throughput": 8e-6 * MODEL / 10}  # a model in ten seconds


def scene_of(
    training: tuple[float, ...], length: float = 40.0, late: str = "dropped", **settings: Any
) -> Scene:
    clock = {"kind": "seconds", "length": length, "late": late}
    return timed_scene(training, **{"clock": clock, "federation": "ad_psgd", "link": TEN, **settings})


def of(found: Timetable) -> Averagings:
    assert found.graph is None
    assert found.averagings is not None
    return found.averagings


# --- in seconds ---------------------------------------------------------------------------------------------------


def test_a_passage_by_hand() -> None:
    """The two average from second 12 to 22, whatever they train; what client 0 learns at 17 comes after that."""
    found = timed(scene_of((17.0, 5.0)), PASSING, reach=REACH)
    assert of(found).pairs.tolist() == [[0, 1]]
    np.testing.assert_allclose([of(found).begun, of(found).ended], [[12], [22]])
    assert of(found).learnt.tolist() == [17, 5]
    np.testing.assert_allclose(found.done, [22, 22])
    assert found.facts == {"late": 0, "transfers": 2, "through": 2, "broken": 0, "contacts": 1, "fit": 1}
    told = [found.state[name].tolist() for name in TOTALS]
    np.testing.assert_allclose(told, [[17, 5], [5, 10], [18, 25], [0, 0]])
    assert found.traffic.total == 0


@pytest.mark.parametrize("link", [{"simultaneous": 1}, {"shared": True}])
def test_a_radio_that_does_one_thing_at_a_time_needs_twice_as_long(link: dict[str, Any]) -> None:
    """20 seconds for both models, of which the contact has 16: four fifths of each are sent in vain."""
    found = timed(scene_of((17.0, 5.0), link={**TEN, **link}), PASSING, reach=REACH)
    assert len(of(found).pairs) == 0
    assert of(found).learnt.tolist() == [17, 5]
    assert found.facts == {"late": 0, "transfers": 2, "through": 0, "broken": 2, "contacts": 1, "fit": 0}
    assert found.traffic.sender.tolist() == [0, 1]
    assert found.traffic.bytes.tolist() == [round(0.8 * MODEL)] * 2


def test_one_partner_at_a_time() -> None:
    """Three in one place: 0 and 1, then 0 and 2, then 1 and 2, ten seconds each, of which a round of 25 has two."""
    still = meeting([[0, 0]] * 3, [[0, 0]] * 3)
    found = of(timed(scene_of((0.0, 60.0, 3.0), 25.0), still))
    assert found.pairs.tolist() == [[0, 1], [0, 2]]
    np.testing.assert_allclose([found.begun, found.ended], [[0, 10], [10, 20]])
    assert found.learnt.tolist() == [0.0, np.inf, 3.0]


def test_training_spans_rounds_by_hand() -> None:
    """Two who stay together, rounds of 30 s: they average until second 10 of each. Client 0 learns in 5 s, which is
    added right after each averaging; client 1 in 70 s, at second 10 of round 3, after three averagings."""
    stay = {"mobility": {"kind": "static"}, "contacts": {"kind": "radius", "radius": float("inf")}}
    scene = scene_of((5.0, 70.0), 30.0, "carried", **stay)
    state, learners, stale = begin(scene), [], []
    x = state.models.parameters[:2].double().numpy()
    learnt = []
    for number in range(1, 5):
        begun_models = state.models.rows(torch.arange(4))
        state, done = play_round(scene, state)
        learners.append(done.learners.tolist())
        stale.append(done.facts["staleness"])
        changes = state.models.parameters[2:].double().numpy()
        learnt.append(changes[1])
        # What it learnt is what training makes of the model that it held when it began.
        assert begun_models.momentum is not None
        held = begun_models.rows(torch.arange(2))
        copy = Models(held.layout, held.parameters, held.buffers, begun_models.momentum[2:].clone())
        scene.learner.train(copy, [Job(0, 0, scene.context.train[0], number)])
        np.testing.assert_allclose(
            changes[0], copy.parameters[0].double().numpy() - x[0], rtol=1e-4, atol=1e-6
        )
        middle = x.mean(0)
        x = np.stack([middle + changes[0], middle + (learnt[0] if number == 3 else 0.0)])
        np.testing.assert_allclose(state.models.parameters[:2], x, rtol=1e-5, atol=1e-6)
    assert learners == [[0, 1], [0], [0], [0, 1]]
    assert stale == [1.0, 1.0, 2.0, 1.0]  # in round 3 the mean of 1 and 3
    assert (learnt[0] == learnt[2]).all()
    assert (learnt[3] != learnt[2]).any()
    assert state.account.bytes_up.tolist() == [4 * MODEL] * 2
    assert state.clock["left_training"].tolist() == [0.0, 40.0]


@cache
def _walkers(link: str) -> Scene:
    links = {"free": {}, "shared": {"shared": True}, "resumed": {"broken": "resumed", "setup": 1.0}}
    return scene_of((7.0, 0.0, 30.0, 55.0, 1.0), 50.0, link={**TEN, **links[link]})


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), link=st.sampled_from(["free", "shared", "resumed"]))
def test_nobody_is_with_two_and_all_keep_to_their_contacts(seed: int, link: str) -> None:
    draws = stream(seed, "walkers of a test")
    paths = Paths.straight(draws.random((5, 2)) * 30, draws.random((5, 2)) * 30)
    graph = graph_of(np.stack(np.triu_indices(5, k=1), axis=1), 5)
    found = of(timed(_walkers(link), Meeting(paths, graph), reach=REACH))
    assert len({tuple(pair) for pair in found.pairs.tolist()}) == len(found.pairs), "a pair averages twice"
    assert (np.diff(found.ended) >= 0).all()
    assert (found.ended <= 50).all()
    assert (found.ended - found.begun >= (19 if link == "shared" else 0)).all()
    for i in range(5):
        own = np.flatnonzero((found.pairs == i).any(1))
        assert (found.begun[own][1:] >= found.ended[own][:-1] - 1e-9).all(), "two partners at a time"
    legs = Legs(paths)
    for time in (found.begun, found.ended):
        assert (distance_at(legs, *found.pairs.T, time / 50) <= REACH + 1e-6).all(), "out of contact"
    assert found.learnt.tolist() == [7.0, 0.0, 30.0, np.inf, 1.0]


# --- in models ----------------------------------------------------------------------------------------------------


def test_without_seconds_by_hand() -> None:
    """Both learn, then meet: 0.5 and 2.5 give 1.5, then 1.25 and 3.25 give 2.25."""
    weights, sent, _ = weights_after_each_round(federation="ad_psgd", mobility=Script(x=(0.0, 0.0, 0.0)))
    assert [pair[:2] for pair in weights] == [[1.5, 1.5], [2.25, 2.25]]
    assert sent == [8, 16]


def test_without_seconds_contacts_follow_each_other_as_they_open() -> None:
    """Client 1 passes client 2 first, then client 0: so 2's value comes to 0, and 0's not to 2."""
    context = replace(context_of(np.zeros(3, np.int64)), reach=1.0)
    start = begun(AD_PSGD, np.array([[0.0, 0.0], [8.0, 0.0], [4.0, 0.0]]), context)
    places = np.array([[0.0, 0.0], [9.0, 0.0], [5.0, 0.0]])
    paths = Paths.straight(places, np.array([[0.0, 0.0], [0.0, 0.0], [5.0, 0.0]]))
    round = round_of(1, start.models, start.state, context)
    given = AD_PSGD.distribute(round)
    assert given.jobs == []
    handed = replace(round, models=given.models, state=given.state)
    done = AD_PSGD.exchange(handed, Meeting(paths, graph_of(np.array([[0, 1], [1, 2]]), 3)))
    assert rows_of(done.models)[:3, 0].tolist() == [3.0, 3.0, 6.0]
    assert done.facts["averagings"] == 2
    assert np.isnan(done.facts["staleness"])


def plain(rows: np.ndarray, changes: np.ndarray, happened: Averagings, since: np.ndarray) -> Any:
    """Event by event: what is learnt while a client is averaging waits until that is over."""
    x, count, stale = rows.astype(float), np.zeros(len(rows), int), {}
    waits = {i: t for i, t in enumerate(happened.learnt.tolist()) if np.isfinite(t)}

    def add(i: int) -> None:
        x[i] += changes[i]
        stale[i] = count[i] - since[i]
        del waits[i]

    # Averagings stand in the order of their ends: nobody who averages changes before.
    for (i, j), start, end in zip(happened.pairs.tolist(), happened.begun, happened.ended, strict=True):
        for k in (i, j):
            if k in waits and waits[k] <= start:
                add(k)
        x[i] = x[j] = (x[i] + x[j]) / 2
        count[[i, j]] += 1
        for k in (i, j):
            if k in waits and waits[k] <= end:
                add(k)
    for k in list(waits):
        add(k)
    return x, count, stale


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 10**6), clients=st.integers(1, 8), instant=st.booleans())
def test_any_schedule_beside_a_plain_one(seed: int, clients: int, instant: bool) -> None:
    draws = stream(seed, "schedules of a test")
    # Pairs that begin when both are free, and take their time.
    free, rows = np.zeros(clients), []
    for i, j in np.argwhere(np.triu(drawn_graph(draws, clients))).tolist():
        start = max(free[i], free[j]) + draws.integers(0, 3)
        free[i] = free[j] = start + (0 if instant else draws.integers(1, 4))
        rows.append((free[i], i, j, start))
    rows.sort()
    pairs = np.array([row[1:3] for row in rows], dtype=np.int64).reshape(-1, 2)
    ended, started = (np.array([row[k] for row in rows], dtype=float) for k in (0, 3))
    learnt = np.where(draws.random(clients) < 0.7, draws.integers(0, 9, clients).astype(float), np.inf)
    happened = Averagings(pairs, started, ended, learnt)
    context = context_of(np.ones(clients, np.int64))
    start = begun(AD_PSGD, draws.standard_normal((clients, 4)), context)
    models, since = start.models, draws.integers(-3, 1, clients)
    models.parameters[clients:] = (
        models.parameters[:clients] + torch.from_numpy(draws.standard_normal((clients, 3))).float()
    )
    models.buffers[clients:] = models.buffers[:clients]
    values = rows_of(models)
    changes = values[clients:] - values[:clients]
    expected, count, stale = plain(values[:clients], changes, happened, since)
    state = {AVERAGED: np.zeros(clients, np.int64), SINCE: since, BEGUN: np.ones(clients, bool)}
    round = replace(round_of(1, models, state, context), averagings=happened)
    done = AD_PSGD.exchange(round, meeting_of(~np.eye(clients, dtype=bool)))
    np.testing.assert_allclose(rows_of(done.models)[:clients], expected, rtol=1e-5, atol=1e-6)
    assert done.state[AVERAGED].tolist() == count.tolist()
    assert done.facts["averagings"] == len(pairs)
    np.testing.assert_equal(done.facts["staleness"], np.mean(list(stale.values())) if stale else np.nan)
    # Averaging keeps the mean: what all have together changes by what was learnt.
    total = values[:clients].sum(0) + changes[np.isfinite(learnt)].sum(0)
    np.testing.assert_allclose(rows_of(done.models)[:clients].sum(0), total, atol=1e-4)
    assert done.traffic.total == 2 * len(pairs) * models.bytes_each
    last = {
        i: max([e for e, pair in zip(ended, pairs, strict=True) if i in pair], default=-1)
        for i in range(clients)
    }
    certain = [i for i in range(clients) if last[i] >= 0 and not np.isfinite(learnt[i])]
    assert set(certain) <= set(done.aggregated.tolist()) <= {i for i in range(clients) if last[i] >= 0}


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), clients=st.integers(1, 7))
def test_each_peer_for_itself_gives_the_same_bits(seed: int, clients: int) -> None:
    """A pair of which a model does not get through does not average, and all else happens in the same order."""
    draws = stream(seed, "pairs at peers")
    context = context_of(np.ones(clients, np.int64))
    start = begun(AD_PSGD, draws.standard_normal((clients, 4)), context)
    models, state = start.models, {**start.state, BEGUN: draws.random(clients) < 0.8}
    models.parameters[clients:] = torch.from_numpy(draws.standard_normal((clients, 3))).float()
    pairs = draws.permutation(np.argwhere(np.triu(drawn_graph(draws, clients)))).astype(np.int64)
    ended = np.sort(draws.random(len(pairs)))
    learnt = np.where(state[BEGUN], draws.random(clients) * 1.5, np.inf)
    lost = draws.random((len(pairs), 2)) < 0.2
    ways = [
        frozenset((1, *map(int, pair[::step])) for pair in pairs[lost[:, way]])
        for way, step in ((0, 1), (1, -1))
    ]
    found = []
    for some, aggregator in (
        (~lost.any(axis=1), AtHand()),
        (np.ones(len(pairs), bool), Apart(AD_PSGD, context, ways[0] | ways[1])),
    ):
        happened = Averagings(pairs[some], ended[some], ended[some], learnt)
        own = models.rows(torch.arange(2 * clients))
        round = replace(round_of(1, own, state, context), averagings=happened, aggregator=aggregator)
        found.append(AD_PSGD.exchange(round, meeting_of(~np.eye(clients, dtype=bool))))
    one, other = found
    np.testing.assert_array_equal(rows_of(one.models), rows_of(other.models))
    np.testing.assert_equal(one.facts, other.facts)
    assert one.state[AVERAGED].tolist() == other.state[AVERAGED].tolist()
    assert one.aggregated.tolist() == other.aggregated.tolist()
    assert one.traffic.sender.tolist() == other.traffic.sender.tolist()


def test_who_does_not_answer_keeps_its_model_by_hand() -> None:
    """0 and 1 average, then 1 and 2. Client 1 does not tell what came of the first: 0 has that average, and 2 its own
    model, since 1 takes no further step."""
    context = context_of(np.zeros(3, np.int64))
    start = begun(AD_PSGD, np.array([[0.0, 0.0], [8.0, 0.0], [4.0, 0.0]]), context)
    at = np.array([0.1, 0.2])
    happened = Averagings(np.array([[0, 1], [1, 2]]), at, at, np.full(3, np.inf))
    round = round_of(1, start.models, {**start.state, BEGUN: np.zeros(3, bool)}, context)
    silent = Apart(AD_PSGD, context, silent=frozenset({(1, 1)}))
    done = AD_PSGD.exchange(
        replace(round, averagings=happened, aggregator=silent), meeting_of(~np.eye(3, dtype=bool))
    )
    assert rows_of(done.models)[:3, 0].tolist() == [4.0, 8.0, 4.0]
    assert done.facts["averagings"] == 1
    assert done.state[AVERAGED].tolist() == [1, 1, 0]
