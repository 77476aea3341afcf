"""Contacts in closed form: against drawn passes, the counted contacts, the clock itself, and exact similarities."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedroam as fr
from fedroam.analysis.planned_time import planned_rounds, summary
from fedroam.cli.study_runs import StudyRuns
from fedroam.components import build
from fedroam.devices.arithmetic import training_flops
from fedroam.errors import InputError
from fedroam.mobility import World
from fedroam.models.dense import MLP
from fedroam.papers import find_study
from fedroam.papers.contact_limits import regimes
from fedroam.papers.contact_limits.passing import Contacts, closed_form, roaming
from fedroam.papers.contact_limits.runs import ROUND, bytes_of
from fedroam.study.values import Reader


def world(clients: int, seed: int = 77) -> World:
    return World(seed, clients, np.ones((clients, 1), dtype=np.int64), 50.0)


# --- the closed form ----------------------------------------------------------------------------------------------


def test_one_speed_by_hand() -> None:
    """Rounds so long that they cut nothing: sqrt(1 - (v T / 2 R)^2), averaged over relative speeds 2 v sin(a / 2)."""
    angle = (np.arange(4000) + 0.5) / 4000 * np.pi
    v = 2 * 5.0 * np.sin(angle / 2)
    expected = (v * np.sqrt(np.maximum(1 - (v * 12.0 / 100.0) ** 2, 0))).sum() / v.sum()
    assert closed_form(12.0, 50.0, (5.0, 5.0), 1e9) == pytest.approx(100 * expected, rel=2e-3)


def test_ends_of_the_scale() -> None:
    assert closed_form(0.0, 50.0, (1.0, 2.0), 60.0) == pytest.approx(100)
    assert closed_form(60.1, 50.0, (1.0, 2.0), 60.0) == 0
    assert closed_form(30.1, 50.0, (1.0, 2.0), 60.0, trained=30.0) == 0
    assert 0 < closed_form(29.9, 50.0, (1.0, 2.0), 60.0, trained=30.0) < 50


@pytest.mark.parametrize(
    ("speeds", "radius"), [((0.5, 1.7), 50.0), ((4.0, 13.0), 50.0), ((4.0, 13.0), 150.0)]
)
@pytest.mark.parametrize(("seconds", "trained"), [(2.0, 0.0), (10.0, 0.0), (25.0, 20.0)])
def test_drawn_passes_of_straight_ways(
    speeds: tuple[float, float], radius: float, seconds: float, trained: float
) -> None:
    """200,000 passes, each drawn by speeds, angle, distance and beginning, and cut by a round of 60 s."""
    draws, n = np.random.default_rng(5).random((5, 200_000)), 200_000
    one, other = speeds[0] * (speeds[1] / speeds[0]) ** draws[:2]
    v = np.sqrt(one**2 + other**2 - 2 * one * other * np.cos(np.pi * draws[2]))
    lasts = 2 * radius / v * np.sqrt(1 - draws[3] ** 2)
    begins = (60.0 + lasts) * draws[
        4
    ] - lasts  # anywhere that touches the round; as often as such places are wide
    weight = v * (60.0 + lasts)
    left = np.minimum(begins + lasts, 60.0) - np.maximum(begins, trained)
    share = weight[left >= seconds].sum() / weight.sum()
    error = np.sqrt((weight**2).mean()) / weight.mean() * math.sqrt(0.25 / n)
    assert closed_form(seconds, radius, speeds, 60.0, trained) == pytest.approx(
        100 * share, abs=100 * 5 * error
    )


@pytest.mark.parametrize(("low", "high"), [(30.0, 100.0), (240.0, 800.0)])
def test_contacts_on_random_waypoint_are_near_it(low: float, high: float) -> None:
    """In a larger square, where fewer ways turn: within 4 points, and the times at which regimes change alike."""
    met = Contacts.of(roaming((low, high), 2000.0), 50.0, 60.0, world(150), 40)
    times = [1.0, 3.0, 10.0, 20.0, 30.0, 45.0]
    expected = [closed_form(one, 50.0, (low / 60, high / 60), 60.0) for one in times]
    np.testing.assert_allclose(met.fit(times), expected, atol=4.0)


def test_fast_clients_meet_in_proportion_to_speed_times_reach() -> None:
    """A disc of 2 v R t + pi R^2: the second part is what is within reach already, and little where v t is large."""

    def meetings(speed: float, reach: float) -> int:
        found = Contacts.of(roaming((speed, speed), 4000.0), reach, 60.0, world(200), 15)
        return len(found.lasting())

    first = meetings(1500.0, 50.0)
    for other in (meetings(3000.0, 50.0), meetings(1500.0, 100.0)):
        assert other == pytest.approx(2 * first, rel=0.12)


def test_nobody_meets() -> None:
    with pytest.raises(InputError, match="contacts of 1 rounds within 1e-06 m: there are none"):
        Contacts.of(roaming((1.0, 2.0), 1000.0), 1e-6, 60.0, world(2), 1)


# --- against the clock --------------------------------------------------------------------------------------------


def planned(seed: int = 77, **settings: Any) -> pd.DataFrame:
    """Rounds without learning of twelve clients with 50 samples each."""
    own: dict[str, Any] = {
        "clients": 12,
        "rounds": 12,
        "evaluate_every": 12,
        "seed": seed,
        "data": {"kind": "digits", "test_share": 0.3},
        "partition": {
            "kind": "client_dirichlet",
            "alpha": 1.0,
            "samples_per_client": regimes.SAMPLES,
            "sharing": "replacement",
        },
        "training": {"kind": "sgd", "batch_size": 10, "epochs": 1},
        "model": {"kind": "mlp", "hidden": [32]},
        "mobility": {
            "kind": "random_waypoint",
            "width": 500.0,
            "height": 500.0,
            "min_speed": 90.0,
            "max_speed": 300.0,
        },
        "contacts": {"kind": "closest_approach", "radius": 50.0},
        "clock": {"kind": "seconds", "length": 60.0},
        "link": {"kind": "fixed", "throughput": 0.01},
    }
    return pd.DataFrame(planned_rounds(fr.Experiment(**{**own, **settings})))


@pytest.mark.parametrize(("hidden", "throughput"), [(32, 0.01), (4096, 1.0), (16384, 5.0), (16384, 0.9)])
def test_what_is_counted_is_what_the_clock_says(hidden: int, throughput: float) -> None:
    """The share of contacts that fit, with the training that the map reckons with, of the same clients."""
    rounds = planned(
        model={"kind": "mlp", "hidden": [hidden]},
        link={"kind": "fixed", "throughput": throughput},
        compute={"kind": "flops", "speeds": [regimes.DEVICE]},
    )
    met = Contacts.of(roaming((90.0, 300.0), 500.0), 50.0, 60.0, world(12), 12)
    seconds, trained = 8e-6 * bytes_of(hidden) / throughput, regimes.training_seconds(hidden)
    assert met.fit([seconds], trained) == pytest.approx([100 * summary(rounds)["fit"]], abs=1e-9)
    assert len(met.lasting()) == rounds["contacts"].sum() > 100


def test_training_seconds_by_hand() -> None:
    """A sample: 2 x 64 x 8 + 8 + 2 x 8 x 10 forward; backward the weights as much, inputs of the second layer only."""
    forward = 2 * 64 * 8 + 8 + 2 * 8 * 10
    backward = 2 * 64 * 8 + 2 * 8 + 2 * (2 * 8 * 10)
    assert training_flops(MLP(hidden=(8,)).build((64,), 10), (64,)) == forward + backward
    assert regimes.training_seconds(8) == pytest.approx(50 * (forward + backward) / (1e9 * regimes.DEVICE))


# --- similarities: the same timetable ------------------------------------------------------------------------------


def same(a: pd.DataFrame, b: pd.DataFrame, times: float = 1.0) -> None:
    """Two tables of planned rounds: what gets through exactly; the times of the second are so many of the first's."""
    assert 0 < a["fit"].sum() < a["contacts"].sum()
    counts = ["transfers", "through", "broken", "late", "contacts", "fit"]
    pd.testing.assert_frame_equal(a[counts], b[counts], check_exact=True)
    scaled = a.assign(time=a["time"] * times, seconds=a["seconds"] * times)
    pd.testing.assert_frame_equal(scaled, b, rtol=1e-9)


