"""What an objective of a known form makes of the features: its kernels, and the memory between them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import torch
from typing_extensions import override

from fedroam.learning.cpu.kernels.between.contrast import ContrastTerm
from fedroam.learning.cpu.kernels.between.memory import MemoryAhead, MemoryBack
from fedroam.learning.cpu.kernels.between.prototypes import PrototypeTerm
from fedroam.learning.cpu.kernels.between.valve import Gates, ValveAhead, ValveBack
from fedroam.learning.cpu.kernels.calls import Call
from fedroam.learning.cpu.kernels.dense import DenseGradient, DenseLayer, DenseRows
from fedroam.learning.forms import Contrast, Form, ToPrototypes, UnderConditions, WithMemory
from fedroam.learning.layout import Entry
from fedroam.native.target import Target, kernel

Tensors = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Step:
    """A step of n samples: what it counts, and addresses.

    row, gradient: float32 [parameters]. features: float32 [n, features]. y, positions: int64 [n], the samples' classes
    and their places in what is handed with one row a sample. slopes: float32 [n, features], the gradient of what the
    head gets, which becomes that of the features. told: float32 [`FeatureKernels.told(n)`], for what is to be known of
    the term. others: what `FeatureKernels.known` gave, in its order.
    """

    n: int
    share: float
    row: int
    gradient: int
    features: int
    y: int
    positions: int
    slopes: int
    told: int
    others: Sequence[int]
    kept: list[np.ndarray] = field(default_factory=list)

    def settings(self, *numbers: float) -> int:
        """The address of numbers, as float32."""
        self.kept.append(np.array(numbers, np.float32))
        return self.kept[-1].ctypes.data


class FeatureKernels(ABC):
    """One worker's kernels of a form, and their memory.

    width: number of features. of_samples: names of what is handed with one row a sample; of_all: of what is handed
    otherwise; of_client: of buffers.
    """

    of_samples: tuple[str, ...] = ()
    of_all: tuple[str, ...] = ()
    of_client: tuple[str, ...] = ()

    def __init__(self, width: int, classes: int, target: Target) -> None:
        self.width, self.classes, self.target = width, classes, target
        self.memory = torch.empty(0)

    def known(self, given: Tensors, each: Tensors, rows: int, buffers: Tensors) -> list[torch.Tensor] | None:
        """What is handed, and what is read of buffers, as the kernels have them, values side by side; None where what
        is handed is not what they know.

        given, each: as of a job; rows: how many samples there are of `each`. buffers: by name, of the shapes that
        `feature_kernels` asks for.
        """
        found = []
        for names, tensors, others in ((self.of_samples, each, given), (self.of_all, given, each)):
            for name in names:
                value = tensors.get(name)
                if value is None or name in others or not self._fits(name, value, rows):
                    return None
                found.append(self._read(name, value))
        return found + self._of_client([buffers[name] for name in self.of_client])

    @abstractmethod
    def told(self, n: int) -> int:
        """How many float32 values are told of a step of n samples."""

    @abstractmethod
    def terms(self, told: np.ndarray, n: int, share: float) -> np.ndarray:
        """What is added to the losses of some steps (float64 [steps]), from what was told of them, float32
        [steps, told]."""

    def reserve(self, n: int) -> None:
        """Have memory for steps of up to n samples. Calls that were made before go on with what there was then."""
        if len(self.memory) < self._room(n):
            self.memory = torch.empty(self._room(n))

    def outputs(self, n: int) -> torch.Tensor | None:
        """Where what the head gets is written, float32 [n, features]; None where it gets the features."""
        return None

    def before(self, step: Step) -> list[Call]:
        """What comes before the head: calls that are good as long as the present memory is kept."""
        return []

    @abstractmethod
    def after(self, step: Step) -> list[Call]:
        """What comes behind the head's way back."""

    def _room(self, n: int) -> int:
        return 0

    def _fits(self, name: str, value: torch.Tensor, rows: int) -> bool:
        return _is_float(value, (rows, self.width))

    def _read(self, name: str, value: torch.Tensor) -> torch.Tensor:
        return value.contiguous()

    def _of_client(self, buffers: list[torch.Tensor]) -> list[torch.Tensor]:
        return buffers


