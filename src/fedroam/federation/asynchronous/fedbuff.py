"""FedBuff."""

from __future__ import annotations

from typing import ClassVar

from typing_extensions import override

from fedroam.components import register
from fedroam.federation.asynchronous.rules import Gathers
from fedroam.federation.asynchronous.staleness import COLUMNS, count_from_zero, note_given, take_all
from fedroam.federation.protocol import Start
from fedroam.federation.server.loop import ServerLoop, ServerRound


@register("federation", "fedbuff", source="Nguyen et al., AISTATS 2022, arXiv:2106.06639, Alg. 1")
class FedBuff(Gathers, ServerLoop):
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

    @override
    def begin(self, round: ServerRound, start: Start) -> None:
        super().begin(round, start)
        count_from_zero(round, self)

    @override
    def broadcast(self, round: ServerRound) -> None:
        super().broadcast(round)
        note_given(round, self)

    @override
    def aggregate(self, round: ServerRound) -> None:
        """Each update in the order of arrival."""
        take_all(round, self)