SHARED = {"kind": "fixed", "throughput": 0.02, "shared": True, "simultaneous": 1}


@pytest.mark.parametrize("link", [{"kind": "fixed", "throughput": 0.01}, SHARED])
def test_size_and_bandwidth_are_one_axis(link: dict[str, Any]) -> None:
    """Four times the bytes at four times the rate, near enough, and so exactly the ratio."""
    more = link["throughput"] * bytes_of(128) / bytes_of(32)
    a, b = (
        planned(link=link),
        planned(link={**link, "throughput": more}, model={"kind": "mlp", "hidden": [128]}),
    )
    same(a, b)


def test_size_counts_by_itself_where_training_takes_time() -> None:
    slow = {"kind": "flops", "speeds": [0.001]}
    more = 0.01 * bytes_of(128) / bytes_of(32)
    a = planned(compute=slow)
    b = planned(
        compute=slow, link={"kind": "fixed", "throughput": more}, model={"kind": "mlp", "hidden": [128]}
    )
    assert b["fit"].sum() < a["fit"].sum()


@pytest.mark.parametrize("link", [{"kind": "fixed", "throughput": 0.01}, SHARED])
def test_twice_all_lengths(link: dict[str, Any]) -> None:
    larger = {
        "kind": "random_waypoint",
        "width": 1000.0,
        "height": 1000.0,
        "min_speed": 180.0,
        "max_speed": 600.0,
    }
    contacts = {"kind": "closest_approach", "radius": 100.0}
    same(planned(link=link), planned(link=link, mobility=larger, contacts=contacts))


