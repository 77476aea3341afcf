"""Loss and gradient of networks that are a chain of well-known layers, with the backward pass written out.

For a small network, autograd and modules cost as much time as a fifth of the arithmetic. Here a step is one call
of torch for each layer and direction, and gradients go straight into the flat gradient vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import nn

from fedroam.learning.engine import Task
from fedroam.learning.matrix import Entry
from fedroam.learning.native import Front, leading, machine, stages_of
from fedroam.learning.objective import CrossEntropy
from fedroam.models import Network

aten = torch.ops.aten
PIECE = 256  # samples of a large batch computed at a time: bounds the memory of activations
LANES = 16  # below so many channels torch's max-pool works on one value at a time
View = Callable[[Entry], torch.Tensor]


class Link(Protocol):
    """One layer. `forward` keeps what `backward` needs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer's output, maybe in the memory of its input."""

    def backward(self, gradient: torch.Tensor, wanted: bool) -> torch.Tensor | None:
        """Add to the gradients of weight and bias; return that of the input where it is wanted."""


class _Weighted:
    """A layer with weight and bias, views into a client's row; and with views into the gradient vector."""

    def __init__(self, layer: Any, weight: Entry, bias: Entry | None, gradient: View) -> None:
        self.layer, self.entries = layer, (weight, bias)
        self.for_weight, self.for_bias = gradient(weight), None if bias is None else gradient(bias)
        self.weight, self.bias = self.for_weight, self.for_bias  # until the first `attach`

    def attach(self, row: View) -> None:
        weight, bias = self.entries
        self.weight, self.bias = row(weight), None if bias is None else row(bias)


class _Convolution(_Weighted):
    def __init__(self, layer: nn.Conv2d, weight: Entry, bias: Entry | None, gradient: View) -> None:
        super().__init__(layer, weight, bias, gradient)
        # Stride, padding, dilation, not transposed, groups: as torch's internal convolutions take them.
        self.how: Any = (
            list(layer.stride),
            list(layer.padding),
            list(layer.dilation),
            False,
            [0, 0],
            layer.groups,
        )
        self.sizes = None if bias is None else [layer.out_channels]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.x = x
        return torch.convolution(x, self.weight, self.bias, *self.how)

    def backward(self, gradient: torch.Tensor, wanted: bool) -> torch.Tensor | None:
        asked = [wanted, True, self.sizes is not None]
        x, weight, bias = aten.convolution_backward.default(
            gradient, self.x, self.weight, self.sizes, *self.how, asked
        )
        self.for_weight.add_(weight)
        if self.for_bias is not None:
            self.for_bias.add_(bias)
        del self.x
        return x if wanted else None


class _Linear(_Weighted):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.x = x
        return x.mm(self.weight.t()) if self.bias is None else torch.addmm(self.bias, x, self.weight.t())

    def backward(self, gradient: torch.Tensor, wanted: bool) -> torch.Tensor | None:
        self.for_weight.addmm_(gradient.t(), self.x)
        if self.for_bias is not None:
            self.for_bias.add_(gradient.sum(0))
        del self.x
        return gradient.mm(self.weight) if wanted else None


class _GroupNorm(_Weighted):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.sizes = (x.shape[0], x.shape[1], math.prod(x.shape[2:]), self.layer.num_groups)
        y, mean, scale = torch.native_group_norm(x, self.weight, self.bias, *self.sizes, self.layer.eps)
        self.kept = (x, mean, scale)
        return y

    def backward(self, gradient: torch.Tensor, wanted: bool) -> torch.Tensor | None:
        # Always all three: without the first, torch 2.13 writes it to where there is no memory.
        x, weight, bias = aten.native_group_norm_backward.default(
            gradient, *self.kept, self.weight, *self.sizes, [True, True, True]
        )
        self.for_weight.add_(weight)
        if self.for_bias is not None:
            self.for_bias.add_(bias)
        del self.kept
        return x if wanted else None


