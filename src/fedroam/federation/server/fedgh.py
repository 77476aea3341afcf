"""FedGH: a head for everybody, trained by the server on class means."""

from __future__ import annotations

import numpy as np
from typing_extensions import override

from fedroam.components import Part, field, register
from fedroam.federation.protocol import Arrays, Beside, Evaluated, FederationContext, own_models
from fedroam.federation.server.loop import ServerLoop, ServerRound
from fedroam.federation.server.representations import (
    beside_class_means,
    class_means,
    means_bytes,
    train_head,
)
from fedroam.learning import Layout, Models

SERVER_LR = "learning rate of the server's head"
SERVER_EPOCHS = "passes of the server over the pairs of a round"
SERVER_BATCH = "pairs per step of the server; 0 is all of them"


@register(
    "federation", "fedgh", source="Yi et al., ACM MM 2023, doi:10.1145/3581783.3611781, and the authors' code"
)
class FedGH(Part, ServerLoop):
    """Extractors stay with their clients; the server trains one head on everybody's class means and hands it out.

    Each active client gets the server's head, trains its whole model, and sends the mean features of each class that
    it holds. The server takes SGD steps on the cross-entropy of the pairs (mean features, class) with its own head,
    which no client's training touches. With `server_epochs = 0` its start head is handed out for ever.

    Judged with the server's head; a client's own head as it trained it is the second. Down: the head. Up: for each
    class held, the mean features and the class. The rate and the one pair a step are those of the authors' code, whose
    server, though, steps a client's parameters: its head stays as it was drawn, as with `server_epochs = 0` here.
    """

    server_lr: float = field(0.01, SERVER_LR, gt=0, lt=1e6)
    server_epochs: int = field(1, SERVER_EPOCHS, ge=0)
    server_batch: int = field(1, SERVER_BATCH, unit="pairs", ge=0)

    @override
    def shared(self, layout: Layout) -> slice:
        return layout.columns("head")

    @override
    def shared_buffers(self, layout: Layout) -> slice:
        return layout.buffer_columns("head")

    @override
    def beside(self, round: ServerRound) -> Beside:
        return beside_class_means(round)

    @override
    def aggregate(self, round: ServerRound) -> None:
        """h <- h - lr grad l(h(f_i[c]), c), pair by pair or in batches."""
        train_head(round, class_means(round), self.server_epochs, self.server_batch, self.server_lr)

    @override
    def upload(self, round: ServerRound) -> np.ndarray:
        return means_bytes(round)

    @override
    def evaluation_models(self, models: Models, state: Arrays, context: FederationContext) -> Evaluated:
        rows = self.after_broadcast(models, state)
        return {"global_head": own_models(rows), "own_head": own_models(models)}
