"""DAM and DCM in a continuous rectangle, against examples worked by hand and the rules of their flights."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from fedroam.mobility.random_walk import RandomWalk
from fedroam.mobility.steered.coverage import CoverageMap, Flyer
from fedroam.mobility.steered.rectangle import DAMContinuous, DCMContinuous
from fedroam.mobility.steered.targets import Targets
from support.effort import calls
from support.slow_steering import seen_points
from support.steering import centres, world

DRAWN = ["halton", "jittered", "clients", "intersections"]
SIZE = np.array([100.0, 60.0])


def test_hand_worked_choice_in_the_plane():
    # One candidate near A (4 of class 1), one near B (6 of class 2), one in the empty; the client holds 2 of class 0.
    places, counts, own = np.array([[10.0, 10.0], [90.0, 50.0]]), [[0, 4, 0], [0, 0, 6]], np.array([2, 0, 0])
    points = np.array([[12.0, 10.0], [88.0, 50.0], [50.0, 30.0]])
    coverage = sparse.csr_array(np.array([[1, 0], [0, 1], [0, 0]]))
    found = CoverageMap(places, np.array(counts), 5.0, points, coverage, np.full((3, 2), -1))
    here, both = np.array([11.0, 12.0]), np.array([True, True])  # in reach of A: mix (1/3, 2/3, 0)
    near_b = math.sqrt((1 / 3 - 1 / 4) ** 2 + (2 / 3) ** 2 + (3 / 4) ** 2)
    alone = math.sqrt(2) * 2 / 3
    targets = found.targets(Flyer(here, own, both), np.arange(3))
    np.testing.assert_allclose(targets.weights, [0, near_b, alone], atol=1e-12)
    share = near_b / (near_b + alone)
    assert tuple(targets.draw(0.0)) == (88, 50)
    assert tuple(targets.draw(share - 1e-12)) == (88, 50)
    assert tuple(targets.draw(share + 1e-12)) == (50, 30)
    uniform = [tuple(Targets(points, np.zeros(3)).draw(u)) for u in (0.1, 0.4, 0.9)]
    assert uniform == [tuple(point) for point in points]


def test_the_exact_candidates_need_no_more_centres_than_many_points():
    # Greedy covers are not nested, so one world may go either way; over twenty, exact centres must not need more.
    exact, many, few = [], [], []
    for seed in range(20):
        w = world(seed, clients=40, reach=60.0)
        exact.append(len(centres(DCMContinuous(candidates="intersections"), w)))
        many.append(len(centres(DCMContinuous(points=4000), w)))
        few.append(len(centres(DCMContinuous(points=30), w)))
    assert np.mean(exact) <= np.mean(many) < np.mean(few)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 1000),
    kind=st.sampled_from([DAMContinuous, DCMContinuous]),
    drawn=st.sampled_from(DRAWN),
    max_step=st.sampled_from([0.0, 0.5, 10.0, 33.3, math.inf]),
    knowledge=st.sampled_from(["oracle", "warm_up", "contacts"]),
)
def test_flights_keep_the_rules(seed, kind, drawn, max_step, knowledge):
    part = kind(
        width=100.0,
        height=60.0,
        points=40,
        candidates=drawn,
        mobile=3,
        max_step=max_step,
        knowledge=knowledge,
        warm_up=3,
    )
    w = world(seed, reach=15.0)
    state, terrain = part.start(w), part.terrain(w)
    targets = {tuple(p) for p in terrain.coverage.points} | {tuple(p) for p in terrain.survey}
    for t in range(1, 12):
        after, paths = part.step(state, w, t)
        moved = np.hypot(*(after["position"] - state["position"]).T)
        assert (moved <= max_step * (1 + 1e-12)).all()
        assert (moved[3:] == 0).all()
        assert ((after["position"] >= 0) & (after["position"] <= SIZE)).all()
        assert (after["known"] >= state["known"]).all()
        near = np.hypot(*(after["position"][3:, None] - after["position"][None, :3]).transpose(2, 1, 0)) <= 15
        if knowledge != "oracle":
            np.testing.assert_array_equal(after["known"], state["known"] | near)
        under_way = (state["destination"] != state["position"][:3]).any(axis=1)
        if knowledge != "warm_up" or t > 3:
            assert (after["destination"][under_way] == state["destination"][under_way]).all()
            way = state["destination"] - state["position"][:3]
            done = after["position"][:3] - state["position"][:3]
            cross = way[:, 0] * done[:, 1] - way[:, 1] * done[:, 0]
            np.testing.assert_allclose(cross[under_way], 0, atol=1e-9)  # straight on
            expected = np.minimum(np.hypot(*way.T), max_step)
            np.testing.assert_allclose(np.hypot(*done.T)[under_way], expected[under_way], atol=1e-9)
            fresh = ~under_way & (after["destination"] != state["destination"]).any(axis=1)
            if knowledge != "warm_up":
                assert {tuple(p) for p in after["destination"][fresh]} <= targets
        np.testing.assert_array_equal(paths.end, after["position"])
        state = after


def test_unconstrained_dcm_is_always_at_a_centre():
    w = world(3, reach=60.0)
    dcm = DCMContinuous(mobile=3)
    at = {tuple(c) for c in centres(dcm, w)}
    state = dcm.start(w)
    for t in range(1, 15):
        state, _ = dcm.step(state, w, t)
        assert {tuple(p) for p in state["position"][:3]} <= at


def test_start_places_are_those_of_the_random_walk():
    w = world(5)
    for kind in (DAMContinuous, DCMContinuous):
        np.testing.assert_array_equal(kind().start(w)["position"], RandomWalk().start(w)["position"])


def test_exploring_finds_nearly_everybody():
    w = world(1, clients=20, reach=60.0)
    part = DCMContinuous(mobile=2, knowledge="contacts")
    state = part.start(w)
    assert state["known"].mean() < 0.5
    for t in range(1, 150):
        state, _ = part.step(state, w, t)
    assert seen_points(state, part.terrain(w).survey_points).mean() > 0.9
    assert state["known"].mean() > 0.9


def test_a_thousand_points_and_clients():
    w = world(0, clients=1010, reach=45.0)
    part = DCMContinuous(mobile=10)
    state, _ = part.step(part.start(w), w, 1)
    assert {tuple(place) for place in state["destination"]} <= {tuple(c) for c in centres(part, w)}
    assert part.terrain(w).coverage.covers[:, :].sum(axis=0).all()


def test_a_thousand_points_and_clients_are_not_looked_at_one_by_one():
    part, effort = DCMContinuous(mobile=10), []
    for clients in (110, 1010):
        w = world(0, clients=clients, reach=45.0)
        effort.append(calls(lambda w=w: part.step(part.start(w), w, 1)))
    assert effort[1] < 2 * effort[0]
