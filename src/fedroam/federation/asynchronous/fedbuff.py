"""FedBuff."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from typing_extensions import override

from fedroam.components import Part, field, register
from fedroam.federation.asynchronous.staleness import (
    COLUMNS,
    count_from_zero,
    count_model,
    note_given,
    polynomial,
    take_all,
)
from fedroam.federation.protocol import Start
from fedroam.federation.server.loop import GLOBAL, GLOBAL_BUFFERS, ServerLoop, ServerRound

BEGUN, BUFFER, HELD = "begun", "buffer", "held"


@register("federation", "fedbuff", source="Nguyen et al., AISTATS 2022, arXiv:2106.06639, Alg. 1")
class FedBuff(Part, ServerLoop):
    """The server gathers updates as they arrive, and makes a new model once it has `size` of them.

    Of client i's model x_i, trained from x_b, it adds s (x_i - x_b) to a buffer, s = (1 + k)^-exponent by the staleness
    k of the update. With `size` of them it sets x <- x + rate * buffer / size and empties the buffer; what it holds at
    the end of a round waits for the next. All clients count alike, however many samples they hold. Judged with the
    server's model.

    The server keeps the model that each client was given, which costs the memory of another matrix of models. It adds
    columns to the table of rounds: `staleness`, the mean of the round's updates, and `server_models`, how many models
    the server has made.
    """

    columns: ClassVar[tuple[str, ...]] = COLUMNS

    size: int = field(10, "updates that make a new model (K)", unit="updates", ge=1)
    rate: float = field(1.0, "learning rate of the server", gt=0, allow_inf_nan=False)
    exponent: float = field(
        0.5, "how fast weights fall with staleness; 0: not at all", ge=0, allow_inf_nan=False
    )

    @override
    def begin(self, round: ServerRound, start: Start) -> None:
        super().begin(round, start)
        count_from_zero(round)
        width = round.layout.size + round.layout.buffer_size
        round.state[BEGUN] = np.zeros((round.context.clients, width), np.float32)
        round.state[BUFFER] = np.zeros(width)
        round.state[HELD] = np.zeros(1, np.int64)

    @override
    def broadcast(self, round: ServerRound) -> None:
        super().broadcast(round)
        note_given(round)
        begun = round.state[BEGUN].copy()
        begun[round.clients] = self._server(round)
        round.state[BEGUN] = begun

    @override
    def aggregate(self, round: ServerRound) -> None:
        """Each update in the order of arrival."""
        take_all(round, self.take)

    def take(self, round: ServerRound, client: int, staleness: int) -> None:
        """Take the update of a client, which stands in its row."""
        models = round.models
        row = np.concatenate([models.parameters[client].cpu().numpy(), models.buffers[client].cpu().numpy()])
        change = row.astype(np.float64) - round.state[BEGUN][client]
        round.state[BUFFER] = round.state[BUFFER] + polynomial(staleness, self.exponent) * change
        round.state[HELD] = round.state[HELD] + 1
        if round.state[HELD][0] >= self.size:
            new = (self._server(round) + self.rate * round.state[BUFFER] / self.size).astype(np.float32)
            round.state[GLOBAL], round.state[GLOBAL_BUFFERS] = np.split(new, [round.layout.size])
            round.state[BUFFER] = np.zeros_like(round.state[BUFFER])
            round.state[HELD] = np.zeros(1, np.int64)
            count_model(round)

    def _server(self, round: ServerRound) -> np.ndarray:
        """The server's parameters and buffers, float32."""
        return np.concatenate([round.state[GLOBAL], round.state[GLOBAL_BUFFERS]])
