"""FedAsync and FedBuff at access points: update by update, by hand, and the server's own where there is one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from fedroam.federation.server.loop import GLOBAL
from fedroam.learning import Job, Models
from fedroam.simulation import begin, play_round
from support.arrivals import by_client
from support.hierarchies import PlayedRound, play
from support.timed import timed_scene

MODEL = 4 * (64 * 10 + 10)
TEN = {"kind": "fixed", "throughput": 8e-6 * MODEL / 10}  # a model in ten seconds
ONE = {"kind": "grid", "columns": 1, "rows": 1}
A, B, AWAY = 0.0, 100.0, None  # where the two access points stand, m
# Where each of three devices is, before round 1 and after each round. The second moves from A to B, gets a model there,
# and is back at A two rounds later; the third gets a model at B, is away, and comes back at A. A global aggregation
# lies between.
PLACES = [(A, A, B), (A, B, B), (A, AWAY, B), (A, A, AWAY), (A, A, A), (AWAY, AWAY, B)]


def played(federation: dict[str, Any], learnt: list[tuple[float, float, float]]) -> list[PlayedRound]:
    """Rounds with models of one number, from 0 on, and a global aggregation after the third."""
    places = [[(0.0 if x is None else x, 0.0) for x in row] for row in PLACES]
    present = [[x is not None for x in row] for row in PLACES]
    told = {(client, t): [row[client]] for t, row in enumerate(learnt, 1) for client in range(3)}
    own = {"k2": 3, "weights": "uniform", "exponent": 1.0, **federation}
    return play(
        own, np.array([[A, 0.0], [B, 0.0]]), (1, 1, 1), np.array(places), np.array(present), [0.0], told
    )


def test_fedasync_of_devices_that_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """a = 1/2, s = 1 / (1 + k). How stale each update is, in the order of clients: 0, 0, 1 (B has taken one in this
    round); 0, 0; 0, and 3 of the second device, whose model descends from none that A has made; 0, 1, and 7 of the
    third: A has made 4, got one of the cloud, and made two."""
    by_client(monkeypatch)
    nan = np.nan
    rounds = played(
        {"kind": "hierarchical_fedasync", "alpha": 0.5},
        [(8, 4, 2), (0, 10, 6), (6, nan, 12), (8.375, 2.375, nan), (0, 0, 0)],
    )
    assert [each.trained for each in rounds[:4]] == [[0, 1, 2], [0, 1, 2], [0, 2], [0, 1]]
    assert [each.aggregated for each in rounds[:4]] == [[0, 1, 2], [0, 2], [0, 1], [0, 1, 2]]
    stations = [each.stations[:, 0].tolist() for each in rounds[:4]]
    assert stations[:2] == [[4.0, 2.0], [2.0, 4.0]]
    assert stations[2] == [4.375, 4.375], "of 4 + (10 - 4) / 8 at A, and 4 at B"
    assert stations[3] == [5.375 + (12 - 5.375) / 16, 4.375]
    stale = [each.done.facts["staleness"] for each in rounds[:4]]
    assert stale == pytest.approx([1 / 3, 0.0, 1.5, 8 / 3])
    assert all(each.done.facts["total_discarded"] == 0 for each in rounds)


def test_fedbuff_of_devices_that_move() -> None:
    """Two updates a model. A has one of them after round 1, makes 5 = (8 + 2) / 2 in round 2, and in round 3 adds half
    of (9 - 5) + (10 - 3) / 2: the second device was given 3 at B, and A has made one model since both began. B holds
    one update, 7 - 3, over the global aggregation, and makes a model in round 5, of the cloud's and 7.375 - 5.375."""
    nan = np.nan
    rounds = played(
        {"kind": "hierarchical_fedbuff", "size": 2},
        [(8, 4, 2), (2, 10, 7), (9, nan, 9), (6.875, 3.875, nan), (0, 0, 7.375)],
    )
    stations = [each.stations[:, 0].tolist() for each in rounds]
    assert stations[:2] == [[0.0, 3.0], [5.0, 3.0]]
    assert stations[2] == [(8.75 + 3) / 2] * 2
    assert stations[3] == [5.875 + (1 - 2) / 2, 5.875]
    assert stations[4] == [5.375, 5.875 + (4 + 2) / 2]
    stale = [each.done.facts["staleness"] for each in rounds]
    assert stale == pytest.approx([0.0, 0.0, 0.5, 4 / 3, 0.0]), (
        "A has made four models without the third device"
    )
    state = rounds[-1].done.state
    assert state["held"].tolist() == [1, 0]
    np.testing.assert_allclose(state["changes"], [[(9 - 3) / 5]])
    assert sorted(state["given_to"].tolist()) == [0, 1, 2]


