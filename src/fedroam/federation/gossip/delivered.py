"""To whom models go in an exchange in which one way counts, and what got through, when."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from fedroam.contacts import contact_intervals
from fedroam.federation.protocol import Meeting, Round, SendsOneWay, Traffic
from fedroam.mobility import Paths
from fedroam.randomness import stream


def directed(receiver: np.ndarray, sender: np.ndarray, clients: int) -> sparse.csr_array:
    """The graph of models on their way, each once: bool CSR [clients, clients], a row for each receiver."""
    ends = (receiver.astype(np.int64), sender.astype(np.int64))
    graph = sparse.coo_array((np.ones(len(ends[0]), dtype=bool), ends), shape=(clients, clients)).tocsr()
    graph.sort_indices()
    return graph


def drawn_each(purpose: str, round: Round, meeting: Meeting, most: int) -> sparse.csr_array:
    """Each client (column) draws so many of its neighbours (rows) without replacement, all where there are fewer."""
    graph, rows, columns = meeting.graph, [], []
    for j in range(round.context.clients):
        near = graph.indices[graph.indptr[j] : graph.indptr[j + 1]]
        if len(near) > most:
            near = stream(round.context.seed, purpose, round.number, j).choice(near, most, replace=False)
        rows.append(near)
        columns.append(np.full(len(near), j))
    return directed(np.concatenate(rows), np.concatenate(columns), round.context.clients)


def first_opens(pairs: np.ndarray, paths: Paths, reach: float) -> np.ndarray:
    """When each pair's first contact opens, as a share of the way, float64 [pairs]; 1 for those that meet by another
    rule than distance. pairs: int64 [pairs, 2], the lower client first, ascending. reach: m."""
    found, clients = contact_intervals(paths, reach, pairs), paths.clients
    key, first = np.unique(found.i * clients + found.j, return_index=True)
    opens = np.ones(len(pairs))
    opens[np.searchsorted(pairs[:, 0] * clients + pairs[:, 1], key)] = found.open[first]
    return opens


@dataclass(frozen=True)
class Delivered:
    """What got through.

    received: whose models (columns) each client (row) got, bool CSR [clients, clients]. meeting: the exchange's, with
    those in contact between whom anything got through. traffic: one entry for each of `received`.
    """

    received: sparse.csr_array
    meeting: Meeting
    traffic: Traffic

    @classmethod
    def of(cls, federation: SendsOneWay, round: Round, meeting: Meeting) -> Delivered:
        """Of what a federation sends in a meeting: all of it, or what the round says that was received."""
        sends, clients = meeting.sends(federation, round), round.context.clients
        found = sends if round.received is None else round.received
        here = ~np.isin(np.arange(clients), round.lost)
        i, j = (ends.astype(np.int64) for ends in found.nonzero())
        i, j = i[here[i] & here[j]], j[here[i] & here[j]]
        received = directed(i, j, clients)
        both = (received + received.T).tocsr()
        both.sort_indices()
        places = meeting.paths.end
        distance = np.hypot(*(places[j] - places[i]).T)
        size = np.asarray(sends[i, j]).reshape(-1) if len(i) else np.zeros(0, np.int64)
        return cls(received, Meeting(meeting.paths, both), Traffic.of(j, i, size, distance))

    @property
    def heard(self) -> np.ndarray:
        """The clients whose model anybody got, int64, ascending."""
        return np.unique(self.received.indices).astype(np.int64)
