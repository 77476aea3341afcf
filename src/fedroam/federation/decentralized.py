"""Decentralized learning: clients in contact average their models, without any server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from fedroam.components import Part, field, register
from fedroam.contacts import degrees
from fedroam.federation.protocol import (
    Distributed,
    EvaluationModels,
    Exchanged,
    FederationContext,
    InitialState,
    Meeting,
    Round,
    Start,
    Traffic,
    own_models,
)
from fedroam.learning import Job, Learner, Models, mix
from fedroam.mixing import Facts


@register(
    "federation",
    "decentralized",
    source="Reza et al., Sec. III (move_then_mix); Jahani et al., Alg. 1 (mix_then_move)",
)
class Decentralized(Part):
    """Every client trains its own model, then takes a weighted average with the clients it is in contact with.

    A round is: local update, move, consensus at the new places (`move_then_mix`, Reza et al.), or: local update,
    consensus at the present places, move (`mix_then_move`, Jahani et al.; it uses the start places too).
    """

    order: Literal["move_then_mix", "mix_then_move"] = field(
        "move_then_mix", "whether the consensus of a round uses the places after its move or before it"
    )

    def init(self, context: FederationContext, start: Start, learner: Learner) -> InitialState:
        """A model for each client, no state."""
        return InitialState(start(range(context.clients)), {})

    def distribute(self, round: Round) -> Distributed:
        """Everybody who is present and holds samples trains its own model."""
        clients = round.context.available(round.before).tolist()
        jobs = [Job(i, i, round.context.train[i], round.number) for i in clients]
        return Distributed(jobs, Traffic.nothing(), round.models, dict(round.state))

    def exchange(self, round: Round, after: Meeting) -> Exchanged:
        """x_i(t) = sum_j w_ij x_j(t - 1/2) (Reza et al., consensus update).

        Each client sends its model to each neighbour; its training counts as aggregated once a neighbour has it.
        """
        context, models = round.context, round.models
        meeting = after if self.order == "move_then_mix" else round.before
        facts = Facts(samples=context.samples, speed=meeting.paths.length)
        mix(models, context.mixing.weights(meeting.graph, facts))
        degree, places = degrees(meeting.graph), meeting.paths.end
        receiver = np.repeat(np.arange(context.clients), degree)
        sender = meeting.graph.indices
        distance = np.hypot(*(places[sender] - places[receiver]).T)
        traffic = Traffic.of(sender, receiver, models.bytes_each, distance)
        return Exchanged(meeting, traffic, models, dict(round.state), aggregated=np.flatnonzero(degree > 0))

    def evaluation_models(
        self, models: Models, state: Mapping[str, np.ndarray], context: FederationContext
    ) -> Mapping[str, EvaluationModels]:
        """Each client by its own model; the average of all stands for all."""
        return {"own": own_models(models, models.mean())}
