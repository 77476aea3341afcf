"""Ditto."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from fedroam.components import Part, field, register
from fedroam.federation.protocol import (
    Arrays,
    Evaluated,
    FederationContext,
    Start,
    one_model,
    own_models,
)
from fedroam.federation.server.loop import GLOBAL, ServerLoop, ServerRound, server_model
from fedroam.learning import Anchor, Job, Models


@register(
    "federation", "ditto", source="Li et al., ICML 2021, objective h_k and Alg. 1, and the authors' code"
)
class Ditto(Part, ServerLoop):
    """FedAvg, and beside it a personal model for each client, held to the server's: F_i(v) + lambda/2 ||v - w||^2.

    An active client trains the server's model w for the server, and its own model v for itself, each with the whole
    local work of a round and on the same batches: v <- v - lr (grad F_i(v) + lambda (v - w)), w as it was handed out.
    The server's average is weighted by samples (the authors' code draws clients by their samples and takes the plain
    average). Judged with the personal models; the server's is the second. Sends as much as FedAvg does, and computes
    twice as much. With strength = 0 the personal models are those of learning alone.
    """

    strength: float = field(
        1.0,
        "lambda, how strongly personal models are held to the server's (1 is the authors' setting without attacks)",
        ge=0,
        allow_inf_nan=False,
    )

    @override
    def begin(self, round: ServerRound, start: Start) -> None:
        """Rows clients, clients + 1, ... are the personal models."""
        super().begin(round, start)
        clients = range(round.context.clients)
        round.models = start([*clients, *clients])

    @override
    def jobs(self, round: ServerRound) -> Sequence[Job]:
        """For the server, and for oneself."""
        hold, n = Anchor(self.strength, round.tensor(GLOBAL)), round.context.clients
        own = [
            Job(int(i), n + int(i), round.context.train[i], round.number, anchor=hold) for i in round.clients
        ]
        return [*super().jobs(round), *own]

    @override
    def evaluation_models(self, models: Models, state: Arrays, context: FederationContext) -> Evaluated:
        n = context.clients
        own = Models(models.layout, models.parameters[n:], models.buffers[n:], None)
        server = server_model(models, state)
        return {"personal": own_models(own, server), "global": one_model(server, n)}
