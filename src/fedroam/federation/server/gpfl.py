"""GPFL: global and personalised features from one extractor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from typing_extensions import override

from fedroam.components import Part, field, register
from fedroam.federation.protocol import Arrays, Evaluated, FederationContext, own_models
from fedroam.federation.server.loop import GLOBAL, ServerLoop, ServerRound
from fedroam.federation.server.representations import widths
from fedroam.learning import Job, Layout, Models
from fedroam.learning.forms import UnderConditions
from fedroam.learning.objective import Objective
from fedroam.models import split

EMBEDDING, GENERIC, PERSONAL = "embedding", "generic", "personal"
GAMMA, BETA = "valve.gamma", "valve.beta"
PARTS = ("0.weight", "0.bias", "2.weight", "2.bias")  # of either
LEAST = 1e-12  # a shorter vector is divided by this for its direction, as torch has it
NORM = 1e-5  # added to a variance by a layer norm, as torch has it


class Valve(nn.Module):
    """The conditional valve (CoV): features f [n, features] under a condition c [features].

    ReLU((gamma(c) + 1) * f + beta(c)), gamma and beta each a linear layer, ReLU and layer norm.
    """

    def __init__(self, features: int) -> None:
        super().__init__()
        self.gamma, self.beta = (
            nn.Sequential(nn.Linear(features, features), nn.ReLU(), nn.LayerNorm(features)) for _ in range(2)
        )

    def forward(self, f: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        """Features [n, features]."""
        return functional.relu(f * (self.gamma(condition) + 1) + self.beta(condition))


class Guided(nn.Module):
    """forward(x) = head(valve(extractor(x), personal)), with an embedding of each class beside it.

    embedding: a parameter, float32 [classes, features], drawn from N(0, 1). generic, personal: buffers, float32
    [features], the conditions. Without valve, forward(x) = head(extractor(x)).
    """

    def __init__(self, network: nn.Module, valve: bool) -> None:
        super().__init__()
        features, classes = widths(network)
        self.embedding = nn.Parameter(nn.init.normal_(torch.empty(classes, features)))
        self.generic: torch.Tensor
        self.personal: torch.Tensor
        for name in (GENERIC, PERSONAL):
            self.register_buffer(name, torch.zeros(features))
        extractor, head = split(network)
        self.extractor = extractor
        self.valve = Valve(features) if valve else None
        self.head = head  # the last, so that what is shared lies side by side

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits [n, classes] of samples [n, *shape]."""
        logits: torch.Tensor = self.head(self.seen(self.extractor(x).flatten(1), self.personal))
        return logits

    def seen(self, f: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        """Features under a condition."""
        return f if self.valve is None else self.valve(f, condition)


@dataclass(frozen=True)
class Guidance:
    """`base` of the personalised features, and the guidance of the global ones (Zhang et al., ICCV 2023)."""

    base: Objective
    angle: float
    magnitude: float
    decay: float
    whole_batches: bool  # whether the distance is one norm of the batch
    valve: bool

    @property
    def form(self) -> UnderConditions | None:
        """For engines with kernels, which know it with a valve and guidance."""
        if not self.valve or not self.guided:
            return None
        return UnderConditions(
            *(EMBEDDING, GAMMA, BETA, PERSONAL, GENERIC, EMBEDDING),
            *(self.angle, self.magnitude, self.decay, self.whole_batches, LEAST, NORM),
        )

    def handed_like(self, module: nn.Module, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """The embeddings."""
        assert isinstance(module, Guided)  # what `adapt` made
        return {EMBEDDING: module.embedding.detach()}

    def loss(
        self, module: nn.Module, x: torch.Tensor, y: torch.Tensor, **handed: torch.Tensor
    ) -> torch.Tensor:
        """handed: embedding, float32 [classes, features], as it was handed out."""
        frozen = handed.pop(EMBEDDING)
        assert isinstance(module, Guided)  # what `adapt` made
        network = module
        f = network.extractor(x).flatten(1)
        loss = self.base.loss(network.head, network.seen(f, network.personal), y, **handed)
        if self.guided:
            general = network.seen(f, network.generic)
            cosine = functional.linear(functional.normalize(general), functional.normalize(network.embedding))
            loss = loss + self.angle * functional.cross_entropy(cosine, y)
            away = torch.linalg.vector_norm(general - frozen[y], dim=None if self.whole_batches else 1)
            loss = loss + self.magnitude * away.mean()
        if self.decay:
            shared = [network.embedding, *(network.valve.parameters() if network.valve is not None else ())]
            loss = loss + 0.5 * self.decay * sum((p**2).sum() for p in shared)
        return loss

    @property
    def guided(self) -> bool:
        """Whether global features are looked at."""
        return bool(self.angle or self.magnitude)

    @property
    def idle(self) -> tuple[str, ...]:
        """The embeddings, where neither guidance nor decay asks for them."""
        return () if self.guided or self.decay else (EMBEDDING,)

    def transformed(
        self,
        between: Mapping[str, torch.Tensor],
        features: torch.Tensor,
        y: torch.Tensor,
        **handed: torch.Tensor,
    ) -> GuidedFeatures:
        """The personalised features, with the guidance of the global ones. handed: as in `loss`."""
        return GuidedFeatures(self, between, features, y, handed[EMBEDDING])


class GuidedFeatures:
    """What `Guidance.loss` computes between extractor and head, with the gradients written out.

    For a batch of a small network autograd takes as long as all the arithmetic.
    """

    def __init__(
        self,
        guidance: Guidance,
        between: Mapping[str, torch.Tensor],
        features: torch.Tensor,
        y: torch.Tensor,
        frozen: torch.Tensor,
    ) -> None:
        self.guidance, self.between, self.features = guidance, between, features
        conditions = [between[PERSONAL], *([between[GENERIC]] if guidance.guided else [])]
        self.gates = None
        if f"{GAMMA}.0.weight" in between:
            condition = torch.stack(conditions)
            self.gates = _Gate(between, GAMMA, condition), _Gate(between, BETA, condition)
            gamma, beta = (gate.outputs[:, None] for gate in self.gates)
            self.slopes = gamma + 1  # [conditions, 1, features]
            self.seen = torch.addcmul(beta, features, self.slopes).relu_()  # [conditions, n, features]
        else:
            self.seen = features.expand(len(conditions), *features.shape)
        self.outputs, self.term = self.seen[0], 0.0
        if guidance.guided:
            self._guide(y, frozen)
        if guidance.decay:
            flat = torch.cat([p.reshape(-1) for p in self._shared().values()])
            self.term += 0.5 * guidance.decay * float(torch.dot(flat, flat))

    def _shared(self) -> dict[str, torch.Tensor]:
        """The parameters with a weight decay of their own: embedding and valve."""
        return {name: p for name, p in self.between.items() if name not in (GENERIC, PERSONAL)}

    def _guide(self, y: torch.Tensor, frozen: torch.Tensor) -> None:
        """The term of the global features, and its gradients to them and to the embeddings."""
        guidance, general, n = self.guidance, self.seen[1], len(y)
        own = _Direction(general)
        to_class = _Direction(self.between[EMBEDDING])
        cosines, right = own.unit @ to_class.unit.t(), y[:, None]
        powers = cosines.exp()  # of cosines none is large
        total = powers.sum(1, keepdim=True)
        self.term += guidance.angle / n * float((total.log() - cosines.gather(1, right)).sum())
        slope = powers.div_(total).scatter_add_(1, right, total.fill_(-1.0)).mul_(guidance.angle / n)
        self.of_embedding = to_class.backward(slope.t() @ own.unit)
        self.of_general = own.backward(slope @ to_class.unit)
        away = general - frozen.index_select(0, y)
        if guidance.whole_batches:
            length = torch.linalg.vector_norm(away)
            self.term += guidance.magnitude * float(length)
            each = guidance.magnitude
        else:
            length = torch.linalg.vector_norm(away, dim=1, keepdim=True)
            self.term += guidance.magnitude / n * float(length.sum())
            each = guidance.magnitude / n
        # Where the norm is 0, so is what is divided by it: no gradient, as torch has it.
        self.of_general.add_(away.div_(length.clamp_min_(torch.finfo(length.dtype).tiny)), alpha=each)

    def backward(self, slope: torch.Tensor, share: float, into: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """As `Transformed.backward`."""
        decay = self.guidance.decay * share
        if decay:
            for name, p in self._shared().items():
                into[name].add_(p, alpha=decay)
        slopes = slope[None]
        if self.guidance.guided:
            into[EMBEDDING].add_(self.of_embedding, alpha=share)
            slopes = torch.stack((slope, self.of_general.mul_(share)))
        if self.gates is None:
            return slopes.sum(0)
        slopes = _before_relu(slopes, self.seen)
        gamma, beta = self.gates
        gamma.backward((slopes * self.features).sum(1), into)
        beta.backward(slopes.sum(1), into)
        return slopes.mul_(self.slopes).sum(0)


class _Gate:
    """Half a valve, gamma or beta, at some conditions, float32 [conditions, features]: a linear layer, ReLU and layer
    norm."""

    def __init__(self, between: Mapping[str, torch.Tensor], name: str, condition: torch.Tensor) -> None:
        self.name, self.condition = name, condition
        weight, bias, self.scale, self.shift = (between[f"{name}.{part}"] for part in PARTS)
        self.raw = torch.addmm(bias, condition, weight.t()).relu_()
        self.outputs, self.mean, self.rstd = torch.native_layer_norm(
            self.raw, self.raw.shape[1:], self.scale, self.shift, NORM
        )

    def backward(self, slope: torch.Tensor, into: Mapping[str, torch.Tensor]) -> None:
        """Add to the gradients of its parameters, of that of its outputs."""
        inward, scale, shift = torch.ops.aten.native_layer_norm_backward.default(
            slope, self.raw, self.raw.shape[1:], self.mean, self.rstd, self.scale, self.shift, [True] * 3
        )
        inward = _before_relu(inward, self.raw)
        weight, *others = (into[f"{self.name}.{part}"] for part in PARTS)
        weight.addmm_(inward.t(), self.condition)
        for own, gradient in zip(others, (inward.sum(0), scale, shift), strict=True):
            own.add_(gradient)


def _before_relu(slope: torch.Tensor, outputs: torch.Tensor) -> torch.Tensor:
    """The gradient of what a ReLU was given, of that of its outputs."""
    below: torch.Tensor = torch.ops.aten.threshold_backward.default(slope, outputs, 0)
    return below


class _Direction:
    """The rows of a matrix divided by their lengths, as `functional.normalize` has them."""

    def __init__(self, rows: torch.Tensor) -> None:
        length: torch.Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
        self.long, self.length = length >= LEAST, length.clamp_min(LEAST)
        self.unit = rows / self.length

    def backward(self, slope: torch.Tensor) -> torch.Tensor:
        """The gradient of the rows, of that of `unit`."""
        along = (slope * self.unit).sum(1, keepdim=True) * self.long
        return (slope - self.unit * along) / self.length


@register("federation", "gpfl", source="Zhang et al., ICCV 2023, Eqs. 3 to 11, Alg. 1, and the authors' code")
class GPFL(Part, ServerLoop):
    """One extractor, two kinds of features: global ones, guided by an embedding of each class that all clients share,
    and personalised ones, which each client's own head takes.

    A valve makes both of the extractor's features f, under a condition: g, the mean of all embeddings, or p_i, their
    mean weighted by the classes that client i holds. It lowers F_i(head_i(valve(f, p_i))), and for the global features
    v = valve(f, g) the cross-entropy of cos(v, embeddings), plus magnitude * ||v - embedding of its class|| as that
    was handed out, in the mean over samples; embedding and valve have a weight decay of their own.

    p_i and the weight decay are those of the authors' code: Eq. 7 divides p_i by the number of classes, too, and Eq. 11
    has the norms themselves. The distance is that of Eq. 9 in the mean over samples; the authors' code takes one norm
    of the whole batch (`distance = "batch"`), which for a batch of n is some sqrt(n) times as much.

    The server averages extractor, embedding and valve by samples; heads stay with their clients. Conditions come from
    the embeddings handed out in each round, the first included. Judged with what the server hands out, the conditions
    made of it, and each client's head. Down and up: extractor, embedding, valve. With angle = magnitude = decay = 0 and
    valve = false only the extractor counts, and heads are local: FedPer (Arivazhagan et al., 2019). The defaults of
    magnitude and decay are those of the authors' script for small networks. Needs a model that declares an extractor
    and a linear head.
    """

    magnitude: float = field(
        0.01, "lambda, weight of the distance to the embeddings", ge=0, allow_inf_nan=False
    )
    decay: float = field(0.1, "mu, weight decay (L2) of embedding and valve", ge=0, allow_inf_nan=False)
    angle: float = field(1.0, "weight of the cross-entropy of cosines", ge=0, allow_inf_nan=False)
    valve: bool = field(True, "whether there is a valve; if not, both kinds of features are the extractor's")
    distance: Literal["mean", "batch"] = field(
        "mean",
        "distance to the embeddings: the mean of the samples' norms (Eq. 9), or one norm of all differences of the "
        "batch together (the authors' code), some sqrt(batch size) times as much",
        later=True,
    )

    def adapt(self, network: nn.Module) -> nn.Module:
        """With embedding, valve and conditions."""
        return Guided(network, self.valve)

    def objective(self, base: Objective) -> Objective:
        """With the guidance of the global features."""
        together = self.distance == "batch"
        return Guidance(base, self.angle, self.magnitude, self.decay, together, self.valve)

    @override
    def shared(self, layout: Layout) -> slice:
        return slice(0, layout.columns("head").start)

    @override
    def shared_buffers(self, layout: Layout) -> slice:
        return layout.buffer_columns("extractor")

    @override
    def broadcast(self, round: ServerRound) -> None:
        """With the conditions."""
        super().broadcast(round)
        round.memo[EMBEDDING] = _embedding(round.layout, round.tensor(GLOBAL))
        _condition(round.models, round.clients, round.context, round.memo[EMBEDDING])

    @override
    def job(self, round: ServerRound, client: int) -> Job:
        return replace(super().job(round, client), given=round.memo)

    @override
    def evaluation_models(self, models: Models, state: Arrays, context: FederationContext) -> Evaluated:
        rows = self.after_broadcast(models, state)
        embedding = _embedding(models.layout, rows.parameters[0])
        _condition(rows, np.arange(context.clients), context, embedding)
        return {"own": own_models(rows, rows.mean())}


def _embedding(layout: Layout, row: torch.Tensor) -> torch.Tensor:
    """The embeddings in a row (float32 [parameters], or its shared columns): a copy, float32 [classes, features]."""
    (entry,) = (entry for entry in layout.parameters if entry.name == EMBEDDING)
    return entry.view(row).clone()


def _condition(
    models: Models, clients: np.ndarray, context: FederationContext, embedding: torch.Tensor
) -> None:
    """Write the conditions of these clients into their rows: g = mean of the embeddings, p_i = sum_c |D_ic| / |D_i| of
    embedding c (0 for a client without samples).
    """
    held = context.class_counts[clients].astype(np.float64)
    shares = torch.from_numpy(held / np.maximum(held.sum(1, keepdims=True), 1)).to(embedding.device)
    rows, values = torch.from_numpy(clients), embedding.double()
    personal = torch.zeros((len(clients), values.shape[1]), dtype=torch.float64, device=values.device)
    for c, value in enumerate(values):  # class by class: the same for a client whoever else is there
        personal += shares[:, c, None] * value
    models.buffers[rows, models.layout.buffer_columns(GENERIC)] = values.mean(0).float()
    models.buffers[rows, models.layout.buffer_columns(PERSONAL)] = personal.float()
