"""Local training under an objective that looks at the features, by kernels of ours: all steps of some clients by one
call.

It is for extractors of linear layers, whose steps are so little arithmetic that what is between two kernels counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from fedroam.learning.cpu.compiled.head import CompiledHead
from fedroam.learning.cpu.compiled.mlp import MEMORY, WORK
from fedroam.learning.cpu.kernels import (
    DenseGradient,
    DenseStack,
    Descent,
    FeatureKernels,
    Pattern,
    Step,
    run,
)
from fedroam.learning.cpu.kernels.conv_stack import SIZES
from fedroam.learning.engine import Job, Task, rate
from fedroam.learning.half_precision import widened
from fedroam.learning.matrix import Models
from fedroam.learning.samples import Samples
from fedroam.native import kernel

STEPS = 4096  # of a call at most: what each is told takes a kilobyte


@dataclass
class _Row:
    """A client's row at work.

    places: addresses of what its steps read and write, beside samples. kept: what lies there. loss: the sum of the
    samples' losses so far.
    """

    own: torch.Tensor
    values: torch.Tensor
    job: Job
    batches: list[np.ndarray]
    places: list[int]
    kept: list[torch.Tensor]
    loss: float = 0.0


@dataclass
class _Alike:
    """Steps of n samples each: their numbers among all of a call, whose they are, and positions in the client's
    samples."""

    numbers: list[int] = field(default_factory=list)
    rows: list[_Row] = field(default_factory=list)
    positions: list[np.ndarray] = field(default_factory=list)


@dataclass(frozen=True)
class _Places:
    """What steps of n samples each read and write.

    at: addresses, int64 [steps, places]. losses: float32 [steps, 2, n], as the head's kernel has them. terms: what is
    told of the term, float32 [steps, told]. kept: what lies at other addresses.
    """

    at: np.ndarray
    losses: np.ndarray
    terms: np.ndarray
    kept: object


class CompiledSteps:
    """One worker's kernels and memory.

    extractor, head, features: what computes them. gradient: float32 [parameters], which each step leaves at 0.
    """

    def __init__(
        self,
        task: Task,
        samples: Samples,
        extractor: DenseStack,
        head: CompiledHead,
        features: FeatureKernels,
        gradient: torch.Tensor,
        check: Callable[[], None],
    ) -> None:
        self.task, self.samples, self.check = task, samples, check
        self.features, self.gradient, self.target = features, gradient, head.target
        self.ahead, self.back = (kernel(way, self.target) for way in extractor.ways[:2])
        self.layers, self.inputs = extractor.ways[0], extractor.inputs
        self.head, self.smoothing = DenseGradient(head.layers, 0), head.smoothing
        self.loss = kernel(self.head, self.target)
        self.descent = kernel(Descent(task.training.momentum > 0), self.target)
        self.scratch = torch.empty(0)
        self.most = MEMORY // self._room(1)  # samples of a batch
        self.patterns: dict[int, Pattern] = {}  # by samples of a step

    def train(self, models: Models, jobs: Sequence[Job]) -> list[float | None]:
        """Train the rows of jobs in place; mean training loss of each. None for those that kernels cannot compute, of
        which nothing is done."""
        settings: dict[int, torch.Tensor] = {}  # of the rounds that jobs belong to: one, as a rule
        rows = [self._row(models, job, settings) for job in jobs]
        alike: dict[int, _Alike] = {}
        count, work, copied = 0, 0.0, 0
        for row in rows:
            for positions in () if row is None else row.batches:
                n = len(positions)
                work, copied = work + 6.0 * n * self.task.layout.size, copied + n * self.inputs
                if count and (work > WORK or copied > MEMORY or count >= STEPS):
                    self._do(alike, count)
                    alike, count, work, copied = {}, 0, 0.0, 0
                assert row is not None
                some = alike.setdefault(n, _Alike())
                some.numbers.append(count)
                some.rows.append(row)
                some.positions.append(positions)
                count += 1
        if count:
            self._do(alike, count)
        losses: list[float | None] = []
        for row in rows:
            if row is None:
                losses.append(None)
                continue
            if row.values is not row.own:
                row.own.copy_(row.values)
            seen = sum(map(len, row.batches))
            losses.append(row.loss / seen if seen else float("nan"))
        return losses

    def _row(self, models: Models, job: Job, settings: dict[int, torch.Tensor]) -> _Row | None:
        """What is to be done to a job's row; None where kernels cannot do it. settings: by round, added to."""
        if job.anchor is not None:
            return None
        buffers = models.buffers[job.row].data
        between = {entry.name: entry.view(buffers) for entry in self.task.layout.buffers}
        others = self.features.known(job.given, job.each, len(job.samples), between)
        if others is None:
            return None
        batches = [batch for batch in job.positions(self.task) if len(batch)]
        if max(map(len, batches), default=0) > self.most:
            return None
        own = models.parameters[job.row].data
        training, values = self.task.training, widened(own)
        momentum = None if models.momentum is None else models.momentum[job.row].data
        if momentum is None and training.momentum:
            momentum = torch.zeros(len(own))  # which does not outlive the round
        if job.round not in settings:
            numbers = rate(training, job.round), training.weight_decay, training.momentum
            settings[job.round] = torch.tensor(numbers, dtype=torch.float32)
        kept = [values, settings[job.round], *([] if momentum is None else [momentum]), *others]
        places = [each.data_ptr() for each in kept[:2]]
        places.append(0 if momentum is None else momentum.data_ptr())
        places += [each.data_ptr() for each in others]
        return _Row(own, values, job, batches, places, kept)

    def _do(self, alike: dict[int, _Alike], count: int) -> None:
        """All these steps, in the order of their numbers."""
        self.check()
        largest, before = max(alike), (self.scratch, self.features.memory)
        if len(self.scratch) < self._room(largest):
            self.scratch = torch.empty(self._room(largest))
        self.features.reserve(largest)
        if before[0] is not self.scratch or before[1] is not self.features.memory:
            self.patterns.clear()  # which keep smaller ones
        self.gradient.zero_()
        told = [(n, some, self._places(n, some)) for n, some in alike.items()]
        # Kept until all is done, though memory of sizes may be given up for that of others.
        patterns = [self._pattern(n, places.at.shape[1]) for n, _, places in told]
        program = np.empty((count, *patterns[0].rest.shape), np.int64)
        for (_, some, places), pattern in zip(told, patterns, strict=True):
            program[some.numbers] = pattern.at(places.at)
        run(program, self.target)
        whose: list[_Row | None] = [None] * count
        found = np.empty(count)
        for n, some, places in told:
            of_head = (places.losses[:, 0] + np.log(places.losses[:, 1])).sum(1, dtype=np.float64)
            found[some.numbers] = of_head + n * self.features.terms(places.terms, n, 1.0)
            for number, row in zip(some.numbers, some.rows, strict=True):
                whose[number] = row
        # In their order, whoever else is here, and however long the others' steps are.
        for own_row, loss in zip(whose, found.tolist(), strict=True):
            assert own_row is not None
            own_row.loss += loss

    def _places(self, n: int, some: _Alike) -> _Places:
        """Raises IndexError for positions that a client has no sample at."""
        steps, positions = len(some.rows), np.concatenate(some.positions)
        if positions.dtype.kind not in "iu" or positions.min() < 0:
            raise IndexError(f"batches are positions from 0 on, found {positions.dtype}, {positions.min()}")
        positions = positions.astype(np.int64, copy=False)
        pairs = zip(some.rows, some.positions, strict=True)
        index = torch.from_numpy(np.concatenate([row.job.samples[own] for row, own in pairs]))
        x, _, places = self.samples.rows(index)
        y = self.samples.y.index_select(0, index)
        losses = np.empty((steps, 2, n), np.float32)
        terms = np.empty((steps, self.features.told(n)), np.float32)
        first = [x.data_ptr(), places.data_ptr(), y.data_ptr(), positions.ctypes.data]
        first += [losses.ctypes.data, terms.ctypes.data]
        further = [0, 8 * n, 8 * n, 8 * n, losses.strides[0], terms.strides[0]]  # from a step to the next
        of_samples = np.array(first) + np.arange(steps)[:, None] * np.array(further)
        of_rows = np.array([row.places for row in some.rows], np.int64)
        at = np.concatenate([of_samples, of_rows], axis=1)
        return _Places(at, losses, terms, (x, places, y, positions))

    def _pattern(self, n: int, places: int) -> Pattern:
        """The calls of a step of n samples, with so many addresses that are not known yet."""
        if n not in self.patterns:
            if len(self.patterns) >= SIZES:
                del self.patterns[next(iter(self.patterns))]
            self.patterns[n] = self._made(n, places)
        return self.patterns[n]

    def _made(self, n: int, places: int) -> Pattern:
        x, index, y, positions, losses, told, row, settings, momentum, *others = Pattern.unknown(places)
        layers, features, gradient = self.layers, self.features, self.gradient.data_ptr()
        numbers = np.array((1 / n, self.smoothing), np.float32)
        scratch = self.scratch.data_ptr()
        slopes = scratch + 4 * layers.scratch(n)
        spare, seen = slopes + 4 * n * features.width, scratch + 4 * layers.given(n)
        outputs = features.outputs(n)
        to_head = seen if outputs is None else outputs.data_ptr()
        step = Step(n, 1.0, row, gradient, seen, y, positions, slopes, told, others)
        calls = [
            (self.ahead, (x, index, row, gradient, 0, 0, scratch, n)),
            *features.before(step),
            (self.loss, (to_head, y, row, gradient, slopes, spare, numbers.ctypes.data, losses, n, n)),
            *features.after(step),
            (self.back, (x, index, row, gradient, slopes, 0, scratch, n)),
            (self.descent, (row, gradient, momentum, settings, self.task.layout.size)),
        ]
        return Pattern(calls, (numbers, step, self.scratch, features.memory))

    def _room(self, n: int) -> int:
        return self.layers.scratch(n) + n * self.features.width + self.head.scratch(n)
