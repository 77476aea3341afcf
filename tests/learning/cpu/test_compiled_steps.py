"""All steps of some clients by one call, under objectives that look at the features: what torch gives, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedroam.components import Part
from fedroam.errors import FedroamError
from fedroam.federation.server.fedavgdbe import FedAvgDBE
from fedroam.federation.server.fedproto import FedProto
from fedroam.federation.server.gpfl import GPFL
from fedroam.federation.server.moon import Moon
from fedroam.learning import Anchor, Job, Models, in_half_precision
from fedroam.learning.cpu.compiled import steps as compiled_steps
from fedroam.learning.cpu.trainer import Trainer
from fedroam.learning.cpu.worker_model import Nature
from fedroam.learning.objective import CrossEntropy
from fedroam.learning.samples import Samples
from fedroam.learning.training import SGD
from fedroam.models import MLP, Network
from support.learners import CLASSES, Problem, copied, learner_of, problem

pytest.importorskip("llvmlite")
METHODS: dict[str, Any] = {
    "moon": Moon(),
    "fedproto": FedProto(strength=2.0),
    "fedavgdbe": FedAvgDBE(kappa=3.0, momentum=0.3),
    "gpfl": GPFL(magnitude=0.3, decay=0.2),
}
WIDTH, SIZES = 9, (20, 33, 7, 20, 0, 15)
TRAININGS = {
    "batches": SGD(lr=0.05, batch_size=8, epochs=2),
    "velocities": SGD(lr=0.02, batch_size=8, momentum=0.9, weight_decay=0.01, epochs=2),
    "velocities of a round": SGD(lr=0.02, batch_size=8, momentum=0.9, momentum_state="reset", lr_decay=0.5),
    "whole batches": SGD(lr=0.05, batch_size=0, steps=3),
}


def case_of(
    method: str, training: str = "batches", shape: tuple[int, ...] = (12,), sizes: tuple[int, ...] = SIZES
) -> Problem:
    """A perceptron under a method's objective, as its federation has it."""
    part = METHODS[method]

    def network() -> nn.Module:
        inputs = (shape[2], *shape[:2]) if len(shape) == 3 else shape
        adapted: nn.Module = part.adapt(MLP(hidden=(14, WIDTH)).build(inputs, CLASSES))
        return adapted

    objective = part.objective(CrossEntropy(label_smoothing=0.1))
    return problem(network, shape, sizes, training=TRAININGS[training], objective=objective)


def started(case: Problem) -> Models:
    """Models with buffers that are not 0, if these may be anything."""
    models, draw = case.start(equal=False), torch.Generator().manual_seed(2)
    if not any(buffer.dtype == torch.bool for buffer in case.task.network().buffers()):
        models.buffers.copy_(torch.randn(models.buffers.shape, generator=draw))
    return models


def jobs_of(case: Problem, method: str, round: int = 1) -> list[Job]:
    """What the federation would hand out."""
    draw, jobs = torch.Generator().manual_seed(round), []
    known = torch.arange(CLASSES) != 1
    given: dict[str, dict[str, torch.Tensor]] = {
        "moon": {},
        "fedproto": {"prototypes": torch.randn(CLASSES, WIDTH, generator=draw), "known": known},
        "fedavgdbe": {"mean": torch.randn(WIDTH, generator=draw)},
        "gpfl": {"embedding": torch.randn(CLASSES, WIDTH, generator=draw)},
    }
    for job in case.jobs(round):
        each = {
            name: torch.randn(len(job.samples), WIDTH, generator=draw)
            for name in ("z_global", "z_previous")
            if method == "moon"
        }
        jobs.append(replace(job, given=given[method], each=each))
    return jobs


Change = Callable[[Job], Job]


def trained(
    case: Problem, method: str, rounds: int = 2, change: Change = lambda job: job, **engine: Any
) -> tuple[Models, list[np.ndarray]]:
    models, learner, losses = started(case), learner_of(case.task, "cpu", **engine), []
    for t in range(1, rounds + 1):
        losses.append(learner.train(models, [change(job) for job in jobs_of(case, method, t)]))
    learner.close()
    return models, losses


