"""The fast CPU engine: one single-threaded worker a core, each taking whole clients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from fedroam.components import Part, field, register
from fedroam.errors import InputError
from fedroam.learning.dense import DenseTrainer, groups, recognise
from fedroam.learning.engine import Job, Learner, Scores, Task
from fedroam.learning.local import Trainer, probe, replica
from fedroam.learning.matrix import Models
from fedroam.learning.reference import Reference, ReferenceLearner
from fedroam.learning.samples import Samples
from fedroam.learning.workers import Workers


@register("engine", "cpu")
class Cpu(Part):
    """One single-threaded worker a core; each trains whole clients, the largest first, rows in place."""

    workers: int = field(0, "threads, 0 is one a core", identity=False, ge=0)

    def build(self, task: Task) -> CpuLearner:
        """See `Engine.build`. Raises InputError where the data are not on the CPU."""
        if task.x.device.type != "cpu":
            raise InputError(f"engine 'cpu': the data are on {task.x.device}; allowed is device = \"cpu\"")
        return CpuLearner(task, self.workers)


@register("engine", "auto")
class Auto(Part):
    """`cpu` where the data are on the CPU, `reference` on any other device."""

    workers: int = field(0, "threads, 0 is one a core", identity=False, ge=0)

    def build(self, task: Task) -> Learner:
        """See `Engine.build`."""
        if task.x.device.type == "cpu":
            return Cpu(workers=self.workers).build(task)
        return Reference().build(task)


class _Trainers:
    """What one worker trains with."""

    def __init__(self, learner: CpuLearner) -> None:
        task, samples, check = learner.task, learner.samples, learner.workers.check
        self.any = Trainer(task, samples, learner.nature, check)
        self.dense = None if learner.layers is None else DenseTrainer(task, samples, learner.layers, check)

    def train(self, models: Models, jobs: Sequence[Job]) -> list[float]:
        if self.dense is not None:
            return self.dense.train(models, jobs, self.any.train)
        return [self.any.train(models, job) for job in jobs]


class CpuLearner:
    """See `Learner`. notes: what is worth telling the user about how the work is done."""

    def __init__(self, task: Task, workers: int) -> None:
        self.task = task
        self.samples = Samples(task.x, task.y)
        self.nature = probe(task, self.samples)
        self.notes: tuple[str, ...] = ()
        if self.nature.foreign:
            self.notes = ("the network draws from torch's global generator: clients are trained one by one",)
        self.workers = Workers(workers)
        self.layers = recognise(replica(task, self.nature), task)
        self._trainers: dict[int, _Trainers] = {}

    def train(self, models: Models, jobs: Sequence[Job]) -> np.ndarray:
        """See `Learner.train`."""
        losses = np.full(len(jobs), np.nan)
        units = [[k] for k in range(len(jobs))] if self.layers is None else list(groups(self.task, jobs))

        def do(worker: int, unit: int) -> None:
            own = self._trainers.get(worker)
            if own is None:
                own = self._trainers[worker] = _Trainers(self)
            losses[units[unit]] = own.train(models, [jobs[k] for k in units[unit]])

        def name(unit: int) -> str:
            clients = ", ".join(str(jobs[k].client) for k in units[unit])
            return f"client {clients}, round {jobs[units[unit][0]].round}"

        sizes = [sum(len(jobs[k].samples) for k in unit) for unit in units]
        self.workers.run(sizes, do, name, serial=self.nature.foreign)
        return losses

    def evaluate(
        self,
        models: Models,
        rows: Sequence[int],
        x: torch.Tensor,
        y: torch.Tensor,
        parts: Sequence[np.ndarray] | None = None,
    ) -> Scores:
        """See `Learner.evaluate`."""
        reference = ReferenceLearner(self.task)
        return reference.evaluate(models, rows, x, y, parts)

    def close(self) -> None:
        """See `Learner.close`."""
        self.workers.close()