class _MaxPool:
    def __init__(self, layer: nn.MaxPool2d) -> None:
        settings = (layer.kernel_size, layer.stride, layer.padding, layer.dilation)
        both = [[k, k] if isinstance(k, int) else list(k) for k in settings]
        self.how: Any = (*both, layer.ceil_mode)
        self.halves = both == [[2, 2], [2, 2], [0, 0], [1, 1]]
        self.halved: tuple[torch.Tensor, torch.Tensor] | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pixels = x.permute(0, 2, 3, 1)
        self.halved = None
        if (
            self.halves
            and x.shape[1] < LANES
            and x.shape[2] % 2 == x.shape[3] % 2 == 0
            and pixels.is_contiguous()
        ):
            return self._halve(pixels).permute(0, 3, 1, 2)
        y, where = aten.max_pool2d_with_indices.default(x, *self.how)
        self.kept = (x, where)
        return y

    def backward(self, gradient: torch.Tensor, wanted: bool) -> torch.Tensor | None:
        if self.halved is not None:
            return self._halve_backward(gradient.permute(0, 2, 3, 1)).permute(0, 3, 1, 2) if wanted else None
        x, where = self.kept
        del self.kept
        if not wanted:
            return None
        return aten.max_pool2d_with_indices_backward.default(gradient, x, *self.how, where)

    def _halve(self, x: torch.Tensor) -> torch.Tensor:
        """[n, height, width, channels], both even: the larger row of each two, then the larger column."""
        taller = torch.maximum(x[:, 0::2], x[:, 1::2])
        self.halved = x, taller
        return torch.maximum(taller[:, :, 0::2], taller[:, :, 1::2])

    def _halve_backward(self, gradient: torch.Tensor) -> torch.Tensor:
        assert self.halved is not None
        (x, taller), self.halved = self.halved, None
        # Among equal values the first one gets the gradient. threshold_backward(g, d, 0) is g where d > 0, else 0:
        # of torch's ways to mask, the fastest; but it must not write into every second column.
        between, result = torch.empty_like(taller), torch.empty_like(x)
        right = aten.threshold_backward.default(gradient, taller[:, :, 1::2] - taller[:, :, 0::2], 0)
        between[:, :, 1::2] = right
        torch.sub(gradient, right, out=between[:, :, 0::2])
        bottom = result[:, 1::2]
        aten.threshold_backward.grad_input(between, x[:, 1::2] - x[:, 0::2], 0, grad_input=bottom)
        torch.sub(between, bottom, out=result[:, 0::2])
        return result


class _ReLU:
    def __init__(self, over: bool) -> None:
        self.over = over  # whether the input may be overwritten

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.y = x.relu_() if self.over else x.relu()
        return self.y

    def backward(self, gradient: torch.Tensor, wanted: bool) -> torch.Tensor | None:
        y = self.y
        del self.y
        return aten.threshold_backward.default(gradient, y, 0) if wanted else None


class _Flatten:
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.shape = x.shape
        return x.flatten(1)

    def backward(self, gradient: torch.Tensor, wanted: bool) -> torch.Tensor | None:
        images = gradient.view(self.shape)
        return images.contiguous(memory_format=torch.channels_last) if len(self.shape) == 4 else images


_WEIGHTED: dict[type[nn.Module], Any] = {
    nn.Conv2d: _Convolution,
    nn.Linear: _Linear,
    nn.GroupNorm: _GroupNorm,
}


class Chain:
    """A network as links. `attach` it to a client's row, then ask for `outputs`, or `add_gradient` of batches.

    many: samples for `add_gradient` at a time, at most, or it becomes slow. native: whether kernels of ours are among
    the links.
    """

    def __init__(self, links: list[Any], classes: int, smoothing: float, many: int) -> None:
        self.links, self.many = links, many
        self.native = any(isinstance(link, Front) for link in links)
        self.targets = torch.eye(classes) * (1 - smoothing) + smoothing / classes

    def attach(self, row: torch.Tensor) -> None:
        """Compute with the parameters in `row` (1-D) from now on."""
        for link in self.links:
            if isinstance(link, (_Weighted, Front)):
                link.attach(lambda entry: entry.view(row))

    @torch.no_grad()
    def outputs(self, x: torch.Tensor) -> torch.Tensor:
        """The logits [n, classes] of samples x, any number of them. No gradient can be asked for afterwards."""
        first, *others = self.links
        pieces = x.split(self.many)
        x = first.forward(x) if len(pieces) == 1 else torch.cat([first.forward(p).clone() for p in pieces])
        return self._through(others, x)

    def _through(self, links: list[Any], x: torch.Tensor) -> torch.Tensor:
        for link in links:
            x = link.forward(x)
        return x

    @torch.no_grad()
    def add_gradient(self, x: torch.Tensor, y: torch.Tensor, share: float) -> float:
        """Mean loss of samples x, y, times `share`; as much of its gradient is added to the gradient vector."""
        x = self._through(self.links, x)
        log = torch.log_softmax(x, 1)
        targets = self.targets.index_select(0, y)
        loss = -float(torch.dot(log.view(-1), targets.view(-1))) * share / len(y)
        gradient = log.exp_().sub_(targets).mul_(share / len(y))
        for k in range(len(self.links) - 1, -1, -1):
            gradient = self.links[k].backward(gradient, k > 0)
        return loss


