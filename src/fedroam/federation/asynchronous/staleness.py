"""What methods share whose server takes updates as they arrive: in which order, and how stale each of them is.

The staleness of an update is the number of models that the server has made since the client got the one that it
trained. A client begins at the begin of a round, with the server's model of that moment. Under a clock of seconds with
`late = "carried"` updates arrive rounds later, as slow as their clients are, and the shorter a round is, the less
anybody waits. Without seconds all arrive in the round, in the order of clients.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedroam.federation.server.loop import ServerRound

# State: how many models the server has made, int64 [1], and which of them each client got last, int64 [clients].
VERSION, BASE = "version", "base"
COLUMNS = ("staleness", "server_models")


def count_from_zero(round: ServerRound) -> None:
    """Before round 1: the server's start model is number 0."""
    round.state[VERSION] = np.zeros(1, np.int64)
    round.state[BASE] = np.zeros(round.context.clients, np.int64)


def note_given(round: ServerRound) -> None:
    """The active clients got the server's present model."""
    base = round.state[BASE].copy()
    base[round.clients] = round.state[VERSION][0]
    round.state[BASE] = base


def count_model(round: ServerRound) -> None:
    """The server made a new model."""
    round.state[VERSION] = round.state[VERSION] + 1


def take_all(round: ServerRound, take: Callable[[ServerRound, int, int], None]) -> None:
    """Let `take(round, client, staleness)` take each update that arrived, in this order; notes the columns."""
    stale = []
    for client in round.by_arrival().tolist():
        stale.append(int(round.state[VERSION][0] - round.state[BASE][client]))
        take(round, client, stale[-1])
    round.facts.update(zip(COLUMNS, (float(np.mean(stale)), float(round.state[VERSION][0])), strict=True))


def polynomial(staleness: int, exponent: float) -> float:
    """(1 + staleness)^-exponent (Xie et al. 2019, Sec. 5.2)."""
    return float((1.0 + staleness) ** -exponent)
