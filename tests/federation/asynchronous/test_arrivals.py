"""FedAsync and FedBuff, update by update, in the order in which a timetable worked out by hand lets them arrive."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedroam.components import build
from fedroam.federation.protocol import by_arrival
from fedroam.federation.server.loop import GLOBAL
from fedroam.scene import Scene, prepare
from fedroam.simulation import begin, play_round
from fedroam.state import State
from support.timed import timed_scene
from support.tiny import tiny

MODEL = 4 * (64 * 10 + 10)
# A model in ten seconds, rounds of 30: the second arrives at 21, the first at 25. The third trains for 45 s: its update
# arrives in round 2, at second 45 - 20 + 10 = 35 - too late for 30 s, so it is sent anew and arrives in round 3 at 10.
TRAINING, ORDER = (5.0, 1.0, 45.0), {1: [1, 0], 2: [1, 0], 3: [2, 1, 0]}


def scene_of(federation: dict[str, Any]) -> Scene:
    return timed_scene(
        TRAINING,
        clock={"kind": "seconds", "length": 30.0, "late": "carried"},
        link={"kind": "fixed", "throughput": 8e-6 * MODEL / 10},
        federation=federation,
        training={"kind": "sgd", "lr": 0.1},
    )


def trained(scene: Scene, state: State) -> tuple[State, np.ndarray]:
    """The next state, and everybody's model by then."""
    following, _ = play_round(scene, state)
    return following, following.models.parameters.numpy()


@pytest.mark.parametrize("weighting", ["constant", "polynomial", "hinge"])
def test_fedasync_mixes_models_as_they_arrive(weighting: str) -> None:
    scene = scene_of({"kind": "fedasync", "alpha": 0.6, "weighting": weighting, "exponent": 0.5, "b": 0})
    falls = {"constant": [1, 1, 1, 1, 1], "polynomial": [(1 + k) ** -0.5 for k in range(5)]}
    falls["hinge"] = [1 / (0.5 * k + 1) for k in range(5)]
    state, server, version, base = begin(scene), begin(scene).federation[GLOBAL].astype(float), 0, [0, 0, 0]
    for number, order in ORDER.items():
        for client in (0, 1, *([2] if number == 1 else [])):
            base[client] = version
        state, models = trained(scene, state)
        stale = []
        for client in order:
            stale.append(version - base[client])
            weight = 0.6 * falls[weighting][stale[-1]]
            server = (1 - weight) * server + weight * models[client]
            version += 1
        assert stale == {1: [0, 1], 2: [0, 1], 3: [4, 1, 2]}[number]
        np.testing.assert_allclose(state.federation[GLOBAL], server, rtol=1e-5, atol=1e-6)
        assert state.federation["version"].tolist() == [version]


def test_fedbuff_makes_a_model_of_so_many_updates() -> None:
    """Seven updates in three rounds, two a model: three models, and one update waits."""
    scene = scene_of({"kind": "fedbuff", "size": 2, "rate": 0.5, "exponent": 0.5})
    state = begin(scene)
    server, given = state.federation[GLOBAL].astype(float), [np.zeros(0)] * 3
    version, base, buffer, held, stale = 0, [0, 0, 0], 0.0, 0, []
    for number, order in ORDER.items():
        for client in (0, 1, *([2] if number == 1 else [])):
            base[client], given[client] = version, server
        state, models = trained(scene, state)
        for client in order:
            stale.append(version - base[client])
            buffer = buffer + (1 + stale[-1]) ** -0.5 * (models[client] - given[client])
            held += 1
            if held == 2:
                server, buffer, held, version = server + 0.5 * buffer / 2, 0.0, 0, version + 1
        np.testing.assert_allclose(state.federation[GLOBAL], server, rtol=1e-5, atol=1e-6)
        assert state.federation["held"].tolist() == [held]
    assert (version, held, stale) == (3, 1, [0, 0, 0, 0, 2, 0, 1])


def test_the_weight_falls_with_staleness() -> None:
    weight = build("federation", {"kind": "fedasync", "alpha": 0.5, "exponent": 1.0}).weight  # type: ignore[attr-defined]
    assert [weight(k) for k in range(3)] == pytest.approx([0.5, 0.25, 0.5 / 3])


def test_one_update_a_model_at_full_weight_is_the_last_model() -> None:
    """FedBuff with a buffer of one, and FedAsync with alpha = 1 where nothing is stale, take a lone client's model."""
    for federation in ({"kind": "fedbuff", "size": 1}, {"kind": "fedasync", "alpha": 1.0}):
        scene = timed_scene((0.0,), clock="seconds", federation=federation)
        state, models = trained(scene, begin(scene))
        np.testing.assert_allclose(state.federation[GLOBAL], models[0], rtol=1e-6, atol=1e-7)


def test_who_of_equals_arrives_first_is_drawn_anew_for_each_round() -> None:
    """Each as often as the others, in each place; of two, the same one whoever else arrives; and the earlier first."""
    clients, rounds = np.array([1, 4, 5, 7]), 4000
    orders = np.array([by_arrival(clients, None, 3, t) for t in range(1, rounds + 1)])
    assert (np.sort(orders) == clients).all()
    for place in orders.T:
        seen = np.array([(place == k).sum() for k in clients])
        assert ((seen - rounds / 4) ** 2 / (rounds / 4)).sum() < 16.27, "chi-squared with 3 degrees, 0.001"
    for t in range(1, 40):
        fewer = by_arrival(np.array([4, 7]), None, 3, t).tolist()
        assert fewer == [k for k in orders[t - 1].tolist() if k in (4, 7)]
        when = np.array([9, 2.0, 9, 9, 1.0, 2.0, 9, 2.0])
        timed = by_arrival(clients, when, 3, t).tolist()
        assert timed == [4, *[k for k in orders[t - 1].tolist() if k != 4]]
    assert not np.array_equal(orders[:50], [by_arrival(clients, None, 4, t) for t in range(1, 51)])
    assert by_arrival(np.zeros(0, dtype=np.int64), None, 3, 1).tolist() == []


def test_without_seconds_no_client_of_fedasync_counts_more_than_the_others() -> None:
    """Whoever comes last is mixed in with `alpha`, and each before it with what the later ones leave."""
    scene = prepare(tiny(federation={"kind": "fedasync", "alpha": 0.6, "weighting": "constant"}, rounds=40))
    state, last = begin(scene), []
    for _ in range(40):
        state, models = trained(scene, state)
        server = state.federation[GLOBAL]
        apart = np.abs(models - server).sum(axis=1)
        last.append(int(apart.argmin()))
    assert len(set(last)) == scene.experiment.clients, "each has been the last"
