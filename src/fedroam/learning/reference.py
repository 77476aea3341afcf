"""The reference engine: one client after the other, plain `nn.Module` and the step of `torch.optim.SGD`.

Slow and obvious, and with one thread. It is the documentation of what local training means, and the oracle that every
fast engine must agree with.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch.nn import functional
from torch.optim.sgd import sgd
from typing_extensions import override

from fedroam.components import Part, register
from fedroam.learning.engine import Anchor, Indices, Job, Learner, Rows, Scores, Task, check_jobs, rate, tally
from fedroam.learning.layout import Layout
from fedroam.learning.matrix import Models
from fedroam.learning.objective import scalar
from fedroam.learning.samples import standard
from fedroam.learning.sums import settled, torch_threads
from fedroam.learning.training import Training
from fedroam.models import noise, split
from fedroam.randomness import torch_default_stream, torch_stream

EVALUATION_BATCH = 500


@register("engine", "reference")
class Reference(Part):
    """The slow, obvious loop over clients: `nn.Module`, `torch.optim.SGD`, whole batches."""

    def build(self, task: Task) -> ReferenceLearner:
        """One network, through which every client's model is computed."""
        return ReferenceLearner(task)


class ReferenceLearner(Learner):
    """The reference engine at work."""

    notes: tuple[str, ...] = ("engine: reference",)

    def __init__(self, task: Task) -> None:
        self.task = task
        self._known: dict[int, np.ndarray] = {}
        self.module = task.network().to(task.x.device)

    @torch_threads(1)
    @settled()
    @override
    def train(self, models: Models, jobs: Sequence[Job]) -> np.ndarray:
        check_jobs(jobs, self.task, len(models), self._known)
        return np.array([self._train_one(models, job) for job in jobs], dtype=np.float64)

    def _train_one(self, models: Models, job: Job) -> float:
        task, layout, module = self.task, models.layout, self.module
        layout.read(module, models.parameters[job.row], models.buffers[job.row])
        module.train()
        parameters, lr = dict(module.named_parameters()), rate(task.training, job.round)
        momentum: dict[str, torch.Tensor] = {}
        if models.momentum is not None:
            momentum = {
                entry.name: entry.view(models.momentum[job.row]).clone() for entry in layout.parameters
            }
        generator = torch_stream(task.seed, "dropout", job.round, job.client, device=task.x.device)
        total, seen = 0.0, 0
        with noise(generator), torch_default_stream(task.seed, "foreign draws", job.round, job.client):
            for positions in job.positions(task):
                index = torch.from_numpy(job.samples[positions]).to(task.x.device)
                handed = job.handed(torch.from_numpy(positions).to(task.x.device))
                module.zero_grad()
                if not module.training:
                    module.train()  # an objective of one's own may have judged something
                given = task.objective.loss(module, standard(task.x[index]), task.y[index], **handed)
                loss = scalar(given, task.objective)
                loss.backward()
                if job.anchor is not None:
                    _hold(job.anchor, layout, parameters)
                _step(task.training, lr, parameters, momentum)
                total, seen = total + loss.item() * len(positions), seen + len(positions)
        layout.write(module, models.parameters[job.row], models.buffers[job.row])
        if models.momentum is not None:
            for entry in layout.parameters:
                entry.view(models.momentum[job.row]).copy_(momentum[entry.name])
        return total / seen if seen else float("nan")

    @torch_threads(1)
    @settled()
    @torch.no_grad()
    @override
    def features(self, models: Models, rows: Rows, parts: Indices) -> list[torch.Tensor]:
        found = []
        for row, part in zip(rows, parts, strict=True):
            models.layout.read(self.module, models.parameters[row], models.buffers[row])
            self.module.eval()
            extractor, _ = split(self.module)
            x = self.task.x[torch.from_numpy(part).to(self.task.x.device)]
            pieces = [extractor(standard(some)).flatten(1) for some in x.split(EVALUATION_BATCH)]
            found.append(torch.cat(pieces))
        return found

    @torch_threads(1)
    @settled()
    @torch.no_grad()
    @override
    def evaluate(
        self, models: Models, rows: Rows, x: torch.Tensor, y: torch.Tensor, parts: Indices | None = None
    ) -> Scores:
        counts, loss = [], []
        for k, row in enumerate(rows):
            models.layout.read(self.module, models.parameters[row], models.buffers[row])
            self.module.eval()
            own = slice(None) if parts is None else torch.from_numpy(parts[k]).to(x.device)
            count, total = np.zeros((3, 1), np.int64), 0.0
            for some_x, some_y in zip(
                x[own].split(EVALUATION_BATCH), y[own].split(EVALUATION_BATCH), strict=True
            ):
                outputs = self.module(standard(some_x))
                count = count + tally(outputs, some_y)
                total += float(functional.cross_entropy(outputs, some_y, reduction="sum"))
            number = len(y[own])
            counts.append(count)
            loss.append(total / number if number else float("nan"))
        hits, answers, actual = _stacked(counts)
        return Scores(hits, answers, actual, np.array(loss, np.float64))

    def close(self) -> None:
        """Nothing to give back."""


def _stacked(counts: Sequence[np.ndarray]) -> np.ndarray:
    """Each row's counts, int64 [3, rows, classes]; a row without samples has seen no classes, so has zeros."""
    classes = max((count.shape[1] for count in counts), default=1)
    full = [np.broadcast_to(count, (3, classes)) for count in counts]
    return np.stack(full, axis=1) if full else np.zeros((3, 0, classes), np.int64)


@torch.no_grad()
def _step(
    training: Training,
    lr: float,
    parameters: dict[str, torch.nn.Parameter],
    momentum: dict[str, torch.Tensor],
) -> None:
    """A step of `torch.optim.SGD` for the parameters that have a gradient, by the function that it calls: to make the
    optimiser itself imports torch's compiler, about a second for every process that learns."""
    some = {name: each for name, each in parameters.items() if each.grad is not None}
    gradients = [each.grad for each in some.values() if each.grad is not None]
    buffers = [momentum.get(name) for name in some] if training.momentum else []
    sgd(
        list(some.values()),
        gradients,
        buffers,
        weight_decay=training.weight_decay,
        momentum=training.momentum,
        lr=lr,
        dampening=0.0,
        nesterov=False,
        maximize=False,
    )
    momentum.update((name, each) for name, each in zip(some, buffers, strict=False) if each is not None)


@torch.no_grad()
def _hold(anchor: Anchor, layout: Layout, parameters: dict[str, torch.nn.Parameter]) -> None:
    """Add an anchor's terms to the gradients of those parameters that have one."""
    for entry in layout.parameters:
        parameter = parameters[entry.name]
        if parameter.grad is None:
            continue
        if anchor.pull:
            away = parameter if anchor.target is None else parameter - entry.view(anchor.target)
            parameter.grad += anchor.pull * away
        if anchor.shift is not None:
            parameter.grad += entry.view(anchor.shift)
