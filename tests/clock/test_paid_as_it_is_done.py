"""Local work is paid for second by second: as it is done, in the round in which it is, and no more of it than is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from fedroam.clock import OWED
from fedroam.components import build, kinds
from fedroam.errors import InputError
from fedroam.federation.hierarchical import Hierarchical
from fedroam.simulation import begin, play_round
from support.timed import timed_scene
from support.tiny import Played, example, own_data, play, tiny

AROUND = {"kind": "random", "grid": 4, "mobile": 4}
MODEL = 4 * (64 * 10 + 10)  # bytes of softmax regression on digits
TEN = {"kind": "fixed", "throughput": 8e-6 * MODEL / 10}  # a model in ten seconds
JOULES = {"kind": "lte_wifi", "training_energy": 1.0, "distance_mean": 500.0, "distance_std": 100.0}


def federated(kind: str, speed: float, **clock: Any) -> Played:
    """Clients with equal samples come and go; a sample takes a joule."""
    return play(
        tiny(
            data=own_data(),
            partition="iid",
            federation=example("federation", kind),
            validation_share=0.2,
            activity={"kind": "rate", "rate": 0.7},
            model={"kind": "mlp", "hidden": (6,)},
            mobility=AROUND,
            radio=JOULES,
            rounds=6,
            evaluate_every=1,
            clock={"kind": "seconds", "length": 10.0, **clock},
            compute={"kind": "flops", "speeds": [speed]},
        )
    )


@pytest.mark.parametrize("late", ["dropped", "carried"])
@pytest.mark.parametrize("kind", kinds("federation"))
def test_joules_of_training_are_seconds_of_training(kind: str, late: str) -> None:
    """Whatever is late, given up, carried over or never begun: the power is that of rounds that wait for everybody."""
    waiting = federated(kind, 1e-6, wait="all").rounds
    took = waiting["time_training"].iloc[-1]
    if took == 0:
        pytest.skip("its clients train nothing")
    power = waiting["energy_training"].iloc[-1] / took
    longest = np.diff(waiting["time"]).max()
    speed = 1e-6 * longest / 25.0  # the longest work takes two rounds and a half
    if late == "carried" and isinstance(build("federation", example("federation", kind)), Hierarchical):
        with pytest.raises(InputError, match="carried"):
            federated(kind, speed, late=late)
        return  # it holds late work by a rule of its own
    found = federated(kind, speed, late=late).rounds
    assert found["late"].sum() > 0
    joules, seconds = np.diff(found["energy_training"]), np.diff(found["time_training"])
    np.testing.assert_allclose(joules, seconds * power * speed / 1e-6, rtol=0.03)


def test_work_that_is_carried_over_is_paid_for_round_by_round() -> None:
    """The third trains for 60 s: 20 in round 1 (10 go for the download), 30 in round 2, 10 in round 3; then anew, 20 of
    60. A sample takes a joule, and a step passes all that the client has."""
    scene = timed_scene(
        (5.0, 15.0, 60.0),
        clock={"kind": "seconds", "length": 30.0, "late": "carried"},
        link=TEN,
        federation="fedavg",
        training={"kind": "sgd", "lr": 0.1},
        radio=JOULES,
    )
    state, spent, owed = begin(scene), [], []
    passes = float(len(scene.split.train[2]))
    for _ in range(4):
        state, _ = play_round(scene, state)
        spent.append(float(state.account.energy_training[2]))
        owed.append(float(state.clock[OWED][2]))
    np.testing.assert_allclose(np.array(spent) / passes, [1 / 3, 5 / 6, 1.0, 4 / 3])
    np.testing.assert_allclose(np.array(owed) / passes, [2 / 3, 1 / 6, 0.0, 2 / 3], atol=1e-12)


def hierarchy(work: tuple[float, ...], federation: dict[str, Any], **settings: Any) -> tuple[Any, Any]:
    """Devices that stand at the one access point, in rounds of 10 s."""
    scene = timed_scene(
        work,
        clock={"kind": "seconds", "length": 10.0},
        federation=federation,
        training={"kind": "sgd", "lr": 0.1},
        access_points={"kind": "grid", "columns": 1, "rows": 1},
        radio=JOULES,
        **settings,
    )
    return scene, begin(scene)


@pytest.mark.parametrize(
    ("federation", "learnt"),
    [
        ({"kind": "hierfavg", "k2": 3}, 0),
        ({"kind": "mohawk", "k2": 3, "carry_over": False}, 0),
        ({"kind": "mohawk", "k2": 3}, 1),
    ],
    ids=["hierfavg", "nothing carried over", "mohawk"],
)
def test_what_a_hierarchy_gives_up_is_paid_for_as_far_as_it_was_done(
    federation: dict[str, Any], learnt: int
) -> None:
    """40 s of work, rounds of 10 s: all that is late is given up at once, or after the third round; then all was in
    vain. What is given up in the round in which it begins is not computed."""
    scene, state = hierarchy((40.0,), federation)
    passes = float(len(scene.split.train[0]))
    for number in range(1, 4):
        state, done = play_round(scene, state)
        assert state.account.energy_training[0] == pytest.approx(number * passes / 4)
        assert len(done.learners) == (learnt if number == 1 else 0)
    assert state.account.energy_wasted[0] == pytest.approx(state.account.energy[0])
    assert state.account.energy_pending[0] == 0.0
    assert state.clock[OWED][0] == 0.0


def test_work_rests_while_its_device_is_out_of_service() -> None:
    """25 s of work. The device is there in rounds 1, 3 and 4: 10, 10 and 5 s, and it has delivered in round 4."""
    scene, state = hierarchy((25.0,), {"kind": "mohawk", "k2": 6})
    seconds = []
    for number in range(1, 5):
        here = replace(
            scene, parts=replace(scene.parts, activity=Away() if number == 2 else scene.parts.activity)
        )
        state, _ = play_round(here, state)
        seconds.append(float(state.clock["time_training"][0]))
    assert seconds == pytest.approx([10.0, 10.0, 20.0, 25.0])
    passes = float(len(scene.split.train[0]))
    assert state.account.energy_training[0] == pytest.approx(passes)
    assert state.account.energy_pending[0] == 0.0, "it is aggregated"


@dataclass(frozen=True)
class Away:
    """Nobody takes part."""

    def step(self, state: Any, seed: int, clients: int, round: int) -> dict[str, np.ndarray]:
        return {**state, "active": np.zeros(clients, dtype=bool)}


@pytest.mark.parametrize("broken", ["lost", "resumed"])
def test_a_download_that_goes_on_is_priced_where_its_device_is(broken: str) -> None:
    """Every device is within Wi-Fi's 100 m of its access point: each byte has the same price in every round."""
    link = {"kind": "fixed", "broken": broken, "throughput": 8e-6 * MODEL / 25}
    _, state = made = hierarchy((0.0,), {"kind": "mohawk", "k2": 6}, link=link)
    prices = []
    for _ in range(3):
        before = state.account
        state, _ = play_round(made[0], state)
        sent = (
            (state.account.bytes_up - before.bytes_up)[0],
            (state.account.bytes_down - before.bytes_down)[0],
        )
        if sent[0] == 0 and sent[1]:
            prices.append((state.account.energy - before.energy)[0] / sent[1])
    assert len(prices) >= 2
    np.testing.assert_allclose(prices, 8e-6 * (137.01 * 1000 + 132.86) / 1000 / 1000, rtol=1e-6)


