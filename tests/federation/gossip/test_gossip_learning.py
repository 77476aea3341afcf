"""Gossip learning: ages and merges by hand, beside plain loops, and what must hold of every merge."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedroam.attacks import Withheld
from fedroam.components import build
from fedroam.errors import InputError
from fedroam.federation import FederationContext, Round
from fedroam.federation.gossip.gossip_learning import AGES, FRESH, LAST, LAST_AGES, NONE, WORK, Aged, _rows
from fedroam.learning import Models, Task
from fedroam.learning.training import SGD
from fedroam.randomness import stream
from fedroam.simulation import begin, play_round
from support.contract import check_federation
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
from support.tiny import tiny

NOTHING: Any = None
PAIR = ~np.eye(2, dtype=bool)


def part(**settings: str) -> Any:
    return build("federation", {"kind": "gossip_learning", **settings})


def context(*samples: int, seed: int = 1) -> FederationContext:
    """Clients that hold so many samples, and pass each of them once a round."""
    task = Task(NOTHING, NOTHING, NOTHING, NOTHING, SGD(), NOTHING, seed)
    return replace(context_of(np.array(samples), seed), task=task)


def a_round(
    number: int,
    models: Any,
    state: Any,
    known: FederationContext,
    received: np.ndarray | None = None,
    **more: Any,
) -> Round:
    """A round in which everybody was there from the begin on."""
    found = round_of(number, models, state, known, received)
    return replace(found, before=meeting_of(np.zeros((known.clients,) * 2, bool)), **more)


# --- by hand ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("merge", "values", "age"),
    [("age", [3.0, 6.0], 30), ("average", [2.0, 5.0], 30), ("none", [4.0, 7.0], 30)],
)
def test_two_models_by_hand(merge: str, values: list[float], age: int) -> None:
    """Of ages 15 and 30 the second one counts twice as much."""
    own, got = (Aged(np.array(each, np.float32), t) for each, t in (([1.0, 4.0], 15), ([4.0, 7.0], 30)))
    if merge == "average":
        own = own._replace(values=np.array([0.0, 3.0], np.float32))
    found = part(merge=merge).merged(own, got)
    assert (found.values.tolist(), found.age) == (values, age)


def test_two_clients_by_hand() -> None:
    """Client 0 holds the sample 1, client 1 three samples 5: half the way to them in each round. 0.5 of age 1 and 2.5
    of age 3 give 0.25 * 0.5 + 0.75 * 2.5 = 2.0 at both, of age 3. Then 1.5 of age 4 and 3.5 of age 6 give 2.7."""
    found, sent, _ = weights_after_each_round(
        federation="gossip_learning", mobility=Script(x=(0.0, 0.0, 0.0)), rounds=2
    )
    np.testing.assert_allclose(found, [[2.0, 2.0], [2.7, 2.7]], rtol=1e-6)
    assert sent == [16, 32], "a model and an age are eight bytes"


def test_who_trains_only_what_it_got_by_hand() -> None:
    """Nobody trains in round 1, and of two models of age 0 the own one stays; then both do as above."""
    federation = {"kind": "gossip_learning", "trains": "on_receipt"}
    near = Script(x=(0.0, 0.0, 0.0, 9.0, 9.0))
    found, _, _ = weights_after_each_round(federation=federation, mobility=near, rounds=4)
    # Round 3 trains what was merged in round 2, and nobody meets; so nobody trains in round 4.
    np.testing.assert_allclose(found, [[0, 0], [2.0, 2.0], [1.5, 3.5], [1.5, 3.5]], rtol=1e-6)


def test_who_trains_both_models_before_the_merge_by_hand() -> None:
    """Round 1: 0.5 of age 1 and 2.5 of age 3, of which each gets the other's. Round 2: client 0 trains 0.5 to 0.75 (age
    2) and 2.5 to 1.75 (age 4), which is (2 * 0.75 + 4 * 1.75) / 6; client 1 trains 2.5 to 3.75 (age 6) and 0.5 to 2.75
    (age 4), which is (6 * 3.75 + 4 * 2.75) / 10."""
    federation = {"kind": "gossip_learning", "create": "update_merge"}
    found, _, _ = weights_after_each_round(federation=federation, mobility=Script(x=(0.0, 0.0, 0.0)))
    np.testing.assert_allclose(found, [[0.5, 2.5], [8.5 / 6, 3.35]], rtol=1e-6)


def three(received: list[list[int]], at: list[float] | None, **settings: str) -> tuple[Any, Any]:
    """One exchange of three clients, which have trained 10, 20 and 30 samples to 0, 6 and 12."""
    federation, known = part(**settings), context(10, 20, 30)
    start = begun(federation, np.array([[0.0, 1.0], [6.0, 1.0], [12.0, 1.0]]), known)
    round = a_round(1, start.models, start.state, known, np.array(received, bool))
    if at is not None:
        round = replace(round, received_at=np.array(at))
    done = federation.exchange(round, meeting_of(~np.eye(3, dtype=bool)))
    return done, rows_of(done.models)[:, 0].tolist()


@pytest.mark.parametrize(
    ("at", "expected"),
    # first 6 of age 20: (10 * 0 + 20 * 6) / 30 = 4 of age 20, then 12 of age 30: (20 * 4 + 30 * 12) / 50 = 8.8
    # first 12 of age 30: 9 of age 30, then 6 of age 20: (30 * 9 + 20 * 6) / 50 = 7.8
    [([1.0, 2.0], 8.8), ([2.0, 1.0], 7.8)],
)
def test_several_models_one_after_the_other_as_they_arrive(at: list[float], expected: float) -> None:
    done, found = three([[0, 1, 1], [0, 0, 0], [0, 0, 0]], at)
    np.testing.assert_allclose(found, [expected, 6.0, 12.0], rtol=1e-6)
    assert done.state[AGES].tolist() == [30, 20, 30]
    assert done.facts == {"model_age": pytest.approx(80 / 3)}
    assert sorted(zip(done.traffic.sender.tolist(), done.traffic.receiver.tolist(), strict=True)) == [
        (1, 0),
        (2, 0),
    ]
    assert done.aggregated.tolist() == [1, 2]


def test_with_the_one_before_by_hand() -> None:
    """The first model is merged with the client's own, the second with the first as it came: (20 * 6 + 30 * 12) / 50 =
    9.6. In the next round a model 3 of age 50 is merged with that 12 of age 30: (50 * 3 + 30 * 12) / 80 = 6.375."""
    done, found = three([[0, 1, 1], [0, 0, 0], [0, 0, 0]], [1.0, 2.0], partner="last")
    np.testing.assert_allclose(found, [9.6, 6.0, 12.0], rtol=1e-6)
    assert done.state[AGES].tolist() == [30, 20, 30]
    assert done.state[LAST_AGES].tolist() == [30, -1, -1]
    assert done.state[LAST][0].tolist() == [12.0, 1.0]
    known, federation = context(10, 20, 30), part(partner="last")
    done.models.parameters[1, 0] = 3.0
    state = {**done.state, AGES: np.array([30, 30, 30])}
    got = np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0]], bool)
    done = federation.exchange(a_round(2, done.models, state, known, got), meeting_of(~np.eye(3, dtype=bool)))
    np.testing.assert_allclose(rows_of(done.models)[0, 0], 6.375, rtol=1e-6)
    assert done.state[AGES].tolist() == [50, 50, 60]


def test_training_that_was_not_done_adds_nothing() -> None:
    """Who is away, lost, still at it or broken off has the age of before."""
    federation, known = part(), context(*[10] * 5)
    start = begun(federation, np.zeros((5, 2)), known)
    round = a_round(1, start.models, {**start.state, AGES: np.arange(5)}, known)
    there = meeting_of(np.zeros((5, 5), bool), np.array([False, True, True, True, True]))
    round = replace(round, before=there, lost=np.array([1]), training=np.array([2]), dropped=np.array([3]))
    done = federation.exchange(round, there)
    assert done.state[AGES].tolist() == [0, 1, 2, 3, 14]
    waiting = {**start.state, FRESH: np.ones(5, bool)}
    done = part(trains="on_receipt").exchange(replace(round, state=waiting), there)
    assert done.state[FRESH].tolist() == [True, True, True, True, False], "who has not trained still has to"


def test_a_model_that_could_not_be_trained_waits_on() -> None:
    """Of two clients that both have got a 9 of age 10 one is broken off; the other merges 4 of age 10 and 9 of 20."""
    federation, known = part(create="update_merge"), context(10, 10)
    start = begun(federation, np.array([[4.0, 1.0], [4.0, 1.0]]), known)
    waiting = {
        FRESH: np.ones(2, bool),
        LAST: np.array([[9.0, 1.0]] * 2, np.float32),
        LAST_AGES: np.array([10, 10]),
    }
    given = federation.distribute(a_round(1, start.models, {**start.state, **waiting}, known))
    assert (given.jobs.client.tolist(), given.jobs.row.tolist()) == ([0, 1, 0, 1], [0, 1, 2, 3])
    round = a_round(1, given.models, given.state, known, dropped=np.array([0]))
    done = federation.exchange(round, meeting_of(np.zeros((2, 2), bool)))
    np.testing.assert_allclose(rows_of(done.models)[:, 0], [4.0, (10 * 4 + 20 * 9) / 30], rtol=1e-6)
    assert done.state[AGES].tolist() == [0, 20]
    assert done.state[FRESH].tolist() == [True, False]
    assert set(done.state) == set(start.state)


def test_of_two_models_that_nobody_trained_the_own_one_stays() -> None:
    federation, known = part(), context(0, 0)
    start = begun(federation, np.array([[4.0, 1.0], [9.0, 2.0]]), known)
    done = federation.exchange(a_round(1, start.models, start.state, known), meeting_of(PAIR))
    assert rows_of(done.models).tolist() == [[4.0, 1.0], [9.0, 2.0]]


def test_the_first_one_with_an_age_counts_alone() -> None:
    """Client 1 holds nothing: its start model has age 0, and gives way as a whole; 0's meets it and stays."""
    federation, known = part(), context(10, 0)
    start = begun(federation, np.array([[4.0, 1.0], [9.0, 2.0]]), known)
    done = federation.exchange(a_round(1, start.models, start.state, known), meeting_of(PAIR))
    assert rows_of(done.models).tolist() == [[4.0, 1.0], [4.0, 1.0]]
    assert done.state[AGES].tolist() == [10, 10]


