"""How long contacts last: worked by hand, and against looking at many instants."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from fedroam.contacts import contact_durations, graph_of
from fedroam.mobility import Paths
from fedroam.randomness import stream


def everybody(clients: int) -> sparse.csr_array:
    pairs = np.array([(i, j) for i in range(clients) for j in range(i)], dtype=np.int64)
    return graph_of(pairs.reshape(-1, 2), clients)


def test_who_passes_by_is_near_for_the_chord_over_the_way() -> None:
    # 0 stands at the origin; 1 runs along y = 3 from x = -10 to 10: within 5 m for a chord of 2 sqrt(25 - 9) = 8 m.
    start, end = np.array([[0.0, 0.0], [-10.0, 3.0]]), np.array([[0.0, 0.0], [10.0, 3.0]])
    found = contact_durations(Paths.straight(start, end), everybody(2), 5.0).toarray()
    np.testing.assert_allclose(found, [[0, 0.4], [0.4, 0]], atol=1e-15)


@pytest.mark.parametrize(("gap", "share"), [(2.0, 1.0), (5.0, 1.0), (5.1, 0.0)])
def test_who_stands_still_is_near_always_or_never(gap: float, share: float) -> None:
    still = Paths.still(np.array([[0.0, 0.0], [gap, 0.0]]))
    found = contact_durations(still, everybody(2), 5.0)
    assert found.nnz == 2, "a contact without any time keeps its entry"
    assert found[0, 1] == share


def test_a_way_with_a_corner_is_the_sum_of_its_legs() -> None:
    # 1 comes from 20 m to the origin in the first quarter of the round, and waits there.
    paths = Paths(
        first=np.array([0, 2, 5]),
        time=np.array([0.0, 1.0, 0.0, 0.25, 1.0]),
        point=np.array([[0.0, 0], [0, 0], [20, 0], [0, 0], [0, 0]]),
        present=np.ones(2, dtype=bool),
    )
    found = contact_durations(paths, everybody(2), 5.0)
    assert found[0, 1] == pytest.approx(0.25 * 5 / 20 + 0.75, abs=1e-15)


def test_everybody_hears_everybody_all_the_time() -> None:
    found = contact_durations(Paths.still(np.zeros((3, 2))), everybody(3), math.inf)
    np.testing.assert_array_equal(found.toarray(), 1 - np.eye(3))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 5), st.integers(1, 4), st.floats(0.5, 8))
def test_it_is_what_many_instants_say(seed: int, clients: int, legs: int, radius: float) -> None:
    draws = stream(seed, "durations")
    time = np.sort(draws.random((clients, legs + 1)), axis=1)
    time[:, 0], time[:, -1] = 0.0, 1.0
    point = draws.random((clients * (legs + 1), 2)) * 10
    first = np.arange(clients + 1, dtype=np.int64) * (legs + 1)
    paths = Paths(first, time.reshape(-1), point, np.ones(clients, dtype=bool))
    found = contact_durations(paths, everybody(clients), radius).toarray()
    instants, seen = 400, np.zeros((clients, clients))
    for k in range(instants):
        place = paths.at((k + 0.5) / instants)
        seen += np.hypot(*(place[:, None] - place[None]).transpose(2, 0, 1)) <= radius
    np.fill_diagonal(seen, 0)
    # Each pair crosses the radius at most twice on each of its pieces: two instants are in doubt for each.
    np.testing.assert_allclose(found, seen / instants, atol=2 * 2 * legs / instants)
    np.testing.assert_array_equal(found, found.T)
