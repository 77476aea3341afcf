"""What methods share whose server takes updates as they arrive: in which order, and how stale each of them is.

The staleness of an update is the number of models that the server has made since the client got the one that it
trained. A client begins at the begin of a round, with the server's model of that moment. Under a clock of seconds with
`late = "carried"` updates arrive rounds later, as slow as their clients are, and the shorter a round is, the less
anybody waits. Those that arrive at once, as without seconds all do, are taken in an order drawn anew for each round.
"""

from __future__ import annotations

import numpy as np

from fedroam.federation.asynchronous.rules import ArrivalRule, Holder
from fedroam.federation.server.loop import GLOBAL, GLOBAL_BUFFERS, ServerRound

# State: how many models the server has made, int64 [1], and which of them each client got last, int64 [clients]. Where
# changes are gathered: what each client was given, float32 [clients, values], their sum, float64 [values], and of how
# many updates it is, int64 [1].
VERSION, BASE = "version", "base"
BEGUN, BUFFER, HELD = "begun", "buffer", "held"
COLUMNS = ("staleness", "server_models")


def count_from_zero(round: ServerRound, rule: ArrivalRule) -> None:
    """Before round 1: the server's start model is number 0."""
    round.state[VERSION] = np.zeros(1, np.int64)
    round.state[BASE] = np.zeros(round.context.clients, np.int64)
    if rule.gathers:
        width = round.layout.size + round.layout.buffer_size
        round.state[BEGUN] = np.zeros((round.context.clients, width), np.float32)
        round.state[BUFFER] = np.zeros(width)
        round.state[HELD] = np.zeros(1, np.int64)


def note_given(round: ServerRound, rule: ArrivalRule) -> None:
    """The active clients got the server's present model."""
    base = round.state[BASE].copy()
    base[round.clients] = round.state[VERSION][0]
    round.state[BASE] = base
    if rule.gathers:
        begun = round.state[BEGUN].copy()
        begun[round.clients] = np.concatenate([round.state[GLOBAL], round.state[GLOBAL_BUFFERS]])
        round.state[BEGUN] = begun


def take_all(round: ServerRound, rule: ArrivalRule) -> None:
    """Let the server take each update that arrived, in this order; notes the columns."""
    state, models, stale = round.state, round.models, []
    server = Holder((round.tensor(GLOBAL), round.tensor(GLOBAL_BUFFERS)), int(state[VERSION][0]))
    if rule.gathers:
        server = Holder(server.model, server.version, state[BUFFER], int(state[HELD][0]))
    for client in round.by_arrival().tolist():
        stale.append(server.version - int(state[BASE][client]))
        given = state[BEGUN][client] if rule.gathers else None
        server = rule.take(server, (models.parameters[client], models.buffers[client]), given, stale[-1])
    state[GLOBAL], state[GLOBAL_BUFFERS] = (each.cpu().numpy() for each in server.model)
    state[VERSION] = np.array([server.version])
    if server.changes is not None:
        state[BUFFER], state[HELD] = server.changes, np.array([server.held])
    round.facts.update(zip(COLUMNS, (float(np.mean(stale)), float(server.version)), strict=True))
