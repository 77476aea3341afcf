"""Power of motion: the papers' own figures, closed forms, and energy as power times time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from fedroam.components import build, kinds
from fedroam.devices.motion import FixedWing, Motion, RotaryWing, Vehicle, motion_power, power_of
from fedroam.errors import InputError
from fedroam.mobility import Paths


def watts(part: Motion, *speeds: float) -> np.ndarray:
    return part.power(np.array(speeds))


def slowest(part: Motion, objective: str) -> float:
    """The speed of least power, or of least energy for a metre."""

    def asked(v: float) -> float:
        return float(watts(part, v)[0]) / (v if objective == "energy" else 1.0)

    return float(minimize_scalar(asked, bounds=(1.0, 80.0), method="bounded", options={"xatol": 1e-9}).x)


def test_a_rotary_wing_hovers_as_the_paper_says() -> None:
    """P_0 = 79.86 W and P_i = 88.63 W of the paper's Table I; v_0 = 4.03 m/s."""
    part = RotaryWing()
    assert watts(part, 0.0)[0] == pytest.approx(79.8563 + 88.6279, abs=2e-3)
    assert math.sqrt(20 / (2 * 1.225 * 0.503)) == pytest.approx(4.03, abs=5e-3)


def test_a_rotary_wing_at_the_paper_s_speeds() -> None:
    """10.2 m/s for the longest endurance, 18.3 m/s for the longest range (the paper's Sec. III)."""
    assert slowest(RotaryWing(), "power") == pytest.approx(10.2, abs=0.05)
    assert slowest(RotaryWing(), "energy") == pytest.approx(18.3, abs=0.05)


@given(st.floats(0, 60))
def test_a_rotary_wing_is_the_formula_as_it_is_printed(v: float) -> None:
    u, v0, d0, rho, s, a = 120.0, math.sqrt(20 / (2 * 1.225 * 0.503)), 0.6, 1.225, 0.05, 0.503
    p0 = 0.012 / 8 * rho * s * a * 300.0**3 * 0.4**3
    pi = 1.1 * 20**1.5 / math.sqrt(2 * rho * a)
    printed = (
        p0 * (1 + 3 * v**2 / u**2)
        + pi * math.sqrt(math.sqrt(1 + v**4 / (4 * v0**4)) - v**2 / (2 * v0**2))
        + 0.5 * d0 * rho * s * a * v**3
    )
    assert watts(RotaryWing(), v)[0] == pytest.approx(printed, rel=1e-9)


def test_a_fixed_wing_at_the_paper_s_speeds() -> None:
    """30 m/s and 100 W at least power; least energy for a metre at (c_2 / c_1)^(1/4)."""
    part = FixedWing(circle_speed=1.0)
    assert slowest(part, "power") == pytest.approx((2250 / (3 * 9.26e-4)) ** 0.25, abs=1e-3)
    assert watts(part, 30.0)[0] == pytest.approx(100.0, abs=0.01)
    assert slowest(part, "energy") == pytest.approx((2250 / 9.26e-4) ** 0.25, abs=1e-3)


def test_a_fixed_wing_that_may_not_go_on_circles() -> None:
    # (9.26e-4 + 2250 / (9.8^2 100^2)) 30^3 + 2250 / 30 W, at any slower speed and standing.
    circling = (9.26e-4 + 2250 / (9.8 * 100) ** 2) * 30**3 + 75
    np.testing.assert_allclose(watts(FixedWing(), 0.0, 29.9), circling)
    assert watts(FixedWing(circle_radius=math.inf), 0.0)[0] == watts(FixedWing(), 30.0)[0]


def test_a_car_by_hand() -> None:
    # 20 m/s = 72 km/h. Rolling: 1521 * 9.8066 * 1.75e-3 * (0.0328 * 72 + 4.575) = 181.07 N; drag 160.02 N.
    rolling = 1521 * 9.8066 * 1.75e-3 * (0.0328 * 72 + 4.575)
    drag = 0.5 * 1.2256 * 2.3316 * 0.28 * 400
    assert (rolling, drag) == (pytest.approx(181.07, abs=0.01), pytest.approx(160.03, abs=0.01))
    expected = (rolling + drag) * 20 / (0.92 * 0.91) + 700
    np.testing.assert_allclose(watts(Vehicle(), 0.0, 20.0), [700.0, expected])


@pytest.mark.parametrize("kind", kinds("motion"))
@given(st.lists(st.floats(0, 1), min_size=3, max_size=9, unique=True), st.floats(1, 3600))
def test_energy_is_power_times_time(kind: str, moments: list[float], seconds: float) -> None:
    """To 1e-9, against a loop over the legs; the second client stands."""
    part = build("motion", kind)
    assert isinstance(part, Motion)
    time = np.array([0.0, *sorted(moments), 1.0])
    point = np.stack([np.cos(time * 9) * 500, time * 300], axis=1)
    paths = Paths(
        np.array([0, len(time), len(time) + 2]),
        np.append(time, [0.0, 1.0]),
        np.concatenate([point, np.zeros((2, 2))]),
        np.ones(2, dtype=bool),
    )
    power, lasts = motion_power(part, paths, seconds)
    assert len(power) == len(time)
    by_hand = 0.0
    for k in range(len(time) - 1):
        duration = (time[k + 1] - time[k]) * seconds
        if duration > 0:
            by_hand += float(watts(part, math.dist(point[k], point[k + 1]) / duration)[0]) * duration
    assert float((power * lasts)[:-1].sum()) == pytest.approx(by_hand, rel=1e-9)
    assert power[-1] * lasts[-1] == pytest.approx(float(watts(part, 0.0)[0]) * seconds, rel=1e-9)


@pytest.mark.parametrize("kind", kinds("motion"))
@given(st.lists(st.floats(0, 300), max_size=5))
def test_power_is_finite_and_not_negative(kind: str, speeds: list[float]) -> None:
    part = build("motion", kind)
    assert isinstance(part, Motion)
    found = part.power(np.array(speeds))
    assert found.shape == (len(speeds),)
    assert np.isfinite(found).all()
    assert (found >= 0).all()


class Given:
    """Motion that draws what it is told."""

    def __init__(self, found: Any) -> None:
        self.found = found

    def power(self, speed: np.ndarray) -> Any:
        return self.found


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (None, "gave NoneType, allowed is one number for each speed, float64 [2]"),
        (5.0, "gave float of shape [], float64, allowed is one number for each speed, float64 [2]"),
        (np.array([3.0, -1.0]), "gave -1 for a speed of 2.5 m/s, allowed are finite numbers from 0 on"),
        (np.array([np.nan, 1.0]), "gave nan for a speed of 0 m/s, allowed are finite numbers from 0 on"),
    ],
)
def test_what_motion_of_ones_own_draws_is_held_against_what_it_promises(found: Any, told: str) -> None:
    with pytest.raises(InputError) as raised:
        power_of(Given(found), np.array([0.0, 2.5]))
    assert str(raised.value) == f"motion kind 'Given': power: {told}"
