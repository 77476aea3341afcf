"""Which layers of a network are one block for the kernels, and how large its images are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from fedroam.learning.cpu.kernels.convolution import ConvolutionKernel, Images, WeightGradient, Weights
from fedroam.learning.cpu.kernels.tiled import WinogradConvolution, WinogradWeightGradient, suits
from fedroam.learning.layout import Entry

WIDEST_VECTOR = 16  # float32 values, on any machine
WIDEST = 9  # columns of a kernel: its sums must fit the registers

Convolution = ConvolutionKernel | WinogradConvolution
Slope = WeightGradient | WinogradWeightGradient


@dataclass(frozen=True)
class ConvolutionBlock:
    """A convolution, and norm, 2x2 max-pool and ReLU where there are some; the names of the layers with parameters.

    end: number of the layer after it.
    """

    convolution: nn.Conv2d
    name: str
    norm: nn.GroupNorm | None
    norm_name: str
    pooled: bool
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
        kinds = []
        # Both orders give the same: the largest value is the largest after ReLU too.
        while k < len(layers) and type(layers[k][1]) in (nn.MaxPool2d, nn.ReLU):
            if type(layers[k][1]) in kinds or not _halves(layers[k][1]):
                break
            kinds.append(type(layers[k][1]))
            k += 1
        pooled, relu = nn.MaxPool2d in kinds, nn.ReLU in kinds
        found.append(ConvolutionBlock(convolution, name, norm, norm_name, pooled, relu, k))
    return found


def _halves(layer: nn.Module) -> bool:
    """Whether a layer is no pool, or one of 2x2 pixels side by side that leaves an odd one out."""
    if not isinstance(layer, nn.MaxPool2d):
        return True
    settings = (layer.kernel_size, layer.stride, layer.padding, layer.dilation)
    plain = [_pair(value) for value in settings] == [(2, 2), (2, 2), (0, 0), (1, 1)]
    return plain and not layer.return_indices and not layer.ceil_mode


class Stage:
    """A block with its sizes. border: columns of zeros that the next block wants beside y."""

    def __init__(self, block: ConvolutionBlock, x: Images, border: int, entries: dict[str, Entry]) -> None:
        layer, norm = block.convolution, block.norm
        (above, beside), (height, width) = _pair(layer.padding), _pair(layer.kernel_size)
        high, wide = x.height + 2 * above - height + 1, x.width + 2 * beside - width + 1
        out, side = layer.out_channels, 2 if block.pooled else 1
        self.x, self.raw = x, Images(out, high, wide)
        self.y = Images(out, high // side, wide // side, border)
        self.dx = Images(x.channels, x.height, x.width)
        self.draw = Images(out, high, wide, width - 1 - beside)
        self.dy = Images(out, high // side, wide // side)
        self.groups, self.eps = (0, 0.0) if norm is None else (norm.num_groups, norm.eps)
        self.side, self.relu, self.above, self.bias = side, block.relu, above, layer.bias is not None
        self.entries = [entries[name] if name else None for name in block.parameters]
        weight = entries[block.parameters[0]]
        out, channels, down, right = weight.view(torch.empty(weight.offset + weight.size)).stride()
        self.weights = Weights(height, width, (out, channels, down, right))

    def epilogue(self, kind: type[Any], samples: int, **more: Any) -> Any:
        """What comes after the convolution, as a kernel's description for so many samples."""
        lanes = math.gcd(samples, WIDEST_VECTOR)
        return kind(self.raw, self.y, self.side, self.relu, self.groups, self.eps, lanes, **more)

    def convolution(self, samples: int) -> Convolution:
        """What gives raw of x."""
        return self._convolution(self.x, self.raw, self.weights, self.above, self.bias, samples)

    def turned(self, samples: int) -> Convolution:
        """The convolution that gives the gradient of x."""
        above = self.weights.height - 1 - self.above
        return self._convolution(self.draw, self.dx, self.weights.turned(), above, False, samples)

    def _convolution(
        self, x: Images, y: Images, weights: Weights, above: int, bias: bool, samples: int
    ) -> Convolution:
        if suits(x, y, weights):
            return WinogradConvolution(x, y, weights, above, bias, math.gcd(samples, WIDEST_VECTOR))
        return ConvolutionKernel(x, y, weights, above, bias)

    def slope(self, samples: int) -> Slope:
        """What gives the gradient of the weights."""
        if self.tiled:
            lanes = math.gcd(samples, WIDEST_VECTOR)
            return WinogradWeightGradient(self.x, self.draw, self.weights, self.above, lanes)
        return WeightGradient(self.x, self.draw, self.weights, self.above)

    @property
    def tiled(self) -> bool:
        """Whether the convolution is computed by tiles."""
        return suits(self.x, self.raw, self.weights)

    @property
    def widths(self) -> list[int]:
        """How many pixels lie side by side where kernels need full vectors: those that are not computed by tiles do."""
        images = ((self.x, self.raw), (self.draw, self.dx))
        return [y.width for x, y in images if not suits(x, y, self.weights)]


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])


def stages_of(
    blocks: Sequence[ConvolutionBlock], image: tuple[int, int, int], entries: dict[str, Entry]
) -> list[Stage] | None:
    """The blocks with their sizes for images [channels, height, width]; None where kernels cannot do it.

    They can where convolutions move by one pixel, in one group, with at most as much padding as loses no pixel.
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
        if _pair(layer.stride) != plain or _pair(layer.dilation) != plain or layer.groups != 1:
            return None
        if width > WIDEST or above >= height or beside >= width or x.channels != layer.in_channels:
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
