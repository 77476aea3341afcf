"""Caches by hand and beside a plain version with dictionaries: who has whose model, how old, and what is averaged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedroam.components import build
from fedroam.federation import Transfers
from fedroam.federation.gossip.cached import CACHE, HELD, OWNER, TRAINED
from fedroam.learning import Models
from fedroam.randomness import stream
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

Plain = list[dict[int, tuple[int, np.ndarray]]]  # of each client, by owner: the round, and the model


def part(size: int = 10, tau_max: int = 10) -> Any:
    return build("federation", {"kind": "cached", "size": size, "tau_max": tau_max})


def caches(state: dict[str, np.ndarray]) -> Plain:
    """What everybody has, read off the state."""
    found: Plain = []
    for line in state[CACHE]:
        models = line[line >= 0].tolist()
        found.append({int(state[OWNER][k]): (int(state[TRAINED][k]), state[HELD][k]) for k in models})
        assert len(found[-1]) == len(models), "an owner twice"
        assert (np.diff(state[TRAINED][models]) <= 0).all(), "not the newest first"
    return found


def test_a_pair_by_hand() -> None:
    """Samples 1 and 3. Together in round 1: 0.5 and 2.5 give 2. Apart in round 2: 1.5 and 3.5 are averaged with the
    cached 2.5 and 0.5: (1.5 + 3 * 2.5) / 4 and (3 * 3.5 + 0.5) / 4. In round 3, 1.625 and 3.875 meet; what was cached
    is replaced, and both send two models: 3 * 3.875 / 4 + 1.625 / 4."""
    weights, sent, _ = weights_after_each_round(
        federation="cached", mobility=Script(x=(0.0, 0.0, 9.0, 0.0)), rounds=3
    )
    assert weights == [[2.0, 2.0], [2.25, 2.75], [3.3125, 3.3125]]
    assert sent == [8, 8, 24]


def test_models_grow_old_by_hand() -> None:
    """As above, but models live for one round: in round 2 nobody has another's, and in round 3 one model is sent."""
    weights, sent, _ = weights_after_each_round(
        federation={"kind": "cached", "tau_max": 1}, mobility=Script(x=(0.0, 0.0, 9.0, 0.0)), rounds=3
    )
    # 2.0 and 2.0; then 1.5 and 3.5; then 1.25 and 4.25, together.
    assert weights == [[2.0, 2.0], [1.5, 3.5], [3.5, 3.5]]
    assert sent == [8, 8, 16]


def test_a_model_is_passed_on_by_hand() -> None:
    """0 meets 1, then 1 meets 2: so 2 has 0's model of round 1 and 1's of round 2, in a cache of one the newer."""
    samples = np.array([1, 1, 2])
    first, second = np.zeros((3, 3), bool), np.zeros((3, 3), bool)
    first[0, 1] = first[1, 0] = second[1, 2] = second[2, 1] = True
    for size in (2, 1):
        context = context_of(samples)
        start = begun(part(size), np.array([[1.0, 0.0], [3.0, 0.0], [9.0, 0.0]]), context)
        one = part(size).exchange(round_of(1, start.models, start.state, context), meeting_of(first))
        assert rows_of(one.models)[:, 0].tolist() == [2.0, 2.0, 9.0]
        assert one.facts == {"cached": 2 / 3, "cache_age": 0.0}
        round = round_of(2, one.models, one.state, context)
        assert part(size).sends(round, meeting_of(second)).toarray().tolist() == [
            [0, 0, 0],
            [0, 0, 8],
            [0, 16, 0],
        ]
        two = part(size).exchange(round, meeting_of(second))
        has = [{owner: stamp for owner, (stamp, _) in each.items()} for each in caches(two.state)]
        assert has == ([{1: 1}, {2: 2, 0: 1}, {1: 2, 0: 1}] if size == 2 else [{1: 1}, {2: 2}, {1: 2}])
        # 0 averages its own 2 with 1's 3 of round 1. 1's own 2, 2's 9 with weight 2, 0's 1; the same at 2.
        mean = (2 + 2 * 9 + 1) / 4 if size == 2 else (2 + 2 * 9) / 3
        np.testing.assert_allclose(rows_of(two.models)[:, 0], [2.5, mean, mean], rtol=1e-6)
        told = {"cached": 5 / 3, "cache_age": 3 / 5} if size == 2 else {"cached": 1.0, "cache_age": 1 / 3}
        assert two.facts == told


