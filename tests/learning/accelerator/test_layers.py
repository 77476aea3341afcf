"""Layers of many models: which of torch's are replaced, and that kernels are used only where they agree with torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from fedroam.learning.accelerator import layers
from fedroam.models import LeNetGN, ResNet18

GEOMETRY = layers.Geometry((1, 1), (1, 1), (1, 1))
Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """As if there were kernels, which torch computes: tests replace some by wrong ones."""
    monkeypatch.setattr(layers, "_has_kernels", lambda device: True)
    monkeypatch.setattr(layers, "_our_outputs", layers._torch_outputs)
    monkeypatch.setattr(layers, "_our_of_weights", layers._torch_of_weights)
    monkeypatch.setattr(layers, "_our_pooled", layers._torch_pooled)
    monkeypatch.setattr(layers, "_our_of_pooled", layers._torch_of_pooled)
    monkeypatch.setattr(layers, "_our_normed", layers._torch_normed)
    monkeypatch.setattr(layers, "_our_of_normed", layers._torch_of_normed)

    def of_inputs(gradient: torch.Tensor, weight: torch.Tensor, geometry: Any, size: Any) -> torch.Tensor:
        x = gradient.new_empty((*gradient.shape[:2], weight.shape[2], *size))
        return layers._torch_of_inputs(gradient, x, weight, geometry)

    monkeypatch.setattr(layers, "_our_of_inputs", of_inputs)
    forget()
    yield monkeypatch
    forget()


def forget() -> None:
    for trusted in (layers.trusted_convolution, layers.trusted_pool, layers.trusted_norm):
        trusted.cache_clear()


def numbers() -> Tensors:
    draws = torch.Generator().manual_seed(4)
    sizes = ((2, 5, 3, 6, 7), (2, 4, 3, 3, 3), (2, 5, 4, 6, 7))
    x, weight, gradient = (torch.randn(size, generator=draws) for size in sizes)
    return x, weight, gradient


def test_without_a_device_for_them_no_kernel_is_used() -> None:
    x, weight, _ = numbers()
    assert not layers.trusted_convolution(layers.Sizes.of(x, weight, GEOMETRY))
    assert not layers.trusted_pool((3, 6, 7), (2, 2), x.dtype, x.device)
    assert not layers.trusted_norm((4, 6, 7), 2, x.dtype, x.device)


def test_kernels_that_agree_are_used(kernels: pytest.MonkeyPatch) -> None:
    x, weight, gradient = numbers()
    assert layers.trusted_convolution(layers.Sizes.of(x, weight, GEOMETRY)) == {
        "outputs",
        "inputs",
        "weights",
    }
    assert layers.trusted_pool((3, 6, 7), (2, 2), x.dtype, x.device)
    assert layers.trusted_norm((4, 6, 7), 2, x.dtype, x.device)
    asked: list[str] = []

    def noted(name: str, compute: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*given: Any) -> Any:
            asked.append(name)
            return compute(*given)

        return noting

    for name in ("_our_outputs", "_our_of_inputs", "_our_of_weights"):
        kernels.setattr(layers, name, noted(name, getattr(layers, name)))
    layers._outputs(x, weight, None, GEOMETRY, True)
    layers._of_inputs(gradient, x, weight, GEOMETRY, True)
    layers._of_weights(gradient, x, weight, GEOMETRY)
    assert asked == ["_our_outputs", "_our_of_inputs", "_our_of_weights"]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("_our_outputs", "outputs"), ("_our_of_weights", "weights"), ("_our_of_inputs", "inputs")],
)
def test_a_kernel_that_is_off_is_told_and_left_to_torch(
    kernels: pytest.MonkeyPatch, name: str, wrong: str
) -> None:
    right = getattr(layers, name)
    kernels.setattr(layers, name, lambda *given: right(*given) * 1.001)
    x, weight, gradient = numbers()
    with pytest.warns(
        UserWarning, match=rf"{wrong} of a convolution of 3 channels, \(6, 7\), by weights \(3, 3\)"
    ):
        trusted = layers.trusted_convolution(layers.Sizes.of(x, weight, GEOMETRY))
    assert trusted == {"outputs", "inputs", "weights"} - {wrong}
    found = {
        "outputs": layers._outputs(x, weight, None, GEOMETRY, True),
        "inputs": layers._of_inputs(gradient, x, weight, GEOMETRY, True),
        "weights": layers._of_weights(gradient, x, weight, GEOMETRY),
    }
    truth = {
        "outputs": layers._torch_outputs(x, weight, None, GEOMETRY),
        "inputs": layers._torch_of_inputs(gradient, x, weight, GEOMETRY),
        "weights": layers._torch_of_weights(gradient, x, weight, GEOMETRY),
    }
    for kind, values in found.items():
        assert torch.equal(values, truth[kind])


def test_outputs_are_tried_with_a_bias_that_lies_in_a_row_of_parameters(
    kernels: pytest.MonkeyPatch,
) -> None:
    def off(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, geometry: Any) -> torch.Tensor:
        if bias is None:
            return layers._torch_outputs(x, weight, None, geometry)
        assert not bias.is_contiguous()
        return layers._torch_outputs(x, weight, 2 * bias, geometry)

    kernels.setattr(layers, "_our_outputs", off)
    x, weight, _ = numbers()
    with pytest.warns(UserWarning, match="outputs of a convolution of 3 channels"):
        assert layers.trusted_convolution(layers.Sizes.of(x, weight, GEOMETRY)) == {"inputs", "weights"}


def test_kernels_that_cannot_be_compiled_are_told(kernels: pytest.MonkeyPatch) -> None:
    def fails(*given: Any) -> torch.Tensor:
        raise RuntimeError("no C compiler")

    kernels.setattr(layers, "_our_outputs", fails)
    x, weight, _ = numbers()
    with pytest.warns(
        UserWarning, match=r"outputs of .*: our kernels cannot be compiled here \(no C compiler\)"
    ):
        trusted = layers.trusted_convolution(layers.Sizes.of(x, weight, GEOMETRY))
    assert trusted == {"inputs", "weights"}
    assert torch.equal(
        layers._outputs(x, weight, None, GEOMETRY, True), layers._torch_outputs(x, weight, None, GEOMETRY)
    )


def test_a_pool_or_a_norm_that_is_off_is_left_to_torch(kernels: pytest.MonkeyPatch) -> None:
    kernels.setattr(layers, "_our_of_pooled", lambda *given: layers._torch_of_pooled(*given) + 1)
    kernels.setattr(layers, "_our_normed", lambda *given: (given[0], *layers._torch_normed(*given)[1:]))
    x, _, _ = numbers()
    with pytest.warns(UserWarning, match="values or gradients of a max-pool"):
        assert not layers.trusted_pool((3, 6, 7), (2, 2), x.dtype, x.device)
    with pytest.warns(UserWarning, match="values or gradients of a group normalisation"):
        assert not layers.trusted_norm((4, 6, 7), 2, x.dtype, x.device)


def replaced(module: nn.Module) -> list[nn.Module]:
    module = layers.in_place(module, lambda layer: None, ())
    ours = (layers.Convolution, layers.Pool, layers.Norm)
    return [layer for layer in module.modules() if isinstance(layer, ours)]


@pytest.mark.parametrize(
    ("network", "kinds", "plain"),
    [
        (lambda: LeNetGN().build((3, 16, 16), 10), "CNP" * 3, False),
        (lambda: ResNet18(norm="group").build((3, 16, 16), 10), None, False),
        (lambda: ResNet18(norm="batch").build((3, 16, 16), 10), "C" * 20, True),
        (lambda: nn.Sequential(nn.Conv1d(2, 3, 3), nn.AdaptiveMaxPool1d(1)), "CP", False),
        (lambda: nn.Sequential(nn.Conv2d(2, 4, 3, groups=2), nn.MaxPool2d(3, 2)), "", True),
        (
            lambda: nn.Sequential(nn.Conv2d(2, 4, 3, padding="same"), nn.GroupNorm(2, 4, affine=False)),
            "",
            True,
        ),
        (lambda: nn.Sequential(nn.Conv2d(2, 4, 3), nn.AvgPool2d(2)), "C", True),
        (lambda: nn.Conv2d(2, 4, 3), "C", False),
    ],
)
def test_which_layers_are_replaced_and_how_their_values_lie(
    network: Callable[[], nn.Module], kinds: str | None, plain: bool
) -> None:
    found = replaced(network())
    if kinds is not None:
        assert "".join(type(layer).__name__[0] for layer in found) == kinds
    assert all(layer.plain is plain for layer in found)


def test_a_class_of_ones_own_is_left_alone() -> None:
    class Mine(nn.Conv2d):
        """It may compute something else."""

    assert replaced(nn.Sequential(Mine(2, 4, 3), nn.ReLU())) == []


def test_a_layer_with_a_hook_is_left_alone() -> None:
    layer = nn.Conv2d(2, 4, 3)
    layer.register_forward_hook(lambda *given: None)
    assert replaced(nn.Sequential(layer, nn.ReLU())) == []
