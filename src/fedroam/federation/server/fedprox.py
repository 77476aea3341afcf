"""FedProx."""

from __future__ import annotations

from dataclasses import replace

from typing_extensions import override

from fedroam.components import Part, field, register
from fedroam.federation.server.loop import GLOBAL, ServerLoop, ServerRound
from fedroam.learning import Anchor, Job


@register("federation", "fedprox", source="Li et al., MLSys 2020, Eq. 2, Alg. 2")
class FedProx(Part, ServerLoop):
    """FedAvg whose clients are held to the model they were given: they lower F_i(w) + mu/2 ||w - w_global||^2.

    Every gradient g becomes g + mu (w - w_global). Judged with the server's model, and sends as much as FedAvg does;
    with mu = 0 it is FedAvg. The paper chooses mu among 0.001, 0.01, 0.1 and 1 for each data set. The server's average
    is weighted by samples, as in the paper's experiments (Sec. 5.1); Alg. 2 draws clients by their samples and takes
    the plain average.
    """

    mu: float = field(0.01, "how strongly clients are held to the server's model", ge=0, allow_inf_nan=False)

    @override
    def job(self, round: ServerRound, client: int) -> Job:
        return replace(super().job(round, client), anchor=Anchor(self.mu, round.tensor(GLOBAL)))
