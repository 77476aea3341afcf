"""Two 1-D convolutions, a ReLU between, and a global max-pool as one layer, computed by kernels of ours."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from typing_extensions import override

from fedroam.learning.cpu.kernels import Conv1dMaxPool, Conv1dMaxPoolGradient, Conv1dSizes
from fedroam.learning.cpu.sequential_layers import Layer, View
from fedroam.learning.layout import Entry
from fedroam.native import Kernel, Target, kernel


class ParameterHolder(nn.Module):
    """Stands where a layer was that another one computes too: keeps its parameters, and hands on what it is given."""

    def __init__(self, layer: nn.Conv1d) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """As it is."""
        return x


def suits(first: nn.Conv1d, second: nn.Conv1d, here: Target) -> bool:
    """Whether there are kernels for two layers of which the second takes what the first gives."""
    alike = first.out_channels == second.in_channels
    return alike and _sizes(first.kernel_size[0] + second.kernel_size[0], first.weight, second.weight).fits(
        here
    )


def _sizes(length: int, first: torch.Tensor, second: torch.Tensor) -> Conv1dSizes:
    (hidden, inputs, near), (outputs, _, far) = first.shape, second.shape
    return Conv1dSizes(inputs, length, hidden, near, outputs, far)


class FusedConv1d(nn.Module):
    """`nn.Conv1d`, ReLU, `nn.Conv1d` and the largest value over the whole length. first: keeps the former's parameters.

    Both convolutions move by one place, without padding, and suit the kernels. What the kernels do not know (an input
    that wants a gradient, a single sample, another precision) is left to torch.
    """

    def __init__(self, first: ParameterHolder, second: nn.Conv1d, here: Target) -> None:
        super().__init__()
        self.weight, self.bias = second.weight, second.bias
        self.before = (first,)  # not a child: its parameters have their place already
        self.target = here

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[n, inputs, length] -> [n, outputs, 1]."""
        first = self.before[0]
        sizes = _sizes(x.shape[-1], first.weight, self.weight)
        usual = x.dim() == 3 and x.shape[1] == sizes.inputs and x.dtype == self.weight.dtype == torch.float32
        if usual and sizes.places > 0 and not x.requires_grad:
            parameters = (first.weight, first.bias, self.weight, self.bias)
            y: torch.Tensor = _FusedConv1d.apply(x, *parameters, sizes, self.target)
            return y.unsqueeze(2)
        between = functional.relu(functional.conv1d(x, first.weight, first.bias))
        return functional.adaptive_max_pool1d(functional.conv1d(between, self.weight, self.bias), 1)


