"""Spread: the discount against closed forms and numerical areas; its choices against brute force."""

import hashlib
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedroam.components import build
from fedroam.errors import InputError
from fedroam.mobility import World
from fedroam.mobility.steered.grid import DAM, DCM, choose_by_distance, choose_centre
from fedroam.mobility.steered.grid_coverage import Atlas, mix_distances
from fedroam.mobility.steered.other_targets import Crowd, choose_point, overlap
from fedroam.mobility.steered.rectangle import DAMContinuous, DCMContinuous
from fedroam.mobility.steered.spread import Spread, SpreadContinuous
from fedroam.randomness import stream


def world(seed: int, clients: int = 20, reach: float = 3.0, classes: int = 10) -> World:
    counts = stream(seed, "test counts").integers(0, 50, size=(clients, classes))
    return World(seed, clients, counts, reach)


# --- the discount -----------------------------------------------------------------------------------------------


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
    crowd = Crowd.of(np.array([[0.0, 0.0], [0.0, 6.0]]), 3.0, 0.5)
    points = np.array([[0.0, 3.0], [3.0, 0.0], [0.0, 0.0], [50.0, 0.0]])
    expected = [
        (1 - lens / 2) ** 2,
        (1 - lens / 2) * (1 - overlap(np.array([math.sqrt(45)]), 3.0)[0] / 2),
        0.5,
        1,
    ]
    np.testing.assert_allclose(crowd.fresh(points), expected, atol=1e-12)


def test_no_crowd_where_no_target_loses_more_than_another():
    one = np.zeros((1, 2))
    assert Crowd.of(one[:0], 3.0, 1.0) is None
    assert Crowd.of(one, 3.0, 0.0) is None
    assert Crowd.of(one, math.inf, 1.0) is None


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
    chart, known = Atlas.of(places, counts, reach, grid), np.ones(4, dtype=bool)
    crowd = Crowd.of(taken, reach, discount)
    distance, elsewhere = mix_distances(chart, here, own, known)
    weights = {}
    for x, y in itertools.product(range(1, grid + 1), repeat=2):
        point = np.array([x, y], float)
        row = chart.row(point)
        weight = 1.0 if alike else float(elsewhere if row is None else distance[row])
        for place in taken:
            weight *= 1 - discount * overlap(np.hypot(*(point - place))[None], reach)[0]
        weights[x, y] = weight
    total = sum(weights.values())
    found = steps_of(lambda u: choose_by_distance(chart, here, own, known, u, crowd), fine)
    for point, weight in weights.items():
        assert found.get(point, 0.0) == pytest.approx(weight / total, abs=2 / fine)
        assert weight > 0 or point not in found


def test_choices_among_centres_have_the_discounted_probabilities():
    chart = Atlas.of(np.array([[1.0, 1.0], [5.0, 5.0], [1.0, 5.0]]), np.eye(3, dtype=int), 1.0, 5)
    centres, here, own = chart.places, np.array([5.0, 1.0]), np.array([0, 0, 1])
    every = np.ones(3, dtype=bool)
    distance, _ = mix_distances(chart, here, own, every)
    weights = np.array([distance[chart.row(c)] for c in centres])
    assert (weights > 0).tolist() == [True, True, False]
    taken = np.array([[2.0, 1.0]])  # one away from the first
    crowd = Crowd.of(taken, 1.0, 1.0)
    weights = weights * crowd.fresh(centres)
    found = steps_of(lambda u: choose_centre(chart, centres, here, own, every, u, crowd), 2000)
    assert set(found) == {(1, 1), (5, 5)}
    assert found[1, 1] == pytest.approx(weights[0] / weights.sum(), abs=1e-3)


def test_where_the_crowd_leaves_nothing_the_base_rule_decides():
    points, weights = np.array([[1.0, 1.0], [2.0, 1.0]]), np.array([1.0, 3.0])
    crowd = Crowd.of(points, 0.0, 1.0)
    assert not crowd.fresh(points).any()
    for draw in (0.1, 0.24, 0.26, 0.9):
        assert tuple(choose_point(points, weights, draw, crowd)) == tuple(
            choose_point(points, weights, draw, None)
        )
    # On the grid too: two points, both taken.
    chart = Atlas.of(np.array([[1.0, 1.0]]), np.array([[3, 0]]), 0.0, 1)
    every = np.array([True])
    assert tuple(choose_by_distance(chart, np.array([1.0, 1.0]), np.array([0, 1]), every, 0.5, crowd)) == (
        1,
        1,
    )


