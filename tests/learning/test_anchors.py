"""What a federation may add to local training: anchors, tensors for the objective; and features read off models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from fedroam.errors import InputError
from fedroam.learning import Anchor, Job, Layout
from fedroam.learning.cpu import trainer
from fedroam.learning.objective import CrossEntropy
from fedroam.learning.training import SGD
from fedroam.models import Network
from fedroam.randomness import torch_stream
from support.learners import SMOOTH, Problem, check_trajectory, learner_of, problem

ENGINES = ("reference", "cpu")
TRAININGS = {
    "plain": SGD(lr=0.02, batch_size=8, epochs=2),
    "momentum": SGD(lr=0.01, momentum=0.8, batch_size=8, epochs=2),
    "momentum and decay": SGD(lr=0.01, momentum=0.8, weight_decay=0.2, batch_size=8, steps=3),
    "decay, full batch": SGD(lr=0.02, weight_decay=0.2, epochs=3),
}


def drawn(task: Problem, name: str) -> torch.Tensor:
    return 0.1 * torch.randn(task.task.layout.size, generator=torch_stream(1, name))


@pytest.mark.parametrize("training", TRAININGS)
@pytest.mark.parametrize("network", SMOOTH)
@settings(max_examples=1)
@given(seed=st.integers(0, 2**32 - 1))
def test_engines_agree_on_anchors(training: str, network: str, seed: int) -> None:
    shape, make = SMOOTH[network]
    case = problem(make, shape, (20, 20, 7), training=TRAININGS[training], seed=seed)
    shift, target = drawn(case, "shift"), drawn(case, "target")
    mixed = [Anchor(0.3, target), Anchor(0.3, target, shift), Anchor(0.0, None, shift)]
    same = [Anchor(0.3, target), Anchor(0.3, None, shift), Anchor(0.3, target, shift)]
    free = case.trained("reference", 2)[0].parameters
    for anchors in (mixed, same, [None, None, Anchor(0.2, target)]):

        def anchored(job: Job, anchors: Sequence[Anchor | None] = anchors) -> Job:
            return replace(job, anchor=anchors[job.client])

        for engine in ENGINES if network == "autograd" else ("cpu",):
            models = check_trajectory(case, engine, rounds=2, change=anchored)
            moved = (models.parameters - free).abs().amax(1) > 1e-4
            assert moved.tolist() == [anchor is not None for anchor in anchors]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_anchored_step_by_hand(engine: str) -> None:
    """x' = x - lr (g + pull (x - target) + shift)."""
    task = problem("softmax_regression", sizes=(12,), training=SGD(lr=0.5))
    start = task.start().parameters[0]
    target, shift = drawn(task, "target"), drawn(task, "shift")
    free = trained_once(task, engine, None)
    gradient = (start - free) / 0.5
    held = trained_once(task, engine, Anchor(0.25, target, shift))
    torch.testing.assert_close(
        held, start - 0.5 * (gradient + 0.25 * (start - target) + shift), rtol=0, atol=1e-6
    )


def trained_once(task: Problem, engine: str, anchor: Anchor | None) -> torch.Tensor:
    models, learner = task.start(), learner_of(task.task, engine)
    try:
        learner.train(models, [replace(job, anchor=anchor) for job in task.jobs(1)])
    finally:
        learner.close()
    return models.parameters[0].clone()


class Weighted:
    """Cross-entropy with a weight for each sample, and a push on the head."""

    def loss(
        self, module: nn.Module, x: torch.Tensor, y: torch.Tensor, **handed: torch.Tensor
    ) -> torch.Tensor:
        each = functional.cross_entropy(module(x), y, reduction="none")
        assert len(handed["weight"]) == len(y)
        head: Any = module.get_submodule("head")
        return (each * handed["weight"]).mean() + (head.weight * handed["push"]).sum()


