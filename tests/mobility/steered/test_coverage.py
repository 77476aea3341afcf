"""Coverage maps and greedy clusters, of grids and of candidate points, against hand-worked examples and brute force."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedroam.mobility.steered.candidates import candidate_points, evenly_spread
from fedroam.mobility.steered.coverage import CoverageMap, Flyer
from fedroam.randomness import stream
from support.steering import grid_terrain, row

# A 5x5 grid, reach 1: static client A at (1, 1) holds 4 samples of class 1, B at (5, 5) holds 6 of class 2.
# The mobile client holds 2 samples of class 0 and is at (1, 2), within reach of A.
PLACES = np.array([[1.0, 1.0], [5.0, 5.0]])
COUNTS = np.array([[0, 4, 0], [0, 0, 6]])
FLYER = Flyer(np.array([1.0, 2.0]), np.array([2, 0, 0]), np.array([True, True]))
NEAR_B = math.sqrt((1 / 3 - 1 / 4) ** 2 + (2 / 3) ** 2 + (3 / 4) ** 2)  # mix (1/4, 0, 3/4)
ALONE = math.sqrt(2) * 2 / 3  # mix (1, 0, 0)

DRAWN = ["halton", "jittered", "clients", "intersections"]
SIZE = np.array([100.0, 60.0])


def of_candidates(places, reach, drawn, number=200, counts=None, size=SIZE, seed=0) -> CoverageMap:
    places = np.asarray(places, dtype=float).reshape(-1, 2)
    counts = np.eye(len(places), 3, dtype=int) if counts is None else np.asarray(counts)
    draws = stream(seed, "test")
    survey = evenly_spread(number, size, drawn, draws)
    assert len(survey) == number
    return CoverageMap.of_candidates(
        places, counts, reach, *candidate_points(survey, places, reach, size, drawn, draws)
    )


# --- on a grid --------------------------------------------------------------------------------------------------


def test_hand_worked_distances():
    coverage = CoverageMap.of_grid(PLACES, COUNTS, 1.0, 5)
    assert coverage.points.tolist() == [[1, 1], [1, 2], [2, 1], [4, 5], [5, 4], [5, 5]]
    np.testing.assert_allclose(coverage.mix_here(FLYER), [1 / 3, 2 / 3, 0], atol=1e-12)
    distance = coverage.distances(FLYER, coverage.mix_here(FLYER))
    np.testing.assert_allclose(distance, [0, 0, 0, NEAR_B, NEAR_B, NEAR_B], atol=1e-12)


def test_what_is_not_known_does_not_count():
    # Knowing only A, the points near B look like any other empty place.
    terrain = grid_terrain(PLACES, COUNTS, 1.0, 5)
    targets = terrain.everywhere(Flyer(FLYER.here, FLYER.own, np.array([True, False])))
    np.testing.assert_allclose(targets.weights, [0, 0, 0, ALONE, ALONE, ALONE], atol=1e-12)
    assert targets.elsewhere == pytest.approx(ALONE)


def test_no_samples_anywhere_in_range_count_as_a_mix_of_zeros():
    terrain = grid_terrain(PLACES, COUNTS, 1.0, 5)
    targets = terrain.everywhere(Flyer(np.array([3.0, 3.0]), np.zeros(3, int), FLYER.known))
    np.testing.assert_allclose(targets.weights, np.ones(6))
    assert targets.elsewhere == 0


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

    terrain = grid_terrain(places, counts, reach, grid)
    targets = terrain.everywhere(Flyer(here, own, known))
    for x in range(1, grid + 1):
        for y in range(1, grid + 1):
            at = row(terrain.coverage, (x, y))
            expected = np.linalg.norm(mix(np.array([x, y])) - mix(here))
            found = targets.elsewhere if at is None else targets.weights[at]
            assert found == pytest.approx(expected, abs=1e-12)


def grid_centres(coverage: CoverageMap, ties: str, draws: np.random.Generator, seats=None) -> np.ndarray:
    everybody = np.ones(len(coverage.places), dtype=bool)
    return coverage.points[coverage.centres(everybody, ties == "coverage", draws, seats)]


def test_centres_by_hand_with_ties():
    # Reach 1; A (1, 1) and B (1, 3) are both in reach of (1, 2) only; C (5, 5) alone, from three points.
    places = np.array([[1.0, 1.0], [1.0, 3.0], [5.0, 5.0]])
    terrain = grid_terrain(places, np.eye(3, dtype=int), 1.0, 5)
    seen = set()
    for seed in range(60):
        centres = grid_centres(terrain.coverage, "coverage", stream(seed, "test"))
        assert centres[0].tolist() == [1, 2]
        assert len(centres) == 2
        seen.add(tuple(centres[1]))
    assert seen == {(5, 5), (4, 5), (5, 4)}
    # After the first, only at clients not yet covered: C's own place.
    own = grid_centres(terrain.coverage, "coverage", stream(0, "test"), terrain.seats())
    assert own.tolist() == [[1, 2], [5, 5]]


def test_ties_by_all_clients_covered_or_at_random():
    # Reach 1 in a row: A (1,1), B (2,1), C (3,1), D (4,1), E (5,3). (2,1) covers A B C, (3,1) covers B C D.
    # After (2, 1), D is left: from (3,1) (covers three in all), (4,1) (two), (5,1) and (4,2) (one each).
    places = np.array([[1.0, 1.0], [2.0, 1.0], [3.0, 1.0], [4.0, 1.0], [5.0, 3.0]])
    coverage = CoverageMap.of_grid(places, np.eye(5, dtype=int), 1.0, 5)
    by_coverage, at_random = set(), set()
    for seed in range(200):
        for ties, found in (("coverage", by_coverage), ("random", at_random)):
            centres = grid_centres(coverage, ties, stream(seed, "test")).tolist()
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
def test_centres_on_a_grid_are_a_greedy_cover(seed, statics, reach):
    grid, draws = 7, stream(seed, "test")
    places = draws.integers(1, grid + 1, size=(statics, 2)).astype(float)
    coverage = CoverageMap.of_grid(places, np.ones((statics, 2), int), reach, grid)
    centres = grid_centres(coverage, "coverage", draws)
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
    coverage = CoverageMap.of_grid(PLACES, COUNTS, 1.0, 5)
    rows = np.array([row(coverage, point) for point in [(1, 1), (4, 5), (5, 5)]])
    targets = coverage.targets(FLYER, rows)
    chosen = [tuple(targets.draw(u)) for u in (0.0, 0.4999, 0.5001, 0.9999)]
    assert chosen == [(4, 5), (4, 5), (5, 5), (5, 5)]  # the first lies at distance 0: never chosen
    assert tuple(coverage.targets(FLYER, rows[:1]).draw(0.7)) == (1, 1)  # all distances 0: uniform


# --- of candidate points ----------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    drawn=st.sampled_from(DRAWN),
    reach=st.sampled_from([0.0, 3.0, 15.0, math.inf]),
    number=st.sampled_from([1, 5, 100]),
)
def test_coverage_and_distances_equal_brute_force_over_candidates(seed, drawn, reach, number):
    draws = stream(seed, "test")
    places, counts = draws.random((6, 2)) * SIZE, draws.integers(0, 3, size=(6, 3))
    known, own, here = draws.random(6) < 0.7, draws.integers(0, 3, size=3), draws.random(2) * SIZE
    found, flyer = of_candidates(places, reach, drawn, number, counts), Flyer(here, own, known)

    def mix(point):
        near = known & (np.hypot(*(places - point).T) <= reach)
        held = counts[near].sum(axis=0) + own
        return held / held.sum() if held.sum() else np.zeros(3)

    assert ((found.points >= 0) & (found.points <= SIZE)).all()
    near = np.hypot(*(found.points[:, None] - places[None]).transpose(2, 0, 1)) <= reach
    np.testing.assert_array_equal(found.covers.toarray(), near)
    assert near.any(axis=0).all()  # everybody can be reached
    distances = found.distances(flyer, found.mix_here(flyer))
    expected = [np.linalg.norm(mix(point) - mix(here)) for point in found.points]
    np.testing.assert_allclose(distances, expected, atol=1e-12)
    rows = np.array([len(found.points) - 1, 0])
    targets = found.targets(flyer, rows)
    np.testing.assert_array_equal(targets.weights, distances[rows])
    np.testing.assert_array_equal(targets.points, found.points[rows])


@pytest.mark.parametrize("drawn", DRAWN)
def test_who_does_not_know_a_client_does_not_know_its_points(drawn):
    # Two clients known, two not: no allowed point comes from one of the unknown, and the known are covered.
    places = np.array([[10.0, 10.0], [50.0, 30.0], [55.0, 30.0], [90.0, 50.0]])
    found = of_candidates(places, 4.0, drawn, number=12)
    known = np.array([True, True, False, False])
    allowed = found.allowed(known)
    assert found.allowed(np.ones(4, dtype=bool)).all()
    assert set(np.unique(found.owners[allowed])) <= {-1, 0, 1}
    assert not allowed[(found.owners == 3).any(axis=1)].any()
    assert (found.covers.toarray()[allowed][:, known]).any(axis=0).all()
    # What is allowed is drawn up without the unknown: moving them changes none of it.
    moved = places.copy()
    moved[2:] = [[70.0, 5.0], [20.0, 50.0]]
    other = of_candidates(moved, 4.0, drawn, number=12)
    mine = {tuple(p) for p in found.points[allowed]}
    theirs = {tuple(p) for p in other.points[other.allowed(known)]}
    if drawn == "clients":  # random points around one client depend on how many others drew before
        assert {(10, 10), (50, 30)} <= mine & theirs
    else:
        assert mine == theirs


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), drawn=st.sampled_from(DRAWN), reach=st.sampled_from([2.0, 15.0, 40.0]))
def test_centres_among_candidates_are_a_greedy_cover_of_the_known(seed, drawn, reach):
    draws = stream(seed, "test")
    places = draws.random((10, 2)) * SIZE
    found, known = of_candidates(places, reach, drawn, 80, seed=seed), draws.random(10) < 0.7
    rows = found.centres(known, True, draws)
    allowed = np.flatnonzero(found.allowed(known))
    near, left = found.covers.toarray().astype(bool) & known, known.copy()
    for at in rows:
        assert at in allowed
        best = near[allowed][:, left].sum(axis=1)
        assert near[at][left].sum() == best.max() > 0
        rivals = allowed[best == best.max()]
        assert near[at].sum() == near[rivals].sum(axis=1).max()
        left &= ~near[at]
    assert not left.any()
