"""Local training of one multilayer perceptron by a kernel of ours: all steps of a round in a few calls."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from fedroam.learning.cpu.kernels import Calls, DenseLayer, DenseTraining
from fedroam.learning.engine import Task
from fedroam.learning.layout import Entry
from fedroam.learning.samples import Samples, mostly_zeros
from fedroam.native import Kernel, Target, kernel

WORK = 2e9  # operations of a call: some hundredths of a second, after which somebody may want to stop
MEMORY = 1 << 24  # values between layers, 64 MiB


@dataclass(frozen=True)
class RowSteps:
    """What is done to a row.

    values: the row, float32 [parameters]; momentum: the row's, or None; steady: added to every gradient, or None;
    decay: of weights; batches: indices of samples, a step each.
    """

    values: torch.Tensor
    momentum: torch.Tensor | None
    steady: torch.Tensor | None
    decay: float
    batches: Sequence[np.ndarray]


@dataclass(frozen=True)
class _Piece:
    """Some steps of a row, the one of number `of`, of n samples each."""

    of: int
    n: int
    batches: Sequence[np.ndarray]
    work: float  # operations

    @property
    def steps(self) -> int:
        return len(self.batches)


class CompiledPerceptron:
    """One worker's kernels. entries: of each linear layer its weight [outputs, inputs] and bias, None for none.

    most: samples of a batch; a larger one takes too much memory at once.
    """

    def __init__(
        self,
        task: Task,
        samples: Samples,
        entries: Sequence[tuple[Entry, Entry | None]],
        smoothing: float,
        target: Target,
        check: Callable[[], None],
    ) -> None:
        self.task, self.samples, self.smoothing = task, samples, smoothing
        self.target, self.check = target, check
        self.layers, self.sparse = tuple(itertools.starmap(DenseLayer.of, entries)), mostly_zeros(task.x)
        self.most = MEMORY // self._scratch(1)
        self._made: dict[tuple[bool, bool], Kernel] = {}

    def train(self, rows: Sequence[RowSteps], lr: float) -> list[float]:
        """Train rows in place, one step a batch; of each the sum of all its samples' losses."""
        totals, work, samples = [0.0] * len(rows), 0.0, 0
        waiting: list[_Piece] = []
        for piece in self._pieces(rows):
            more = piece.steps * piece.n
            if waiting and (work + piece.work > WORK or self._copies * (samples + more) > MEMORY):
                self._do(waiting, rows, lr, totals)
                waiting, work, samples = [], 0.0, 0
            waiting.append(piece)
            work, samples = work + piece.work, samples + more
        if waiting:
            self._do(waiting, rows, lr, totals)
        return totals

    def _pieces(self, rows: Sequence[RowSteps]) -> Iterator[_Piece]:
        size = self.task.layout.size
        for k, row in enumerate(rows):
            for n, alike in itertools.groupby(row.batches, len):
                some, most = list(alike), max(1, int(WORK / (6 * n * size)))
                for begin in range(0, len(some), most):
                    batches = some[begin : begin + most]
                    yield _Piece(k, n, batches, 6.0 * n * size * len(batches))

    def _do(self, pieces: Sequence[_Piece], rows: Sequence[RowSteps], lr: float, totals: list[float]) -> None:
        """One call for all: between two calls a worker waits for Python, which others are using, as long as a client
        of a small network takes."""
        self.check()
        index = torch.from_numpy(np.concatenate([batch for piece in pieces for batch in piece.batches]))
        x, y, index = self.samples.rows(index)
        losses, begin = np.empty(2 * len(index), np.float32), 0
        scratch, given, calls = np.empty(self._scratch(max(p.n for p in pieces)), np.float32), {}, []
        for piece in pieces:
            row = rows[piece.of]
            if row.decay not in given:
                numbers = lr, row.decay, self.task.training.momentum, self.smoothing
                given[row.decay] = np.array(numbers, np.float32)
            made = self._kernel(row.momentum is not None, row.steady is not None)
            own = (0 if v is None else v.data_ptr() for v in (row.values, row.momentum, row.steady))
            places = x.data_ptr(), y.data_ptr(), index.data_ptr() + begin * index.element_size(), *own
            rest = scratch.ctypes.data, given[row.decay].ctypes.data, losses[2 * begin :].ctypes.data
            calls.append((made, (*places, *rest, piece.n, piece.steps)))
            begin += piece.n * piece.steps
        Calls(calls, self.target)()
        begin = 0
        for piece in pieces:
            count = piece.n * piece.steps
            least, sums = losses[2 * begin : 2 * (begin + count)].reshape(2, count)
            totals[piece.of] += float((least + np.log(sums)).sum(dtype=np.float64))
            begin += count

    @property
    def _copies(self) -> int:
        """Values of a sample that is copied: of images with several channels."""
        return self.layers[0].inputs if self.samples.images and self.samples.base.shape[3] != 1 else 0

    def _scratch(self, n: int) -> int:
        return self._spec(False, False).scratch(n)

    def _spec(self, momentum: bool, steady: bool) -> DenseTraining:
        return DenseTraining(self.layers, momentum, steady, self.sparse)

    def _kernel(self, momentum: bool, steady: bool) -> Kernel:
        if (momentum, steady) not in self._made:
            self._made[momentum, steady] = kernel(self._spec(momentum, steady), self.target)
        return self._made[momentum, steady]
