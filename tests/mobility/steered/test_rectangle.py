"""Candidate points, DAM and DCM in a continuous rectangle, against brute force and examples worked by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats
from scipy.stats import qmc

from fedroam.errors import InputError
from fedroam.mobility import World
from fedroam.mobility.random_walk import RandomWalk
from fedroam.mobility.steered.candidate_coverage import Chart, halton, jittered, uniform_within
from fedroam.mobility.steered.grid_coverage import greedy_cover
from fedroam.mobility.steered.other_targets import choose_point
from fedroam.mobility.steered.rectangle import DAMContinuous, DCMContinuous
from fedroam.randomness import stream
from support.effort import calls

DRAWN = ["halton", "jittered", "clients", "intersections"]
SIZE = np.array([100.0, 60.0])


def world(seed: int, clients: int = 12, reach: float = 15.0, classes: int = 10) -> World:
    counts = stream(seed, "test counts").integers(0, 50, size=(clients, classes))
    return World(seed, clients, counts, reach)


def chart(places, reach, drawn, number=200, counts=None, size=SIZE, seed=0) -> Chart:
    places = np.asarray(places, dtype=float).reshape(-1, 2)
    counts = np.eye(len(places), 3, dtype=int) if counts is None else np.asarray(counts)
    return Chart.of(places, counts, reach, size, drawn, number, stream(seed, "test"))


# --- candidate points -------------------------------------------------------------------------------------------


def test_halton_points_by_hand():
    # 1, 2, 3, 4 in base 2: .1 .01 .11 .001; in base 3: .1 .2 .01 .11; then one shift for all, modulo 1.
    plain = np.array([[1 / 2, 1 / 3], [1 / 4, 2 / 3], [3 / 4, 1 / 9], [1 / 8, 4 / 9]])
    shift = stream(7, "test").random(2)
    np.testing.assert_allclose(halton(4, stream(7, "test")), (plain + shift) % 1, atol=1e-15)
    np.testing.assert_array_equal(halton(50, stream(7, "test"))[:4], halton(4, stream(7, "test")))


def test_halton_points_are_far_more_even_than_random_ones():
    for seed in range(5):
        even = qmc.discrepancy(halton(500, stream(seed, "test")), method="WD")
        chance = qmc.discrepancy(stream(seed, "other").random((500, 2)), method="WD")
        assert even < chance / 10


@pytest.mark.parametrize("number", [1, 2, 7, 60, 101])
@pytest.mark.parametrize("size", [(100.0, 60.0), (1.0, 500.0), (500.0, 1.0)])
def test_jittered_points_lie_one_in_each_cell_of_equal_area(number, size):
    points = jittered(number, np.array(size), stream(1, "test")) / size
    assert points.shape == (number, 2)
    assert ((points >= 0) & (points <= 1)).all()
    # Columns take their share of the width: with k points in the columns so far, the next begins at k / number.
    columns = max(1, min(number, round(math.sqrt(number * size[0] / size[1]))))
    done = 0
    for j in range(columns):
        cells = (j + 1) * number // columns - j * number // columns
        own = points[done : done + cells]
        assert ((own[:, 0] >= done / number - 1e-12) & (own[:, 0] <= (done + cells) / number + 1e-12)).all()
        assert (np.floor(own[:, 1] * cells) == np.arange(cells)).all()
        done += cells
    assert done == number


def test_points_within_reach_are_uniform_over_the_disc_in_the_rectangle():
    # Around a corner the part of the disc is a quarter: squared distance and angle are uniform.
    draws, here = stream(3, "test"), np.zeros(2)
    points = np.array([uniform_within(here, 20.0, SIZE, draws) for _ in range(4000)])
    squared, angle = (points**2).sum(axis=1) / 400, np.arctan2(points[:, 1], points[:, 0]) / (np.pi / 2)
    assert stats.kstest(squared, "uniform").pvalue > 1e-3
    assert stats.kstest(angle, "uniform").pvalue > 1e-3
    everywhere = np.array([uniform_within(here, math.inf, SIZE, draws) for _ in range(4000)]) / SIZE
    assert all(stats.kstest(everywhere[:, k], "uniform").pvalue > 1e-3 for k in (0, 1))
    assert tuple(uniform_within(np.array([5.0, 7.0]), 0.0, SIZE, draws)) == (5.0, 7.0)


def test_intersections_by_hand():
    # Two clients 6 apart, reach 5: the circles meet 4 above and below the middle between them.
    found = chart([[50, 30], [56, 30]], 5.0, "intersections")
    both = found.points[(found.coverage.sum(axis=1) == 2)]
    np.testing.assert_allclose(sorted(both.tolist()), [[53, 26], [53, 34]], atol=1e-6)
    assert found.owners[(found.coverage.sum(axis=1) == 2)].tolist() == [[0, 1], [0, 1]]
    # Both near the lower edge of a rectangle so flat that the circles meet outside: the edges step in.
    flat = chart([[50, 0.1], [56, 0.1]], 5.0, "intersections", size=np.array([100.0, 1.0]))
    assert (flat.coverage.sum(axis=1) == 2).any()
    assert ((flat.points >= 0) & (flat.points <= [100, 1])).all()


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    statics=st.integers(1, 12),
    reach=st.sampled_from([0.0, 3.0, 15.0, 40.0, 1000.0, math.inf]),
    height=st.sampled_from([1.0, 60.0]),
)
def test_no_point_of_the_rectangle_covers_more_than_some_intersection(seed, statics, reach, height):
    draws, size = stream(seed, "test"), np.array([100.0, height])
    places = draws.random((statics, 2)) * size
    found = chart(places, reach, "intersections", size=size)
    sets = found.coverage.toarray().astype(bool)
    anywhere = np.concatenate([draws.random((300, 2)) * size, places])
    near = np.hypot(*(anywhere[:, None] - places[None]).transpose(2, 0, 1)) <= reach * (1 - 2e-9)
    for own in near:
        assert (sets[:, own].all(axis=1)).any()


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    drawn=st.sampled_from(DRAWN),
    reach=st.sampled_from([0.0, 3.0, 15.0, math.inf]),
    number=st.sampled_from([1, 5, 100]),
)
def test_charts_equal_brute_force(seed, drawn, reach, number):
    draws = stream(seed, "test")
    places, counts = draws.random((6, 2)) * SIZE, draws.integers(0, 3, size=(6, 3))
    known, own, here = draws.random(6) < 0.7, draws.integers(0, 3, size=3), draws.random(2) * SIZE
    found = chart(places, reach, drawn, number, counts)

    def mix(point):
        near = known & (np.hypot(*(places - point).T) <= reach)
        held = counts[near].sum(axis=0) + own
        return held / held.sum() if held.sum() else np.zeros(3)

    assert ((found.points >= 0) & (found.points <= SIZE)).all()
    near = np.hypot(*(found.points[:, None] - places[None]).transpose(2, 0, 1)) <= reach
    np.testing.assert_array_equal(found.coverage.toarray(), near)
    assert near.any(axis=0).all()  # everybody can be reached
    assert len(found.survey) == number
    expected = [np.linalg.norm(mix(point) - mix(here)) for point in found.points]
    np.testing.assert_allclose(found.distances(here, own, known), expected, atol=1e-12)
    rows = np.array([len(found.points) - 1, 0])
    np.testing.assert_array_equal(
        found.distances(here, own, known, rows), found.distances(here, own, known)[rows]
    )


@pytest.mark.parametrize("drawn", DRAWN)
def test_who_does_not_know_a_client_does_not_know_its_points(drawn):
    # Two clients known, two not: no allowed point comes from one of the unknown, and the known are covered.
    places = np.array([[10.0, 10.0], [50.0, 30.0], [55.0, 30.0], [90.0, 50.0]])
    found = chart(places, 4.0, drawn, number=12)
    known = np.array([True, True, False, False])
    allowed = found.allowed(known)
    assert found.allowed(np.ones(4, dtype=bool)).all()
    assert set(np.unique(found.owners[allowed])) <= {-1, 0, 1}
    assert not allowed[(found.owners == 3).any(axis=1)].any()
    assert (found.coverage.toarray()[allowed][:, known]).any(axis=0).all()
    # What is allowed is drawn up without the unknown: moving them changes none of it.
    moved = places.copy()
    moved[2:] = [[70.0, 5.0], [20.0, 50.0]]
    other = chart(moved, 4.0, drawn, number=12)
    mine = {tuple(p) for p in found.points[allowed]}
    theirs = {tuple(p) for p in other.points[other.allowed(known)]}
    if drawn == "clients":  # random points around one client depend on how many others drew before
        assert {(10, 10), (50, 30)} <= mine & theirs
    else:
        assert mine == theirs


# --- the two rules ----------------------------------------------------------------------------------------------


def test_hand_worked_choice_in_the_plane():
    # One candidate near A (4 of class 1), one near B (6 of class 2), one in the empty; the client holds 2 of class 0.
    places, counts, own = np.array([[10.0, 10.0], [90.0, 50.0]]), [[0, 4, 0], [0, 0, 6]], np.array([2, 0, 0])
    points = np.array([[12.0, 10.0], [88.0, 50.0], [50.0, 30.0]])
    coverage = sparse.csr_array(np.array([[1, 0], [0, 1], [0, 0]]))
    found = Chart(places, points, np.full((3, 2), -1), coverage, np.array(counts), points, 5.0)
    here, both = np.array([11.0, 12.0]), np.array([True, True])  # in reach of A: mix (1/3, 2/3, 0)
    near_b = math.sqrt((1 / 3 - 1 / 4) ** 2 + (2 / 3) ** 2 + (3 / 4) ** 2)
    alone = math.sqrt(2) * 2 / 3
    weights = found.distances(here, own, both)
    np.testing.assert_allclose(weights, [0, near_b, alone], atol=1e-12)
    share = near_b / (near_b + alone)
    assert tuple(choose_point(points, weights, 0.0, None)) == (88, 50)
    assert tuple(choose_point(points, weights, share - 1e-12, None)) == (88, 50)
    assert tuple(choose_point(points, weights, share + 1e-12, None)) == (50, 30)
    uniform = [tuple(choose_point(points, np.zeros(3), u, None)) for u in (0.1, 0.4, 0.9)]
    assert uniform == [tuple(point) for point in points]


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), drawn=st.sampled_from(DRAWN), reach=st.sampled_from([2.0, 15.0, 40.0]))
def test_centres_are_a_greedy_cover_of_the_known(seed, drawn, reach):
    draws = stream(seed, "test")
    places = draws.random((10, 2)) * SIZE
    found, known = chart(places, reach, drawn, 80, seed=seed), draws.random(10) < 0.7
    rows = greedy_cover(found.coverage, known, True, draws, allowed=found.allowed(known))
    allowed = np.flatnonzero(found.allowed(known))
    near, left = found.coverage.toarray().astype(bool) & known, known.copy()
    for row in rows:
        assert row in allowed
        best = near[allowed][:, left].sum(axis=1)
        assert near[row][left].sum() == best.max() > 0
        rivals = allowed[best == best.max()]
        assert near[row].sum() == near[rivals].sum(axis=1).max()
        left &= ~near[row]
    assert not left.any()


def test_the_exact_candidates_need_no_more_centres_than_many_points():
    # Greedy covers are not nested, so one world may go either way; over twenty, exact centres must not need more.
    exact, many, few = [], [], []
    for seed in range(20):
        w = world(seed, clients=40, reach=60.0)
        exact.append(len(DCMContinuous(candidates="intersections").clusters(w)))
        many.append(len(DCMContinuous(points=4000).clusters(w)))
        few.append(len(DCMContinuous(points=30).clusters(w)))
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
    w = world(seed)
    state = part.start(w)
    targets = {tuple(p) for p in part.ground(w).chart.points} | {
        tuple(p) for p in part.ground(w).chart.survey
    }
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
    centres = {tuple(c) for c in dcm.clusters(w)}
    state = dcm.start(w)
    for t in range(1, 15):
        state, _ = dcm.step(state, w, t)
        assert {tuple(p) for p in state["position"][:3]} <= centres


def test_start_places_are_those_of_the_random_walk():
    w = world(5)
    for kind in (DAMContinuous, DCMContinuous):
        np.testing.assert_array_equal(kind().start(w)["position"], RandomWalk().start(w)["position"])


def test_the_draws_of_one_do_not_depend_on_how_many_others_fly():
    w = world(5)
    few, many = (DAMContinuous(mobile=n, knowledge="warm_up", warm_up=9, max_step=40.0) for n in (2, 5))
    a, b = few.start(w), many.start(w)
    for t in range(1, 10):
        a, b = few.step(a, w, t)[0], many.step(b, w, t)[0]
        np.testing.assert_array_equal(a["position"][:2], b["position"][:2])


def test_exploring_finds_nearly_everybody():
    w = world(1, clients=20, reach=60.0)
    part = DCMContinuous(mobile=2, knowledge="contacts")
    state = part.start(w)
    assert state["known"].mean() < 0.5
    for t in range(1, 150):
        state, _ = part.step(state, w, t)
    assert state["seen"].mean() > 0.9
    assert state["known"].mean() > 0.9


def test_without_static_clients():
    w = world(0, clients=3)
    for part in (DCMContinuous(mobile=3), DAMContinuous(mobile=3, candidates="clients")):
        with pytest.raises(InputError, match=r"mobility.mobile = 3: all 3 clients move, and .* needs static"):
            part.start(w)
    dam = DAMContinuous(mobile=3)
    state, _ = dam.step(dam.start(w), w, 1)
    assert state["position"].shape == (3, 2)


def test_a_thousand_points_and_clients_are_not_looked_at_one_by_one():
    part, effort = DCMContinuous(mobile=10), []
    for clients in (110, 1010):
        w = world(0, clients=clients, reach=45.0)
        effort.append(calls(lambda w=w: part.step(part.start(w), w, 1)))
    assert effort[1] < 2 * effort[0]
