"""Convolutions of wide layers as steps of autograd, by tiles of pixels: those of residual networks."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from fedroam.learning.cpu.kernels import (
    ChannelsConvolution,
    Images,
    Kernel,
    Target,
    TiledConvolution,
    TiledWeightGradient,
    Weights,
    kernel,
)
from fedroam.learning.cpu.sequential import hooked


def tile(module: nn.Module, here: Target, other_than: type[nn.Module]) -> None:
    """Replace the convolutions below a network that kernels may compute by tiles, but those within some modules."""
    room = _Room()
    within = {
        id(inner) for owner in module.modules() if isinstance(owner, other_than) for inner in owner.modules()
    }
    for owner in list(module.modules()):
        if id(owner) in within:
            continue
        for name, layer in owner._modules.items():
            if type(layer) is nn.Conv2d and not hooked(layer) and _may(layer):
                owner._modules[name] = TiledConv2d(layer, here, room)


def _may(layer: nn.Conv2d) -> bool:
    """Whether a layer's settings are those that the kernels know, whatever the images."""
    plain = layer.stride == layer.dilation == (1, 1) and layer.groups == 1 and layer.padding_mode == "zeros"
    return plain and not isinstance(layer.padding, str) and _sizes(layer, (0, 0), layer.weight) is not None


def _sizes(
    layer: nn.Conv2d | TiledConv2d, image: tuple[int, int], weight: torch.Tensor
) -> ChannelsConvolution | None:
    """A convolution of images of this height and width; None where the kernels do not suit it."""
    outputs, inputs, side, wide = weight.shape
    padding = layer.padding
    if side != wide or isinstance(padding, str) or padding[0] != padding[1] or padding[0] >= side:
        return None
    high, across = (size + 2 * padding[0] - side + 1 if size else 0 for size in image)
    weights = Weights(side, side, (side * side * inputs, 1, side * inputs, inputs))
    x, y = Images(inputs, *image), Images(outputs, high, across)
    found = ChannelsConvolution(x, y, weights, padding[0])
    return found if found.suits and found.turned.suits else None


class _Room:
    """Memory for kernels to work in: one at a time, of one worker."""

    def __init__(self) -> None:
        self.values = torch.empty(0)

    def address(self, values: int) -> int:
        """Where so many float32 values may be written."""
        if len(self.values) < values:
            self.values = torch.empty(values)
        return self.values.data_ptr()


class _Work:
    """The kernels of one layer for images of one size."""

    def __init__(self, sizes: ChannelsConvolution, bias: bool, here: Target, room: _Room) -> None:
        self.sizes, self.here, self.room = sizes, here, room
        self.forward = self._made(TiledConvolution(sizes, bias))
        self.back: tuple[tuple[Kernel, int], tuple[Kernel, int]] | None = None

    def _made(self, spec: TiledConvolution | TiledWeightGradient) -> tuple[Kernel, int]:
        return kernel(spec, self.here), spec.scratch(self.here)

    def output(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        y = self.sizes.y
        found = x.new_empty_strided(
            (len(x), y.channels, y.height, y.width),
            (y.channels * y.height * y.width, 1, y.width * y.channels, y.channels),
        )
        run, room = self.forward
        at_bias = 0 if bias is None else bias.data_ptr()
        run(x.data_ptr(), weight.data_ptr(), at_bias, found.data_ptr(), self.room.address(room), len(x))
        return found

    def gradients(
        self, x: torch.Tensor, weight: torch.Tensor, slope: torch.Tensor, wanted: tuple[bool, bool]
    ) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Of x and of the weights, where they are wanted."""
        if self.back is None:
            turned = TiledConvolution(self.sizes.turned, False)
            self.back = self._made(turned), self._made(TiledWeightGradient(self.sizes))
        (turn, room), (sum_up, more) = self.back
        of_x, of_weight = None, None
        if wanted[0]:
            of_x = torch.empty_like(x)
            given = (slope.data_ptr(), weight.data_ptr(), 0, of_x.data_ptr())
            turn(*given, self.room.address(room), len(x))
        if wanted[1]:
            of_weight = torch.zeros_like(weight)
            given = (x.data_ptr(), slope.data_ptr(), of_weight.data_ptr(), self.room.address(more))
            sum_up(*given, len(x))
        return of_x, of_weight


class TiledConv2d(nn.Module):
    """A convolution by tiles, where images and the layout of the weights suit the kernels; else torch's.

    It keeps the layer's parameters under their names. Images and results lie channels-last.
    """

    def __init__(self, layer: nn.Conv2d, here: Target, room: _Room) -> None:
        super().__init__()
        self.weight, self.bias, self.padding = layer.weight, layer.bias, layer.padding
        self.target, self.room = here, room
        self.works: dict[tuple[int, int], _Work | None] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[n, inputs, height, width] -> [n, outputs, height after, width after]."""
        work = self._work(x)
        if work is None:
            return functional.conv2d(x, self.weight, self.bias, padding=self.padding)
        y: torch.Tensor = _Tiled.apply(x, self.weight, self.bias, work)
        return y

    def _work(self, x: torch.Tensor) -> _Work | None:
        weight, bias = self.weight, self.bias
        if x.dim() != 4 or not len(x) or x.shape[1] != weight.shape[1]:
            return None
        if any(each is not None and each.dtype != torch.float32 for each in (x, weight, bias)):
            return None
        if not weight.is_contiguous(memory_format=torch.channels_last):
            return None
        if bias is not None and not bias.is_contiguous():
            return None
        image = (x.shape[2], x.shape[3])
        if image not in self.works:
            sizes = _sizes(self, image, weight)
            some = sizes is not None and min(sizes.y.height, sizes.y.width) > 0
            made = (
                None if sizes is None or not some else _Work(sizes, bias is not None, self.target, self.room)
            )
            self.works[image] = made
        return self.works[image]


class _Tiled(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, work: _Work
    ) -> torch.Tensor:
        x = x.contiguous(memory_format=torch.channels_last)
        ctx.save_for_backward(x, weight)
        ctx.work, ctx.bias = work, bias is not None
        return work.output(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        slope = gradient.contiguous(memory_format=torch.channels_last)
        of_x, of_weight = ctx.work.gradients(x, weight, slope, ctx.needs_input_grad[:2])
        of_bias = slope.sum((0, 2, 3)) if ctx.bias and ctx.needs_input_grad[2] else None
        return of_x, of_weight, of_bias, None
