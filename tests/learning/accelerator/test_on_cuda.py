"""The batched engine on a CUDA device, held to float64 on the processor: where there is one, and its own kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedroam.learning import Anchor, Job, Models, Task
from fedroam.learning.training import SGD
from support.learners import CLASSES, Problem, check_steps, check_trajectory, learner_of, problem

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
CUDA = torch.device("cuda")
SIZES = (9, 0, 23, 14)
STEP = SGD(lr=0.05, momentum=0.5, batch_size=32, steps=1)
SOME = SGD(lr=0.02, momentum=0.5, batch_size=8, epochs=2)


class OnDevice:
    """An engine whose learner computes on the device what it is given on the processor."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings

    def build(self, task: Task) -> Moving:
        return Moving(task, self.settings)


class Moving:
    def __init__(self, task: Task, settings: dict[str, Any]) -> None:
        there = replace(task, x=task.x.to(CUDA), y=task.y.to(CUDA))
        self.learner = learner_of(there, "batched", **settings)

    def train(self, models: Models, jobs: Sequence[Job]) -> np.ndarray:
        there = moved(models, CUDA)
        losses: np.ndarray = self.learner.train(there, [job_on(job, CUDA) for job in jobs])
        for own, other in (
            (models.parameters, there.parameters),
            (models.buffers, there.buffers),
            (models.momentum, there.momentum),
        ):
            if own is not None and other is not None:
                own.copy_(other)
        return losses

    def close(self) -> None:
        self.learner.close()


def moved(models: Models, device: torch.device) -> Models:
    momentum = None if models.momentum is None else models.momentum.to(device)
    return Models(models.layout, models.parameters.to(device), models.buffers.to(device), momentum)


def job_on(job: Job, device: torch.device) -> Job:
    def there(values: torch.Tensor | None) -> torch.Tensor | None:
        return None if values is None else values.to(device)

    anchor = job.anchor
    if anchor is not None:
        anchor = Anchor(anchor.pull, there(anchor.target), there(anchor.shift))
    each = {name: values.to(device) for name, values in job.each.items()}
    return replace(job, anchor=anchor, each=each, given={k: v.to(device) for k, v in job.given.items()})


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("mnist_cnn", {"shape": (20, 20, 1)}),
        ("lenet_gn", {"shape": (9, 11, 3)}),
        ("conv5", {"shape": (32, 32, 3)}),
        ("cnn1d", {"shape": (14,), "dropout": 0.0}),
        ("mlp", {"shape": (4, 4, 3), "hidden": (9, 7)}),
        ("resnet18", {"shape": (8, 8, 3), "norm": "group"}),
    ],
)
def test_every_model(kind: str, fields: dict[str, Any]) -> None:
    check_steps(problem(kind, sizes=SIZES, training=STEP, **fields), OnDevice(), rounds=4)


NETWORKS: dict[str, tuple[tuple[int, ...], Any]] = {
    "strides and padding": (
        (9, 10, 3),
        lambda: nn.Sequential(
            *(nn.Conv2d(3, 6, 3, stride=2, padding=1, bias=False), nn.Tanh(), nn.Conv2d(6, 5, 1, stride=2)),
            *(nn.Flatten(), nn.Linear(5 * 9, CLASSES)),
        ),
    ),
    "dilation": (
        (9, 8, 2),
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, 3, dilation=2), nn.Tanh(), nn.Flatten(), nn.Linear(80, CLASSES)
        ),
    ),
    "many channels": (
        (6, 6, 20),
        lambda: nn.Sequential(
            *(nn.Conv2d(20, 70, 3, padding=1), nn.GroupNorm(7, 70), nn.Tanh(), nn.Conv2d(70, 33, 2)),
            *(nn.Flatten(), nn.Linear(33 * 25, CLASSES)),
        ),
    ),
    "norms and pools of torch": (
        (8, 8, 3),
        lambda: nn.Sequential(
            *(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.Tanh(), nn.AvgPool2d(2)),
            *(nn.Conv2d(8, 6, 3), nn.GroupNorm(3, 6, affine=False), nn.Tanh(), nn.LayerNorm([6, 2, 2])),
            *(nn.Flatten(), nn.Linear(24, CLASSES)),
        ),
    ),
    "sequences": (
        (21,),
        lambda: nn.Sequential(
            *(nn.Unflatten(1, (1, 21)), nn.Conv1d(1, 5, 3), nn.Tanh(), nn.Conv1d(5, 4, 3, stride=2)),
            *(nn.GroupNorm(2, 4), nn.Tanh(), nn.Flatten(), nn.Linear(36, CLASSES)),
        ),
    ),
    "batch norm": (
        (8, 8, 3),
        lambda: nn.Sequential(
            *(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Tanh(), nn.Conv2d(8, 4, 3)),
            *(nn.Flatten(), nn.Linear(144, CLASSES)),
        ),
    ),
}


def case_of(name: str, training: SGD = SOME) -> Problem:
    shape, network = NETWORKS[name]
    return problem(network, shape, SIZES, training=training)


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("name", NETWORKS)
def test_every_kind_of_layer(name: str, recorded: bool) -> None:
    check_trajectory(case_of(name), OnDevice(recorded=recorded))


def test_anchors() -> None:
    case = case_of("many channels")
    draws = torch.Generator().manual_seed(3)
    size = case.task.layout.size
    target, shift = (0.01 * torch.randn(size, generator=draws) for _ in range(2))

    def held(job: Job) -> Job:
        return replace(job, anchor=Anchor(0.3, target, shift) if job.client % 2 else None)

    check_trajectory(case, OnDevice(), change=held)


def test_the_same_numbers_every_time_and_in_any_order() -> None:
    case = problem("lenet_gn", sizes=SIZES, training=SOME, shape=(16, 16, 3))
    jobs = case.jobs(1)
    found = []
    for order in (jobs, jobs, jobs[::-1]):
        models = case.start()
        Moving(case.task, {}).train(models, order)
        found.append(models.parameters)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_evaluation_counts_what_the_processor_counts() -> None:
    case = problem("conv5", sizes=(40, 30), training=SOME, shape=(32, 32, 3))
    models, task = case.start(equal=False), case.task
    there = replace(task, x=task.x.to(CUDA), y=task.y.to(CUDA))
    own = learner_of(task, "reference").evaluate(models, [0, 1], task.x, task.y)
    other = learner_of(there, "batched").evaluate(moved(models, CUDA), [0, 1], there.x, there.y)
    np.testing.assert_array_equal(own.hits, other.hits)
    np.testing.assert_array_equal(own.actual, other.actual)
    np.testing.assert_allclose(own.loss, other.loss, rtol=1e-5)
