"""Steered movement as it is played, round by round, against the formulas of Reza et al. and Jahani et al."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from fedroam.mobility import World
from fedroam.mobility.steered.coverage import CoverageMap, class_mix
from fedroam.mobility.steered.grid import DAM, DCM
from fedroam.randomness import stream
from support.steering import centres, grid_terrain, row

GRID, REACH = 5, 1.5
# Two mobile clients, then five static ones; samples of three classes.
PLACES = np.array([[2, 2], [5, 1], [1, 1], [1, 2], [4, 4], [5, 5], [1, 5]], dtype=np.float64)
COUNTS = np.array([[2, 0, 0], [0, 1, 1], [0, 4, 0], [1, 1, 0], [0, 0, 6], [3, 0, 3], [0, 2, 1]])


def mix(point: np.ndarray, m: int) -> np.ndarray:
    """Eq. 4 (Eq. 9): shares of the classes with the static clients within reach and client m itself."""
    held = COUNTS[m].copy()
    for place, own in zip(PLACES[2:], COUNTS[2:], strict=True):
        if math.dist(place, point) <= REACH:
            held += own
    return np.asarray(held / held.sum())


def probabilities(points: np.ndarray, here: np.ndarray, m: int) -> np.ndarray:
    """Eqs. 5 and 6 (Eqs. 10, 11 and 13)."""
    distance = np.array([math.dist(mix(point, m), mix(here, m)) for point in points])
    return np.asarray(distance / distance.sum())


def test_class_mixes_on_a_5x5_grid_by_hand() -> None:
    """Client 0 holds 2 of class 0; at (1, 1) it hears 5 of class 1 and 1 of class 0, at (5, 5) 9 and 3 of 2 and 0."""
    coverage = CoverageMap.of_grid(PLACES[2:], COUNTS[2:], REACH, GRID)
    mixes = class_mix(coverage.covers @ COUNTS[2:] + COUNTS[0])
    for point, wanted in (
        ((1, 1), [3 / 8, 5 / 8, 0]),
        ((5, 5), [5 / 14, 0, 9 / 14]),
        ((3, 3), [1 / 4, 0, 3 / 4]),
    ):
        np.testing.assert_allclose(mixes[row(coverage, point)], wanted, rtol=0, atol=1e-12)
    for point, got in zip(coverage.points, mixes, strict=True):
        np.testing.assert_allclose(got, mix(point, 0), rtol=0, atol=1e-12)
    assert row(coverage, (5, 1)) is None  # nobody is heard there


def flown(part: DAM | DCM, rounds: int) -> list[np.ndarray]:
    """The first flight from PLACES, played in each of many rounds: where either mobile client gets to, [rounds, 2]."""
    world = World(1, len(PLACES), COUNTS, REACH)
    state = {**part.start(world), "position": PLACES, "destination": PLACES[:2].copy()}
    moved = [part.step(state, world, t)[0] for t in range(1, rounds + 1)]
    return [np.stack([one["position"][m] for one in moved]) for m in (0, 1)]


@pytest.fixture
def placed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody starts at PLACES."""
    monkeypatch.setattr("fedroam.mobility.steered.grid.grid_places", lambda world, grid: PLACES.copy())


def fits(found: np.ndarray, points: np.ndarray, expected: np.ndarray) -> None:
    seen = np.array([(found == point).all(axis=1).sum() for point in points])
    assert seen.sum() == len(found)
    assert (seen[expected == 0] == 0).all()
    possible = expected > 0
    assert stats.chisquare(seen[possible], len(found) * expected[possible]).pvalue > 1e-4


@pytest.mark.usefixtures("placed")
def test_flights_of_dam_go_where_the_probabilities_say() -> None:
    every = np.array([[x, y] for x in range(1, GRID + 1) for y in range(1, GRID + 1)], dtype=np.float64)
    found = flown(DAM(grid=GRID, mobile=2), 4000)
    for m in (0, 1):
        fits(found[m], every, probabilities(every, PLACES[m], m))
    # The two draw independently of each other; with one draw for both, the one would follow the other.
    assert stats.spearmanr(found[0] @ [GRID, 1], found[1] @ [GRID, 1]).pvalue > 1e-4


@pytest.mark.usefixtures("placed")
@pytest.mark.parametrize("ties", ["coverage", "random"])
def test_flights_of_dcm_go_to_centres_as_the_probabilities_say(ties: str) -> None:
    part = DCM(grid=GRID, mobile=2, ties=ties)
    found_at = centres(part, World(1, len(PLACES), COUNTS, REACH))
    assert len(found_at) == 3  # two clients in each of two corners, and one in a third
    for corner in (PLACES[2:4], PLACES[4:6], PLACES[6:]):
        assert any(all(math.dist(c, place) <= REACH for place in corner) for c in found_at)
    found = flown(part, 1500)
    for m in (0, 1):
        fits(found[m], found_at, probabilities(found_at, PLACES[m], m))


@pytest.mark.usefixtures("placed")
def test_a_longer_flight_ends_at_the_feasible_point_nearest_to_its_destination() -> None:
    """Eq. 7 (Eq. 12), on a 5x5 grid with Rm = 2: brute force over all points; then on until it is reached (Eq. 8)."""
    part = DAM(grid=GRID, mobile=2, max_step=2.0)
    world = World(1, len(PLACES), COUNTS, REACH)
    every = np.array([[x, y] for x in range(1, GRID + 1) for y in range(1, GRID + 1)], dtype=np.float64)
    state, ties, kept = part.start(world), 0, 0
    for t in range(1, 200):
        before = state
        state, _ = part.step(state, world, t)
        for m in (0, 1):
            here, goal, there = before["position"][m], state["destination"][m], state["position"][m]
            feasible = [point for point in every if math.dist(point, here) <= 2.0]
            least = min(math.dist(point, goal) for point in feasible)
            assert math.dist(there, goal) == pytest.approx(least, abs=1e-12)
            assert math.dist(there, here) <= 2.0
            ties += sum(math.dist(point, goal) <= least + 1e-12 for point in feasible) > 1
            if (before["destination"][m] != here).any():
                kept += 1
                assert (goal == before["destination"][m]).all()
    assert ties > 0
    assert kept > 20


def test_ties_of_a_step_are_broken_evenly() -> None:
    draws = stream(0, "test ties").random(4000)
    terrain = grid_terrain(PLACES[2:], COUNTS[2:], REACH, 18, max_step=5.0)
    ends = [tuple(terrain.fly(np.array([1.0, 1.0]), np.array([18.0, 18.0]), u)) for u in draws]
    assert set(ends) == {(4, 5), (5, 4)}
    assert stats.binomtest(ends.count((4, 5)), 4000).pvalue > 1e-4
