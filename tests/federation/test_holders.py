"""Aggregation by those who hold the models: the same as by all at once, and what becomes of what does not arrive."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from fedroam.contacts import graph_of
from fedroam.federation import AggregatesAtHolders, Meeting, Round, access_point
from fedroam.mobility import Paths
from fedroam.scene import Scene, prepare
from fedroam.simulation import begin, play_round
from fedroam.state import State
from support.arrivals import by_client
from support.holders import Apart
from support.tiny import frozen, tiny

MOVING = {"mobility": {"kind": "random", "grid": 4, "mobile": 4}, "clients": 6}
LIES = {"kind": "sign_flip", "clients": (1, 2), "scale": 3.0}
CASES: dict[str, dict[str, Any]] = {
    "metropolis": {},
    "mobility aware": {"mixing": "mobility_aware", "federation": {"kind": "decentralized", "order": "mix_then_move"}},
    "no weight for some": {"mixing": "contact_duration"},
    "trimmed mean": {"aggregation": "trimmed_mean"},
    "lies": {"attack": LIES},
    "lies and krum": {"attack": LIES, "aggregation": "krum"},
    "push-sum": {"federation": "push_sum"},
    "push-sum among liars, some away": {
        "federation": {"kind": "push_sum", "order": "mix_then_move"}, "attack": LIES,
        "activity": {"kind": "rate", "rate": 0.6},
    },
    "push-sum, some away by then": {"federation": "push_sum", "activity": {"kind": "rate", "rate": 0.6}},
    "caches": {"federation": {"kind": "cached", "size": 3, "tau_max": 2}},
    "caches among liars, some away": {
        "federation": {"kind": "cached", "size": 2}, "attack": LIES, "activity": {"kind": "rate", "rate": 0.6},
    },
    "pairs": {"federation": "ad_psgd"},
    "pairs among liars, some away": {
        "federation": {"kind": "ad_psgd", "order": "mix_then_move"}, "attack": LIES,
        "activity": {"kind": "rate", "rate": 0.6},
    },
    "merged one by one": {"federation": "gossip_learning"},
    "merged one by one among liars, some away": {
        "federation": {"kind": "gossip_learning", "order": "mix_then_move", "partner": "last", "trains": "on_receipt"},
        "attack": LIES, "activity": {"kind": "rate", "rate": 0.6},
    },
    "trained before they are merged": {
        "federation": {"kind": "gossip_learning", "create": "update_merge", "partner": "last"},
        "attack": LIES, "activity": {"kind": "rate", "rate": 0.6},
    },
    "mohawk": {"federation": {"kind": "mohawk", "k2": 2}},
    "mohawk by slices": {"federation": {"kind": "mohawk", "k2": 2, "cosine": "per_slice"}},
    "hierfavg": {"federation": {"kind": "hierfavg", "k2": 2}},
    "delayed mohawk": {
        "federation": {"kind": "delayed_mohawk", "k2": 3}, "activity": {"kind": "rate", "rate": 0.5}, "rounds": 6,
    },
    "fedasync at access points": {
        "federation": {"kind": "hierarchical_fedasync", "k2": 3, "rho": 0.1}, "activity": {"kind": "rate", "rate": 0.6},
        "rounds": 6,
    },
    "fedbuff at access points": {
        "federation": {"kind": "hierarchical_fedbuff", "k2": 3, "size": 2}, "activity": {"kind": "rate", "rate": 0.6},
        "rounds": 6, "attack": LIES,
    },
    "macfl": {"federation": {"kind": "macfl", "k2": 2}, "aggregation": "median"},
}  # fmt: skip


def scenes(**settings: Any) -> tuple[Scene, Scene]:
    """The scene of an experiment, and the same with each holder for itself."""
    scene = prepare(tiny(**{**MOVING, "model": {"kind": "mlp", "hidden": [6]}, **settings}))
    rule = scene.parts.federation
    assert isinstance(rule, AggregatesAtHolders)
    return scene, replace(scene, aggregator=Apart(rule, scene.context))


def apart(scene: Scene) -> Apart:
    assert isinstance(scene.aggregator, Apart)
    return scene.aggregator


@pytest.mark.parametrize("case", CASES)
def test_each_holder_for_itself_gives_the_same_bits(case: str) -> None:
    here, there = scenes(**CASES[case])
    try:
        one, other = begin(here), begin(there)
        for _ in range(here.experiment.rounds):
            (one, _), (other, _) = play_round(here, one), play_round(there, other)
            assert frozen(one) == frozen(other)
        assert apart(there).seen
    finally:
        here.learner.close()


def test_what_attackers_learnt_goes_to_attackers_alone() -> None:
    _, there = scenes(contacts={"kind": "radius", "radius": float("inf")}, attack=LIES)
    sent: dict[tuple[int, int], torch.Tensor] = {}

    class Watching(Apart):
        """Keeps what goes where."""

        def delivered(self, models: Any, transfers: Any, round: int) -> np.ndarray:
            ends = zip(transfers.sender.tolist(), transfers.receiver.tolist(), strict=True)
            for end, row in zip(ends, transfers.row.tolist(), strict=True):
                assert end not in sent
                sent[end] = models.parameters[row].clone()
            return super().delivered(models, transfers, round)

    try:
        own = apart(there)
        play_round(replace(there, aggregator=Watching(own.rule, own.context)), begin(there))
        assert len(sent) == 6 * 5
        for liar, other in ((1, 2), (2, 1)):
            assert not sent[liar, other].equal(sent[liar, 0])
            assert all(sent[liar, 0].equal(sent[liar, honest]) for honest in (3, 4, 5))
        assert sent[0, 1].equal(sent[0, 3])
    finally:
        there.learner.close()


# --- what does not arrive -----------------------------------------------------------------------------------------


def meeting(*pairs: tuple[int, int], clients: int = 4) -> Meeting:
    """These clients meet, standing still."""
    return Meeting(
        Paths.still(np.zeros((clients, 2))), graph_of(np.array(pairs, np.int64).reshape(-1, 2), clients)
    )


def test_a_link_that_is_down_is_down_for_both_ends() -> None:
    found = meeting((0, 1), (1, 2), (2, 3)).without_links(np.array([2]), np.array([1]))
    np.testing.assert_array_equal(found.graph.toarray(), meeting((0, 1), (2, 3)).graph.toarray())
    assert found.paths.present.all()
    many = meeting((0, 99_999), (99_998, 99_999), clients=100_000)  # no product of clients overflows
    left = many.without_links(np.array([99_999], np.int32), np.array([99_998], np.int32))
    assert left.graph.nonzero()[0].tolist() == [0, 99_999]


def after(scene: Scene, state: State) -> tuple[State, np.ndarray]:
    """The state after a round, and the contacts of its exchange."""
    state, done = play_round(scene, state)
    return state, done.meeting.graph.toarray()


def test_a_model_that_does_not_arrive_takes_its_link_out_of_the_exchange() -> None:
    """By hand: all meet all, but 0 never gets the model of 1."""
    full = {"contacts": {"kind": "radius", "radius": float("inf")}, "mobility": "static", "clients": 4}
    here, there = scenes(**full)
    lost = replace(apart(there), losing=frozenset({(1, 1, 0)}))
    try:
        trained = begin(here).models
        state = begin(here)
        jobs = here.parts.federation.distribute(_round(here, state)).jobs
        here.learner.train(trained, jobs)
        x = trained.parameters.numpy().astype(np.float64)
        state, met = after(replace(there, aggregator=lost), begin(there))
        expected = np.ones((4, 4), bool) ^ np.eye(4, dtype=bool)
        expected[0, 1] = expected[1, 0] = False
        np.testing.assert_array_equal(met, expected)
        # Degrees 2, 2, 3, 3: a link of 2 or 3 has weight 1 / 4, and columns still sum to 1.
        w = np.full((4, 4), 0.25)
        w[0, 1] = w[1, 0] = 0.0
        w[0, 0] = w[1, 1] = 0.5
        np.testing.assert_allclose(state.models.parameters.numpy(), w @ x, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(w.sum(0), 1.0)
        assert state.bytes_sent == 10 * state.models.bytes_each
    finally:
        here.learner.close()


def _round(scene: Scene, state: State) -> Any:
    return Round(1, state.models, state.federation, scene.context, state.meeting, scene.learner)


@pytest.mark.parametrize("aggregation", ["average", "trimmed_mean"])
def test_a_client_that_does_not_answer_keeps_its_model_and_the_others_theirs(aggregation: str) -> None:
    full = {"contacts": {"kind": "radius", "radius": float("inf")}, "mobility": "static"}
    here, there = scenes(aggregation=aggregation, **full)
    silent = replace(apart(there), silent=frozenset({(1, 2)}))
    try:
        whole, part = after(here, begin(here))[0], after(replace(there, aggregator=silent), begin(there))[0]
        trained = begin(here).models
        here.learner.train(trained, here.parts.federation.distribute(_round(here, begin(here))).jobs)
        for i in range(6):
            expected = trained if i == 2 else whole.models
            assert part.models.parameters[i].equal(expected.parameters[i])
    finally:
        here.learner.close()


@pytest.mark.parametrize("kind", ["mohawk", "hierfavg"])
def test_an_update_that_does_not_arrive_waits_or_is_lost(kind: str) -> None:
    here, there = scenes(federation={"kind": kind, "k2": 3}, mobility="static")
    try:
        whole = play_round(here, begin(here))[0]
        ap = int(whole.federation["ap"][3])
        lost = replace(apart(there), losing=frozenset({(1, 3, int(access_point(ap)))}))
        state, done = play_round(replace(there, aggregator=lost), begin(there))
        assert done.facts["total_aggregated"] == 5
        assert done.facts["waiting"] == (kind == "mohawk")
        assert done.facts["total_discarded"] == (kind == "hierfavg")
        assert state.bytes_sent == whole.bytes_sent - state.models.bytes_each
    finally:
        here.learner.close()


def test_a_device_that_gets_no_model_does_not_train() -> None:
    here, there = scenes(federation={"kind": "mohawk", "k2": 3}, mobility="static")
    try:
        ap = int(play_round(here, begin(here))[0].federation["ap"][3])
        lost = replace(apart(there), losing=frozenset({(1, int(access_point(ap)), 3)}))
        _, done = play_round(replace(there, aggregator=lost), begin(there))
        assert done.learners.tolist() == [0, 1, 2, 4, 5]
        assert done.facts["total_trained"] == 5
    finally:
        here.learner.close()


@pytest.mark.parametrize("kind", ["hierarchical_fedasync", "hierarchical_fedbuff"])
def test_what_an_access_point_that_does_not_answer_would_take_waits_and_its_books_stay(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing moves: so in round 2 it takes the same updates, none of them stale by a model that it has not made."""
    by_client(monkeypatch)
    settings = {"size": 4} if kind == "hierarchical_fedbuff" else {}
    here, there = scenes(federation={"kind": kind, "k2": 9, **settings}, mobility="static")
    try:
        first = play_round(here, begin(here))[0]
        ap = int(first.federation["ap"][3])
        alike = first.federation["ap"] == ap
        silent = replace(apart(there), silent=frozenset({(1, int(access_point(ap)))}))
        state, done = play_round(replace(there, aggregator=silent), begin(there))
        assert done.facts["waiting"] == alike.sum()
        assert state.federation["version"][ap] == 0
        if settings:
            assert state.federation["held"][ap] == 0
        others = np.setdiff1d(np.arange(len(first.federation["version"])), ap)
        for name in ("version", *(["held"] if settings else [])):
            np.testing.assert_array_equal(state.federation[name][others], first.federation[name][others])
        state, _ = play_round(there, state)
        row = [int(each.federation["ap_row"][ap]) for each in (first, state)]
        assert first.models.parameters[row[0]].equal(state.models.parameters[row[1]])
        assert state.federation["version"][ap] == first.federation["version"][ap]
    finally:
        here.learner.close()


def test_what_an_access_point_that_does_not_answer_was_sent_waits() -> None:
    here, there = scenes(federation={"kind": "mohawk", "k2": 3}, mobility="static")
    try:
        whole = play_round(here, begin(here))[0]
        ap = whole.federation["ap"]
        silent = replace(apart(there), silent=frozenset({(1, int(access_point(int(ap[3]))))}))
        state, done = play_round(replace(there, aggregator=silent), begin(there))
        alike = int((ap == ap[3]).sum())
        assert done.facts["waiting"] == alike
        assert done.facts["total_aggregated"] == 6 - alike
        assert state.federation["ap_row"][ap[3]] == 0
        state, done = play_round(there, state)  # and all is aggregated then
        assert done.facts["waiting"] == 0
        assert done.facts["total_returned"] == alike
    finally:
        here.learner.close()
