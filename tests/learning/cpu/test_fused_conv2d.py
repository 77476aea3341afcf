"""Convolutional parts computed by kernels within autograd, against autograd in float64."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fedroam.components import build
from fedroam.learning import Job, Layout, make_network
from fedroam.learning.cpu.fused_conv2d import FusedConv2d, fuse
from fedroam.learning.cpu.kernels import conv_stack
from fedroam.learning.cpu.worker_model import attach
from fedroam.learning.objective import CrossEntropy
from fedroam.learning.training import SGD
from support.learners import CLASSES, Problem, check_steps, problem
from support.rounding import by_layer, decided, off, tolerance, values

pytest.importorskip("llvmlite")
seeds = st.integers(0, 2**32 - 1)


def drawn(*shape: int, seed: int) -> torch.Tensor:
    return torch.empty(shape).normal_(generator=torch.Generator().manual_seed(seed))


def with_method(method: str, model: str, seed: int) -> tuple[Problem, Callable[[Job], Job]]:
    """A network and an objective as a method with a server makes them, and jobs with what it hands out."""
    shape = (20, 20, 1) if model == "mnist_cnn" else (12, 10, 3)
    federation: Any = build("federation", {"kind": method})
    part: Any = build("model", {"kind": model})

    def network() -> nn.Module:
        adapted: nn.Module = federation.adapt(part.build((shape[2], *shape[:2]), CLASSES))
        return adapted

    objective = federation.objective(CrossEntropy())
    training = SGD(lr=0.05, batch_size=16, steps=1)
    case = problem(network, shape, (20, 1, 11), training=training, objective=objective, seed=seed)
    extractor: Any = case.task.network().get_submodule("extractor")
    width = extractor(torch.zeros(1, shape[2], *shape[:2])).shape[1]

    def handed(job: Job) -> Job:
        if method == "moon":
            return replace(
                job,
                each={
                    name: drawn(len(job.samples), width, seed=seed + k)
                    for k, name in enumerate(("z_global", "z_previous"))
                },
            )
        if method == "fedproto":
            known = torch.arange(CLASSES) % 3 > 0
            return replace(job, given={"prototypes": drawn(CLASSES, width, seed=seed), "known": known})
        return replace(job, given={"mean": drawn(width, seed=seed)})

    return case, handed


@pytest.mark.parametrize("model", ["mnist_cnn", "lenet_gn"])
@pytest.mark.parametrize("method", ["moon", "fedproto", "fedavgdbe"])
@settings(max_examples=2, deadline=None)
@given(seed=seeds)
def test_objectives_with_terms_of_their_own(method: str, model: str, seed: int) -> None:
    case, handed = with_method(method, model, seed)
    check_steps(case, "cpu", change=handed)


@pytest.mark.parametrize("method", ["moon", "fedproto"])
def test_results_do_not_depend_on_the_number_of_workers(method: str) -> None:
    case, handed = with_method(method, "mnist_cnn", 3)
    jobs = [handed(job) for job in case.jobs(1)]

    def trained(**chosen: Any) -> torch.Tensor:
        learner = build("engine", {"kind": "cpu", **chosen}).build(case.task)  # type: ignore[attr-defined]
        models = case.start()
        learner.train(models, jobs)
        learner.close()
        return models.parameters

    one = trained(workers=1)
    assert torch.equal(one, trained(workers=3))
    assert not torch.equal(one, trained(workers=1, native=False))  # the kernels did compute it


class Beside:
    """A sequence computed by kernels, beside the same layers in float64."""

    def __init__(self, layers: Sequence[nn.Module], seed: int = 0) -> None:
        self.plain = make_network(lambda: nn.Sequential(*copy.deepcopy(list(layers))), seed)
        self.exact = copy.deepcopy(self.plain).double()
        self.layout = Layout.of(self.plain)
        self.row = torch.empty(self.layout.size)
        self.layout.write(self.plain, self.row, torch.empty(0))
        self.quick: Any = fuse(copy.deepcopy(self.plain))
        attach(self.quick, self.layout, self.row)

    def check(self, *batches: torch.Tensor) -> None:
        """Outputs, and gradients of a function of all of them, are off by rounding alone."""
        found: list[list[torch.Tensor]] = []
        for module, kind in ((self.quick, torch.float32), (self.exact, torch.float64)):
            outputs = [module(x.to(kind)) for x in batches]
            loss = sum(
                (y.flatten(1) * torch.linspace(-1, 1, y[0].numel()).to(kind) * (k + 1)).sum()
                for k, y in enumerate(outputs)
            )
            assert isinstance(loss, torch.Tensor)
            module.zero_grad()
            loss.backward()
            parameters = dict(module.named_parameters())
            own = [
                torch.cat([_gradient(parameters[entry.name]).flatten() for entry in entries])
                for _, entries in by_layer(self.layout)
            ]
            found.append([*(y.detach() for y in outputs), *own])
        share = tolerance(self.plain, torch.cat(batches))
        for ours, exact in zip(*found, strict=True):
            assert ours.shape == exact.shape
            assert off(ours, exact) <= share


def _gradient(parameter: nn.Parameter) -> torch.Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


@st.composite
def sequences(draw: st.DrawFn) -> tuple[list[nn.Module], tuple[int, int, int]]:
    """Something before the convolutions, and something behind them."""
    channels, height, width = draw(st.integers(1, 4)), draw(st.integers(6, 11)), draw(st.integers(6, 11))
    image = (channels, height, width)
    layers: list[nn.Module] = [nn.ZeroPad2d((1, 2, 0, 1))] if draw(st.booleans()) else []
    for _ in range(draw(st.integers(1, 2))):
        out, kernel = draw(st.integers(1, 6)), draw(st.integers(1, 3))
        layers.append(nn.Conv2d(channels, out, kernel, padding=draw(st.integers(0, kernel - 1))))
        layers += [nn.ReLU()] if draw(st.booleans()) else []
        channels = out
    if draw(st.booleans()):
        features = nn.Sequential(*layers, nn.Flatten())(torch.zeros(1, *image)).shape[1]
        layers += [nn.Flatten(), nn.Linear(features, 5), nn.Tanh()]
    return layers, image


@settings(max_examples=15, deadline=None)
@given(sequences(), st.integers(1, 21), st.booleans(), seeds)
def test_any_sequence(
    case: tuple[list[nn.Module], tuple[int, int, int]], samples: int, sliced: bool, seed: int
) -> None:
    """One sequence, any number of samples: whole, or in slices of a few."""
    layers, image = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conv_stack, "CACHE", 4 if sliced else conv_stack.CACHE)
        beside = Beside(layers, seed)
        assert isinstance(beside.quick, FusedConv2d)
        x = decided(beside.plain, drawn(samples + 4, *image, seed=seed % 1000))[:samples]
        if len(x):
            beside.check(x)
        assert beside.quick.computed == (len(x) > 0)


BODY = [
    *(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(4, 3, 2), nn.Flatten()),
    *(nn.Linear(27, 6), nn.Tanh()),
]


def test_several_batches_before_one_backward_pass() -> None:
    """What a later batch left in the kernels' memory is not taken for an earlier one's."""
    beside = Beside(BODY)
    first, second, third = (decided(beside.plain, drawn(9, 2, 10, 10, seed=k)) for k in range(3))
    beside.check(first, second[:3], third)
    with torch.no_grad():
        before = beside.quick(first)
        beside.quick(second)
        assert torch.equal(beside.quick(first), before)


def test_judging_between_training_leaves_no_trace() -> None:
    beside = Beside(BODY)
    x = decided(beside.plain, drawn(9, 2, 10, 10, seed=1))

    def gradient(between: bool) -> torch.Tensor:
        beside.quick.zero_grad()
        loss = beside.quick(x).square().sum()
        if between:
            with torch.inference_mode():
                beside.quick(drawn(9, 2, 10, 10, seed=2))
        loss.backward()
        return values(list(beside.layout.parameters), _row(beside))

    assert torch.equal(gradient(False), gradient(True))


def _row(beside: Beside) -> torch.Tensor:
    row = torch.empty(beside.layout.size)
    parameters = dict(beside.quick.named_parameters())
    for entry in beside.layout.parameters:
        entry.view(row).copy_(_gradient(parameters[entry.name]))
    return row


def test_frozen_parameters_get_no_gradient() -> None:
    beside = Beside(BODY)
    for module in (beside.quick, beside.exact):
        module[0].weight.requires_grad_(False)
    beside.check(decided(beside.plain, drawn(9, 2, 10, 10, seed=1)))
    assert beside.quick[0].weight.grad is None
    assert beside.quick.computed


@pytest.mark.parametrize("why", ["images with a gradient", "float64", "a single image", "weights elsewhere"])
def test_what_kernels_do_not_know_is_left_to_the_layers(why: str) -> None:
    beside = Beside(BODY[:6])
    x = drawn(2, 2, 10, 10, seed=1)
    if why == "images with a gradient":
        x.requires_grad_()
    elif why == "float64":
        beside.quick.double()
        x = x.double()
    elif why == "a single image":
        beside.quick = fuse(nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU()))
        x = x[0]
    else:
        beside.quick[0].weight.data = beside.quick[0].weight.data.contiguous()
    expected = nn.Sequential(*list(beside.quick))(x)
    assert torch.equal(beside.quick(x), expected)
    assert not beside.quick.computed
    if x.requires_grad:
        beside.quick(x).sum().backward()
        assert x.grad is not None


def test_what_is_left_alone() -> None:
    watched = nn.Sequential(*copy.deepcopy(BODY))
    watched[0].register_forward_hook(lambda *_: None)
    shared = nn.Conv2d(2, 2, 1)
    for module in (
        watched,
        nn.Sequential(shared, nn.ReLU(), shared, nn.Flatten()),
        nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.Flatten()),  # most of it would be torch's
        nn.Sequential(nn.Flatten(), nn.Linear(8, 2)),
        nn.Sequential(),
    ):
        assert fuse(module) is module
        assert type(module) is nn.Sequential


def test_names_and_parts_stay() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.extractor, self.head = nn.Sequential(*copy.deepcopy(BODY)), nn.Linear(6, 2)

    module = Both().eval()
    before, parameters = Layout.of(module), list(module.parameters())
    assert fuse(module) is module
    assert Layout.of(module) == before
    assert all(a is b for a, b in zip(module.parameters(), parameters, strict=True))
    assert isinstance(module.extractor, FusedConv2d)
    assert not module.extractor.training
    assert [type(layer) for layer in module.extractor] == [type(layer) for layer in BODY]


@pytest.mark.parametrize("where", [(0, 0), (5, 5)])
@pytest.mark.parametrize("large", [30.0, 1000.0])
def test_a_norm_is_as_exact_wherever_one_value_lies_far_from_the_others(
    where: tuple[int, int], large: float
) -> None:
    """Sums are of what differs from a group's first value: where that one is far away, digits went."""

    def network() -> nn.Module:
        convolution = nn.Conv2d(1, 16, 1)
        with torch.no_grad():  # each channel has the value as far away
            convolution.weight.copy_(torch.linspace(1, 1.5, 16).reshape(16, 1, 1, 1))
        return nn.Sequential(convolution, nn.GroupNorm(1, 16), nn.Flatten(), nn.Linear(16 * 32 * 32, CLASSES))

    given = problem(network, (32, 32, 1), (8,), training=SGD(lr=0.01))
    given.task.x[:, 0, where[0], where[1]] = large
    start = given.start()
    found, losses = given.trained("cpu", rounds=1)
    true, true_losses = given.exact.trained("reference", rounds=1)
    assert abs(losses[0, 0] / true_losses[0, 0] - 1) < 3e-6
    head = next(entry for entry in given.task.layout.parameters if entry.name == "3.weight")
    steps = [
        head.view(models.parameters[0].double() - start.parameters[0].double()) for models in (found, true)
    ]
    assert float((steps[0] - steps[1]).norm() / steps[1].norm()) < 5e-6