def near(found: Models, expected: Models, start: Models) -> None:
    """Models that went the same way, but for roundings."""
    for name in ("parameters", "buffers", "momentum"):
        ours, torchs, first = (getattr(each, name) for each in (found, expected, start))
        if torchs is not None:
            moved = (torchs - first).norm(dim=1)
            assert ((ours - torchs).norm(dim=1) <= 2e-5 * moved + 1e-6 * torchs.norm(dim=1)).all(), name


def at_once(case: Problem) -> Trainer:
    samples = Samples(case.task.x, case.task.y)
    trainer = Trainer(case.task, samples, Nature(), lambda: None)
    assert trainer.steps is not None
    return trainer


@pytest.mark.parametrize("training", TRAININGS)
@pytest.mark.parametrize("method", METHODS)
def test_kernels_train_as_torch_does(method: str, training: str) -> None:
    """Clients with the same and with other numbers of samples, one without any, over two rounds."""
    case = case_of(method, training)
    assert at_once(case).steps is not None
    ours, losses = trained(case, method)
    torchs, expected = trained(case, method, native=False)
    for found, true in zip(losses, expected, strict=True):
        np.testing.assert_allclose(found, true, rtol=1e-5)
        assert np.isnan(found).tolist() == [size == 0 for size in SIZES]
    near(ours, torchs, started(case))


@pytest.mark.parametrize("method", METHODS)
def test_images_of_several_channels(method: str) -> None:
    case = case_of(method, shape=(4, 5, 3))
    ours, losses = trained(case, method)
    torchs, expected = trained(case, method, native=False)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    near(ours, torchs, started(case))


