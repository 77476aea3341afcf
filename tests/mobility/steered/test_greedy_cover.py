"""The greedy cover's loop: compiled, as Python and by numpy it chooses the same points, draw for draw."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedroam import native
from fedroam.mobility.steered import coverage as coverage_module
from fedroam.mobility.steered.coverage import NOBODY, CoverageMap
from fedroam.mobility.steered.greedy_cover import UNDECIDED, Heard, _rest, cover
from fedroam.randomness import stream
from support.slow_steering import slow_centres

WAYS = {"compiled": native.compiled(cover), "python": cover}


def numbers(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def apart(points: int, draws: list[int]) -> tuple[int, list[int]]:
    """What `cover` makes of so many points, each of which hears one static client that no other hears."""
    one, at = np.arange(points), np.arange(points + 1)
    heard = Heard(one, at, one, at, one, at, one)
    chosen, flags = np.full(points, -7), np.ones(points, dtype=bool)
    found = cover(
        heard,
        np.ones(points, dtype=np.int64),
        1,
        flags,
        flags.copy(),
        points,
        numbers(*draws),
        len(draws),
        one.copy(),
        points,
        np.empty(points, dtype=np.int64),
        np.empty(points, dtype=np.int64),
        chosen,
    )
    return found, chosen.tolist()


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    reach=st.sampled_from([0.0, 1.0, 2.5, math.inf]),
    share=st.sampled_from([0.0, 0.3, 1.0]),
    most_of_all=st.booleans(),
    owned=st.booleans(),
)
def test_each_way_is_the_slow_way(
    seed: int, reach: float, share: float, most_of_all: bool, owned: bool
) -> None:
    draws = stream(seed, "test")
    places, points = draws.random((25, 2)) * 9, draws.random((60, 2)) * 9
    owners = np.full((60, 2), NOBODY)
    if owned:  # points that only those know of who know some static clients
        owners[:30, 0] = draws.integers(0, 25, size=30)
    coverage = CoverageMap.of_candidates(places, np.ones((25, 2), int), reach, points, owners)
    # Whoever is known is heard at a point that needs nobody else.
    free = coverage.covers[np.flatnonzero((coverage.owners == NOBODY).all(axis=1))].sum(axis=0) > 0
    known = (draws.random(25) < share) & free
    expected = slow_centres(coverage, known, most_of_all, stream(seed, "clusters"), None)
    for way in WAYS.values():
        with pytest.MonkeyPatch.context() as changed:
            changed.setattr(coverage_module, "MANY", 0 if known.sum() < 2 else 1)
            changed.setattr(coverage_module, "_compiled", lambda way=way: way)
            found = coverage.centres(known, most_of_all, stream(seed, "clusters"))
        np.testing.assert_array_equal(found, expected)


@pytest.mark.skipif(WAYS["compiled"] is None, reason="needs llvmlite")
@pytest.mark.parametrize("most_of_all", [True, False])
def test_a_large_cover_is_compiled(most_of_all: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    draws = stream(0, "test")
    places = draws.integers(1, 101, size=(800, 2)).astype(float)
    coverage, known = CoverageMap.of_grid(places, np.ones((800, 2), int), 6.0, 100), draws.random(800) < 0.5
    found = coverage.centres(known, most_of_all, stream(1, "clusters"))
    asked: list[int] = []

    def undecided(*given: object) -> int:
        asked.append(len(given))
        return UNDECIDED

    monkeypatch.setattr(coverage_module, "_compiled", lambda: undecided)
    again = coverage.centres(known, most_of_all, stream(1, "clusters"))
    assert asked  # it was compiled before, and then left to numpy, from the same draws on
    np.testing.assert_array_equal(found, again)
    assert len(found) > 50


def test_choices_are_those_of_numpy() -> None:
    for seed in range(50):
        draws = stream(seed, "draws").integers(1 << 32, size=40, dtype=np.uint32).tolist()
        like, left = stream(seed, "draws"), list(range(17))
        found, chosen = apart(17, draws)
        assert (found, chosen) == (17, [left.pop(int(like.integers(len(left)))) for _ in range(17)])


def test_an_uneven_draw_is_made_again() -> None:
    # Of three: 2^32 = 3 x 1,431,655,765 + 1, so that a product whose low half is 0 would come once too often.
    assert apart(3, [0, 1 << 31, 0]) == (3, [1, 0, 2])
    assert apart(3, [0, (1 << 32) - 1, 1 << 31]) == (3, [2, 1, 0])
    assert apart(3, [0])[0] == UNDECIDED  # and there is none left
    assert apart(3, [1, 0]) == (
        3,
        [0, 1, 2],
    )  # the low half is 3, which is not too little; of two each is even


@given(number=st.integers(1, 1 << 31))
def test_what_is_left_of_a_division(number: int) -> None:
    assert _rest(number) == (1 << 32) % number


def test_who_cannot_be_covered_is_not_decided() -> None:
    one, nothing = numbers(0), numbers(0, 0)
    heard = Heard(one, nothing, one[:0], nothing, one[:0], numbers(0, 1), one)
    flags, room = np.ones(1, dtype=bool), numbers(0)
    for way in filter(None, WAYS.values()):
        given = (
            heard,
            numbers(0),
            1,
            flags,
            flags.copy(),
            1,
            numbers(5),
            1,
            numbers(0),
            1,
            room,
            room.copy(),
            room,
        )
        assert way(*given) == UNDECIDED
