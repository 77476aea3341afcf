"""Random waypoints: against one client played in plain Python, the steady state, pairing, exact similarities."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedroam.components import build
from fedroam.errors import InputError
from fedroam.mobility import Mobility, Paths, World
from fedroam.mobility.random_waypoint import RandomWaypoint, mean_way
from fedroam.randomness import stream
from support.effort import calls

MANY = 20_000


def world(clients: int, seed: int = 3) -> World:
    return World(seed, clients, np.ones((clients, 2), dtype=np.int64), 45.0)


def roaming(**fields: object) -> Mobility:
    part = build("mobility", {"kind": "random_waypoint", **fields})
    assert isinstance(part, RandomWaypoint)
    return part


def state_of(place: list[float], goal: list[float], speed: float, rest: float = 0.0) -> dict[str, np.ndarray]:
    """One client on its way 0."""
    return {
        "position": np.array([place], dtype=float),
        "goal": np.array([goal], dtype=float),
        "speed": np.array([speed], dtype=float),
        "rest": np.array([rest]),
        "way": np.array([1]),
    }


def corners(paths: Paths, client: int = 0) -> list[tuple[float, ...]]:
    """The path of a client as (time, x, y)."""
    own = slice(paths.first[client], paths.first[client + 1])
    return [(float(t), *map(float, p)) for t, p in zip(paths.time[own], paths.point[own], strict=True)]


# --- worked by hand -----------------------------------------------------------------------------------------------


def test_a_way_longer_than_the_round() -> None:
    """From (0, 0) to (30, 40), 50 m, at 10 m a round: a fifth of it."""
    after, paths = roaming().step(state_of([0, 0], [30, 40], 10), world(1), 1)
    assert corners(paths) == [(0, 0, 0), (1, 6, 8)]
    assert after["way"].tolist() == [1]


def test_rest_then_the_way() -> None:
    """A quarter of the round is still rest; then 3/4 of 40 m."""
    after, paths = roaming(pause=1.0).step(state_of([5, 5], [5, 105], 40, 0.25), world(1), 1)
    assert corners(paths) == [(0, 5, 5), (0.25, 5, 5), (1, 5, 35)]
    assert after["rest"].tolist() == [0]


def test_rest_longer_than_the_round() -> None:
    after, paths = roaming(pause=3.0).step(state_of([5, 5], [5, 105], 40, 2.5), world(1), 1)
    assert corners(paths) == [(0, 5, 5), (1, 5, 5)]
    assert after["rest"].tolist() == [1.5]


def test_arriving_and_going_on_as_the_stream_of_the_next_way_says() -> None:
    """10 m at 40 m a round: there after a quarter; then a quarter of rest, then towards way 1's goal."""
    after, paths = roaming(pause=0.25).step(state_of([0, 0], [10, 0], 40), world(1), 1)
    x, y, u = stream(3, "waypoints", 1).random((1, 3))[0]
    goal, speed = np.array([500 * x, 500 * y]), 10 + 40 * u
    way = np.hypot(goal[0] - 10, goal[1])
    share = 0.5 * speed / way
    assert share < 1
    expected = [(0, 0, 0), (0.25, 10, 0), (0.5, 10, 0), (1, 10 + share * (goal[0] - 10), share * goal[1])]
    np.testing.assert_allclose(corners(paths), expected, rtol=1e-12)
    assert after["goal"].tolist() == [goal.tolist()]
    assert after["way"].tolist() == [2]


def test_arriving_as_the_round_ends_is_no_corner() -> None:
    after, paths = roaming().step(state_of([0, 0], [10, 0], 10), world(1), 1)
    assert corners(paths) == [(0, 0, 0), (1, 10, 0)]
    assert after["way"].tolist() == [2]


def by_hand(
    part: RandomWaypoint, first: dict[str, np.ndarray], client: int, seed: int, rounds: int
) -> list[list[float]]:
    """Corners of a client in absolute time (rounds), its ways drawn one after the other."""
    (x, y), (gx, gy) = first["position"][client], first["goal"][client]
    speed, rest, now, way = first["speed"][client], first["rest"][client], 0.0, 1
    found = [[now, x, y]]
    while now < rounds:
        if rest:
            now += rest
            found.append([now, x, y])
        now += math.dist((x, y), (gx, gy)) / speed
        x, y = gx, gy
        found.append([now, x, y])
        u = stream(seed, "waypoints", way).random((client + 1, 3))[client]
        gx, gy = u[0] * part.width, u[1] * part.height
        speed, rest, way = part.min_speed + u[2] * (part.max_speed - part.min_speed), part.pause, way + 1
    return found


