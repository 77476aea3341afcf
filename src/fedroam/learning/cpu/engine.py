"""The fast CPU engine: one single-threaded worker a core, each taking whole clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import nn
from typing_extensions import override

from fedroam.components import Part, field, register
from fedroam.errors import InputError
from fedroam.learning.cpu.evaluation import NOTHING, Counted, Evaluator, blocks, scores, units
from fedroam.learning.cpu.mlp import PerceptronTrainer, groups, recognise, rows_at_a_time, together
from fedroam.learning.cpu.sequential import dense_extractor
from fedroam.learning.cpu.trainer import Trainer
from fedroam.learning.cpu.worker_model import probe, worker_model
from fedroam.learning.cpu.workers import MOST_WORKERS, Workers, shared_workers
from fedroam.learning.engine import Indices, Job, Learner, Rows, Scores, Task, check_jobs
from fedroam.learning.forms import form_of
from fedroam.learning.matrix import Models
from fedroam.learning.objective import CrossEntropy
from fedroam.learning.samples import Samples
from fedroam.models import split


@register("engine", "cpu")
class Cpu(Part):
    """One single-threaded worker a core; each trains whole clients, the largest first, rows in place.

    Large batches are computed in pieces where a probe finds that the network treats samples one by one.
    Multilayer perceptrons train by one kernel, or a few clients side by side. A network that draws from torch's global
    generator is trained one client at a time. Results do not depend on the number of workers.
    """

    workers: int = field(0, "threads, 0 is one a core", identity=False, ge=0, le=MOST_WORKERS)
    native: bool = field(
        True, "compute by kernels compiled for this machine, where there are some: layers, losses, evaluation"
    )

    def build(self, task: Task) -> CpuLearner:
        """Start the workers, after a look at the network. Raises InputError where the data are not on the CPU."""
        if task.x.device.type != "cpu":
            raise InputError(f"engine 'cpu': the data are on {task.x.device}; allowed is device = \"cpu\"")
        return CpuLearner(task, self.workers, self.native)


class _Worker:
    """What one worker computes with; each is made when first needed."""

    def __init__(self, learner: CpuLearner) -> None:
        self.learner = learner
        self._any: Trainer | None = None
        self._perceptrons: PerceptronTrainer | None = None
        self._evaluator: Evaluator | None = None

    def train(self, models: Models, jobs: Sequence[Job]) -> list[float]:
        learner = self.learner
        if learner.layers is None:
            return self.trainer.train_all(models, jobs)
        if self._perceptrons is None:
            self._perceptrons = PerceptronTrainer(
                learner.task,
                learner.samples,
                learner.layers,
                learner.workers.check,
                self._alone,
                learner.nature.native,
            )
        return self._perceptrons.train(models, jobs)

    def _alone(self, models: Models, job: Job) -> float:
        return self.trainer.train(models, job)

    @property
    def trainer(self) -> Trainer:
        learner = self.learner
        if self._any is None:
            self._any = Trainer(learner.task, learner.samples, learner.nature, learner.workers.check)
        return self._any

    @property
    def evaluator(self) -> Evaluator:
        if self._evaluator is None:
            learner = self.learner
            self._evaluator = Evaluator(learner.task, learner.nature, learner.network())
        return self._evaluator


class CpuLearner(Learner):
    """The fast engine at work."""

    def __init__(self, task: Task, workers: int, native: bool = True) -> None:
        self.task = task
        self.nature = replace(probe(task), native=native)
        self.samples = Samples(task.x, task.y, plain=self.nature.plain)
        self._unused = [worker_model(task, self.nature)]
        self.layers = recognise(self._unused[0], task)
        self.workers = Workers(workers)
        self._shared: int | None = None  # workers for all models together, before this run was given cores
        self._known: dict[int, np.ndarray] = {}
        self._by_worker: dict[int, _Worker] = {}
        notes = ["engine: cpu"]
        if self.nature.foreign:
            notes.append("the network draws from torch's global generator: clients are trained one by one")
        if self.nature.plain:
            notes.append("the network cannot work with channels-last images: it is computed the slower way")
        usual = replace(task, objective=CrossEntropy())
        # Whether a worker is best handed several clients at a time.
        self.several = self.layers is not None or self._at_once(self._unused[0])
        if not self.several and recognise(self._unused[0], usual) is not None:
            notes.append(
                "the loss is not the plain cross-entropy: each worker trains one client after the other"
            )
        self.notes = tuple(notes)

    def _at_once(self, network: nn.Module) -> bool:
        """Whether there are kernels for all of a step of an objective that looks at the features."""
        known = self.nature.native and not self.nature.plain and form_of(self.task.objective) is not None
        return known and dense_extractor(network, self.task) is not None

    def _handed(self, models: Models, jobs: Sequence[Job]) -> list[list[int]]:
        """The jobs that a worker is handed at a time, as positions in `jobs`."""
        if not self.several:
            return [[k] for k in range(len(jobs))]
        if self.layers is not None and PerceptronTrainer.here(self.task, self.nature.native) is None:
            return list(groups(self.task, jobs))
        copied = models.half or (models.momentum is None and self.task.training.momentum > 0)
        return together(self.task, jobs, self.workers.count, copied)

    def network(self) -> nn.Module:
        """A network of a worker's own: for who asks first that which was looked at, which is like all others."""
        try:
            return self._unused.pop()
        except IndexError:  # another worker has it
            return worker_model(self.task, self.nature)

    def _of(self, worker: int) -> _Worker:
        if worker not in self._by_worker:
            self._by_worker[worker] = _Worker(self)
        return self._by_worker[worker]

    @override
    def train(self, models: Models, jobs: Sequence[Job]) -> np.ndarray:
        check_jobs(jobs, self.task, len(models), self._known)
        jobs = list(jobs)  # each is asked for several times, and `Jobs` makes it anew each time
        losses = np.full(len(jobs), np.nan)
        handed = self._handed(models, jobs)

        def do(worker: int, unit: int) -> None:
            losses[handed[unit]] = self._of(worker).train(models, [jobs[k] for k in handed[unit]])

        def name(unit: int) -> str:
            clients = ", ".join(str(jobs[k].client) for k in handed[unit])
            return f"client {clients}, round {jobs[handed[unit][0]].round}"

        sizes = [sum(len(jobs[k].samples) for k in unit) for unit in handed]
        self.workers.run(sizes, do, name, serial=self.nature.foreign)
        return losses

    @override
    def evaluate(
        self, models: Models, rows: Rows, x: torch.Tensor, y: torch.Tensor, parts: Indices | None = None
    ) -> Scores:
        samples = Samples(x, y, plain=self.nature.plain)
        found, case_of = blocks(models, rows, len(y), parts)
        results: list[Counted] = [(NOTHING, [])] * len(found)
        most = rows_at_a_time(self.task.layout) if models.half else len(found)
        several = units(found, self.workers.count, most)

        def do(worker: int, k: int) -> None:
            self.workers.check()
            some = several[k]
            counted = self._of(worker).evaluator.evaluate(models, samples, found[some.start : some.stop])
            results[some.start : some.stop] = counted

        def name(k: int) -> str:
            rows = dict.fromkeys(found[of].row for of in several[k])
            return f"evaluation of row {', '.join(map(str, rows))}"

        sizes = [sum(found[of].end - found[of].begin for of in some) for some in several]
        self.workers.run(sizes, do, name, serial=self.nature.foreign)
        return scores(found, results, case_of)

    @override
    def features(self, models: Models, rows: Rows, parts: Indices) -> list[torch.Tensor]:
        split(self._of(0).evaluator.module)  # refuse at once what has no extractor
        results: list[torch.Tensor] = [torch.empty(0)] * len(rows)

        def do(worker: int, k: int) -> None:
            self.workers.check()
            results[k] = self._of(worker).evaluator.features(models, rows[k], self.samples, parts[k])

        self.workers.run(
            [len(part) for part in parts],
            do,
            lambda k: f"features of row {rows[k]}",
            serial=self.nature.foreign,
        )
        return results

    @override
    def use_cores(self, count: int) -> None:
        self.workers.resize(count)
        shared = shared_workers()
        if self._shared is None:
            self._shared = shared.count
        shared.resize(count)

    @override
    def close(self) -> None:
        self.workers.close()
        if self._shared is not None:
            shared_workers().resize(self._shared)
            self._shared = None