def test_attackers_say_what_they_say_and_go_on_with_what_they_learnt() -> None:
    """Both of age 10. The attacker learnt 4 and says -4: the other gets -2, the attacker (4 + 0) / 2."""
    federation, known = part(), context(10, 10)
    start = begun(federation, np.zeros((2, 2)), known)
    told = models_of(np.array([[0.0, 0.0], [-4.0, 0.0]]))
    withheld = Withheld(np.array([1]), torch.tensor([[4.0]]))
    round = a_round(1, told, start.state, known, withheld=withheld)
    done = federation.exchange(round, meeting_of(PAIR))
    assert rows_of(done.models)[:, 0].tolist() == [-2.0, 2.0]
    alone = federation.exchange(
        a_round(1, models_of(np.array([[0.0, 0.0], [-4.0, 0.0]])), start.state, known, withheld=withheld),
        meeting_of(~PAIR & False),
    )
    assert rows_of(alone.models)[:, 0].tolist() == [0.0, 4.0]


@pytest.mark.parametrize(("name", "value"), [("partner", "last"), ("create", "update_merge")])
def test_what_asks_for_a_merge_is_refused_without_one(name: str, value: str) -> None:
    with pytest.raises(InputError, match=f'{name} = "{value}" has no meaning with merge = "none"'):
        part(merge="none", **{name: value})


