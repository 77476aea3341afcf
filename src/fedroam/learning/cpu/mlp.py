"""Local training of multilayer perceptrons and softmax regression with the backward pass written out.

A step of such a network is so little arithmetic that autograd, and Python between two operations, would cost more
than the step. So a kernel of ours computes all steps of a client. Where there is none, clients whose batches have the
same lengths are trained side by side, a few at a time, as batched matrix products on their rows; and where there is no
momentum, the product that computes a weight's gradient adds it to the weight at once.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from fedroam.learning.cpu.compiled.mlp import CompiledPerceptron, RowSteps
from fedroam.learning.cpu.sequential import answers, sequence
from fedroam.learning.engine import Job, Task, rate
from fedroam.learning.half_precision import HalfPrecision, widened
from fedroam.learning.layout import Entry, Layout
from fedroam.learning.matrix import Models
from fedroam.learning.objective import CrossEntropy
from fedroam.learning.samples import Samples
from fedroam.learning.training import LimitsBatches
from fedroam.native import Target, target

ROWS_BYTES = 2 * 1024 * 1024  # parameters trained side by side: what a core's own cache can hold, about
SAMPLES = 1024  # samples side by side, at most
BATCH = 512  # larger batches gain nothing here
LEAST_WORK = 2e7  # operations of a pass over samples: a turn costs a fraction of them
TURNS = 8  # of each worker: the last ones to finish wait for an eighth of the work of one, at most


@dataclass(frozen=True)
class LinearEntries:
    """Where a linear layer's weight [outputs, inputs] and bias [outputs] lie in a row."""

    weight: Entry
    bias: Entry | None


