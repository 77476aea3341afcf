"""Small learning tasks, engines at work on them, and how engines are held to float64."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from fedroam.components import build
from fedroam.learning import Job, Layout, Models, Task, make_network, start_models, to_tensors
from fedroam.learning.cpu.evaluation import Evaluator
from fedroam.learning.cpu.worker_model import Nature, worker_model
from fedroam.learning.engine import Scores
from fedroam.learning.objective import CrossEntropy, Objective
from fedroam.learning.samples import standard
from fedroam.learning.training import SGD, Training
from fedroam.randomness import stream
from support.rounding import DECIDING, UNIT, by_layer, off, tolerance, undecided, values

CLASSES = 10
ONE_STEP = SGD(lr=0.05, batch_size=0, epochs=1)
Change = Callable[[Job], Job]
# Networks without ReLU and max-pool, one for each of the fast engine's ways to compute: batched matrices, our kernels,
# written-out layers, autograd. Shapes as `problem` takes them.
SMOOTH: dict[str, tuple[tuple[int, ...], Callable[[], nn.Module]]] = {
    "batched": ((4, 3, 1), lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, CLASSES))),
    "kernels": (
        (8, 8, 3),
        lambda: nn.Sequential(
            nn.Conv2d(3, 6, 3),
            nn.GroupNorm(2, 6),
            nn.Conv2d(6, 4, 3, padding=1),
            nn.Flatten(),
            nn.Linear(144, CLASSES),
        ),
    ),
    "written out": (
        (9, 9, 2),
        lambda: nn.Sequential(
            *(nn.Conv2d(2, 6, 3, stride=2, dilation=2), nn.GroupNorm(3, 6)),
            *(nn.Flatten(), nn.Linear(54, CLASSES)),
        ),
    ),
    "autograd": (
        (8, 8, 1),
        lambda: nn.Sequential(
            nn.Conv2d(1, 6, 3), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(54, CLASSES)
        ),
    ),
}


@dataclass(frozen=True)
class Problem:
    """A task, who holds which samples, and how a network is made."""

    task: Task
    held: list[np.ndarray]
    network: Callable[[], nn.Module]

    def jobs(self, round: int, clients: Sequence[int] | None = None) -> list[Job]:
        chosen = range(len(self.held)) if clients is None else clients
        return [Job(k, k, self.held[k], round) for k in chosen]

    @property
    def exact(self) -> Problem:
        """The same in float64: what the reference engine makes of it is the truth."""
        task, network = self.task, self.task.network
        return replace(self, task=replace(task, network=lambda: network().double(), x=task.x.double()))

    def module(self, models: Models, row: int) -> nn.Module:
        """A network with the values of a row."""
        module = self.task.network()
        self.task.layout.read(module, models.parameters[row], models.buffers[row])
        return module

    def start(self, equal: bool = True) -> Models:
        return start_models(
            self.network,
            self.task.layout,
            len(self.held),
            self.task.seed,
            equal=equal,
            momentum=self.task.training.keeps_momentum(),
        )

    def trained(self, engine: str, rounds: int = 2, **settings: Any) -> tuple[Models, np.ndarray]:
        """Models and losses after some rounds of local training, without any exchange."""
        models, learner = self.start(), learner_of(self.task, engine, **settings)
        try:
            losses = [learner.train(models, self.jobs(t)) for t in range(1, rounds + 1)]
        finally:
            learner.close()
        return models, np.array(losses)


def evaluator_of(task: Task, nature: Nature) -> Evaluator:
    """What evaluates in a worker, with a network of its own."""
    return Evaluator(task, nature, worker_model(task, nature))


def learner_of(task: Task, engine: Any, **settings: Any) -> Any:
    """engine: a kind with its settings, or a part."""
    part: Any = build("engine", {"kind": engine, **settings}) if isinstance(engine, str) else engine
    return part.build(task)


def check_steps(
    case: Problem, *engines: Any, rounds: int = 2, change: Change = lambda job: job, **settings: Any
) -> Models:
    """Hold every step of some engines to float64, each from the same point; the first one's result is the next point.

    A round must be one step. Samples of which a ReLU or a max-pool may decide otherwise after rounding are left out,
    and named where something is wrong. change: what is done to each job first. Returns the first engine's models.
    """
    assert [len(list(case.task.training.batches(n, stream(0, "any")))) for n in (1, 50)] == [1, 1]
    learners = [learner_of(case.task, engine, **settings) for engine in engines]
    truth, models, left_out = learner_of(case.exact.task, "reference"), case.start(), 0
    for t in range(1, rounds + 1):
        jobs, names = [], {}
        for job in map(change, case.jobs(t)):
            x = case.task.x[torch.from_numpy(job.samples)]
            unsure = undecided(case.module(models, job.row), x).numpy()
            sure = np.setdiff1d(np.arange(len(job.samples)), unsure)
            each = {name: values[torch.from_numpy(sure)] for name, values in job.each.items()}
            jobs.append(replace(job, samples=job.samples[sure], each=each))
            names[job.client] = f"left out: samples {job.samples[unsure].tolist()}"
            left_out += len(unsure)
        before, exact = copied(models), copied(models, torch.float64)
        exact_losses = truth.train(exact, jobs)
        for learner in reversed(learners):
            models = copied(before)
            losses = learner.train(models, jobs)
            _check(case, jobs, before, (models, losses), (exact, exact_losses), names)
    for learner in learners:
        learner.close()
    assert left_out <= rounds * sum(map(len, case.held)) / 2, (
        f"{left_out} samples left out: too little is compared"
    )
    return models


def check_engine(case: Problem, rounds: int = 2) -> None:
    """Hold the fast engine's training, a step a round, and its evaluation to float64; they do not depend on the number
    of workers."""
    models = check_steps(case, "cpu", rounds=rounds)
    alone, together = (case.trained("cpu", workers=workers)[0].parameters for workers in (1, 2))
    assert torch.equal(alone, together)
    sure = clear(case, models)
    assert 2 * len(sure) >= len(case.task.y)

    def scores(task: Task, engine: str, judged: Models) -> Scores:
        learner = learner_of(task, engine)
        found: Scores = learner.evaluate(judged, range(len(judged)), task.x[sure], task.y[sure])
        learner.close()
        return found

    ours = scores(case.task, "cpu", models)
    truth = scores(case.exact.task, "reference", copied(models, torch.float64))
    np.testing.assert_array_equal(ours.hits, truth.hits)
    np.testing.assert_allclose(ours.loss, truth.loss, rtol=1e-5)


def check_trajectory(
    case: Problem,
    engine: Any,
    rounds: int = 3,
    change: Change = lambda job: job,
    clients: Sequence[int] | None = None,
    **settings: Any,
) -> Models:
    """Hold an engine's models to float64 after each of some rounds of any length. Returns the models.

    For a network without ReLU and max-pool, and a rate that does not let rounding errors grow. clients: who trains,
    all by default. change: what is done to each job first.
    """
    assert not any(isinstance(layer, DECIDING) for layer in case.task.network().modules())
    start = case.start()
    models, exact = copied(start), copied(start, torch.float64)
    learner, truth = learner_of(case.task, engine, **settings), learner_of(case.exact.task, "reference")
    for t in range(1, rounds + 1):
        jobs = [change(job) for job in case.jobs(t, clients)]
        losses, exact_losses = learner.train(models, jobs), truth.train(exact, jobs)
        _check(case, jobs, start, (models, losses), (exact, exact_losses), {})
    learner.close()
    return models


def _check(
    case: Problem,
    jobs: Sequence[Job],
    before: Models,
    found: tuple[Models, np.ndarray],
    exact: tuple[Models, np.ndarray],
    names: Mapping[int, str],
) -> None:
    """Compare models and losses layer by layer. before: where the way that is compared began."""
    (models, losses), (truth, exact_losses) = found, exact
    np.testing.assert_array_equal(np.isnan(losses), np.isnan(exact_losses))
    for job, loss, exact_loss in zip(jobs, losses, exact_losses, strict=True):
        if np.isnan(exact_loss):
            assert torch.equal(models.parameters[job.row], before.parameters[job.row])
            continue
        batches = [len(batch) for batch in job.batches(case.task)]
        x = case.task.x[torch.from_numpy(job.samples[: max(batches)])]
        share = tolerance(case.module(before, job.row), x, exact_loss)
        written = job.round * len(batches) * UNIT  # each step rounds the row once more
        assert abs(loss - exact_loss) <= share * exact_loss, (
            f"client {job.client}: loss {loss}, not {exact_loss}"
        )
        k, left_out = job.row, names.get(job.client, "")
        for layer, entries in by_layer(case.task.layout):
            where = f"client {job.client}, round {job.round}, layer {layer!r}. {left_out}"
            origin, goal, reached = (values(entries, m.parameters[k]) for m in (before, truth, models))
            allowed = share * float((goal - origin).norm()) + written * float(goal.norm())
            assert float((reached - goal).norm()) <= allowed, where
            if truth.momentum is not None:
                assert models.momentum is not None
                goal, reached = (values(entries, m[k]) for m in (truth.momentum, models.momentum))
                assert off(reached, goal) <= share, where
        assert off(models.buffers[k], truth.buffers[k]) <= share


def clear(case: Problem, models: Models) -> torch.Tensor:
    """The samples whose most likely class no rounding can change, for any row."""
    leads = []
    for row in range(len(models)):
        with torch.no_grad():
            logits = case.module(models, row).eval()(standard(case.task.x))
        first, second = logits.topk(2, 1).values.t()
        leads.append(first - second)
    return torch.nonzero(torch.stack(leads).amin(0) > 1e-4).flatten()


def copied(models: Models, dtype: torch.dtype = torch.float32) -> Models:
    """A copy, maybe in another precision."""
    momentum = None if models.momentum is None else models.momentum.to(dtype, copy=True)
    parameters, buffers = (matrix.to(dtype, copy=True) for matrix in (models.parameters, models.buffers))
    return Models(models.layout, parameters, buffers, momentum)


def problem(
    model: str | Callable[[], nn.Module] = "mlp",
    shape: tuple[int, ...] = (12,),
    sizes: Sequence[int] = (20, 33, 7),
    *,
    training: Training | None = None,
    objective: Objective | None = None,
    seed: int = 5,
    **settings: Any,
) -> Problem:
    """`model`: the kind of a model part (`settings` are its fields), or what makes a module."""
    draws, total = stream(seed, "test problem"), sum(sizes)
    y = draws.integers(0, CLASSES, total)
    x = draws.standard_normal((total, *shape)).astype(np.float32)
    x += (y.reshape(-1, *([1] * len(shape))) * np.float32(0.2)).astype(np.float32)
    if callable(model):
        network = model
    else:
        part: Any = build("model", {"kind": model, **settings})
        network = partial(part.build, (shape[2], *shape[:2]) if len(shape) == 3 else shape, CLASSES)
    make = partial(make_network, network, seed)
    features, classes = to_tensors(x, y, torch.device("cpu"))
    training = training or SGD(lr=0.05, batch_size=8, epochs=1)
    task = Task(make, Layout.of(make()), features, classes, training, objective or CrossEntropy(), seed)
    bounds = np.cumsum([0, *sizes])
    held = [np.arange(a, b) for a, b in itertools.pairwise(bounds)]
    return Problem(task, held, network)
