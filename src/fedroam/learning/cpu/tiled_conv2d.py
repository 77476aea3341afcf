"""Convolutions of wide layers by tiles of pixels: layers written out, and steps of autograd (residual networks)."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from typing_extensions import override

from fedroam.learning.cpu.kernels import (
    ChannelsConvolution,
    Images,
    TiledConvolution,
    TiledWeightGradient,
    Weights,
)
from fedroam.learning.cpu.sequential_layers import Convolution, View, Weighted, hooked
from fedroam.learning.layout import Entry
from fedroam.native import Kernel, Target, kernel


def tile(module: nn.Module, here: Target, other_than: type[nn.Module]) -> None:
    """Replace the convolutions below a network that kernels may compute by tiles, but those within some modules."""
    room = Room()
    within = {
        id(inner) for owner in module.modules() if isinstance(owner, other_than) for inner in owner.modules()
    }
    for owner in list(module.modules()):
        if id(owner) in within:
            continue
        for name, layer in owner._modules.items():
            tiles = None if type(layer) is not nn.Conv2d or hooked(layer) else Tiles.of(layer, here, room)
            if isinstance(layer, nn.Conv2d) and tiles is not None:
                owner._modules[name] = TiledConv2d(layer, tiles)


def _may(layer: nn.Conv2d) -> bool:
    """Whether a layer's settings are those that the kernels know, whatever the images."""
    plain = layer.stride == layer.dilation == (1, 1) and layer.groups == 1 and layer.padding_mode == "zeros"
    return plain and _sizes(layer.padding, (0, 0), layer.weight) is not None


def _sizes(
    padding: str | tuple[int, ...], image: tuple[int, int], weight: torch.Tensor
) -> ChannelsConvolution | None:
    """A convolution of images of this height and width; None where the kernels do not suit it."""
    outputs, inputs, side, wide = weight.shape
    if side != wide or isinstance(padding, str) or padding[0] != padding[1] or padding[0] >= side:
        return None
    high, across = (size + 2 * padding[0] - side + 1 if size else 0 for size in image)
    weights = Weights(side, side, (side * side * inputs, 1, side * inputs, inputs))
    x, y = Images(inputs, *image), Images(outputs, high, across)
    found = ChannelsConvolution(x, y, weights, padding[0])
    return found if found.suits and found.turned.suits else None


class Room:
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

    def __init__(self, sizes: ChannelsConvolution, bias: bool, here: Target, room: Room) -> None:
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

    def gradient_of_x(self, x: torch.Tensor, weight: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
        """Shaped as x."""
        (turn, room), _ = self._way_back()
        found = torch.empty_like(x)
        given = (slope.data_ptr(), weight.data_ptr(), 0, found.data_ptr())
        turn(*given, self.room.address(room), len(x))
        return found

    def add_gradient(self, x: torch.Tensor, slope: torch.Tensor, into: torch.Tensor) -> None:
        """Add the gradient of the weights to `into`, which lies as they do."""
        _, (sum_up, room) = self._way_back()
        given = (x.data_ptr(), slope.data_ptr(), into.data_ptr(), self.room.address(room))
        sum_up(*given, len(x))

    def _way_back(self) -> tuple[tuple[Kernel, int], tuple[Kernel, int]]:
        if self.back is None:
            turned = TiledConvolution(self.sizes.turned, False)
            self.back = self._made(turned), self._made(TiledWeightGradient(self.sizes))
        return self.back


class Tiles:
    """The kernels of one layer, for images of any size that suit them."""

    def __init__(self, layer: nn.Conv2d, here: Target, room: Room) -> None:
        self.padding, self.bias = layer.padding, layer.bias is not None
        self.target, self.room = here, room
        self.works: dict[tuple[int, int], _Work | None] = {}

    @classmethod
    def of(cls, layer: nn.Conv2d, here: Target | None, room: Room) -> Tiles | None:
        """None where no images would suit them, or there are no kernels."""
        return None if here is None or not _may(layer) else cls(layer, here, room)

    def work(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> _Work | None:
        """Those for images x; None where images or the layout of the parameters do not suit them."""
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
            sizes = _sizes(self.padding, image, weight)
            some = sizes is not None and min(sizes.y.height, sizes.y.width) > 0
            made = None if sizes is None or not some else _Work(sizes, self.bias, self.target, self.room)
            self.works[image] = made
        return self.works[image]


class ConvolutionByTiles(Weighted):
    """`nn.Conv2d` by tiles, where images suit the kernels; else by torch."""

    def __init__(
        self, layer: nn.Conv2d, weight: Entry, bias: Entry | None, gradient: View, tiles: Tiles
    ) -> None:
        super().__init__(layer, weight, bias, gradient)
        self.tiles, self.plain = tiles, Convolution(layer, weight, bias, gradient)
        self.at_work: _Work | None = None

    @override
    def attach(self, row: View) -> None:
        super().attach(row)
        self.plain.attach(row)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[n, inputs, height, width] -> [n, outputs, height after, width after]."""
        self.at_work = self.tiles.work(x, self.weight, self.bias)
        if self.at_work is None:
            return self.plain.forward(x)
        self.x = x.contiguous(memory_format=torch.channels_last)
        return self.at_work.output(self.x, self.weight, self.bias)

    def backward(self, gradient: torch.Tensor, wanted: bool) -> torch.Tensor | None:
        """Add the gradients of weight and bias."""
        if self.at_work is None:
            return self.plain.backward(gradient, wanted)
        slope = gradient.contiguous(memory_format=torch.channels_last)
        self.at_work.add_gradient(self.x, slope, self.for_weight)
        if self.for_bias is not None:
            self.for_bias.add_(slope.sum((0, 2, 3)))
        below = self.at_work.gradient_of_x(self.x, self.weight, slope) if wanted else None
        del self.x
        return below


class TiledConv2d(nn.Module):
    """A convolution by tiles, where images and the layout of the weights suit the kernels; else torch's.

    It keeps the layer's parameters under their names. Images and results lie channels-last.
    """

    def __init__(self, layer: nn.Conv2d, tiles: Tiles) -> None:
        super().__init__()
        self.weight, self.bias, self.padding = layer.weight, layer.bias, layer.padding
        self.tiles = tiles

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[n, inputs, height, width] -> [n, outputs, height after, width after]."""
        work = self.tiles.work(x, self.weight, self.bias)
        if work is None:
            return functional.conv2d(x, self.weight, self.bias, padding=self.padding)
        y: torch.Tensor = _Tiled.apply(x, self.weight, self.bias, work)
        return y


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
        of_x = ctx.work.gradient_of_x(x, weight, slope) if ctx.needs_input_grad[0] else None
        of_weight = None
        if ctx.needs_input_grad[1]:
            of_weight = torch.zeros_like(weight)
            ctx.work.add_gradient(x, slope, of_weight)
        of_bias = slope.sum((0, 2, 3)) if ctx.bias and ctx.needs_input_grad[2] else None
        return of_x, of_weight, of_bias, None