def chain_of(module: nn.Module, task: Task, gradient: torch.Tensor, native: bool = True) -> Chain | None:
    """The network as a chain whose gradients go into `gradient` [parameters]; None where it cannot be one.

    It can where the objective is the plain cross-entropy, and the network is a sequence of 2-D convolutions,
    group norms, 2-D max-pools, ReLUs and linear layers, none of them frozen, shared or hooked. native: whether
    convolutions may be computed by kernels of ours.
    """
    if type(task.objective) is not CrossEntropy or task.layout.buffers or task.x.dim() not in (2, 4):
        return None
    named = sequence(module)
    entries = {entry.name: entry for entry in task.layout.parameters}
    if not named or any(not p.requires_grad for p in module.parameters()):
        return None

    def view(entry: Entry) -> torch.Tensor:
        return entry.view(gradient)

    links: list[Any] = []
    used, many, begin = 0, PIECE, 0
    if native and task.x.dim() == 4:
        links, used, begin = _front(named, task, entries, view)
        many = links[0].many if links else PIECE
    for position, (name, layer) in enumerate(named[begin:], begin):
        kind = _WEIGHTED.get(type(layer))
        if kind is not None:
            weight, bias = entries.get(f"{name}.weight"), entries.get(f"{name}.bias")
            if weight is None or not _usual(layer):
                return None
            used += 1 + (bias is not None)
            links.append(kind(layer, weight, bias, view))
        elif type(layer) is nn.MaxPool2d and not layer.return_indices:
            links.append(_MaxPool(layer))
        elif type(layer) is nn.ReLU:
            links.append(_ReLU(over=position > 0 and type(named[position - 1][1]) is not nn.ReLU))
        elif type(layer) is nn.Flatten and (layer.start_dim, layer.end_dim) == (1, -1):
            links.append(_Flatten())
        else:
            return None
    if type(named[-1][1]) is not nn.Linear or used != len(entries):
        return None
    return Chain(links, named[-1][1].out_features, task.objective.label_smoothing, many)


def _front(
    named: list[tuple[str, nn.Module]], task: Task, entries: dict[str, Entry], view: View
) -> tuple[list[Any], int, int]:
    """Our kernels as the first link, its number of parameters, and the number of the layer after it, if they fit."""
    here, blocks = machine(), leading(named)
    end = blocks[-1].end if blocks else 0
    flat = named[end][1] if end < len(named) else None
    if (
        here is None
        or not blocks
        or type(flat) is not nn.Flatten
        or (flat.start_dim, flat.end_dim) != (1, -1)
    ):
        return [], 0, 0
    channels, height, width = task.x.shape[1:]
    stages = stages_of(blocks, (channels, height, width), entries)
    if stages is None:
        return [], 0, 0
    used = sum(entry is not None for stage in stages for entry in stage.entries)
    return [Front(stages, here, view)], used, end + 1


def _usual(layer: nn.Module) -> bool:
    if isinstance(layer, nn.Conv2d):
        return layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    return not isinstance(layer, nn.GroupNorm) or layer.affine


def sequence(module: nn.Module, name: str = "") -> list[tuple[str, nn.Module]] | None:
    """A network's innermost layers in the order of computation, by name; None where that order is not known."""
    if hooked(module):
        return None
    if type(module) not in (Network, nn.Sequential):
        return [(name, module)] if not list(module.children()) else None
    layers: list[tuple[str, nn.Module]] = []
    for key, child in module._modules.items():
        inner = None if child is None else sequence(child, f"{name}.{key}" if name else key)
        if inner is None:
            return None
        layers += inner
    return layers


def hooked(layer: nn.Module) -> bool:
    """Whether someone watches a layer, or its parameters are computed from others (weight norm and the like)."""
    hooks = (layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks, layer._backward_pre_hooks)
    return any(hooks) or hasattr(layer, "parametrizations")
