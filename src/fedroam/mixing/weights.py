"""The weights of an exchange: x_i <- sum_j w_ij x_j over the client itself and those it meets."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy import sparse

from fedroam.checks.answers import check_sparse, same_again
from fedroam.components import Part, answer_of, ours, register
from fedroam.contacts.ragged import in_rows, lengths
from fedroam.errors import InputError
from fedroam.mixing.facts import Facts


@runtime_checkable
class Mixing(Protocol):
    """A rule for the weights of an exchange."""

    def weights(self, graph: sparse.csr_array, facts: Facts) -> sparse.csr_array:
        """Weights w_ij, float64 CSR [clients, clients]: non-negative, rows summing to 1, and zero wherever i and
        j are neither the same client nor in contact. `graph` is a contact graph (symmetric, no self-loops).
        """


SUMS = 1e-6  # how far from 1 a row may sum to, by the rounding of many weights


def weights_of(
    rule: Mixing, graph: sparse.csr_array, facts: Facts, round: int | None = None
) -> sparse.csr_array:
    """The weights that a rule gives, in a round if it is one of a run.

    A rule that does not come with fedroam is handed copies, so that it changes no meeting, and its weights are held
    against what `Mixing.weights` promises: raises InputError where they are something else.
    """
    if ours(rule):  # what comes with fedroam is held against it by tests
        return rule.weights(graph, facts)
    found = rule.weights(graph.copy(), facts.copied())
    with answer_of("mixing", rule, round):
        weights = _checked(found, graph)
        if round == 1:
            again = _checked(rule.weights(graph.copy(), facts.copied()), graph)
            same_again(_by_name(weights), _by_name(again))
        return weights


def _by_name(weights: sparse.csr_array) -> dict[str, np.ndarray]:
    """Weights as arrays with names."""
    return {
        "number of weights": lengths(weights.indptr),
        "choice of neighbours": weights.indices,
        "weight": weights.data,
    }


def _checked(found: Any, graph: sparse.csr_array) -> sparse.csr_array:
    """What a rule gave, as it is to be."""
    is_array = isinstance(found, np.ndarray) or sparse.issparse(found)
    if not is_array or found.shape != graph.shape:
        what = f"an array {list(found.shape)}" if is_array else type(found).__name__
        raise InputError(f"weights gave {what}, allowed is a csr_array {list(graph.shape)}")
    if found.dtype.kind not in "biuf":
        raise InputError(f"its weights are {found.dtype}, allowed are float64")
    check_sparse(found, "weights")
    weights = sparse.csr_array(found).astype(np.float64)
    weights.sum_duplicates()
    rows, columns = entries(weights)
    refused = ~(weights.data >= 0) | np.isinf(weights.data)
    if refused.any():
        k = int(np.flatnonzero(refused)[0])
        raise InputError(
            f"client {rows[k]} gives the model of client {columns[k]} the weight {weights.data[k]:g}, allowed are "
            "numbers from 0 to 1"
        )
    meets, apart = (_numbered(each) for each in (graph, weights))
    strangers = (rows != columns) & (weights.data > 0) & ~np.isin(apart, meets)
    if strangers.any():
        k = int(np.flatnonzero(strangers)[0])
        raise InputError(
            f"client {rows[k]} gives the model of client {columns[k]} the weight {weights.data[k]:g}, and the two do "
            "not meet; allowed are weights of the client itself and of those that it meets"
        )
    sums = weights.sum(axis=1)
    wrong = np.flatnonzero(np.abs(sums - 1) > SUMS)
    if len(wrong):
        k = int(wrong[0])
        raise InputError(f"the weights of client {k} sum to {sums[k]:g}, allowed are rows that sum to 1")
    weights.eliminate_zeros()
    return weights


def _numbered(graph: sparse.csr_array) -> np.ndarray:
    """Each entry of a square array by one number."""
    rows, columns = entries(graph)
    return np.asarray(rows * graph.shape[1] + columns)


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
        rows, columns = entries(graph)
        others = size[columns]
        total = size + np.bincount(rows, weights=others, minlength=len(size))
        empty = total == 0
        total[empty] = 1.0
        return matrix(rows, columns, others / total[rows], np.where(empty, 1.0, size / total))


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
