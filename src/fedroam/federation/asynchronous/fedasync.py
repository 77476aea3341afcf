"""FedAsync."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

import torch
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
from fedroam.learning import Anchor, Job


@register("federation", "fedasync", source="Xie, Koyejo, Gupta 2019, arXiv:1903.03934, Alg. 1, Sec. 5.2")
class FedAsync(Part, ServerLoop):
    """The server mixes each model into its own as it arrives, the less the staler it is.

    When the model of client i arrives, x <- (1 - a s) x + a s x_i, where a is `alpha` and s, by the staleness k of the
    update: 1 (`constant`), (1 + k)^-exponent (`polynomial`), or 1 up to k = b and 1 / (exponent (k - b) + 1) beyond
    (`hinge`). k is 0 for an update of the server's present model. With rho above 0 clients are held to what they were
    given, as in `fedprox`. All clients count alike, however many samples they hold. Judged with the server's model.

    It adds columns to the table of rounds: `staleness`, the mean of the round's updates, and `server_models`, how many
    models the server has made.
    """

    columns: ClassVar[tuple[str, ...]] = COLUMNS

    alpha: float = field(0.6, "weight of an update that is not stale", gt=0, le=1)
    weighting: Literal["constant", "polynomial", "hinge"] = field(
        "polynomial", "how the weight falls with staleness"
    )
    exponent: float = field(0.5, "a of the polynomial and of the hinge", ge=0, allow_inf_nan=False)
    b: int = field(4, "staleness up to which a hinge does not fall", unit="models", ge=0)
    rho: float = field(
        0.0, "how strongly clients are held to the model they were given", ge=0, allow_inf_nan=False
    )

    def weight(self, staleness: int) -> float:
        """alpha s(staleness)."""
        if self.weighting == "hinge":
            return self.alpha / (self.exponent * max(staleness - self.b, 0) + 1.0)
        return self.alpha * (polynomial(staleness, self.exponent) if self.weighting == "polynomial" else 1.0)

    @override
    def begin(self, round: ServerRound, start: Start) -> None:
        super().begin(round, start)
        count_from_zero(round)

    @override
    def broadcast(self, round: ServerRound) -> None:
        super().broadcast(round)
        note_given(round)

    @override
    def job(self, round: ServerRound, client: int) -> Job:
        job = super().job(round, client)
        return replace(job, anchor=Anchor(self.rho, round.tensor(GLOBAL))) if self.rho else job

    @override
    def aggregate(self, round: ServerRound) -> None:
        """Each update in the order of arrival."""
        take_all(round, self.take)

    def take(self, round: ServerRound, client: int, staleness: int) -> None:
        """Take the update of a client, which stands in its row."""
        weight = self.weight(staleness)
        for name, row in (
            (GLOBAL, round.models.parameters[client]),
            (GLOBAL_BUFFERS, round.models.buffers[client]),
        ):
            round.state[name] = torch.lerp(round.tensor(name), row, weight).cpu().numpy()
        count_model(round)
