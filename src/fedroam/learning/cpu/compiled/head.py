"""The linear layers at the end of a network, and the loss behind them, by one kernel of ours."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from fedroam.learning.cpu.kernels import Calls, ConvStack, DenseGradient, DenseLayer
from fedroam.learning.cpu.kernels.conv_stack import SIZES
from fedroam.learning.layout import Entry
from fedroam.learning.samples import Samples
from fedroam.native import Kernel, Target, kernel


class CompiledHead:
    """Linear layers with ReLU between, under the softmax cross-entropy. `attach` it to a client's row, then ask: either
    of samples that a stack of convolutions reads, or of rows.

    entries: of each layer its weight [outputs, inputs] and bias, None for none. gradient: float32 [parameters], which
    is added to.
    """

    def __init__(
        self,
        entries: Sequence[tuple[Entry, Entry | None]],
        smoothing: float,
        gradient: torch.Tensor,
        target: Target,
    ) -> None:
        self.smoothing, self.gradient, self.row = smoothing, gradient, gradient
        self.layers = tuple(itertools.starmap(DenseLayer.of, entries))
        self.target = target
        self.settings = np.zeros(2, np.float32)
        self._steps: dict[tuple[int, int], _Step] = {}
        self._made: dict[tuple[int, int], tuple[Kernel, torch.Tensor, np.ndarray]] = {}

    def attach(self, row: torch.Tensor) -> None:
        """Compute with the parameters in `row` (1-D) from now on."""
        self.row = row
        self._steps.clear()

    def add_gradient(self, stack: ConvStack, samples: Samples, index: torch.Tensor, share: float) -> float:
        """Mean loss of the samples with these indices (int64 [n]), times `share`, whose gradient is added to that of
        the head and of the stack before it: a step, as one call of kernels."""
        n, base = len(index), samples.base.data_ptr()
        step = self._steps.get((n, base)) or self._step(stack, base, n)
        np.copyto(step.index, index.numpy())
        np.take(samples.y.numpy(), step.index, out=step.y)
        self.settings[:] = share / n, self.smoothing
        step.run()
        return _total(step.losses) * share / n

    def add_gradient_of(
        self, rows: torch.Tensor, y: torch.Tensor, share: float
    ) -> tuple[float, torch.Tensor]:
        """Mean loss of rows (float32 [n, inputs]) of classes y (int64 [n]), times `share`, whose gradient is added to
        that of the head; and that of the rows, which is given."""
        n, rows = len(y), rows.contiguous()
        if rows.shape != (n, self.layers[0].inputs):
            found = " x ".join(map(str, rows.shape[1:]))
            raise ValueError(f"the head takes {self.layers[0].inputs} features of a sample, found {found}")
        slopes = torch.empty_like(rows)
        made, scratch, losses = self._memory(n, n, 0)
        self.settings[:] = share / n, self.smoothing
        places = _at(rows), _at(y), _at(self.row), _at(self.gradient), _at(slopes), _at(scratch)
        made(*places, self.settings.ctypes.data, losses.ctypes.data, n, n)
        return _total(losses) * share / n, slopes

    def _step(self, stack: ConvStack, base: int, n: int) -> _Step:
        """The step of n samples of all those at an address, with the row and the stack's parameters as they are."""
        index, y = np.empty(n, np.int64), np.empty(n, np.int64)
        forward, back = stack.steps(base, index.ctypes.data, n)
        samples, features, slopes = stack.padded, stack.features, stack.slopes
        made, scratch, losses = self._memory(n, samples, math.gcd(samples, self.target.lanes))
        places = [_at(features), y.ctypes.data, _at(self.row), _at(self.gradient), _at(slopes), _at(scratch)]
        places += [self.settings.ctypes.data, losses.ctypes.data]
        calls = Calls([*forward, (made, (*places, n, samples)), *back], self.target)
        if len(self._steps) >= SIZES:
            del self._steps[next(iter(self._steps))]
        self._steps[n, base] = step = _Step(calls, index, y, losses, (stack.at_work, scratch))
        return step

    def _memory(self, n: int, samples: int, lanes: int) -> tuple[Kernel, torch.Tensor, np.ndarray]:
        """lanes: as `DenseGradient` has them, the same whenever as many samples are asked for."""
        if (n, samples) not in self._made:
            spec = DenseGradient(self.layers, lanes)
            scratch = torch.zeros(spec.scratch(samples))
            self._made[n, samples] = kernel(spec, self.target), scratch, np.empty((2, n), np.float32)
            if len(self._made) > SIZES:
                del self._made[next(iter(self._made))]
        return self._made[n, samples]


@dataclass(frozen=True)
class _Step:
    """index, y: where the samples' indices and classes are put first. losses: as the kernel has them. memory: what the
    calls work on."""

    run: Calls
    index: np.ndarray
    y: np.ndarray
    losses: np.ndarray
    memory: object


def _total(losses: np.ndarray) -> float:
    """The sum of the samples' losses, from what kernels say of them."""
    return float((losses[0] + np.log(losses[1])).sum(dtype=np.float64))


def _at(tensor: torch.Tensor) -> int:
    return tensor.data_ptr()
