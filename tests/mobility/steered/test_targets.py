"""Targets and their discount against closed forms, numerical areas and the weights themselves."""

import math

import numpy as np
import pytest
from scipy import stats

from fedroam.mobility.steered.targets import OtherTargets, Targets, overlap
from fedroam.randomness import stream


def test_overlap_in_closed_form():
    # One radius apart the lens is 2 pi / 3 - sqrt(3) / 2 of a unit disc's pi (a classic); at 0 all, from 2 on none.
    lens = (2 * math.pi / 3 - math.sqrt(3) / 2) / math.pi
    apart = np.array([0.0, 1.0, 2.0, 2.5]) * 7.0
    np.testing.assert_allclose(overlap(apart, 7.0), [1, lens, 0, 0], atol=1e-15)
    assert overlap(apart, 7.0)[0] == 1.0  # exactly: nobody flies where another heads for
    assert overlap(np.array([0.0, 1e-9]), 0.0).tolist() == [1.0, 0.0]
    assert overlap(np.array([0.0, 1e9]), math.inf).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("apart", [0.3, 1.0, 1.7])
def test_overlap_is_the_share_of_the_area(apart):
    side = (np.arange(1000) + 0.5) / 500 - 1
    x, y = np.meshgrid(side, side)
    inside = np.hypot(x, y) <= 1
    share = (np.hypot(x[inside] - apart, y[inside]) <= 1).mean()
    assert overlap(np.array([apart]), 1.0)[0] == pytest.approx(share, abs=1e-3)


def test_discounts_of_several_multiply():
    lens = (2 * math.pi / 3 - math.sqrt(3) / 2) / math.pi
    others = OtherTargets.of(np.array([[0.0, 0.0], [0.0, 6.0]]), 3.0, 0.5)
    points = np.array([[0.0, 3.0], [3.0, 0.0], [0.0, 0.0], [50.0, 0.0]])
    expected = [
        (1 - lens / 2) ** 2,
        (1 - lens / 2) * (1 - overlap(np.array([math.sqrt(45)]), 3.0)[0] / 2),
        0.5,
        1,
    ]
    np.testing.assert_allclose(others.unserved(points), expected, atol=1e-12)


def test_nothing_to_discount_where_no_target_loses_more_than_another():
    one = np.zeros((1, 2))
    assert OtherTargets.of(one[:0], 3.0, 1.0) is None
    assert OtherTargets.of(one, 3.0, 0.0) is None
    assert OtherTargets.of(one, math.inf, 1.0) is None


def test_places_are_drawn_by_weight():
    points = np.array([[12.0, 10.0], [88.0, 50.0], [50.0, 30.0]])
    targets = Targets(points, np.array([0.0, 1.0, 3.0]))
    assert tuple(targets.draw(0.0)) == (88, 50)  # the first weighs nothing
    assert tuple(targets.draw(0.25 - 1e-12)) == (88, 50)
    assert tuple(targets.draw(0.25 + 1e-12)) == (50, 30)
    assert tuple(targets.draw(1 - 1e-16)) == (50, 30)
    equal = Targets(points, np.zeros(3))
    assert [tuple(equal.draw(u)) for u in (0.1, 0.4, 0.9)] == [tuple(point) for point in points]


def test_where_the_others_leave_nothing_the_weights_alone_decide():
    points = np.array([[1.0, 1.0], [2.0, 1.0]])
    targets, others = Targets(points, np.array([1.0, 3.0])), OtherTargets.of(points, 0.0, 1.0)
    assert not others.unserved(points).any()
    for draw in (0.1, 0.24, 0.26, 0.9):
        assert tuple(targets.draw(draw, others)) == tuple(targets.draw(draw))


@pytest.mark.slow
def test_draws_of_the_plane_follow_the_discounted_weights():
    draws = stream(0, "test")
    points, weights = draws.random((30, 2)) * 100, draws.random(30)
    targets, others = Targets(points, weights), OtherTargets.of(points[:3] + 5, 20.0, 1.0)
    expected = weights * others.unserved(points)
    index = {tuple(p): k for k, p in enumerate(points)}
    seen = np.bincount([index[tuple(targets.draw(u, others))] for u in draws.random(15_000)], minlength=30)
    assert stats.chisquare(seen, 15_000 * expected / expected.sum()).pvalue > 1e-4