# --- beside plain loops -------------------------------------------------------------------------------------------


def slow(
    models: list[list[float]], ages: list[int], heard: list[list[int]], merge: str
) -> tuple[list[list[float]], list[int]]:
    """One exchange among models that have learnt, client by client and value by value; heard: from whom, in order."""
    new, old = [], []
    for i, senders in enumerate(heard):
        mine, t = list(models[i]), ages[i]
        for j in senders:
            if merge == "none":
                mine, t = list(models[j]), ages[j]
                continue
            if merge == "age" and t + ages[j] == 0:
                continue
            a = 0.5 if merge == "average" else ages[j] / (t + ages[j])
            mine = [(1 - a) * x + a * y for x, y in zip(mine, models[j], strict=True)]
            t = max(t, ages[j])
        new.append(mine)
        old.append(t)
    return new, old


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6), clients=st.integers(1, 7), merge=st.sampled_from(["age", "average", "none"])
)
def test_exchanges_beside_plain_loops(seed: int, clients: int, merge: str) -> None:
    draws, federation = stream(seed, "gossip of a test"), part(merge=merge)
    known = context(*draws.integers(0, 20, clients).tolist(), seed=seed)
    start = begun(federation, draws.standard_normal((clients, 4)), known)
    models, state = start.models, start.state
    for number in range(1, 4):
        graph = drawn_graph(draws, clients)
        got = graph & (draws.random(graph.shape) < 0.7)
        at = draws.permutation(int(got.sum())).astype(float)
        when = np.full(got.shape, np.inf)
        when[got] = at
        heard = [np.argsort(when[i])[: got[i].sum()].tolist() for i in range(clients)]
        learnt = (state[AGES] + state[WORK]).tolist()
        expected, ages = slow(rows_of(models).tolist(), learnt, heard, merge)
        round = a_round(number, models, state, known, got, received_at=at)
        done = federation.exchange(round, meeting_of(graph))
        np.testing.assert_allclose(rows_of(done.models), expected, rtol=1e-5, atol=1e-6)
        assert done.state[AGES].tolist() == ages
        models, state = done.models, done.state


