"""Two 1-D convolutions, a ReLU between, and a global max-pool as one layer, computed by kernels of ours."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from fedroam.learning.cpu.kernels import Conv1dMaxPool, Conv1dMaxPoolGradient, Conv1dSizes, Target, kernel


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
        scratch = x.new_empty(sizes.between * sizes.hidden)
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