@pytest.mark.parametrize("link", [{"kind": "fixed", "throughput": 0.01}, SHARED])
def test_half_of_all_times(link: dict[str, Any]) -> None:
    """Twice as fast in m/s: the way of a round stays as it is, and the round, sending and training take half."""
    quick = {**link, "throughput": 2 * link["throughput"]}
    one, two = ({"kind": "flops", "speeds": [speed]} for speed in (0.002, 0.004))
    clock = {"kind": "seconds", "length": 30.0}
    same(planned(link=link, compute=one), planned(link=quick, compute=two, clock=clock), 0.5)


# --- the map ------------------------------------------------------------------------------------------------------


def test_the_map_is_drawn_of_a_small_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its panels, shades from none to all, and both borders in each panel."""
    monkeypatch.setattr(regimes, "CLIENTS", 20)
    monkeypatch.setattr(regimes, "ROUNDS", 6)
    monkeypatch.setattr(regimes, "SIDE", 400.0)
    drawn = regimes.REGIME_MAP.draw(Reader(lambda variant, seed: None, ()))
    panels = [ax for ax in drawn.axes if ax.get_title()]
    assert len(panels) == len(regimes.REACHES) * len(regimes.PACES)
    for ax in panels:
        shades, counted, reckoned = ax.collections
        found = shades.get_array()
        assert found is not None
        assert found.shape == (len(regimes.BANDWIDTHS), len(regimes.HIDDEN))
        assert found.min() == 0
        assert found.max() > regimes.MOST_FIT
        for border in (counted, reckoned):
            assert all(len(path.vertices) > 2 for path in border.get_paths())


def test_the_map_needs_no_run(tmp_path: Path) -> None:
    study = find_study("contact-limits")[0]
    work = StudyRuns(study, "quick", None, str(tmp_path), ())
    assert work.state(study.item("regime-map")) == "needs no run"
    assert work.missing([study.item("regime-map")]) == set()
    assert work.state(study.item("waypoint-fits")) == "0 of 48 runs done"


def test_random_waypoint_is_built_as_the_study_s_runs_build_it() -> None:
    pace = regimes.PACES["fast"]
    settings = {"kind": "random_waypoint", "width": 1000.0, "height": 1000.0}
    part = build("mobility", {**settings, "min_speed": 0.3 * pace, "max_speed": pace})
    assert roaming((regimes.LOWEST * pace, pace), regimes.SIDE) == part
    assert ROUND == 60.0
