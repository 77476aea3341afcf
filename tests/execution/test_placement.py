"""Placement: who meets is together, the work is shared evenly, and moves must be worth it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from fedroam.execution.placement import PERIOD, TOLERANCE, Meetings, crossings, partition, renamed, shares
from fedroam.randomness import stream


def graph(pairs: list[tuple[int, int]], n: int) -> sparse.csr_array:
    i, j = np.array(pairs).T
    one = sparse.coo_array((np.ones(len(pairs), np.float32), (i, j)), shape=(n, n))
    return sparse.csr_array(one + one.T)


def test_two_groups_who_hardly_meet_are_two_parts() -> None:
    """0, 2, 4, 6 all meet, and 1, 3, 5, 7 all meet; only 0 and 1 meet across."""
    even = [(a, b) for a in range(0, 8, 2) for b in range(0, a, 2)]
    odd = [(a, b) for a in range(1, 8, 2) for b in range(1, a, 2)]
    met = graph([*even, *odd, (0, 1)], 8)
    found = partition(met, np.ones(8), 2)
    assert len(set(found[::2])) == len(set(found[1::2])) == 1
    assert found[0] != found[1]
    assert crossings(met, found) == 2  # the models of 0 and of 1
    assert crossings(met, np.arange(8) // 4) == 8  # each has a friend elsewhere
    assert crossings(met, np.zeros(8, np.int64)) == 0


@given(st.integers(0, 40), st.integers(1, 7), st.integers(0, 5))
def test_shares_are_about_equal(n: int, parts: int, seed: int) -> None:
    load = stream(seed, "loads").random(n) + 0.1
    order = stream(seed, "order").permutation(n)
    found = shares(order, load, parts)
    assert ((found >= 0) & (found < parts)).all()
    assert (np.diff(found[order]) >= 0).all()  # consecutive
    if n:
        loads = np.bincount(found, load, minlength=parts)
        assert np.abs(loads - load.sum() / parts).max() <= load.max() + 1e-9


@given(st.integers(2, 60), st.integers(1, 5), st.integers(0, 20))
def test_a_partition_is_balanced_and_follows_from_the_graph(n: int, parts: int, seed: int) -> None:
    draws = stream(seed, "graph")
    met = graph(draws.integers(0, n, (2 * n, 2)).tolist(), n)
    load = draws.random(n) + 0.5
    found = partition(met, load, parts)
    assert np.array_equal(found, partition(met, load, parts))
    mean = load.sum() / parts
    assert np.bincount(found, load, minlength=parts).max() <= max(TOLERANCE * mean, mean + load.max()) + 1e-9


def test_places_on_a_line_are_cut_into_stretches() -> None:
    """A path, its clients numbered at random: k parts need k - 1 cuts, two models each."""
    n, parts = 60, 4
    names = stream(1, "names").permutation(n)
    met = graph([(int(names[k]), int(names[k + 1])) for k in range(n - 1)], n)
    assert crossings(met, partition(met, np.ones(n), parts)) == 2 * (parts - 1)


def test_new_parts_keep_the_names_by_which_most_stay() -> None:
    old, new = np.array([0, 0, 1, 1, 2, 2]), np.array([2, 2, 0, 0, 1, 0])
    assert renamed(old, new, 3, np.ones(6)).tolist() == [0, 0, 1, 1, 2, 1]


def test_moving_must_be_worth_it() -> None:
    met = graph([(0, 2), (1, 3)], 4)
    place, one = np.array([0, 0, 1, 1]), np.ones(4)
    i, j = met.nonzero()

    def look(cost: float, left: int) -> np.ndarray | None:
        meetings = Meetings(4)
        meetings.note(i, j)
        return meetings.better(place, one, one * cost, 2, left)

    # Two clients move; each round then spares four rows.
    found = look(cost=10.0, left=6)
    assert found is not None
    assert sorted(np.bincount(found)) == [2, 2]
    assert found[0] == found[2] != found[1] == found[3]
    assert look(cost=10.0, left=5) is None  # 20 rows are spared, and two clients cost 20
    meetings = Meetings(4)
    assert meetings.better(place, one, one, 2, 100) is None  # nobody has met
    meetings.note(i, j)
    assert meetings.better(place, one, one, 2, 100) is not None
    meetings.note(i, j)
    assert meetings.better(place, one, one, 2, 100) is None  # not yet again
    for _ in range(PERIOD):
        meetings.note(i, j)
    assert meetings.better(place, one, one, 2, 100) is not None
