"""Decentralized learning: clients in contact average their models, without any server."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
import torch
from scipy import sparse
from typing_extensions import override

from fedroam.components import Part, field, register
from fedroam.contacts import degrees
from fedroam.federation.aggregating import averages, made_by_rule
from fedroam.federation.attention import AveragingWeights
from fedroam.federation.holders import Gathered, KnownToHolders, Made, Transfers
from fedroam.federation.pieces import Pieces, mix_pieces
from fedroam.federation.protocol import (
    Arrays,
    Distributed,
    Evaluated,
    Exchanged,
    FederationContext,
    InitialState,
    Meeting,
    Round,
    Start,
    Traffic,
    own_models,
)
from fedroam.learning import Jobs, Learner, Models
from fedroam.learning.exchange import mix_rows
from fedroam.mobility import Paths


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

    holders: ClassVar[Literal["clients"]] = "clients"
    takes_pieces: ClassVar[bool] = True
    aggregates: ClassVar[bool] = True  # by the experiment's rule

    order: Literal["move_then_mix", "mix_then_move"] = field(
        "move_then_mix", "whether the consensus of a round uses the places after its move or before it"
    )

    @override
    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """An exchange of another kind takes pieces and goes by the experiment's rule where it says so: else a setting
        that asks for it is refused, and not ignored."""
        super().__pydantic_init_subclass__(**kwargs)
        if "exchange" in vars(cls):
            for able in ("takes_pieces", "aggregates"):
                if able not in vars(cls):
                    setattr(cls, able, False)

    def init(self, context: FederationContext, start: Start, learner: Learner) -> InitialState:
        """A model for each client, no state."""
        return InitialState(start(range(context.clients)), {})

    def distribute(self, round: Round) -> Distributed:
        """Everybody who is present and holds samples trains its own model."""
        context, clients = round.context, round.context.available(round.before)
        jobs = Jobs(clients, clients, context.train, context.samples, round.number)
        return Distributed(jobs, Traffic.nothing(), round.models, dict(round.state))

    def met(self, round: Round, after: Meeting) -> Meeting:
        """The meeting of the exchange, as `order` says, without those who did not answer: weights are of this one.

        Its ways are those on which clients have come into contact: mixing rules know by them how fast these are, and
        for how long two were within reach. `meeting_of` tells where everybody is while models are sent.
        """
        return (after if self.order == "move_then_mix" else round.before).without(round.lost)

    def meeting_of(self, round: Round, after: Meeting) -> Meeting:
        """On the way of the round, or standing where it begins, as `order` says."""
        if self.order == "move_then_mix":
            return after
        before = round.before
        return Meeting(Paths.still(before.paths.end, before.paths.present), before.graph)

    def brought(self, round: Round, after: Meeting) -> Transfers:
        """The models of all who meet, to each other; nothing where the exchange is another than that of this class."""
        if type(self).exchange is not Decentralized.exchange or round.pieces is not None:
            return Transfers.nothing()
        receiver, sender, apart = self.met(round, after).links
        return Transfers(sender, receiver, sender, apart)

    def exchange(self, round: Round, after: Meeting) -> Exchanged:
        """x_i(t) = sum_j w_ij x_j(t - 1/2) (Reza et al., consensus update).

        Each client sends its model to each neighbour; its training counts as aggregated once a neighbour has it. A link
        by which a model does not arrive is down for both ends: weights that are symmetric stay so.
        """
        if round.pieces is not None:
            return self._of_pieces(round, after, round.pieces)
        context, models, truth = round.context, round.models, truth_of(round)
        meeting = self._arrived(round, self.met(round, after), truth)
        weights = context.weights(meeting, round.number)
        self._combine(round, meeting, weights, truth)
        receiver, sender, distance = meeting.links
        traffic, heard = Traffic.of(sender, receiver, models.bytes_each, distance), degrees(meeting.graph) > 0
        return Exchanged(meeting, traffic, models, dict(round.state), aggregated=np.flatnonzero(heard))

    def _of_pieces(self, round: Round, after: Meeting, pieces: Pieces) -> Exchanged:
        """The exchange where each model counts by itself, as far as it came; the clock tells what that sent."""
        context, met, clients = round.context, self.met(round, after), round.context.clients
        pieces = pieces.of_use(context.seed, round.models.bytes_each)
        one_way = pieces.graph(clients)
        graph = sparse.csr_array((one_way + one_way.T).astype(bool))
        graph.sort_indices()
        meeting = Meeting(met.paths, graph)
        weights = self._weights_of(context, meeting, one_way, round.number)
        kept = mix_pieces(round.models, round.state, weights, pieces, context.seed, round.number)
        heard = np.unique(pieces.sender)
        return Exchanged(meeting, Traffic.nothing(), round.models, {**round.state, **kept}, aggregated=heard)

    def _weights_of(
        self, context: FederationContext, meeting: Meeting, one_way: sparse.csr_array, round: int
    ) -> sparse.csr_array:
        """The weights of models of which something came, by the mixing rule as if both of each pair had."""
        return context.weights(meeting, round)

    def _arrived(self, round: Round, meeting: Meeting, truth: Models | None) -> Meeting:
        """The meeting without the links by which a model has not arrived. truth: what attackers send each other."""
        receiver, sender, apart = meeting.links
        arrived = self._delivered(round, receiver, sender, apart, truth)
        return meeting if arrived.all() else meeting.without_links(receiver[~arrived], sender[~arrived])

    def _delivered(
        self, round: Round, receiver: np.ndarray, sender: np.ndarray, apart: np.ndarray, truth: Models | None
    ) -> np.ndarray:
        """Carry models between clients (int64 [transfers], each) so far apart (m); whether each has arrived, bool
        [transfers]."""
        if truth is None or round.withheld is None:
            return round.aggregator.delivered(
                round.models, Transfers(sender, receiver, sender, apart), round.number
            )
        arrived = np.ones(len(sender), dtype=bool)
        told = np.isin(receiver, round.withheld.rows)
        for models, some in ((round.models, ~told), (truth, told)):
            if some.any():
                transfers = Transfers(sender[some], receiver[some], sender[some], apart[some])
                arrived[some] = round.aggregator.delivered(models, transfers, round.number)
        return arrived

    def _combine(
        self, round: Round, meeting: Meeting, weights: sparse.csr_array, truth: Models | None
    ) -> None:
        """Every client aggregates what it has got, in place.

        Attackers have sent something else than their models, and know of each other: they go on with what honest
        aggregation makes of their true models.
        """
        models, withheld = round.models, round.withheld
        if withheld is None or truth is None:
            self._aggregate(round, models, meeting, weights, np.arange(len(models)))
            return
        honest = np.setdiff1d(np.arange(len(models)), withheld.rows)
        rows = torch.from_numpy(withheld.rows).to(models.parameters.device)
        self._aggregate(round, truth, meeting, weights, withheld.rows)
        self._aggregate(round, models, meeting, weights, honest)
        models.parameters[rows], models.buffers[rows] = truth.parameters[rows], truth.buffers[rows]

    def _aggregate(
        self, round: Round, models: Models, meeting: Meeting, weights: sparse.csr_array, clients: np.ndarray
    ) -> None:
        """These clients (int64) aggregate; the others keep what they have."""
        context = round.context
        if not averages(context.aggregation):
            gathered = _gathered(meeting.graph, weights, clients)
            own = [each.own for each in gathered]
            round.aggregator.replace(self, models, gathered, own, context.known(meeting, round.number))
        elif len(clients) == len(models):
            round.aggregator.mix(models, weights, round.number)
        else:
            taken = np.isin(np.arange(len(models)), clients).astype(np.float64)
            theirs = sparse.csr_array(sparse.diags_array(taken) @ weights + sparse.diags_array(1 - taken))
            round.aggregator.mix(models, theirs, round.number)

    def made(self, models: Models, gathered: Gathered, known: KnownToHolders) -> Made:
        """The weighted average, as row `own` of the product of all, or what the experiment's rule makes of them."""
        assert gathered.weights is not None
        weights = gathered.weights.buffers
        if not averages(known.context.aggregation):
            return Made(*made_by_rule(models, gathered, weights, known))
        near = models.rows(torch.from_numpy(gathered.rows).to(models.device)).widened()
        some = np.flatnonzero(weights)
        row = sparse.csr_array((weights[some], (np.zeros_like(some), some)), shape=(1, len(near)))
        mix_rows(near, row, np.zeros(1, dtype=np.int64))
        return Made(near.parameters[0], near.buffers[0])

    def evaluation_models(self, models: Models, state: Arrays, context: FederationContext) -> Evaluated:
        """Each client by its own model; the average of all stands for all."""
        return {"own": own_models(models, models.mean())}


def truth_of(round: Round) -> Models | None:
    """The models as attackers know them, who have sent something else; None where nobody has."""
    models, withheld = round.models, round.withheld
    if withheld is None:
        return None
    truth = Models(models.layout, models.parameters.clone(), models.buffers.clone(), None)
    truth.parameters[torch.from_numpy(withheld.rows).to(models.parameters.device)] = withheld.parameters
    return truth


def _gathered(graph: sparse.csr_array, weights: sparse.csr_array, clients: np.ndarray) -> list[Gathered]:
    """What reaches each of these clients (int64) that is in contact: its neighbours' models, and its own."""
    found = []
    for i in clients.tolist():
        near = graph.indices[graph.indptr[i] : graph.indptr[i + 1]]
        if len(near):
            members = np.sort(np.append(near, i)).astype(np.int64)
            row = weights[[i]].toarray()[0, members]
            found.append(Gathered(i, i, members, members, AveragingWeights(row[:, None], row)))
    return found
