"""Samples picked into the memory of convolutions, and the linear layers behind them with their loss, by kernels."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from fedroam.learning.cpu.kernels import Calls, Pattern, run
from fedroam.learning.cpu.kernels.conv_stack import SIZES
from fedroam.learning.cpu.kernels.convolution import Images
from fedroam.learning.cpu.kernels.picked import Picked
from fedroam.learning.cpu.kernels.standing import Standing
from fedroam.learning.cpu.sequential import SequentialModel, sequential_model
from fedroam.learning.engine import Task
from fedroam.learning.objective import CrossEntropy
from fedroam.learning.samples import Samples
from fedroam.native import kernel
from fedroam.randomness import stream
from support.lanes import lanes_here, of_lanes
from support.learners import CLASSES, Problem, problem
from support.rounding import by_layer, off, tolerance, undecided, values

pytest.importorskip("llvmlite")
LANES = lanes_here()


@settings(max_examples=40, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 4), st.integers(1, 7), st.integers(1, 9)),
    border=st.integers(0, 2),
    index=st.lists(st.integers(0, 10), min_size=1, max_size=21),
    lanes=st.sampled_from(LANES),
)
def test_samples_lie_where_convolutions_read_them(
    shape: tuple[int, int, int], border: int, index: list[int], lanes: int
) -> None:
    """Any order, the same one twice, more memory than samples; columns of zeros stay."""
    channels, height, width = shape
    x = torch.arange(11.0 * math.prod(shape)).view(11, *shape)
    samples = -(-len(index) // 4) * 4
    into = torch.zeros(channels, height, width + 2 * border, samples)
    pick = kernel(Picked(Images(*shape, border), math.gcd(samples, lanes)), of_lanes(lanes))
    chosen, base = torch.tensor(index), Samples(x, torch.zeros(11, dtype=torch.int64)).base
    pick(base.data_ptr(), chosen.data_ptr(), into.data_ptr(), len(index), samples)
    expected = torch.zeros_like(into)
    filled = torch.cat([chosen, chosen[-1:].expand(samples - len(index))])
    expected[:, :, border : border + width] = x[filled].permute(1, 2, 3, 0)
    torch.testing.assert_close(into, expected, rtol=0, atol=0)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Problem, float]:
    """A convolution, and linear layers of any widths."""
    channels, height, width = draw(st.integers(1, 3)), draw(st.integers(2, 6)), draw(st.integers(2, 7))
    out, side = draw(st.integers(1, 7)), draw(st.integers(1, 2))
    hidden, bias = draw(st.lists(st.integers(1, 40), max_size=2)), draw(st.booleans())
    relu = draw(st.booleans())

    def network() -> nn.Module:
        layers: list[nn.Module] = [nn.Conv2d(channels, out, side)]
        layers += [nn.ReLU(), nn.Flatten()] if relu else [nn.Flatten()]
        inputs = out * (height - side + 1) * (width - side + 1)
        for wide in hidden:
            layers += [nn.Linear(inputs, wide, bias), nn.ReLU()]
            inputs = wide
        return nn.Sequential(*layers, nn.Linear(inputs, CLASSES, bias))

    smoothing = draw(st.sampled_from([0.0, 0.2]))
    return problem(
        network,
        (height, width, channels),
        (draw(st.integers(1, 37)),),
        objective=CrossEntropy(label_smoothing=smoothing),
        seed=draw(st.integers(0, 2**32 - 1)),
    ), smoothing


@settings(max_examples=12, deadline=None)
@given(case=cases(), lanes=st.sampled_from(LANES), share=st.sampled_from([1.0, 0.3]))
def test_loss_and_gradient_are_those_of_autograd(
    case: tuple[Problem, float], lanes: int, share: float
) -> None:
    """In float64, of the samples on which rounding decides nothing; what was in the gradient before stays in it."""
    (drawn, smoothing), task = case, case[0].task
    module, gradient = task.network(), torch.ones(task.layout.size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDROAM_VECTOR", str(lanes))
        model = sequential_model(module, task, gradient)
    assert model is not None
    assert model.head is not None
    sure = np.setdiff1d(drawn.held[0], undecided(module, task.x).numpy())
    assume(len(sure) > 0)
    index = torch.from_numpy(np.flip(sure).copy())
    row = torch.empty(task.layout.size)
    task.layout.write(module, row, torch.empty(0))
    model.attach(row)
    x, y = task.x[index], task.y[index]
    for _ in range(2):  # memory that has been used before
        gradient.fill_(1.0)
        loss = model.add_gradient(Samples(task.x, task.y), index, share)
    exact = copy.deepcopy(module).double()
    expected = functional.cross_entropy(exact(x.double()), y, label_smoothing=smoothing)
    (expected * share).backward()
    near = tolerance(module, x, float(expected.detach()))
    assert loss == pytest.approx(float(expected.detach()) * share, rel=1e-5)
    parameters = dict(exact.named_parameters())
    for layer, entries in by_layer(task.layout):
        ours = values(entries, gradient - 1.0)
        true = torch.cat([parameters[entry.name].grad.flatten() for entry in entries])  # type: ignore[union-attr]
        # 1 was there before: sums are rounded as numbers of that size are.
        assert (ours - true).norm() <= near * true.norm() + 2.0**-23 * math.sqrt(len(true)), layer


def model_of(task: Task, gradient: torch.Tensor) -> SequentialModel:
    model = sequential_model(task.network(), task, gradient)
    assert model is not None
    assert model.head is not None
    return model


def test_a_step_reads_what_it_is_given_now() -> None:
    """Rows, samples and numbers of them in any order, more than are kept: the bits of a network that never saw any."""
    task = problem("mnist_cnn", (28, 28, 1), (40,)).task
    other = Samples(task.x.flip(0).contiguous(), task.y.flip(0).contiguous())
    both, draws = (Samples(task.x, task.y), other), stream(7, "steps")
    rows = torch.from_numpy(draws.standard_normal((2, task.layout.size), dtype=np.float32)) / 10
    gradient, alone = torch.zeros(task.layout.size), torch.zeros(task.layout.size)
    model = model_of(task, gradient)
    for k in range(3 * SIZES):
        row, samples = rows[k // 4 % 2], both[k % 2]
        index = torch.from_numpy(draws.permutation(40)[: 1 + (5 * k) % 23])
        fresh = model_of(task, alone.zero_())
        for each in (model, fresh):
            if k % 4 == 0 or each is fresh:
                each.attach(row)
        gradient.zero_()
        assert model.add_gradient(samples, index, 0.7) == fresh.add_gradient(samples, index, 0.7)
        assert torch.equal(gradient, alone)


def test_calls_are_done_in_turn() -> None:
    """Of kernels with several numbers of arguments, what one writes being what the next reads."""
    here, x = of_lanes(LANES[0]), torch.arange(24.0).view(4, 2, 3, 1)
    index, lying, rows = torch.tensor([2, 0, 3, 1]), torch.zeros(1, 2, 3, 4), torch.zeros(4, 6)
    pick, stand = kernel(Picked(Images(1, 2, 3, 0), 4), here), kernel(Standing(6, 4), here)
    calls = Calls(
        [
            (pick, (x.data_ptr(), index.data_ptr(), lying.data_ptr(), 4, 4)),
            (stand, (lying.data_ptr(), rows.data_ptr(), 4)),
        ],
        here,
    )
    calls()
    assert torch.equal(rows, x[index].flatten(1))
    x *= 2
    calls()
    assert torch.equal(rows, x[index].flatten(1))


def test_patterns_are_done_at_each_of_some_places() -> None:
    """What is not known yet may be behind an address, and stand in several calls."""
    here, x = of_lanes(LANES[0]), torch.arange(24.0).view(4, 2, 3, 1)
    index = torch.tensor([[2, 0, 3, 1], [1, 1, 0, 2]])
    lying, rows = torch.zeros(1, 2, 3, 4), torch.zeros(2, 4, 6)
    pick, stand = kernel(Picked(Images(1, 2, 3, 0), 4), here), kernel(Standing(6, 4), here)
    chosen, into = Pattern.unknown(2)
    pattern = Pattern(
        [
            (pick, (x.data_ptr(), chosen + 8, lying.data_ptr(), 3, 4)),
            (stand, (lying.data_ptr(), into, 4)),
        ]
    )
    places = [(index[k].data_ptr(), rows[k].data_ptr()) for k in range(2)]
    run(pattern.at(np.array(places, np.int64)), here)
    for own, found in zip(index, rows, strict=True):
        assert torch.equal(found, x[own[[1, 2, 3, 3]]].flatten(1))


def test_a_head_of_other_layers_is_left_to_torch() -> None:
    def network() -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(1, 2, 2),
            nn.Flatten(),
            nn.Linear(18, 6),
            nn.Linear(6, 5),
            nn.ReLU(),
            nn.Linear(5, CLASSES),
        )

    task = problem(network, (4, 4, 1), (6,)).task
    gradient = torch.zeros(task.layout.size)
    model = sequential_model(task.network(), task, gradient)
    assert model is not None
    assert model.native
    assert model.head is None
    row = torch.empty(task.layout.size)
    module = task.network()
    task.layout.write(module, row, torch.empty(0))
    model.attach(row)
    loss = model.add_gradient(Samples(task.x, task.y), torch.arange(6), 1.0)
    expected = functional.cross_entropy(module(task.x), task.y)
    expected.backward()
    assert loss == pytest.approx(float(expected), rel=1e-5)
    for _, entries in by_layer(task.layout):
        true = torch.cat([dict(module.named_parameters())[e.name].grad.flatten() for e in entries])  # type: ignore[union-attr]
        assert off(values(entries, gradient), true.double()) < 1e-4