@given(
    st.floats(1, 400),
    st.floats(1, 10),
    st.sampled_from([0.0, 0.3, 2.5]),
    st.integers(0, 1000),
)
@settings(max_examples=40, deadline=None)
def test_as_one_client_after_the_other_played_slowly(
    low: float, times: float, pause: float, seed: int
) -> None:
    part = roaming(width=120.0, height=80.0, min_speed=low, max_speed=low * times, pause=pause)
    assert isinstance(part, RandomWaypoint)
    facts, rounds = world(4, seed), 5
    state = part.start(facts)
    known = [np.array(by_hand(part, state, client, seed, rounds)).T for client in range(4)]
    for number in range(1, rounds + 1):
        state, paths = part.step(state, facts, number)
        for moment in (0.0, 0.31, 0.77, 1.0):
            found = paths.at(moment)
            for client, (time, x, y) in enumerate(known):
                wanted = [np.interp(number - 1 + moment, time, x), np.interp(number - 1 + moment, time, y)]
                np.testing.assert_allclose(found[client], wanted, atol=1e-7)
        for client in range(4):
            own = slice(paths.first[client], paths.first[client + 1])
            assert paths.time[own][0] == 0
            assert paths.time[own][-1] == 1
            assert (np.diff(paths.time[own]) > 0).all()
        assert (paths.length <= part.max_speed * (1 + 1e-9)).all()
        assert ((paths.point >= 0) & (paths.point <= [120, 80])).all()


# --- the steady state ---------------------------------------------------------------------------------------------


def test_the_mean_way_in_a_rectangle() -> None:
    """Of the unit square (2 + sqrt 2 + 5 ln(1 + sqrt 2)) / 15; of a line a third; and by drawing."""
    root = math.sqrt(2)
    assert mean_way(1, 1) == pytest.approx((2 + root + 5 * math.log(1 + root)) / 15, rel=1e-12)
    assert mean_way(1000, 1) == pytest.approx(1000 / 3, rel=1e-4)
    draws = np.random.default_rng(0).random((400_000, 4))
    drawn = np.hypot(700 * (draws[:, 0] - draws[:, 2]), 300 * (draws[:, 1] - draws[:, 3])).mean()
    assert mean_way(700, 300) == pytest.approx(drawn, rel=0.005)


@pytest.mark.parametrize("pause", [0.0, 4.0])
def test_the_start_is_as_after_a_long_time(pause: float) -> None:
    """Places, speeds and who rests, at the start and 60 rounds later (some 8 ways): equal in distribution."""
    part, facts = roaming(pause=pause, max_speed=100.0), world(MANY)
    first = state = part.start(facts)
    for number in range(1, 61):
        state, _ = part.step(state, facts, number)
    for told in (_place, _speed, _resting):
        a, b = (np.bincount(told(one), minlength=25) for one in (first, state))
        both = a + b
        seen = both > 0
        chi = ((a - b)[seen] ** 2 / both[seen]).sum()
        degrees = max(int(seen.sum()) - 1, 1)
        assert chi < degrees + 4 * math.sqrt(2 * degrees), told.__name__
    # It is not the uniform one that the walk has: the middle ninth has more than its share, a corner less.
    middle, corner = (np.abs(first["position"] - at).max(axis=1) < 250 / 3 for at in ([250, 250], [0, 0]))
    assert middle.mean() > 1.15 / 9
    assert corner.mean() < 0.85 / 36


