"""Batteries that run empty within a round: what is under way ends there; by hand, and energy as power times time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedroam.clock import TOTALS, Supply, Timetable
from fedroam.federation import Meeting
from fedroam.scene import Scene
from fedroam.simulation import begin, play_round
from fedroam.state import State
from support.timed import meeting, timed, timed_scene
from support.tiny import play, same_tables, tiny

MODEL = 4 * (64 * 10 + 10)
HOUR = 3600.0
TEN = {"kind": "fixed", "throughput": 8e-6 * MODEL / 10}  # a model in ten seconds
STAY = {"mobility": {"kind": "static"}, "contacts": {"kind": "radius", "radius": float("inf")}}
SILENT = {
    "kind": "lte_wifi",
    **{
        f"{link}_{part}": 0.0
        for link in ("d2d", "lte", "wifi")
        for part in ("alpha_up", "alpha_down", "beta")
    },
}
# Sending a model takes 3 J of the sender and 2 J of the receiver: 0.3 and 0.2 W for ten seconds.
PRICED = {
    "kind": "lte_wifi",
    "d2d_alpha_up": 3e3 / (8e-6 * MODEL),
    "d2d_alpha_down": 2e3 / (8e-6 * MODEL),
    "d2d_beta": 0.0,
    "d2d_max": 1.0,
}


def powered(work: tuple[float, ...], joules: tuple[float, ...], **own: Any) -> tuple[Scene, State]:
    """Devices that draw 1 W, and 2 W besides while they train; client i has so many joules."""
    battery = {"kind": "battery", "capacity": 1.0, "idle": 1.0, "training": 2.0, **own.pop("battery", {})}
    told: dict[str, Any] = {"clock": {"kind": "seconds", "length": 40.0}, "link": TEN, **STAY, **own}
    told.setdefault("radio", SILENT)
    scene = timed_scene(work, battery=battery, **told)
    state = begin(scene)
    state.battery["charge"] = np.array(joules)
    return scene, state


def plan(scene: Scene, state: State, after: Meeting) -> Timetable:
    parts, timing = scene.parts, scene.timing
    assert timing is not None
    supply = Supply(
        parts.battery,
        parts.motion,
        scene.tariff,
        state.battery,
        0.0,
        after.paths,
        timing.length,
        np.zeros((0, 2)),
    )
    return timed(scene, after, supply=supply)


STILL = meeting([[0, 0], [1, 0]], [[0, 0], [1, 0]])


def test_a_death_in_training_breaks_it_off() -> None:
    """3 W: 24 J last for 8 s of the 10 that its training takes. The other trains for 4 s and sends until 8, in vain."""
    scene, state = powered((10.0, 4.0), (24.0, 3600.0))
    found = plan(scene, state, STILL)
    assert found.use is not None
    np.testing.assert_allclose(found.use.dies, [8.0, np.inf])
    assert [job.client for job in found.jobs] == [1]
    assert [job.client for job in found.paid.jobs] == [1, 0]
    assert found.paid.broken_off.tolist() == [False, True]
    np.testing.assert_allclose(found.paid.shares, [1.0, 0.8])
    assert found.dropped.tolist() == [0]
    assert found.graph is not None
    assert found.graph.nnz == 0
    told = dict(
        zip(("sender", "bytes"), (found.traffic.sender.tolist(), found.traffic.bytes.tolist()), strict=True)
    )
    assert told == {"sender": [1], "bytes": [round(0.4 * MODEL)]}, "four seconds of ten"
    # The first receives meanwhile, while it trains; then it is gone for 32 s.
    spent = [found.state[name].tolist() for name in TOTALS]
    np.testing.assert_allclose(spent, [[8, 4], [0, 4], [0, 32], [32, 0]])


def test_the_charge_after_a_death_by_hand() -> None:
    """From second 8 on nothing is drawn, and 0.5 W is charged: 16 J in the 32 s that are left."""
    scene, state = powered((10.0, 4.0), (24.0, 3600.0), battery={"charger": 0.0})
    after, done = play_round(scene, state)
    assert done.learners.tolist() == [1]
    assert after.battery["charge"].tolist()[0] == 0.0
    np.testing.assert_allclose(after.battery["charge"][1], 3600 - 40 - 2 * 4, rtol=1e-12)
    np.testing.assert_allclose(after.battery["drawn"], [24.0, 48.0], rtol=1e-12)
    assert after.battery["gone"].tolist() == [True, False]
    np.testing.assert_allclose(after.battery["died"], [8.0, np.nan])
    scene, state = powered((10.0, 4.0), (20.0, 3600.0), battery={"charger": 0.5, "restart": 0.9})
    after, _ = play_round(scene, state)  # 2.5 W of 20 J: the same moment
    np.testing.assert_allclose(after.battery["died"], [8.0, np.nan])
    np.testing.assert_allclose(after.battery["charge"], [16.0, 3600 - 48 + 20.0])
    np.testing.assert_allclose(after.battery["drawn"], [24.0, 48.0])


@pytest.mark.parametrize("federation", ["decentralized", "ad_psgd"])
def test_what_was_learnt_before_a_death_is_not_wasted(federation: str) -> None:
    """Nobody meets. The first trains whole, then for 8 s of 10 until it is empty: that is lost, and nothing before."""
    own: dict[str, Any] = {
        "contacts": {"kind": "radius", "radius": 0.0},
        "radio": {**SILENT, "training_energy": 0.01},
        "battery": {"charger": 0.0, "training": 2.0, "idle": 1.0},
    }
    scene, state = powered((10.0, 10.0), (3600.0, 3600.0), federation=federation, **own)
    state, _ = play_round(scene, state)
    first, second = state.account.energy_training.tolist()
    assert first > 0
    np.testing.assert_allclose(state.account.energy_pending, [first, second])
    state.battery["charge"] = np.array(
        [24.0 + 8 * first / 10, 3600.0]
    )  # what training costs the radio is drawn, too
    state, _ = play_round(scene, state)
    np.testing.assert_allclose(state.account.energy_wasted, [0.8 * first, 0.0])
    np.testing.assert_allclose(state.account.energy_pending, [first, 2 * second])
    np.testing.assert_allclose(state.account.energy, [1.8 * first, 2 * second])


def test_a_death_breaks_a_transfer_for_both() -> None:
    """Both send from second 2 to 12. The first draws 6 J until then, then 1 W and 0.5 W of radio: 15 J last until 8."""
    scene, state = powered((2.0, 2.0), (15.0, 3600.0), radio=PRICED)
    found = plan(scene, state, STILL)
    assert found.use is not None
    np.testing.assert_allclose(found.use.dies, [8.0, np.inf], rtol=1e-9)
    assert found.traffic.bytes.tolist() == [round(0.6 * MODEL)] * 2
    after, done = play_round(scene, state)
    assert done.meeting.graph.nnz == 0
    assert done.learners.tolist() == [0, 1], "both had trained"
    np.testing.assert_allclose(after.account.energy, [0.6 * 5] * 2, rtol=1e-9)
    np.testing.assert_allclose(after.battery["drawn"], [15.0, 40 + 4 + 3.0], rtol=1e-9)


def test_what_got_through_before_counts() -> None:
    scene, state = powered((2.0, 2.0), (6 + 10 * 1.5 + 3.0, 3600.0), radio=PRICED)
    after, done = play_round(scene, state)
    assert done.meeting.graph.nnz == 2
    np.testing.assert_allclose(after.battery["died"], [15.0, np.nan], rtol=1e-9)


@pytest.mark.parametrize("linked", [False, True])
def test_one_death_spares_another_or_brings_it_about(linked: bool) -> None:
    """Half duplex, no training: 0 sends to 1 first, then 1 to 0. If 0 dies in second 5, 1 sends nothing at all, and
    lives on what it would have sent."""
    joules = (5 * 1.3 if linked else 3600.0, 32.5)
    scene, state = powered(
        (0.0, 0.0), joules, radio=PRICED, link={**TEN, "simultaneous": 1}, battery={"training": 0.0}
    )
    found = plan(scene, state, STILL)
    assert found.use is not None
    if linked:  # 1: 5 s of 1.2 W, then 1 W: 6 + 35 = 41 J are too many, too
        np.testing.assert_allclose(found.use.dies, [5.0, 31.5], rtol=1e-9)
    else:  # 12 + 13 + 1 W: 32.5 J last for 20 s and 7.5 more
        np.testing.assert_allclose(found.use.dies, [np.inf, 27.5], rtol=1e-9)


def served(federation: Any, joules: tuple[float, ...], **clock: Any) -> tuple[Scene, State]:
    return powered(
        (5.0, 15.0),
        joules,
        clock={"kind": "seconds", "length": 40.0, **clock},
        federation=federation,
        training={"kind": "sgd", "lr": 0.1},
        radio=SILENT,
    )


@pytest.mark.parametrize("federation", ["fedavg", {"kind": "mohawk", "k2": 9}])
def test_the_dead_lose_what_they_were_training(federation: Any) -> None:
    """10 s down at 1 W, then 3 W: 25 J last until second 15, a third of the way."""
    scene, state = served(
        federation, (3600.0, 25.0), **({"late": "carried"} if federation == "fedavg" else {})
    )
    after, done = play_round(scene, state)
    assert done.learners.tolist() == [0]
    np.testing.assert_allclose(after.battery["died"][1], 15.0, rtol=1e-9)
    assert not after.clock["busy"].any()
    assert after.clock["left_training"].tolist() == [0.0, 0.0]
    assert after.account.bytes_up.tolist() == [MODEL, 0]
    if federation != "fedavg":
        assert after.federation["device_row"].tolist() == [0, 0], "no update waits"


def test_a_finished_update_waits_for_its_device() -> None:
    """At an access point with a rule for late devices: 10 + 15 s, and 3 of sending: then it is empty."""
    scene, state = served({"kind": "mohawk", "k2": 9}, (3600.0, 10 + 45 + 3.0))
    after, done = play_round(scene, state)
    assert done.learners.tolist() == [0, 1]
    np.testing.assert_allclose(after.battery["died"][1], 28.0, rtol=1e-9)
    assert after.account.bytes_up.tolist() == [MODEL, round(0.3 * MODEL)]
    assert after.federation["device_row"][1] > 0


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    joules=st.floats(20, 400),
    charger=st.sampled_from([0.0, 0.7]),
    kind=st.sampled_from(["decentralized", "epidemic", "ad_psgd", "fedavg", "mohawk"]),
)
def test_energy_is_power_times_time_whoever_dies(seed: int, joules: float, charger: float, kind: str) -> None:
    """Over three rounds: what was drawn is idle power for as long as each lived, training, and the radio; to 1e-9."""
    scene, state = powered(
        (3.0, 12.0, 7.0),
        (joules, 2 * joules, 3600.0),
        radio=SILENT,
        link={**TEN, "shared": True},
        federation=kind,
        seed=seed,
        battery={"charger": charger, "restart": 0.05},
    )
    for _ in range(3):
        after, _ = play_round(scene, state)
        trained = after.clock["time_training"] - state.clock["time_training"]
        dead = after.battery["gone"] & ~state.battery["gone"]
        lived = np.where(dead, after.battery["died"] - state.clock["time"][0], 40.0)
        first = np.isnan(state.battery["died"])  # only the first death is told
        expected = np.where(state.battery["gone"], 0.0, lived + 2 * trained)
        drawn = after.battery["drawn"] - state.battery["drawn"]
        sure = first | ~dead
        np.testing.assert_allclose(drawn[sure], expected[sure], rtol=1e-9, atol=1e-9)
        balance = state.battery["charge"] - drawn + charger * 40.0
        np.testing.assert_array_less(after.battery["charge"] - 1e-9, np.minimum(balance, 3600.0))
        # Nobody takes part after it died.
        assert (trained[dead & first] <= lived[dead & first] + 1e-9).all()
        state = after


def runs_empty(kind: str, **clock: Any) -> Any:
    return tiny(
        clock={"kind": "seconds", "length": 10.0, **clock},
        compute={"kind": "flops", "speeds": (1e-5, 4e-6), "shares": (0.5, 0.5)},
        link={"kind": "fixed", "throughput": 8e-6 * 2600, "simultaneous": 2, "shared": True},
        federation={"kind": kind, **({"k2": 2} if kind == "mohawk" else {})},
        mobility={"kind": "random", "grid": 4, "mobile": 4},
        contacts={"kind": "closest_approach", "radius": 1.5},
        battery={
            "kind": "battery",
            "capacity": 60 / HOUR,
            "start_lowest": 0.1,
            "charger": 1.2,
            "charge_radius": 1.0,
        },
        rounds=5,
    )


@pytest.mark.parametrize("kind", ["decentralized", "epidemic", "ad_psgd", "fedavg", "mohawk"])
def test_a_resumed_run_with_deaths_is_an_uninterrupted_one(kind: str) -> None:
    run = runs_empty(kind, **({} if kind == "mohawk" else {"late": "carried"}))
    whole = play(run)
    assert whole.rounds["battery_gone"].max() > 0
    rest = play(run, (2, whole.states[2]))
    assert rest.states == whole.states[3:]
    tables = {
        each: table[table["round"] > 2].reset_index(drop=True) for each, table in whole.tables().items()
    }
    same_tables(tables, rest.tables())


def test_full_batteries_change_nothing() -> None:
    """Who never runs empty does what it does without a battery."""
    plenty = runs_empty("decentralized").replace(battery={"kind": "battery", "capacity": 1e6})
    none = runs_empty("decentralized").replace(battery="none")
    one, other = (play(run).rounds for run in (plenty, none))
    own = [column for column in one if not column.startswith("battery")]
    assert one[own].equals(other[own])


def test_a_tie_dies_together() -> None:
    scene, state = powered((0.0, 0.0), (12.0, 12.0), battery={"training": 0.0})
    found = plan(scene, state, STILL)
    assert found.use is not None
    np.testing.assert_allclose(found.use.dies, [12.0, 12.0])
    assert replace(found, use=None).facts["through"] == 2