def taught(
    federation: Any,
    number: int,
    models: Any,
    state: Any,
    known: FederationContext,
    draws: np.random.Generator,
) -> tuple[Any, Any]:
    """Models and state after a round's training, which adds something to each model that has a job."""
    given = federation.distribute(a_round(number, models, state, known))
    rows = torch.from_numpy(given.jobs.row)
    change = draws.standard_normal((len(rows), given.models.layout.size))
    given.models.parameters[rows] += torch.from_numpy(change).float()
    return given.models, given.state


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    clients=st.integers(1, 6),
    merge=st.sampled_from(["age", "average"]),
    partner=st.sampled_from(["own", "last"]),
    trains=st.sampled_from(["each_round", "on_receipt"]),
)
def test_update_before_merge_beside_plain_loops(
    seed: int, clients: int, merge: str, partner: str, trains: str
) -> None:
    """Each client: its model, the one that waits to be trained and merged, and the last one that it got."""
    draws = stream(seed, "gossip of a test")
    federation = part(create="update_merge", merge=merge, partner=partner, trains=trains)
    known = context(*draws.integers(1, 20, clients).tolist(), seed=seed)
    start = begun(federation, draws.standard_normal((clients, 4)), known)
    models, state, work = start.models, start.state, start.state[WORK].tolist()
    own = [Aged(row, 0) for row in rows_of(models)]
    waiting: list[Aged | None] = [None] * clients
    last: list[Aged | None] = [None] * clients
    for number in range(1, 5):
        models, state = taught(federation, number, models, state, known, draws)
        trained, second = rows_of(models), clients
        for i in range(clients):
            got, waiting[i] = waiting[i], None
            if trains == "on_receipt" and got is None:
                continue
            own[i] = Aged(trained[i], own[i].age + work[i])
            if got is not None:
                pairs = [own[i].values.tolist(), trained[second].tolist()]
                mixed, ages = slow(pairs, [own[i].age, got.age + work[i]], [[1], []], merge)
                own[i], second = Aged(np.array(mixed[0]), ages[0]), second + 1
        graph = drawn_graph(draws, clients)
        received = graph & (draws.random(graph.shape) < 0.7)
        at = draws.permutation(int(received.sum())).astype(float)
        when = np.full(received.shape, np.inf)
        when[received] = at
        said = list(own)
        for i in range(clients):
            for j in np.argsort(when[i])[: received[i].sum()].tolist():
                before = last[i]
                if partner == "last" and before is not None:
                    own[i] = before
                waiting[i] = last[i] = said[j]
        round = a_round(number, models, state, known, received, received_at=at)
        done = federation.exchange(round, meeting_of(graph))
        models, state = done.models, done.state
        assert len(models) == clients
        np.testing.assert_allclose(rows_of(models), [each.values for each in own], rtol=1e-5, atol=1e-5)
        assert state[AGES].tolist() == [each.age for each in own]
        assert state[FRESH].tolist() == [each is not None for each in waiting]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    clients=st.integers(1, 7),
    lies=st.booleans(),
    own=st.sampled_from(
        [
            {},
            {"merge": "none"},
            {"partner": "last"},
            {"trains": "on_receipt"},
            {"create": "update_merge"},
            {"create": "update_merge", "partner": "last", "trains": "on_receipt"},
        ]
    ),
)
def test_each_peer_for_itself_gives_the_same_bits(
    seed: int, clients: int, lies: bool, own: dict[str, str]
) -> None:
    """Whatever does not get through, and in whatever order it does."""
    draws, federation = stream(seed, "gossip at peers"), part(**own)
    known = context(*draws.integers(1, 20, clients).tolist(), seed=seed)
    start = begun(federation, draws.standard_normal((clients, 5)), known)
    models, state = start.models, start.state
    for number in range(1, 4):
        models, state = taught(federation, number, models, state, known, draws)
        graph = drawn_graph(draws, clients)
        sent = federation.sends(round_of(number, models, state, known), meeting_of(graph)).toarray() > 0
        got = sent & (draws.random(graph.shape) < 0.7)
        liars = np.flatnonzero(draws.random(len(models)) < 0.5) if lies else np.zeros(0, np.int64)
        withheld = Withheld(liars, torch.from_numpy(draws.standard_normal((len(liars), 4))).float())
        here = a_round(number, models_of(rows_of(models)), state, known, got)
        lost = frozenset((number, int(j), int(i)) for i, j in np.argwhere(sent & ~got))
        there = a_round(number, models, state, known)
        there = replace(there, aggregator=Apart(federation, known, lost))
        one, other = (
            federation.exchange(replace(each, withheld=withheld if lies else None), meeting_of(graph))
            for each in (here, there)
        )
        same_exchanges(one, other)
        models, state = other.models, other.state


