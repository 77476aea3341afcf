"""DAM and DCM on a grid against hand-worked examples and the papers' formulas."""

import hashlib
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedroam.components import build
from fedroam.mobility.grid import grid_places
from fedroam.mobility.steered.coverage import Flyer
from fedroam.mobility.steered.grid import DAM, DCM
from fedroam.mobility.steered.targets import OtherTargets, overlap
from fedroam.randomness import stream
from support.steering import centres, grid_terrain, row, walk, world

# A 5x5 grid, reach 1: static client A at (1, 1) holds 4 samples of class 1, B at (5, 5) holds 6 of class 2.
# The mobile client holds 2 samples of class 0 and is at (1, 2), within reach of A.
PLACES = np.array([[1.0, 1.0], [5.0, 5.0]])
COUNTS = np.array([[0, 4, 0], [0, 0, 6]])
FLYER = Flyer(np.array([1.0, 2.0]), np.array([2, 0, 0]), np.array([True, True]))
NEAR_B = math.sqrt((1 / 3 - 1 / 4) ** 2 + (2 / 3) ** 2 + (3 / 4) ** 2)  # mix (1/4, 0, 3/4)
ALONE = math.sqrt(2) * 2 / 3  # mix (1, 0, 0)
TARGETS = grid_terrain(PLACES, COUNTS, 1.0, 5).everywhere(FLYER)


def test_hand_worked_weights():
    np.testing.assert_allclose(TARGETS.weights, [0, 0, 0, NEAR_B, NEAR_B, NEAR_B], atol=1e-12)
    assert TARGETS.elsewhere == pytest.approx(ALONE, abs=1e-12)
    assert TARGETS.total() == pytest.approx(3 * NEAR_B + 19 * ALONE, abs=1e-12)


def probabilities() -> dict[tuple[float, float], float]:
    total = 3 * NEAR_B + 19 * ALONE
    every = {(float(x), float(y)): ALONE / total for x in range(1, 6) for y in range(1, 6)}
    every |= {(float(x), float(y)): 0.0 for x, y in [(1, 1), (1, 2), (2, 1)]}
    return every | {(float(x), float(y)): NEAR_B / total for x, y in [(4, 5), (5, 4), (5, 5)]}


def test_the_draw_gives_each_point_a_stretch_as_long_as_its_probability():
    # As a function of the uniform draw, the choice is a step function whose steps are the probabilities.
    fine, expected = 1000, probabilities()
    chosen = [tuple(TARGETS.draw((k + 0.5) / fine)) for k in range(fine)]
    for point, probability in expected.items():
        assert chosen.count(point) / fine == pytest.approx(probability, abs=1 / fine)
    # Exactly at the end of a stretch the next one begins; the first stretch of positive length is that of (4, 5).
    total = 3 * NEAR_B + 19 * ALONE
    first = NEAR_B / total
    assert tuple(TARGETS.draw(0.0)) == (4, 5)
    assert tuple(TARGETS.draw(first - 1e-12)) == (4, 5)
    assert tuple(TARGETS.draw(first + 1e-12)) == (5, 4)
    assert tuple(TARGETS.draw(3 * first - 1e-12)) == (5, 5)
    assert tuple(TARGETS.draw(3 * first + 1e-12)) == (1, 3)
    assert tuple(TARGETS.draw(1 - 1e-16)) == (5, 3)


@pytest.mark.slow
def test_100_000_draws_follow_the_probabilities():
    draws = stream(0, "test draws").random(100_000)
    numbers = [int((x - 1) * 5 + y - 1) for x, y in (TARGETS.draw(u) for u in draws)]
    seen = np.bincount(numbers, minlength=25)
    expected = np.array([p for _, p in sorted(probabilities().items())])
    assert (seen[expected == 0] == 0).all()
    possible = expected > 0
    assert stats.chisquare(seen[possible], 100_000 * expected[possible]).pvalue > 1e-4


def test_equal_mixes_everywhere_give_a_uniform_choice():
    same = grid_terrain(PLACES, np.array([[1, 1], [3, 3]]), 1.0, 5)
    targets = same.everywhere(Flyer(FLYER.here, np.array([2, 2]), FLYER.known))
    chosen = [targets.draw((k + 0.5) / 25) for k in range(25)]
    assert len({tuple(point) for point in chosen}) == 25


