"""Windows of rounds that connect everybody, against brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from fedroam.analysis.connectivity.windows import (
    connected_windows,
    latest_starts,
    smallest_window,
)
from fedroam.errors import InputError
from fedroam.randomness import stream
from support.contact_graphs import graph, random_graph
from support.effort import calls

TEN = 10


def connected(graphs: list[sparse.csr_array]) -> bool:
    """The slow and obvious version."""
    union = sum((one.astype(np.int64) for one in graphs[1:]), graphs[0].astype(np.int64))
    return bool(connected_components(union, directed=False, return_labels=False) == 1)


@st.composite
def sequences(draw: st.DrawFn) -> list[sparse.csr_array]:
    clients, rounds = draw(st.integers(1, 5)), draw(st.integers(1, 14))
    pairs = list(itertools.combinations(range(clients), 2))
    some = st.lists(st.sampled_from(pairs), max_size=3, unique=True) if pairs else st.just([])
    return [graph(clients, *draw(some)) for _ in range(rounds)]


@given(sequences())
def test_every_window_and_the_smallest_b_equal_brute_force(graphs: list[sparse.csr_array]) -> None:
    clients, rounds = graphs[0].shape[0], len(graphs)
    latest = latest_starts(graphs, clients)
    for aligned, keep in ((True, False), (True, True), (False, False)):
        smallest = None
        for b in range(1, rounds + 1):
            starts = range(0, rounds - b + 1, b if aligned else 1)
            wanted = [connected(graphs[s : s + b]) for s in starts]
            if keep and rounds % b:
                wanted.append(connected(graphs[rounds - rounds % b :]))
            found = connected_windows(latest, b, sliding=not aligned, keep_last=keep)
            assert found.tolist() == wanted
            if all(wanted) and smallest is None:
                smallest = (b, len(wanted))
        got = smallest_window(latest, sliding=not aligned, keep_last=keep)
        assert (got.length, got.windows) == (smallest or (None, 0))
        if not keep:
            assert (got.length is None) == (not connected(graphs))


def test_a_larger_window_need_not_do_it_as_well() -> None:
    """One of two clients' meetings a round: at 4, 5 (from 0), 14, 15, 24 and so on. 5 does it, 6 does not."""
    apart, met = graph(2), graph(2, (0, 1))
    graphs = [met if t % TEN in (4, 5) else apart for t in range(60)]
    latest = latest_starts(graphs, 2)
    assert smallest_window(latest).length == 5
    assert not connected_windows(latest, 6).all()
    sliding = smallest_window(latest, sliding=True)
    assert sliding.length == 9  # between the meetings at 5 and 14 lie 8 rounds without one
    assert all(connected_windows(latest, b, sliding=True).all() for b in range(9, 60))


def test_a_static_graph_in_two_parts_has_no_b() -> None:
    latest = latest_starts([graph(4, (0, 1), (2, 3))] * 50, 4)
    assert smallest_window(latest).length is None
    assert smallest_window(latest, sliding=True).length is None


def test_an_incomplete_last_window_counts_only_if_asked_for() -> None:
    latest = latest_starts([graph(2, (0, 1)), graph(2), graph(2, (0, 1)), graph(2), graph(2)], 2)
    assert smallest_window(latest).length == 2
    assert smallest_window(latest, keep_last=True).length == 5
    with pytest.raises(InputError, match="window of 6 rounds: allowed is 1 to 5"):
        connected_windows(latest, 6)


def test_the_effort_grows_as_the_rounds_do() -> None:
    """With every length of windows, and not as the square of the rounds."""
    draws = stream(1, "many")
    graphs = [random_graph(draws, 20, 0.01) for _ in range(1000)]

    def judge(rounds: int) -> None:
        latest = latest_starts(graphs[:rounds], 20)
        smallest_window(latest)
        for b in range(1, rounds + 1):
            connected_windows(latest, b)

    assert calls(lambda: judge(1000)) < 15 * calls(lambda: judge(100))
