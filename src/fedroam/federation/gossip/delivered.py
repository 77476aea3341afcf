"""What got through in an exchange in which one way counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from fedroam.federation.protocol import Meeting, Round, SendsOneWay, Traffic


def directed(receiver: np.ndarray, sender: np.ndarray, clients: int) -> sparse.csr_array:
    """The graph of models on their way, each once: bool CSR [clients, clients], a row for each receiver."""
    ends = (receiver.astype(np.int64), sender.astype(np.int64))
    graph = sparse.coo_array((np.ones(len(ends[0]), dtype=bool), ends), shape=(clients, clients)).tocsr()
    graph.sort_indices()
    return graph


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
