"""MOON: model-contrastive federated learning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.nn import functional
from typing_extensions import override

from fedroam.components import Part, field, register
from fedroam.federation.protocol import Beside
from fedroam.federation.server.loop import ServerLoop, ServerRound
from fedroam.learning import Job
from fedroam.learning.forms import Contrast
from fedroam.learning.objective import Objective
from fedroam.models import split

SMALLEST = 1e-8  # the norm by which `cosine_similarity` divides at least


@dataclass(frozen=True)
class Contrastive:
    """`base`, and mu times the model-contrastive loss (Li et al., CVPR 2021, Eqs. 3 and 4)."""

    base: Objective
    mu: float
    temperature: float

    @property
    def form(self) -> Contrast:
        """For engines with kernels."""
        return Contrast("z_global", "z_previous", self.mu, self.temperature, SMALLEST)

    def handed_like(self, module: nn.Module, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Features."""
        z = split(module)[0](x).flatten(1)
        return {"z_global": z, "z_previous": z}

    def loss(
        self, module: nn.Module, x: torch.Tensor, y: torch.Tensor, **handed: torch.Tensor
    ) -> torch.Tensor:
        """handed: z_global and z_previous, float32 [n, features]."""
        z_global, z_previous = handed.pop("z_global"), handed.pop("z_previous")
        extractor, head = split(module)
        z = extractor(x)
        flat = z.flatten(1)
        near, far = (functional.cosine_similarity(flat, other, dim=1) for other in (z_global, z_previous))
        # -log(e^(near / tau) / (e^(near / tau) + e^(far / tau)))
        contrast = functional.softplus((far - near) / self.temperature).mean()
        return self.base.loss(head, z, y, **handed) + self.mu * contrast

    def term(
        self, features: torch.Tensor, y: torch.Tensor, **handed: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """mu times the contrast, and its gradient. handed: as in `loss`; y does not matter.

        With w = z_previous / |z_previous| - z_global / |z_global|, the contrast is the mean of log(1 + e^u) over
        samples, u = z w / (tau |z|), and the gradient of u in z is (w - (z w) z / |z|^2) / (tau |z|). Norms are those
        of `cosine_similarity`: at least 1e-8.
        """
        w = _direction(handed["z_previous"]).sub_(_direction(handed["z_global"]))
        length = _length(features)
        at_least, share = length.clamp_min(SMALLEST), self.mu / len(length)
        along = (features * w).sum(1, keepdim=True).div_(at_least)
        u = along / self.temperature
        value = functional.softplus(u).sum().mul_(share)
        slope = u.sigmoid_().mul_(share / self.temperature).div_(at_least)
        # A length of 0 has no slope of its own.
        own = along.div_(length.clamp_min_(torch.finfo(length.dtype).tiny))
        return value, w.addcmul_(features, own, value=-1).mul_(slope)


@register("federation", "moon", source="Li et al., CVPR 2021, Eqs. 3 to 5, Alg. 1")
class Moon(Part, ServerLoop):
    """FedAvg whose clients keep their features near the server's model's, and away from their own previous model's.

    For each sample, -log(exp(cos(z, z_global) / tau) / (exp(cos(z, z_global) / tau) + exp(cos(z, z_previous) / tau)))
    times mu is added to the loss. z_previous comes from the client's model as its last training left it, however many
    rounds ago; before its first training, from its start model. Judged with the server's model, and sends as much as
    FedAvg does; with mu = 0 it is FedAvg. Needs a model that declares an extractor and a head.

    z is what the extractor makes (the paper has a projection head of two layers behind it: a matter of the model). That
    of the trained model is the one its head sees, with dropout; the other two are those of fixed models in evaluation
    mode, computed once a round. The paper chooses mu among 0.1, 1, 5 and 10 for each data set.
    """

    mu: float = field(1.0, "weight of the contrastive loss", ge=0, allow_inf_nan=False)
    temperature: float = field(0.5, "tau, which divides the cosines", gt=0, allow_inf_nan=False)

    def adapt(self, network: nn.Module) -> nn.Module:
        """As it is, if it declares extractor and head."""
        split(network)
        return network

    def objective(self, base: Objective) -> Objective:
        """With the model-contrastive loss."""
        return Contrastive(base, self.mu, self.temperature) if self.mu else base

    @override
    def broadcast(self, round: ServerRound) -> None:
        """Before and after it, features of every active client's samples are taken."""
        if self.mu:
            round.memo["z_previous"] = _features(round)
        super().broadcast(round)
        if self.mu:
            round.memo["z_global"] = _features(round)

    @override
    def beside(self, round: ServerRound) -> Beside | None:
        """Features of each sample by two fixed models."""
        if not self.mu:
            return None
        return Beside.of(
            round.context.clients, round.clients, extractor=2 * round.context.samples[round.clients]
        )

    @override
    def job(self, round: ServerRound, client: int) -> Job:
        each: Mapping[str, torch.Tensor] = {name: values[client] for name, values in round.memo.items()}
        return replace(super().job(round, client), each=each)


def _length(z: torch.Tensor) -> torch.Tensor:
    """Of each row, [n, 1]."""
    length: torch.Tensor = torch.linalg.vector_norm(z, dim=1, keepdim=True)
    return length


def _direction(z: torch.Tensor) -> torch.Tensor:
    """Each row over its length."""
    return z / _length(z).clamp_min_(SMALLEST)


def _features(round: ServerRound) -> dict[int, torch.Tensor]:
    """Features of each active client's samples by its present extractor, float32 [samples, features]."""
    rows = [int(i) for i in round.clients]
    return dict(zip(rows, round.learner.represent(round.models, rows, round.held), strict=True))