def test_who_does_not_tell_what_it_made_keeps_its_model() -> None:
    federation, known = part(trains="on_receipt"), context(10, 10)
    start = begun(federation, np.array([[4.0, 1.0], [9.0, 2.0]]), known)
    state = {**start.state, FRESH: np.ones(2, bool)}
    round = a_round(1, start.models, state, known)
    round = replace(round, aggregator=Apart(federation, known, silent=frozenset({(1, 0)})))
    done = federation.exchange(round, meeting_of(PAIR))
    assert rows_of(done.models).tolist() == [[4.0, 1.0], [6.5, 1.5]]
    assert done.state[AGES].tolist() == [10, 10], "it had trained"
    assert done.state[FRESH].tolist() == [False, True]


# --- what must hold -----------------------------------------------------------------------------------------------

VALUE = st.floats(-1e6, 1e6, width=32)
AGE = st.integers(0, 10**9)


@settings(max_examples=200, deadline=None)
@given(
    rows=st.lists(st.tuples(VALUE, VALUE), min_size=1, max_size=5),
    ages=st.tuples(AGE, AGE),
    merge=st.sampled_from(["age", "average", "none"]),
)
def test_a_merge_is_a_convex_combination(
    rows: list[tuple[float, float]], ages: tuple[int, int], merge: str
) -> None:
    """Each value lies between the two, and the age is that of the older one; of equal ages it is the plain average."""
    a, b = np.array(rows, np.float32).T
    found = part(merge=merge).merged(Aged(a, ages[0]), Aged(b, ages[1]))
    assert (np.minimum(a, b) <= found.values).all()
    assert (found.values <= np.maximum(a, b)).all()
    if merge == "none":
        return
    assert found.age == max(ages)
    mean = ((a.astype(np.float64) + b) / 2).astype(np.float32)
    for t in {ages[0], 1} - {0}:
        np.testing.assert_array_equal(part(merge=merge).merged(Aged(a, t), Aged(b, t)).values, mean)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), clients=st.integers(1, 10))
