"""Distances that are the reach to the last bit count, however the square root was rounded."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedroam.components import build
from fedroam.mobility import Paths, within_reach
from fedroam.mobility.grid import within

OFFSETS = [(x, y) for x in range(101) for y in range(x, 101)]


def test_every_offset_of_whole_numbers_at_exactly_its_distance() -> None:
    """math.sqrt is correctly rounded and its argument exact, so that the reach is the rounded distance itself."""
    wrong = 0
    for x, y in OFFSETS[1:]:
        reach = math.sqrt(x * x + y * y)
        below = math.nextafter(reach, 0)
        assert within_reach(np.array([x]), np.array([y]), reach).all(), (x, y)
        assert not within_reach(np.array([y]), np.array([-x]), below).any(), (x, y)
        wrong += bool(np.hypot(x, y) > reach) + bool(np.hypot(x, y) <= below)
    assert wrong > 0, "np.hypot rounds correctly here: nothing was in doubt"


@given(
    st.floats(1e-3, 1e3, allow_nan=False),
    st.floats(0, 1e3, allow_nan=False),
    st.integers(-3, 3),
)
def test_as_if_nothing_were_rounded_but_the_result(x: float, y: float, steps: int) -> None:
    reach = float(np.hypot(x, y))
    for _ in range(abs(steps)):
        reach = math.nextafter(reach, math.inf if steps > 0 else 0.0)
    square = Fraction(x) ** 2 + Fraction(y) ** 2
    # The correctly rounded root, found by bisection among neighbours.
    root = math.sqrt(float(square))
    for _ in range(8):
        up, down = math.nextafter(root, math.inf), math.nextafter(root, 0.0)
        if ((Fraction(root) + Fraction(up)) / 2) ** 2 < square:
            root = up
        elif ((Fraction(root) + Fraction(down)) / 2) ** 2 > square:
            root = down
    assert bool(within_reach(np.float64(x), np.float64(y), reach)) == (root <= reach)


def test_shapes_and_limits() -> None:
    x, y = np.arange(3.0)[:, None], np.arange(4.0)[None, :]
    np.testing.assert_array_equal(within_reach(x, y, 2.0), x**2 + y**2 <= 4)
    assert within_reach(x, y, math.inf).all()
    np.testing.assert_array_equal(within_reach(x, y, 0.0), (x == 0) & (y == 0))


@pytest.mark.parametrize("kind", ["radius", "closest_approach", "sampled"])
@pytest.mark.parametrize(("x", "y"), [(17, 27), (27, 17), (2, 3)])
def test_contacts_at_exactly_the_radius(kind: str, x: int, y: int) -> None:
    reach = math.sqrt(x * x + y * y)
    paths = Paths.still(np.array([[0.0, 0.0], [x, y], [200.0, 200.0]]))
    met = {
        radius: build("contacts", {"kind": kind, "radius": radius}).meet(paths).nnz  # type: ignore[attr-defined]
        for radius in (reach, math.nextafter(reach, 0))
    }
    assert list(met.values()) == [2, 0]


@pytest.mark.parametrize(("x", "y"), [(17, 27), (2, 3)])
def test_grid_points_at_exactly_the_reach(x: int, y: int) -> None:
    here, reach = np.array([1, 1]), math.sqrt(x * x + y * y)
    assert [1 + x, 1 + y] in within(here, reach, 60).tolist()
    assert [1 + x, 1 + y] not in within(here, math.nextafter(reach, 0), 60).tolist()
