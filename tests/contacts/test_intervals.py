"""When contacts open and close: by hand, by closed forms, against many instants, and how often uniform movers meet."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedroam.components import build
from fedroam.contacts import Intervals, Legs, contact_durations, contact_intervals, distance_at, graph_of
from fedroam.contacts.approach import come_within
from fedroam.mobility import Paths
from fedroam.randomness import stream

PAIR = np.array([[0, 1]])


def drawn(seed: int, clients: int, legs: int, whole: bool) -> Paths:
    """Zigzag ways in a square of 10 m; with `whole`, corners and moments are whole numbers, so that many just touch."""
    draws = stream(seed, "ways")
    time = np.sort(draws.random((clients, legs + 1)), axis=1)
    point = draws.random((clients * (legs + 1), 2)) * 10
    if whole:
        time, point = np.tile(np.arange(legs + 1) / legs, (clients, 1)), np.floor(point)
    time[:, 0], time[:, -1] = 0.0, 1.0
    first = np.arange(clients + 1, dtype=np.int64) * (legs + 1)
    return Paths(first, time.reshape(-1), point, np.ones(clients, dtype=bool))


def all_pairs(clients: int) -> np.ndarray:
    return np.array(list(itertools.combinations(range(clients), 2)), dtype=np.int64).reshape(-1, 2)


# --- by hand and in closed form -----------------------------------------------------------------------------------


@given(
    st.floats(1, 500),
    st.floats(0, 0.99),
    st.floats(1, 60),
    st.floats(0, 2 * math.pi),
    st.floats(-1e4, 1e4),
)
def test_a_straight_passage_lasts_two_roots_over_the_speed(
    radius: float, offset: float, speed: float, heading: float, place: float
) -> None:
    """2 sqrt(R^2 - d^2) / v, whoever of the two moves and wherever."""
    d, half = offset * radius, 2 * radius  # 1 comes from 2 R before the foot and goes 2 R beyond it
    way, aside = (
        np.array([math.cos(heading), math.sin(heading)]),
        np.array([-math.sin(heading), math.cos(heading)]),
    )
    start = np.array([[place, place], [place, place] + d * aside - half * way])
    # Both drift by the same vector, which changes nothing.
    end = np.array([start[0], start[1] + 2 * half * way]) + 7.0
    seconds = 2 * half / speed
    found = contact_intervals(Paths.straight(start, end), radius)
    assert len(found) == 1
    lasted = (found.close - found.open)[0] * seconds
    assert lasted == pytest.approx(2 * math.sqrt(radius**2 - d**2) / speed, rel=1e-9)
    assert (found.open + found.close)[0] / 2 == pytest.approx(0.5, abs=1e-9)


def test_who_turns_round_meets_twice() -> None:
    # 1 runs from x = 10 to -10 and back past 0, who stands at the origin: within 2 m at 0.2 to 0.3 and 0.7 to 0.8.
    paths = Paths(
        first=np.array([0, 2, 5]),
        time=np.array([0.0, 1.0, 0.0, 0.5, 1.0]),
        point=np.array([[0.0, 0], [0, 0], [10, 0], [-10, 0], [10, 0]]),
        present=np.ones(2, dtype=bool),
    )
    found = contact_intervals(paths, 2.0)
    np.testing.assert_array_equal(found.i, [0, 0])
    np.testing.assert_array_equal(found.j, [1, 1])
    np.testing.assert_allclose(found.open, [0.2, 0.7], atol=1e-15)
    np.testing.assert_allclose(found.close, [0.3, 0.8], atol=1e-15)


def test_a_corner_within_reach_does_not_tear_a_contact() -> None:
    # Both turn, at different moments, 1 m apart: one contact, all the round.
    time = np.array([0.0, 0.3, 1.0, 0.0, 0.7, 1.0])
    point = np.array([[0.0, 0], [1, 0], [1, 1], [0, 1], [1, 1], [1, 2]])
    paths = Paths(np.array([0, 3, 6]), time, point, np.ones(2, dtype=bool))
    found = contact_intervals(paths, 3.0)
    assert (found.open.tolist(), found.close.tolist()) == ([0.0], [1.0])


def test_who_touches_has_an_interval_of_no_duration() -> None:
    # Along y = 5 past the origin: the circle of 5 m is touched at the foot, halfway.
    paths = Paths.straight(np.array([[0.0, 0], [-8, 5]]), np.array([[0.0, 0], [8, 5]]))
    found = contact_intervals(paths, 5.0)
    assert (found.open.tolist(), found.close.tolist()) == ([0.5], [0.5])
    assert len(contact_intervals(paths, math.nextafter(5.0, 0.0))) == 0


def test_who_is_away_meets_nobody_and_everybody_hears_everybody_without_end() -> None:
    here = np.array([True, False, True])
    paths = Paths.still(np.zeros((3, 2)), here)
    for radius in (1.0, math.inf):
        found = contact_intervals(paths, radius)
        assert np.stack([found.i, found.j, found.open, found.close]).T.tolist() == [[0, 2, 0.0, 1.0]]


def test_nobody_makes_no_contact() -> None:
    for clients in (0, 1):
        assert len(contact_intervals(Paths.still(np.zeros((clients, 2))), 3.0)) == 0


# --- against slow versions ----------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 6), st.integers(1, 5), st.floats(0.5, 8), st.booleans())
def test_many_instants_are_within_reach_where_an_interval_says_so(
    seed: int, clients: int, legs: int, radius: float, whole: bool
) -> None:
    radius = math.floor(radius) + 1.0 if whole else radius
    paths = drawn(seed, clients, legs, whole)
    found, leg = contact_intervals(paths, radius), Legs(paths)
    moments = (np.arange(500) + 0.5) / 500
    for i, j in all_pairs(clients).tolist():
        own = found.some((found.i == i) & (found.j == j))
        apart = distance_at(leg, np.full(500, i), np.full(500, j), moments)
        places = np.stack([paths.at(t)[[i, j]] for t in moments])
        np.testing.assert_allclose(apart, np.hypot(*(places[:, 0] - places[:, 1]).T), atol=1e-9)
        inside = ((own.open <= moments[:, None]) & (moments[:, None] <= own.close)).any(axis=1)
        clear = np.abs(apart - radius) > 1e-9
        np.testing.assert_array_equal(inside[clear], (apart <= radius)[clear])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 8), st.integers(1, 4), st.integers(1, 9), st.booleans())
def test_intervals_are_in_order_at_reach_at_their_ends_and_where_closest_approach_meets(
    seed: int, clients: int, legs: int, radius: int, whole: bool
) -> None:
    paths, pairs = drawn(seed, clients, legs, whole), all_pairs(clients)
    found = contact_intervals(paths, float(radius))
    assert (found.open <= found.close).all()
    assert ((found.open >= 0) & (found.close <= 1)).all()
    same = (found.i[1:] == found.i[:-1]) & (found.j[1:] == found.j[:-1])
    assert (found.open[1:][same] > found.close[:-1][same]).all(), "contacts of a pair are apart"
    leg = Legs(paths)
    for moment, inner in ((found.open, found.open > 0), (found.close, found.close < 1)):
        apart = distance_at(leg, found.i[inner], found.j[inner], moment[inner])
        np.testing.assert_allclose(apart, radius, atol=1e-6)  # grazing: the root of a rounding error
    met = come_within(paths, pairs[:, 0], pairs[:, 1], float(radius))
    assert {(i, j) for i, j in pairs[met].tolist()} == set(
        zip(found.i.tolist(), found.j.tolist(), strict=True)
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 6), st.integers(1, 4), st.floats(0.5, 8))
def test_durations_are_the_intervals_together(seed: int, clients: int, legs: int, radius: float) -> None:
    paths = drawn(seed, clients, legs, whole=False)
    found = contact_intervals(paths, radius)
    total = np.zeros((clients, clients))
    np.add.at(total, (found.i, found.j), found.close - found.open)
    lasted = contact_durations(paths, graph_of(all_pairs(clients), clients), radius).toarray()
    np.testing.assert_allclose(total + total.T, lasted, atol=1e-12)


def test_an_index_finds_what_all_pairs_find() -> None:
    paths = drawn(5, 300, 3, whole=False)
    few, every = contact_intervals(paths, 0.3), contact_intervals(paths, 0.3, all_pairs(300))
    assert len(few) > 300
    for column in ("i", "j", "open", "close"):
        np.testing.assert_array_equal(getattr(few, column), getattr(every, column))


# --- a law ---------------------------------------------------------------------------------------------------------


def test_uniform_movers_on_a_torus_meet_as_often_as_theory_says() -> None:
    """A client meets 2 R E|v_rel| (N - 1) / A others in a unit of time; E|v_rel| = 4 v / pi for one speed v.

    Each opening of a contact is counted once. Pairs are independent of one another two by two, and hardly a pair meets
    twice, so the count is Poisson to a good measure: its standard deviation is the root of what is expected.
    """
    clients, side, radius, speed, seeds = 200, 100.0, 5.0, 20.0, 20
    pairs = all_pairs(clients)
    shifts = np.array(list(itertools.product((-side, 0.0, side), repeat=2)))
    # 1 with each of the nine images of 2, which is the torus as long as nobody gets further than half round.
    images = np.concatenate([pairs + np.array([0, clients * k]) for k in range(1, 10)])
    met = 0
    for seed in range(seeds):
        draws = stream(seed, "torus")
        start, heading = draws.random((clients, 2)) * side, draws.random(clients) * 2 * np.pi
        move = speed * np.stack([np.cos(heading), np.sin(heading)], axis=1)
        at = np.concatenate([start, *(start + shift for shift in shifts)])
        found = contact_intervals(Paths.straight(at, at + np.tile(move, (10, 1))), radius, images)
        met += int((found.open > 0).sum())
    expected = seeds * len(pairs) * 2 * radius * (4 * speed / np.pi) / side**2
    assert expected > 10_000
    assert abs(met - expected) < 4 * math.sqrt(expected)


def test_some_are_chosen_by_mask_or_index() -> None:
    all_of_them = Intervals(np.arange(3), np.arange(1, 4), np.zeros(3), np.ones(3))
    assert all_of_them.some(np.array([2, 0])).i.tolist() == [2, 0]
    assert len(all_of_them.some(np.array([False, True, False]))) == 1


@given(
    st.integers(0, 2**32),
    st.sampled_from([2, 5, 30, 130]),
    st.integers(1, 3),
    st.floats(0.1, 4),
    st.floats(0, 1),
    st.booleans(),
    st.booleans(),
)
def test_contacts_of_some_are_those_among_all(
    seed: int, clients: int, legs: int, radius: float, share: float, whole: bool, known: bool
) -> None:
    """Exactly: found anew, or taken from what is known of all."""
    everybody = drawn(seed, clients, legs, whole)
    some = np.random.default_rng(seed).random(clients) < share
    few = everybody.among(some)
    assert (few.present == some).all()
    if some.all():
        assert few is everybody
    else:
        assert (few.whole is everybody) == (2 * some.sum() >= clients)
    if known:
        contact_intervals(everybody, radius)
    anew = Paths(everybody.first, everybody.time, everybody.point, some)
    rule = build("contacts", {"kind": "closest_approach", "radius": radius})
    graph, expected = rule.meet(few), rule.meet(anew)
    np.testing.assert_array_equal(graph.indptr, expected.indptr)
    np.testing.assert_array_equal(graph.indices, expected.indices)
    found, wanted = contact_intervals(few, radius), contact_intervals(anew, radius)
    for name in ("i", "j", "open", "close"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
    fewer = few.among(some & (np.arange(clients) != 0))  # of a part of a part
    assert any(fewer.whole is one for one in (None, everybody, few))
    anew = Paths(everybody.first, everybody.time, everybody.point, fewer.present)
    np.testing.assert_array_equal(rule.meet(fewer).indices, rule.meet(anew).indices)
