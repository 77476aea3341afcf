"""Hand-written layers and backward passes against torch's own, layer by layer."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from fedroam.learning import Layout, make_network
from fedroam.learning.cpu.fused_conv1d import FusedConv1d, ParameterHolder
from fedroam.learning.cpu.fused_layers import Convolution1d, PooledConvolution1d, quicken
from fedroam.learning.cpu.sequential import SequentialModel, sequential_model
from fedroam.learning.objective import CrossEntropy
from fedroam.learning.samples import Samples
from fedroam.native import target
from support.learners import CLASSES, problem
from support.rounding import by_layer, decided, off, tolerance, values

seeds = st.integers(0, 2**32 - 1)


def images(n: int, channels: int, height: int, width: int) -> torch.Tensor:
    """Channels-last, with many equal values."""
    draws = torch.Generator().manual_seed(n * height)
    return torch.randint(-3, 4, (n, height, width, channels), generator=draws).float().permute(0, 3, 1, 2)


NETWORKS: dict[str, tuple[tuple[int, int, int], Callable[[], list[nn.Module]]]] = {
    "few channels, halved": (
        (9, 10, 1),
        lambda: [
            nn.Conv2d(1, 3, 2),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(3, 4, 2, bias=False),
            nn.MaxPool2d(2),
        ],
    ),
    "many channels, halved": ((9, 9, 2), lambda: [nn.Conv2d(2, 20, 2), nn.MaxPool2d(2), nn.ReLU()]),
    "odd sides": ((10, 9, 2), lambda: [nn.Conv2d(2, 3, 2), nn.MaxPool2d(2), nn.ReLU()]),
    "other pools": (
        (12, 12, 2),
        lambda: [nn.MaxPool2d(3, 2, 1), nn.Conv2d(2, 5, 3), nn.ReLU(), nn.MaxPool2d((1, 2), ceil_mode=True)],
    ),
    "strides and groups": (
        (12, 11, 4),
        lambda: [
            nn.Conv2d(4, 8, 3, (2, 1), padding=(1, 2), groups=2),
            nn.ReLU(),
            nn.Conv2d(8, 6, 2, dilation=2),
        ],
    ),
    "norms": (
        (8, 8, 3),
        lambda: [nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.MaxPool2d(2), nn.ReLU(), nn.ReLU()],
    ),
    "norm first": ((6, 6, 4), lambda: [nn.GroupNorm(2, 4), nn.Conv2d(4, 5, 3)]),
    "several linear": (
        (4, 4, 1),
        lambda: [
            nn.Flatten(),
            nn.Linear(16, 9, bias=False),
            nn.ReLU(),
            nn.Linear(9, 5),
            nn.Linear(5, 7),
            nn.ReLU(),
        ],
    ),
}


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("name", NETWORKS)
@settings(max_examples=3)
@given(seed=seeds)
def test_chain_has_autograds_gradient(name: str, smoothing: float, seed: int) -> None:
    """Small whole numbers as inputs, so that equal values really occur in pools."""
    (height, width, channels), layers = NETWORKS[name]

    def network() -> nn.Module:
        body = nn.Sequential(*layers())
        if not any(isinstance(layer, nn.Flatten) for layer in body):
            body.append(nn.Flatten())
        features = body(torch.zeros(1, channels, height, width)).shape[1]
        return nn.Sequential(body, nn.Linear(features, CLASSES))

    task = problem(
        network,
        (height, width, channels),
        (4,),
        objective=CrossEntropy(label_smoothing=smoothing),
        seed=seed,
    ).task
    module = task.network()
    gradient = torch.zeros(task.layout.size)
    model = sequential_model(module, task, gradient)
    assert isinstance(model, SequentialModel)
    row = torch.empty(task.layout.size)
    task.layout.write(module, row, torch.empty(0))
    model.attach(row)
    x = decided(module, images(9, channels, height, width))
    assert len(x) > 4
    y = 3 * torch.arange(len(x)) % CLASSES
    kept = x.clone()
    # twice, in two shares: gradients are added up
    samples, every = Samples(x, y), torch.arange(len(x))
    loss = model.add_gradient(samples, every, 0.25)
    loss += model.add_gradient(samples, every, 0.75)
    assert torch.equal(x, kept)
    exact = copy.deepcopy(module).double()
    wanted = x.double().requires_grad_()  # or torch 2.13 crashes where a norm comes first
    expected = functional.cross_entropy(exact(wanted), y, label_smoothing=smoothing)
    expected.backward()
    share = tolerance(module, x, float(expected.detach()))
    assert loss == pytest.approx(float(expected.detach()), rel=share)
    parameters = dict(exact.named_parameters())
    for layer, entries in by_layer(task.layout):
        truth = torch.cat([parameters[entry.name].grad.flatten() for entry in entries])  # type: ignore[union-attr]
        assert off(values(entries, gradient), truth) <= share, layer


@pytest.mark.parametrize(
    "layer",
    [
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect"),
        nn.Conv2d(1, 1, 3, padding="same"),
        nn.GroupNorm(1, 1, affine=False),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_unknown_layers_are_left_to_autograd(layer: nn.Module) -> None:
    def network() -> nn.Module:
        return nn.Sequential(copy.deepcopy(layer), nn.Flatten(), nn.LazyLinear(CLASSES))

    def made() -> nn.Module:
        module = network()
        module(torch.zeros(1, 1, 6, 6))
        return module

    task = problem(made, (6, 6, 1), (4,)).task
    assert sequential_model(task.network(), task, torch.zeros(task.layout.size)) is None


def test_only_the_plain_objective_on_untouched_layers() -> None:
    class Doubled(CrossEntropy):
        pass

    task = problem("mnist_cnn", (16, 16, 1), (4,)).task
    gradient = torch.zeros(task.layout.size)
    module = task.network()
    assert sequential_model(module, task, gradient) is not None
    other = type(task)(**{**vars(task), "objective": Doubled()})
    assert sequential_model(module, other, gradient) is None
    handle = module.get_submodule("head").register_forward_hook(lambda *_: None)
    assert sequential_model(module, task, gradient) is None
    handle.remove()
    next(module.parameters()).requires_grad_(False)
    assert sequential_model(module, task, gradient) is None


SEQUENCES: dict[str, tuple[int, int, Callable[[], list[nn.Module]], list[type]]] = {
    "narrow": (1, 12, lambda: [nn.Conv1d(1, 4, 3), nn.ReLU()], [Convolution1d, nn.ReLU]),
    "narrow without bias": (2, 12, lambda: [nn.Conv1d(2, 4, 5, bias=False)], [Convolution1d]),
    "wide, with settings": (
        *(5, 20),
        lambda: [
            nn.Conv1d(5, 6, 5, stride=2, padding=3, dilation=2),
            nn.Tanh(),
            nn.Conv1d(6, 4, 3, padding="same"),
        ],
        [Convolution1d, nn.Tanh, Convolution1d],
    ),
    "peak": (
        *(1, 15),
        lambda: [nn.Conv1d(1, 6, 3), nn.ReLU(), nn.Conv1d(6, 8, 4), nn.AdaptiveMaxPool1d(1), nn.ReLU()],
        [Convolution1d, nn.ReLU, PooledConvolution1d, nn.Identity, nn.ReLU],
    ),
    "series": (
        *(2, 15),
        lambda: [nn.Conv1d(2, 16, 3), nn.ReLU(), nn.Conv1d(16, 32, 4), nn.AdaptiveMaxPool1d(1), nn.ReLU()],
        [ParameterHolder, nn.Identity, FusedConv1d, nn.Identity, nn.ReLU] if target() else [Convolution1d],
    ),
    "peak of the input": (
        *(3, 9),
        lambda: [nn.Conv1d(3, 4, 2, bias=False), nn.AdaptiveMaxPool1d(1)],
        [PooledConvolution1d, nn.Identity],
    ),
    "no global peak": (
        *(3, 9),
        lambda: [nn.Conv1d(3, 4, 2), nn.AdaptiveMaxPool1d(2)],
        [Convolution1d, nn.AdaptiveMaxPool1d],
    ),
    "groups": (4, 9, lambda: [nn.Conv1d(4, 4, 2, groups=2), nn.AdaptiveMaxPool1d(1)], [nn.Conv1d]),
}


@pytest.mark.parametrize("name", SEQUENCES)
@pytest.mark.parametrize("learns", [False, True], ids=["samples", "input with gradient"])
@settings(max_examples=3)
@given(seed=seeds)
def test_quicker_layers_of_sequences(name: str, learns: bool, seed: int) -> None:
    channels, length, layers, kinds = SEQUENCES[name]
    plain = make_network(lambda: nn.Sequential(*layers()), seed)
    quick = quicken(copy.deepcopy(plain))
    assert [type(layer) for layer in quick.children()][: len(kinds)] == kinds
    assert Layout.of(quick) == Layout.of(plain)
    draws = torch.Generator().manual_seed(seed)
    x = decided(plain, torch.randint(-2, 3, (12, channels, length), generator=draws).float())
    assert len(x) > 6
    share, found = tolerance(plain, x), []
    for module, own in ((quick, x.clone()), (copy.deepcopy(plain).double(), x.double())):
        y = module(own.requires_grad_(learns))
        (y.tanh() * torch.arange(1.0, y.numel() + 1).view(y.shape) / y.numel()).sum().backward()
        parameters = dict(module.named_parameters())
        gradients = [
            torch.cat([parameters[entry.name].grad.flatten() for entry in entries])  # type: ignore[union-attr]
            for _, entries in by_layer(Layout.of(plain))
        ]
        found.append([y.detach(), *gradients, *([own.grad] if learns else [])])
    for ours, exact in zip(*found, strict=True):
        assert ours.shape == exact.shape
        assert off(ours, exact) <= share


def test_watched_layers_are_not_replaced() -> None:
    module = nn.Sequential(nn.Conv1d(1, 2, 3), nn.ReLU())
    module[0].register_forward_hook(lambda *_: None)
    module[1].register_forward_hook(lambda *_: None)
    assert type(quicken(module)[0]) is nn.Conv1d  # type: ignore[index]
    assert not module[1].inplace