def _place(state: dict[str, np.ndarray]) -> np.ndarray:
    return np.asarray((state["position"] // 100.0).clip(0, 4) @ [5, 1], dtype=np.int64)


def _speed(state: dict[str, np.ndarray]) -> np.ndarray:
    return np.asarray(((state["speed"] - 10) / 90 * 25).clip(0, 24), dtype=np.int64)


def _resting(state: dict[str, np.ndarray]) -> np.ndarray:
    return np.asarray(np.ceil(state["rest"]), dtype=np.int64)


def test_speeds_of_the_steady_state_in_closed_form() -> None:
    """On the way a speed has the density 1 / (v ln(v1 / v0)): its mean is (v1 - v0) / ln(v1 / v0). New ways have the
    mean (v0 + v1) / 2; who starts with that slows down for a long time (Yoon, Liu & Noble).
    """
    speed = roaming(min_speed=1.0, max_speed=20.0).start(world(MANY))["speed"]
    mean = 19 / math.log(20)
    spread = math.sqrt((20**2 - 1) / (2 * math.log(20)) - mean**2)
    assert abs(speed.mean() - mean) < 4 * spread / math.sqrt(MANY)
    assert mean < 6.4 < 10.5


def test_the_share_at_rest_in_closed_form() -> None:
    """The pause, of pause and mean time on the way: E[way] E[1 / v]."""
    part = roaming(width=300.0, height=900.0, min_speed=20.0, max_speed=60.0, pause=7.0)
    on_the_way = mean_way(300, 900) * math.log(3) / 40
    share = 7 / (7 + on_the_way)
    rest = part.start(world(MANY))["rest"]
    assert abs((rest > 0).mean() - share) < 4 * math.sqrt(share * (1 - share) / MANY)
    assert abs(rest[rest > 0].mean() - 3.5) < 4 * 7 / math.sqrt(12 * MANY * share)


def test_one_speed_for_all() -> None:
    part, facts = roaming(min_speed=25.0, max_speed=25.0, pause=0.5), world(200)
    state = part.start(facts)
    assert (state["speed"] == 25).all()
    _, paths = part.step(state, facts, 1)
    assert paths.length.max() == pytest.approx(25)


# --- similarities -------------------------------------------------------------------------------------------------


def test_twice_the_size_and_twice_the_speed_is_the_same_picture_bit_for_bit() -> None:
    small = roaming(width=500.0, height=300.0, min_speed=30.0, max_speed=240.0, pause=0.5)
    large = roaming(width=1000.0, height=600.0, min_speed=60.0, max_speed=480.0, pause=0.5)
    facts = world(50)
    a, b = small.start(facts), large.start(facts)
    for number in range(1, 8):
        (a, one), (b, two) = small.step(a, facts, number), large.step(b, facts, number)
        assert (one.time == two.time).all()
        assert (2 * one.point == two.point).all()


def test_twice_the_speed_and_half_the_rest_is_the_same_way_in_half_the_time() -> None:
    slow = roaming(min_speed=30.0, max_speed=240.0, pause=1.0)
    fast = roaming(min_speed=60.0, max_speed=480.0, pause=0.5)
    facts = world(50)
    a, b = slow.start(facts), fast.start(facts)
    for number in range(1, 8):
        b, both = fast.step(b, facts, number)
        for half in (0, 1):
            a, one = slow.step(a, facts, 2 * number - 1 + half)
            for moment in (0.0, 0.4, 1.0):
                np.testing.assert_allclose(one.at(moment), both.at((half + moment) / 2), atol=1e-9)


def test_more_clients_change_nothing_for_those_there_already() -> None:
    part = roaming(pause=0.5, max_speed=900.0)
    few, many = part.start(world(10)), part.start(world(30))
    for number in range(1, 6):
        for name in few:
            assert (few[name] == many[name][:10]).all(), name
        few, many = part.step(few, world(10), number)[0], part.step(many, world(30), number)[0]


def test_100_000_are_fast() -> None:
    """No more calls than for a thousand but for the few that arrive twice in a round."""
    part, effort = roaming(width=10_000.0, height=10_000.0), []
    for facts in (world(1_000), world(100_000)):
        state = part.start(facts)
        effort.append(calls(partial(part.step, state, facts, 1)))
    assert effort[1] < 2 * effort[0]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"min_speed": 0.0}, "mobility.min_speed = 0.0"),
        ({"max_speed": 5.0}, "min_speed = 10 is above max_speed = 5"),
        ({"max_speed": 1e9}, "times a round"),
        ({"pause": -1.0}, "mobility.pause = -1.0"),
        ({"pause": math.inf}, "mobility.pause = inf"),
        ({"width": 0.0}, "mobility.width = 0.0"),
    ],
)
def test_wrong_settings_are_refused_in_one_line(fields: dict[str, object], words: str) -> None:
    with pytest.raises(InputError) as caught:
        roaming(**fields)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
