"""DAM and DCM against hand-worked examples, brute force and the papers' formulas."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedroam.errors import InputError
from fedroam.mobility import World
from fedroam.mobility.grid import grid_places
from fedroam.mobility.steered.grid import DAM, DCM, choose_by_distance, choose_centre, fly
from fedroam.mobility.steered.grid_coverage import Atlas, cluster_centres, mix_distances
from fedroam.randomness import stream

# A 5x5 grid, reach 1: static client A at (1, 1) holds 4 samples of class 1, B at (5, 5) holds 6 of class 2.
# The mobile client holds 2 samples of class 0 and is at (1, 2), within reach of A.
PLACES = np.array([[1.0, 1.0], [5.0, 5.0]])
COUNTS = np.array([[0, 4, 0], [0, 0, 6]])
OWN = np.array([2, 0, 0])
HERE = np.array([1.0, 2.0])
BOTH = np.array([True, True])
NEAR_B = math.sqrt((1 / 3 - 1 / 4) ** 2 + (2 / 3) ** 2 + (3 / 4) ** 2)  # mix (1/4, 0, 3/4)
ALONE = math.sqrt(2) * 2 / 3  # mix (1, 0, 0)


def atlas(reach: float = 1.0) -> Atlas:
    return Atlas.of(PLACES, COUNTS, reach, 5)


def world(seed: int, clients: int = 12, reach: float = 3.0, classes: int = 10) -> World:
    counts = stream(seed, "test counts").integers(0, 50, size=(clients, classes))
    return World(seed, clients, counts, reach)


def test_hand_worked_distances_and_probabilities():
    a = atlas()
    assert a.points.tolist() == [[1, 1], [1, 2], [2, 1], [4, 5], [5, 4], [5, 5]]
    assert a.uncovered == 19
    distance, elsewhere = mix_distances(a, HERE, OWN, BOTH)
    np.testing.assert_allclose(distance, [0, 0, 0, NEAR_B, NEAR_B, NEAR_B], atol=1e-12)
    assert elsewhere == pytest.approx(ALONE, abs=1e-12)


def probabilities() -> dict[tuple[float, float], float]:
    total = 3 * NEAR_B + 19 * ALONE
    every = {(float(x), float(y)): ALONE / total for x in range(1, 6) for y in range(1, 6)}
    every |= {(float(x), float(y)): 0.0 for x, y in [(1, 1), (1, 2), (2, 1)]}
    return every | {(float(x), float(y)): NEAR_B / total for x, y in [(4, 5), (5, 4), (5, 5)]}


def test_the_draw_gives_each_point_a_stretch_as_long_as_its_probability():
    # As a function of the uniform draw, the choice is a step function whose steps are the probabilities.
    fine, expected = 1000, probabilities()
    chosen = [tuple(choose_by_distance(atlas(), HERE, OWN, BOTH, (k + 0.5) / fine)) for k in range(fine)]
    for point, probability in expected.items():
        assert chosen.count(point) / fine == pytest.approx(probability, abs=1 / fine)
    # Exactly at the end of a stretch the next one begins; the first stretch of positive length is that of (4, 5).
    total = 3 * NEAR_B + 19 * ALONE
    first = NEAR_B / total
    assert tuple(choose_by_distance(atlas(), HERE, OWN, BOTH, 0.0)) == (4, 5)
    assert tuple(choose_by_distance(atlas(), HERE, OWN, BOTH, first - 1e-12)) == (4, 5)
    assert tuple(choose_by_distance(atlas(), HERE, OWN, BOTH, first + 1e-12)) == (5, 4)
    assert tuple(choose_by_distance(atlas(), HERE, OWN, BOTH, 3 * first - 1e-12)) == (5, 5)
    assert tuple(choose_by_distance(atlas(), HERE, OWN, BOTH, 3 * first + 1e-12)) == (1, 3)
    assert tuple(choose_by_distance(atlas(), HERE, OWN, BOTH, 1 - 1e-16)) == (5, 3)


@pytest.mark.slow
def test_100_000_draws_follow_the_probabilities():
    draws, chart = stream(0, "test draws").random(100_000), atlas()
    numbers = [
        int((x - 1) * 5 + y - 1) for x, y in (choose_by_distance(chart, HERE, OWN, BOTH, u) for u in draws)
    ]
    seen = np.bincount(numbers, minlength=25)
    expected = np.array([p for _, p in sorted(probabilities().items())])
    assert (seen[expected == 0] == 0).all()
    possible = expected > 0
    assert stats.chisquare(seen[possible], 100_000 * expected[possible]).pvalue > 1e-4


def test_what_is_not_known_does_not_count():
    # Knowing only A, the points near B look like any other empty place.
    distance, elsewhere = mix_distances(atlas(), HERE, OWN, np.array([True, False]))
    np.testing.assert_allclose(distance, [0, 0, 0, ALONE, ALONE, ALONE], atol=1e-12)
    assert elsewhere == pytest.approx(ALONE)


def test_no_samples_anywhere_in_range_count_as_a_mix_of_zeros():
    distance, elsewhere = mix_distances(atlas(), np.array([3.0, 3.0]), np.zeros(3, int), BOTH)
    np.testing.assert_allclose(distance, np.ones(6))
    assert elsewhere == 0


def test_equal_mixes_everywhere_give_a_uniform_choice():
    same = Atlas.of(PLACES, np.array([[1, 1], [3, 3]]), 1.0, 5)
    chosen = [choose_by_distance(same, HERE, np.array([2, 2]), BOTH, (k + 0.5) / 25) for k in range(25)]
    assert len({tuple(point) for point in chosen}) == 25


def test_centres_by_hand_with_ties():
    # Reach 1; A (1, 1) and B (1, 3) are both in reach of (1, 2) only; C (5, 5) alone, from three points.
    chart = Atlas.of(np.array([[1.0, 1.0], [1.0, 3.0], [5.0, 5.0]]), np.eye(3, dtype=int), 1.0, 5)
    everybody = np.ones(3, dtype=bool)
    seen = set()
    for seed in range(60):
        centres = cluster_centres(chart, everybody, "coverage", "grid", stream(seed, "test"))
        assert centres[0].tolist() == [1, 2]
        assert len(centres) == 2
        seen.add(tuple(centres[1]))
    assert seen == {(5, 5), (4, 5), (5, 4)}
    # After the first, only at clients not yet covered: C's own place.
    own = cluster_centres(chart, everybody, "coverage", "clients", stream(0, "test"))
    assert own.tolist() == [[1, 2], [5, 5]]


def test_ties_by_all_clients_covered_or_at_random():
    # Reach 1 in a row: A (1,1), B (2,1), C (3,1), D (4,1), E (5,3). (2,1) covers A B C, (3,1) covers B C D.
    # After (2, 1), D is left: from (3,1) (covers three in all), (4,1) (two), (5,1) and (4,2) (one each).
    places = np.array([[1.0, 1.0], [2.0, 1.0], [3.0, 1.0], [4.0, 1.0], [5.0, 3.0]])
    chart = Atlas.of(places, np.eye(5, dtype=int), 1.0, 5)
    everybody = np.ones(5, dtype=bool)
    by_coverage, at_random = set(), set()
    for seed in range(200):
        for ties, found in (("coverage", by_coverage), ("random", at_random)):
            centres = cluster_centres(chart, everybody, ties, "grid", stream(seed, "test")).tolist()
            if centres[0] == [2, 1]:
                of_d = next(c for c in centres[1:] if abs(c[0] - 4) + abs(c[1] - 1) <= 1)
                found.add(tuple(of_d))
    assert by_coverage == {(3, 1)}
    assert at_random >= {(3, 1), (4, 1), (5, 1), (4, 2)}


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    statics=st.integers(1, 15),
    reach=st.sampled_from([0.0, 1.0, 1.5, 3.0, math.inf]),
)
def test_centres_are_a_greedy_cover(seed, statics, reach):
    grid, draws = 7, stream(seed, "test")
    places = draws.integers(1, grid + 1, size=(statics, 2)).astype(float)
    chart = Atlas.of(places, np.ones((statics, 2), int), reach, grid)
    centres = cluster_centres(chart, np.ones(statics, bool), "coverage", "grid", draws)
    xs, ys = np.meshgrid(np.arange(1, grid + 1), np.arange(1, grid + 1), indexing="ij")
    every = np.stack([xs.ravel(), ys.ravel()], axis=1)
    near = np.hypot(*(every[:, None, :] - places[None, :, :]).transpose(2, 0, 1)) <= reach
    left = np.ones(statics, bool)
    for centre in centres:  # brute force: no grid point covers more of those left
        own = np.hypot(*(places - centre).T) <= reach
        best = near[:, left].sum(axis=1)
        assert own[left].sum() == best.max() > 0
        rivals = best == best.max()
        assert own.sum() == near[rivals].sum(axis=1).max()
        left &= ~own
    assert not left.any()


def test_centres_are_drawn_by_distance():
    centres = np.array([[1.0, 1.0], [4.0, 5.0], [5.0, 5.0]])
    chosen = [
        tuple(choose_centre(atlas(), centres, HERE, OWN, BOTH, u)) for u in (0.0, 0.4999, 0.5001, 0.9999)
    ]
    assert chosen == [(4, 5), (4, 5), (5, 5), (5, 5)]  # the first lies at distance 0: never chosen
    only = centres[:1]
    assert tuple(choose_centre(atlas(), only, HERE, OWN, BOTH, 0.7)) == (1, 1)  # all distances 0: uniform


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
    centres = {tuple(c) for c in dcm.clusters(w)}
    state, other = dcm.start(w), dam.start(w)
    for t in range(1, 20):
        state, _ = dcm.step(state, w, t)
        assert {tuple(p) for p in state["position"][:2]} <= centres
        before = other["position"][:2]
        other, _ = dam.step(other, w, t)
        assert (other["position"][:2] != before).any(axis=1).all()


def test_patterns_start_from_the_same_places():
    w = world(5)
    np.testing.assert_array_equal(DAM().start(w)["position"], grid_places(w, 18))
    np.testing.assert_array_equal(DCM().start(w)["position"], grid_places(w, 18))


def test_the_draws_of_one_do_not_depend_on_how_many_others_fly():
    w = world(5)
    few, many = (DAM(mobile=n, knowledge="warm_up", warm_up=9, max_step=4.0) for n in (2, 5))
    a, b = few.start(w), many.start(w)
    for t in range(1, 10):
        a, b = few.step(a, w, t)[0], many.step(b, w, t)[0]
        np.testing.assert_array_equal(a["position"][:2], b["position"][:2])


@pytest.mark.parametrize("kind", [DAM, DCM])
def test_after_the_warm_up_those_who_know_nobody_go_on_moving_until_they_do(kind):
    for seed in range(5):
        w = world(seed, clients=20, reach=1.0)
        part = kind(grid=18, mobile=5, max_step=5.0, knowledge="warm_up", warm_up=0)
        state = part.start(w)
        for t in range(1, 120):
            state, _ = part.step(state, w, t)
        assert state["known"].any(axis=1).all()


@pytest.mark.parametrize("kind", [DAM, DCM])
@pytest.mark.parametrize("knowledge", ["oracle", "warm_up", "contacts"])
def test_a_resumed_flight_goes_on_in_the_same_way(kind, knowledge):
    part = kind(grid=8, mobile=3, max_step=2.5, knowledge=knowledge, warm_up=2)
    w, again = world(4, reach=2.0), world(4, reach=2.0)
    state = part.start(w)
    for t in range(1, 8):
        resumed = {name: array.copy() for name, array in state.items()}
        state, _ = part.step(state, w, t)
        other, _ = part.step(resumed, again, t)
        for name in state:
            np.testing.assert_array_equal(state[name], other[name])


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000), reach=st.sampled_from([0.0, 1.0, 2.5, math.inf]), statics=st.integers(0, 4)
)
def test_distances_equal_brute_force_over_the_grid(seed, reach, statics):
    grid, draws = 6, stream(seed, "test")
    places = draws.integers(1, grid + 1, size=(statics, 2)).astype(float)
    counts, own = draws.integers(0, 3, size=(statics, 3)), draws.integers(0, 3, size=3)
    here, known = draws.integers(1, grid + 1, size=2).astype(float), draws.random(statics) < 0.7

    def mix(point):
        near = known & (np.hypot(*(places - point).T) <= reach)
        held = counts[near].sum(axis=0) + own
        return held / held.sum() if held.sum() else np.zeros(3)

    chart = Atlas.of(places, counts, reach, grid)
    distance, elsewhere = mix_distances(chart, here, own, known)
    for x in range(1, grid + 1):
        for y in range(1, grid + 1):
            row = chart.row(np.array([x, y], float))
            expected = np.linalg.norm(mix(np.array([x, y])) - mix(here))
            assert (elsewhere if row is None else distance[row]) == pytest.approx(expected, abs=1e-12)


def test_knowledge_grows_by_contacts_only():
    w = world(1, clients=10, reach=2.0)
    part = DAM(grid=10, mobile=2, knowledge="contacts")
    state = part.start(w)
    near = np.hypot(*(state["position"][2:, None] - state["position"][None, :2]).transpose(2, 1, 0)) <= 2.0
    np.testing.assert_array_equal(state["known"], near)
    met = state["known"].copy()
    for t in range(1, 60):
        state, _ = part.step(state, w, t)
        near = (
            np.hypot(*(state["position"][2:, None] - state["position"][None, :2]).transpose(2, 1, 0)) <= 2.0
        )
        met |= near
        np.testing.assert_array_equal(state["known"], met)
    assert met.all()  # exploring finds everybody


def test_warm_up_moves_at_random_then_steers_by_what_it_saw():
    w = world(2, reach=2.0)
    part = DCM(grid=8, mobile=2, knowledge="warm_up", warm_up=5)
    state = part.start(w)
    for t in range(1, 6):
        state, _ = part.step(state, w, t)
    assert state["known"].any()
    assert not state["known"].all()
    for t in range(6, 12):
        before, (state, _) = state["known"], part.step(state, w, t)
        for m in range(2):  # unconstrained: it is where it chose to go, by what it knew when it chose
            assert tuple(state["position"][m]) in {tuple(c) for c in part.clusters(w, before[m])}


def test_dcm_needs_a_static_client_and_dam_does_without():
    w = world(0, clients=3)
    with pytest.raises(InputError, match=r"mobility.mobile = 3: all 3 clients move"):
        DCM(mobile=3).start(w)
    dam = DAM(grid=4, mobile=3)
    state, _ = dam.step(dam.start(w), w, 1)
    assert state["position"].shape == (3, 2)


@pytest.mark.slow
def test_a_large_grid_takes_seconds():
    w = world(0, clients=1000, reach=3.0)
    dcm = DCM(grid=1000, mobile=50)
    state = dcm.start(w)
    state, _ = dcm.step(state, w, 1)
    assert 100 < len(dcm.clusters(w)) <= 950