class _OfContrast(FeatureKernels):
    def __init__(self, form: Contrast, width: int, classes: int, target: Target) -> None:
        super().__init__(width, classes, target)
        self.form, self.of_samples = form, (form.near, form.far)
        self.made = kernel(ContrastTerm(width, form.least), target)

    @override
    def told(self, n: int) -> int:
        return 2 * n

    @override
    def terms(self, told: np.ndarray, n: int, share: float) -> np.ndarray:
        found: np.ndarray = _sums(told[:, :n]) + self.form.weight * share / n * _sums(np.log(told[:, n:]))
        return found

    @override
    def after(self, step: Step) -> list[Call]:
        near, far = step.others
        settings = step.settings(self.form.weight * step.share / step.n, self.form.temperature)
        places = (step.features, near, far, step.positions, settings, step.told, step.slopes)
        return [(self.made, (*places, step.n))]


class _OfPrototypes(FeatureKernels):
    def __init__(self, form: ToPrototypes, width: int, classes: int, target: Target) -> None:
        super().__init__(width, classes, target)
        self.form, self.of_all = form, (form.prototypes, form.known)
        self.made = kernel(PrototypeTerm(width), target)

    @override
    def told(self, n: int) -> int:
        return n

    @override
    def terms(self, told: np.ndarray, n: int, share: float) -> np.ndarray:
        return _sums(told)

    @override
    def after(self, step: Step) -> list[Call]:
        settings = step.settings(self.form.weight * step.share / (step.n * self.width))
        places = (step.features, step.y, *step.others, settings, step.told, step.slopes)
        return [(self.made, (*places, step.n))]

    @override
    def _fits(self, name: str, value: torch.Tensor, rows: int) -> bool:
        if name == self.form.prototypes:
            return _is_float(value, (self.classes, self.width))
        return _is(value, torch.bool, (self.classes,))

    @override
    def _read(self, name: str, value: torch.Tensor) -> torch.Tensor:
        return value.to(torch.int64) if name == self.form.known else value.contiguous()


class _OfMemory(FeatureKernels):
    def __init__(self, form: WithMemory, memory: Entry, width: int, classes: int, target: Target) -> None:
        super().__init__(width, classes, target)
        self.form, self.own = form, 4 * memory.offset
        self.of_all, self.of_client = (form.target,), (form.running,)
        self.ahead, self.back = kernel(MemoryAhead(width), target), kernel(MemoryBack(width), target)

    @override
    def told(self, n: int) -> int:
        return 1

    @override
    def terms(self, told: np.ndarray, n: int, share: float) -> np.ndarray:
        return _sums(told)

    @override
    def outputs(self, n: int) -> torch.Tensor:
        return self.memory[self.width : (n + 1) * self.width].view(n, self.width)

    @override
    def before(self, step: Step) -> list[Call]:
        new, weight = self.form.momentum / step.n, self.form.weight * step.share / self.width
        settings = step.settings(1 - self.form.momentum, new, weight * new, 0.5 * weight)
        wanted, running = step.others
        places = (step.features, step.row + self.own, running, wanted, settings, step.told)
        return [(self.ahead, (*places, self.outputs(step.n).data_ptr(), self.memory.data_ptr(), step.n))]

    @override
    def after(self, step: Step) -> list[Call]:
        into = step.gradient + self.own
        return [(self.back, (step.slopes, self.memory.data_ptr(), into, step.n))]

    @override
    def _room(self, n: int) -> int:
        return (n + 1) * self.width

    @override
    def _fits(self, name: str, value: torch.Tensor, rows: int) -> bool:
        return _is_float(value, (self.width,))


