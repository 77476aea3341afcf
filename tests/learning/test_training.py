"""How samples become batches, and the optimiser by hand."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fedroam.learning import Job, Layout, Models, Task
from fedroam.learning.engine import rate
from fedroam.learning.training import SGD
from fedroam.randomness import stream
from support.learners import Problem, learner_of, problem

sizes = st.integers(0, 40)
batch_sizes = st.integers(0, 12)


def batches(training: SGD, samples: int, seed: int = 0) -> list[np.ndarray]:
    return list(training.batches(samples, stream(seed, "batches")))


@given(sizes, batch_sizes, st.integers(1, 4), st.integers(0, 5))
def test_every_epoch_visits_each_sample_once(samples: int, batch_size: int, epochs: int, seed: int) -> None:
    found = batches(SGD(batch_size=batch_size, epochs=epochs), samples, seed)
    assert sum(len(batch) for batch in found) == epochs * samples
    assert all(len(batch) for batch in found)
    if samples:
        visited = np.concatenate(found).reshape(epochs, samples)
        assert (np.sort(visited, axis=1) == np.arange(samples)).all()
        whole = batch_size == 0 or batch_size >= samples
        assert len(found) == epochs * (1 if whole else -(-samples // batch_size))


@given(st.integers(1, 40), batch_sizes, st.integers(1, 30))
def test_steps_are_exact_and_take_samples_in_passes(samples: int, batch_size: int, steps: int) -> None:
    found = batches(SGD(batch_size=batch_size, steps=steps), samples)
    assert len(found) == steps
    counts = np.bincount(np.concatenate(found), minlength=samples)
    assert counts.max() - counts.min() <= 1
    assert all(len(np.unique(batch)) == len(batch) for batch in found)


@given(st.integers(0, 40), st.integers(1, 12), st.integers(1, 3))
def test_drop_last_keeps_whole_batches_only(samples: int, batch_size: int, epochs: int) -> None:
    found = batches(SGD(batch_size=batch_size, epochs=epochs, drop_last=True), samples)
    assert [len(batch) for batch in found] == [batch_size] * (epochs * (samples // batch_size))
    steps = batches(SGD(batch_size=batch_size, steps=5, drop_last=True), samples)
    assert len(steps) == (5 if samples >= batch_size else 0)


def test_passes_are_shuffled_anew() -> None:
    first, second = batches(SGD(batch_size=50, epochs=2, drop_last=True), 50)
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, np.arange(50))


def test_a_round_is_one_pass_where_nothing_is_said() -> None:
    assert [len(batch) for batch in batches(SGD(), 7)] == [7]
    assert [len(batch) for batch in batches(SGD(batch_size=3), 7)] == [3, 3, 1]


def test_batches_depend_on_seed_round_and_client_only() -> None:
    task = problem("mlp", (12,), (40, 40)).task

    def drawn(seed: int, round: int, client: int) -> list[int]:
        job = Job(client, 0, np.arange(40), round)
        changed = Task(**{**vars(task), "seed": seed})
        return [int(k) for batch in job.batches(changed) for k in batch]

    assert drawn(0, 1, 1) == drawn(0, 1, 1)
    coordinates = list(itertools.product((0, 1), (1, 2), (0, 1)))
    assert len({tuple(drawn(*each)) for each in coordinates}) == len(coordinates)


def test_the_rate_decays_by_rounds() -> None:
    assert [rate(SGD(lr=0.4, lr_decay=0.5), t) for t in (1, 2, 3)] == [0.4, 0.2, 0.1]
    assert SGD(momentum=0.9).keeps_momentum()
    assert not SGD().keeps_momentum()
    assert not SGD(momentum=0.9, momentum_state="reset").keeps_momentum()


class Slope(nn.Module):
    """One parameter: the output is p times x."""

    def __init__(self) -> None:
        super().__init__()
        self.p = nn.Parameter(torch.tensor([3.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.p * x


class HalfSquare:
    """Mean of (output - y)^2 / 2, whose gradient for `Slope` is the mean of x (p x - y)."""

    def loss(self, module: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return ((module(x)[:, 0] - y) ** 2).mean() / 2


def slope(training: SGD) -> Problem:
    network: Any = Slope
    x, y = torch.tensor([[1.0], [2.0]]), torch.tensor([1, 0])
    task = Task(network, Layout.of(Slope()), x, y, training, HalfSquare(), 0)
    return Problem(task, [np.arange(2)], network)


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_momentum_and_weight_decay_by_hand(engine: str) -> None:
    """Full batch: the gradient is (p - 1 + 2 (2 p)) / 2 = 2.5 p - 0.5; decay 0.1 p; m = 0.5; lr = 0.2.

    p0 = 3: v = 7.0 + 0.3 = 7.3, p = 1.54; v = 3.65 + 3.35 + 0.154 = 7.154, p = 0.1092. With the rate halved in
    round 2: v = 3.577 - 0.227 + 0.01092 = 3.36092, p = 0.1092 - 0.1 * 3.36092 = -0.226892.
    """
    training = SGD(lr=0.2, momentum=0.5, weight_decay=0.1, epochs=2, lr_decay=0.5)
    task = slope(training)
    models, learner = task.start(), learner_of(task.task, engine)
    losses = learner.train(models, task.jobs(1))
    assert models.parameters.item() == pytest.approx(0.1092, abs=1e-6)
    assert models.momentum is not None
    assert models.momentum.item() == pytest.approx(7.154, abs=1e-5)
    # losses before each step: ((3 - 1)^2 + 6^2) / 4 = 10; ((1.54 - 1)^2 + 3.08^2) / 4 = 2.4445
    assert losses[0] == pytest.approx((10 + 2.4445) / 2, abs=1e-5)
    task = slope(training.model_copy(update={"epochs": 1}))
    learner.close()
    learner = learner_of(task.task, engine)
    learner.train(models, task.jobs(2))
    learner.close()
    assert models.momentum.item() == pytest.approx(3.36092, abs=1e-5)
    assert models.parameters.item() == pytest.approx(-0.226892, abs=1e-6)


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_momentum_reset_by_hand(engine: str) -> None:
    """Each round's first step is plain: gradient 7.0, p = 3 - 1.4 = 1.6; then gradient 3.5, p = 0.9."""
    task = slope(SGD(lr=0.2, momentum=0.5, momentum_state="reset"))
    models, _ = task.trained(engine, 2)
    assert models.momentum is None
    assert models.parameters.item() == pytest.approx(0.9, abs=1e-6)


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_clients_without_samples_have_no_loss(engine: str) -> None:
    task = problem("mlp", (12,), (5, 0, 4), training=SGD(lr=0.1, momentum=0.5))
    models, learner = task.start(), learner_of(task.task, engine)
    assert models.momentum is not None
    models.momentum[1] = 3.0
    losses = learner.train(models, task.jobs(1))
    learner.close()
    assert np.isnan(losses).tolist() == [False, True, False]
    assert torch.equal(models.parameters[1], task.start().parameters[1])
    assert (models.momentum[1] == 3.0).all()


def test_start_models() -> None:
    task = problem("mlp", (12,), (2, 2, 2), training=SGD(momentum=0.5))
    equal, each = task.start(equal=True), task.start(equal=False)
    assert torch.equal(equal.parameters[0], equal.parameters[2])
    assert not torch.equal(each.parameters[0], each.parameters[1])
    assert torch.equal(each.parameters[0], equal.parameters[0])
    assert isinstance(equal, Models)
    assert equal.momentum is not None
    assert not equal.momentum.any()
