"""Residual networks in their CIFAR form: the first convolution is 3x3 with stride 1, and no max-pool follows.

Layers carry the names of the widely published ImageNet weights (`layer1.0.conv1.weight`), so that a file of
those can be read; see `fedroam.models.weights` for what is taken from it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import torch
from pydantic import field_validator
from torch import nn
from typing_extensions import override

from fedroam.components import Part, field, register
from fedroam.models.network import INIT, Init, Network, image_shape, initialise
from fedroam.models.weights import FirstConv, load_weights

WIDTHS = (64, 128, 256, 512)
Norm = Callable[[int], nn.Module]


class ResidualBlock(nn.Module):
    """`relu(x' + f(x))`, where f is convolutions with norms between, and x' is x or a 1x1 projection of it.

    Basic: two 3x3 convolutions. Bottleneck: 1x1, 3x3 with the stride, 1x1 to four times the width.
    He et al., "Deep residual learning for image recognition", CVPR 2016, Fig. 5.
    """

    def __init__(self, inputs: int, width: int, stride: int, bottleneck: bool, norm: Norm) -> None:
        super().__init__()
        outputs = 4 * width if bottleneck else width
        if bottleneck:
            self.conv1, self.bn1 = convolution(inputs, width, 1), norm(width)
            self.conv2, self.bn2 = convolution(width, width, 3, stride), norm(width)
        else:
            self.conv1, self.bn1 = convolution(inputs, width, 3, stride), norm(width)
            self.conv2, self.bn2 = convolution(width, width, 3), norm(width)
        self.conv3 = convolution(width, outputs, 1) if bottleneck else None
        self.bn3 = norm(outputs) if bottleneck else None
        self.downsample: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(convolution(inputs, outputs, 1, stride), norm(outputs))
        self.relu = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[n, inputs, h, w] -> [n, outputs, h / stride, w / stride], sizes rounded up."""
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.conv3 is not None and self.bn3 is not None:
            out = self.bn3(self.conv3(self.relu(out)))
        shortcut = x if self.downsample is None else self.downsample(x)
        result: torch.Tensor = self.relu(out + shortcut)
        return result


def convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    """A convolution that keeps the size (stride 1), without bias: a norm follows it."""
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)


def features(channels: int, depths: tuple[int, ...], bottleneck: bool, norm: Norm) -> nn.Sequential:
    """The extractor of a ResNet: [n, channels, h, w] -> [n, 512 or 2048], averaged over the image.

    depths: blocks in each of the four stages; all but the first stage begin by halving the image.
    """
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    layers["conv1"], layers["bn1"], layers["relu"] = convolution(channels, 64, 3), norm(64), nn.ReLU()
    inputs = 64
    for stage, (width, depth) in enumerate(zip(WIDTHS, depths, strict=True)):
        blocks = []
        for i in range(depth):
            stride = 2 if stage > 0 and i == 0 else 1
            blocks.append(ResidualBlock(inputs, width, stride, bottleneck, norm))
            inputs = 4 * width if bottleneck else width
        layers[f"layer{stage + 1}"] = nn.Sequential(*blocks)
    layers["avgpool"], layers["flatten"] = nn.AdaptiveAvgPool2d(1), nn.Flatten()
    return nn.Sequential(layers)


class _ResNet(Part):
    """The fields that the ResNets share."""

    norm: Literal["group", "batch"] = field(
        "batch", "normalisation: over groups of channels, or over the batch"
    )
    groups: int = field(32, "number of groups of channels where norm = group; a divisor of 64", ge=1, le=64)
    weights: str | None = field(None, "local safetensors file of ImageNet weights to start from")
    first_conv: FirstConv = field("skip", "the file's 7x7 first convolution: skip it, or take its centre 3x3")
    init: Init = field("default", INIT + "; before weights are loaded")

    @field_validator("groups")
    @classmethod
    def _divides(cls, groups: int) -> int:
        if 64 % groups:
            raise ValueError("allowed are 1, 2, 4, 8, 16, 32 and 64")
        return groups

    @override
    def reads(self) -> dict[str, Path]:
        return {} if self.weights is None else {"weights": Path(self.weights)}

    def _build(
        self, shape: tuple[int, ...], classes: int, depths: tuple[int, ...], bottleneck: bool
    ) -> Network:
        channels, _, _ = image_shape(self.kind, shape, classes, smallest=8)

        def norm(width: int) -> nn.Module:
            return nn.BatchNorm2d(width) if self.norm == "batch" else nn.GroupNorm(self.groups, width)

        extractor = features(channels, depths, bottleneck, norm)
        network = Network(extractor, nn.Linear((4 if bottleneck else 1) * WIDTHS[-1], classes))
        initialise(network, self.init)
        if self.weights is not None:
            report = load_weights(network, self.weights, f"model {self.kind!r}", self.first_conv)
            network.notes = (str(report),)
        return network


@register("model", "resnet18", "He et al., Deep residual learning for image recognition, CVPR 2016")
class ResNet18(_ResNet):
    """ResNet-18 in its CIFAR form: 3x3 first convolution with stride 1, no first max-pool.

    11,173,962 parameters for 10 classes and 3 channels, with either norm. GroupNorm (Wu & He, ECCV 2018)
    needs no running statistics, which averaging models of different data distorts.
    """

    def build(self, shape: tuple[int, ...], classes: int) -> Network:
        """A network for images of at least 8x8 pixels; 512 features. Its `notes` say what was loaded."""
        return self._build(shape, classes, (2, 2, 2, 2), bottleneck=False)


@register("model", "resnet50", "He et al., Deep residual learning for image recognition, CVPR 2016")
class ResNet50(_ResNet):
    """ResNet-50 in its CIFAR form: 3x3 first convolution with stride 1, no first max-pool.

    23,520,842 parameters for 10 classes and 3 channels, with either norm. The stride is on the 3x3 layers.
    """

    def build(self, shape: tuple[int, ...], classes: int) -> Network:
        """A network for images of at least 8x8 pixels; 2,048 features. Its `notes` say what was loaded."""
        return self._build(shape, classes, (3, 4, 6, 3), bottleneck=True)
