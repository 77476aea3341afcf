"""The convolutional part of a network as one step of autograd, computed by kernels of ours; other convolutions alone.

For what has no backward pass written out: objectives with terms of their own, networks with other layers behind.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from typing_extensions import override

from fedroam.learning.cpu.kernels import ConvStack, leading, stages_of
from fedroam.learning.cpu.sequential_layers import hooked
from fedroam.learning.cpu.tiled_conv2d import tile
from fedroam.learning.layout import Layout
from fedroam.native import Target, target


def fuse(module: nn.Module) -> nn.Module:
    """The network with kernels of ours in every sequence whose convolutional part they can compute, and in every other
    convolution that is faster by tiles.

    Such sequences and layers are replaced, in place below `module`; the names of parameters stay.
    """
    here = target()
    if here is None:
        return module
    for owner in list(module.modules()):
        for name, child in owner._modules.items():
            if type(child) is nn.Sequential:
                owner._modules[name] = _fused(child, here)
    whole = _fused(module, here) if type(module) is nn.Sequential else module
    tile(whole, here, FusedConv2d)
    return whole


def _fused(whole: nn.Sequential, here: Target) -> nn.Sequential:
    layers = list(whole.named_children())
    if hooked(whole) or len(layers) < len(whole):  # watched, or a layer is there twice
        return whole
    begin = next((k for k, (_, layer) in enumerate(layers) if type(layer) is nn.Conv2d), len(layers))
    blocks = leading(layers[begin:])
    end = begin + (blocks[-1].end if blocks else 0)
    ended = end == len(layers) or type(layers[end][1]) is nn.Flatten
    if not blocks or not ended or any(hooked(layer) for _, layer in layers[begin:end]):
        return whole
    return FusedConv2d(whole, begin, end, here)


class FusedConv2d(nn.Sequential):
    """The layers of a sequence, of which begin .. end - 1 are convolutions and what follows them: computed at once.

    What the kernels do not know (images that want a gradient, sizes that do not suit them, another precision or order
    of the weights) is left to the layers themselves.
    """

    def __init__(self, whole: nn.Sequential, begin: int, end: int, here: Target) -> None:
        super().__init__(OrderedDict(whole.named_children()))
        self.train(whole.training)
        self.begin, self.end, self.target = begin, end, here
        part = nn.Sequential(OrderedDict(list(whole.named_children())[begin:end]))
        self.layout, self.own = Layout.of(part), list(part.parameters())
        self.strides = [
            entry.view(torch.empty(self.layout.size)).stride() for entry in self.layout.parameters
        ]
        self.blocks = leading(list(part.named_children()))
        self.stacks: dict[tuple[int, ...], list[ConvStack] | None] = {}
        self.computed = 0  # how often, so that a backward pass knows whether the stacks still hold its values

    @override
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """As the layers one after the other."""
        layers, x = list(self), input
        for layer in layers[: self.begin]:
            x = layer(x)
        if self._suits(x):
            x = _Convolutions.apply(x, self, *self.own)
            layers = layers[self.end :]
        else:
            layers = layers[self.begin :]
        for layer in layers:
            x = layer(x)
        return x

    def _suits(self, x: torch.Tensor) -> bool:
        if x.dim() != 4 or not len(x) or x.requires_grad or x.dtype != torch.float32:
            return False
        if any(
            own.dtype != torch.float32 or own.stride() != stride
            for own, stride in zip(self.own, self.strides, strict=True)
        ):
            return False
        image = (x.shape[1], x.shape[2], x.shape[3])
        if image not in self.stacks:
            first = self._stack(image)
            self.stacks[image] = None if first is None else [first]
        return self.stacks[image] is not None

    def _stack(self, image: tuple[int, int, int]) -> ConvStack | None:
        entries = {entry.name: entry for entry in self.layout.parameters}
        stages = stages_of(self.blocks, image, entries)
        unused = torch.empty(self.layout.size)
        return None if stages is None else ConvStack(stages, self.target, lambda entry: entry.address(unused))

    def through(self, x: torch.Tensor, kept: bool) -> torch.Tensor:
        """The features [n, channels, height, width] of images; kept: a backward pass may be asked for."""
        image = (x.shape[1], x.shape[2], x.shape[3])
        stacks = self.stacks[image]
        assert stacks is not None
        values = dict(zip([entry.name for entry in self.layout.parameters], self.own, strict=True))
        found = []
        for k, piece in enumerate(x.split(stacks[0].many)):
            if kept and k == len(stacks):
                more = self._stack(image)
                assert more is not None
                stacks.append(more)
            stack = stacks[k if kept else 0]
            stack.attach(lambda entry: values[entry.name].data_ptr())
            found.append(stack.forward(piece).clone(memory_format=torch.contiguous_format))
        self.computed += 1
        y = stacks[0].stages[-1].y
        whole = found[0] if len(found) == 1 else torch.cat(found)
        return whole.view(len(x), y.channels, y.height, y.width)

    def back(self, x: torch.Tensor, gradient: torch.Tensor) -> Sequence[torch.Tensor]:
        """The parameters' gradients, of the features' gradient [n, channels, height, width]."""
        stacks = self.stacks[x.shape[1], x.shape[2], x.shape[3]]
        assert stacks is not None
        into = torch.zeros(self.layout.size)

        for stack, piece in zip(stacks, gradient.flatten(1).split(stacks[0].many), strict=False):
            stack.add_to(lambda entry: entry.address(into))
            stack.backward(piece, False)
        return [entry.view(into) for entry in self.layout.parameters]


class _Convolutions(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, owner: FusedConv2d, *parameters: torch.Tensor) -> torch.Tensor:
        y = owner.through(x, any(ctx.needs_input_grad))
        ctx.save_for_backward(x, *parameters)
        ctx.owner, ctx.computed = owner, owner.computed
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, owner = ctx.saved_tensors[0], ctx.owner
        if owner.computed != ctx.computed:  # for other samples since
            owner.through(x, True)
        return None, None, *owner.back(x, gradient)
