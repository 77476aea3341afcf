"""The weights of an exchange: x_i <- sum_j w_ij x_j over the client itself and those it meets."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from scipy import sparse

from fedroam.components import Part, register
from fedroam.contacts.ragged import in_rows, lengths
from fedroam.mixing.facts import Facts


@runtime_checkable
class Mixing(Protocol):
    """A rule for the weights of an exchange."""

    def weights(self, graph: sparse.csr_array, facts: Facts) -> sparse.csr_array:
        """Weights w_ij, float64 CSR [clients, clients]: non-negative, rows summing to 1, and zero wherever i and
        j are neither the same client nor in contact. `graph` is a contact graph (symmetric, no self-loops).
        """


def entries(graph: sparse.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the contacts of a graph."""
    rows = np.repeat(np.arange(graph.shape[0]), lengths(graph.indptr))
    return rows, graph.indices


def matrix(rows: np.ndarray, columns: np.ndarray, values: np.ndarray, own: np.ndarray) -> sparse.csr_array:
    """The sparse weights with the given off-diagonal entries (row by row) and the diagonal `own`; columns sorted in a
    row."""
    clients, each = len(own), np.arange(len(own))
    begins = np.zeros(clients + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=clients) + 1, out=begins[1:])
    diagonal = begins[:-1] + np.bincount(rows[columns < rows], minlength=clients)
    others = np.ones(begins[-1], dtype=bool)
    others[diagonal] = False
    data, places = np.empty(len(others)), np.empty(len(others), dtype=np.int64)
    data[diagonal], places[diagonal] = own, each
    data[others], places[others] = values, columns
    weights = in_rows(data, places, begins, (clients, clients))
    if ((columns[1:] <= columns[:-1]) & (rows[1:] == rows[:-1])).any():
        weights.has_sorted_indices = weights.has_canonical_format = False
        weights.sort_indices()
    if not data.all():
        weights.eliminate_zeros()  # a neighbour without weight is no part of the sum, whatever its model holds
    return weights


@register("mixing", "data_size", source="Reza et al., Eq. 2: w_ij = |D_j| / (|D_i| + sum_{k in N_i} |D_k|)")
class DataSize(Part):
    """FedAvg over the neighbourhood: everybody in it counts by the samples it holds. Rows sum to 1.

    A neighbourhood that holds no sample at all keeps the client's own model.
    """

    def weights(self, graph: sparse.csr_array, facts: Facts) -> sparse.csr_array:
        """|D_j| over the samples of the neighbourhood."""
        size = facts.samples.astype(np.float64)
        total = size + graph.astype(np.float64) @ size
        empty = total == 0
        total[empty] = 1.0
        rows, columns = entries(graph)
        return matrix(rows, columns, size[columns] / total[rows], np.where(empty, 1.0, size / total))


@register(
    "mixing",
    "metropolis",
    source="Jahani et al., Eq. 2; Xiao, Boyd, Lall, IPSN 2005: w_ij = 1 / (1 + max(d_i, d_j))",
)
class Metropolis(Part):
    """Metropolis-Hastings weights: symmetric and doubly stochastic on every contact graph.

    d is the degree in the present graph; w_ii = 1 - sum_{j != i} w_ij.
    """

    def weights(self, graph: sparse.csr_array, facts: Facts) -> sparse.csr_array:
        """1 / (1 + max(d_i, d_j)), and on the diagonal what is left of 1."""
        degree = lengths(graph.indptr)
        rows, columns = entries(graph)
        values = 1.0 / (1.0 + np.maximum(degree[rows], degree[columns]))
        own = 1.0 - np.bincount(rows, weights=values, minlength=graph.shape[0])
        return matrix(rows, columns, values, own)
