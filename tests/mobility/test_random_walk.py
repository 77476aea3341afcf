"""Random walks: reflection by hand and by stepping, groups, pairing of variants, invariants."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedroam.components import build
from fedroam.errors import InputError
from fedroam.mobility import Paths, World
from fedroam.mobility.walls import reflected
from support.effort import calls

ORIGIN = np.zeros(2)


def world(clients: int, seed: int = 3) -> World:
    return World(seed, clients, np.ones((clients, 2), dtype=np.int64), 45.0)


def walk(**fields: object) -> object:
    return build("mobility", {"kind": "random_walk", **fields})


def one(
    start: list[float], move: list[float], side: tuple[float, float] = (10.0, 10.0)
) -> list[tuple[float, ...]]:
    """The path of one client as (time, x, y)."""
    paths = reflected(np.array([start]), np.array([move]), ORIGIN, np.array(side))
    return [(float(t), *map(float, p)) for t, p in zip(paths.time, paths.point, strict=True)]


# --- worked by hand ---------------------------------------------------------------------------------------------


def test_no_wall_in_the_way() -> None:
    assert one([3, 4], [2, 0]) == [(0, 3, 4), (1, 5, 4)]


def test_standing_still() -> None:
    assert one([3, 4], [0, 0]) == [(0, 3, 4), (1, 3, 4)]


def test_one_reflection() -> None:
    assert one([8, 4], [4, 0]) == [(0, 8, 4), (0.5, 10, 4), (1, 8, 4)]
    assert one([3, 4], [0, -8]) == [(0, 3, 4), (0.5, 3, 0), (1, 3, 4)]


def test_two_reflections_in_one_round() -> None:
    """From x = 9 eastwards 16 m: wall after 1 m, the other wall after 11 m, then 5 m more."""
    assert one([9, 4], [16, 0]) == [(0, 9, 4), (1 / 16, 10, 4), (11 / 16, 0, 4), (1, 5, 4)]


def test_three_reflections_downwards() -> None:
    """From y = 2: walls after 2, 12 and 22 m, and 10 m more to the next wall, where the round ends."""
    assert one([1, 2], [0, -32]) == [(0, 1, 2), (2 / 32, 1, 0), (12 / 32, 1, 10), (22 / 32, 1, 0), (1, 1, 10)]


def test_a_corner_throws_straight_back() -> None:
    assert one([8, 8], [4, 4]) == [(0, 8, 8), (0.5, 10, 10), (1, 8, 8)]
    assert one([2, 2], [-4, -4]) == [(0, 2, 2), (0.5, 0, 0), (1, 2, 2)]


def test_both_walls_near_a_corner() -> None:
    assert one([8, 6], [8, 8]) == [(0, 8, 6), (0.25, 10, 8), (0.5, 8, 10), (1, 4, 6)]


def test_ending_on_a_wall_and_going_on_from_it() -> None:
    assert one([8, 5], [2, 0]) == [(0, 8, 5), (1, 10, 5)]
    assert one([10, 5], [3, 0]) == [(0, 10, 5), (1, 7, 5)]
    assert one([10, 5], [-3, 0]) == [(0, 10, 5), (1, 7, 5)]
    assert one([0, 0], [-3, 0]) == [(0, 0, 0), (1, 3, 0)]
    assert one([10, 10], [25, 0]) == [(0, 10, 10), (10 / 25, 0, 10), (20 / 25, 10, 10), (1, 5, 10)]


def test_sliding_along_a_wall() -> None:
    assert one([8, 0], [4, 0]) == [(0, 8, 0), (0.5, 10, 0), (1, 8, 0)]


def test_a_box_away_from_the_origin() -> None:
    paths = reflected(
        np.array([[104.0, 7.0]]), np.array([[-8.0, 0.0]]), np.array([100.0, 5.0]), np.array([110.0, 9.0])
    )
    assert paths.point.tolist() == [[104, 7], [100, 7], [104, 7]]


# --- invariants ---------------------------------------------------------------------------------------------------


@st.composite
def walks(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    side = np.array([draw(st.floats(0.5, 1000)), draw(st.floats(0.5, 1000))])
    n = draw(st.integers(1, 6))
    share = st.one_of(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.floats(0, 1))
    speed = st.one_of(st.sampled_from([0.0, 1.0, -2.0, 7.5]), st.floats(-20, 20))
    start = np.array([[draw(share), draw(share)] for _ in range(n)]) * side
    move = np.array([[draw(speed), draw(speed)] for _ in range(n)]) * side
    return start, move, side


@given(walks())
@settings(max_examples=200, deadline=None)
def test_inside_the_walls_with_length_kept(case: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    start, move, side = case
    paths = reflected(start, move, ORIGIN, side)
    assert (paths.point >= 0).all()
    assert (paths.point <= side).all()
    assert (paths.start == start).all()
    np.testing.assert_allclose(paths.length, np.hypot(*move.T), rtol=1e-10, atol=1e-9 * side.max())
    for i in range(len(start)):
        own = slice(paths.first[i], paths.first[i + 1])
        times, points = paths.time[own], paths.point[own]
        assert times[0] == 0
        assert times[-1] == 1
        assert (np.diff(times) > 0).all()
        way = np.abs(np.diff(points, axis=0))
        # Speed in each direction never changes, whatever the walls do.
        np.testing.assert_allclose(
            way, np.abs(move[i]) * np.diff(times)[:, None], rtol=1e-9, atol=1e-11 * side.max()
        )
        inner = points[1:-1]
        assert ((inner == 0) | (inner == side)).any(axis=1).all(), "a breakpoint away from the walls"


@given(walks(), st.floats(0, 1))
@settings(max_examples=100, deadline=None)
def test_folding_agrees_with_the_mirrored_world(
    case: tuple[np.ndarray, np.ndarray, np.ndarray], moment: float
) -> None:
    """Where a client is, by cos and arccos: a triangle wave written another way."""
    start, move, side = case
    found = reflected(start, move, ORIGIN, side).at(moment)
    phase = (start + move * moment) / side * np.pi
    expected = side * np.arccos(np.clip(np.cos(phase), -1, 1)) / np.pi
    np.testing.assert_allclose(found, expected, atol=2e-7 * side.max())  # arccos is flat at the walls


def test_at_reads_the_path_at_any_moment() -> None:
    paths = Paths(
        first=np.array([0, 3, 5]),
        time=np.array([0, 0.25, 1, 0, 1.0]),
        point=np.array([[0, 0], [1, 0], [1, 3], [5, 5], [7, 5.0]]),
        present=np.ones(2, dtype=bool),
    )
    assert paths.at(0).tolist() == [[0, 0], [5, 5]]
    assert paths.at(0.25).tolist() == [[1, 0], [5.5, 5]]
    assert paths.at(0.5).tolist() == [[1, 1], [6, 5]]
    assert paths.at(1).tolist() == [[1, 3], [7, 5]]


# --- the part -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "high"), [(0.0, 0), (0.05, 3), (0.2, 10), (0.4, 20), (0.6, 29), (0.8, 39), (1.0, 48)]
)
def test_high_mobility_clients_are_those_with_index_below_the_share(share: float, high: int) -> None:
    part, facts = walk(high_share=share), world(48)
    assert part.groups(facts).tolist() == ["high"] * high + ["low"] * (48 - high)
    speed = part.start(facts)["speed"]
    assert ((speed[:high] >= 87.5) & (speed[:high] <= 175)).all()
    assert ((speed[high:] >= 0) & (speed[high:] <= 50)).all()


def test_any_number_of_groups() -> None:
    groups = (("plane", 0.1, 900.0, 900.0), ("car", 0.3, 10.0, 20.0), ("shop", 0.6, 0.0, 0.0))
    part, facts = walk(speed_groups=groups), world(20)
    assert part.groups(facts).tolist() == ["plane"] * 2 + ["car"] * 6 + ["shop"] * 12
    state = part.start(facts)
    assert (state["speed"][:2] == 900).all()
    assert (state["speed"][8:] == 0).all()
    after, paths = part.step(state, facts, 1)
    assert (after["position"][8:] == state["position"][8:]).all()
    np.testing.assert_allclose(paths.length, state["speed"], rtol=1e-12)
    assert (paths.length[8:] == 0).all()


def test_shares_that_add_up_with_rounding_take_no_client_too_many() -> None:
    """0.1 + 0.2 is a last bit above 0.3, and ten shares of 0.1 add up to a last bit below 1."""
    groups = (("a", 0.1, 0.0, 1.0), ("b", 0.2, 1.0, 2.0), ("c", 0.7, 2.0, 3.0))
    for clients in (10, 20, 100):
        names = walk(speed_groups=groups).groups(world(clients)).tolist()
        assert [names.count(name) for name in "abc"] == [clients // 10, clients // 5, 7 * clients // 10]
    tenths = tuple((name, 0.1, 0.0, 1.0) for name in "abcdefghij")
    assert walk(speed_groups=tenths).groups(world(20)).tolist() == [
        name for name in "abcdefghij" for _ in "12"
    ]


@given(st.integers(1, 200), st.integers(0, 100))
@settings(max_examples=200, deadline=None)
def test_the_share_of_two_groups_is_the_papers_rule(clients: int, percent: int) -> None:
    """Client i is of high mobility where i / clients < p, in whole numbers: 100 i < percent clients."""
    names = walk(high_share=percent / 100).groups(world(clients)).tolist()
    assert names == ["high" if 100 * i < percent * clients else "low" for i in range(clients)]


def test_variants_are_paired() -> None:
    """Whatever the groups: same places, same directions, same draw behind each speed; and more clients change
    nothing for those there already.
    """
    facts = world(48)
    low, high, some = (walk(high_share=p) for p in (0.0, 1.0, 0.2))
    a, b, c = (part.start(facts) for part in (low, high, some))
    assert (a["position"] == b["position"]).all()
    np.testing.assert_allclose(b["speed"], 87.5 + 87.5 * a["speed"] / 50, rtol=1e-12)
    assert (c["speed"][:10] == b["speed"][:10]).all()
    assert (c["speed"][10:] == a["speed"][10:]).all()
    for t in (1, 2, 3):
        (a, one_way), (c, other_way) = low.step(a, facts, t), some.step(c, facts, t)
        for i in range(10, 48):
            mine = one_way.point[one_way.first[i] : one_way.first[i + 1]]
            assert (mine == other_way.point[other_way.first[i] : other_way.first[i + 1]]).all()
    few, many = walk(high_share=0.0).start(world(10)), walk(high_share=0.0).start(world(30))
    for name in few:
        assert (few[name] == many[name][:10]).all()
    step = walk(high_share=0.0)
    assert (
        step.step(few, world(10), 4)[0]["position"] == step.step(many, world(30), 4)[0]["position"][:10]
    ).all()


def test_draws_have_the_distributions_of_the_paper() -> None:
    """20,000 clients: places and speeds uniform, four equally likely directions, drawn anew each round."""
    n = 20_000
    part, facts = walk(width=300.0, height=100.0, high_share=0.5), world(n)
    state = part.start(facts)
    scaled = [state["position"][:, 0] / 300, state["position"][:, 1] / 100]
    scaled += [state["speed"][: n // 2] / 87.5 - 1, state["speed"][n // 2 :] / 50]
    for values in scaled:
        counts = np.histogram(values, bins=10, range=(0, 1))[0]
        assert counts.sum() == len(values)
        expected = len(values) / 10
        assert ((counts - expected) ** 2 / expected).sum() < 27.9  # chi-squared, 9 degrees: 0.1%
    held = {**state, "position": np.full((n, 2), [150.0, 50.0]), "speed": np.ones(n)}
    moves = [part.step(held, facts, t)[0]["position"] - [150, 50] for t in (1, 2)]
    for direction in ([0, -1], [0, 1], [-1, 0], [1, 0]):
        assert abs((moves[0] == direction).all(axis=1).mean() - 0.25) < 4 * np.sqrt(0.1875 / n)
    assert abs((moves[0] == moves[1]).all(axis=1).mean() - 0.25) < 4 * np.sqrt(0.1875 / n)


def test_places_stay_uniform() -> None:
    """Reflection keeps the uniform distribution (a walk with no bias does not cluster)."""
    n = 20_000
    part, facts = walk(high_share=0.5), world(n)
    state = part.start(facts)
    for t in range(1, 21):
        state, _ = part.step(state, facts, t)
    for axis in (0, 1):
        counts = np.histogram(state["position"][:, axis], bins=10, range=(0, 500))[0]
        assert ((counts - n / 10) ** 2 / (n / 10)).sum() < 27.9


def test_100_000_walkers_are_fast() -> None:
    """No more calls than for a hundred, but for the few that bounce once more."""
    part, effort = walk(width=10_000.0, height=10_000.0), []
    for facts in (world(100), world(100_000)):
        state = part.start(facts)
        effort.append(calls(lambda state=state, facts=facts: part.step(state, facts, 1)))
    assert effort[1] < 2 * effort[0]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"width": 0.0}, "mobility.width = 0.0"),
        ({"height": float("inf")}, "mobility.height = inf"),
        ({"beta": 1.0}, "mobility.beta = 1.0"),
        ({"high_share": 1.2}, "mobility.high_share = 1.2"),
        ({"max_speed": -1.0}, "mobility.max_speed = -1.0"),
        ({"speed_groups": [["a", 0.5, 0.0, 1.0]]}, "shares add up to 0.5"),
        ({"speed_groups": [["a", 1.0, 2.0, 1.0]]}, "'a' has lowest speed 2 above its highest, 1"),
        ({"speed_groups": [["a", 0.5, 0.0, 1.0], ["a", 0.5, 0.0, 1.0]]}, "each needs its own"),
        ({"speed_groups": [["a", 1.0, 0.0, 1.0]], "high_share": 0.5}, "high_share has no meaning"),
        ({"speed_groups": [["a", 1.0, -1.0, 1.0]]}, "mobility.speed_groups.0.2 = -1.0"),
    ],
)
def test_wrong_settings_are_refused_in_one_line(fields: dict[str, object], words: str) -> None:
    with pytest.raises(InputError) as caught:
        walk(**fields)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
