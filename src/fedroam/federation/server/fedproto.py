"""FedProto: clients agree on the mean features of each class, not on models."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from typing_extensions import override

from fedroam.components import Part, field, register
from fedroam.federation.protocol import Arrays, Beside, Evaluated, FederationContext, Start, own_models
from fedroam.federation.server.loop import ServerLoop, ServerRound
from fedroam.federation.server.representations import (
    beside_class_means,
    class_means,
    means_bytes,
    widths,
)
from fedroam.learning import ClassMeans, Job, Models
from fedroam.learning.forms import ToPrototypes
from fedroam.learning.objective import Objective
from fedroam.models import Network, split

PROTOTYPES, KNOWN = "prototypes", "known"
SUMS, MET = "sums", "met"


class Nearest(Network):
    """In evaluation mode it answers with the class of the nearest prototype, as long as any is known.

    Logits are minus the mean squared distance of the features to each prototype; a class without one comes behind all
    others (by 1: the loss stays a number). In training, and without any prototype, they are the head's.

    Where it `collects`, two more buffers hold what training has met of each class: the sum of the features, float32
    [classes, features], and the number of samples, float32 [classes].
    """

    prototypes: torch.Tensor
    known: torch.Tensor
    sums: torch.Tensor
    met: torch.Tensor

    def __init__(self, network: nn.Module, collects: bool = False) -> None:
        super().__init__(*split(network))
        features, classes = widths(network)
        self.register_buffer(PROTOTYPES, torch.zeros(classes, features))
        self.register_buffer(KNOWN, torch.zeros(classes, dtype=torch.bool))
        if collects:
            self.register_buffer(SUMS, torch.zeros(classes, features))
            self.register_buffer(MET, torch.zeros(classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits [n, classes] of samples [n, *shape]."""
        features = self.extractor(x)
        if self.training or not bool(self.known.any()):
            logits: torch.Tensor = self.head(features)
            return logits
        distance = torch.cdist(
            features.flatten(1), self.prototypes, compute_mode="donot_use_mm_for_euclid_dist"
        )
        nearness = -(distance**2) / self.prototypes.shape[1]
        last = nearness[:, self.known].amin(1, keepdim=True) - 1.0
        return torch.where(self.known, nearness, last)

    @torch.no_grad()
    def meet(self, features: torch.Tensor, y: torch.Tensor) -> None:
        """Add features [n, features] of samples of classes y (int64 [n]) to what training has met of each class."""
        if y.device.type == "cpu":
            self.sums.index_add_(0, y, features)
            self.met.index_add_(0, y, torch.ones_like(y, dtype=self.met.dtype))
            return
        # An accelerator adds to one place in any order, and so to other last digits every time; not so in a product.
        with torch.autocast(y.device.type, enabled=False):
            sums, met = sums_by_class(features.to(self.sums.dtype), y, len(self.met))
        self.sums.add_(sums)
        self.met.add_(met)