def test_each_sends_to_one_in_contact(seed: int, clients: int) -> None:
    graph, known = (
        drawn_graph(stream(seed, "contacts of a test"), clients),
        context(*[1] * clients, seed=seed),
    )
    start = begun(part(), np.zeros((clients, 3)), known)
    sends = part().sends(round_of(1, start.models, start.state, known), meeting_of(graph))
    found = sends.toarray() > 0
    assert not (found & ~graph).any()
    assert (found.sum(0) == np.minimum(graph.sum(0), 1)).all()
    assert set(sends.data.tolist()) <= {start.models.bytes_each + 4}


@pytest.mark.parametrize("late", ["dropped", "carried"])
@pytest.mark.parametrize("trains", ["each_round", "on_receipt"])
@pytest.mark.parametrize("create", ["merge_update", "update_merge"])
def test_ages_of_a_run_under_a_clock(late: str, trains: str, create: str) -> None:
    """No age ever falls, none is more than all that was trained, and what was dropped was not; training of 2 to 14
    seconds for each model in rounds of 10, and transfers that break."""
    scene = timed_scene(
        (2.0, 6.0, 14.0, 0.0, 12.0),
        rounds=8,
        federation={"kind": "gossip_learning", "trains": trains, "create": create},
        clock={"kind": "seconds", "length": 10.0, "late": late},
        link={"kind": "fixed", "throughput": 8e-6 * 2600 / 2, "shared": True, "simultaneous": 2},
        mobility={"kind": "random", "grid": 4, "mobile": 4},
        contacts={"kind": "closest_approach", "radius": 1.5},
    )
    state, passed = begin(scene), np.zeros(5, np.int64)
    work = state.federation[WORK]
    for _ in range(8):
        before = state.federation[AGES]
        state, done = play_round(scene, state)
        passed[done.learners] += work[done.learners]
        assert (state.federation[AGES] >= before).all()
        assert (state.federation[AGES] >= before + np.bincount(done.learners, minlength=5) * work).all()
        assert state.federation[AGES].max() <= passed.sum() * (1 if create == "merge_update" else 2)
    assert passed.any()
    if late == "dropped":
        assert passed[2] == passed[4] == 0, "it takes longer than a round"
        always = [0, 1, 3] if create == "merge_update" else [0, 3]
        assert trains == "on_receipt" or (passed[always] == 8 * work[always]).all()


def test_rows_are_asked_for_where_the_models_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    """An accelerator looks for rows only by numbers that it has."""
    models = Models.empty(models_of(np.zeros((1, 3))).layout, 4, momentum=False, device="meta")
    asked: list[torch.Tensor] = []
    monkeypatch.setattr(Models, "rows", lambda self, index: asked.append(index) or self)
    assert _rows(models, np.array([2, NONE, 0])) is models
    assert _rows(models, np.array([NONE])) is None
    assert [(index.device.type, len(index)) for index in asked] == [("meta", 2)]


@pytest.mark.parametrize(
    "own",
    [
        {"merge": "none", "trains": "on_receipt"},
        {"partner": "last", "order": "mix_then_move"},
        {"create": "update_merge", "trains": "on_receipt"},
        {"create": "update_merge", "partner": "last"},
    ],
)
def test_every_reading_keeps_the_contract(own: dict[str, str]) -> None:
    check_federation(
        tiny(federation={"kind": "gossip_learning", **own}, activity={"kind": "rate", "rate": 0.7})
    )
