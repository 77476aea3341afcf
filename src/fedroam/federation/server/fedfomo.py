"""FedFomo: each client's own blend of other clients' models."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
import torch
from typing_extensions import override

from fedroam.components import Part, field, register
from fedroam.federation.protocol import Arrays, Beside, Evaluated, FederationContext, Start, own_models
from fedroam.federation.server.affinity import (
    AFFINITY,
    LOSS_BEFORE,
    RECEIVED,
    UPLOADED,
    as_uploaded,
    begin_affinity,
    blend,
    distances_to,
    first_order_weights,
    held_for_validation,
    keep_uploads,
    mark_uploaded,
    nearest,
    others,
    remember_losses,
    rows_of,
    shares_of,
    validation_losses,
)
from fedroam.federation.server.loop import ServerLoop, ServerRound
from fedroam.learning import Models
from fedroam.randomness import stream

EPSILON = 1e-5  # added to distances
BEFORE, BUFFERS_BEFORE = "before", "buffers_before"


@register(
    "federation", "fedfomo", source="Zhang et al., ICLR 2021, the FedFomo update, and the authors' code"
)
class FedFomo(Part, ServerLoop):
    """Each client blends the models that do better than its own on its validation samples, then trains the blend.

    The server keeps everybody's last uploaded model and an affinity matrix P, at first the identity. An active client
    i gets the models of the largest P[i, :]. With L_i the loss on its validation samples, and theta_i its model before
    its last training: w_n = (L_i(theta_i) - L_i(theta_n)) / (||theta_n - theta_i|| + 1e-5), also for its own trained
    model; w~ = max(w, 0) / sum max(w, 0); its new model is theta_i + sum w~_n (theta_n - theta_i). Where no weight is
    positive that is theta_i, so that a training that did not help is undone (`none_better`). P[i, n] grows by w_n, sign
    and all. Then it trains and uploads. A client without validation samples just goes on with its own model.

    The authors' code differs: P grows by w / |sum w| from a diagonal of 0.1, the distance is by default the sum of
    absolute differences, and only models of the last round are weighed.

    Judged with the client's own trained model. Down: the models received. Up: the model, and the weights. The server's
    models are those that clients have uploaded; `before` costs the memory of another matrix of models. With
    `models = 1` and `none_better = "trained"` it is `local`. Needs `validation_share` (the paper: 0.2).
    """

    recorded: ClassVar[tuple[str, ...]] = (AFFINITY,)  # P

    models: int = field(5, "models weighed, the client's own among them (M); 0 is all", unit="models", ge=0)
    reference: Literal["previous", "present"] = field(
        "previous", "theta_i: the model before its last training, or the one after it"
    )
    none_better: Literal["reference", "trained"] = field(
        "reference", "where no weight is positive: back to theta_i, or on with the trained model"
    )
    explore: float = field(
        0.3, "probability, in round 1, that a model received is drawn at random", ge=0, le=1
    )
    explore_decay: float = field(0.05, "what that probability loses each round", ge=0, le=1)

    @override
    def begin(self, round: ServerRound, start: Start) -> None:
        """No server's model; P, and everybody's model before training."""
        begin_affinity(round, self.kind)
        everybody = range(round.context.clients)
        round.state[RECEIVED] = np.zeros(round.context.clients, np.int64)
        if self.reference == "previous":
            round.state[BEFORE] = round.models.parameters.cpu().numpy().copy()
            if round.layout.buffer_size:
                round.state[BUFFERS_BEFORE] = round.models.buffers.cpu().numpy().copy()
            round.state[LOSS_BEFORE] = validation_losses(round, round.models, everybody, everybody)

    @override
    def broadcast(self, round: ServerRound) -> None:
        models, clients = round.models, round.clients
        served, upload = as_uploaded(round)
        weighed = [self._weighed(round, int(i)) for i in clients]
        owners = np.repeat(clients, [len(some) for some in weighed])
        at = [np.where(some == i, some, upload[some]) for i, some in zip(clients, weighed, strict=True)]
        losses = validation_losses(round, served, np.concatenate(at).tolist(), owners.tolist())
        affinity, received = round.state[AFFINITY].copy(), np.zeros(round.context.clients, np.int64)
        blends = []
        for i, some, theirs in zip(clients, weighed, at, strict=True):
            row, mine = models.parameters[int(i)], losses[owners == i]
            base = round.tensor(BEFORE)[int(i)] if self.reference == "previous" else row
            reference = round.state[LOSS_BEFORE][i] if self.reference == "previous" else mine[some == i][0]
            rows = rows_of(served.parameters, theirs, slice(None))
            weights = first_order_weights(reference, mine, distances_to(base, rows), EPSILON)
            affinity[i, some] += weights
            received[i] = len(some) - 1
            shares = shares_of(weights)
            if shares.any():
                own = models.buffers[int(i)]
                buffers = blend(own, rows_of(served.buffers, theirs, slice(None)), shares)
                blends.append((int(i), blend(base, rows, shares), buffers))
            elif self.none_better == "reference" and len(round.context.validation[int(i)]):
                blends.append((int(i), base, self._buffers(round, int(i))))
        # Now only: until here the rows are those that were uploaded.
        keep_uploads(round)
        for client, parameters, buffers in blends:
            models.parameters[client], models.buffers[client] = parameters, buffers
        round.state[AFFINITY], round.state[RECEIVED] = affinity, received
        if self.reference == "previous":
            remember_losses(round)
            for name, matrix in ((BEFORE, models.parameters), (BUFFERS_BEFORE, models.buffers)):
                if name in round.state:
                    before = round.state[name].copy()
                    before[clients] = matrix[torch.from_numpy(clients)].cpu().numpy()
                    round.state[name] = before

    def _buffers(self, round: ServerRound, client: int) -> torch.Tensor:
        """The buffers of theta_i. A checkpoint from before they were kept has those of now."""
        kept = self.reference == "previous" and BUFFERS_BEFORE in round.state
        return round.tensor(BUFFERS_BEFORE)[client] if kept else round.models.buffers[client]

    def _weighed(self, round: ServerRound, client: int) -> np.ndarray:
        """The models that a client weighs: the nearest, and its own; int64 ascending."""
        available = others(round.context, round.state[UPLOADED], client)
        draws = stream(round.context.seed, "models received", round.number, client)
        most = self.models - 1 if self.models else len(available)
        explore = max(0.0, self.explore - self.explore_decay * (round.number - 1))
        return np.sort(
            np.append(nearest(round.state[AFFINITY][client], available, most, draws, explore), client)
        )

    @override
    def beside(self, round: ServerRound) -> Beside:
        """Losses on the validation samples: of all models weighed, and of the one that training begins with."""
        clients, own = round.clients, held_for_validation(round)
        weighed = round.state[RECEIVED][clients] + 1
        return Beside.of(
            round.context.clients, clients, network=own * (weighed + (self.reference == "previous"))
        )

    @override
    def aggregate(self, round: ServerRound) -> None:
        """The server keeps what was uploaded: the clients' rows as they are, until these are others."""
        mark_uploaded(round)

    @override
    def download(self, round: ServerRound) -> np.ndarray:
        return np.asarray(round.state[RECEIVED][round.clients] * round.models.bytes_each)

    @override
    def upload(self, round: ServerRound) -> np.ndarray:
        return np.asarray(round.models.bytes_each + 4 * round.state[RECEIVED][round.clients])

    @override
    def evaluation_models(self, models: Models, state: Arrays, context: FederationContext) -> Evaluated:
        return {"own": own_models(models)}
