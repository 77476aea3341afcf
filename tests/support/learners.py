"""Small learning tasks, and engines at work on them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from fedroam.components import build
from fedroam.learning import Job, Layout, Models, Task, make_network, start_models, to_tensors
from fedroam.learning.objective import CrossEntropy, Objective
from fedroam.learning.training import SGD, Training
from fedroam.randomness import stream

CLASSES = 10


@dataclass(frozen=True)
class Problem:
    """A task, who holds which samples, and how a network is made."""

    task: Task
    held: list[np.ndarray]
    network: Callable[[], nn.Module]

    def jobs(self, round: int, clients: Sequence[int] | None = None) -> list[Job]:
        chosen = range(len(self.held)) if clients is None else clients
        return [Job(k, k, self.held[k], round) for k in chosen]

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


def learner_of(task: Task, engine: str, **settings: Any) -> Any:
    part: Any = build("engine", {"kind": engine, **settings})
    return part.build(task)


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
    """`model`: the kind of a model part (`settings` are its fields), or what makes a module.

    Engines differ by rounding. Where a ReLU's input is zero up to rounding, that decides whether a whole gradient
    passes, and no tolerance holds; the seed is one with which that does not happen.
    """
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
