"""The account of whole runs: a hand-worked day in joules, every kind of federation, resume."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from federation.test_hierarchical import DAY, STATIONS, day
from fedroam.components import build
from fedroam.cost import COLUMNS, Account, DistanceDistribution, SamplePasses, Tariff
from fedroam.errors import InputError
from fedroam.federation import Traffic
from fedroam.runner import run
from fedroam.scene import describe, movement, prepare
from fedroam.simulation import begin, play_round
from support.hierarchies import context_of, meeting_of
from support.tiny import frozen, play, same_tables, thawed, tiny

# Joules of one model of 21.1 megabits: Wi-Fi at 1000 Mbps, LTE at 12 Mbps down and 7 Mbps up.
WIFI_DOWN, WIFI_UP = (137.01 * 1000 + 132.86) * 0.0211 / 1000, (283.17 * 1000 + 132.86) * 0.0211 / 1000
LTE_DOWN, LTE_UP = (51.97 * 12 + 1288.04) * 21.1 / 12 / 1000, (438.39 * 7 + 1288.04) * 21.1 / 7 / 1000


def accounts(kind: str) -> tuple[DistanceDistribution, list[Account]]:
    """The day of `test_federation_hierarchical`, charged: a sample pass costs 0.1 J, so 1, 2, 3 and 4 J a training."""
    federation: Any = build("federation", {"kind": kind, "k2": 3})
    context = context_of(STATIONS, [10, 20, 30, 40])
    steps = [
        meeting_of([at or (np.nan, np.nan) for at in s], [at is not None for at in s]).paths for s in DAY
    ]
    spread = DistanceDistribution.of(federation.link_distances(context.seed, 4, context.access_points, steps))
    radio: Any = build("radio", {"kind": "lte_wifi", "overhead": 2_637_500 / 8, "training_energy": 0.1})
    tariff = Tariff(radio, spread, SamplePasses(build("training", {"kind": "sgd", "epochs": 1})))  # type: ignore[arg-type]
    found = [Account.new(4)]
    for r in day(kind):
        traffic = Traffic.joined([r.given.traffic, r.done.traffic])
        found.append(tariff.charge(found[-1], r.given.jobs, traffic, r.done.aggregated, r.done.discarded))
    return spread, found


def test_a_day_by_hand_in_joules() -> None:
    spread, account = accounts("mohawk")
    # Eight times 50 m, four times 60 m, four times 200 m: 90 m on average, variance 4050. So 200 m is beyond
    # mean + std, and all else within the 100 m of Wi-Fi.
    assert spread.mean == pytest.approx(90.0)
    assert spread.std == pytest.approx(math.sqrt(4050.0))
    last = account[6]
    energy = [
        5 * WIFI_DOWN + 4 * WIFI_UP + 5 * 1,  # the model of round 5 was never sent
        3 * LTE_DOWN + 3 * LTE_UP + 3 * 2,  # gone and back twice: all three were sent
        3 * WIFI_DOWN + 1 * WIFI_UP + 3 * 3,
        3 * WIFI_DOWN + 2 * WIFI_UP + 3 * 4,
    ]
    np.testing.assert_allclose(last.energy, energy, rtol=0, atol=1e-9)
    np.testing.assert_allclose(last.energy_training, [5, 6, 9, 12], rtol=0, atol=1e-9)
    wasted = [WIFI_DOWN + 1, 0, 2 * (WIFI_DOWN + 3), WIFI_DOWN + 4]  # downloaded, trained, too late
    np.testing.assert_allclose(last.energy_wasted, wasted, rtol=0, atol=1e-9)
    np.testing.assert_allclose(last.energy_pending, 0, rtol=0, atol=1e-9)
    # By the end of round 5, device 1 waits with what it trained in round 4, the others with that of round 5.
    pending = [WIFI_DOWN + 1, LTE_DOWN + 2, WIFI_DOWN + 3, WIFI_DOWN + 4]
    np.testing.assert_allclose(account[5].energy_pending, pending, rtol=0, atol=1e-9)
    np.testing.assert_allclose(account[5].energy_wasted, [0, 0, WIFI_DOWN + 3, WIFI_DOWN + 4], atol=1e-9)
    assert last.bytes_up.tolist() == [8 * 4, 8 * 3, 8 * 1, 8 * 2]
    assert last.bytes_down.tolist() == [8 * 5, 8 * 3, 8 * 3, 8 * 3]
    seconds = 3 * 21.1 / 12 + 3 * 21.1 / 7
    assert last.air_time.tolist() == pytest.approx([9 * 0.0211, seconds, 4 * 0.0211, 5 * 0.0211])


def test_each_method_has_its_own_distances_and_its_own_waste() -> None:
    (near, mohawk), (fixed, hierfavg) = accounts("mohawk"), accounts("hierfavg")
    # Devices 0 and 1 belong to station 0: 50 m five times, 800 m four times. Devices 2 and 3 belong to station 1.
    far = [math.hypot(970, 40), math.hypot(970, 40), 60.0, 60.0, 60.0, math.hypot(970, 40), 60.0]
    assert fixed.mean == pytest.approx(np.mean([50] * 5 + [800] * 4 + far))
    assert fixed.mean > near.mean
    assert hierfavg[6].energy_wasted.sum() > mohawk[6].energy_wasted.sum()


# --- whole runs ---------------------------------------------------------------------------------------------------

PRICED = {"kind": "lte_wifi", "training_energy": 0.25, "training_factors": (1.0, 3.0)}


def test_decentralized_learning_is_charged_by_contact(tmp_path: Path) -> None:
    found = run(tiny(radio=PRICED, evaluate_every=1, rounds=6), tmp_path / "run")
    clients, size = found.clients, found.world["bytes_per_model"]
    met = clients.pivot(index="round", columns="client", values="degree").loc[1:]
    degrees = met.cumsum().to_numpy()
    assert met.to_numpy().sum() > 0

    def column(name: str) -> np.ndarray:
        return clients.pivot(index="round", columns="client", values=name).loc[1:].to_numpy()

    np.testing.assert_array_equal(column("bytes_up"), size * degrees)
    np.testing.assert_array_equal(column("bytes_down"), size * degrees)
    megabits, trained = 8e-6 * size, 0.25 * 16 * np.array([1, 3, 1, 3, 1])  # two steps of eight samples
    each = (283.17 * 250 + 132.86 + 137.01 * 250 + 132.86) * megabits / 250 / 1000
    steps = np.arange(1, 7)[:, None]
    np.testing.assert_allclose(column("energy"), each * degrees + trained * steps, rtol=1e-12)
    np.testing.assert_allclose(column("energy_training"), trained * steps, rtol=1e-12)
    np.testing.assert_allclose(column("air_time"), 2 * megabits / 250 * degrees, rtol=1e-12)
    assert not column("energy_wasted").any()
    # Pending is the training since the last contact.
    alone = np.zeros(5)
    for t, row in enumerate(met.to_numpy()):
        alone = np.where(row > 0, 0, alone + 1)
        np.testing.assert_allclose(column("energy_pending")[t], alone * trained, rtol=1e-12, atol=1e-12)
    assert alone.any()
    rounds = found.rounds
    assert (rounds["bytes_up"] == rounds["bytes"]).all()
    for name in COLUMNS:
        totals = clients.groupby("round")[name].sum().to_numpy()
        np.testing.assert_allclose(rounds[name].to_numpy(), totals, rtol=1e-12)
    assert (rounds.loc[0, list(COLUMNS)] == 0).all()


def test_server_based_learning_is_charged_half_way_over_lte() -> None:
    experiment = tiny(
        federation="fedavg",
        activity={"kind": "rate", "rate": 0.6},
        training={"kind": "sgd", "lr": 0.1, "batch_size": 8, "steps": 2},
    )
    found = play(experiment)
    last, size = found.rounds.iloc[-1], 4 * (64 * 10 + 10)
    exchanges = found.rounds["active"].sum()
    assert exchanges == 4 * 3
    one = 8e-9 * size * ((438.39 * 12 + 1288.04) / 12 + (51.97 * 24 + 1288.04) / 24)
    assert last["energy"] == pytest.approx(exchanges * one, rel=1e-12)
    assert (last["bytes_up"], last["bytes_down"]) == (exchanges * size, exchanges * size)
    assert (last["energy_wasted"], last["energy_pending"], last["energy_training"]) == (0, 0, 0)


HIERARCHICAL: dict[str, Any] = {
    "clients": 8,
    "rounds": 7,
    "evaluate_every": 1,
    "activity": {"kind": "rate", "rate": 0.5},
    "radio": {"kind": "lte_wifi", "wifi_range": 0.6, "training_energy": 0.01},
    "training": {"kind": "sgd", "lr": 0.1, "batch_size": 8, "epochs": 1},
}


@pytest.mark.parametrize("kind", ["mohawk", "hierfavg", "macfl"])
def test_the_distances_found_beforehand_are_those_of_the_run(kind: str) -> None:
    experiment = tiny(federation={"kind": kind, "k2": 3}, **HIERARCHICAL)
    found, scene = play(experiment), prepare(experiment)
    scene.learner.close()
    spread = scene.tariff.distances
    assert describe(scene)["distance_mean"] == spread.mean
    assert spread.mean == pytest.approx(found.rounds["ap_distance"].iloc[-1], rel=1e-12)
    if kind == "mohawk":
        here = found.positions[found.positions["present"]][["x", "y"]].to_numpy()
        gaps = np.linalg.norm(here[:, None] - scene.context.access_points, axis=2).min(axis=1)
        assert (spread.mean, spread.std) == (pytest.approx(gaps.mean()), pytest.approx(gaps.std()))
    last = found.rounds.iloc[-1]
    assert last["energy_wasted"] > 0
    assert last["energy_wasted"] + last["energy_pending"] < last["energy"]
    assert (
        last["bytes_up"] + last["bytes_down"] < last["bytes"]
    )  # the rest goes between access points and cloud
    rising = found.rounds[[name for name in COLUMNS if name != "energy_pending"]].diff().iloc[1:]
    assert (rising >= 0).all().all()


def test_movement_beforehand_is_that_of_the_run() -> None:
    experiment = tiny(federation="mohawk", **HIERARCHICAL)
    scene = prepare(experiment)
    try:
        paths, state = list(movement(experiment, scene.world)), begin(scene)
        assert len(paths) == experiment.rounds + 1
        for t, way in enumerate(paths):
            if t:
                state, _ = play_round(scene, state)
            np.testing.assert_array_equal(way.end, state.meeting.paths.end)
            np.testing.assert_array_equal(way.present, state.meeting.paths.present)
    finally:
        scene.learner.close()


def test_a_resumed_run_has_the_same_account() -> None:
    experiment = tiny(federation={"kind": "mohawk", "k2": 5}, **HIERARCHICAL)
    whole = play(experiment)
    pending = whole.clients[whole.clients["round"] == 3]["energy_pending"]
    assert pending.any()
    assert not pending.all()
    rest = play(experiment, start=(3, whole.states[3]))
    late = {name: table[table["round"] > 3].reset_index(drop=True) for name, table in whole.tables().items()}
    same_tables(rest.tables(), late)
    assert rest.states == whole.states[4:]


def test_a_checkpoint_without_an_account_is_refused() -> None:
    scene = prepare(tiny())
    try:
        arrays = begin(scene).arrays()
        del arrays["account.energy"]
        with pytest.raises(InputError, match="energy"):
            type(begin(scene)).of(0, arrays, scene)
        assert thawed(scene, 0, frozen(begin(scene))).account.energy.tolist() == [0.0] * 5
    finally:
        scene.learner.close()


def test_a_federation_that_does_not_tell_its_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedroam.scene.link_distances", lambda *_: DistanceDistribution())
    experiment = tiny(federation="mohawk", **HIERARCHICAL)
    with pytest.raises(InputError, match=r"radio\.distance_mean: needed"):
        play(experiment)
    known = {**HIERARCHICAL["radio"], "distance_mean": 1.0, "distance_std": 0.5}
    found = play(experiment.replace(radio=known))
    assert found.rounds["energy"].iloc[-1] > 0


@pytest.mark.parametrize(
    ("own", "models"),
    [
        # 4 down, 4 up; then station 0, alone with news, over station 1 to the cloud; back over all three links.
        ({}, [4 + 4 + 2 + 3, 2 * (4 + 4 + 2 + 3)]),
        # Stations 0 and 2 send over station 1.
        ({"cloud": "all"}, [4 + 4 + 5 + 3, 2 * (4 + 4 + 5 + 3)]),
        ({"hop_reach": None}, [4 + 4 + 1 + 3, 2 * (4 + 4 + 1 + 3)]),
        ({"k2": 2}, [4 + 4, 2 * (4 + 4) + 2 + 3]),
    ],
)
def test_a_hierarchy_s_bytes_by_hand(own: dict[str, Any], models: list[int], tmp_path: Path) -> None:
    """Four devices beside the first of three stations in a row, of which the middle one reaches the cloud."""
    (tmp_path / "stations.csv").write_text("x,y\n0,0\n100,0\n200,0\n")
    found = run(
        tiny(
            clients=4,
            rounds=2,
            evaluate_every=1,
            mobility={"kind": "static", "grid": 2},
            access_points={"kind": "file", "path": str(tmp_path / "stations.csv")},
            federation={"kind": "mohawk", "k2": 1, "hop_reach": 100.0, **own},
        ),
        tmp_path / "run",
    )
    size = found.world["bytes_per_model"]
    assert found.rounds["bytes"].tolist() == [0, *(count * size for count in models)]
    for column in ("bytes_up", "bytes_down"):  # nobody is charged for what is between stations and the cloud
        assert found.rounds[column].tolist() == [0, 4 * size, 8 * size]
