"""The convolutional part of a network as one layer of a sequence: kernels, and the memory between them."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch
from typing_extensions import override

from fedroam.learning.cpu.kernels.blocks import WIDEST_VECTOR, Stage
from fedroam.learning.cpu.kernels.calls import Call
from fedroam.learning.cpu.kernels.convolution import Images
from fedroam.learning.cpu.kernels.epilogue import Backward, Forward, Moments
from fedroam.learning.cpu.kernels.max_pool import MaxPool, MaxPoolBack
from fedroam.learning.cpu.kernels.picked import Picked
from fedroam.learning.cpu.kernels.standing import Standing
from fedroam.learning.cpu.sequential_layers import Layer
from fedroam.learning.layout import Entry
from fedroam.learning.samples import Samples
from fedroam.native.target import Kernel, Target, kernel

Address = Callable[[Entry], int]
# Bytes: the largest image of a slice of samples should stay near the core. A machine with wider vectors, which more
# samples fill, has a larger cache there, too: with 28 x 28 pixels and 32 channels they are 16 instead of 8 then.
CACHE, WIDER = 3 << 19, 7 / 6
SIZES = 8  # numbers of samples for which memory is kept


def _zeros(images: Images, samples: int) -> torch.Tensor:
    return torch.zeros(images.channels, images.height, images.row, samples)


def _room(before: torch.Tensor | None, values: int) -> torch.Tensor:
    """Memory for a kernel to work in, float32 [values at least]: what the block before has, if it does.

    One kernel works at a time, and what the last one used lies near the core.
    """
    return before if before is not None and len(before) >= values else torch.empty(values)


class _WayBack:
    """What a block needs to find gradients of so many samples: memory for those of its images, and kernels."""

    dy: torch.Tensor
    room: torch.Tensor

    def __init__(self, stage: Stage, samples: int, before: _WayBack | None, target: Target) -> None:
        self.dx: torch.Tensor | None = None if before is None else before.dy
        self.draw, self.dy = _zeros(stage.draw, samples), _zeros(stage.dy, samples)
        pooling = stage.pooling(MaxPoolBack, samples)
        self.pool = None if pooling is None else kernel(pooling, target)
        self.dafter = self.dy if pooling is None else _zeros(stage.dafter, samples)
        spec: Any = stage.epilogue(Backward, samples, dx=stage.draw, bias=stage.bias)
        slope, turned = stage.slope(samples), [] if before is None else stage.turned(samples)
        self.back, self.slope = kernel(spec, target), kernel(slope, target)
        self.turned = [kernel(each, target) for each in turned]
        needed = max(each.scratch(samples, target) for each in (slope, *turned))
        self.room = _room(None if before is None else before.room, needed)


class _StageMemory:
    """A block at work on so many samples: memory for its images, and its kernels."""

    y: torch.Tensor
    room: torch.Tensor

    def __init__(self, stage: Stage, samples: int, before: _StageMemory | None, target: Target) -> None:
        def made(spec: Any) -> Kernel:
            return kernel(spec, target)

        self.stage, self.samples, self.before, self.target = stage, samples, before, target
        self.x: torch.Tensor = _zeros(stage.x, samples) if before is None else before.y
        self.raw, self.y = _zeros(stage.raw, samples), _zeros(stage.y, samples)
        pooling = stage.pooling(MaxPool, samples)
        self.pool = None if pooling is None else made(pooling)
        self.after = self.y if pooling is None else _zeros(stage.after, samples)
        self.moments = torch.zeros(2, max(stage.groups, 1), samples)
        self.means, self.scales = _at(self.moments[0]), _at(self.moments[1])
        self.at_x, self.at_raw, self.at_y, self.at_after = map(_at, (self.x, self.raw, self.y, self.after))
        convolution = stage.convolution(samples)
        self.convolve = made(convolution)
        self.room = _room(None if before is None else before.room, convolution.scratch(samples, target))
        self.measure = made(stage.epilogue(Moments, samples)) if stage.groups else None
        self.epilogue = made(stage.epilogue(Forward, samples))

    @cached_property
    def way_back(self) -> _WayBack:
        """Made when a gradient is first asked for: evaluation asks for none."""
        before = None if self.before is None else self.before.way_back
        return _WayBack(self.stage, self.samples, before, self.target)

    def forward(self, weight: int, bias: int, gamma: int, beta: int) -> list[Call]:
        """What makes y of x. Addresses of the parameters."""
        raw, samples, means, scales = self.at_raw, self.samples, self.means, self.scales
        calls: list[Call] = [(self.convolve, (self.at_x, weight, bias, raw, _at(self.room), samples))]
        if self.measure is not None:
            calls.append((self.measure, (raw, means, scales, samples)))
        calls.append((self.epilogue, (raw, gamma, beta, means, scales, self.at_after, samples)))
        return [*calls, (self.pool, (self.at_after, self.at_y, samples))] if self.pool is not None else calls

    def backward(self, values: Sequence[int], gradients: Sequence[int]) -> list[Call]:
        """What makes dx of dy, where there is a block before, and adds to the parameters' gradients."""
        (weight, bias, gamma, beta), way = gradients, self.way_back
        images = [self.at_raw, self.at_after, _at(way.dafter), _at(way.draw)]
        own = [*images, *values[2:], self.means, self.scales, gamma, beta, bias, self.samples]
        draw, room = images[3], _at(way.room)
        calls: list[Call] = []
        if way.pool is not None:
            calls.append((way.pool, (self.at_after, self.at_y, _at(way.dy), _at(way.dafter), self.samples)))
        calls += [(way.back, own), (way.slope, (self.at_x, draw, weight, room, self.samples))]
        if way.dx is not None:
            given = (draw, values[0], 0, _at(way.dx), room, self.samples)
            calls += [(turned, given) for turned in way.turned]
        return calls


