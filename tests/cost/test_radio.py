"""The price of transfers, against calculations by hand."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedroam.components import build
from fedroam.cost import DistanceDistribution, Radio, SamplePasses, full_exchange
from fedroam.errors import InputError
from fedroam.federation import SERVER, Traffic, access_point
from fedroam.learning import Job

MODEL = 2_637_500  # bytes: the 21.1 megabits of Farcas et al.
AP = int(access_point(4))
MONTH = DistanceDistribution(mean=910.0, std=750.0)


def radio(**settings: Any) -> Radio:
    part: Any = build("radio", {"kind": "lte_wifi", **settings})
    return part


def priced(
    part: Radio, sender: int, receiver: int, distance: float, spread: DistanceDistribution = MONTH
) -> tuple[float, ...]:
    """Joules up and down, seconds up and down of one model."""
    cost = part.cost(Traffic.of(sender, receiver, MODEL, distance), spread)
    return tuple(float(v[0]) for v in (cost.energy_up, cost.energy_down, cost.time_up, cost.time_down))


@pytest.mark.parametrize(
    ("sender", "receiver", "distance", "joules"),
    [
        (0, AP, 1661.0, "13.132549571428571428571"),  # (438.39 * 7 + 1288.04) * 21.1 / 7 mJ
        (AP, 0, 1661.0, "3.361370666666666666667"),  # (51.97 * 12 + 1288.04) * 21.1 / 12
        (0, AP, 159.0, "10.848713941176470588235"),  # (438.39 * 17 + 1288.04) * 21.1 / 17
        (AP, 0, 159.0, "1.851501555555555555556"),  # (51.97 * 36 + 1288.04) * 21.1 / 36
        (0, AP, 100.0, "5.977690346"),  # (283.17 * 1000 + 132.86) * 21.1 / 1000
        (AP, 0, 0.0, "2.893714346"),  # (137.01 * 1000 + 132.86) * 21.1 / 1000
        # half way, 12 and 24 Mbps: at the mean distance, and where an end stands nowhere
        (0, AP, 910.0, "11.514832666666666667"),  # (438.39 * 12 + 1288.04) * 21.1 / 12
        (SERVER, 0, np.nan, "2.228968833333333333"),  # (51.97 * 24 + 1288.04) * 21.1 / 24
    ],
)
def test_energies_of_single_transfers(sender: int, receiver: int, distance: float, joules: str) -> None:
    up, down, time_up, time_down = priced(radio(), sender, receiver, distance)
    mine, other = (up, down) if sender >= 0 else (down, up)
    assert mine == pytest.approx(float(Fraction(joules)), abs=1e-9, rel=0)
    assert other == 0
    assert (time_up > 0, time_down > 0) == (sender >= 0, receiver >= 0)


def test_air_time_is_the_model_over_the_throughput() -> None:
    assert priced(radio(), 0, AP, 5000.0)[2] == pytest.approx(21.1 / 7, rel=1e-12)
    assert priced(radio(), AP, 0, 5000.0)[3] == pytest.approx(21.1 / 12, rel=1e-12)
    assert priced(radio(), AP, 0, 99.0)[3] == pytest.approx(0.0211, rel=1e-12)


def test_throughput_falls_linearly_between_the_mean_less_and_plus_the_deviation() -> None:
    # A quarter of the way from 160 m to 1660 m: 17 - 10 / 4 up, 36 - 24 / 4 down.
    up, _, seconds, _ = priced(radio(), 0, AP, 160.0 + 375.0)
    assert seconds == pytest.approx(21.1 / 14.5, rel=1e-12)
    assert up == pytest.approx((438.39 * 14.5 + 1288.04) * 21.1 / 14.5 / 1000, abs=1e-9, rel=0)
    assert priced(radio(), AP, 0, 535.0)[3] == pytest.approx(21.1 / 30, rel=1e-12)


def test_all_at_one_distance() -> None:
    one = DistanceDistribution(500.0, 0.0)
    at = [priced(radio(), 0, AP, distance, one)[2] for distance in (499.0, 500.0, 501.0)]
    assert at == pytest.approx([21.1 / 17, 21.1 / 12, 21.1 / 7])


def test_full_exchange_is_one_transfer_each_way() -> None:
    # Table 6 over its rounds: the paper's month comes to 12.4 to 13.7 J, between the two ends of LTE.
    near, far = (full_exchange(radio(), MODEL, distance, MONTH) for distance in (150.0, 3000.0))
    assert near == pytest.approx(10.848713941176471 + 1.8515015555555556, abs=1e-9, rel=0)
    assert far == pytest.approx(13.132549571428571 + 3.361370666666667, abs=1e-9, rel=0)
    assert full_exchange(radio(), MODEL, 20.0, MONTH) == pytest.approx(5.977690346 + 2.893714346, abs=1e-9)
    deflated = radio(overhead=19.57 / 21.1)
    assert full_exchange(deflated, MODEL, 910.0, MONTH) == pytest.approx(
        19.57 / 1000 * ((438.39 * 12 + 1288.04) / 12 + (51.97 * 24 + 1288.04) / 24), abs=1e-9
    )


def test_two_clients_pay_both_ends_of_the_direct_link() -> None:
    up, down, time_up, time_down = priced(radio(), 3, 5, 40.0, DistanceDistribution())
    assert up == pytest.approx((283.17 * 250 + 132.86) * 21.1 / 250 / 1000, abs=1e-9, rel=0)
    assert down == pytest.approx((137.01 * 250 + 132.86) * 21.1 / 250 / 1000, abs=1e-9, rel=0)
    assert time_up == time_down == pytest.approx(21.1 / 250)
    assert priced(radio(), 3, 5, np.nan) == priced(radio(), 3, 5, 40.0)
    falling = radio(d2d_min=50.0, d2d_near=20.0, d2d_far=60.0)
    times = [priced(falling, 0, 1, metres)[2] for metres in (0.0, 20.0, 30.0, 60.0, 61.0)]
    assert times == pytest.approx([21.1 / rate for rate in (250, 250, 200, 50, 50)])


def test_nobody_pays_for_the_backhaul() -> None:
    assert priced(radio(), AP, SERVER, 3000.0) == (0, 0, 0, 0)
    assert priced(radio(), AP, int(access_point(0)), 30.0) == (0, 0, 0, 0)


def test_overhead_and_extra_bytes() -> None:
    plain, longer = priced(radio(), 0, AP, 500.0), priced(radio(extra=MODEL), 0, AP, 500.0)
    assert np.array(longer) == pytest.approx(2 * np.array(plain))
    assert np.array(priced(radio(overhead=1.5), 0, AP, 500.0)) == pytest.approx(1.5 * np.array(plain))
    both = priced(radio(overhead=1.5, extra=MODEL), 0, AP, 500.0)
    assert np.array(both) == pytest.approx(2.5 * np.array(plain)), "extra bytes are sent as they are"


def test_distances_set_by_the_user_come_first() -> None:
    assert radio().spread() is None
    assert radio(distance_mean=910.0, distance_std=750.0).spread() == MONTH


def test_a_spread_that_is_needed_and_not_known_is_asked_for() -> None:
    with pytest.raises(InputError, match=r"radio\.distance_mean: needed"):
        priced(radio(), 0, AP, 500.0, DistanceDistribution())
    assert priced(radio(), 0, AP, 50.0, DistanceDistribution())[0] > 0  # Wi-Fi needs none
    assert priced(radio(), 0, SERVER, np.nan, DistanceDistribution())[0] > 0
    assert priced(radio(), AP, SERVER, 500.0, DistanceDistribution()) == (0, 0, 0, 0)


def test_training_by_sample_passes() -> None:
    part = radio(
        training_energy=0.5, training_power=4.0, training_time=0.25, training_factors=(1.0, 2.0, 0.0)
    )
    joules = part.training(np.array([0, 1, 2, 4]), np.array([10, 10, 10, 3]))
    assert joules.tolist() == [15.0, 30.0, 0.0, 9.0]
    assert radio().training(np.array([0]), np.array([10])).tolist() == [0.0]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"lte_up_min": 20.0}, "lte_up_min = 20 is above lte_up_max = 17"),
        ({"d2d_min": 300.0}, "d2d_min = 300 is above d2d_max = 250"),
        ({"d2d_near": 100.0}, "d2d_near = 100 is not below d2d_far = 100"),
        ({"distance_mean": 3.0}, "allowed are both or none"),
        ({"training_factors": ()}, "training_factors"),
        ({"training_factors": (1.0, -2.0)}, "training_factors"),
        ({"wifi_up": 0.0}, "radio.wifi_up = 0.0"),
        ({"lte_beta": float("inf")}, "radio.lte_beta"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        radio(**settings)


@given(st.lists(st.lists(st.floats(0, 1e5), max_size=8), max_size=6))
def test_the_spread_of_pieces_is_that_of_the_whole(pieces: list[list[float]]) -> None:
    whole = np.array([value for piece in pieces for value in piece])
    found = DistanceDistribution.of(np.array(piece, dtype=np.float64) for piece in pieces)
    assert found.known == (len(whole) > 0)
    if len(whole):
        assert found.mean == pytest.approx(whole.mean(), rel=1e-9, abs=1e-6)
        assert found.std == pytest.approx(whole.std(), rel=1e-6, abs=1e-6)


@given(st.floats(100.5, 5000), st.floats(100.5, 5000))
def test_the_farther_away_the_dearer(one: float, other: float) -> None:
    near, far = (full_exchange(radio(), MODEL, distance, MONTH) for distance in sorted((one, other)))
    assert full_exchange(radio(), MODEL, 100.0, MONTH) < near <= far * (1 + 1e-12)


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"epochs": 3}, [60, 27, 0]),
        ({"batch_size": 8, "epochs": 2, "drop_last": True}, [32, 16, 0]),
        ({"batch_size": 8, "steps": 5}, [8 + 8 + 4 + 8 + 8, 8 + 1 + 8 + 1 + 8, 0]),
    ],
)
def test_sample_passes_are_those_of_the_batches(settings: dict[str, Any], wanted: list[int]) -> None:
    training: Any = build("training", {"kind": "sgd", **settings})
    jobs = [Job(i, i, np.arange(n), 1) for i, n in enumerate((20, 9, 0))]
    clients, passes = SamplePasses(training).of([*jobs, Job(SERVER, 3, np.arange(50), 1)])
    assert clients.tolist() == [0, 1, 2]
    assert passes.tolist() == wanted