def sums_by_class(features: torch.Tensor, y: torch.Tensor, classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Of each class the sum of its samples' features, [classes, features], and their number, [classes]: as a product,
    in the type of the features [n, features]; y: int64 [n]."""
    own = (torch.arange(classes, device=y.device)[:, None] == y).to(features.dtype)
    return own @ features, own.sum(1)


@dataclass(frozen=True)
class Aligned:
    """L_base + strength * mean over samples and features of (z - prototype of its class)^2.

    The form of the authors' code; Tan et al. (Eqs. 7 and 8) take the distance of the client's own prototype, class by
    class. z = extractor(x); samples of a class without a prototype add 0. The base is computed from z: it sees the head
    only.
    """

    base: Objective
    strength: float
    whole_batches: bool  # whether the features met are collected

    @property
    def form(self) -> ToPrototypes:
        """For engines with kernels."""
        return ToPrototypes(PROTOTYPES, KNOWN, self.strength)

    def handed_like(self, module: nn.Module, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """A prototype for each class."""
        features, classes = widths(module)
        known = torch.ones(classes, dtype=torch.bool, device=x.device)
        return (
            {PROTOTYPES: torch.zeros(classes, features, device=x.device), KNOWN: known}
            if self.strength
            else {}
        )

    def loss(
        self, module: nn.Module, x: torch.Tensor, y: torch.Tensor, **handed: torch.Tensor
    ) -> torch.Tensor:
        """handed: prototypes, float32 [classes, features]; known, bool [classes]."""
        extractor, head = split(module)
        features = extractor(x)
        if self.whole_batches:
            assert isinstance(module, Nearest)  # what `adapt` made
            module.meet(features.flatten(1), y)
        if not self.strength:
            return self.base.loss(head, features, y)
        away = features.flatten(1) - handed[PROTOTYPES][y]
        away = torch.where(handed[KNOWN][y, None], away, torch.zeros_like(away))
        return self.base.loss(head, features, y) + self.strength * functional.mse_loss(
            away, torch.zeros_like(away)
        )

    def term(
        self, features: torch.Tensor, y: torch.Tensor, **handed: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """strength times the mean squared distance, and its gradient, 2 strength (z - prototype) / (n features).

        handed: as in `loss`.
        """
        away = (features - handed[PROTOTYPES].index_select(0, y)).mul_(
            handed[KNOWN].index_select(0, y)[:, None]
        )
        flat, share = away.reshape(-1), self.strength / away.numel()
        return torch.dot(flat, flat).mul_(share), away.mul_(2 * share)


@register(
    "federation", "fedproto", source="Tan et al., AAAI 2022, Alg. 1, Eqs. 3 to 8, and the authors' code"
)
class FedProto(Part, ServerLoop):
    """Models stay with their clients; what travels are prototypes, the mean features of each class.

    An active client gets the server's prototypes, trains its own model on the cross-entropy plus lambda times the mean
    squared distance of each sample's features to its class's prototype, and sends its own prototypes, by its trained
    extractor. The server's prototype of a class is the mean over the active clients that hold the class; one that
    nobody active holds stays as it was.

    Judged by the nearest prototype in the features of the client's own extractor, among all that are known (Eq. 4), or
    among those of the classes that the client holds (`candidates`); by its own head is the second. Down and up: for
    each class known or held, a vector and the class. With `strength = 0` it trains as `local` does.
    """

    strength: float = field(1.0, "weight of the distance to the prototypes (lambda)", ge=0, lt=1e6)
    weights: Literal["clients", "samples"] = field(
        "clients",
        "mean over clients: each holder counts once (authors' code), or by its samples (Eq. 6 without its further "
        "factor of 1 / number of holders)",
    )
    candidates: Literal["known", "held"] = field(
        "known",
        "which prototypes may be the nearest: all (Eq. 4), or those of classes in the client's training samples "
        "(authors' code)",
    )
    collected: Literal["after", "during"] = field(
        "after",
        "a client's prototypes: by its trained extractor (Eq. 3), or the mean of the features that its training met, "
        "over all batches of the round, each before its step and with dropout, which saves the pass over its samples "
        "at the end, as the authors' code collects them: they lag behind the trained extractor",
        later=True,
    )

    def adapt(self, network: nn.Module) -> nn.Module:
        """It can answer by prototypes, held in buffers of its own."""
        return Nearest(network, self.collected == "during")

    def objective(self, base: Objective) -> Objective:
        """With the distance to the prototypes."""
        collects = self.collected == "during"
        return Aligned(base, self.strength, collects) if self.strength or collects else base

    @override
    def begin(self, round: ServerRound, start: Start) -> None:
        """No prototypes yet."""
        features, _ = widths(round.layout)
        round.state[PROTOTYPES] = np.zeros((round.context.classes, features), np.float32)
        round.state[KNOWN] = np.zeros(round.context.classes, bool)

    @override
    def broadcast(self, round: ServerRound) -> None:
        """Models stay as they are; jobs carry the prototypes. What a training met before is forgotten."""
        if self.collected == "during":
            clients = torch.from_numpy(round.clients)
            for name in (SUMS, MET):
                round.models.buffers[clients, round.layout.buffer_columns(name)] = 0.0

    @override
    def job(self, round: ServerRound, client: int) -> Job:
        given = {name: round.tensor(name) for name in (PROTOTYPES, KNOWN)} if self.strength else {}
        return replace(super().job(round, client), given=given)

    @override
    def beside(self, round: ServerRound) -> Beside | None:
        """The features of each sample by the trained extractor, unless those that training met are taken."""
        if self.collected == "during":
            return None
        return beside_class_means(round)

    @override
    def aggregate(self, round: ServerRound) -> None:
        """The mean prototype of each class held by anybody active."""
        own = self._met(round) if self.collected == "during" else class_means(round)
        weight = own.held.astype(np.float64)
        if self.weights == "samples":
            weight *= round.context.class_counts[round.clients]
        total = weight.sum(0)
        mean = np.einsum("kc,kcf->cf", weight, own.mean.astype(np.float64)) / np.maximum(total, 1.0)[:, None]
        held = total > 0
        round.state[PROTOTYPES] = np.where(held[:, None], mean.astype(np.float32), round.state[PROTOTYPES])
        round.state[KNOWN] = round.state[KNOWN] | held

    def _met(self, round: ServerRound) -> ClassMeans:
        """The mean features of each class that the training of each active client has met."""
        rows, layout = round.models.buffers[torch.from_numpy(round.clients)].cpu().numpy(), round.layout
        sums, met = (rows[:, layout.buffer_columns(name)].astype(np.float64) for name in (SUMS, MET))
        sums = sums.reshape(*met.shape, -1)
        return ClassMeans((sums / np.maximum(met, 1.0)[..., None]).astype(np.float32), met > 0)

    @override
    def download(self, round: ServerRound) -> int:
        return int(int(round.state[KNOWN].sum()) * 4 * (round.state[PROTOTYPES].shape[1] + 1))

    @override
    def upload(self, round: ServerRound) -> np.ndarray:
        return means_bytes(round)

    @override
    def evaluation_models(self, models: Models, state: Arrays, context: FederationContext) -> Evaluated:
        informed = Models(models.layout, models.parameters, models.buffers.clone(), None)
        for name in (PROTOTYPES, KNOWN):
            values = torch.from_numpy(state[name].astype(np.float32).reshape(-1))
            informed.buffers[:, models.layout.buffer_columns(name)] = values.to(models.buffers.device)
        if self.candidates == "held":
            held = torch.from_numpy((context.class_counts > 0).astype(np.float32))
            informed.buffers[:, models.layout.buffer_columns(KNOWN)] *= held.to(models.buffers.device)
        return {"prototypes": own_models(informed), "own_head": own_models(models)}