@pytest.mark.parametrize("method", METHODS)
def test_no_bit_depends_on_who_is_trained_with_whom(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor on the number of workers, or how many steps a call does."""
    case = case_of(method, "velocities")
    found = [trained(case, method, workers=workers) for workers in (1, 3)]
    monkeypatch.setattr(compiled_steps, "STEPS", 2)
    found.append(trained(case, method))
    monkeypatch.setattr(compiled_steps, "WORK", 1.0)
    found.append(trained(case, method))
    alone, losses = started(case), []
    learner = learner_of(case.task, "cpu", workers=1)
    for t in (1, 2):
        losses.append(np.concatenate([learner.train(alone, [job]) for job in jobs_of(case, method, t)]))
    learner.close()
    found.append((alone, losses))
    (first, first_losses), *others = found
    for models, some in others:
        np.testing.assert_array_equal(some, first_losses)
        assert torch.equal(models.parameters, first.parameters)
        assert torch.equal(models.buffers, first.buffers)
        assert models.momentum is not None
        assert first.momentum is not None
        assert torch.equal(models.momentum, first.momentum)


@pytest.mark.parametrize("lanes", ["4", "8"])
@pytest.mark.parametrize("method", METHODS)
def test_vectors_of_any_length(method: str, lanes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_of(method)
    torchs, expected = trained(case, method, native=False)
    monkeypatch.setenv("FEDROAM_VECTOR", lanes)
    ours, losses = trained(case, method)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    near(ours, torchs, started(case))


@pytest.mark.parametrize("method", METHODS)
def test_models_in_half_precision(method: str) -> None:
    """Computed in float32 from the values that are held."""
    case = case_of(method)
    held, whole = started(case), started(case)
    half = Models(held.layout, in_half_precision(held.parameters.half()), held.buffers, held.momentum)
    whole.parameters.copy_(half.parameters.float())
    learner = learner_of(case.task, "cpu")
    one, other = (learner.train(models, jobs_of(case, method)) for models in (half, whole))
    learner.close()
    np.testing.assert_array_equal(one, other)
    assert torch.equal(half.parameters.float(), whole.parameters.half().float())


@pytest.mark.parametrize("method", METHODS)
def test_what_kernels_do_not_know_goes_the_general_way(method: str) -> None:
    """Every second client has an anchor; between two of the others larger batches go step by step."""
    case = case_of(method, sizes=(20, 33, 9, 40))

    def change(job: Job) -> Job:
        return replace(job, anchor=Anchor(pull=0.1)) if job.client % 2 else job

    ours, losses = trained(case, method, change=change)
    torchs, expected = trained(case, method, change=change, native=False)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    near(ours, torchs, started(case))


def test_memory_that_grows_between_two_calls_is_not_read() -> None:
    """Patterns of calls were made with the memory before; a step by itself may have asked for more since."""
    case = case_of("fedavgdbe", "whole batches", sizes=(8, 60, 8))
    trainer, jobs = at_once(case), jobs_of(case, "fedavgdbe")
    ours, models = started(case), started(case)
    for job in jobs:
        fresh = at_once(case)
        fresh.train_all(models, [job])
    trainer.train_all(ours, jobs[:1])
    aside = copied(ours)
    trainer.train(aside, jobs[1])  # step by step, of more samples
    trainer.train_all(ours, jobs[2:])
    trainer.train_all(ours, jobs[1:2])
    assert torch.equal(ours.parameters, models.parameters)


class OfThese(Part):
    """Batches that are told."""

    lr: float = 0.1
    momentum: float = 0.0
    weight_decay: float = 0.0
    positions: tuple[float, ...] = ()
    whole: bool = True

    def keeps_momentum(self) -> bool:
        return False

    def batches(self, samples: int, stream: np.random.Generator) -> Iterator[np.ndarray]:
        kind = np.int32 if self.whole else np.float64
        yield np.array(self.positions, dtype=kind)


def told(case: Problem, *positions: float, whole: bool = True) -> Problem:
    training: Any = OfThese(positions=positions, whole=whole)
    return replace(case, task=replace(case.task, training=training))


@pytest.mark.parametrize("positions", [(-1.0, 2.0), (0.0, 20.0)])
def test_positions_that_there_are_not_are_refused(positions: tuple[float, ...]) -> None:
    case = told(case_of("moon"), *positions)
    with pytest.raises(FedroamError, match="client 0, round 1"):
        learner_of(case.task, "cpu", workers=1).train(started(case), jobs_of(case, "moon")[:1])


def test_positions_may_be_of_any_whole_numbers() -> None:
    models = []
    for native in (True, False):
        case = told(case_of("moon"), 3, 1, 7)
        if not native:
            plain: Any = SGD(lr=0.1, batch_size=0, epochs=1)
            job = replace(jobs_of(case, "moon")[0])
            index = np.array([3, 1, 7])
            each = {name: value[torch.from_numpy(index)] for name, value in job.each.items()}
            jobs = [replace(job, samples=job.samples[index], each=each)]
            case = replace(case, task=replace(case.task, training=plain))
        else:
            jobs = jobs_of(case, "moon")[:1]
        models.append(started(case))
        learner_of(case.task, "cpu", workers=1).train(models[-1], jobs)
    assert torch.equal(*(each.parameters for each in models))


@pytest.mark.parametrize("y", [-1, CLASSES])
def test_classes_without_an_output_are_not_for_kernels(y: int) -> None:
    case = case_of("fedproto")
    case.task.y[3] = y
    trainer = Trainer(case.task, Samples(case.task.x, case.task.y), Nature(), lambda: None)
    assert trainer.steps is None
    with pytest.raises(FedroamError):
        learner_of(case.task, "cpu").train(started(case), jobs_of(case, "fedproto"))


def test_a_head_that_takes_other_features_is_an_error() -> None:
    """As with torch, and not numbers from beside the features."""

    def network() -> nn.Module:
        made = Network(nn.Sequential(nn.Linear(6, 5), nn.ReLU()), nn.Linear(7, CLASSES))
        adapted: nn.Module = FedAvgDBE().adapt(made)
        return adapted

    case = problem(network, (6,), (8,), objective=FedAvgDBE().objective(CrossEntropy()))
    job = replace(case.jobs(1)[0], given={"mean": torch.zeros(7)})
    for engine in ("cpu", "reference"):
        with pytest.raises((FedroamError, RuntimeError), match="must match the size"):
            learner_of(case.task, engine).train(case.start(), [job])
