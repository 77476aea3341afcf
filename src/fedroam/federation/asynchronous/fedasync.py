"""FedAsync."""

from __future__ import annotations

from typing import ClassVar

from typing_extensions import override

from fedroam.components import register
from fedroam.federation.asynchronous.rules import MixesAtOnce
from fedroam.federation.asynchronous.staleness import COLUMNS, count_from_zero, note_given, take_all
from fedroam.federation.protocol import Start
from fedroam.federation.server.loop import GLOBAL, ServerLoop, ServerRound
from fedroam.learning import Job


@register("federation", "fedasync", source="Xie, Koyejo, Gupta 2019, arXiv:1903.03934, Alg. 1, Sec. 5.2")
class FedAsync(MixesAtOnce, ServerLoop):
    """The server mixes each model into its own as it arrives, the less the staler it is.

    When the model of client i arrives, x <- (1 - a s) x + a s x_i, where a is `alpha` and s, by the staleness k of the
    update: 1 (`constant`), (1 + k)^-exponent (`polynomial`), or 1 up to k = b and 1 / (exponent (k - b) + 1) beyond
    (`hinge`). k is 0 for an update of the server's present model. With rho above 0 clients are held to what they were
    given, as in `fedprox`. All clients count alike, however many samples they hold. Judged with the server's model.

    It adds columns to the table of rounds: `staleness`, the mean of the round's updates, and `server_models`, how many
    models the server has made.
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
    def job(self, round: ServerRound, client: int) -> Job:
        return self.held_to(super().job(round, client), round.tensor(GLOBAL))

    @override
    def aggregate(self, round: ServerRound) -> None:
        """Each update in the order of arrival."""
        take_all(round, self)
