"""Loss and gradient of networks that are a sequence of well-known layers, with the backward pass written out.

For a small network, autograd and modules cost as much time as a fifth of the arithmetic. Here a step is one call
of torch for each layer and direction, and gradients go straight into the flat gradient vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import nn

from fedroam.learning.cpu.compiled.head import CompiledHead
from fedroam.learning.cpu.compiled.steps import CompiledSteps
from fedroam.learning.cpu.fused_conv1d import FusedConv1d, FusedConv1dLayer, ParameterHolder
from fedroam.learning.cpu.kernels import (
    Call,
    ConvStack,
    DenseLayer,
    DenseStack,
    FeatureKernels,
    Step,
    feature_kernels,
    leading,
    stages_of,
)
from fedroam.learning.cpu.sequential_layers import (
    WEIGHTED,
    Dropped,
    Flatten,
    Layer,
    Linear,
    MaxPool,
    ReLU,
    Unflatten,
    View,
    Weighted,
    hooked,
)
from fedroam.learning.cpu.tiled_conv2d import ConvolutionByTiles, Room, Tiles
from fedroam.learning.engine import Task
from fedroam.learning.forms import form_of
from fedroam.learning.layout import Entry
from fedroam.learning.objective import (
    AddsTerm,
    CrossEntropy,
    NeedsWholeBatches,
    Transformed,
    TransformsFeatures,
)
from fedroam.learning.samples import Samples, mostly_zeros
from fedroam.models import Dropout, Network, split
from fedroam.native import Target, target

_WITH_PARAMETERS = (Weighted, ConvStack, DenseStack, FusedConv1dLayer)
PIECE = 256  # samples of a large batch computed at a time: bounds the memory of activations


class _Features:
    """What an objective makes of the extractor's features, which the head's first layer gets: number `layer` of a
    sequence, or what computes the head.

    own: parameters between extractor and head, whose gradients go into `gradient` [parameters]; buffers: what else is
    there, which is read in the network itself. kernels: what computes it, if there are kernels for it. replaces:
    whether the head gets other features than the extractor's, which have two axes whatever those have.
    """

    def __init__(
        self,
        objective: AddsTerm | TransformsFeatures,
        layer: int,
        own: Sequence[Entry],
        gradient: torch.Tensor,
        buffers: Mapping[str, torch.Tensor],
        kernels: FeatureKernels | None = None,
    ) -> None:
        self.layer, self.own, self.gradient, self.kernels = layer, own, gradient, kernels
        self.into = {entry.name: entry.view(gradient) for entry in own}
        self.between, self.row = dict(buffers), gradient
        self.idle: list[Entry] = []
        # Asked once: to compare an object with a protocol takes as long as some layers.
        self.replaces = isinstance(objective, TransformsFeatures)
        self._look: Callable[..., Transformed]
        if isinstance(objective, TransformsFeatures):
            self._look = partial(objective.transformed, self.between)
            self.idle = [entry for entry in own if entry.name in objective.idle]
        else:
            self._look = partial(_Unchanged, objective)

    def attach(self, row: torch.Tensor) -> None:
        """Compute with a row's parameters from now on."""
        self.row = row
        for entry in self.own:
            self.between[entry.name] = entry.view(row)

    def seen(
        self, x: torch.Tensor, y: torch.Tensor, share: float, handed: Mapping[str, torch.Tensor]
    ) -> Transformed:
        """What the head gets of features x, and the term, of a batch that counts so much."""
        kernels = self.kernels
        if kernels is not None and x.dtype == torch.float32 and x.shape[1:] == (kernels.width,):
            each = {name: handed[name] for name in kernels.of_samples if name in handed}
            rest = {name: value for name, value in handed.items() if name not in each}
            others = kernels.known(rest, each, len(y), self.between)
            if others is not None:
                return _Compiled(kernels, x.contiguous(), y, share, (self.row, self.gradient), others)
        return self._look(x, y, **handed)


