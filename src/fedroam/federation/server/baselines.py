"""What a method must beat to be of use: learning alone, and not learning at all."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from typing_extensions import override

from fedroam.components import Part, register
from fedroam.federation.protocol import (
    Arrays,
    Evaluated,
    FederationContext,
    Start,
    own_models,
)
from fedroam.federation.server.loop import ServerLoop, ServerRound
from fedroam.learning import Job, Layout, Models


@register("federation", "local")
class Local(Part, ServerLoop):
    """No federation: each client trains its own model on its own data, and nothing is sent.

    Who is away does not train here either, so that under churn it has no more training than any method.
    """

    @override
    def shared(self, layout: Layout) -> slice:
        return slice(0, 0)

    @override
    def begin(self, round: ServerRound, start: Start) -> None:
        """There is no server."""

    @override
    def broadcast(self, round: ServerRound) -> None:
        """Clients keep their models."""

    @override
    def aggregate(self, round: ServerRound) -> None:
        """Nobody sends anything."""

    @override
    def download(self, round: ServerRound) -> int:
        return 0

    @override
    def evaluation_models(self, models: Models, state: Arrays, context: FederationContext) -> Evaluated:
        return {"own": own_models(models)}


@register("federation", "majority")
class Majority(Part, ServerLoop):
    """No learning: each client predicts the class that it holds most of (the lowest one among equals).

    Written as a model: a network whose parameters are all 0 but for the head's bias, 1 at that class. Needs a model
    that declares a head with a bias.
    """

    shared, broadcast, aggregate = Local.shared, Local.broadcast, Local.aggregate
    download, evaluation_models = Local.download, Local.evaluation_models

    @override
    def begin(self, round: ServerRound, start: Start) -> None:
        round.models.parameters.zero_()
        bias = round.layout.columns("head.bias")
        rows = torch.arange(len(round.models))
        favourite = torch.from_numpy(round.context.class_counts.argmax(1))
        round.models.parameters[rows, bias.start + favourite] = 1.0

    @override
    def jobs(self, round: ServerRound) -> Sequence[Job]:
        return []
