"""Layers that compute the same as torch's, faster on a CPU, put in place of those of a worker's own network.

All of it is about where values lie: with the channels of one pixel side by side (channels-last), a processor
works on 16 channels at a time. Values and gradients are torch's own to rounding. A replaced layer keeps its
parameter objects under their names; a layer of another class, with hooks or with unusual settings is left alone.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from fedroam.learning.cpu.fused_conv1d import FusedConv1d, ParameterHolder, suits
from fedroam.learning.cpu.sequential_layers import hooked
from fedroam.native import Target, target

# Inputs of one output value: below, a convolution is slower than a matrix product over a copy of all windows.
NARROW = 16
aten = torch.ops.aten


def quicken(module: nn.Module, native: bool = True) -> nn.Module:
    """Replace what can be replaced below `module`, in place; returns it. native: kernels of ours may be used."""
    here = target() if native else None
    for owner in list(module.modules()):
        before: nn.Module | None = None
        if type(owner) is nn.Sequential:
            if here is not None:
                _fuse_convolutions(owner, here)
            _fuse_pools(owner)
        for name, layer in owner._modules.items():
            if layer is None or hooked(layer):
                before = None
                continue
            if type(layer) is nn.Conv1d and layer.padding_mode == "zeros" and layer.groups == 1:
                owner._modules[name] = Convolution1d(layer)
            elif (
                type(layer) is nn.ReLU
                and type(owner) is nn.Sequential
                and type(before) in _REPLACEABLE_OUTPUT
            ):
                owner._modules[name] = nn.ReLU(inplace=True)
            before = layer
    return module


def _fuse_convolutions(owner: nn.Sequential, here: Target) -> None:
    """Two 1-D convolutions with a ReLU between and a global max-pool behind become one layer, if kernels suit them."""
    for names in zip(*(list(owner._modules)[k:] for k in range(4)), strict=False):
        layers: list[Any] = [owner._modules[name] for name in names]
        kinds: tuple[Any, ...] = (nn.Conv1d, nn.ReLU, nn.Conv1d, nn.AdaptiveMaxPool1d)
        if any(type(layer) is not kind or hooked(layer) for layer, kind in zip(layers, kinds, strict=True)):
            continue
        first, _, second, pool = layers
        simple = all(_plain(layer) and layer.groups == 1 for layer in (first, second))
        if simple and first is not second and _whole(pool) and suits(first, second, here):
            kept = ParameterHolder(first)
            joined = (kept, nn.Identity(), FusedConv1d(kept, second, here), nn.Identity())
            owner._modules.update(zip(names, joined, strict=True))


def _whole(pool: nn.AdaptiveMaxPool1d) -> bool:
    return pool.output_size in (1, (1,)) and not pool.return_indices


def _fuse_pools(owner: nn.Sequential) -> None:
    """A 1-D convolution followed at once by a global max-pool becomes one layer."""
    names = list(owner._modules)
    for name, after in itertools.pairwise(names):
        layer, pool = owner._modules[name], owner._modules[after]
        if type(layer) is not nn.Conv1d or type(pool) is not nn.AdaptiveMaxPool1d:
            continue
        if _whole(pool) and _plain(layer) and layer.groups == 1 and not (hooked(layer) or hooked(pool)):
            owner._modules[name], owner._modules[after] = PooledConvolution1d(layer), nn.Identity()


def _plain(layer: nn.Conv1d) -> bool:
    return layer.stride == (1,) and layer.padding in ((0,), "valid") and layer.dilation == (1,)


# Layers whose backward pass does not need their own output, so that a ReLU may overwrite it.
_REPLACEABLE_OUTPUT = (nn.Conv1d, nn.Conv2d, nn.Linear, nn.MaxPool2d, nn.GroupNorm, nn.BatchNorm2d)


class Convolution1d(nn.Module):
    """A 1-D convolution whose result lies channels-last."""

    def __init__(self, layer: nn.Conv1d) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias
        self.stride, self.padding, self.dilation = layer.stride, layer.padding, layer.dilation
        self.narrow = _plain(layer) and layer.in_channels * layer.kernel_size[0] < NARROW

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[n, inputs, length] -> [n, outputs, length after]."""
        if x.dim() != 3:
            return functional.conv1d(x, self.weight, self.bias, self.stride, self.padding, self.dilation)
        if self.narrow and not x.requires_grad:
            y: torch.Tensor = _Windows.apply(x, self.weight, self.bias)
            return y
        flat = x.unsqueeze(2).contiguous(memory_format=torch.channels_last)
        padding = self.padding if isinstance(self.padding, str) else (0, *self.padding)
        return functional.conv2d(
            flat, self.weight.unsqueeze(2), self.bias, (1, *self.stride), padding, (1, *self.dilation)
        ).squeeze(2)


