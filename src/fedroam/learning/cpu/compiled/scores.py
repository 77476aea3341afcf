"""Evaluation of a network of linear layers, maybe behind convolutions, by kernels of ours."""

from __future__ import annotations

import numpy as np
import torch

from fedroam.learning.cpu.kernels import ConvStack, DenseLayer, DenseScores
from fedroam.learning.samples import Samples
from fedroam.native import Target, kernel


class CompiledScores:
    """Counts a network's answers, and adds up their losses. `attach` it to a client's row, then ask.

    shape: of a sample as `Task.x` has them. stack: the convolutions before the layers, None for none. sparse: whether
    many of the layers' inputs are zeros, side by side.
    """

    def __init__(
        self,
        shape: torch.Size,
        layers: tuple[DenseLayer, ...],
        stack: ConvStack | None,
        target: Target,
        sparse: bool = False,
    ) -> None:
        self.shape, self.stack, self.classes = shape, stack, layers[-1].outputs
        self.spec = DenseScores(layers, sparse)
        self.made, self.width = kernel(self.spec, target), layers[0].inputs
        self.row = self.features = self.scratch = torch.empty(0)

    def attach(self, row: torch.Tensor) -> None:
        """Compute with the parameters in `row` (1-D) from now on."""
        self.row = row
        if self.stack is not None:
            self.stack.attach(lambda entry: entry.address(row))

    def suit(self, samples: Samples) -> bool:
        """Whether samples are of the kind that the kernels were made for."""
        return samples.shape == self.shape and samples.base.dtype == torch.float32

    def count(self, samples: Samples, index: torch.Tensor, counts: np.ndarray) -> float:
        """The sum of the losses of the samples with these indices (int64 [n]); `counts`, int64 [3, classes] as `tally`
        has them, are added to. Raises IndexError for a class or an index that there is not."""
        n, y = len(index), samples.y.index_select(0, index)
        if not n:
            return 0.0
        low, high = (int(found) for found in y.aminmax())
        if not 0 <= low <= high < self.classes:
            raise IndexError(f"class {low if low < 0 else high}: allowed are 0 to {self.classes - 1}")
        if self.stack is None:
            x, _, index = samples.rows(index)
        else:
            x, index = self._features(self.stack, samples, index), torch.arange(n)
        if len(self.scratch) < self.spec.scratch(n):
            self.scratch = torch.empty(self.spec.scratch(n))
        losses = np.empty((2, n), np.float32)
        places = [v.data_ptr() for v in (x, index, y, self.row, self.scratch)]
        self.made(*places, losses.ctypes.data, counts.ctypes.data, n)
        return float((losses[0] + np.log(losses[1])).sum(dtype=np.float64))

    def _features(self, stack: ConvStack, samples: Samples, index: torch.Tensor) -> torch.Tensor:
        """What the convolutions make of samples, a row each. (Weights of linear layers pass by for many at a time.)"""
        room = len(index) + stack.spare
        if len(self.features) < room:
            self.features = torch.empty(room, self.width)
        stack.rows_of(samples, index, self.features)
        return self.features
