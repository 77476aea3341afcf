"""Training of one network beside the clients: by a kernel as by torch, to which is left what kernels cannot read."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fedroam.learning.cpu import one_network
from fedroam.learning.cpu.one_network import descend
from fedroam.native import target


def made(*layers: nn.Module) -> nn.Sequential:
    torch.manual_seed(3)
    network = nn.Sequential(*layers)
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.3)
    return network


def slowly(
    network: nn.Module, x: torch.Tensor, y: torch.Tensor, batches: list[np.ndarray], lr: float
) -> None:
    """In float64, by autograd."""
    network.double()
    for batch in batches:
        network.zero_grad()
        functional.cross_entropy(network(x.double()[batch]), y[batch]).backward()
        with torch.no_grad():
            for parameter in network.parameters():
                assert parameter.grad is not None
                parameter -= lr * parameter.grad


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(
    "layers",
    [
        lambda: [nn.Linear(7, 4)],
        lambda: [nn.Linear(7, 6), nn.ReLU(), nn.Linear(6, 4)],
        lambda: [nn.Linear(7, 6, bias=False), nn.Tanh(), nn.Linear(6, 4)],
    ],
    ids=["one", "two", "not known"],
)
@pytest.mark.parametrize("size", [1, 5, 0])
def test_steps_are_those_of_float64(
    native: bool, layers: object, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(layers)
    if not native:
        monkeypatch.setattr(one_network, "target", lambda: None)
    draws = np.random.default_rng(5)
    x, y = torch.from_numpy(draws.standard_normal((23, 7)).astype(np.float32)), torch.arange(23) % 4
    order = draws.permutation(23)
    batches = np.split(order, range(size, 23, size)) if size else [order]
    quick, slow = made(*layers()), made(*layers())
    descend(quick, x, y, batches, 0.1)
    slowly(slow, x, y, batches, 0.1)
    for found, exact in zip(quick.parameters(), slow.parameters(), strict=True):
        torch.testing.assert_close(found.double(), exact, rtol=2e-5, atol=2e-6)


@pytest.mark.skipif(target() is None, reason="needs llvmlite")
def test_a_layer_alone_is_trained_by_a_kernel() -> None:
    layer, x, y = nn.Linear(3, 2), torch.eye(3), torch.tensor([0, 1, 1])
    assert one_network._by_kernel(layer, x, y, [np.array([0, 2])], 0.1)


def test_nothing_to_do() -> None:
    network = made(nn.Linear(3, 2))
    before = [parameter.clone() for parameter in network.parameters()]
    descend(network, torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64), [np.zeros(0, np.int64)], 0.1)
    assert all(map(torch.equal, before, network.parameters()))


@pytest.mark.parametrize("width", [2, 9])
def test_samples_of_another_width_are_an_error(width: int) -> None:
    """Not numbers from beside them."""
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        descend(
            nn.Linear(4, 3), torch.zeros(5, width), torch.zeros(5, dtype=torch.int64), [np.arange(5)], 0.1
        )