class FusedConv1dLayer(Layer):
    """A `FusedConv1d` of a sequence, for series of one length: its gradients go into the flat vector at once.

    entries: the first convolution's weight and bias, then those of the second, None for no bias. gradient: views into
    the gradient vector.
    """

    def __init__(
        self, layer: FusedConv1d, length: int, entries: tuple[Entry | None, ...], gradient: View
    ) -> None:
        self.sizes = s = _sizes(length, layer.before[0].weight, layer.weight)
        self.target, self.entries = layer.target, entries
        self.into = [None if entry is None else gradient(entry) for entry in entries]
        # In the order of the kernels: weights and biases, and the second weights for the way back.
        first, second = torch.zeros(s.near, s.inputs, s.hidden), torch.zeros(s.far, s.hidden, s.outputs)
        bias, second_bias = torch.zeros(s.hidden), torch.zeros(s.outputs)
        self.back = torch.zeros(s.outputs, s.far, s.hidden)
        self.scratch, self.slopes = torch.zeros(2, s.scratch(self.target))
        counts = [first.numel(), s.hidden, second.numel(), s.outputs]
        self.sums = torch.zeros(sum(counts))
        sums = self.sums.split(counts)
        self.found = (
            sums[0].view(first.shape).permute(2, 1, 0),
            sums[1],
            sums[2].view(self.back.shape).permute(0, 2, 1),
            sums[3],
        )
        self.kept = (first, bias, second, second_bias)
        # The same as the parameters lie.
        self.seen = (first.permute(2, 1, 0), bias, second.permute(2, 1, 0), second_bias)
        self.given = [each.data_ptr() for each in (*self.kept, self.scratch)]
        self.returned = [each.data_ptr() for each in (self.scratch, self.slopes, *sums)]
        self.own: list[torch.Tensor | None] = list(self.into)  # the parameters, until the first `attach`

    @cached_property
    def _forward(self) -> Kernel:
        return kernel(Conv1dMaxPool(self.sizes), self.target)

    @cached_property
    def _backward(self) -> Kernel:
        return kernel(Conv1dMaxPoolGradient(self.sizes), self.target)

    def attach(self, row: View) -> None:
        """Compute with a row's parameters from now on."""
        self.own = [None if entry is None else row(entry) for entry in self.entries]

    @override
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for seen, own in zip(self.seen, self.own, strict=True):
            if own is not None:
                seen.copy_(own)
        self.x = x.contiguous()
        y, self.places = x.new_empty(2, len(x), self.sizes.outputs)
        self._forward(self.x.data_ptr(), *self.given, y.data_ptr(), self.places.data_ptr(), len(x))
        found: torch.Tensor = y.unsqueeze(2)
        return found

    @override
    def backward(self, gradient: torch.Tensor, wanted: bool) -> torch.Tensor | None:
        self.back.copy_(self.seen[2].permute(0, 2, 1))
        self.sums.zero_()
        gradient = gradient.contiguous()
        values = (self.x, *self.kept[:2], self.back, gradient, self.places)
        self._backward(*[value.data_ptr() for value in values], *self.returned, len(self.x))
        for into, found in zip(self.into, self.found, strict=True):
            if into is not None:
                into.add_(found)
        del self.x, self.places
        return None  # samples want none


class _FusedConv1d(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        second: torch.Tensor,
        second_bias: torch.Tensor | None,
        sizes: Conv1dSizes,
        here: Target,
    ) -> torch.Tensor:
        x, ctx.biases = x.contiguous(), (bias is not None, second_bias is not None)
        bias = weight.new_zeros(sizes.hidden) if bias is None else bias.contiguous()
        second_bias = weight.new_zeros(sizes.outputs) if second_bias is None else second_bias.contiguous()
        turned = weight.permute(2, 1, 0).contiguous()
        scratch = x.new_empty(sizes.scratch(here))
        y: torch.Tensor
        y, places = x.new_empty(2, len(x), sizes.outputs)
        values = (x, turned, bias, second.permute(2, 1, 0).contiguous(), second_bias, scratch, y, places)
        kernel(Conv1dMaxPool(sizes), here)(*[value.data_ptr() for value in values], len(x))
        ctx.save_for_backward(x, turned, bias, second, places)
        ctx.how = sizes, here
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (x, turned, bias, second, places), (s, here) = ctx.saved_tensors, ctx.how
        scratch, slopes = x.new_empty(2, s.between * s.hidden)
        into = [x.new_zeros(size) for size in (turned.numel(), s.hidden, second.numel(), s.outputs)]
        turned_second = second.permute(0, 2, 1).contiguous()
        values = (x, turned, bias, turned_second, gradients[0].contiguous(), places, scratch, slopes, *into)
        kernel(Conv1dMaxPoolGradient(s), here)(*[value.data_ptr() for value in values], len(x))
        first, first_bias, far, far_bias = into
        return (
            None,
            first.view(s.near, s.inputs, s.hidden).permute(2, 1, 0),
            first_bias if ctx.biases[0] else None,
            far.view(s.outputs, s.far, s.hidden).permute(0, 2, 1),
            far_bias if ctx.biases[1] else None,
            None,
            None,
        )
