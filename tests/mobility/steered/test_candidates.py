"""Candidate points in a rectangle, against brute force and examples worked by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import qmc

from fedroam.mobility.steered.candidates import candidate_points, halton, jittered, uniform_within
from fedroam.mobility.steered.coverage import CoverageMap
from fedroam.randomness import stream

SIZE = np.array([100.0, 60.0])


def intersections(places, reach, size=SIZE) -> CoverageMap:
    places = np.asarray(places, dtype=float)
    counts, draws = np.eye(len(places), 3, dtype=int), stream(0, "test")
    points, owners = candidate_points(np.zeros((0, 2)), places, reach, size, "intersections", draws)
    return CoverageMap.of_candidates(places, counts, reach, points, owners)


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
    found = intersections([[50, 30], [56, 30]], 5.0)
    both = found.points[(found.covers.sum(axis=1) == 2)]
    np.testing.assert_allclose(sorted(both.tolist()), [[53, 26], [53, 34]], atol=1e-6)
    assert found.owners[(found.covers.sum(axis=1) == 2)].tolist() == [[0, 1], [0, 1]]
    # Both near the lower edge of a rectangle so flat that the circles meet outside: the edges step in.
    flat = intersections([[50, 0.1], [56, 0.1]], 5.0, size=np.array([100.0, 1.0]))
    assert (flat.covers.sum(axis=1) == 2).any()
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
    found = intersections(places, reach, size=size)
    sets = found.covers.toarray().astype(bool)
    anywhere = np.concatenate([draws.random((300, 2)) * size, places])
    near = np.hypot(*(anywhere[:, None] - places[None]).transpose(2, 0, 1)) <= reach * (1 - 2e-9)
    for own in near:
        assert (sets[:, own].all(axis=1)).any()
