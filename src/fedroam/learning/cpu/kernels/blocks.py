"""Which layers of a network are one block for the kernels, and how large its images are."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from fedroam.learning.cpu.kernels.convolution import (
    ConvolutionKernel,
    Images,
    Lattice,
    WeightGradient,
    Weights,
)
from fedroam.learning.cpu.kernels.max_pool import Window
from fedroam.learning.cpu.kernels.tiled import WinogradConvolution, WinogradWeightGradient, suits
from fedroam.learning.layout import Entry

WIDEST_VECTOR = 16  # float32 values, on any machine
WIDEST = 9  # columns of a kernel: its sums must fit the registers
HALVES = Window(2, 2)  # the pool that is part of what follows a convolution at once

Convolution = ConvolutionKernel | WinogradConvolution
Slope = WeightGradient | WinogradWeightGradient


@dataclass(frozen=True)
class ConvolutionBlock:
    """A convolution, and norm, max-pool and ReLU where there are some; the names of the layers with parameters.

    end: number of the layer after it.
    """

    convolution: nn.Conv2d
    name: str
    norm: nn.GroupNorm | None
    norm_name: str
    pool: Window | None
    relu: bool
    end: int

    @property
    def parameters(self) -> list[str]:
        """Names of weight, bias, and the norm's weight and bias; "" for what it does not have."""
        names = [f"{self.name}.weight", "" if self.convolution.bias is None else f"{self.name}.bias"]
        return names + (
            ["", ""] if self.norm is None else [f"{self.norm_name}.weight", f"{self.norm_name}.bias"]
        )


def leading(layers: Sequence[tuple[str, nn.Module]]) -> list[ConvolutionBlock]:
    """The blocks at the beginning of a sequence of layers, by name: each begins with a convolution."""
    found: list[ConvolutionBlock] = []
    k = 0
    while k < len(layers):
        name, convolution = layers[k]
        if type(convolution) is not nn.Conv2d:
            break
        k += 1
        norm_name, norm = layers[k] if k < len(layers) else ("", None)
        if type(norm) is nn.GroupNorm:
            k += 1
        else:
            norm_name, norm = "", None
        pool, relu = None, False
        # Both orders give the same: the largest value is the largest after ReLU too.
        while k < len(layers):
            layer = layers[k][1]
            window = _window(layer) if type(layer) is nn.MaxPool2d else None
            if window is not None and pool is None:
                pool = window
            elif type(layer) is nn.ReLU and not relu:
                relu = True
            else:
                break
            k += 1
        found.append(ConvolutionBlock(convolution, name, norm, norm_name, pool, relu, k))
    return found


def _window(layer: nn.MaxPool2d) -> Window | None:
    """A max-pool's windows; None where they are not square, or have gaps."""
    both = [_pair(value) for value in (layer.kernel_size, layer.stride, layer.padding)]
    if layer.return_indices or _pair(layer.dilation) != (1, 1):
        return None
    if any(down != across for down, across in both):
        return None
    size, step, padding = (down for down, _ in both)
    return Window(size, step, padding, layer.ceil_mode)


@dataclass(frozen=True)
class _WayBack:
    """A convolution from the gradient of raw to some pixels of that of x, and the zeros before what it reads."""

    weights: Weights
    above: int
    beside: int
    into: Lattice


