"""Server-based methods at work on a tiny problem, and the arithmetic to check them by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import nn
from torch.nn import functional

from fedroam.components import Part, build
from fedroam.federation import (
    AdaptsNetwork,
    AdaptsObjective,
    Distributed,
    Exchanged,
    FederationContext,
    Meeting,
    Round,
)
from fedroam.federation.server.loop import GLOBAL
from fedroam.learning import Layout, Models, start_models
from fedroam.learning.objective import CrossEntropy, Objective
from fedroam.learning.training import SGD, Training
from fedroam.mobility import Paths
from fedroam.models import Network
from support.learners import CLASSES, learner_of, problem

TWO_STEPS = SGD(lr=0.5, steps=2)  # full batches
BATCHES = SGD(lr=0.1, momentum=0.5, weight_decay=0.01, batch_size=8, epochs=1)
# Batches, momentum and dropout, as arguments of `Server`.
AS_IN_USE: dict[str, Any] = {"network": "cnn1d", "shape": (14,), "training": BATCHES}


def linear() -> Network:
    """12 inputs, 3 features, ten classes; nothing between."""
    return Network(nn.Linear(12, 3), nn.Linear(3, CLASSES))


class Server:
    """A method, its clients, and the state after some rounds.

    order: client k holds what client order[k] would hold otherwise. validation: so many of each client's samples are
    for validation, the last ones.
    """

    def __init__(
        self,
        part: Part | str | dict[str, Any],
        sizes: Sequence[int] = (12, 20),
        *,
        network: Callable[[], nn.Module] | str = linear,
        training: Training = TWO_STEPS,
        engine: str = "reference",
        order: Sequence[int] | None = None,
        equal: bool = True,
        shape: tuple[int, ...] = (12,),
        validation: int = 0,
    ) -> None:
        self.part: Any = build("federation", part)
        made = network
        if isinstance(made, str):
            model: Any = build("model", made)

            def made() -> nn.Module:
                built: nn.Module = model.build(shape, CLASSES)
                return built

        base = made
        objective: Objective = CrossEntropy()
        if isinstance(self.part, AdaptsObjective):
            objective = self.part.objective(objective)
        self.problem = problem(
            lambda: self.part.adapt(base()) if isinstance(self.part, AdaptsNetwork) else base(),
            shape,
            sizes,
            training=training,
            objective=objective,
        )
        task = self.problem.task
        whole = [self.problem.held[k] for k in (order or range(len(sizes)))]
        held = [own[: len(own) - validation] for own in whole]
        labels = task.y.numpy()
        self.context = FederationContext(
            seed=task.seed,
            samples=np.array([len(own) for own in held]),
            mixing=build("mixing", "data_size"),  # type: ignore[arg-type]
            task=task,
            train=tuple(held),
            validation=tuple(own[len(own) - validation :] for own in whole),
            class_counts=np.stack([np.bincount(labels[own], minlength=CLASSES) for own in held]),
            bounds=(0.0, 0.0, 1.0, 1.0),
        )
        self.learner = learner_of(task, engine)

        def start(clients: Sequence[int]) -> Models:
            momentum = training.keeps_momentum()
            return start_models(
                self.problem.network, task.layout, clients, task.seed, equal=equal, momentum=momentum
            )

        begun = self.part.init(self.context, start, self.learner)
        self.models, self.state, self.round = begun.models, begun.state, 0

    @property
    def layout(self) -> Layout:
        return self.problem.task.layout

    @property
    def server(self) -> torch.Tensor:
        """The server's columns."""
        return torch.from_numpy(self.state[GLOBAL].copy())

    def xy(self, client: int) -> tuple[torch.Tensor, torch.Tensor]:
        """A client's training samples, float64, and their classes."""
        own = torch.from_numpy(self.context.train[client])
        return self.problem.task.x[own].double(), self.problem.task.y[own]

    def shares(self, clients: Sequence[int]) -> np.ndarray:
        """Each one's share of their samples."""
        held = self.context.samples[list(clients)]
        return np.asarray(held / held.sum())

    def step(self, active: Sequence[int] | None = None) -> tuple[Distributed, Exchanged]:
        """A round with these clients active (default: all)."""
        n = self.context.clients
        present = np.zeros(n, bool)
        present[list(range(n) if active is None else active)] = True
        meeting = Meeting(Paths.still(np.zeros((n, 2)), present), sparse.csr_array((n, n), dtype=bool))
        self.round += 1
        round = Round(self.round, self.models, self.state, self.context, meeting, self.learner)
        given = self.part.distribute(round)
        self.learner.train(given.models, given.jobs)
        done = self.part.exchange(replace(round, models=given.models, state=given.state), meeting)
        self.models, self.state = done.models, done.state
        return given, done

    def play(self, rounds: Sequence[Sequence[int] | None] = (None, None)) -> Server:
        """Several rounds, then the workers go home."""
        try:
            for active in rounds:
                self.step(active)
        finally:
            self.learner.close()
        return self

    def evaluation_models(self) -> Any:
        """How clients are judged now."""
        return self.part.evaluation_models(self.models, self.state, self.context)


class Row:
    """A row's tensors by name, as a formula sees them."""

    def __init__(self, layout: Layout, row: torch.Tensor) -> None:
        self.tensors = {entry.name: entry.view(row) for entry in layout.parameters}

    def __getitem__(self, name: str) -> torch.Tensor:
        return self.tensors[name]

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """x A' + a, of the network `linear`."""
        return x @ self["extractor.weight"].t() + self["extractor.bias"]

    def logits(self, z: torch.Tensor) -> torch.Tensor:
        """z H' + h."""
        return z @ self["head.weight"].t() + self["head.bias"]


Loss = Callable[[Row], torch.Tensor]


def descend(
    layout: Layout,
    row: torch.Tensor,
    loss: Loss,
    extra: Callable[[torch.Tensor], torch.Tensor] = torch.zeros_like,
    lr: float = 0.5,
    steps: int = 2,
) -> torch.Tensor:
    """x <- x - lr (grad loss(x) + extra(x)), `steps` times, in float64."""
    for _ in range(steps):
        at = row.double().detach().requires_grad_()
        (gradient,) = torch.autograd.grad(loss(Row(layout, at)), at, materialize_grads=True)
        row = (at - lr * (gradient + extra(at))).detach()
    return row


def cross_entropy(server: Server, client: int) -> Loss:
    """A client's own loss."""
    x, y = server.xy(client)
    return lambda row: functional.cross_entropy(row.logits(row.features(x)), y)


def same(one: torch.Tensor, other: torch.Tensor, engine: str) -> bool:
    """Whether two ways to the same numbers give the same bits; on the fast engine, where one of them goes through
    autograd and the other has its backward pass written out, the same to rounding."""
    if engine == "reference":
        return torch.equal(one, other)
    return torch.allclose(one, other, rtol=1e-5, atol=1e-6)


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal but for rounding in float32."""
    torch.testing.assert_close(found.double(), expected.double(), rtol=1e-4, atol=2e-6)
