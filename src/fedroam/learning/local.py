"""The local training of one client by one single-threaded worker, for any `nn.Module` and any objective."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from fedroam.learning.engine import Job, Task, rate
from fedroam.learning.layers import quicken
from fedroam.learning.matrix import Layout, Models
from fedroam.learning.samples import Samples
from fedroam.models import draws, noise
from fedroam.randomness import torch_default_stream, torch_stream

PIECE = 128  # samples of a large batch computed at a time, so that activations stay in the cache


@dataclass(frozen=True)
class Nature:
    """What decides how a network may be computed.

    apart: each sample's output depends on that sample alone, and nothing is drawn: a large batch may be computed
    in pieces. foreign: training draws from torch's global generator, so that only one may train at a time.
    plain: the network cannot work with channels-last images (it calls `view` on them, for instance).
    """

    apart: bool = False
    foreign: bool = False
    plain: bool = False


def replica(task: Task, nature: Nature) -> nn.Module:
    """A network of a worker's own, with quicker layers."""
    with torch_default_stream(task.seed, "worker's network"):
        module = task.network()
    if not nature.plain:
        return quicken(module)
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            layer.register_forward_hook(lambda _layer, _inputs, output: _contiguous(output))
    return module


def _contiguous(x: torch.Tensor) -> torch.Tensor:
    """A copy in torch's usual order; `contiguous` alone leaves images of one channel as they are."""
    return x.clone(memory_format=torch.contiguous_format)


def attach(module: nn.Module, layout: Layout, row: torch.Tensor) -> None:
    """Make the network's parameters views into a row."""
    parameters = dict(module.named_parameters())
    for entry in layout.parameters:
        # `.data` gives each view a version counter of its own; views of one base share theirs, and autograd would
        # take another worker's update for a change of this row.
        parameters[entry.name].data = entry.view(row.data)


def probe(task: Task, samples: Samples) -> Nature:
    """Find out by training-mode forward passes on up to four samples of the task.

    Not every dependence between samples can be seen so; batch norms, and whatever acts like one, are.
    """
    x, _ = samples.pick(torch.arange(min(4, len(samples.y))))
    before = torch.random.get_rng_state()
    try:
        for plain in (False, True):
            nature, works = _probe(task, x, plain)
            if works:
                return nature
        return Nature(foreign=nature.foreign)
    finally:
        torch.random.set_rng_state(before)


@torch.no_grad()
def _probe(task: Task, x: torch.Tensor, plain: bool) -> tuple[Nature, bool]:
    module = replica(task, Nature(plain=plain)).train()
    row = torch.empty(task.layout.size)
    for entry, parameter in zip(task.layout.parameters, module.parameters(), strict=True):
        entry.view(row).copy_(parameter)
    attach(module, task.layout, row)
    before, works, apart = torch.random.get_rng_state(), False, False
    with noise(torch_stream(task.seed, "probe")):
        try:
            whole, works = module(x), True
            if not draws(module) and len(x) > 1:
                pieces = torch.cat([module(x[k : k + 1]) for k in range(len(x))])
                apart = pieces.shape == whole.shape and torch.allclose(pieces, whole, rtol=1e-3, atol=1e-4)
        except (RuntimeError, ValueError):  # a batch norm refuses a batch of one sample, for instance
            pass
    foreign = not torch.equal(before, torch.random.get_rng_state())
    return Nature(apart and not foreign, foreign, plain), works


class Trainer:
    """One worker's network, gradient memory and optimiser. Rows are trained in place.

    The network's parameters are made views into the client's row, and its gradients are views into one flat
    vector, so that the optimiser is a few operations on whole rows (the update rule of torch.optim.SGD).
    """

    def __init__(self, task: Task, samples: Samples, nature: Nature, check: Callable[[], None]) -> None:
        self.task, self.samples, self.nature, self.check = task, samples, nature, check
        self.layout: Layout = task.layout
        self.module = replica(task, nature).train()
        self.gradient = torch.zeros(self.layout.size)
        parameters = dict(self.module.named_parameters())
        for entry in self.layout.parameters:
            if parameters[entry.name].requires_grad:
                parameters[entry.name].grad = entry.view(self.gradient)
        self.step_momentum = torch.zeros(self.layout.size) if task.training.momentum else None

    def train(self, models: Models, job: Job) -> float:
        """Train the job's row in place; mean training loss."""
        task, training = self.task, self.task.training
        row = models.parameters[job.row].data
        attach(self.module, self.layout, row)
        if self.layout.buffers:
            self._buffers(models.buffers[job.row], to_row=False)
        momentum = None if models.momentum is None else models.momentum[job.row].data
        if momentum is None and self.step_momentum is not None:
            momentum = self.step_momentum.zero_()
        lr, total, seen = rate(training, job.round), 0.0, 0
        with noise(torch_stream(task.seed, "dropout", job.round, job.client)):
            if self.nature.foreign:
                with torch_default_stream(task.seed, "foreign draws", job.round, job.client):
                    total, seen = self._steps(job, row, momentum, lr)
            else:
                total, seen = self._steps(job, row, momentum, lr)
        if self.layout.buffers:
            self._buffers(models.buffers[job.row], to_row=True)
        return total / seen if seen else float("nan")

    def _steps(
        self, job: Job, row: torch.Tensor, momentum: torch.Tensor | None, lr: float
    ) -> tuple[float, int]:
        total, seen = 0.0, 0
        for batch in job.batches(self.task):
            self.check()
            total += self._gradient(batch) * len(batch)
            seen += len(batch)
            self._update(row, momentum, lr)
        return total, seen

    def _gradient(self, batch: np.ndarray) -> float:
        """Mean loss of a batch; its gradient is left in `self.gradient`."""
        self.gradient.zero_()
        index = torch.from_numpy(batch)
        loss_of, module = self.task.objective.loss, self.module
        if len(batch) <= PIECE or not self.nature.apart:
            loss = loss_of(module, *self.samples.pick(index))
            loss.backward()
            return float(loss.detach())
        total = 0.0
        for piece in index.split(PIECE):
            loss = loss_of(module, *self.samples.pick(piece)) * (len(piece) / len(batch))
            loss.backward()
            total += float(loss.detach())
            self.check()
        return total

    def _update(self, row: torch.Tensor, momentum: torch.Tensor | None, lr: float) -> None:
        """v <- m v + (g + d x); x <- x - lr v, as torch.optim.SGD."""
        gradient, decay = self.gradient, self.task.training.weight_decay
        if decay:
            gradient.add_(row, alpha=decay)
        if momentum is not None:
            gradient = momentum.mul_(self.task.training.momentum).add_(gradient)
        row.add_(gradient, alpha=-lr)

    @torch.no_grad()
    def _buffers(self, row: torch.Tensor, *, to_row: bool) -> None:
        for entry, buffer in zip(self.layout.buffers, self.module.buffers(), strict=True):
            view = entry.view(row)
            if to_row:
                view.copy_(buffer)
            else:
                buffer.copy_(view)
