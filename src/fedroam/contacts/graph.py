"""Contact graphs: symmetric, sparse, without self-loops."""

from __future__ import annotations

from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np
from scipy import sparse

from fedroam.checks.answers import check_sparse, checked_number, found_as, same_again
from fedroam.components import answer_of, ours
from fedroam.contacts.ragged import in_rows, lengths, stable_order
from fedroam.errors import InputError
from fedroam.mobility import Paths


@runtime_checkable
class Contacts(Protocol):
    """Who can talk to whom in a round."""

    def meet(self, paths: Paths) -> sparse.csr_array:
        """The contact graph of a round: bool CSR [clients, clients], symmetric, empty diagonal, nobody in it who is not
        present."""

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


def met(rule: Contacts, round: int, paths: Paths) -> sparse.csr_array:
    """Who meets whom by a rule in a round in which these are the paths: a graph as `Contacts.meet` promises it.

    What a rule that does not come with fedroam gives is held against that, and may be any array, dense or sparse:
    raises InputError where it is something else.
    """
    asked = in_round(rule, round)
    if ours(rule):
        return asked.meet(paths)
    found = asked.meet(paths.only_to_read())
    with answer_of("contacts", rule, round):
        graph = _checked(found, paths)
        if round <= 1:
            same_again(_rows_of(graph), _rows_of(_checked(asked.meet(paths), paths)))
        return graph


def _rows_of(graph: sparse.csr_array) -> dict[str, np.ndarray]:
    """Who meets whom, by name of the array."""
    return {"degree": degrees(graph), "set of contacts": graph.indices}


def reach_of(rule: Contacts) -> float:
    """How far clients hear each other by a rule, m, as `Contacts.reach`; raises InputError where one's own gives what
    is no distance."""
    found = rule.reach()
    if ours(rule):
        return found
    with answer_of("contacts", rule):
        return checked_number("reach", found, infinite=True)


def _checked(found: Any, paths: Paths) -> sparse.csr_array:
    """What a rule gave, as it is to be."""
    shape = (paths.clients, paths.clients)
    is_array = isinstance(found, np.ndarray) or sparse.issparse(found)
    if not is_array or found.shape != shape or found.dtype.kind not in "biuf":
        what = f"an array {list(found.shape)}, {found.dtype}" if is_array else found_as(found)
        raise InputError(f"meet gave {what}, allowed is a csr_array {list(shape)} of truth values")
    check_sparse(found, "meet")
    given = sparse.csr_array(found)
    if not (given.data >= 0).all():
        raise InputError("meet gave numbers below 0, or NaN; allowed are truth values")
    graph = given.astype(bool)  # a copy: the rule may keep its own
    graph.sum_duplicates()
    graph.eliminate_zeros()
    i, j = np.repeat(np.arange(shape[0]), lengths(graph.indptr)), graph.indices.astype(np.int64)
    if (i == j).any():
        raise InputError(f"client {i[i == j][0]} meets itself, allowed are others")
    alone = ~np.isin(j * shape[0] + i, i * shape[0] + j)
    if alone.any():
        a, b = i[alone][0], j[alone][0]
        raise InputError(
            f"client {a} meets client {b}, and {b} does not meet {a}; allowed is both or neither"
        )
    away = ~paths.present[i]  # both ways are there: whoever is away is the first of some pair
    if away.any():
        a, b = j[away][0], i[away][0]
        raise InputError(f"client {a} meets client {b}, and {b} is away; allowed are those in paths.present")
    return in_rows(graph.data, graph.indices, graph.indptr, shape)


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