class _OfConditions(FeatureKernels):
    """entries: parameters by name."""

    def __init__(
        self,
        form: UnderConditions,
        entries: Mapping[str, Entry],
        width: int,
        classes: int,
        target: Target,
    ) -> None:
        super().__init__(width, classes, target)
        self.form, self.of_all, self.of_client = form, (form.frozen,), (form.personal, form.generic)
        names = (form.gamma, form.beta)
        parts = [[entries[f"{name}.{part}"] for part in _PARTS] for name in names]
        shared = [entries[form.embedding], *parts[0], *parts[1]]
        scale, shift = ((parts[0][k].offset, parts[1][k].offset) for k in (2, 3))
        self.gates = Gates(
            *(width, classes, entries[form.embedding].offset, scale, shift, _joined(shared)),
            *(form.together, form.least, form.norm),
        )
        self.ahead, self.back = (
            kernel(ValveAhead(self.gates), target),
            kernel(ValveBack(self.gates), target),
        )
        # A gate's linear layer and ReLU, of both conditions, the personal one first.
        self.layers = [
            [DenseRows((DenseLayer.of(*own[:2]),), True, way) for way in ("ahead", "back")] for own in parts
        ]
        self.linear = [[kernel(way, target) for way in own] for own in self.layers]
        self.scratch = [torch.empty(own[0].scratch(2)) for own in self.layers]
        self.slopes = torch.empty(2, 2, width)  # of what each gate's norm gets
        self.both = torch.arange(2)
        cosines = DenseGradient((DenseLayer(width, classes, 0, -1),), 0)
        self.cosines, self.spare = kernel(cosines, target), cosines.scratch

    @override
    def told(self, n: int) -> int:
        return 3 * n + 1  # distances, losses and sums of exponentials of cosines, and the weight decay

    @override
    def terms(self, told: np.ndarray, n: int, share: float) -> np.ndarray:
        cosines = _sums(told[:, n : 2 * n] + np.log(told[:, 2 * n : 3 * n]))
        found: np.ndarray = _sums(told[:, :n]) + told[:, 3 * n] + self.form.angle * share / n * cosines
        return found

    @override
    def outputs(self, n: int) -> torch.Tensor:
        begin = self.gates.seen
        return self.memory[begin : begin + n * self.width].view(n, self.width)

    @override
    def before(self, step: Step) -> list[Call]:
        n, memory = step.n, self.memory.data_ptr()
        row, frozen = step.row, step.others[0]
        calls = [self._linear(step, gate, 0) for gate in range(2)]
        raw = [
            scratch.data_ptr() + 4 * own[0].given(2)
            for scratch, own in zip(self.scratch, self.layers, strict=True)
        ]
        weight = self.form.magnitude * step.share / (1 if self.form.together else n)
        distances = step.settings(weight)
        places = (step.features, step.y, row, *raw, frozen, distances, step.told, memory)
        calls.append((self.ahead, (*places, n)))
        settings = step.settings(self.form.angle * step.share / n, 0.0)
        directions = memory + 4 * self.gates.of_samples(2, n)
        weights, of_weights = (
            memory + 4 * begin for begin in (self.gates.directions, self.gates.direction_slopes)
        )
        slopes = memory + 4 * self.gates.of_samples(3, n)
        spare = memory + 4 * self.gates.memory(n)
        losses = step.told + 4 * n
        cosines = (directions, step.y, weights, of_weights, slopes, spare, settings, losses, n, n)
        return [*calls, (self.cosines, cosines)]

    @override
    def after(self, step: Step) -> list[Call]:
        memory, slopes = self.memory.data_ptr(), [own.data_ptr() for own in self.slopes]
        settings, told = step.settings(self.form.decay * step.share), step.told + 4 * 3 * step.n
        own = (step.features, step.y, step.row, step.gradient, step.others[0], memory)
        calls = [(self.back, (*own, step.slopes, *slopes, settings, told, step.n))]
        return [*calls, *(self._linear(step, gate, 1) for gate in range(2))]

    def _linear(self, step: Step, gate: int, way: int) -> Call:
        places = step.others[1], self.both.data_ptr(), step.row, step.gradient
        slopes = self.slopes[gate].data_ptr() if way else 0
        return self.linear[gate][way], (*places, slopes, 0, self.scratch[gate].data_ptr(), 2)

    @override
    def _room(self, n: int) -> int:
        return self.gates.memory(n) + self.spare(n)

    @override
    def _fits(self, name: str, value: torch.Tensor, rows: int) -> bool:
        return _is_float(value, (self.classes, self.width))

    @override
    def _of_client(self, buffers: list[torch.Tensor]) -> list[torch.Tensor]:
        return [torch.stack(buffers)]  # one below the other, as the linear layers read them