@pytest.mark.parametrize("kind", ["hierarchical_fedasync", "hierarchical_fedbuff"])
def test_what_is_late_is_given_up_where_nothing_is_carried_over(kind: str) -> None:
    rounds = played({"kind": kind, "carry_over": False}, [(1, 1, 1)] * 5)
    assert [each.discarded for each in rounds] == [[], [1], [2], [], [0, 1]]
    assert rounds[-1].done.facts["waiting"] == 0


def test_an_access_point_takes_updates_as_they_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds of 30 s. The first device's update arrives at 10 + 5 + 10 = 25 s. The second's would at 35 s: it is sent
    anew in round 2, and is there at 10 s, before the first's next one. Each finds one model more than it knows."""
    scene = timed_scene(
        (5.0, 15.0),
        clock={"kind": "seconds", "length": 30.0},
        link=TEN,
        access_points=ONE,
        federation={"kind": "hierarchical_fedasync", "k2": 9, "alpha": 0.6},
    )
    trained, engine = {}, type(scene.learner)
    train = engine.train

    def watched(self: Any, models: Models, jobs: Sequence[Job]) -> np.ndarray:
        found = train(self, models, jobs)
        trained.update({(job.client, job.round): models.parameters[job.row].double().numpy() for job in jobs})
        return found

    monkeypatch.setattr(engine, "train", watched)
    state, models = begin(scene), []
    start = state.models.parameters[0].double().numpy()
    for _ in range(2):
        state, done = play_round(scene, state)
        models.append(state.models.parameters[state.federation["ap_row"][0]].double().numpy())
    first = 0.4 * start + 0.6 * trained[0, 1]
    np.testing.assert_allclose(models[0], first, rtol=1e-5, atol=1e-6)
    weight = 0.6 * 2**-0.5
    second = (1 - weight) * first + weight * trained[1, 1]
    wanted = (1 - weight) * second + weight * trained[0, 2]
    np.testing.assert_allclose(models[1], wanted, rtol=1e-5, atol=1e-6)
    assert (done.facts["staleness"], done.facts["total_returned"]) == (1.0, 1.0)


@pytest.mark.parametrize(
    "settings",
    [{"kind": "fedasync", "weighting": "hinge", "b": 0, "rho": 0.1}, {"kind": "fedbuff", "size": 2}],
)
def test_one_access_point_is_the_server(settings: dict[str, Any]) -> None:
    """With one access point, and no cloud to be heard of, the two rules are one: the same bits."""
    common: dict[str, Any] = {
        "clock": {"kind": "seconds", "length": 60.0},
        "link": TEN,
        "training": {
            "kind": "sgd",
            "lr": 0.1,
        },  # no momentum, which begins anew with each download of a hierarchy
    }
    server = timed_scene((5.0, 1.0, 9.0), federation=settings, **common)
    point = timed_scene(
        (5.0, 1.0, 9.0),
        federation={**settings, "kind": f"hierarchical_{settings['kind']}", "k2": 99},
        access_points=ONE,
        **common,
    )
    one, other = begin(server), begin(point)
    for _ in range(4):
        (one, here), (other, there) = play_round(server, one), play_round(point, other)
        row = other.models.parameters[other.federation["ap_row"][0]]
        np.testing.assert_array_equal(row.numpy(), one.federation[GLOBAL])
        assert here.facts["staleness"] == there.facts["staleness"]
    assert there.facts["staleness"] > 0
    assert one.bytes_sent == other.bytes_sent