class _Windows(torch.autograd.Function):
    """A narrow convolution of samples (which need no gradient) as one matrix product over all windows."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        outputs, inputs, width = weight.shape
        windows = x.unfold(2, width, 1).transpose(1, 2).reshape(-1, inputs * width)
        matrix = weight.reshape(outputs, inputs * width).t()
        length = x.shape[2] - width + 1
        # Not a view of anything, or no later layer could overwrite it.
        result = x.new_empty_strided((len(x), outputs, length), (length * outputs, 1, outputs))
        flat = result.transpose(1, 2).view(-1, outputs)
        if bias is None:
            torch.mm(windows, matrix, out=flat)
        else:
            torch.addmm(bias, windows, matrix, out=flat)
        ctx.save_for_backward(x, weight)
        ctx.bias = bias is not None
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (gradient,) = gradients
        x, weight = ctx.saved_tensors
        for_weight = aten.convolution_backward(
            gradient.unsqueeze(2),
            x.unsqueeze(2),
            weight.unsqueeze(2),
            None,
            [1, 1],
            [0, 0],
            [1, 1],
            False,
            [0, 0],
            1,
            [False, True, False],
        )[1]
        return None, for_weight.squeeze(2), gradient.sum((0, 2)) if ctx.bias else None


class PooledConvolution1d(nn.Module):
    """A 1-D convolution and the largest value of each of its outputs over the whole length.

    All but one place of each output get no gradient, so the backward pass looks at that place's inputs alone:
    a hundredth of the arithmetic for a length of a hundred.
    """

    def __init__(self, layer: nn.Conv1d) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[n, inputs, length] -> [n, outputs, 1]."""
        if x.dim() != 3:
            return functional.adaptive_max_pool1d(functional.conv1d(x, self.weight, self.bias), 1)
        y: torch.Tensor = _PooledConvolution.apply(x, self.weight, self.bias)
        return y


class _PooledConvolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        flat = x.unsqueeze(2).contiguous(memory_format=torch.channels_last)
        largest: torch.Tensor
        largest, place = aten.adaptive_max_pool2d(functional.conv2d(flat, weight.unsqueeze(2), bias), (1, 1))
        ctx.save_for_backward(flat, weight, place.flatten(1))
        ctx.bias = bias is not None
        return largest.new_empty((*largest.shape[:2], 1)).copy_(largest.squeeze(3))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        gradient = gradients[0].flatten(1)  # [n, outputs]
        flat, weight, place = ctx.saved_tensors
        (n, inputs, _, length), (outputs, _, width) = flat.shape, weight.shape
        pixels = flat.permute(0, 2, 3, 1).reshape(n * length, inputs)
        first = place + torch.arange(0, n * length, length)[:, None]
        window = (first[:, :, None] + torch.arange(width)).flatten()
        seen = pixels.index_select(0, window).view(n, outputs, width * inputs)
        for_weight = seen.mul_(gradient[:, :, None]).sum(0).view(outputs, width, inputs).transpose(1, 2)
        for_x = None
        if ctx.needs_input_grad[0]:
            kernel = weight.transpose(1, 2).reshape(outputs, width * inputs)
            parts = (gradient[:, :, None] * kernel).view(-1, inputs)
            for_x = torch.zeros_like(pixels).index_add_(0, window, parts)
            for_x = for_x.view(n, length, inputs).transpose(1, 2)
        return for_x, for_weight, gradient.sum(0) if ctx.bias else None