@pytest.mark.parametrize(
    "settings",
    [
        {"federation": "fedavg"},
        {
            "federation": {"kind": "mohawk", "k2": 2},
            "access_points": {"kind": "grid", "columns": 1, "rows": 1},
        },
        {"federation": "decentralized", "contacts": {"kind": "radius", "radius": 90.0}},
        {"federation": "ad_psgd", "contacts": {"kind": "radius", "radius": 90.0}},
    ],
    ids=["fedavg", "mohawk", "decentralized", "ad_psgd"],
)
def test_what_each_transfer_takes_besides_is_charged_once_though_bytes_are_lost(
    settings: dict[str, Any],
) -> None:
    """Of a link that loses a fifth, a quarter of the bytes is sent again; `extra`, of a transfer, is not."""
    found = {}
    for extra in (0, 10**6):
        for loss in (0.0, 0.2):
            rounds = play(
                tiny(
                    clients=2,
                    rounds=1,
                    mobility="static",
                    clock={"kind": "seconds", "length": 1000.0},
                    link={"kind": "fixed", "throughput": 1.0, "loss": loss},
                    radio={"kind": "lte_wifi", "extra": extra, "distance_mean": 100.0, "distance_std": 50.0},
                    **settings,
                )
            ).rounds
            found[extra, loss] = float(rounds["energy"].iloc[-1])
    assert found[0, 0.2] == pytest.approx(1.25 * found[0, 0.0], rel=1e-3)
    assert found[10**6, 0.2] - found[0, 0.2] == pytest.approx(found[10**6, 0.0] - found[0, 0.0], rel=1e-6)
