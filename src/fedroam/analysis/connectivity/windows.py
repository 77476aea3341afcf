"""Windows of rounds: over which of them the contact graphs, taken together, connect everybody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import minimum_spanning_tree

from fedroam.errors import InputError


@dataclass(frozen=True)
class SmallestWindow:
    """The smallest B for B-strong connectivity: `length` in rounds (None: no window length does it), and how many
    windows of that length were looked at. One window is weak evidence: then B says no more than that the first B
    rounds together connect everybody.
    """

    length: int | None
    windows: int


def pairs_in(graph: sparse.csr_array) -> np.ndarray:
    """The undirected pairs i < j of a contact graph, int64 [pairs, 2]."""
    rows = np.repeat(np.arange(graph.shape[0], dtype=np.int64), np.diff(graph.indptr))
    columns = graph.indices.astype(np.int64)
    return np.stack([rows, columns], axis=1)[rows < columns]


def latest_starts(graphs: Sequence[sparse.csr_array], clients: int) -> np.ndarray:
    """For each round t the latest s for which the graphs of rounds s .. t, taken together, connect all clients.

    graphs: one contact graph (symmetric) a round; clients: their number of nodes. Rounds count from 0 here; -1
    where even the rounds 0 .. t do not. int64 [rounds], never falling.

    Each pair is given the round it last met in; s is the smallest of these on the spanning tree that is largest by
    them. A tree and the pairs of the next round hold the next tree (all other pairs stay the smallest of a cycle),
    so a round costs a tree of clients - 1 + contacts edges, and every window of every length is then known exactly.
    """
    latest = np.full(len(graphs), -1, dtype=np.int64)
    pairs, last = np.zeros((0, 2), dtype=np.int64), np.zeros(0, dtype=np.int64)
    for t, graph in enumerate(graphs):
        new = pairs_in(graph)
        both = np.concatenate([new, pairs])
        when = np.concatenate([np.full(len(new), t, dtype=np.int64), last])
        # A pair met again is new: of equal keys the first is found.
        keys, first = np.unique(both[:, 0] * clients + both[:, 1], return_index=True)
        rows, columns = np.divmod(keys, clients)
        begins = np.searchsorted(rows, np.arange(clients + 1))
        ages = (t + 1 - when[first]).astype(np.float64)
        tree = minimum_spanning_tree(sparse.csr_array((ages, columns, begins), (clients, clients)))
        kept = np.repeat(np.arange(clients, dtype=np.int64), np.diff(tree.indptr))
        pairs = np.stack([kept, tree.indices.astype(np.int64)], axis=1)
        last = t + 1 - np.rint(tree.data).astype(np.int64)
        if len(pairs) == clients - 1:
            latest[t] = last.min(initial=t)
    return latest


def connected_windows(
    latest: np.ndarray, length: int, *, sliding: bool = False, keep_last: bool = False
) -> np.ndarray:
    """Whether each window of `length` rounds connects everybody, bool [windows]; latest: what `latest_starts` gives.

    Windows are aligned, [k B, (k + 1) B - 1] (Jahani et al., Property 1), or start in every round (sliding). The
    incomplete last one of the aligned windows is left out, or kept as it is (keep_last). Raises InputError for a
    length that is not 1 .. rounds.
    """
    rounds = len(latest)
    if not 1 <= length <= rounds:
        raise InputError(f"window of {length} rounds: allowed is 1 to {rounds}, the rounds there are")
    starts = np.arange(0, rounds - length + 1, 1 if sliding else length)
    connected = latest[starts + length - 1] >= starts
    if keep_last and not sliding and rounds % length:
        connected = np.append(connected, latest[-1] >= rounds - rounds % length)
    return connected


def smallest_window(latest: np.ndarray, *, sliding: bool = False, keep_last: bool = False) -> SmallestWindow:
    """The smallest B for which every window of B rounds connects everybody (Jahani et al., Property 1).

    Options as in `connected_windows`. With aligned windows a larger B need not do it as well: 5 may hold and 6
    fail. There is none if and only if the whole run taken together leaves somebody apart, as a static graph in
    several parts does for ever.
    """
    for length in range(1, len(latest) + 1):
        connected = connected_windows(latest, length, sliding=sliding, keep_last=keep_last)
        if connected.all():
            return SmallestWindow(length, len(connected))
    return SmallestWindow(None, 0)


def first_contacts(graphs: Sequence[sparse.csr_array]) -> np.ndarray:
    """Every pair that ever meets and the first round in which it does: int64 [pairs, 3] of i < j, round (from 1)."""
    found = [pairs_in(graph) for graph in graphs]
    if not found:
        return np.zeros((0, 3), dtype=np.int64)
    when = np.repeat(np.arange(1, len(found) + 1), [len(pairs) for pairs in found])
    table = np.column_stack([np.concatenate(found), when])
    _, first = np.unique(table[:, :2], axis=0, return_index=True)  # of equal rows the earliest
    return table[first]