class ConvStack(Layer):
    """A layer: images float32 [n, channels, height, width] to features [n, features], and their gradient back.

    Of a parameter it is told where it lies in memory. many: samples that are best computed at a time. spare: at most so
    many are in memory beyond those asked for.
    """

    spare = 2 * WIDEST_VECTOR

    def __init__(self, stages: Sequence[Stage], target: Target, gradient: Address) -> None:
        self.stages, self.target = list(stages), target
        widths = [width for stage in stages for width in stage.widths]
        # Rows of pixels and samples must fill the vectors, and the lanes of a norm or a pool be four at least.
        self.unit = max([4, *(target.lanes // math.gcd(width, target.lanes) for width in widths)])
        if any(stage.step > 1 for stage in stages):  # of fewer samples, vectors have many parts
            self.unit = max(self.unit, min(8, target.lanes))
        largest = max(image.pixels for stage in stages for image in (stage.x, stage.raw, stage.draw))
        cache = CACHE if target.lanes < WIDEST_VECTOR else round(CACHE * WIDER)
        near = max(cache // (4 * largest) // self.unit * self.unit, self.unit)
        self.tiled = any(stage.tiled for stage in stages)
        self.many = min(range(near, 0, -self.unit), key=lambda n: self._cost(n) / n)
        self.memories: OrderedDict[int, list[_StageMemory]] = OrderedDict()
        self.gradients = [_addresses(stage, gradient) for stage in stages]
        self.values = self.gradients
        self.samples = 0
        self.at_work: list[_StageMemory] = []  # of the last call
        self.turns: dict[int, tuple[Kernel, Kernel]] = {}  # in and out, by lanes

    def attach(self, row: Address) -> None:
        """Compute with a row's parameters from now on."""
        self.values = [_addresses(stage, row) for stage in self.stages]

    def add_to(self, gradient: Address) -> None:
        """Add the parameters' gradients to these from now on."""
        self.gradients = [_addresses(stage, gradient) for stage in self.stages]

    def _cost(self, samples: int) -> float:
        """About how long so many samples in memory take: what tiles cost beside products (norms and pools take a tenth
        of that) by vectors of samples, and the rest, whose vectors are always whole."""
        lanes = self.target.lanes
        by_samples = 2.0 if self.tiled else 0.2
        return by_samples * samples / min(math.gcd(samples, WIDEST_VECTOR), lanes) + 3 * samples / lanes

    def _filled(self, samples: int) -> int:
        """How many samples are in memory for so many: a few more where vectors are then wider."""
        first = -(-samples // self.unit) * self.unit
        return min(range(first, samples + self.spare, self.unit), key=self._cost)

    def _memory(self, samples: int) -> list[_StageMemory]:
        padded = self._filled(samples)
        found = self.memories.get(padded)
        if found is None:
            found = []
            for stage in self.stages:
                found.append(_StageMemory(stage, padded, found[-1] if found else None, self.target))
            self.memories[padded] = found
            if len(self.memories) > SIZES:
                self.memories.popitem(last=False)
        self.memories.move_to_end(padded)
        return found

    @override
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.samples = n = len(x)
        memories, border = self._memory(n), self.stages[0].x.border
        first = memories[0].x
        first[:, :, border : border + x.shape[3], :n].copy_(x.permute(1, 2, 3, 0))
        if n < memories[0].samples:
            first[..., n:].zero_()
        self._through(memories)
        return self._seen()

    def forward_of(self, samples: Samples, index: torch.Tensor) -> torch.Tensor:
        """The features of the samples with these indices (int64 [n])."""
        self._forward_at(_at(samples.base), _at(index), len(index))
        return self._seen()

    def steps(self, base: int, index: int, n: int) -> tuple[list[Call], list[Call]]:
        """What makes features of n samples, and what adds the parameters' gradients of that of the features, which then
        stands in `slopes`. Addresses of all samples and of the indices int64 [n]; the calls are good as long as
        `at_work` and the parameters stay where they are."""
        self.samples, self.at_work = n, self._memory(n)
        forward: list[Call] = [self._pick(base, index, n)]
        for memory, values in zip(self.at_work, self.values, strict=True):
            forward += memory.forward(*values)
        return forward, self._backward()

    def rows_of(self, samples: Samples, index: torch.Tensor, rows: torch.Tensor) -> None:
        """Write the features of samples, any number of them, as rows float32 [n + `spare` at least, features]."""
        base, places, into, width = _at(samples.base), _at(index), _at(rows), rows.shape[1]
        for begin in range(0, len(index), self.many):
            count = min(self.many, len(index) - begin)
            _, out = self._forward_at(base, places + index.itemsize * begin, count)
            out(self.at_work[-1].at_y, into + rows.itemsize * width * begin, self.padded)

    def _forward_at(self, base: int, index: int, n: int) -> tuple[Kernel, Kernel]:
        """Compute the features of n samples. Addresses of all samples and of the indices."""
        self.samples, memories = n, self._memory(n)
        pick, given = self._pick(base, index, n)
        pick(*given)
        self._through(memories)
        return self._turns(math.gcd(memories[0].samples, self.target.lanes))

    def _pick(self, base: int, index: int, n: int) -> Call:
        first = self._memory(n)[0]
        pick, _ = self._turns(math.gcd(first.samples, self.target.lanes))
        return pick, (base, index, first.at_x, n, first.samples)

    def _turns(self, lanes: int) -> tuple[Kernel, Kernel]:
        """What lays samples side by side, so many at a time, and what has their features stand in rows."""
        if lanes not in self.turns:
            pick, y = Picked(self.stages[0].x, lanes), self.stages[-1].y
            out = Standing(y.pixels, lanes)
            self.turns[lanes] = kernel(pick, self.target), kernel(out, self.target)
        return self.turns[lanes]

    @property
    def padded(self) -> int:
        """Samples in memory: those of the last call, and what fills it up."""
        return self.at_work[-1].samples

    @property
    def features(self) -> torch.Tensor:
        """What the last call gave as it lies in memory, float32 [channels, height, width, padded]."""
        return self.at_work[-1].y

    @property
    def slopes(self) -> torch.Tensor:
        """Memory for its gradient, shaped alike, from which `add_gradient` goes on."""
        return self.at_work[-1].way_back.dy

    def _through(self, memories: list[_StageMemory]) -> None:
        self.at_work = memories
        for memory, values in zip(memories, self.values, strict=True):
            _do(memory.forward(*values))

    def _seen(self) -> torch.Tensor:
        return self.features.view(-1, self.padded).t()[: self.samples]

    def backward(self, gradient: torch.Tensor, wanted: bool) -> torch.Tensor | None:
        """Add to the parameters' gradients; that of the images is never wanted."""
        n = self.samples
        last = self.slopes.view(gradient.shape[1], -1)
        last[:, :n].copy_(gradient.t())
        if n < self.padded:
            last[:, n:].zero_()
        self.add_gradient()
        return None

    def add_gradient(self) -> None:
        """Add to the parameters' gradients that of the features which stands in `slopes`."""
        _do(self._backward())

    def _backward(self) -> list[Call]:
        blocks = zip(self.at_work, self.values, self.gradients, strict=True)
        return [call for memory, *own in reversed([*blocks]) for call in memory.backward(*own)]


def _do(calls: Sequence[Call]) -> None:
    for run, given in calls:
        run(*given)


def _at(tensor: torch.Tensor) -> int:
    return tensor.data_ptr()


def _addresses(stage: Stage, of: Address) -> list[int]:
    """Where the block's parameters lie; 0 for one that it does not have. Whoever gave the row keeps it alive."""
    return [0 if entry is None else of(entry) for entry in stage.entries]