def steps_of(choose, fine: int) -> dict[tuple[float, float], float]:
    """The probability of each outcome as the length of its stretch of the uniform draw."""
    found: dict[tuple[float, float], float] = {}
    for k in range(fine):
        point = tuple(choose((k + 0.5) / fine))
        found[point] = found.get(point, 0.0) + 1 / fine
    return found


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    reach=st.sampled_from([0.0, 1.0, 2.0]),
    discount=st.sampled_from([0.4, 1.0]),
    others=st.integers(1, 4),
    alike=st.booleans(),
)
def test_choices_on_the_grid_have_the_discounted_probabilities(seed, reach, discount, others, alike):
    grid, draws, fine = 6, stream(seed, "test"), 600
    places = draws.integers(1, grid + 1, size=(4, 2)).astype(float)
    counts = np.ones((4, 3), int) if alike else draws.integers(0, 5, size=(4, 3))
    own = np.ones(3, int) if alike else np.array([2, 0, 1])
    here = draws.integers(1, grid + 1, size=2).astype(float)
    taken = draws.integers(1, grid + 1, size=(others, 2)).astype(float)
    terrain, others_at = grid_terrain(places, counts, reach, grid), OtherTargets.of(taken, reach, discount)
    targets = terrain.everywhere(Flyer(here, own, np.ones(4, dtype=bool)))
    weights = {}
    for x, y in itertools.product(range(1, grid + 1), repeat=2):
        point = np.array([x, y], float)
        at = row(terrain.coverage, point)
        weight = 1.0 if alike else float(targets.elsewhere if at is None else targets.weights[at])
        for place in taken:
            weight *= 1 - discount * overlap(np.hypot(*(point - place))[None], reach)[0]
        weights[x, y] = weight
    total = sum(weights.values())
    found = steps_of(lambda u: targets.draw(u, others_at), fine)
    for point, weight in weights.items():
        assert found.get(point, 0.0) == pytest.approx(weight / total, abs=2 / fine)
        assert weight > 0 or point not in found


def test_choices_among_centres_have_the_discounted_probabilities():
    terrain = grid_terrain(np.array([[1.0, 1.0], [5.0, 5.0], [1.0, 5.0]]), np.eye(3, dtype=int), 1.0, 5)
    flyer = Flyer(np.array([5.0, 1.0]), np.array([0, 0, 1]), np.ones(3, dtype=bool))
    targets = terrain.coverage.targets(flyer, terrain.seats())
    assert (targets.weights > 0).tolist() == [True, True, False]
    others = OtherTargets.of(np.array([[2.0, 1.0]]), 1.0, 1.0)  # one away from the first
    weights = targets.weights * others.unserved(terrain.places)
    found = steps_of(lambda u: targets.draw(u, others), 2000)
    assert set(found) == {(1, 1), (5, 5)}
    assert found[1, 1] == pytest.approx(weights[0] / weights.sum(), abs=1e-3)


def test_where_the_others_leave_no_grid_point_the_weights_alone_decide():
    terrain = grid_terrain(np.array([[1.0, 1.0]]), np.array([[3, 0]]), 0.0, 1)  # one point, and it is taken
    targets = terrain.everywhere(Flyer(np.array([1.0, 1.0]), np.array([0, 1]), np.array([True])))
    others = OtherTargets.of(np.array([[1.0, 1.0], [2.0, 1.0]]), 0.0, 1.0)
    assert tuple(targets.draw(0.5, others)) == (1, 1)


def fly(here, destination, max_step, grid, approach, draw):
    terrain = grid_terrain(PLACES, COUNTS, 1.0, grid, max_step=max_step, approach=approach)
    return terrain.fly(here, destination, draw)


