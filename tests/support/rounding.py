"""What rounding to float32 may change of a gradient, and which samples it may send another way.

An engine is held to float64. Where all is smooth, its result is off by rounding alone, of which `tolerance` says how
much to expect. A ReLU and a max-pool are not smooth: where a ReLU's input, or the lead of a window's largest value, is
zero up to rounding, each engine rightly takes a way of its own, and whole gradients differ. Such samples are found by
`undecided`, so that they can be left out of what is compared.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from fedroam.learning import Entry, Layout
from fedroam.learning.samples import standard

UNIT = 2.0**-24  # rounding to float32 changes a number by so much of it, at most
# An engine may add up in another order than the float32 pass that errors are read off. Its errors are of the same kind
# and size; the largest of a layer's thousands is taken as usual, and so many times as much as possible.
ORDERS = 4
# Forward and back, and four times the length that a random walk usually has.
WALKS = 8


def tolerance(module: nn.Module, x: torch.Tensor, loss: float = math.inf) -> float:
    """How far a layer's gradient may be off, as a share of its norm, for a batch x with this mean loss.

    Every layer, and the loss, rounds the result of its sums once more, forward and back. The error of a sum of n terms
    grows as a random walk, sqrt(n) UNIT (Higham and Mary, SIAM J. Sci. Comput. 41, 2019); n is the longest sum, over
    the inputs of a value or over the samples and positions of a weight. What a gradient begins with, p - y, is off by
    UNIT of p, not of the difference: that weighs more the closer p is to y, and the mean of 1 - p_y is about
    1 - exp(-loss).
    """
    longest, layers = 1, 0

    def measure(layer: nn.Module, _: Any, output: torch.Tensor) -> None:
        nonlocal longest, layers
        weight = layer.get_parameter("weight")
        layers += 1
        longest = max(longest, weight[0].numel(), output.numel() // len(weight))

    weighted = [layer for layer in module.modules() if layer._parameters.get("weight") is not None]
    _watched(module, x, weighted, lambda layer: layer.register_forward_hook(measure))
    return WALKS * (layers + 1) * math.sqrt(longest) * UNIT / -math.expm1(-loss)


def by_layer(layout: Layout) -> Iterator[tuple[str, list[Entry]]]:
    """The parameters of each layer together: where one of them cancels out, the others tell what is much."""
    for name, entries in itertools.groupby(layout.parameters, lambda entry: entry.name.rpartition(".")[0]):
        yield name, list(entries)


def values(entries: Sequence[Entry], row: torch.Tensor) -> torch.Tensor:
    """A layer's values in a row, in float64, side by side."""
    return torch.cat([entry.view(row).flatten() for entry in entries]).double()


def off(found: torch.Tensor, exact: torch.Tensor) -> float:
    """How far values are off, as a share of the norm of the exact ones."""
    return float((found.double() - exact).norm() / exact.norm()) if exact.any() else float(found.any())


def undecided(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """The samples (int64 positions in x) of which a ReLU or a max-pool may decide otherwise in float32.

    module: float32, whose every ReLU and max-pool is a layer of its own. Nothing before such a layer may draw, or look
    at several samples at once: those that stay must go the same way without the others.
    """
    if not len(x):
        return torch.empty(0, dtype=torch.int64)
    steps = zip(_decisions(module, x), _decisions(copy.deepcopy(module).double(), x.double()), strict=True)
    sure = torch.ones(len(x), dtype=torch.bool)
    for (layer, rounded), (_, exact) in steps:
        error = max(float((rounded.double() - exact).abs().max()), UNIT * float(exact.abs().max()))
        lead, seen = _lead(layer, exact), _lead(layer, rounded)
        # Equal in both: not by accident, but as zeros behind a ReLU are; all engines then take the first.
        sure &= ((lead > ORDERS * error) | ((lead == 0) & (seen == 0))).all(1)
    return torch.nonzero(~sure).flatten()


def decided(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """The other samples themselves."""
    keep = torch.ones(len(x), dtype=torch.bool)
    keep[undecided(module, x)] = False
    return x[keep]


def _decisions(module: nn.Module, x: torch.Tensor) -> list[tuple[nn.Module, torch.Tensor]]:
    """Every ReLU and max-pool in the order of computation, with what it is given."""
    met: list[tuple[nn.Module, torch.Tensor]] = []
    mixing: list[nn.Module] = []

    def note(layer: nn.Module, inputs: tuple[torch.Tensor]) -> None:
        if isinstance(layer, DECIDING):
            assert not mixing, f"{mixing[0]} before {layer}: samples cannot be left out one by one"
            met.append((layer, inputs[0].detach().clone()))
        elif isinstance(layer, nn.modules.batchnorm._BatchNorm) or "Dropout" in type(layer).__name__:
            mixing.append(layer)

    _watched(module, x, list(module.modules()), lambda layer: layer.register_forward_pre_hook(note))
    return met


DECIDING = (nn.ReLU, nn.MaxPool1d, nn.MaxPool2d, nn.AdaptiveMaxPool1d)


def _watched(
    module: nn.Module, x: torch.Tensor, layers: list[nn.Module], watch: Callable[[nn.Module], Any]
) -> None:
    handles, was = [watch(layer) for layer in layers], module.training
    try:
        with torch.no_grad():
            module.eval()(standard(x))
    finally:
        module.train(was)
        for handle in handles:
            handle.remove()


def _lead(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """How far a ReLU's inputs are from zero, or a pool's largest values from the next: [n, decisions]."""
    if isinstance(layer, nn.ReLU):
        return x.abs().flatten(1)
    if isinstance(layer, nn.AdaptiveMaxPool1d):
        assert isinstance(layer.output_size, int)
        assert x.shape[-1] % layer.output_size == 0, f"{layer} of {x.shape[-1]} places: windows overlap"
        windows = x.unflatten(-1, (layer.output_size, -1))
    else:
        windows = _windows(layer, x)
    if windows.shape[-1] < 2:
        return x.new_ones(len(x), 1)
    largest = windows.topk(2, -1).values
    return (largest[..., 0] - largest[..., 1]).nan_to_num(posinf=torch.inf).flatten(1)


def _windows(layer: Any, x: torch.Tensor) -> torch.Tensor:
    """[..., values]: what each output of a max-pool is the largest of; minus infinity beyond the edges."""
    dimensions = 1 if isinstance(layer, nn.MaxPool1d) else 2

    def each(value: Any) -> list[int]:
        return [value] * dimensions if isinstance(value, int) else list(value)

    size, step, edge = each(layer.kernel_size), each(layer.stride), each(layer.padding)
    assert each(layer.dilation) == [1] * dimensions, f"{layer}: windows with gaps"
    pads: list[int] = []
    for length, k, s, p in zip(x.shape[2:], size, step, edge, strict=True):
        outside = -(length + 2 * p - k) % s if layer.ceil_mode else 0
        pads = [p, p + outside, *pads]  # torch wants the last dimension first
    x = functional.pad(x, pads, value=-torch.inf)
    for dimension, (k, s) in enumerate(zip(size, step, strict=True), 2):
        x = x.unfold(dimension, k, s)
    return x.flatten(2 + dimensions)