_PARTS = ("0.weight", "0.bias", "2.weight", "2.bias")  # of either gate


def feature_kernels(
    form: Form | None,
    entries: Mapping[str, Entry],
    buffers: Tensors,
    head: Sequence[DenseLayer],
    target: Target,
) -> FeatureKernels | None:
    """Kernels of a form; None where there are none for what it names.

    entries: parameters by name; buffers: what else the network has, by name; head: its layers.
    """
    width, classes = head[0].inputs, head[-1].outputs

    def fit(names: Mapping[str, tuple[int, ...]], own: Mapping[str, tuple[int, ...]]) -> bool:
        """Whether there are parameters and buffers of these shapes."""
        parameters = all(name in entries and entries[name].shape == shape for name, shape in names.items())
        return parameters and all(
            name in buffers and _is_float(buffers[name], shape) and buffers[name].is_contiguous()
            for name, shape in own.items()
        )

    if isinstance(form, Contrast):
        return _OfContrast(form, width, classes, target)
    if isinstance(form, ToPrototypes):
        return _OfPrototypes(form, width, classes, target)
    if isinstance(form, WithMemory) and fit({form.memory: (width,)}, {form.running: (width,)}):
        return _OfMemory(form, entries[form.memory], width, classes, target)
    if isinstance(form, UnderConditions):
        shapes = ((width, width), *[(width,)] * 3)
        gates = {
            f"{name}.{part}": shape
            for name in (form.gamma, form.beta)
            for part, shape in zip(_PARTS, shapes, strict=True)
        }
        conditions = {form.personal: (width,), form.generic: (width,)}
        if fit({form.embedding: (classes, width), **gates}, conditions):
            return _OfConditions(form, entries, width, classes, target)
    return None


def _sums(told: np.ndarray) -> np.ndarray:
    """Of each step, float64 [steps]."""
    found: np.ndarray = told.sum(1, dtype=np.float64)
    return found


def _is_float(value: torch.Tensor, shape: tuple[int, ...]) -> bool:
    return _is(value, torch.float32, shape)


def _is(value: torch.Tensor, kind: torch.dtype, shape: tuple[int, ...]) -> bool:
    """Whether there are values of this kind in this process's memory, in this shape."""
    plain = type(value) in (torch.Tensor, torch.nn.Parameter) and value.device.type == "cpu"
    return plain and value.dtype == kind and value.shape == shape


def _joined(entries: Sequence[Entry]) -> tuple[tuple[int, int], ...]:
    """Begins and sizes of stretches of a row, those side by side as one."""
    ordered = sorted(entries, key=lambda entry: entry.offset)
    cuts = [k for k, (a, b) in enumerate(pairwise(ordered), 1) if a.offset + a.size != b.offset]
    groups = [ordered[a:b] for a, b in pairwise([0, *cuts, len(ordered)])]
    return tuple((some[0].offset, sum(entry.size for entry in some)) for some in groups)
