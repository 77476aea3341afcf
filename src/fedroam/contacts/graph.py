"""Contact graphs: symmetric, sparse, without self-loops."""

from __future__ import annotations

from typing import Protocol, TypeGuard, runtime_checkable

import numpy as np
from scipy import sparse

from fedroam.contacts.ragged import in_rows, lengths, stable_order
from fedroam.mobility import Paths


@runtime_checkable
class Contacts(Protocol):
    """Who can talk to whom in a round."""

    def meet(self, paths: Paths) -> sparse.csr_array:
        """The contact graph of a round: bool CSR [clients, clients], symmetric, empty diagonal."""

    def reach(self) -> float:
        """Radio range in metres, infinite where everybody hears everybody."""


@runtime_checkable
class GoesByRound(Protocol):
    """A contact rule that needs to know which round it is: places alone do not say who meets."""

    def of_round(self, round: int) -> Contacts:
        """The rule of a round from 0, which is the start."""


def in_round(rule: Contacts, round: int) -> Contacts:
    """The rule by which clients meet in a round."""
    return rule.of_round(round) if _goes_by_round(rule) else rule


def _goes_by_round(rule: Contacts) -> TypeGuard[GoesByRound]:
    """Asked of its class, which keeps the answer: of each object anew it is a noticeable part of a small round."""
    return issubclass(type(rule), GoesByRound)


def graph_of(pairs: np.ndarray, clients: int) -> sparse.csr_array:
    """The symmetric graph of undirected pairs (int [pairs, 2], each pair once, no self-pairs)."""
    i, j = pairs[:, 0], pairs[:, 1]
    data = np.ones(2 * len(pairs), dtype=bool)
    rows, columns = np.concatenate([j, i]), np.concatenate([i, j])
    if len(pairs) and ((i[1:] > i[:-1]) | ((i[1:] == i[:-1]) & (j[1:] > j[:-1]))).all() and (i < j).all():
        # Each row's columns below it come before those above it, both rising.
        order = stable_order(rows, clients)
        first = np.zeros(clients + 1, dtype=np.int64)
        np.cumsum(np.bincount(rows, minlength=clients), out=first[1:])
        return in_rows(data, columns[order], first, (clients, clients))
    graph = sparse.coo_array((data, (rows, columns)), shape=(clients, clients)).tocsr()
    graph.sort_indices()
    return graph


def pairs_of(graph: sparse.csr_array) -> np.ndarray:
    """The undirected pairs i < j of a contact graph, int32 [pairs, 2], ordered by i, then j."""
    i, j = np.repeat(np.arange(graph.shape[0]), lengths(graph.indptr)), graph.indices
    upper = i < j
    i, j = i[upper], j[upper]
    if not graph.has_sorted_indices:
        order = np.lexsort((j, i))
        i, j = i[order], j[order]
    return np.stack([i, j], axis=1).astype(np.int32)


def degrees(graph: sparse.csr_array) -> np.ndarray:
    """Number of neighbours of each client, the client itself not counted, int64 [clients]."""
    return lengths(graph.indptr).astype(np.int64)
