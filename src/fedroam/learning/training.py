"""Local training: the optimiser, and how much of it a client does in a round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from pydantic import model_validator

from fedroam.components import Part, field, register
from fedroam.randomness import stream

MOST_STEPS = 1_000_000  # optimiser steps or epochs of a round


@runtime_checkable
class Training(Protocol):
    """The local work of a round. The engines read the optimiser's fields."""

    @property
    def lr(self) -> float:
        """Learning rate of the first round."""

    @property
    def momentum(self) -> float:
        """Momentum, 0 for none."""

    @property
    def weight_decay(self) -> float:
        """Weight decay (L2)."""

    def batches(self, samples: int, stream: np.random.Generator) -> Iterator[np.ndarray]:
        """The batches of one client in one round, one optimiser step each: positions in 0 .. samples - 1."""

    def keeps_momentum(self) -> bool:
        """Whether momentum outlives the round (then it is part of the run's state)."""


@runtime_checkable
class DecaysLearningRate(Protocol):
    """Training whose learning rate falls from round to round."""

    @property
    def lr_decay(self) -> float:
        """Factor on the learning rate after each round."""


@runtime_checkable
class LimitsBatches(Protocol):
    """Training that tells how large its batches are, so that clients can be trained side by side."""

    @property
    def batch_size(self) -> int:
        """Samples per step at most; 0 is the full batch."""


def sample_passes(training: Training, samples: int) -> int:
    """How many samples the training of one round passes, each as often as it is in a batch, of a client that holds so
    many. That depends on how many they are, not on which of them a batch draws."""
    return sum(len(batch) for batch in training.batches(samples, stream(0, "sample passes")))


@register("training", "sgd", source="torch.optim.SGD: v <- m v + g + wd x; x <- x - lr v")
class SGD(Part):
    """Stochastic gradient descent with momentum and weight decay; full batch or minibatches, steps or epochs.

    Without `steps` and `epochs` a round is one epoch, which for a full batch is one gradient step.
    """

    lr: float = field(0.1, "learning rate", gt=0, lt=1e6)
    lr_decay: float = field(1.0, "factor on the learning rate after each round", gt=0, le=1)
    momentum: float = field(0.0, "momentum", ge=0, lt=1)
    momentum_state: Literal["kept", "reset"] = field(
        "kept", "whether momentum is kept between rounds, or starts anew (as a new optimiser would)"
    )
    weight_decay: float = field(0.0, "weight decay (L2)", ge=0, lt=1e6)
    batch_size: int = field(0, "samples per step; 0 is the full batch", unit="samples", ge=0)
    steps: int | None = field(None, "optimiser steps per round (excludes epochs)", ge=1, le=MOST_STEPS)
    epochs: int | None = field(
        None, "passes over the client's samples per round (excludes steps)", ge=1, le=MOST_STEPS
    )
    drop_last: bool = field(False, "leave out an epoch's last batch where it is smaller than batch_size")

    @model_validator(mode="after")
    def _one_measure(self) -> SGD:
        if self.steps is not None and self.epochs is not None:
            raise ValueError(f"steps = {self.steps} and epochs = {self.epochs}: allowed is one of the two")
        return self

    def keeps_momentum(self) -> bool:
        """Unless there is none, or `momentum_state` is "reset"."""
        return self.momentum > 0 and self.momentum_state == "kept"

    def batches(self, samples: int, stream: np.random.Generator) -> Iterator[np.ndarray]:
        """Shuffle anew for each pass; a full batch needs no draw.

        Passes are cut into batches in order; with `steps` a new pass begins where one ends.
        """
        if samples == 0:
            return
        whole = self.batch_size == 0 or (self.batch_size >= samples and not self.drop_last)
        everybody, done, passes = np.arange(samples), 0, 0
        while self.steps is None or done < self.steps:
            if self.steps is None and passes == (self.epochs or 1):
                return
            passes += 1
            if whole:
                done += 1
                yield everybody
                continue
            order, before = stream.permutation(samples), done
            for begin in range(0, samples, self.batch_size):
                batch = order[begin : begin + self.batch_size]
                if self.drop_last and len(batch) < self.batch_size:
                    break
                if self.steps is not None and done == self.steps:
                    return
                done += 1
                yield batch
            if done == before:  # fewer samples than one batch, and incomplete ones are dropped
                return