def plain(
    before: Plain,
    rows: np.ndarray,
    samples: np.ndarray,
    got: np.ndarray,
    number: int,
    size: int,
    tau_max: int,
) -> tuple[Plain, np.ndarray]:
    """Wang et al., Algs. 1 and 2, client by client."""
    young = [{o: m for o, m in cache.items() if number - m[0] < tau_max} for cache in before]
    after, models = [], []
    for i in range(len(rows)):
        own = dict(young[i])
        for j in np.flatnonzero(got[i]).tolist():
            for owner, (stamp, model) in [(j, (number, rows[j])), *young[j].items()]:
                if owner != i and (owner not in own or own[owner][0] < stamp):
                    own[owner] = (stamp, model)
        kept = sorted(own.items(), key=lambda entry: (-entry[1][0], entry[0]))[:size]
        after.append(dict(kept))
        weights = np.array([samples[i], *(samples[owner] for owner, _ in kept)], dtype=float)
        if weights.sum() == 0:
            weights[:] = 1.0
        models.append(np.average([rows[i], *(model for _, (_, model) in kept)], axis=0, weights=weights))
    return after, np.array(models)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    clients=st.integers(1, 8),
    size=st.integers(1, 5),
    tau_max=st.integers(1, 4),
)
def test_any_meetings_beside_plain_dictionaries(seed: int, clients: int, size: int, tau_max: int) -> None:
    draws = stream(seed, "caches of a test")
    samples = draws.integers(0, 4, clients)
    context, federation = context_of(samples), part(size, tau_max)
    start = begun(federation, draws.standard_normal((clients, 4)), context)
    models, state = start.models, start.state
    has: Plain = [{} for _ in range(clients)]
    for number in range(1, 8):
        models.parameters.add_(torch.from_numpy(draws.standard_normal((clients, 3))).float())
        graph = drawn_graph(draws, clients)
        got = graph & (draws.random(graph.shape) < 0.8)
        round = round_of(number, models, state, context, received=got)
        sizes = [1 + sum(number - stamp < tau_max for stamp, _ in cache.values()) for cache in has]
        sends = federation.sends(round, meeting_of(graph)).toarray()
        assert (sends == graph * np.array(sizes) * models.bytes_each).all()
        has, expected = plain(has, rows_of(models), samples, got, number, size, tau_max)
        done = federation.exchange(round, meeting_of(graph))
        models, state = done.models, done.state
        np.testing.assert_allclose(rows_of(models), expected, rtol=1e-5, atol=1e-6)
        found = caches(state)
        for one, other in zip(found, has, strict=True):
            assert list(one) == list(other)
            for owner, (stamp, model) in other.items():
                assert one[owner][0] == stamp
                np.testing.assert_allclose(one[owner][1], model)
        assert done.facts["cached"] == np.mean([len(each) for each in has])
        used = set(state[CACHE][state[CACHE] >= 0].tolist())
        assert used == set(range(len(state[OWNER]))), "models are held that nobody has"
        assert done.traffic.total == (sends * got).sum()


def test_who_is_away_or_goes_on_training_keeps_its_model() -> None:
    """Three hold each other's models; then the second is away and the third trains."""
    context, graph = context_of(np.ones(3, np.int64)), ~np.eye(3, dtype=bool)
    start = begun(part(), np.array([[0.0, 0.0], [3.0, 0.0], [6.0, 0.0]]), context)
    one = part().exchange(round_of(1, start.models, start.state, context), meeting_of(graph))
    assert rows_of(one.models)[:, 0].tolist() == [3.0, 3.0, 3.0]
    alone = meeting_of(np.zeros((3, 3), bool), np.array([True, False, True]))
    round = round_of(2, one.models, one.state, context, training=np.array([2]))
    two = part().exchange(round, alone)
    assert rows_of(two.models)[:, 0].tolist() == [4.0, 3.0, 3.0]  # 3, and the cached 3 and 6
    assert two.traffic.total == 0


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), clients=st.integers(1, 7))
def test_each_peer_for_itself_gives_the_same_bits(seed: int, clients: int) -> None:
    """Whatever does not get through."""
    draws, rule = stream(seed, "caches at peers"), part(3, 2)
    context = context_of(draws.integers(0, 3, clients))
    start = begun(rule, draws.standard_normal((clients, 4)), context)
    models, state = start.models, start.state
    for number in range(1, 6):
        graph = drawn_graph(draws, clients)
        got = graph & (draws.random(graph.shape) < 0.7)
        models.parameters.add_(torch.from_numpy(draws.standard_normal((clients, 3))).float())
        lost = frozenset((number, int(j), int(i)) for i, j in np.argwhere(graph & ~got))
        own = Apart(rule, context, lost)
        there = replace(round_of(number, models_of(rows_of(models)), state, context), aggregator=own)
        here = round_of(number, models, state, context, got)
        one, other = (rule.exchange(each, meeting_of(graph)) for each in (here, there))
        same_exchanges(one, other)
        models, state = one.models, one.state


def test_a_contact_counts_if_all_of_it_comes_by_hand() -> None:
    """Round 1: 0 and 1 meet. Round 2: 1 gives 2 its own model, but that of 0 from its cache does not come: 2 keeps what
    it has, and 1 what came back. A peer that does not answer keeps its model; its cache is what it would be."""
    rule, context = part(), context_of(np.ones(3, np.int64))
    start = begun(rule, np.array([[2.0, 0.0], [6.0, 0.0], [12.0, 0.0]]), context)
    graphs = np.zeros((2, 3, 3), bool)
    graphs[0, 0, 1] = graphs[0, 1, 0] = graphs[1, 1, 2] = graphs[1, 2, 1] = True
    first = rule.exchange(round_of(1, start.models, start.state, context), meeting_of(graphs[0]))
    assert rows_of(first.models)[:, 0].tolist() == [4.0, 4.0, 12.0]

    class Half(Apart):
        """Of what client 1 sends, its own model alone comes."""

        def delivered(self, models: Models, transfers: Transfers, round: int) -> np.ndarray:
            return (transfers.sender != 1) | (len(models) == 3)

    round = replace(
        round_of(2, first.models, first.state, context),
        aggregator=Half(rule, context, silent=frozenset({(2, 0)})),
    )
    done = rule.exchange(round, meeting_of(graphs[1]))
    has = [
        {owner: (stamp, model[0]) for owner, (stamp, model) in each.items()} for each in caches(done.state)
    ]
    assert has == [{1: (1, 6.0)}, {2: (2, 12.0), 0: (1, 2.0)}, {}]
    assert rows_of(done.models)[:, 0].tolist() == [4.0, 6.0, 12.0], "of 1: (4 + 12 + 2) / 3"
    assert done.traffic.receiver.tolist() == [1]
