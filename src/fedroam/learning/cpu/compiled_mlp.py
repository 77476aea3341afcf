"""Local training of one multilayer perceptron by a kernel of ours: all steps of a round in a few calls."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import torch

from fedroam.learning.cpu.kernels import DenseLayer, DenseTraining, Kernel, Target, kernel
from fedroam.learning.engine import Task
from fedroam.learning.layout import Entry
from fedroam.learning.samples import Samples

WORK = 2e9  # operations of a call: some hundredths of a second, after which somebody may want to stop
MEMORY = 1 << 24  # values between layers, 64 MiB


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
        self.layers = tuple(itertools.starmap(DenseLayer.of, entries))
        self.most = MEMORY // DenseTraining(self.layers, False, False).scratch(1)
        self._made: dict[tuple[bool, bool], tuple[DenseTraining, Kernel]] = {}

    def train(
        self,
        row: torch.Tensor,
        momentum: torch.Tensor | None,
        steady: torch.Tensor | None,
        batches: Sequence[np.ndarray],
        settings: tuple[float, float],
    ) -> float:
        """Train a row (float32 [parameters]) in place, one step a batch of indices; the sum of all samples' losses.

        momentum: the row's, or None. steady: added to every gradient, or None. settings: learning rate and decay.
        """
        spec, made = self._kernel(momentum is not None, steady is not None)
        given = torch.tensor([*settings, self.task.training.momentum, self.smoothing], dtype=torch.float32)
        total = 0.0
        for n, alike in itertools.groupby(batches, len):
            some, most = list(alike), max(1, int(WORK / (6 * n * self.task.layout.size)))
            scratch = torch.empty(spec.scratch(n))
            for begin in range(0, len(some), most):
                self.check()
                index = torch.from_numpy(np.concatenate(some[begin : begin + most]))
                x, y, index = self.samples.rows(index)
                losses = torch.empty(2, len(index))
                values = (x, y, index, row, momentum, steady, scratch, given, losses)
                made(*[0 if v is None else v.data_ptr() for v in values], n, len(index) // n)
                total += float((losses[0] + losses[1].log()).sum(dtype=torch.float64))
        return total

    def _kernel(self, momentum: bool, steady: bool) -> tuple[DenseTraining, Kernel]:
        if (momentum, steady) not in self._made:
            spec = DenseTraining(self.layers, momentum, steady)
            self._made[momentum, steady] = spec, kernel(spec, self.target)
        return self._made[momentum, steady]
