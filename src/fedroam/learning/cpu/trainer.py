"""The local training of one client by one single-threaded worker, for any `nn.Module` and any objective."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch

from fedroam.learning.cpu.compiled.steps import CompiledSteps
from fedroam.learning.cpu.fused_conv2d import fuse
from fedroam.learning.cpu.sequential import PIECE, sequential_model
from fedroam.learning.cpu.worker_model import (
    Nature,
    aligned,
    attach,
    read_buffers,
    worker_model,
    write_buffers,
)
from fedroam.learning.engine import Anchor, Job, Task, rate
from fedroam.learning.half_precision import widened
from fedroam.learning.layout import Entry
from fedroam.learning.matrix import Models
from fedroam.learning.objective import scalar
from fedroam.learning.samples import Samples
from fedroam.models import noise
from fedroam.randomness import torch_default_stream, torch_stream


class Trainer:
    """One worker's network, gradient memory and optimiser. Rows are trained in place.

    The network's parameters are made views into the client's row, and its gradients are views into one flat
    vector, so that the optimiser is a few operations on whole rows (the update rule of torch.optim.SGD).
    """

    def __init__(self, task: Task, samples: Samples, nature: Nature, check: Callable[[], None]) -> None:
        self.task, self.samples, self.nature, self.check = task, samples, nature, check
        self.module = worker_model(task, nature).train()
        self.gradient = torch.zeros(task.layout.size)
        self.parameters = dict(self.module.named_parameters())
        # Parameters that get no gradient; None before the first step.
        self.without_gradient: list[Entry] | None = None
        self.sequential = (
            None if nature.plain else sequential_model(self.module, task, self.gradient, nature.native)
        )
        self.steps: CompiledSteps | None = None
        if self.sequential is not None:
            self.without_gradient = self.sequential.idle
            self.steps = self.sequential.steps(task, samples, self.gradient, check)
        elif nature.native and not nature.plain:
            self.module = fuse(self.module)
        # Momentum that does not outlive the round.
        self.passing_momentum = torch.zeros(task.layout.size) if task.training.momentum else None

    def train_all(self, models: Models, jobs: Sequence[Job]) -> list[float]:
        """Train the rows of some jobs; mean training loss of each."""
        found: list[float | None] = [None] * len(jobs)
        if self.steps is not None:
            with torch.no_grad():
                found = self.steps.train(models, jobs)
        return [
            self.train(models, job) if loss is None else loss for job, loss in zip(jobs, found, strict=True)
        ]

    def train(self, models: Models, job: Job) -> float:
        """Train the job's row; mean training loss."""
        task, layout = self.task, self.task.layout
        own = models.parameters[job.row].data
        row = widened(own) if self.sequential is not None and self.sequential.compiled else aligned(own)
        if self.sequential is not None:
            self.sequential.attach(row)
        else:
            attach(self.module, layout, row)
        read_buffers(self.module, layout, models.buffers[job.row])
        momentum = None if models.momentum is None else models.momentum[job.row].data
        if momentum is None and self.passing_momentum is not None:
            momentum = self.passing_momentum.zero_()
        with contextlib.ExitStack() as lent:
            if self.sequential is not None:
                lent.enter_context(torch.no_grad())
            if self.sequential is None or self.sequential.draws:
                lent.enter_context(noise(torch_stream(task.seed, "dropout", job.round, job.client)))
            if self.nature.foreign:
                lent.enter_context(torch_default_stream(task.seed, "foreign draws", job.round, job.client))
            loss = self._steps(job, row, momentum)
        write_buffers(self.module, layout, models.buffers[job.row])
        if row is not own:
            own.copy_(row)
        return loss

    def _steps(self, job: Job, row: torch.Tensor, momentum: torch.Tensor | None) -> float:
        lr, total, seen = rate(self.task.training, job.round), 0.0, 0
        for positions in job.positions(self.task):
            self.check()
            total += self._gradient(job, positions) * len(positions)
            seen += len(positions)
            if job.anchor is not None:
                self._hold(job.anchor, row)
            self._update(row, momentum, lr)
        return total / seen if seen else float("nan")

    def _gradient(self, job: Job, batch: np.ndarray) -> float:
        """Mean loss of a batch (positions in the job's samples); its gradient is left in `self.gradient`."""
        self.gradient.zero_()
        most = PIECE if self.sequential is None else self.sequential.many
        step = most if self.nature.apart and len(batch) > most else len(batch)
        index, total = torch.from_numpy(job.samples[batch]), 0.0
        pieces = index.split(step) if step < len(batch) else (index,)
        for k, piece in enumerate(pieces):
            handed: Mapping[str, torch.Tensor] = {}
            if job.given or job.each:
                handed = job.handed(torch.from_numpy(batch[k * step : (k + 1) * step]))
            if self.sequential is not None:
                self.check()
                total += self.sequential.add_gradient(self.samples, piece, len(piece) / len(batch), handed)
                continue
            objective = self.task.objective
            if not self.module.training:
                self.module.train()  # it may have judged something, and left dropout off for those who come next
            loss = scalar(objective.loss(self.module, *self.samples.pick(piece), **handed), objective)
            if len(pieces) > 1:
                self.check()
                loss = loss * (len(piece) / len(batch))
            loss.backward()
            if self.without_gradient is None:
                self.without_gradient = self._collect()
            total += float(loss.detach())
        return total

    def _collect(self) -> list[Entry]:
        """After the very first backward pass: from now on gradients are added up in `self.gradient`.

        Returns the parameters without a gradient, frozen or not used, which torch.optim.SGD leaves alone too.
        """
        still = []
        for entry in self.task.layout.parameters:
            parameter, view = self.parameters[entry.name], entry.view(self.gradient)
            if parameter.grad is None:
                still.append(entry)
            else:
                view.copy_(parameter.grad)
                parameter.grad = view
        return still

    def _hold(self, anchor: Anchor, row: torch.Tensor) -> None:
        """Add an anchor's terms to the gradient, but for parameters that get none."""
        anchor.add(self.gradient, row)
        for entry in self.without_gradient or ():
            entry.view(self.gradient).zero_()

    def _update(self, row: torch.Tensor, momentum: torch.Tensor | None, lr: float) -> None:
        """v <- m v + (g + d x); x <- x - lr v, as torch.optim.SGD."""
        gradient, decay = self.gradient, self.task.training.weight_decay
        if decay:
            gradient.add_(row, alpha=decay)
            for entry in self.without_gradient or ():
                entry.view(gradient).zero_()
        if momentum is not None:
            gradient = momentum.mul_(self.task.training.momentum).add_(gradient)
        row.add_(gradient, alpha=-lr)