def recognise(module: nn.Module, task: Task) -> tuple[LinearEntries, ...] | None:
    """The linear layers of a network that is a sequence of them with ReLU between; None for any other network.

    Also None where the objective is not the plain cross-entropy, a parameter is frozen, shared or hooked, or a class
    has no output.
    """
    if type(task.objective) is not CrossEntropy or task.layout.buffers:
        return None
    if not all(parameter.requires_grad for parameter in module.parameters()):
        return None
    found = sequence(module)
    if not found:
        return None
    first = found[0][1]
    flattened = type(first) is nn.Flatten and (first.start_dim, first.end_dim) == (1, -1)
    found = found[1:] if flattened else found
    if task.x.dim() > 2 and not flattened:
        return None
    kinds = [type(layer) for _, layer in found]
    if kinds != [nn.Linear] + [nn.ReLU, nn.Linear] * (len(kinds) // 2):
        return None
    entries = {entry.name: entry for entry in task.layout.parameters}
    linear = [name for name, layer in found if type(layer) is nn.Linear]
    if any(f"{name}.weight" not in entries for name in linear):  # shared: it stands under another name
        return None
    sizes = [entries[f"{name}.weight"].shape for name in linear]
    follows = [math.prod(task.x.shape[1:]), *(outputs for outputs, _ in sizes)]
    if any(inputs != before for (_, inputs), before in zip(sizes, follows, strict=False)):
        return None  # torch says so; kernels would read beside what there is
    layers = tuple(LinearEntries(entries[f"{name}.weight"], entries.get(f"{name}.bias")) for name in linear)
    named = sum(1 if layer.bias is None else 2 for layer in layers)
    if named != len(task.layout.parameters) or not answers(layers[-1].weight.shape[0], task):
        return None
    return layers


def groups(task: Task, jobs: Sequence[Job]) -> Iterator[list[int]]:
    """The jobs to be done side by side, as positions in `jobs`: as many samples each, anchored with the same pull, and
    neighbours in the matrix.

    What is grouped depends on the jobs alone, not on who does them.
    """
    most = rows_at_a_time(task.layout)
    alike = [(len(job.samples), _pull(job)) for job in jobs]
    order = sorted(range(len(jobs)), key=lambda k: (alike[k], jobs[k].row))
    group: list[int] = []
    limit = task.training.batch_size if isinstance(task.training, LimitsBatches) else 0
    for k in order:
        samples = len(jobs[k].samples)
        batch = min(limit or samples, samples, BATCH)
        full = len(group) >= most or (len(group) + 1) * batch > SAMPLES
        if group and (full or alike[k] != alike[group[0]]):
            yield group
            group = []
        group.append(k)
    if group:
        yield group


def together(task: Task, jobs: Sequence[Job], workers: int, copied: bool) -> list[list[int]]:
    """The jobs that a worker's kernel is handed at a time, as positions in `jobs`: neighbours in the matrix, of one
    round, and so many that each worker has some turns where there is enough to do.

    copied: whether rows are copied, or have momentum of their own while they are trained: then no more than a core's
    cache holds. What comes out does not depend on it. Jobs of clients without samples are left out.
    """
    order = sorted((k for k in range(len(jobs)) if len(jobs[k].samples)), key=lambda k: jobs[k].row)
    ends = np.cumsum([len(jobs[k].samples) for k in order], dtype=np.int64)
    if not len(ends):
        return []
    worth = int(6 * task.layout.size * ends[-1] / LEAST_WORK)
    count = 1 if workers == 1 else min(TURNS * workers, max(workers, worth))
    cuts = np.searchsorted(ends, ends[-1] * np.arange(1, count) / count, side="right")
    most = rows_at_a_time(task.layout) if copied else len(jobs)
    parts = (part.tolist() for part in np.split(np.array(order), cuts))
    alike = (list(some) for part in parts for _, some in itertools.groupby(part, lambda k: jobs[k].round))
    return [some[k : k + most] for some in alike for k in range(0, len(some), most)]


def rows_at_a_time(layout: Layout) -> int:
    """How many rows of parameters a core's own cache can hold, about."""
    return max(1, ROWS_BYTES // (4 * layout.size))


def _pull(job: Job) -> float:
    return 0.0 if job.anchor is None else job.anchor.pull


class PerceptronTrainer:
    """One worker's way to train a few clients side by side."""

    def __init__(
        self,
        task: Task,
        samples: Samples,
        layers: tuple[LinearEntries, ...],
        check: Callable[[], None],
        alone: Callable[[Models, Job], float],
        native: bool = True,
    ) -> None:
        """`alone(models, job)` trains a client whose batches are too large to gain anything here. native: by a kernel
        of ours, where there is one."""
        self.task, self.samples, self.layers, self.check, self.alone = task, samples, layers, check, alone
        classes = layers[-1].weight.shape[0]
        assert isinstance(task.objective, CrossEntropy)  # as `recognise` asks
        smoothing = task.objective.label_smoothing
        self.targets = torch.eye(classes) * (1 - smoothing) + smoothing / classes
        self.compiled: CompiledPerceptron | None = None
        if (here := self.here(task, native)) is not None:
            entries = [(layer.weight, layer.bias) for layer in layers]
            self.compiled = CompiledPerceptron(task, samples, entries, smoothing, here, check)

    @staticmethod
    def here(task: Task, native: bool) -> Target | None:
        """The machine that kernels are made for; None where there are none."""
        return target() if native and task.x.dtype == torch.float32 else None

    @torch.no_grad()
    def train(self, models: Models, jobs: Sequence[Job]) -> list[float]:
        """Train the jobs' rows in place; mean training loss of each."""
        schedules = [list(job.batches(self.task)) for job in jobs]
        if self.compiled is None:
            return self._by_torch(models, jobs, schedules)
        found, most = [math.nan] * len(jobs), self.compiled.most
        fit = [k for k, some in enumerate(schedules) if max(map(len, some), default=0) <= most]
        losses = self._by_kernels(self.compiled, models, [jobs[k] for k in fit], [schedules[k] for k in fit])
        for k, loss in zip(fit, losses, strict=True):
            found[k] = loss
        with torch.enable_grad():
            for k in sorted({*range(len(jobs))} - {*fit}):
                found[k] = self.alone(models, jobs[k])
        return found

    def _by_torch(
        self, models: Models, jobs: Sequence[Job], schedules: Sequence[list[np.ndarray]]
    ) -> list[float]:
        lengths = [[len(batch) for batch in schedule] for schedule in schedules]
        longest = max(max(some, default=0) for some in lengths)
        if longest > BATCH or len({_pull(job) for job in jobs}) > 1:
            with torch.enable_grad():
                return [self.alone(models, job) for job in jobs]
        if any(some != lengths[0] for some in lengths):
            return [self._side_by_side(models, [job], [schedules[k]])[0] for k, job in enumerate(jobs)]
        return self._side_by_side(models, jobs, schedules)

    def _by_kernels(
        self,
        compiled: CompiledPerceptron,
        models: Models,
        jobs: Sequence[Job],
        schedules: Sequence[list[np.ndarray]],
    ) -> list[float]:
        rows, copies = [], []
        for job, batches in zip(jobs, schedules, strict=True):
            own, momentum = models.parameters[job.row].data, None
            row = widened(own)
            if row is not own:
                copies.append((own, row))
            if models.momentum is not None:
                momentum = models.momentum[job.row].data
            elif self.task.training.momentum:
                momentum = torch.zeros(row.shape)
            pull, steady = (0.0, None) if job.anchor is None else _anchors([job], row[None])
            decay = self.task.training.weight_decay + pull
            rows.append(RowSteps(row, momentum, None if steady is None else steady[0], decay, batches))
        if not rows:
            return []
        totals = compiled.train(rows, rate(self.task.training, jobs[0].round))
        for own, row in copies:
            own.copy_(row)
        seen = [sum(map(len, batches)) for batches in schedules]
        return [total / n if n else float("nan") for total, n in zip(totals, seen, strict=True)]

    def _side_by_side(
        self, models: Models, jobs: Sequence[Job], schedules: Sequence[list[np.ndarray]]
    ) -> list[float]:
        if not schedules[0]:
            return [float("nan")] * len(jobs)
        rows, put_back = _rows(models.parameters, jobs)
        momentum, put_momentum_back = None, None
        if models.momentum is not None:
            momentum, put_momentum_back = _rows(models.momentum, jobs)
        elif self.task.training.momentum:
            momentum = torch.zeros(rows.shape)
        total, seen = torch.zeros(len(jobs), dtype=torch.float64), 0
        lr = rate(self.task.training, jobs[0].round)
        weights = [self._views(matrix) for matrix in (rows, momentum) if matrix is not None]
        pull, steady = _anchors(jobs, rows)
        decay = self.task.training.weight_decay + pull
        for batches in zip(*schedules, strict=True):
            self.check()
            x, y = self.samples.pick(torch.from_numpy(np.concatenate(batches)))
            size = len(batches[0])
            x = x.flatten(1).view(len(jobs), size, -1)
            targets = self.targets.index_select(0, y).view(len(jobs), size, -1)
            # The bits of a product with a vector depend on where in memory its matrix lies (`aligned`), those of a
            # product of matrices do not: a sample alone is taken twice, which has the same mean.
            times = 2 if size == 1 else 1
            x, targets = x.repeat(1, times, 1), targets.repeat(1, times, 1)
            velocities = weights[-1] if momentum is not None else None
            total += self._step(x, targets, weights[0], velocities, lr, decay) / times
            seen += size
            if momentum is None and steady is not None:
                rows.sub_(steady, alpha=lr)
            if momentum is not None:
                if decay:
                    momentum.add_(rows, alpha=decay)
                if steady is not None:
                    momentum.add_(steady)
                rows.sub_(momentum, alpha=lr)
        put_back()
        if put_momentum_back is not None:
            put_momentum_back()
        return [float(loss) for loss in total / seen]

    def _views(self, rows: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor | None]]:
        """Weights [clients, outputs, inputs] and biases [clients, outputs] within rows."""

        def view(entry: Entry) -> torch.Tensor:
            return rows[:, entry.offset : entry.offset + entry.size].view(len(rows), *entry.shape)

        return [
            (view(layer.weight), None if layer.bias is None else view(layer.bias)) for layer in self.layers
        ]

    def _step(
        self,
        x: torch.Tensor,
        targets: torch.Tensor,
        layers: list[tuple[torch.Tensor, torch.Tensor | None]],
        velocities: list[tuple[torch.Tensor, torch.Tensor | None]] | None,
        lr: float,
        decay: float,
    ) -> torch.Tensor:
        """One step of every client; x [clients, n, inputs], targets [clients, n, classes]. Sums of the losses.

        decay: how much of the weights is added to their gradient. With velocities v only those are brought up to
        date, v <- m v + g, and the caller does the rest.
        """
        inputs, a = [], x
        for k, (weight, bias) in enumerate(layers):
            if k:
                a = a.relu_()
            inputs.append(a)
            matrix = weight.transpose(1, 2)
            a = torch.bmm(a, matrix) if bias is None else torch.baddbmm(bias[:, None], a, matrix)
        log = torch.log_softmax(a, 2)
        loss = -(log * targets).sum((1, 2), dtype=torch.float64)
        gradient = (log.exp_() - targets).div_(x.shape[1])
        keep = 1 - lr * decay
        for k in reversed(range(len(layers))):
            (weight, bias), a = layers[k], inputs[k]
            below = torch.ops.aten.threshold_backward(torch.bmm(gradient, weight), a, 0) if k else None
            if velocities is None:
                weight.baddbmm_(gradient.transpose(1, 2), a, beta=keep, alpha=-lr)
                if bias is not None:
                    bias.mul_(keep).sub_(gradient.sum(1), alpha=lr)
            else:
                m = self.task.training.momentum
                velocity, bias_velocity = velocities[k]
                velocity.baddbmm_(gradient.transpose(1, 2), a, beta=m)
                if bias_velocity is not None:
                    bias_velocity.mul_(m).add_(gradient.sum(1))
            if below is not None:
                gradient = below
        return loss


def _anchors(jobs: Sequence[Job], rows: torch.Tensor) -> tuple[float, torch.Tensor | None]:
    """The anchors of jobs with the same pull, as pull * x + steady: the pull, and steady [jobs, parameters] if any."""
    anchors = [job.anchor for job in jobs]
    pull = _pull(jobs[0])
    if all(a is None or ((a.target is None or not pull) and a.shift is None) for a in anchors):
        return pull, None
    (first, *others) = anchors
    if not others and first is not None and first.shift is not None and (first.target is None or not pull):
        shift = first.shift[None]
        if shift.dtype == rows.dtype and shift.is_contiguous():
            return pull, shift
    steady = torch.zeros(rows.shape)
    for own, anchor in zip(steady, anchors, strict=True):
        if anchor is not None and anchor.target is not None:
            own.sub_(anchor.target, alpha=pull)
        if anchor is not None and anchor.shift is not None:
            own.add_(anchor.shift)
    return pull, steady


def _rows(matrix: torch.Tensor, jobs: Sequence[Job]) -> tuple[torch.Tensor, Callable[[], object]]:
    """The jobs' rows: a slice where they are neighbours, else a copy, as where they are held in 16 bits; and how to put
    a copy back."""
    own = [job.row for job in jobs]
    if own == list(range(own[0], own[0] + len(own))) and not isinstance(matrix, HalfPrecision):
        return matrix.data[own[0] : own[0] + len(own)], lambda: None
    index = torch.tensor(own)
    copy = widened(matrix.data.index_select(0, index))
    return copy, lambda: matrix.data.index_copy_(0, index, copy)
