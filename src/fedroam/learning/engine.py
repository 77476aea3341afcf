"""What an engine is asked: train these rows on these samples, and judge those."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import nn

from fedroam.data import as_batch
from fedroam.errors import InputError
from fedroam.learning.matrix import Layout, Models
from fedroam.learning.objective import Objective
from fedroam.learning.training import Training
from fedroam.models import own_dropout
from fedroam.randomness import stream, torch_default_stream


@dataclass(frozen=True)
class Task:
    """What all models of a run have in common.

    network: makes a network of the run's architecture (its values do not matter). x, y: every training sample,
    as `as_batch` tensors float32 [samples, ...] and int64 [samples], held once and shared.
    """

    network: Callable[[], nn.Module]
    layout: Layout
    x: torch.Tensor
    y: torch.Tensor
    training: Training
    objective: Objective
    seed: int


@dataclass(frozen=True)
class Job:
    """The local work of one client in one round: which row it trains, on which samples (indices into the task's)."""

    client: int
    row: int
    samples: np.ndarray
    round: int

    def batches(self, task: Task) -> Iterator[np.ndarray]:
        """The job's batches as indices into the task's samples, one optimiser step each."""
        draws = stream(task.seed, "batches", self.round, self.client)
        for positions in task.training.batches(len(self.samples), draws):
            yield self.samples[positions]


@dataclass(frozen=True)
class Scores:
    """How models did on test samples, one entry a row: correct answers and samples (int64), mean loss (float64).

    A row without test samples has loss NaN.
    """

    correct: np.ndarray
    samples: np.ndarray
    loss: np.ndarray

    @property
    def accuracy(self) -> np.ndarray:
        """Share of correct answers, float64 [rows]; NaN where there was no sample."""
        with np.errstate(invalid="ignore"):
            return self.correct / self.samples.astype(np.float64)


class Learner(Protocol):
    """An engine at work on one task. Results must not depend on the number of workers.

    notes: which engine it is, and what is worth telling of how it computes (kept in the run folder).
    """

    notes: tuple[str, ...]

    def train(self, models: Models, jobs: Sequence[Job]) -> np.ndarray:
        """Train each job's row in place; mean training loss of each job (float64 [jobs], NaN for no samples)."""

    def evaluate(
        self,
        models: Models,
        rows: Sequence[int],
        x: torch.Tensor,
        y: torch.Tensor,
        parts: Sequence[np.ndarray] | None = None,
    ) -> Scores:
        """Judge rows on samples x, y: all of them, or for the k-th row those with indices parts[k]."""

    def close(self) -> None:
        """Give back workers and memory."""


class Engine(Protocol):
    """A way to compute local training."""

    def build(self, task: Task) -> Learner:
        """Set to work on a task."""


def rate(training: Training, round: int) -> float:
    """The learning rate in a round (1, 2, ...)."""
    return training.lr * getattr(training, "lr_decay", 1.0) ** (round - 1)


def make_network(build: Callable[[], nn.Module], seed: int, client: int = 0) -> nn.Module:
    """A network with initial values from its own stream; torch's dropout replaced by one with streams."""
    with torch_default_stream(seed, "start model", client=client):
        return own_dropout(build())


def start_models(
    build: Callable[[], nn.Module],
    layout: Layout,
    rows: int,
    seed: int,
    *,
    equal: bool,
    momentum: bool,
    device: torch.device | str = "cpu",
) -> Models:
    """The models before round 1: all equal, or each row drawn from its client's own stream."""
    models = Models.empty(layout, rows, momentum=momentum, device=device)
    for row in range(rows):
        if equal and row:
            models.parameters[row] = models.parameters[0]
            models.buffers[row] = models.buffers[0]
        else:
            layout.write(make_network(build, seed, row), models.parameters[row], models.buffers[row])
    return models


def to_tensors(x: np.ndarray, y: np.ndarray, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Samples and classes as networks see them, on `device`; on the CPU they share the arrays' memory."""
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError(
            f"device = {str(device)!r}: this machine or this torch has no CUDA; allowed here is 'cpu'"
        )
    return as_batch(torch.from_numpy(x).to(device)), torch.from_numpy(y).to(device)