class Stage:
    """A block with its sizes. border: columns of zeros that the next block wants beside y.

    after: what follows the convolution at once; it is y, but for a pool of other windows than 2x2 pixels side by side.
    """

    def __init__(self, block: ConvolutionBlock, x: Images, border: int, entries: dict[str, Entry]) -> None:
        layer, norm = block.convolution, block.norm
        (above, beside), (height, width) = _pair(layer.padding), _pair(layer.kernel_size)
        self.step = _pair(layer.stride)[0]
        high = (x.height + 2 * above - height) // self.step + 1
        wide = (x.width + 2 * beside - width) // self.step + 1
        halved = block.pool == HALVES
        out, side, self.pool = layer.out_channels, 2 if halved else 1, None if halved else block.pool
        self.x, self.raw = x, Images(out, high, wide)
        self.after = Images(out, high // side, wide // side, border if self.pool is None else 0)
        self.y = self.after if self.pool is None else self.pool.after(self.after, border)
        self.dx = Images(x.channels, x.height, x.width)
        self.dafter = Images(out, self.after.height, self.after.width)
        self.dy = Images(out, self.y.height, self.y.width)
        self.groups, self.eps = (0, 0.0) if norm is None else (norm.num_groups, norm.eps)
        self.side, self.relu, self.above, self.bias = side, block.relu, above, layer.bias is not None
        self.entries = [entries[name] if name else None for name in block.parameters]
        weight = entries[block.parameters[0]]
        out, channels, down, right = weight.view(torch.empty(weight.offset + weight.size)).stride()
        self.weights = Weights(height, width, (out, channels, down, right))
        self.beside = beside
        self.draw = Images(self.raw.channels, high, wide, self._border_back())

    def epilogue(self, kind: type[Any], samples: int, **more: Any) -> Any:
        """What comes after the convolution, as a kernel's description for so many samples."""
        lanes = math.gcd(samples, WIDEST_VECTOR)
        return kind(self.raw, self.after, self.side, self.relu, self.groups, self.eps, lanes, **more)

    def pooling(self, kind: type[Any], samples: int) -> Any:
        """What comes after that, as a kernel's description, if it is a pool by itself; else None."""
        lanes = math.gcd(samples, WIDEST_VECTOR)
        return None if self.pool is None else kind(self.after, self.y, self.pool, lanes)

    def convolution(self, samples: int) -> Convolution:
        """What gives raw of x."""
        if self.tiled:
            lanes = math.gcd(samples, WIDEST_VECTOR)
            return WinogradConvolution(self.x, self.raw, self.weights, self.above, self.bias, lanes)
        lanes = math.gcd(samples, WIDEST_VECTOR) if self.step > 1 else 1
        return ConvolutionKernel(
            self.x, self.raw, self.weights, self.above, self.bias, self.step, lanes=lanes
        )

    def turned(self, samples: int) -> list[Convolution]:
        """The convolutions that give the gradient of x, each of some of its pixels."""
        lanes = math.gcd(samples, WIDEST_VECTOR)
        if self._turned_by_tiles:
            weights, above = self.weights.turned(), self.weights.height - 1 - self.above
            return [WinogradConvolution(self.draw, self.dx, weights, above, False, lanes)]
        return [
            ConvolutionKernel(
                *(self.draw, self.dx, some.weights, some.above, False),
                beside=some.beside,
                into=some.into,
                lanes=lanes if self.step > 1 else 1,
            )
            for some in self._ways_back()
        ]

    def _ways_back(self) -> list[_WayBack]:
        """One for each kind of pixels of x: `step` to the side, they meet the same weights again."""
        found, height, width = [], self.weights.height, self.weights.width
        for row, column in itertools.product(range(self.step), repeat=2):
            first, above = self._met(row, self.above, height)
            left, beside = self._met(column, self.beside, width)
            weights, into = self.weights.every(self.step, first, left), Lattice(self.step, row, column)
            if min(into.height(self.dx), into.width(self.dx)) > 0:
                found.append(_WayBack(weights.turned(), above, beside, into))
        return found

    def _met(self, pixel: int, padding: int, weights: int) -> tuple[int, int]:
        """The first weight of a row or column that this pixel of x meets (each step pixels, another one), and how many
        zeros lie before the gradient then."""
        first = (pixel + padding) % self.step
        return first, -(-(weights - first) // self.step) - 1 - (pixel + padding) // self.step

    def _border_back(self) -> int:
        """Columns of zeros beside the gradient of raw that its convolutions read."""
        return max(
            max(some.beside, some.into.width(self.dx) + some.weights.width - 1 - some.beside - self.raw.width)
            for some in self._ways_back()
        )

    def slope(self, samples: int) -> Slope:
        """What gives the gradient of the weights."""
        lanes = math.gcd(samples, WIDEST_VECTOR)
        if self.tiled:
            return WinogradWeightGradient(self.x, self.draw, self.weights, self.above, lanes)
        lanes = lanes if self.step > 1 else 1
        return WeightGradient(self.x, self.draw, self.weights, self.above, self.step, lanes)

    @property
    def tiled(self) -> bool:
        """Whether the convolution is computed by tiles."""
        return self.step == 1 and suits(self.x, self.raw, self.weights)

    @property
    def _turned_by_tiles(self) -> bool:
        return self.step == 1 and suits(self.draw, self.dx, self.weights)

    @property
    def widths(self) -> list[int]:
        """How many pixels lie side by side where kernels need full vectors: those that are not computed by tiles do."""
        forward = [] if self.tiled else [self.raw.width]
        back = [] if self._turned_by_tiles else [some.into.width(self.dx) for some in self._ways_back()]
        return forward + back


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])


def stages_of(
    blocks: Sequence[ConvolutionBlock], image: tuple[int, int, int], entries: dict[str, Entry]
) -> list[Stage] | None:
    """The blocks with their sizes for images [channels, height, width]; None where kernels cannot do it.

    They can where convolutions move as many pixels down as across and skip none, in one group, with at most as much
    padding as loses no pixel.
    """
    stages: list[Stage] = []
    x = Images(*image)
    for k, block in enumerate(blocks):
        layer = block.convolution
        if layer.padding_mode != "zeros" or isinstance(layer.padding, str):
            return None
        if block.norm is not None and not block.norm.affine:
            return None
        if any(name and name not in entries for name in block.parameters):  # a layer that is used twice
            return None
        height, width = _pair(layer.kernel_size)
        (above, beside), plain = _pair(layer.padding), (1, 1)
        down, across = _pair(layer.stride)
        if down != across or _pair(layer.dilation) != plain or layer.groups != 1 or down > min(height, width):
            return None
        if width > WIDEST or above >= height or beside >= width or x.channels != layer.in_channels:
            return None
        if x.height + 2 * above < height or x.width + 2 * beside < width:
            return None
        border = beside if k == 0 else x.border
        x = Images(x.channels, x.height, x.width, border)
        following = _pair(blocks[k + 1].convolution.padding)[1] if k + 1 < len(blocks) else 0
        stage = Stage(block, x, following, entries)
        if min(stage.y.height, stage.y.width) < 1:
            return None
        stages.append(stage)
        x = stage.y
    return stages
