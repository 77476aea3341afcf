from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedroam.components import build, kinds
from fedroam.errors import InputError
from fedroam.mobility import Paths, World, checked
from fedroam.mobility.grid import Random, Static, drawn_within, grid_places, pick, within
from fedroam.randomness import stream
from support.contract import world


def points(array: np.ndarray) -> list[tuple[int, int]]:
    return [(int(x), int(y)) for x, y in array]


def test_points_within_reach_on_a_5x5_grid_by_hand() -> None:
    middle = np.array([3.0, 3.0])
    assert points(within(middle, 0, 5)) == [(3, 3)]
    assert points(within(middle, 0.99, 5)) == [(3, 3)]
    assert points(within(middle, 1, 5)) == [(2, 3), (3, 2), (3, 3), (3, 4), (4, 3)]
    assert len(within(middle, math.sqrt(2), 5)) == 9
    assert len(within(middle, 2, 5)) == 13
    assert len(within(middle, math.sqrt(5), 5)) == 21
    assert len(within(middle, math.inf, 5)) == 25
    corner = np.array([1.0, 1.0])
    assert points(within(corner, 1, 5)) == [(1, 1), (1, 2), (2, 1)]
    assert points(within(corner, 2, 5)) == [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 1)]
    assert points(within(np.array([5.0, 3.0]), 1, 5)) == [(4, 3), (5, 2), (5, 3), (5, 4)]


@given(st.integers(0, 12), st.integers(0, 12))
def test_a_point_at_exactly_the_reach_is_within_it(dx: int, dy: int) -> None:
    # sqrt(13) ** 2 < 13 in floating point: comparing squares would lose (2, 3).
    here = np.array([1.0, 1.0])
    assert (1 + dx, 1 + dy) in points(within(here, math.hypot(dx, dy), 13))
    if dx or dy:
        assert (1 + dx, 1 + dy) not in points(within(here, math.nextafter(math.hypot(dx, dy), 0), 13))


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9), st.floats(0, 12))
def test_points_within_reach_are_those_of_the_definition(grid: int, x: int, y: int, reach: float) -> None:
    x, y = min(x, grid), min(y, grid)
    slow = [
        (p, q)
        for p in range(1, grid + 1)
        for q in range(1, grid + 1)
        if math.sqrt((p - x) ** 2 + (q - y) ** 2) <= reach
    ]
    assert points(within(np.array([x, y], dtype=float), reach, grid)) == slow


def test_start_places_are_uniform_over_the_grid_points() -> None:
    places = grid_places(world(100_000), 6)
    counts = np.bincount((places[:, 0] - 1).astype(int) * 6 + (places[:, 1] - 1).astype(int), minlength=36)
    assert counts.sum() == 100_000
    assert stats.chisquare(counts).pvalue > 1e-3


def test_every_pattern_starts_from_the_same_places() -> None:
    facts = world(20, seed=7)
    expected = Static(grid=18).start(facts)["position"]
    on_grids = [kind for kind, cls in kinds("mobility").items() if "grid" in cls.model_fields]
    assert {"static", "random"} <= set(on_grids)
    for kind in on_grids:
        part = build("mobility", {"kind": kind, "grid": 18})
        np.testing.assert_array_equal(part.start(facts)["position"], expected)  # type: ignore[attr-defined]
    assert not np.array_equal(Static(grid=18).start(world(20, seed=8))["position"], expected)


def test_a_clients_start_does_not_depend_on_how_many_others_there_are() -> None:
    np.testing.assert_array_equal(grid_places(world(5), 18), grid_places(world(20), 18)[:5])


@pytest.mark.parametrize(
    ("here", "reach", "candidates"),
    [((3, 3), math.inf, 25), ((3, 3), 2.0, 13), ((1, 1), 2.0, 6), ((5, 3), 2.0, 9), ((1, 5), 1.0, 3)],
)
def test_moves_are_uniform_over_the_points_within_reach(
    here: tuple[int, int], reach: float, candidates: int
) -> None:
    clients = 30_000 if here == (1, 1) else 12_000  # one round of as many clients, all on the same point
    part = Random(grid=5, mobile=clients, max_step=reach)
    start = np.tile(np.array(here, dtype=np.float64), (clients, 1))
    state, paths = part.step({"position": start}, world(clients), 1)
    found, counts = np.unique(state["position"], axis=0, return_counts=True)
    assert points(found) == points(within(np.array(here, dtype=float), reach, 5))
    assert len(counts) == candidates
    assert stats.chisquare(counts).pvalue > 1e-3
    assert paths.length.max() <= min(reach, math.hypot(4, 4))


def test_moves_of_one_round_and_of_successive_rounds_are_independent() -> None:
    part, facts = Random(grid=2, mobile=2), world(2)
    state, seen = part.start(facts), []
    for t in range(1, 8_001):
        state, _ = part.step(state, facts, t)
        seen.append([int(x - 1) * 2 + int(y - 1) for x, y in state["position"]])
    cells = np.array(seen)
    for a, b in ((cells[:, 0], cells[:, 1]), (cells[:-1, 0], cells[1:, 0]), (cells[:-1, 0], cells[1:, 1])):
        table = np.zeros((4, 4))
        np.add.at(table, (a, b), 1)
        assert stats.chi2_contingency(table).pvalue > 1e-3


