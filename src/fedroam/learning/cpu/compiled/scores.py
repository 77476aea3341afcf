"""Evaluation of a network of linear layers, maybe behind convolutions, by kernels of ours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from fedroam.learning.cpu.kernels import Calls, ConvStack, DenseLayer, DenseScores
from fedroam.learning.samples import Samples
from fedroam.native import Target, kernel

Asked = tuple[torch.Tensor, torch.Tensor]  # a row of parameters (1-D), and indices of samples, int64 [n]


class CompiledScores:
    """Counts a network's answers, and adds up their losses.

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
        self.shape, self.stack, self.classes, self.target = shape, stack, layers[-1].outputs, target
        self.spec = DenseScores(layers, sparse)
        self.made, self.width = kernel(self.spec, target), layers[0].inputs
        self.features = self.scratch = torch.empty(0)

    def suit(self, samples: Samples) -> bool:
        """Whether samples are of the kind that the kernels were made for."""
        return samples.shape == self.shape and samples.base.dtype == torch.float32

    def count(self, samples: Samples, asked: Sequence[Asked]) -> tuple[np.ndarray, list[float]]:
        """What `tally` counts for each that is asked, int64 [asked, 3, classes], and the sum of its losses.

        Linear layers alone are one call for all: what stands between two calls takes longer than a small one. Raises
        IndexError for a class or an index that there is not.
        """
        counts = np.zeros((len(asked), 3, self.classes), np.int64)
        index = torch.cat([index for _, index in asked]).to(torch.int64)
        if not len(index):
            return counts, [0.0] * len(asked)
        y = samples.y.index_select(0, index)
        low, high = (int(found) for found in y.aminmax())
        if not 0 <= low <= high < self.classes:
            raise IndexError(f"class {low if low < 0 else high}: allowed are 0 to {self.classes - 1}")
        if self.stack is not None:
            return counts, [
                self._behind(self.stack, samples, row, some, own, counted)
                for (row, some), own, counted in zip(
                    asked, y.split([len(i) for _, i in asked]), counts, strict=True
                )
            ]
        x, _, index = samples.rows(index)
        self._make_room(max(len(some) for _, some in asked))
        losses, calls, begins, begin = np.empty(2 * len(index), np.float32), [], [], 0
        for (row, some), counted in zip(asked, counts, strict=True):
            if n := len(some):
                at = x.data_ptr(), index[begin:].data_ptr(), y[begin:].data_ptr(), row.data_ptr()
                told = losses[2 * begin :].ctypes.data, counted.ctypes.data
                calls.append((self.made, (*at, self.scratch.data_ptr(), *told, n)))
            begins.append(begin)
            begin += n
        Calls(calls, self.target)()
        return counts, [
            _sum(losses[2 * b : 2 * (b + len(i))]) for b, (_, i) in zip(begins, asked, strict=True)
        ]

    def _behind(
        self,
        stack: ConvStack,
        samples: Samples,
        row: torch.Tensor,
        index: torch.Tensor,
        y: torch.Tensor,
        counts: np.ndarray,
    ) -> float:
        """The same for one, behind convolutions; `counts`, int64 [3, classes], are added to."""
        n = len(index)
        if not n:
            return 0.0
        stack.attach(lambda entry: entry.address(row))
        # A row each. (Weights of linear layers pass by for many at a time.)
        if len(self.features) < n + stack.spare:
            self.features = torch.empty(n + stack.spare, self.width)
        stack.rows_of(samples, index, self.features)
        self._make_room(n)
        losses, places = np.empty(2 * n, np.float32), torch.arange(n)
        at = [each.data_ptr() for each in (self.features, places, y, row, self.scratch)]
        self.made(*at, losses.ctypes.data, counts.ctypes.data, n)
        return _sum(losses)

    def _make_room(self, samples: int) -> None:
        if len(self.scratch) < self.spec.scratch(samples):
            self.scratch = torch.empty(self.spec.scratch(samples))


def _sum(losses: np.ndarray) -> float:
    """The sum of losses, of which a kernel tells two parts: float32 [2 n]."""
    least, sums = losses.reshape(2, -1)
    return float((least + np.log(sums)).sum(dtype=np.float64))
