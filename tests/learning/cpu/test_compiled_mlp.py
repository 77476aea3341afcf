"""Whole local training of linear layers by one kernel, against autograd in float64."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fedroam.learning import Job
from fedroam.learning.cpu.compiled import mlp as compiled_mlp
from fedroam.learning.cpu.kernels import DenseLayer, DenseStack
from fedroam.learning.cpu.mlp import LEAST_WORK, TURNS, rows_at_a_time, together
from fedroam.learning.engine import Anchor
from fedroam.learning.objective import CrossEntropy
from fedroam.learning.samples import mostly_zeros
from fedroam.learning.training import SGD
from fedroam.native import kernel, target
from fedroam.native.ir import KernelBuilder
from fedroam.native.target import KernelSpec, Target, narrowed
from support.learners import CLASSES, Problem, check_steps, check_trajectory, learner_of, problem

pytest.importorskip("llvmlite")
HERE = target()
assert HERE is not None
seeds = st.integers(0, 2**32 - 1)


@contextmanager
def vectors(lanes: int) -> Iterator[None]:
    """Kernels are cut for vectors of so many values."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDROAM_VECTOR", str(lanes))
        yield


def network(inputs: int, hidden: list[int], bias: bool) -> nn.Module:
    layers: list[nn.Module] = [nn.Flatten()]
    for width in hidden:
        layers += [nn.Linear(inputs, width, bias), nn.ReLU()]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, CLASSES, bias))


def held_to(job: Job, size: int, seed: int, pull: float) -> Job:
    """With terms on every gradient."""
    draws = torch.Generator().manual_seed(seed + job.client)
    goal, shift = torch.empty(2, size).normal_(0, 0.1, generator=draws)
    return replace(job, anchor=Anchor(pull, goal if pull else None, shift))


@st.composite
def cases(draw: st.DrawFn) -> tuple[Problem, float | None]:
    """Any widths, numbers of samples, momentum, decay, smoothing; and the pull of an anchor, None for no anchor."""
    shape = draw(st.sampled_from([(1,), (5,), (16,), (37,), (65,), (4, 5, 1), (3, 4, 3)]))
    hidden = draw(st.lists(st.integers(1, 40), max_size=2))
    training = SGD(
        lr=0.05,
        momentum=draw(st.sampled_from([0.0, 0.5])),
        weight_decay=draw(st.sampled_from([0.0, 0.2])),
        batch_size=draw(st.sampled_from([0, 13])),
        steps=1,
    )
    smoothing, bias, seed = draw(st.sampled_from([0.0, 0.2])), draw(st.booleans()), draw(seeds)
    case = problem(
        lambda: network(math.prod(shape), hidden, bias),
        shape,
        (17, 1, draw(st.integers(0, 60))),
        training=training,
        objective=CrossEntropy(label_smoothing=smoothing),
        seed=seed,
    )
    return case, draw(st.sampled_from([None, 0.0, 0.3]))