@pytest.mark.slow
def test_draws_of_the_plane_follow_the_discounted_weights():
    draws = stream(0, "test")
    points, weights = draws.random((30, 2)) * 100, draws.random(30)
    crowd = Crowd.of(points[:3] + 5, 20.0, 1.0)
    expected = weights * crowd.fresh(points)
    index = {tuple(p): k for k, p in enumerate(points)}
    seen = np.bincount(
        [index[tuple(choose_point(points, weights, u, crowd))] for u in draws.random(50_000)], minlength=30
    )
    assert stats.chisquare(seen, 50_000 * expected / expected.sum()).pvalue > 1e-4


# --- the patterns -----------------------------------------------------------------------------------------------

BASES = {
    ("spread", "dam"): DAM,
    ("spread", "dcm"): DCM,
    ("spread_continuous", "dam"): DAMContinuous,
    ("spread_continuous", "dcm"): DCMContinuous,
}


def walk(part, w: World, rounds: int = 25):
    state = part.start(w)
    yield state
    for t in range(1, rounds + 1):
        state, _ = part.step(state, w, t)
        yield state


@pytest.mark.parametrize(("kind", "base"), list(BASES))
@pytest.mark.parametrize("knowledge", ["oracle", "warm_up", "contacts"])
@pytest.mark.parametrize("alone", ["one mobile client", "no discount", "reach without end"])
def test_equals_its_base_rule_where_nobody_is_to_be_avoided(kind, base, knowledge, alone):
    reach = math.inf if alone == "reach without end" else 3.0 if kind == "spread" else 60.0
    common = {
        "mobile": 1 if alone == "one mobile client" else 4,
        "knowledge": knowledge,
        "max_step": 4.0 if kind == "spread" else 90.0,
        "warm_up": 5,
    }
    spread = build(
        "mobility", {"kind": kind, "base": base, "discount": 0.0 if alone == "no discount" else 1.0, **common}
    )
    for one, other in zip(
        walk(spread, world(3, reach=reach)),
        walk(BASES[kind, base](**common), world(3, reach=reach)),
        strict=True,
    ):
        assert sorted(one) == sorted(other)
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])


@pytest.mark.parametrize("settings", [{"ties": "random"}, {"centres": "clients"}, {"approach": "on_line"}])
def test_the_settings_of_the_base_rule_are_handed_on(settings):
    for one, other in zip(
        walk(Spread(mobile=1, max_step=4.0, **settings), world(5)),
        walk(DCM(mobile=1, max_step=4.0, **settings), world(5)),
        strict=True,
    ):
        np.testing.assert_array_equal(one["position"], other["position"])


@pytest.mark.parametrize(("kind", "base"), list(BASES))
@pytest.mark.parametrize("far", [False, True])
def test_nobody_draws_the_place_another_heads_for(kind, base, far):
    plane = kind == "spread_continuous"
    step = math.inf if far else 90.0 if plane else 4.0
    part = build("mobility", {"kind": kind, "base": base, "mobile": 4, "max_step": step})
    plain = BASES[kind, base](mobile=4, max_step=step)

    def clashes(pattern) -> int:
        count = 0
        for seed in range(6):
            states = list(walk(pattern, world(seed, clients=24, reach=60.0 if plane else 3.0)))
            for before, after in itertools.pairwise(states):
                under_way = (before["destination"] != before["position"][:4]).any(axis=1)
                for m in np.flatnonzero(~under_way):
                    heard = under_way | (np.arange(4) < m)
                    same = (after["destination"] == after["destination"][m]).all(axis=1)
                    count += int((same & heard).any())
        return count

    assert clashes(part) == 0
    if base == "dcm":  # among few centres the base rule does meet
        assert clashes(plain) > 10


def test_more_clients_are_served_at_once_than_by_dcm():
    def served(part) -> float:
        shares = []
        for seed in range(8):
            for state in itertools.islice(walk(part, world(seed), 40), 1, None):
                gap = state["position"][5:, None] - state["position"][None, :5]
                shares.append((np.hypot(gap[..., 0], gap[..., 1]) <= 3.0).any(axis=1).mean())
        return float(np.mean(shares))

    assert served(Spread(mobile=5)) > served(DCM(mobile=5)) + 0.05


def test_all_clients_mobile():
    w = world(0, clients=3)
    with pytest.raises(
        InputError, match=r"mobility.mobile = 3: all 3 clients move, and dcm needs static ones"
    ):
        Spread(mobile=3).start(w)
    for part in (Spread(base="dam", mobile=3), SpreadContinuous(base="dam", mobile=3)):
        state, _ = part.step(part.start(w), w, 1)
        assert len({tuple(place) for place in state["position"]}) == 3


def test_a_large_grid_is_quick():
    w = World(0, 300, stream(0, "test counts").integers(0, 50, size=(300, 10)), 5.0)
    part = Spread(base="dam", grid=500, mobile=50)
    state = part.start(w)
    state, _ = part.step(state, w, 1)
    assert len({tuple(place) for place in state["destination"]}) == 50


# --- nothing has changed for those who do not spread ------------------------------------------------------------

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
