"""The linear layers at the end of a network, and the loss behind them, by one kernel of ours."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import torch

from fedroam.learning.cpu.kernels import ConvStack, DenseGradient, DenseLayer, Kernel, Target, kernel
from fedroam.learning.cpu.kernels.conv_stack import SIZES
from fedroam.learning.matrix import Entry


class CompiledHead:
    """Linear layers with ReLU between, under the softmax cross-entropy. `attach` it to a client's row, then ask.

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
        self._made: dict[tuple[int, int], tuple[Kernel, torch.Tensor, np.ndarray]] = {}

    def attach(self, row: torch.Tensor) -> None:
        """Compute with the parameters in `row` (1-D) from now on."""
        self.row = row

    def add_gradient(self, stack: ConvStack, y: torch.Tensor, share: float) -> float:
        """Mean loss of the samples of classes y [n] whose features a stack holds, times `share`, whose gradient is
        added; that of the features is left with the stack."""
        n, samples = len(y), stack.padded
        made, scratch, losses = self._memory(n, samples)
        self.settings[:] = share / n, self.smoothing
        places = (stack.features, y, self.row, self.gradient, stack.slopes, scratch)
        made(
            *(place.data_ptr() for place in places),
            self.settings.ctypes.data,
            losses.ctypes.data,
            n,
            samples,
        )
        return float((losses[0] + np.log(losses[1])).sum(dtype=np.float64)) * share / n

    def _memory(self, n: int, samples: int) -> tuple[Kernel, torch.Tensor, np.ndarray]:
        if (n, samples) not in self._made:
            spec = DenseGradient(self.layers, math.gcd(samples, self.target.lanes))
            scratch = torch.zeros(spec.scratch(samples))
            self._made[n, samples] = kernel(spec, self.target), scratch, np.empty((2, n), np.float32)
            if len(self._made) > SIZES:
                del self._made[next(iter(self._made))]
        return self._made[n, samples]