@settings(max_examples=25, deadline=None)
@given(cases(), st.sampled_from([4, 8, 16]))
def test_a_step_of_any_sizes(case: tuple[Problem, float | None], lanes: int) -> None:
    drawn, pull = case
    size = drawn.task.layout.size

    def change(job: Job) -> Job:
        return job if pull is None else held_to(job, size, drawn.task.seed % 1000, pull)

    with vectors(min(lanes, HERE.lanes)):  # type: ignore[union-attr]
        check_steps(drawn, "cpu", change=change)


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("momentum", [0.0, 0.8])
@pytest.mark.parametrize("work", [compiled_mlp.WORK, 1.0], ids=["one call", "a call a step"])
def test_many_steps(lanes: int, momentum: float, work: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Epochs whose last batches are shorter; in one call, and in several."""
    monkeypatch.setattr(compiled_mlp, "WORK", work)
    training = SGD(lr=0.02, momentum=momentum, weight_decay=0.1, batch_size=8, epochs=2)
    case = problem("softmax_regression", (5, 4, 3), (20, 33, 7, 0), training=training)
    size = case.task.layout.size
    with vectors(lanes):
        check_trajectory(case, "cpu", change=lambda job: held_to(job, size, 3, 0.2) if job.client else job)


def trained(case: Problem, **settings: Any) -> torch.Tensor:
    return case.trained("cpu", **settings)[0].parameters


def test_results_do_not_depend_on_workers_calls_or_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    case = problem("mlp", (30,), (20, 33, 7, 20), hidden=(11,))
    whole = trained(case, workers=2)
    assert torch.equal(whole, trained(case, workers=1))
    monkeypatch.setattr(compiled_mlp, "WORK", 1.0)
    assert torch.equal(whole, trained(case, workers=1))
    learner, models = learner_of(case.task, "cpu"), case.start()
    for t in (1, 2):
        learner.train(models, case.jobs(t, [2]))
    learner.close()
    assert torch.equal(models.parameters[2], whole[2])
    assert not torch.equal(whole, trained(case, workers=1, native=False))  # it is another way of computing


@given(
    held=st.lists(st.integers(0, 5000), min_size=1, max_size=80), workers=st.integers(1, 4), data=st.data()
)
def test_jobs_are_shared_out(held: list[int], workers: int, data: st.DataObject) -> None:
    """Each once, in the order of rows, in parts that are alike, more of them where there is more to do."""
    case = problem("mlp", (12,), (3,))
    rows = data.draw(st.permutations(range(len(held))))
    jobs = [Job(k, rows[k], np.zeros(n, np.int64), 1) for k, n in enumerate(held)]
    found = together(case.task, jobs, workers, copied=False)
    most = rows_at_a_time(case.task.layout)
    assert all(len(part) <= most for part in together(case.task, jobs, workers, copied=True))
    there = [k for k in range(len(held)) if held[k]]
    assert [k for part in found for k in part] == sorted(there, key=lambda k: rows[k])
    assert all(found)
    assert len(found) <= (1 if workers == 1 else TURNS * workers)
    if 6 * case.task.layout.size * sum(held) >= TURNS * workers * LEAST_WORK and workers > 1:
        for part in found:
            assert sum(held[k] for k in part) <= sum(held) / (TURNS * workers) + max(held)


def test_batches_that_take_too_much_memory_are_computed_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    case = problem("mlp", (6,), (40, 12), hidden=(5,), training=SGD(lr=0.05))
    compiled, sizes = compiled_mlp.CompiledPerceptron.train, set[int]()

    def train(self: Any, rows: Sequence[compiled_mlp.RowSteps], lr: float) -> list[float]:
        sizes.update(len(batch) for row in rows for batch in row.batches)
        return compiled(self, rows, lr)

    monkeypatch.setattr(compiled_mlp.CompiledPerceptron, "train", train)
    whole = trained(case)
    assert sizes == {12, 40}
    sizes.clear()
    monkeypatch.setattr(compiled_mlp, "MEMORY", 2 * 20 * 15)
    cut = trained(case)
    assert sizes == {12}
    assert torch.equal(cut[1], whole[1])
    torch.testing.assert_close(cut, whole)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_inputs_that_are_zero_change_nothing(data: st.DataObject) -> None:
    """Bit for bit: the same samples with 1e-30 for each zero, which no sum can tell from it, leave nothing out."""
    lanes = data.draw(st.sampled_from([4, 8, 16]))
    inputs, hidden = data.draw(st.integers(1, 150)), data.draw(st.sampled_from([(), (7,)]))
    samples = data.draw(st.lists(st.integers(1, 120), min_size=1, max_size=3))
    training = SGD(
        lr=0.5, momentum=data.draw(st.sampled_from([0.0, 0.5])), batch_size=data.draw(st.integers(0, 60))
    )
    case = problem("mlp", (inputs,), tuple(samples), hidden=hidden, training=training)
    x, seed = case.task.x, data.draw(st.integers(0, 999))
    kept = torch.rand(x.shape, generator=torch.Generator().manual_seed(seed)) < data.draw(
        st.sampled_from([0, 0.01, 0.1])
    )
    # Products by powers of two are not rounded, or 1e-30 would decide ties.
    x.copy_(torch.where(kept, torch.where(x > 0, 1.0, -2.0), 0.0))
    with vectors(lanes):
        found, losses = case.trained("cpu", 2)
        x[x == 0] = 1e-30
        expected, others = case.trained("cpu", 2)
    assert torch.equal(found.parameters, expected.parameters)
    np.testing.assert_array_equal(losses, others)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_rows_of_a_part_of_a_network_leave_out_zeros_alike(data: st.DataObject) -> None:
    """Bit for bit: outputs, gradients of parameters and of inputs, whether zeros are looked for or not."""
    inputs, hidden, n = (
        data.draw(st.integers(1, 90)),
        data.draw(st.integers(1, 20)),
        data.draw(st.integers(1, 70)),
    )
    draws = torch.Generator().manual_seed(data.draw(st.integers(0, 999)))
    layers = DenseLayer(inputs, hidden, 0, inputs * hidden), DenseLayer(hidden, 5, (inputs + 1) * hidden, -1)
    row = torch.randn((inputs + 6) * hidden, generator=draws)
    x, slopes = torch.randn(n, inputs, generator=draws), torch.randn(n, 5, generator=draws)
    x[torch.rand(x.shape, generator=draws) < data.draw(st.sampled_from([0.0, 0.5, 0.95, 1.0]))] = 0.0
    here, found = narrowed(HERE, data.draw(st.sampled_from([4, 8, 16]))), []
    for sparse in (False, True):
        gradient = torch.zeros(len(row))
        stack = DenseStack(layers, False, gradient, here, sparse)
        stack.attach(row)
        given = stack.forward(x).clone()
        below = stack.backward(slopes.clone(), True)
        assert below is not None
        found.append((given, below, gradient))
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


def test_zeros_are_looked_for_where_many_lie_side_by_side() -> None:
    """By hand: a quarter of the stretches of eight; what is left over at the end of a sample is none."""
    x = torch.ones(4, 35)
    assert not mostly_zeros(x)
    x[:, 8:16] = 0
    assert mostly_zeros(x)
    x[0, 15] = 1
    assert not mostly_zeros(x)
    assert mostly_zeros(torch.zeros(1000, 3, 4, 4))
    for none in (torch.zeros(5, 7), torch.zeros(0, 16)):
        assert not mostly_zeros(none)


def test_values_that_are_no_numbers_are_not_hidden() -> None:
    for hidden in ((), (7,)):
        case = problem("mlp", (6,), (8, 8), hidden=hidden, training=SGD(lr=0.05))
        case.task.x[3, 2] = math.nan
        models, losses = case.trained("cpu", 1)
        assert bool(models.parameters[0].isnan().any())
        assert math.isnan(losses[0, 0])
        assert bool(models.parameters[1].isfinite().all())
        assert math.isfinite(losses[0, 1])


def test_logits_far_apart() -> None:
    """A loss of hundreds is what it is, and its gradient too."""
    case = problem("softmax_regression", (4,), (9, 9), training=SGD(lr=0.05))
    case.task.x.mul_(300)
    check_steps(case, "cpu", rounds=1)


@dataclass(frozen=True)
class Exponential(KernelSpec):
    """y = exp(x): (address of x, of y, values)."""

    def write(self, module: Any, target: Target) -> int:
        k = KernelBuilder(module, target.lanes, 2, 1)
        x, y, count = k.arguments
        k.loop(0, count, k.lanes, [], lambda at, _: k.store(k.exp(k.load(k.at(x, at))), k.at(y, at)))
        return k.end()


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_exponential(lanes: int) -> None:
    assert HERE is not None
    x = np.concatenate([-np.logspace(-8, np.log10(87), 4000), -np.linspace(0, 87, 4000)]).astype(np.float32)
    y = np.empty_like(x)
    kernel(Exponential(), narrowed(HERE, lanes))(x.ctypes.data, y.ctypes.data, len(x))
    np.testing.assert_allclose(y, np.exp(x.astype(np.float64)), rtol=2**-22)
    x[:16] = [0, math.nan, -math.inf, -1e30] * 4
    kernel(Exponential(), narrowed(HERE, lanes))(x.ctypes.data, y.ctypes.data, 16)
    np.testing.assert_allclose(y[:4], [1, math.nan, math.exp(-87), math.exp(-87)], rtol=1e-6)