@pytest.mark.parametrize("batch", [0, 8])
@pytest.mark.parametrize("engine", ENGINES)
def test_engines_hand_tensors_to_the_objective(
    engine: str, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer, "PIECE", 5)  # full batches in pieces: each sample keeps its weight
    training = SGD(lr=0.02, batch_size=batch, epochs=2)

    def network() -> nn.Module:
        return Network(nn.Sequential(nn.Linear(12, 9), nn.Tanh()), nn.Linear(9, 10))

    def handed(job: Job) -> Job:
        each = {"weight": torch.linspace(0, 2, len(job.samples))}
        return replace(job, given={"push": torch.full((10, 9), 0.05)}, each=each)

    case = problem(network, sizes=(20, 33, 7), training=training, objective=Weighted())
    models = check_trajectory(case, engine, rounds=1, change=handed)
    nothing = replace(case, task=replace(case.task, objective=CrossEntropy()))
    assert not torch.equal(models.parameters, nothing.trained(engine, 1)[0].parameters)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("model", ["mlp", "mnist_cnn", "cnn1d"])
def test_features_are_what_the_extractor_makes(engine: str, model: str) -> None:
    shape: dict[str, Any] = {
        "mlp": {"hidden": (9,)},
        "mnist_cnn": {"shape": (20, 20, 1)},
        "cnn1d": {"shape": (14,)},
    }
    task = problem(model, sizes=(300, 5), **shape[model])
    models = task.start(equal=False)
    parts = [np.arange(280)[::-1].copy(), np.array([301, 3])]
    learner = learner_of(task.task, engine)
    try:
        found = learner.features(models, [1, 0], parts)
    finally:
        learner.close()
    for row, part, features in zip([1, 0], parts, found, strict=True):
        module: Any = task.task.network()
        task.task.layout.read(module, models.parameters[row], models.buffers[row])
        with torch.no_grad():
            expected = module.eval().extractor(task.task.x[torch.from_numpy(part)].contiguous())
        torch.testing.assert_close(features, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("engine", ENGINES)
def test_features_need_an_extractor(engine: str) -> None:
    task = problem(lambda: nn.Sequential(nn.Linear(12, 10)), sizes=(8,))
    learner = learner_of(task.task, engine)
    try:
        with pytest.raises(InputError, match="no submodule extractor"):
            learner.features(task.start(), [0], [np.arange(8)])
    finally:
        learner.close()


def test_columns_of_extractor_and_head() -> None:
    network = Network(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), nn.Linear(4, 2))
    layout = Layout.of(network)
    assert layout.columns("extractor") == slice(0, 24)
    assert layout.columns("head") == slice(24, 34)
    assert layout.buffer_columns("extractor") == slice(0, 9)
    assert layout.buffer_columns("head") == slice(0, 0)
    with pytest.raises(InputError, match="no parameters under 'classifier'; found extractor, head"):
        layout.columns("classifier")


def test_rows_of_a_matrix_are_copies() -> None:
    task = problem("mlp", sizes=(4, 4, 4), training=SGD(momentum=0.5), hidden=(3,))
    models = task.start(equal=False)
    two = models.rows(torch.tensor([2, 0]))
    assert torch.equal(two.parameters, models.parameters[[2, 0]])
    assert two.momentum is not None
    two.parameters.zero_()
    assert bool(models.parameters[2].any())


def test_jobs_with_different_pulls_are_not_done_one_by_one() -> None:
    """Clients side by side share a pull: two jobs a client, one of them held, make two groups, not singles."""
    from fedroam.learning.cpu.mlp import groups

    task = problem("mlp", sizes=(8, 8, 8), hidden=(9,)).task
    target = torch.zeros(task.layout.size)
    jobs = [Job(i, i, np.arange(8), 1) for i in range(3)]
    jobs += [Job(i, 3 + i, np.arange(8), 1, anchor=Anchor(0.5, target)) for i in range(3)]
    assert list(groups(task, jobs)) == [[0, 1, 2], [3, 4, 5]]