class _Unchanged:
    """Features that the head gets as they are, and a term of them."""

    def __init__(
        self, objective: AddsTerm, features: torch.Tensor, y: torch.Tensor, **handed: torch.Tensor
    ) -> None:
        term, self.slope = objective.term(features, y, **handed)
        self.outputs, self.term = features, float(term)

    def backward(self, slope: torch.Tensor, share: float, into: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """As `Transformed.backward`."""
        return slope.add(self.slope, alpha=share)


class _Compiled:
    """What kernels make of features of a batch that counts `share`.

    own: a row, and its gradient; others: as of `Step`.
    """

    def __init__(
        self,
        kernels: FeatureKernels,
        features: torch.Tensor,
        y: torch.Tensor,
        share: float,
        own: tuple[torch.Tensor, torch.Tensor],
        others: Sequence[torch.Tensor],
    ) -> None:
        n = len(y)
        self.kernels, self.kept = kernels, (y, positions := np.arange(n, dtype=np.int64), own, others)
        self.told = np.empty((1, kernels.told(n)), np.float32)
        row, gradient = (each.data_ptr() for each in own)
        places = features.data_ptr(), y.data_ptr(), positions.ctypes.data, 0, self.told.ctypes.data
        self.step = Step(n, share, row, gradient, *places, [each.data_ptr() for each in others])
        kernels.reserve(n)
        self._do(kernels.before(self.step))
        outputs = kernels.outputs(n)
        self.features, self.outputs = features, features if outputs is None else outputs

    @property
    def term(self) -> float:
        """As `Transformed.term`, once `backward` is done."""
        n, share = self.step.n, self.step.share
        return float(self.kernels.terms(self.told, n, share)[0]) / share

    def backward(self, slope: torch.Tensor, share: float, into: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """As `Transformed.backward`, in the place of the slope."""
        slope = slope.contiguous()
        self._do(self.kernels.after(replace(self.step, slopes=slope.data_ptr())))
        return slope

    @staticmethod
    def _do(calls: Sequence[Call]) -> None:
        for run, given in calls:
            run(*given)


class SequentialModel:
    """A network as layers. `attach` it to a client's row, then ask for `outputs`, or `add_gradient` of batches.

    many: samples for `add_gradient` at a time, at most, or it becomes slow. head: what computes the loss and all layers
    but the first, or, where there are `features`, all layers of the head, which are not among `layers` then; None: each
    layer by itself. features: what the objective makes of them.
    native: whether kernels of ours are among the layers; draws: whether layers draw from the thread's generator. idle:
    parameters that get no gradient.
    """

    def __init__(
        self,
        layers: list[Layer],
        classes: int,
        smoothing: float,
        many: int,
        head: CompiledHead | None = None,
        features: _Features | None = None,
    ) -> None:
        self.layers, self.many, self.head, self.features = layers, many, head, features
        self.native = any(isinstance(layer, (ConvStack, ConvolutionByTiles)) for layer in layers)
        self.idle = [] if features is None else features.idle
        self.draws = any(isinstance(layer, Dropped) for layer in layers)
        # Whether kernels of ours compute all of a step: they read parameters wherever these lie.
        self.compiled = head is not None and features is None and isinstance(layers[0], ConvStack)
        self.targets = torch.eye(classes) * (1 - smoothing) + smoothing / classes
        # Below the first layer with parameters nobody wants a gradient.
        known = [k for k, layer in enumerate(layers) if isinstance(layer, _WITH_PARAMETERS)]
        self.lowest = known[0] if known else len(layers)

    def attach(self, row: torch.Tensor) -> None:
        """Compute with the parameters in `row` (1-D) from now on."""
        for layer in self.layers:
            if isinstance(layer, ConvStack):
                layer.attach(lambda entry: entry.address(row))
            elif isinstance(layer, DenseStack):
                layer.attach(row)
            elif isinstance(layer, (Weighted, FusedConv1dLayer)):
                layer.attach(lambda entry: entry.view(row))
        if self.head is not None:
            self.head.attach(row)
        if self.features is not None:
            self.features.attach(row)

    def steps(
        self, task: Task, samples: Samples, gradient: torch.Tensor, check: Callable[[], None]
    ) -> CompiledSteps | None:
        """All steps of a client by one call of kernels: where the extractor is linear layers, and there are kernels for
        what the objective makes of its features."""
        first, kernels = self.layers[0], None if self.features is None else self.features.kernels
        if kernels is None or self.head is None or self.idle or len(self.layers) > 1:
            return None
        if not isinstance(first, DenseStack) or samples.base.dtype != torch.float32:
            return None
        if not first.outputs == kernels.width == self.head.layers[0].inputs:
            return None  # torch says what is wrong
        return CompiledSteps(task, samples, first, self.head, kernels, gradient, check)

    @torch.no_grad()
    def outputs(self, x: torch.Tensor) -> torch.Tensor:
        """The logits [n, classes] of samples x, any number of them. No gradient can be asked for afterwards."""
        first, *others = self.layers
        pieces = x.split(self.many)
        x = first.forward(x) if len(pieces) == 1 else torch.cat([first.forward(p).clone() for p in pieces])
        return self._through(others, x)

    def _through(self, layers: list[Layer], x: torch.Tensor) -> torch.Tensor:
        for layer in layers:
            x = layer.forward(x)
        return x

    def add_gradient(
        self,
        samples: Samples,
        index: torch.Tensor,
        share: float,
        handed: Mapping[str, torch.Tensor] | None = None,
    ) -> float:
        """Mean loss of the samples with these indices (int64 [n]), times `share`; as much of its gradient is added to
        the gradient vector. handed: what the federation hands the objective of these samples."""
        first = self.layers[0]
        if self.head is not None and self.features is None and isinstance(first, ConvStack):
            return self.head.add_gradient(first, samples, index, share)
        return self._by_layers(samples, index, share, handed or {})

    def _by_layers(
        self, samples: Samples, index: torch.Tensor, share: float, handed: Mapping[str, torch.Tensor]
    ) -> float:
        first = self.layers[0]
        if isinstance(first, ConvStack | DenseStack):
            x, y = first.forward_of(samples, index), samples.y.index_select(0, index)
        else:
            x, y = samples.pick(index)
            x = first.forward(x)
        boundary = 1 if self.features is None else self.features.layer
        x = self._through(self.layers[1:boundary], x)
        shape, seen, into = x.shape, None, {}
        flat = len(shape) == 2
        if self.features is not None:
            seen, into = self.features.seen(x if flat else x.flatten(1), y, share, handed), self.features.into
            x = seen.outputs if flat or self.features.replaces else seen.outputs.view(shape)
        if self.head is not None:
            loss, gradient = self.head.add_gradient_of(x, y, share)
        else:
            loss, gradient = self._loss(self._through(self.layers[boundary:], x), y, share)
        # What is between extractor and head wants it, whether or not there are parameters below.
        last = boundary if seen is not None else max(boundary, self.lowest)
        for k in range(len(self.layers) - 1, last - 1, -1):
            gradient = self._back(k, gradient, k > self.lowest or seen is not None)
        if seen is not None:
            below = seen.backward(gradient if flat else gradient.flatten(1), share, into)
            gradient = below if flat else below.view(shape)
        for k in range(boundary - 1, self.lowest - 1, -1):
            gradient = self._back(k, gradient, k > self.lowest)
        return loss if seen is None else loss + seen.term * share

    def _loss(self, logits: torch.Tensor, y: torch.Tensor, share: float) -> tuple[float, torch.Tensor]:
        """The mean loss times `share`, and its gradient."""
        log = torch.log_softmax(logits, 1)
        targets = self.targets.index_select(0, y)
        loss = -float(torch.dot(log.view(-1), targets.view(-1))) * share / len(y)
        return loss, log.exp_().sub_(targets).mul_(share / len(y))

    def _back(self, number: int, gradient: torch.Tensor, wanted: bool) -> torch.Tensor:
        """What a layer makes of a gradient, or the same where it makes nothing."""
        below = self.layers[number].backward(gradient, wanted)
        return gradient if below is None else below


def sequential_model(
    module: nn.Module, task: Task, gradient: torch.Tensor, native: bool = True
) -> SequentialModel | None:
    """The network as a sequence whose gradients go into `gradient` [parameters]; None where it cannot be one.

    It can where the objective is the plain cross-entropy, maybe with a term of the features (`AddsTerm`) or with
    something between extractor and head (`TransformsFeatures`), and the network is a sequence of 2-D convolutions,
    group norms, 2-D max-pools, two 1-D convolutions that kernels of ours compute, ReLUs, dropouts and linear layers,
    none of them frozen, shared or hooked, with an output for each class. native: whether convolutions may be computed
    by kernels of ours.
    """
    objective = task.objective
    extra: AddsTerm | TransformsFeatures | None = None
    if isinstance(objective, (AddsTerm, TransformsFeatures)):
        # What is transformed may be of a whole batch; beside a term something else may be taken of one.
        term = not isinstance(objective, TransformsFeatures)
        if term and isinstance(objective, NeedsWholeBatches) and objective.whole_batches:
            return None
        extra = objective
        objective = extra.base
    if type(objective) is not CrossEntropy or task.x.dim() not in (2, 4):
        return None
    named, features = _named(module, extra is not None)
    entries = {entry.name: entry for entry in task.layout.parameters}
    if not named or any(not p.requires_grad for p in module.parameters()):
        return None

    def view(entry: Entry) -> torch.Tensor:
        return entry.view(gradient)

    layers: list[Layer] = []
    used, many, begin, head, boundary = 0, PIECE, 0, None, 0
    here, room = target() if native else None, Room()
    most = len(named) if extra is None else features
    found = _conv_stack(named[:most], task, entries, gradient, here) if task.x.dim() == 4 else None
    if found is not None:
        stack, used, begin = found
        layers, many = [stack], stack.many
        if extra is None:
            head = _head(named[begin:], entries, objective.label_smoothing, gradient, stack.target)
    for position, (name, layer) in enumerate(named[begin:], begin):
        if position == features:
            boundary = len(layers)
        kind = WEIGHTED.get(type(layer))
        if kind is not None:
            weight, bias = entries.get(f"{name}.weight"), entries.get(f"{name}.bias")
            if weight is None or not _usual(layer):
                return None
            used += 1 + (bias is not None)
            tiles = Tiles.of(layer, here, room) if isinstance(layer, nn.Conv2d) else None
            if isinstance(layer, nn.Conv2d) and tiles is not None:
                layers.append(ConvolutionByTiles(layer, weight, bias, view, tiles))
            else:
                layers.append(kind(layer, weight, bias, view))
        elif type(layer) is FusedConv1d:
            joined = _fused_conv1d(layer, layers, module, entries, view)
            if joined is None:
                return None
            used += sum(entry is not None for entry in joined.entries)
            layers.append(joined)
        elif type(layer) is nn.MaxPool2d and not layer.return_indices:
            layers.append(MaxPool(layer))
        elif type(layer) is nn.ReLU:
            layers.append(ReLU(over=position > 0 and type(named[position - 1][1]) is not nn.ReLU))
        elif _flattens(layer):
            layers.append(Flatten())
        elif type(layer) is nn.Unflatten and layer.dim == 1 and not layers:
            layers.append(Unflatten(layer))
        elif type(layer) is Dropout:
            if layer.training and layer.p:
                layers.append(Dropped(layer))
        elif type(layer) not in (nn.Identity, ParameterHolder):  # these hand on what they are given
            return None
    own = _between(module, entries) if isinstance(extra, TransformsFeatures) else []
    last = named[-1][1]
    if type(last) is not nn.Linear or used + len(own) != len(entries) or not answers(last.out_features, task):
        return None
    seen, kernels, buffers = None, None, dict(module.named_buffers())
    if extra is not None:
        if not 0 < boundary < len(layers):
            return None
        if here is not None and task.x.dtype == torch.float32:
            head = _head(named[features:], entries, objective.label_smoothing, gradient, here)
            behind = [] if head is not None else layers[boundary:]
            extractor = _stacked(layers[:boundary], task.x, gradient, here)
            layers, boundary = extractor + behind, len(extractor)
            if head is not None:
                kernels = feature_kernels(form_of(task.objective), entries, buffers, head.layers, here)
        seen = _Features(extra, boundary, own, gradient, buffers, kernels)
    return SequentialModel(layers, last.out_features, objective.label_smoothing, many, head, seen)


def answers(outputs: int, task: Task) -> bool:
    """Whether so many outputs are enough for the classes of a task. Where they are not, torch says so; kernels would
    write at a sample's class, whatever lies there."""
    return not len(task.y) or 0 <= int(task.y.min()) <= int(task.y.max()) < outputs


def _between(module: nn.Module, entries: Mapping[str, Entry]) -> list[Entry]:
    """The parameters that belong neither to the extractor nor to the head."""
    known = {id(parameter) for part in split(module) for parameter in part.parameters()}
    return [entries[name] for name, parameter in module.named_parameters() if id(parameter) not in known]


def _named(module: nn.Module, in_two: bool) -> tuple[list[tuple[str, nn.Module]] | None, int]:
    """A network's innermost layers in their order, and the number of the head's first one; None for the layers where
    the order is not known, or buffers are read in them.

    in_two: whether its extractor and its head are asked alone, whatever else the network does with what they give. Else
    it is the network as it is called, and no layer is the head's first.
    """
    if not in_two:
        return (None if any(True for _ in module.buffers()) else sequence(module)), -1
    extractor, head = split(module)
    if any(True for part in (extractor, head) for _ in part.buffers()):
        return None, -1
    first, second = sequence(extractor, "extractor"), sequence(head, "head")
    return (None, -1) if first is None or second is None else (first + second, len(first))


def _fused_conv1d(
    layer: FusedConv1d, before: list[Layer], module: nn.Module, entries: Mapping[str, Entry], view: View
) -> FusedConv1dLayer | None:
    """The layer of a sequence, if what is before it makes series of the samples that its kernels compute."""
    if len(before) != 1 or not isinstance(before[0], Unflatten):
        return None
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    owners = (layer.before[0].weight, layer.before[0].bias, layer.weight, layer.bias)
    own = tuple(None if each is None else entries.get(names[id(each)]) for each in owners)
    shape = tuple(before[0].layer.unflattened_size)
    if len(shape) != 2 or shape[0] != layer.before[0].weight.shape[1] or own[0] is None or own[2] is None:
        return None
    made = FusedConv1dLayer(layer, int(shape[1]), own, view)
    return made if made.sizes.fits(layer.target) else None


def _head(
    named: list[tuple[str, nn.Module]],
    entries: dict[str, Entry],
    smoothing: float,
    gradient: torch.Tensor,
    here: Target,
) -> CompiledHead | None:
    """The layers behind the convolutions as one kernel, if they are linear with ReLU between."""
    kinds = [type(layer) for _, layer in named]
    if (
        not kinds
        or kinds[::2] != [nn.Linear] * len(kinds[::2])
        or kinds[1::2] != [nn.ReLU] * (len(kinds) // 2)
    ):
        return None
    linear = [(entries.get(f"{name}.weight"), entries.get(f"{name}.bias")) for name, _ in named[::2]]
    known = [(weight, bias) for weight, bias in linear if weight is not None]
    return CompiledHead(known, smoothing, gradient, here) if len(known) == len(linear) else None


def _stacked(layers: list[Layer], x: torch.Tensor, gradient: torch.Tensor, here: Target) -> list[Layer]:
    """The same layers with those at the end, if they are linear with ReLU between and maybe behind, as one of kernels;
    it reads samples (x) where they lie if nothing but their order of values is before it."""
    first = len(layers)
    while first and isinstance(layers[first - 1], Linear | ReLU):
        first -= 1
    if first < len(layers) and isinstance(layers[first], ReLU):
        first += 1
    before, found = layers[:first], layers[first:]
    linear = [layer for layer in found[::2] if isinstance(layer, Linear)]
    alternate = len(linear) == len(found[::2]) and all(isinstance(layer, ReLU) for layer in found[1::2])
    if not linear or not alternate:
        return layers
    dense = [DenseLayer.of(*layer.entries) for layer in linear]
    flat = x.dim() == 2
    if len(before) == 1 and isinstance(before[0], Flatten):
        before, flat = [], True
    # Elsewhere a layer takes the last axis alone.
    if isinstance(before[-1], Unflatten) if before else not flat or dense[0].inputs != math.prod(x.shape[1:]):
        return layers
    sparse = not before and mostly_zeros(x)
    return [*before, DenseStack(dense, len(found) % 2 == 0, gradient, here, sparse)]


def dense_extractor(module: nn.Module, task: Task) -> DenseStack | None:
    """A network's extractor by kernels, where it is linear layers with ReLU between, and maybe behind, of which nothing
    is drawn. None where it is not, or nothing is compiled."""
    here, (extractor, _) = target(), split(module)
    if here is None or task.x.dtype != torch.float32 or any(True for _ in extractor.buffers()):
        return None
    entries = {entry.name: entry for entry in task.layout.parameters}
    found = sequence(extractor, "extractor") or []
    flat = bool(found) and _flattens(found[0][1])
    found = [(name, layer) for name, layer in found[flat:] if not _hands_on(layer)]
    alternate = [type(layer) for _, layer in found] == ([nn.Linear, nn.ReLU] * len(found))[: len(found)]
    if not found or not alternate or (task.x.dim() > 2 and not flat):
        return None
    linear = [(entries.get(f"{name}.weight"), entries.get(f"{name}.bias")) for name, _ in found[::2]]
    known = [DenseLayer.of(weight, bias) for weight, bias in linear if weight is not None]
    if len(known) != len(linear):  # shared: it stands under another name
        return None
    unused = torch.empty(0)  # nothing goes back
    return DenseStack(known, len(found) % 2 == 0, unused, here, mostly_zeros(task.x))


def _flattens(layer: nn.Module) -> bool:
    """Whether a layer is `nn.Flatten` of all but the samples."""
    return type(layer) is nn.Flatten and (layer.start_dim, layer.end_dim) == (1, -1)


def _hands_on(layer: nn.Module) -> bool:
    """Whether a layer gives what it is given."""
    return type(layer) is nn.Identity or (type(layer) is Dropout and not (layer.training and layer.p))


def _conv_stack(
    named: list[tuple[str, nn.Module]],
    task: Task,
    entries: dict[str, Entry],
    gradient: torch.Tensor,
    here: Target | None,
) -> tuple[ConvStack, int, int] | None:
    """Our kernels as the first layer, its number of parameters, and the number of the layer after it, if they fit."""
    blocks = leading(named)
    if here is None or not blocks or blocks[-1].end == len(named):
        return None
    end = blocks[-1].end
    if not _flattens(named[end][1]):
        return None
    channels, height, width = task.x.shape[1:]
    stages = stages_of(blocks, (channels, height, width), entries)
    if stages is None:
        return None
    used = sum(entry is not None for stage in stages for entry in stage.entries)
    return ConvStack(stages, here, lambda entry: entry.address(gradient)), used, end + 1


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
