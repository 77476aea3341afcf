"""Loss and gradient of networks that are a chain of well-known layers, with the backward pass written out.

For a small network, autograd and modules cost as much time as a fifth of the arithmetic. Here a step is one call
of torch for each layer and direction, and gradients go straight into the flat gradient vector.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from fedroam.learning.cpu.kernels import Front, leading, machine, stages_of
from fedroam.learning.cpu.sequential_layers import WEIGHTED, Flatten, MaxPool, ReLU, View, Weighted
from fedroam.learning.engine import Task
from fedroam.learning.matrix import Entry
from fedroam.learning.objective import CrossEntropy
from fedroam.models import Network

PIECE = 256  # samples of a large batch computed at a time: bounds the memory of activations


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
            if isinstance(link, (Weighted, Front)):
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
        kind = WEIGHTED.get(type(layer))
        if kind is not None:
            weight, bias = entries.get(f"{name}.weight"), entries.get(f"{name}.bias")
            if weight is None or not _usual(layer):
                return None
            used += 1 + (bias is not None)
            links.append(kind(layer, weight, bias, view))
        elif type(layer) is nn.MaxPool2d and not layer.return_indices:
            links.append(MaxPool(layer))
        elif type(layer) is nn.ReLU:
            links.append(ReLU(over=position > 0 and type(named[position - 1][1]) is not nn.ReLU))
        elif type(layer) is nn.Flatten and (layer.start_dim, layer.end_dim) == (1, -1):
            links.append(Flatten())
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