def test_a_walk_does_not_depend_on_how_many_others_move() -> None:
    facts = world(6)

    def walk(mobile: int) -> np.ndarray:
        part = Random(grid=9, mobile=mobile, max_step=3.0)
        state, places = part.start(facts), []
        for t in range(1, 9):
            state, _ = part.step(state, facts, t)
            places.append(state["position"])
        return np.array(places)

    few, many = walk(2), walk(5)
    np.testing.assert_array_equal(few[:, :2], many[:, :2])
    np.testing.assert_array_equal(few[0, 2:], few[-1, 2:])
    assert not np.array_equal(many[0, 2:5], many[-1, 2:5])


def test_groups_are_the_first_clients_by_index() -> None:
    assert list(Random(mobile=2).groups(world(4))) == ["mobile", "mobile", "static", "static"]
    assert list(Static().groups(world(2))) == ["static", "static"]
    assert list(Random(mobile=0).groups(world(1))) == ["static"]
    with pytest.raises(InputError, match=r"mobility.mobile = 5: only 4 clients; allowed is 0 to 4"):
        Random(mobile=5).start(world(4))


@given(st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=5), st.integers(1, 7))
def test_a_draw_picks_a_candidate(draws: list[float], count: int) -> None:
    candidates = np.arange(2.0 * count).reshape(count, 2)
    for draw in draws:
        assert pick(candidates, draw)[0] == 2 * int(draw * count)
    assert pick(candidates, math.nextafter(1.0, 0))[0] == 2 * (count - 1)


def test_the_way_of_a_round_by_hand() -> None:
    moved = Paths.straight(
        np.array([[0.0, 0.0], [1.0, 1.0], [5.0, 5.0]]), np.array([[3.0, 4.0], [1.0, 1.0], [5.0, 6.0]])
    )
    np.testing.assert_array_equal(moved.length, [5.0, 0.0, 1.0])
    # client 0: a right angle of 3 m and 4 m; client 1 stands; client 2: one leg of 2 m
    legs = Paths(
        first=np.array([0, 3, 4, 6]),
        time=np.array([0.0, 0.5, 1.0, 0.0, 0.0, 1.0]),
        point=np.array([[0.0, 0.0], [3.0, 0.0], [3.0, 4.0], [100.0, 100.0], [-7.0, 0.0], [-9.0, 0.0]]),
        present=np.ones(3, dtype=bool),
    )
    np.testing.assert_array_equal(legs.length, [7.0, 0.0, 2.0])
    np.testing.assert_array_equal(legs.start, [[0, 0], [100, 100], [-7, 0]])
    np.testing.assert_array_equal(legs.end, [[3, 4], [100, 100], [-9, 0]])
    assert legs.clients == 3
    np.testing.assert_array_equal(Paths.still(np.array([[2.0, 2.0]])).length, [0.0])


def test_a_state_needs_positions_of_the_right_shape() -> None:
    facts = World(0, 3, np.ones((3, 2), dtype=np.int64), 1.0)
    with pytest.raises(InputError, match=r"position \[3, 2\], found None"):
        checked({}, facts)
    with pytest.raises(InputError, match=r"found \(2, 2\)"):
        checked({"position": np.zeros((2, 2))}, facts)


@given(
    grid=st.integers(1, 40),
    reach=st.one_of(
        st.sampled_from([0.0, math.inf, 1e9, 5.0]),
        st.floats(0, 60),
        st.tuples(st.integers(0, 40), st.integers(0, 40)).map(lambda step: math.hypot(*step)),
    ),
    at=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1, exclude_max=True)), max_size=8),
)
def test_points_are_drawn_at_once_as_one_after_the_other(
    grid: int, reach: float, at: list[tuple[float, float, float]]
) -> None:
    table = np.array(at, dtype=float).reshape(-1, 3)
    here, draws = 1 + np.floor(table[:, :2] * (grid - 1)), table[:, 2]
    slow = [pick(within(place, reach, grid), draw).tolist() for place, draw in zip(here, draws, strict=True)]
    assert drawn_within(here, reach, grid, draws).tolist() == slow


def test_points_are_drawn_from_a_wide_grid_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = stream(4, "wide").random(300)
    here = stream(4, "here").integers(1, 5001, (300, 2)).astype(float)
    whole = drawn_within(here, math.inf, 5000, draws)  # columns of some 26 clients at a time
    number = (draws * 5000**2).astype(np.int64)
    assert np.array_equal(whole, np.stack(np.divmod(number, 5000), axis=1) + 1)
    near = drawn_within(here, 4000.0, 5000, draws)
    monkeypatch.setattr("fedroam.mobility.grid.LIMIT", 1)
    assert np.array_equal(near, drawn_within(here, 4000.0, 5000, draws))
    assert (np.hypot(*(near - here).T) <= 4000).all()
    assert near.min() >= 1
    assert near.max() <= 5000
