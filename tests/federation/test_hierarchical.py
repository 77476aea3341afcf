"""Hierarchical federations: a day worked out by hand, a slow version as oracle, and each switch by itself."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedroam.analysis import compare_runs
from fedroam.components import build
from fedroam.cost import Account, DistanceDistribution, SamplePasses, Tariff
from fedroam.errors import InputError
from fedroam.federation import SERVER, Round, Traffic
from fedroam.federation.attention import AveragingWeights
from fedroam.federation.hierarchy_state import COUNTED
from fedroam.federation.selection import assigned, chosen_few, scores, turned, walked
from fedroam.mobility import World
from fedroam.randomness import stream
from fedroam.runner import run as run_experiment
from fedroam.scene import prepare
from fedroam.simulation import begin
from fedroam.traces import import_trace, write_trace
from house.test_contract import repeats_and_resumes
from support.hierarchies import PlayedRound, context_of, meeting_of, play
from support.tiny import play as run_tiny
from support.tiny import tiny

# --- a day by hand ------------------------------------------------------------------------------------------------
# Two access points, 1 km apart; four devices, six hours (steps 0 to 6 of the clock), k2 = 3; cosine weights with
# sigma = ln 2, so that a model along the one it replaces (cosine 1) weighs half as much as one across it (cosine 0).

STATIONS = np.array([[0.0, 0.0], [1000.0, 0.0]])
AWAY = None
NEAR_0, NEAR_1, FAR_1 = (30.0, 40.0), (1000.0, 60.0), (800.0, 0.0)  # 50 m, 60 m, 200 m from theirs
DAY: list[list[Any]] = [  # who is where at each step: devices 0 to 3
    [NEAR_0, FAR_1, AWAY, NEAR_1],
    [NEAR_0, AWAY, NEAR_0, NEAR_1],  # device 1 is gone ...
    [NEAR_0, FAR_1, NEAR_0, AWAY],  # ... and back before the global aggregation at step 3
    [NEAR_0, FAR_1, AWAY, AWAY],  # devices 2 and 3 are gone ...
    [NEAR_0, AWAY, NEAR_1, NEAR_0],  # ... and back after it
    [AWAY, AWAY, AWAY, AWAY],
    [AWAY, FAR_1, AWAY, NEAR_1],
]
START = (1.0, 0.0)
LEARNT = {  # what each device makes of the model it downloads, by device and round
    (0, 1): (2, 0), (1, 1): (0, 2), (3, 1): (0, 4),
    (0, 2): (4, 0), (2, 2): (0, 6), (3, 2): (0, 8),
    (0, 3): (6, 0), (1, 3): (0, 10), (2, 3): (0, 12),
    (0, 4): (10, -3), (1, 4): (0, 0),
    (0, 5): (1, 1), (2, 5): (1, 1), (3, 5): (12, 40),
}  # fmt: skip


def day(kind: str = "mohawk", rounds: int = 6, **own: Any) -> list[PlayedRound]:
    steps = DAY[: rounds + 1]
    places = np.array([[at or (np.nan, np.nan) for at in step] for step in steps])
    present = np.array([[at is not None for at in step] for step in steps])
    part = {"kind": kind, "k2": 3, "sigma": math.log(2), **own}
    return play(part, STATIONS, [10, 20, 30, 40], places, present, START, LEARNT)


def test_a_day_by_hand() -> None:
    rounds = day()
    assert [r.trained for r in rounds] == [[0, 1, 3], [0, 2, 3], [0, 1, 2], [0, 1], [0, 2, 3], []]
    # Device 1 counts in round 2 with what it learnt in round 1; what 2 and 3 learnt in rounds 3 and 2 comes too late.
    assert [r.aggregated for r in rounds] == [[0, 3], [0, 1, 2], [0, 1], [0], [], [1, 3]]
    assert [r.discarded for r in rounds] == [[], [], [2, 3], [], [], [0, 2]]

    stations = [r.stations for r in rounds]
    third, cloud = 1 / 3, np.array([2.0, 20 / 3])
    close(stations[0], [(2, 0), (0, 4)])  # one update each: weight 1
    # Station 0 held (2, 0): device 0 along it 1/3, device 2 across it 2/3. Station 1 takes the returned (0, 2).
    close(stations[1], [(4 * third, 6 * 2 * third), (0, 2)])
    # The stations (6, 0) along the cloud's (1, 0), weight 1/3, and (0, 10) across it, weight 2/3.
    close(stations[2], [cloud, cloud])
    close(stations[3], [(10, -3), cloud])
    close(stations[4], [(10, -3), cloud])  # nobody is there: all stays
    # At station 1, device 1 has the zero model (cosine 0, weight 2/3), device 3 (12, 40) along the cloud's: (4, 40/3).
    # At the cloud, station 0 across it (2/3) and station 1 along it (1/3).
    close(rounds[5].cloud, [2 * third * 10 + third * 4, 2 * third * -3 + third * 40 / 3])
    close(stations[5], [rounds[5].cloud] * 2)
    for r, cloud_then in zip(rounds, [START, START, cloud, cloud, cloud], strict=False):
        close(r.cloud, cloud_then)


def test_the_day_s_traffic() -> None:
    rounds, size = day(), 8
    down = [listed(r.given.traffic) for r in rounds]
    assert down[0] == [(-2, 0, size, 50), (-3, 1, size, 200), (-3, 3, size, 60)]
    assert down[4] == [(-2, 0, size, 50), (-3, 2, size, 60), (-2, 3, size, 50)]
    assert down[5] == []
    up = [listed(r.done.traffic) for r in rounds]
    assert up[0] == [(0, -2, size, 50), (3, -3, size, 60)]
    assert up[1] == [(0, -2, size, 50), (1, -3, size, 200), (2, -2, size, 50)]
    cloud = [(-2, SERVER, size, None), (-3, SERVER, size, None)]
    back = [(SERVER, -2, size, None), (SERVER, -3, size, None)]
    assert up[2] == [(0, -2, size, 50), (1, -3, size, 200), *cloud, *back]
    assert up[4] == []
    assert up[5] == [(1, -3, size, 200), (3, -3, size, 60), *cloud, *back]


def test_the_day_s_totals() -> None:
    facts = [dict(r.done.facts) for r in day()]
    last = facts[-1]
    assert last["total_present"] == 3 + 3 + 3 + 2 + 3 + 0 + 2
    assert last["total_trained"] == 3 + 3 + 3 + 2 + 3
    assert last["total_aggregated"] == 2 + 3 + 2 + 1 + 0 + 2
    assert last["total_returned"] == 3, "device 1 in round 2, and devices 1 and 3 in round 6"
    assert last["total_discarded"] == 4
    # Device 3's first update was at station 1 when device 1 came with a model that had been trained without it.
    assert [f["total_overwritten"] for f in facts] == [0, 0, 1, 1, 1, 1]
    assert [f["waiting"] for f in facts] == [1, 1, 0, 1, 4, 0]
    assert facts[0]["ap_distance"] == pytest.approx((50 + 200 + 60 + 50 + 50 + 60) / 6)


# Of a transfer of 20 megabits, joules: Wi-Fi at 1000 Mbps; LTE half way, 12 Mbps up and 24 down.
WIFI_UP, WIFI_DOWN = (283.17 * 1000 + 132.86) / 1000 * 0.02, (137.01 * 1000 + 132.86) / 1000 * 0.02
LTE_UP, LTE_DOWN = (438.39 * 12 + 1288.04) / 1000 * 20 / 12, (51.97 * 24 + 1288.04) / 1000 * 20 / 24
TRAINING = np.array([0.1, 0.2, 0.3, 0.4])  # 10 mJ a sample


def account_of(rounds: list[PlayedRound]) -> Account:
    """What the day costs: models of 8 bytes, charged as 20 megabits; device 1 at the mean distance of 200 m."""
    radio: Any = build("radio", {"kind": "lte_wifi", "overhead": 20e6 / 64, "training_energy": 0.01})
    tariff = Tariff(radio, DistanceDistribution(200.0, 100.0), SamplePasses(build("training", "sgd")))  # type: ignore[arg-type]
    account = Account.new(4)
    for happened in rounds:
        given, done = happened.given, happened.done
        traffic = Traffic.joined([given.traffic, done.traffic])
        account = tariff.charge(account, given.jobs, traffic, done.aggregated, done.discarded)
    return account


def test_the_day_s_joules() -> None:
    prices = [WIFI_UP, WIFI_DOWN, LTE_UP, LTE_DOWN]
    assert prices == pytest.approx([5.6660572, 2.7428572, 10.914533333, 2.112766667], rel=1e-9)
    account = account_of(day())
    # Device 0 downloads 5 times and uploads 4 times, by Wi-Fi; device 1 three times each, by LTE; 2 and 3 download
    # three times, 2 uploads once, 3 twice.
    consumed = [
        5 * WIFI_DOWN + 4 * WIFI_UP,
        3 * LTE_DOWN + 3 * LTE_UP,
        3 * WIFI_DOWN + 1 * WIFI_UP,
        3 * WIFI_DOWN + 2 * WIFI_UP,
    ] + np.array([5, 3, 3, 3]) * TRAINING
    np.testing.assert_allclose(account.energy, consumed, rtol=1e-9)
    # Lost: what 0 learnt in round 5, 2 in rounds 3 and 5, and 3 in round 2; none of it was uploaded.
    np.testing.assert_allclose(
        account.energy_wasted, np.array([1, 0, 2, 1]) * (WIFI_DOWN + TRAINING), rtol=1e-9
    )
    assert account.energy_pending.tolist() == [0, 0, 0, 0]
    assert account.bytes_up.tolist() == [4 * 8, 3 * 8, 1 * 8, 2 * 8]
    assert account.bytes_down.tolist() == [5 * 8, 3 * 8, 3 * 8, 3 * 8]


def test_without_carry_over_the_day_wastes_more() -> None:
    account = account_of(day(carry_over=False))
    down = np.array([WIFI_DOWN, LTE_DOWN, WIFI_DOWN, WIFI_DOWN])
    np.testing.assert_allclose(account.energy_wasted, np.array([1, 2, 2, 2]) * (down + TRAINING), rtol=1e-9)
    up = np.array([4 * WIFI_UP, LTE_UP, WIFI_UP, WIFI_UP])
    np.testing.assert_allclose(account.energy, np.array([5, 3, 3, 3]) * (down + TRAINING) + up, rtol=1e-9)


def test_rows_exist_for_the_cloud_for_stations_with_news_and_for_updates_that_wait() -> None:
    rounds = day()
    assert [len(r.given.models) for r in rounds] == [1 + 3, 4 + 3, 4 + 3, 1 + 2, 3 + 3, 6 + 0]
    assert [r.rows for r in rounds] == [1 + 2 + 1, 1 + 2 + 1, 1, 1 + 1 + 1, 1 + 1 + 4, 1]


def test_without_carry_over_only_those_there_at_once_count() -> None:
    rounds = day(carry_over=False)
    assert [r.aggregated for r in rounds] == [[0, 3], [0, 2], [0, 1], [0], [], []]
    assert [r.discarded for r in rounds] == [[1], [3], [2], [1], [0, 2, 3], []]


def test_the_day_under_hierfavg() -> None:
    """Devices 0 and 1 belong to station 0, devices 2 and 3 to station 1; averages by samples 10, 20, 30, 40."""
    rounds = day("hierfavg")
    assert [r.aggregated for r in rounds] == [[0, 3], [0, 2], [0, 1], [0], [], []]
    close(rounds[1].stations, [(4, 0), (0, 6)])
    # Station 0: (10 (6, 0) + 20 (0, 10)) / 30, assigned 30 samples; station 1 still (0, 6), assigned 70.
    close(rounds[2].cloud, [0.3 * 2, 0.3 * 20 / 3 + 0.7 * 6])
    # Round 6: station 0 has (10, -3), station 1 nothing new: the cloud's model counts with its 70 samples.
    close(rounds[5].cloud, 0.3 * np.array([10, -3]) + 0.7 * rounds[2].cloud)
    assert [r[:2] for r in listed(rounds[5].done.traffic)] == [(-2, -1), (-3, -1), (-1, -2), (-1, -3)]
    distances = {(s, e): d for s, e, _, d in listed(rounds[0].given.traffic)}
    assert distances[-2, 1] == 800, "device 1 is 800 m from the station it is fixed to"


def listed(traffic: Traffic) -> list[tuple[int, int, int, float | None]]:
    columns = (traffic.sender, traffic.receiver, traffic.bytes, traffic.distance)
    return [
        (s, r, b, None if np.isnan(d) else d)
        for s, r, b, d in zip(*map(np.ndarray.tolist, columns), strict=True)
    ]


def close(found: np.ndarray, wanted: Any) -> None:
    np.testing.assert_allclose(found, np.array(wanted, dtype=np.float64), rtol=1e-6, atol=1e-6)


# --- Algorithm 1, slowly ------------------------------------------------------------------------------------------


def slow(
    part: Any, stations: np.ndarray, samples: np.ndarray, places: Any, present: Any, learn: Any, seed: int
) -> Any:
    """The rules as loops over devices and stations, each with a model of its own and the updates that are in it."""
    clients, width = len(samples), 3
    w, nothing = np.ones(width, np.float32), frozenset[tuple[int, int]]()
    at = [(w, nothing)] * len(stations)
    trained: dict[int, tuple[int, np.ndarray, frozenset[tuple[int, int]]]] = {}
    arrived: dict[int, list[tuple[int, int]]] = {}  # by station: device and round of what it aggregated
    nearest = part.access == "nearest"
    ap = np.full(clients, -1) if nearest else assigned(clients, len(stations), part.assignment, seed)
    log, count = [], dict.fromkeys(COUNTED, 0)

    def choose(step: int) -> None:
        for i in range(clients):
            if nearest and present[step][i]:
                ap[i] = np.argmin(np.hypot(*(stations - places[step][i]).T))
        count["present"] += sum(present[step])

    def cosine(a: np.ndarray, b: np.ndarray) -> Any:
        if (
            part.cosine == "per_slice"
        ):  # the only tensor is [1, width]: each slice along dimension 0 is one number
            return np.sign(a * b)
        power = 2 if part.cosine == "squared_norms" else 1
        return a @ b / (np.linalg.norm(a) * np.linalg.norm(b)) ** power

    def weigh(reference: np.ndarray, models: list[np.ndarray], held: list[int]) -> np.ndarray:
        if part.weights == "cosine":
            cos = np.array([cosine(a, reference) for a in models])
            raw = np.exp((1 if part.favour == "similar" else -1) * part.sigma * cos)
        else:
            raw = np.array(held if part.weights == "samples" else np.ones(len(models)), dtype=np.float64)
        return raw / raw.sum(axis=0) if raw.any() else np.full(len(raw), 1 / len(raw))

    def mean(models: list[np.ndarray], weights: np.ndarray) -> np.ndarray:
        return sum(a * b for a, b in zip(models, weights, strict=True)).astype(np.float32)

    choose(0)
    for t in range(1, len(places)):
        for i in range(clients):
            if present[t - 1][i] and samples[i] and i not in trained:
                model, within = at[ap[i]]
                trained[i] = (t, np.asarray(learn(i, t, model), np.float32), within | {(i, t)})
                count["trained"] += 1
        if part.access == "ring":
            ap = walked(ap, len(stations), part.move, seed, t)
        choose(t)
        done = []
        for a in range(len(stations)):
            here = [i for i in sorted(trained) if present[t][i] and ap[i] == a]
            if here:
                models = [trained[i][1] for i in here]
                weights = weigh(at[a][0], models, [int(samples[i]) for i in here])
                at[a] = (
                    mean(models, weights),
                    frozenset[tuple[int, int]]().union(*(trained[i][2] for i in here)),
                )
                arrived.setdefault(a, []).extend((i, trained[i][0]) for i in here)
                count["returned"] += sum(trained[i][0] < t for i in here)
                done += here
                for i in here:
                    del trained[i]
        lost = [] if part.carry_over else sorted(trained)
        if t % part.k2 == 0:
            lost = sorted(trained)
            who = list(range(len(stations))) if part.cloud == "all" else sorted(arrived)
            if arrived:
                own = [[i for i in range(clients) if ap[i] == a] for a in who]
                if part.cloud_samples == "arrived":
                    own = [[i for i, _ in arrived.get(a, [])] for a in who]
                held = [sum(int(samples[i]) for i in some) for some in own]
                w = mean([at[a][0] for a in who], weigh(w, [at[a][0] for a in who], held))
                reached = nothing.union(*(at[a][1] for a in who))
                count["overwritten"] += len({one for some in arrived.values() for one in some} - reached)
            at, arrived = [(w, nothing)] * len(stations), {}
        for i in lost:
            del trained[i]
        count["aggregated"] += len(done)
        count["discarded"] += len(lost)
        log.append((sorted(done), lost, w, np.array([model for model, _ in at]), dict(count)))
    return log


@settings(max_examples=80)
@given(
    st.sampled_from(["nearest", "fixed", "ring"]),
    st.booleans(),
    st.sampled_from(["selective", "all"]),
    st.sampled_from(["uniform", "assigned", "arrived", "flat", "squared_norms", "per_slice"]),
    st.sampled_from(["different", "similar"]),
    st.integers(1, 4),
    st.integers(0, 10_000),
)
def test_every_combination_of_switches_agrees_with_the_slow_version(
    access: Any, carry_over: bool, cloud: Any, weights: str, favour: Any, k2: int, seed: int
) -> None:
    draws = stream(seed, "test world")
    clients, n, steps = 7, int(draws.integers(1, 5)), 9
    own: dict[str, Any] = {"access": access, "carry_over": carry_over, "cloud": cloud, "favour": favour}
    if weights in ("assigned", "arrived"):
        own |= {"weights": "samples", "cloud_samples": weights}
    else:
        own |= {"weights": weights} if weights == "uniform" else {"weights": "cosine", "cosine": weights}
    part: Any = build("federation", {"kind": "hierarchical", "k2": k2, "sigma": 0.7, **own})
    stations, places = draws.random((n, 2)), draws.random((steps, clients, 2))
    present = draws.random((steps, clients)) < draws.choice([0.2, 0.5, 0.9])
    samples = draws.integers(0, 4, clients) * 10

    def learn(client: int, round: int, model: np.ndarray) -> np.ndarray:
        return 0.8 * model + stream(seed, "test learning", round, client).standard_normal(3)

    rounds = play(part, stations, samples.tolist(), places, present, [1.0, 1.0, 1.0], learn, seed)
    for found, (done, lost, w, at, count) in zip(
        rounds, slow(part, stations, samples, places, present, learn, seed), strict=True
    ):
        assert found.aggregated == done
        assert found.discarded == lost
        np.testing.assert_allclose(found.cloud, w, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(found.stations, at, rtol=1e-5, atol=1e-5)
        state = found.done.state
        own_rows = state["ap_row"][state["ap_row"] > 0].tolist()
        waiting = state["device_row"][state["device_row"] > 0].tolist()
        assert sorted([0, *own_rows, *waiting]) == list(range(found.rows)), (
            "a row that nobody needs, or that two share"
        )
        assert {name: found.done.facts[f"total_{name}"] for name in COUNTED} == count
        assert found.done.facts["waiting"] == len(waiting)
        assert count["trained"] == count["aggregated"] + count["discarded"] + len(waiting)


# --- single switches and pieces --------------------------------------------------------------------------------------


def test_it_says_that_it_needs_access_points_before_anything_is_written() -> None:
    told = {
        "kind": "lte_wifi",
        "distance_mean": 1.0,
        "distance_std": 1.0,
    }  # no pass over the movement is needed
    for radio in ("lte_wifi", told):
        with pytest.raises(
            InputError, match=r"^federation 'macfl' needs access points: set access_points.kind"
        ):
            prepare(tiny(federation="macfl", access_points="none", radio=radio))


def test_the_named_methods_are_settings_of_one_federation() -> None:
    fields = ("access", "carry_over", "cloud", "weights")

    def switches(kind: str) -> tuple[Any, ...]:
        part = build("federation", kind)
        return tuple(getattr(part, name) for name in fields)

    assert switches("mohawk") == switches("hierarchical") == ("nearest", True, "selective", "cosine")
    assert switches("hierfavg") == ("fixed", False, "all", "samples")
    assert switches("macfl") == ("ring", False, "all", "cosine")
    default = build("federation", "hierarchical").settings()
    for kind in ("hierfavg", "macfl", "mohawk"):
        other = build("federation", kind).settings()
        assert {k for k in default if other[k] != default[k]} <= {*fields, "kind"}


def test_fixed_access_points_get_equal_shares() -> None:
    assert assigned(10, 4, "rank", 1).tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 3, 3]
    assert assigned(3, 9, "rank", 1).tolist() == [0, 3, 6]
    mixed = assigned(1000, 100, "random", 1)
    assert (np.bincount(mixed) == 10).all()
    assert (np.diff(mixed) < 0).any()
    assert (assigned(1000, 100, "random", 2) != mixed).any()


def test_the_walk_on_the_ring() -> None:
    ap, n = np.repeat([0, 4], 10_000), 5
    went = walked(ap, n, 0.5, 1, 7)
    for begin_at, left, right in ((0, 4, 1), (4, 3, 0)):
        found = np.bincount(went[ap == begin_at], minlength=n) / 10_000
        assert found[[left, begin_at, right]] == pytest.approx([0.25, 0.5, 0.25], abs=0.015)
    assert (walked(ap, n, 0.0, 1, 7) == ap).all()
    assert (walked(ap, n, 1.0, 1, 7) != ap).all()
    assert (walked(ap, n, 0.5, 1, 8) != went).any()
    assert (walked(ap[:5], n, 0.5, 1, 7) == went[:5]).all(), "whoever else walks"


def test_ties_do_not_depend_on_who_else_is_there() -> None:
    stations, places = np.array([[0.0, 1.0], [0.0, -1.0]]), np.zeros((50, 2))
    nowhere = np.full(50, -1)
    everybody = turned(nowhere, np.ones(50, bool), places, stations, "random", 1, 4)
    half = np.arange(50) % 2 == 0
    some = turned(nowhere, half, places, stations, "random", 1, 4)
    assert (some[half] == everybody[half]).all()
    assert (some[~half] == -1).all()
    assert set(everybody) == {0, 1}
    assert (turned(nowhere, half, places, stations, "lowest", 1, 4)[half] == 0).all()


def test_the_score_by_hand() -> None:
    distance, samples, age = np.array([0.0, 50.0, 100.0]), np.array([10, 0, 40]), np.array([1, 4, 2])
    found = scores(distance, samples, age, (1.0, 2.0, 4.0))
    assert found.tolist() == [1 + 2 * 0.25 + 4 * 0.25, 0.5 + 0 + 4, 0 + 2 + 4 * 0.5]
    assert scores(np.zeros(2), np.zeros(2), np.zeros(2), (1.0, 2.0, 4.0)).tolist() == [1, 1]


def test_each_access_point_takes_those_with_the_highest_score() -> None:
    ap = np.array([0, 0, 0, 1, 1, 2])
    age, draws = np.array([3, 9, 5, 2, 2, 1]), np.array([0.1, 0.2, 0.3, 0.9, 0.4, 0.5])
    zeros = np.zeros(6)
    taken = chosen_few(ap, zeros, zeros, age, (0.0, 0.0, 1.0), 1, draws)
    assert np.flatnonzero(taken).tolist() == [1, 4, 5], (
        "the stalest; of equals by the draw; all where few are there"
    )
    taken = chosen_few(ap, zeros, zeros, age, (0.0, 0.0, 1.0), 2, draws)
    assert np.flatnonzero(taken).tolist() == [1, 2, 3, 4, 5]


def test_a_limit_takes_turns_by_staleness() -> None:
    places, present = np.zeros((7, 3, 2)), np.ones((7, 3), dtype=bool)
    own = {"kind": "mohawk", "at_most": 1, "by_staleness": 1.0}
    rounds = play(own, STATIONS[:1], [1, 1, 1], places, present, START, lambda i, t, model: model)
    turns = [r.trained for r in rounds]
    assert all(len(turn) == 1 for turn in turns)
    assert sorted(turn[0] for turn in turns[:3]) == sorted(turn[0] for turn in turns[3:]) == [0, 1, 2]
    nearest = {"kind": "mohawk", "at_most": 2, "by_distance": 1.0, "by_staleness": 0.0}
    places = np.tile([[5.0, 0.0], [1.0, 0.0], [3.0, 0.0]], (3, 1, 1))
    rounds = play(nearest, STATIONS[:1], [1, 1, 1], places, present[:3], START, lambda i, t, model: model)
    assert [r.trained for r in rounds] == [[1, 2], [1, 2]]


def test_devices_are_judged_by_the_cloud_s_model_or_by_their_access_point_s() -> None:
    rounds = day(rounds=2)
    models, state = rounds[1].done.models, rounds[1].done.state
    part: Any = build("federation", "mohawk")
    context: Any = type("", (), {"clients": 4})()
    judged = part.evaluation_models(models, state, context)["global"]
    assert judged.row.tolist() == [0, 0, 0, 0]
    close(judged.models.parameters.numpy(), [START])
    close(judged.mean.parameters.numpy(), [START])
    judged = part.model_copy(update={"judge": "access_point"}).evaluation_models(models, state, context)[
        "access_point"
    ]
    station_0, station_1 = rounds[1].stations
    close(judged.models.parameters.numpy()[judged.row], [station_0, station_1, station_0, station_1])
    close(judged.mean.parameters.numpy(), [START])


def test_access_points_over_several_hops_pay_for_each() -> None:
    stations = np.array([[0.0, 0.0], [100.0, 0.0], [190.0, 0.0]])  # the middle one is the gateway
    part = {"kind": "mohawk", "k2": 1, "hop_reach": 100.0}
    places, present = np.tile([[0.0, 0.0], [190.0, 1.0]], (2, 1, 1)), np.ones((2, 2), dtype=bool)
    (only,) = play(part, stations, [1, 1], places, present, START, lambda i, t, model: model)
    assert listed(only.done.traffic)[2:] == [
        *((-2, -3, 8, 100), (-4, -3, 8, 90)),
        *((-3, SERVER, 8, None), (-3, SERVER, 8, None)),
        *((-3, -2, 8, 100), (SERVER, -3, 8, None), (-3, -4, 8, 90)),
    ]


def test_momentum_starts_at_zero_with_each_download() -> None:
    scene = prepare(tiny(federation={"kind": "mohawk", "k2": 2}))
    state = begin(scene)
    part, learner = scene.parts.federation, scene.learner
    assert state.models.momentum is not None
    first = Round(1, state.models, state.federation, scene.context, state.meeting, learner)
    given = part.distribute(first)
    assert given.models.momentum is not None
    learner.train(given.models, given.jobs)
    assert bool(given.models.momentum.any())
    done = part.exchange(replace(first, models=given.models, state=given.state), state.meeting)
    again = part.distribute(replace(first, number=2, models=done.models, state=done.state))
    assert again.models.momentum is not None
    assert not again.models.momentum[[job.row for job in again.jobs]].any()
    learner.close()


@pytest.mark.parametrize("kind", ["mohawk", "hierfavg", "macfl"])
def test_distances_are_told_beforehand(kind: str) -> None:
    """What `link_distances` says before the run are the distances of the run."""
    draws = stream(2, "test world")
    stations, places, present = draws.random((4, 2)), draws.random((9, 6, 2)), draws.random((9, 6)) < 0.6
    part: Any = build("federation", {"kind": kind, "k2": 3})
    rounds = play(part, stations, [1] * 6, places, present, START, lambda i, t, model: model)
    seed, paths = (
        context_of(stations, [1] * 6).seed,
        [meeting_of(*step).paths for step in zip(places, present, strict=True)],
    )
    told = list(part.link_distances(seed, 6, stations, paths))
    assert [len(one) for one in told] == present.sum(axis=1).tolist()
    for t, happened in enumerate(rounds):
        traffic, here = happened.given.traffic, np.flatnonzero(present[t]).tolist()
        assert {r: d for _, r, _, d in listed(traffic)} == {
            i: told[t][here.index(i)] for i in traffic.receiver.tolist()
        }
        assert len(traffic.receiver)
    assert rounds[-1].done.facts["ap_distance"] == pytest.approx(np.concatenate(told).mean())


@pytest.mark.parametrize(
    "own",
    [
        {"kind": "mohawk", "cosine": "per_slice", "judge": "access_point", "sigma": 2.0},
        {"kind": "hierfavg", "carry_over": True, "cloud": "selective", "cloud_samples": "arrived"},
        {"kind": "macfl", "at_most": 1, "by_data": 1.0, "hop_reach": 2.0, "cosine": "per_tensor"},
    ],
)
def test_a_whole_run_with_churn_repeats_and_resumes(own: dict[str, Any]) -> None:
    churn = {"kind": "on_off", "mean_on": 1.5, "mean_off": 1.5}
    repeats_and_resumes(tiny(clients=9, rounds=5, activity=churn, federation={"k2": 2, **own}))


@pytest.mark.parametrize("kind", ["mohawk", "hierfavg", "macfl"])
@pytest.mark.parametrize("engine", ["reference", "auto"])
def test_a_whole_run_goes_on_through_hours_with_nobody(kind: str, engine: str) -> None:
    rare = {"kind": "on_off", "mean_on": 1.5, "mean_off": 4.0}
    own = {"kind": kind, "k2": 2, "judge": "access_point"}
    found = run_tiny(
        tiny(clients=3, rounds=24, evaluate_every=1, activity=rare, engine=engine, federation=own)
    ).rounds.set_index("round")
    hourly = found[["total_present", "total_trained", "total_aggregated"]].fillna(0).diff().iloc[1:]
    empty = hourly.index[hourly["total_present"] == 0]
    assert len(empty[empty < hourly.index[hourly["total_aggregated"] > 0].max()]) > 1, (
        "somebody is always there"
    )
    assert not hourly.loc[empty, "total_aggregated"].any()
    assert not hourly.loc[empty[empty < 24] + 1, "total_trained"].any()
    assert (found["active"].iloc[1:] == hourly["total_trained"]).all()
    assert found["accuracy"].notna().all()
    still = empty[empty % 2 == 1]  # no global aggregation either: nobody's model changes
    assert (found.loc[still, "accuracy"].to_numpy() == found.loc[still - 1, "accuracy"].to_numpy()).all()


def test_weights_by_shares() -> None:
    assert AveragingWeights.by(np.array([1, 3])).buffers.tolist() == [0.25, 0.75]
    assert AveragingWeights.by(np.zeros(4)).parameters.tolist() == [[0.25]] * 4


# --- the stand-in month ---------------------------------------------------------------------------------------------


@pytest.mark.data
def test_the_stand_in_month_includes_as_many_devices_as_it_should(tmp_path: Path) -> None:
    """Without training: 1,000 devices, 100 access points, 744 hours of check-ins in New York with a dwell of 6 h."""
    source = Path(os.environ["FEDROAM_DATA"]) / "gowalla_nyc" / "checkins.csv.gz"
    if not source.is_file():
        pytest.skip("FEDROAM_DATA lacks gowalla_nyc")
    pytest.importorskip("pyproj")
    file = write_trace(import_trace(source), tmp_path / "ny.parquet")
    month = {"begin": "2010-09-17", "length": 31 * 86_400.0, "box": 17_500.0}
    stay = {"dwell": 6 * 3600.0, "report_share": 0.4}
    mobility: Any = build("mobility", {"kind": "trace", "file": str(file), **month, **stay})
    world = World(1, 1000, np.ones((1000, 1), np.int64), 0.0)
    states = [mobility.start(world)]
    for t in range(1, 744):
        states.append(mobility.step(states[-1], world, t)[0])
    places = np.array([state["position"] for state in states])
    present = np.array([state["present"] for state in states])
    stations: Any = build("access_points", "points_of_interest")
    found, lost = {}, {}
    for kind, k2 in (("hierfavg", 5), ("mohawk", 2), ("mohawk", 10)):
        part = {"kind": kind, "k2": k2, "weights": "uniform"}
        rounds = play(
            part, stations.places(mobility, 1), [1] * 1000, places, present, START, lambda i, t, m: m, 1
        )
        facts = rounds[-1].done.facts
        found[kind, k2] = facts["total_aggregated"] / 743
        lost[kind, k2] = facts["total_overwritten"] / facts["total_aggregated"]
        assert facts["ap_distance"] == pytest.approx(480 if kind == "mohawk" else 4500, rel=0.25)
    assert found["hierfavg", 5] == pytest.approx(15.1, abs=0.4)
    assert [found["mohawk", k2] for k2 in (2, 10)] == pytest.approx([18.6, 26.0], abs=0.6)
    assert [lost["hierfavg", 5], lost["mohawk", 2], lost["mohawk", 10]] == pytest.approx(
        [0, 0.027, 0.09], abs=0.006
    )


# --- divergence, and models that nobody has trained ---------------------------------------------------------------


def _hierarchy(**settings: Any) -> Any:
    return tiny(federation={"kind": "hierarchical", "k2": 50}, evaluate_every=1, **settings)


def test_training_that_explodes_is_divergence_though_the_clouds_model_is_untouched(tmp_path: Path) -> None:
    wild = {"kind": "sgd", "lr": 9e5, "batch_size": 8, "steps": 3}
    run = run_experiment(_hierarchy(training=wild), tmp_path / "wild")
    assert run.rounds["loss"].max() < 100 * math.log(10)
    assert run.status["diverged_at"] == 1
    assert run_experiment(_hierarchy(), tmp_path / "tame").status["diverged_at"] is None


def test_clients_without_a_batch_are_no_divergence(tmp_path: Path) -> None:
    idle = {"kind": "sgd", "lr": 0.1, "batch_size": 10_000, "drop_last": True, "epochs": 1}
    run = run_experiment(_hierarchy(training=idle), tmp_path)
    assert run.rounds["train_loss"].isna().all()
    assert run.status["diverged_at"] is None


def test_a_run_that_ends_before_the_first_global_aggregation_says_so(tmp_path: Path) -> None:
    early = run_experiment(_hierarchy(), tmp_path / "early")
    assert early.rounds["accuracy"].nunique() == 1
    [note] = compare_runs([early]).notes
    assert "changes every k2 = 50 rounds, and the run has 4" in note
    assert "untrained model" in note
    for k, federation in enumerate(
        ({"kind": "hierarchical", "k2": 4}, {"kind": "hierarchical", "k2": 50, "judge": "access_point"})
    ):
        done = run_experiment(tiny(federation=federation), tmp_path / str(k))
        assert not compare_runs([done]).notes


# --- out of range ---------------------------------------------------------------------------------------------------


def test_out_of_every_range_is_out_of_service() -> None:
    """Two access points with 10 m. Client 0 stays near the first. Client 1 trains there in round 1, is between the two
    at its end and in round 2, and comes to the second. Client 2 is out of range all the time, but present."""
    stations = np.array([[0.0, 0.0], [100.0, 0.0]])
    places = np.array(
        [
            [[1.0, 0.0], [2.0, 0.0], [50.0, 0.0]],
            [[1.0, 0.0], [50.0, 0.0], [50.0, 0.0]],
            [[1.0, 0.0], [97.0, 0.0], [50.0, 0.0]],
            [[1.0, 0.0], [97.0, 0.0], [111.0, 0.0]],
        ]
    )
    present = np.ones((4, 3), dtype=bool)
    part: Any = build("federation", {"kind": "hierarchical", "k2": 3, "weights": "uniform"})
    ranges = np.array([10.0, 10.0])

    def learnt(client: int, round: int, model: np.ndarray) -> np.ndarray:
        return model + 1.0 + client

    rounds = play(part, stations, [1] * 3, places, present, START, learnt, ranges=ranges)
    assert [each.trained for each in rounds] == [[0, 1], [0], [0, 1]]
    assert [each.aggregated for each in rounds] == [[0], [0, 1], [0, 1]]
    assert [each.done.facts["out_of_service"] for each in rounds] == [2, 1, 1]
    assert (
        rounds[1].done.facts["total_returned"] == 1
    )  # what client 1 learnt in round 1 comes by the second one
    assert rounds[2].done.facts["total_present"] == 2 + 1 + 2 + 2  # of those in service
    assert rounds[2].done.facts["ap_distance"] == pytest.approx((1 + 2 + 1 + 1 + 3 + 1 + 3) / 7)
    # transfers are over links that there are, and the distances of service alone are told beforehand
    for each in rounds:
        assert max(each.given.traffic.distance.max(), np.nanmax(each.done.traffic.distance)) <= 10
    paths = [meeting_of(*step).paths for step in zip(places, present, strict=True)]
    told = [one.tolist() for one in part.link_distances(3, 3, stations, paths, ranges)]
    assert told == [[1, 2], [1], [1, 3], [1, 3]]
    # with ranges that reach everybody, all is as without
    wide = play(part, stations, [1] * 3, places, present, START, learnt, ranges=np.full(2, 1e6))
    bare = play(part, stations, [1] * 3, places, present, START, learnt)
    for one, other in zip(wide, bare, strict=True):
        assert one.done.facts == other.done.facts
        assert (one.stations == other.stations).all()
    assert bare[-1].done.facts["out_of_service"] == 0


def test_who_belongs_to_one_access_point_is_not_served_by_another() -> None:
    stations = np.array([[0.0, 0.0], [100.0, 0.0]])
    places = np.array([[[1.0, 0.0], [1.0, 0.0]]] * 2)  # both near the first; client 1 belongs to the second
    part: Any = build("federation", {"kind": "hierfavg", "access": "fixed"})
    rounds = play(
        part,
        stations,
        [1, 1],
        places,
        np.ones((2, 2), bool),
        START,
        lambda i, t, m: m,
        ranges=np.full(2, 10.0),
    )
    assert rounds[0].trained == [0]
    assert rounds[0].done.facts["out_of_service"] == 1


def test_a_run_with_ranges_repeats_resumes_and_tells_them(tmp_path: Path) -> None:
    access = {"kind": "grid", "columns": 2, "rows": 2, "range": 0.8}
    experiment = tiny(clients=9, rounds=4, access_points=access, federation={"kind": "mohawk", "k2": 2})
    repeats_and_resumes(experiment)
    done = run_experiment(experiment, tmp_path / "run")
    assert done.world["access_point_ranges"] == [0.8] * 4
    places, stations = done.positions, np.array(done.world["access_points"])
    gaps = np.hypot(*(places[["x", "y"]].to_numpy()[:, None] - stations[None]).transpose(2, 0, 1)).min(axis=1)
    lost = (gaps > 0.8).reshape(-1, 9).sum(axis=1)
    shown = done.rounds.set_index("round")["out_of_service"]
    assert 0 < lost[4] < 9
    assert shown[4] == lost[4]
    bare = run_experiment(tiny(federation={"kind": "mohawk"}), tmp_path / "bare")
    assert bare.world["access_point_ranges"] == []