def test_constrained_steps_by_hand():
    here, goal = np.array([1.0, 1.0]), np.array([18.0, 18.0])
    assert {tuple(fly(here, goal, 5.0, 18, "nearest", u)) for u in (0.0, 0.49, 0.51, 0.99)} == {
        (4, 5),
        (5, 4),
    }
    assert tuple(fly(here, goal, math.inf, 18, "nearest", 0.0)) == (18, 18)
    assert tuple(fly(here, np.array([4.0, 5.0]), 5.0, 18, "nearest", 0.0)) == (
        4,
        5,
    )  # exactly 5 away: reached
    assert tuple(fly(here, goal, 0.9, 18, "nearest", 0.3)) == (1, 1)  # no grid point within reach but its own
    # Along the line to (18, 1) both readings agree; to (10, 2) the line's end at 2 m is nearest to (3, 1).
    assert tuple(fly(here, np.array([18.0, 1.0]), 5.0, 18, "on_line", 0.0)) == (6, 1)
    assert tuple(fly(here, np.array([10.0, 2.0]), 2.0, 18, "on_line", 0.0)) == (3, 1)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 1000),
    kind=st.sampled_from([DAM, DCM]),
    max_step=st.sampled_from([0.5, 1.0, 2.5, 5.0, math.inf]),
    knowledge=st.sampled_from(["oracle", "warm_up", "contacts"]),
    approach=st.sampled_from(["nearest", "on_line"]),
)
def test_flights_keep_the_rules(seed, kind, max_step, knowledge, approach):
    part = kind(grid=8, mobile=3, max_step=max_step, knowledge=knowledge, approach=approach, warm_up=3)
    w = world(seed, reach=2.0)
    state = part.start(w)
    for t in range(1, 12):
        after, paths = part.step(state, w, t)
        moved = np.hypot(*(after["position"] - state["position"]).T)
        assert (moved <= max_step + 1e-9).all()
        assert (moved[3:] == 0).all()
        assert (after["position"] >= 1).all()
        assert (after["position"] <= 8).all()
        assert (after["position"] == np.round(after["position"])).all()
        assert (after["known"] >= state["known"]).all()  # nothing is forgotten
        under_way = (state["destination"] != state["position"][:3]).any(axis=1)
        if knowledge != "warm_up" or t > 3:  # a destination is kept until reached
            assert (after["destination"][under_way] == state["destination"][under_way]).all()
            before = np.hypot(*(state["destination"] - state["position"][:3]).T)
            left = np.hypot(*(after["destination"] - after["position"][:3]).T)
            assert (left[under_way] <= before[under_way]).all()
        np.testing.assert_array_equal(paths.end, after["position"])
        state = after


def test_unconstrained_dcm_is_always_at_a_centre_and_dam_always_somewhere_else():
    w = world(3)
    dcm, dam = DCM(mobile=2), DAM(mobile=2)
    at = {tuple(c) for c in centres(dcm, w)}
    state, other = dcm.start(w), dam.start(w)
    for t in range(1, 20):
        state, _ = dcm.step(state, w, t)
        assert {tuple(p) for p in state["position"][:2]} <= at
        before = other["position"][:2]
        other, _ = dam.step(other, w, t)
        assert (other["position"][:2] != before).any(axis=1).all()


def test_patterns_start_from_the_same_places():
    w = world(5)
    np.testing.assert_array_equal(DAM().start(w)["position"], grid_places(w, 18))
    np.testing.assert_array_equal(DCM().start(w)["position"], grid_places(w, 18))


@pytest.mark.slow
def test_a_large_grid_takes_seconds():
    w = world(0, clients=1000, reach=3.0)
    dcm = DCM(grid=1000, mobile=50)
    state = dcm.start(w)
    state, _ = dcm.step(state, w, 1)
    assert 100 < len(centres(dcm, w)) <= 950


PINNED = {
    ("dam", "oracle"): "1d3378ad091b93f8",
    ("dam", "warm_up"): "a09e4776503d3170",
    ("dam", "contacts"): "181a973fe5d3a79c",
    ("dcm", "oracle"): "fe9ad027c40ea3b4",
    ("dcm", "warm_up"): "49c246d5b72b6100",
    ("dcm", "contacts"): "3c36d74a5494ae61",
}


@pytest.mark.parametrize(("kind", "knowledge"), list(PINNED))
def test_dam_and_dcm_on_the_grid_fly_as_ever(kind, knowledge):
    # Grid points are whole numbers: a digest of the ways is the same on every machine unless a choice changes.
    digest = hashlib.sha256()
    for max_step, approach in itertools.product((1.5, 5.0, math.inf), ("nearest", "on_line")):
        part = build(
            "mobility",
            {
                "kind": kind,
                "grid": 12,
                "mobile": 4,
                "knowledge": knowledge,
                "approach": approach,
                "max_step": max_step,
                "warm_up": 5,
            },
        )
        for seed, reach in ((0, 3.0), (1, 2.0)):
            for state in walk(part, world(seed, 14, reach), 30):
                digest.update(state["position"].astype("<i4").tobytes())
    assert digest.hexdigest()[:16] == PINNED[kind, knowledge]
