"""FedAvgDBE: FedAvg with a domain bias eliminator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import nn
from typing_extensions import override

from fedroam.components import Part, field, register
from fedroam.federation.protocol import Beside
from fedroam.federation.server.loop import ServerLoop, ServerRound, transfers
from fedroam.federation.server.representations import widths
from fedroam.learning import Job, Layout, Models
from fedroam.learning.forms import WithMemory
from fedroam.learning.objective import Objective
from fedroam.models import split

MEAN, MEMORY, RUNNING = "mean", "memory", "running_mean"
STARTED = "started"  # of the memo of a round: the clients that took part in the start pass


class Translated(nn.Module):
    """forward(x) = head(extractor(x) + memory), and a running mean of the features met in training.

    memory: a parameter, float32 [features], at first 0. running_mean: a buffer, float32 [features].
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        features, _ = widths(network)
        self.memory = nn.Parameter(torch.zeros(features))
        self.running_mean: torch.Tensor
        self.register_buffer(RUNNING, torch.zeros(features))
        self.extractor, self.head = split(network)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits [n, classes] of samples [n, *shape]."""
        logits: torch.Tensor = self.head(self.extractor(x).flatten(1) + self.memory)
        return logits


@dataclass(frozen=True)
class Debiased:
    """`base` behind the memory, and kappa times the mean regularisation (Zhang et al., NeurIPS 2023, MR)."""

    base: Objective
    kappa: float
    momentum: float
    memory: bool
    tracked: bool  # whether the running mean lives in the start pass, too
    whole_batches: bool = True  # the mean of a piece is not that of the batch

    @property
    def form(self) -> WithMemory | None:
        """For engines with kernels, which know it with a memory."""
        return WithMemory(MEMORY, RUNNING, MEAN, self.kappa, self.momentum) if self.memory else None

    def handed_like(self, module: nn.Module, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """The consensus."""
        return {MEAN: torch.zeros(widths(module)[0], device=x.device)}

    def loss(
        self, module: nn.Module, x: torch.Tensor, y: torch.Tensor, **handed: torch.Tensor
    ) -> torch.Tensor:
        """handed: mean, float32 [features], or nothing in the start pass."""
        target = handed.pop(MEAN, None)
        assert isinstance(module, Translated)  # what `adapt` made
        network = module
        z = network.extractor(x).flatten(1)
        running = (1 - self.momentum) * network.running_mean + self.momentum * z.mean(0)
        if target is not None or self.tracked:
            with torch.no_grad():
                network.running_mean.copy_(running)
        if target is None:
            # No memory yet; but an engine learns from its first step which parameters ever get a gradient.
            return self.base.loss(network.head, z + 0 * network.memory if self.memory else z, y, **handed)
        loss = self.base.loss(network.head, z + network.memory if self.memory else z, y, **handed)
        if self.kappa:
            loss = loss + self.kappa * (0.5 * (running - target) ** 2).mean()
        return loss

    @property
    def idle(self) -> tuple[str, ...]:
        """The memory, where there is to be none."""
        return () if self.memory else (MEMORY,)

    def transformed(
        self,
        between: Mapping[str, torch.Tensor],
        features: torch.Tensor,
        y: torch.Tensor,
        **handed: torch.Tensor,
    ) -> DebiasedFeatures:
        """The features and the memory, with the mean regularisation. handed: as in `loss`."""
        return DebiasedFeatures(self, between, features, handed.get(MEAN))


class DebiasedFeatures:
    """What `Debiased.loss` computes between extractor and head, with the gradients written out."""

    def __init__(
        self,
        how: Debiased,
        between: Mapping[str, torch.Tensor],
        features: torch.Tensor,
        target: torch.Tensor | None,
    ) -> None:
        running = between[RUNNING] * (1 - how.momentum)
        running.add_(features.sum(0), alpha=how.momentum / len(features))
        if target is not None or how.tracked:
            between[RUNNING].copy_(running)
        self.moved = how.memory and target is not None
        self.outputs, self.term = features + between[MEMORY] if self.moved else features, 0.0
        self.pull: torch.Tensor | None = None
        if target is not None and how.kappa:
            away = running - target
            self.term = 0.5 * how.kappa * float(torch.dot(away, away)) / len(away)
            self.pull = away.mul_(how.kappa * how.momentum / features.numel())

    def backward(self, slope: torch.Tensor, share: float, into: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """As `Transformed.backward`."""
        if self.moved:
            into[MEMORY].add_(slope.sum(0))
        return slope if self.pull is None else slope.add(self.pull, alpha=share)


@register("federation", "fedavgdbe", source="Zhang et al., NeurIPS 2023 (PRBM and MR), and the authors' code")
class FedAvgDBE(Part, ServerLoop):
    """FedAvgDBE: each client has a memory of its own, a vector added to the features, and its mean features are pulled
    to a consensus; all else is FedAvg.

    Client i lowers F_i(head(z + m_i)) + kappa * mean(0.5 (r_i - z_bar)^2), where z are the features, m_i its memory
    (trained, never sent, at first 0) and r_i <- (1 - momentum) r_i + momentum * (mean of z over the batch). The
    consensus z_bar is the mean of the clients' mean features, weighted by samples, and is found once before round 1.

    Judged with the server's model and each client's own memory. Sends what FedAvg does, and the start pass (the model
    down, a mean up, and that of all down). With kappa = 0 and memory = false it is FedAvg. The defaults of kappa and
    momentum are those of the authors' script for a network of four layers. Needs a model that declares an extractor and
    a linear head.
    """

    kappa: float = field(50.0, "weight of the mean regularisation", ge=0, allow_inf_nan=False)
    momentum: float = field(1.0, "weight of the present batch in the running mean", gt=0, le=1)
    memory: bool = field(True, "whether clients have a memory")
    start_pass: Literal["trained", "tracked", "untrained"] = field(
        "trained",
        "whether the mean features are those of a client's model after a round of plain local training, thrown away "
        "then; the running mean of that round, from 0 on (the authors' code: with momentum 1 the last batch's mean, as "
        "its model was before that step); or those of the server's start model",
    )
    start_clients: Literal["all", "active"] = field(
        "all",
        "who takes part in the start pass: all clients, active or not (the authors' code), or those active in the "
        "first round with any; the others then begin with the consensus as their mean",
    )
    running_mean: Literal["carried", "restarted"] = field(
        "carried",
        "whether a client's running mean lives on between rounds, or is 0 when a round begins (the authors' code, "
        "which draws the features to more than the consensus where momentum is below 1)",
    )

    def adapt(self, network: nn.Module) -> nn.Module:
        """With memory and running mean."""
        return Translated(network)

    def objective(self, base: Objective) -> Objective:
        """Behind the memory, with the mean regularisation."""
        return Debiased(base, self.kappa, self.momentum, self.memory, self.start_pass == "tracked")

    @override
    def shared(self, layout: Layout) -> slice:
        return slice(layout.columns(MEMORY).stop, layout.size)

    @override
    def shared_buffers(self, layout: Layout) -> slice:
        return slice(layout.buffer_columns(RUNNING).stop, layout.buffer_size)

    @override
    def broadcast(self, round: ServerRound) -> None:
        """The first one begins with the start pass."""
        columns = round.layout.buffer_columns(RUNNING)
        if MEAN not in round.state:
            self._agree(round)
        ServerLoop.broadcast(self, round)
        if self.running_mean == "restarted":
            round.models.buffers[torch.from_numpy(round.clients), columns] = 0.0

    @override
    def job(self, round: ServerRound, client: int) -> Job:
        given = {MEAN: round.tensor(MEAN)} if MEAN in round.state else {}
        return replace(ServerLoop.job(self, round, client), given=given)

    @override
    def beside(self, round: ServerRound) -> Beside | None:
        """The mean features of the start pass, unless those that its training met are taken. (That training is told as
        local work that was done already.)"""
        if STARTED not in round.memo or self.start_pass == "tracked":
            return None
        who = round.memo[STARTED]
        return Beside.of(round.context.clients, who, extractor=round.context.samples[who])

    def _agree(self, round: ServerRound) -> None:
        """The start pass: sets state `mean`, float32 [features], and every client's running mean."""
        everybody = (
            np.flatnonzero(round.context.samples > 0) if self.start_clients == "all" else round.clients
        )
        round.memo[STARTED] = everybody
        first = replace(round, models=_copy(round.models), clients=everybody)
        ServerLoop.broadcast(self, first)
        if self.start_pass != "untrained":
            jobs = [ServerLoop.job(self, first, int(i)) for i in everybody]
            first.learner.train(first.models, jobs)
            round.trained += jobs
        columns, device = round.layout.buffer_columns(RUNNING), round.models.buffers.device
        if self.start_pass == "tracked":
            means = first.models.buffers[torch.from_numpy(everybody), columns].double().cpu().numpy()
        else:
            means = first.learner.mean_features(first.models, [int(i) for i in everybody], first.held)
        here = ~np.isin(everybody, first.learner.lost())  # the others begin with the consensus
        if not here.any():
            return
        means, everybody = means[here], everybody[here]
        mean = (replace(first, clients=everybody).shares()[:, None] * means).sum(0).astype(np.float32)
        round.state[MEAN] = mean
        round.models.buffers[:, columns] = torch.from_numpy(mean).to(device)
        own = torch.from_numpy(means.astype(np.float32)).to(device)
        round.models.buffers[torch.from_numpy(everybody), columns] = own
        round.more += [
            transfers(everybody, super().download(round), down=True),
            transfers(everybody, mean.nbytes, down=False),
            transfers(everybody, mean.nbytes, down=True),
        ]


def _copy(models: Models) -> Models:
    momentum = None if models.momentum is None else models.momentum.clone()
    return Models(models.layout, models.parameters.clone(), models.buffers.clone(), momentum)
