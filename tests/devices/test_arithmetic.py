"""Operations counted by hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from fedroam.components import build, kinds
from fedroam.devices.arithmetic import _small, training_flops
from fedroam.models import ModelBuilder

SHAPES = {"cnn1d": (20,), "resnet18": (3, 16, 16), "resnet50": (3, 16, 16)}


def linear(inputs: int, outputs: int, first: bool = False) -> int:
    """Forward, gradient of weights, and of inputs unless they are the samples: 2 for each weight."""
    return (2 if first else 3) * 2 * inputs * outputs


def convolution(inputs: int, outputs: int, width: int, places: int, first: bool = False) -> int:
    return (2 if first else 3) * 2 * inputs * outputs * width * places


def test_softmax_regression() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    assert training_flops(network, (1, 8, 8)) == linear(64, 10, first=True)


def test_multilayer_perceptron() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    assert training_flops(network, (64,)) == linear(64, 32, first=True) + 3 * 32 + linear(32, 10)


def test_the_convolutional_network_of_reza() -> None:
    # 28 x 28: 10 of 24 x 24, pool to 12 x 12, 20 of 8 x 8, pool to 4 x 4, 320 to 50.
    network = build("model", "mnist_cnn").build((1, 28, 28), 10)  # type: ignore[attr-defined]
    by_hand = (
        convolution(1, 10, 25, 24 * 24, first=True)
        + convolution(10, 20, 25, 8 * 8)
        + linear(320, 50)
        + linear(50, 10)
        + 3 * (10 * 24 * 24 + 20 * 8 * 8)  # each pool looks at every value once
        + 3 * (10 * 12 * 12 + 20 * 4 * 4 + 50)  # ReLU
    )
    assert training_flops(network, (1, 28, 28)) == by_hand


def test_norms_and_pools() -> None:
    network = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1, bias=False),
        nn.GroupNorm(2, 4),
        nn.AvgPool2d(2),
        nn.AdaptiveAvgPool2d(1),
    )
    values = 4 * 8 * 8
    by_hand = convolution(3, 4, 9, 64, first=True) + 3 * (7 * values + values + values // 4)
    assert training_flops(network, (3, 8, 8)) == by_hand


def test_what_is_frozen_costs_no_gradient() -> None:
    network = nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 4))
    for parameter in network[0].parameters():
        parameter.requires_grad = False
    assert training_flops(network, (16,)) == 2 * 16 * 8 + linear(8, 4, first=True)
    for parameter in network.parameters():
        parameter.requires_grad = False
    assert training_flops(network, (16,)) == 2 * 16 * 8 + 2 * 8 * 4


class Recurrent(nn.Module):
    """A long short-term memory over five steps."""

    def __init__(self) -> None:
        super().__init__()
        self.memory, self.head = nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.memory(x)[0][:, -1])


def test_a_recurrent_layer_multiplies_in_each_step() -> None:
    forward = 5 * 2 * 4 * 16 * (8 + 16) + 2 * 16 * 4
    found = training_flops(Recurrent(), (5, 8))
    assert 2 * forward < found < 3 * forward, "no gradient of the samples"


def test_a_network_that_looks_at_values_is_counted_by_computing() -> None:
    class Looks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(8, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(x) if float(x.sum()) < 1 else x

    assert training_flops(Looks(), (8,)) == linear(8, 4, first=True)


@pytest.mark.parametrize("kind", [kind for kind in kinds("model") if kind != "torch_module"])
def test_every_network_is_counted_and_left_as_it_was(kind: str) -> None:
    shape = SHAPES.get(kind, (3, 32, 32))
    part = build("model", kind)
    assert isinstance(part, ModelBuilder)
    network = part.build(shape, 10)
    network.train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    drawn = torch.get_rng_state()
    found = training_flops(network, shape)
    # Each weight of a linear layer is used once a sample, each of a convolution at least once.
    weights = sum(p.numel() for p in network.parameters() if p.dim() > 1)
    assert found >= 4 * weights
    assert training_flops(network, shape) == found
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert all(p.grad is None for p in network.parameters())
    assert all(module.training for module in network.modules())
    assert torch.equal(torch.get_rng_state(), drawn)


def test_the_published_count_of_resnet18() -> None:
    """ResNet-18 in its CIFAR form: 0.56 G multiply-adds forward on 32 x 32; training is close to three times that."""
    network = build("model", "resnet18").build((3, 32, 32), 10)  # type: ignore[attr-defined]
    assert training_flops(network, (3, 32, 32)) == pytest.approx(3 * 2 * 0.556e9, rel=0.02)


@pytest.mark.parametrize("kind", sorted(set(kinds("model")) - {"torch_module"}))
def test_products_are_those_that_torch_counts(kind: str) -> None:
    """By its own counter, of shapes alone."""
    shape = SHAPES.get(kind, (3, 32, 32))
    network = build("model", kind).build(shape, 4)  # type: ignore[attr-defined]
    with FlopCounterMode(display=False) as counter:
        network.to("meta").eval()(torch.zeros((1, *shape), device="meta")).sum().backward()
    products = counter.get_total_flops()
    network = build("model", kind).build(shape, 4)  # type: ignore[attr-defined]
    with _small(network.eval()) as small:
        network(torch.zeros((1, *shape)))
    assert products > 0
    assert training_flops(network, shape) == products + 3 * sum(small)
