"""Linear layers with ReLU between as one layer of a sequence: kernels, and the memory between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from typing_extensions import override

from fedroam.learning.cpu.kernels.dense.forward import DenseLayer
from fedroam.learning.cpu.kernels.dense.training import DenseRows
from fedroam.learning.cpu.sequential_layers import Layer
from fedroam.learning.samples import Samples
from fedroam.native.target import Kernel, Target, kernel


class DenseStack(Layer):
    """A layer: rows float32 [n, inputs] to [n, outputs], and their gradient back. `attach` it to a client's row first.

    activated: whether there is a ReLU behind the last layer, too. gradient: float32 [parameters], which is added to.
    sparse: whether many of the inputs are zeros, side by side.
    """

    def __init__(
        self,
        layers: Sequence[DenseLayer],
        activated: bool,
        gradient: torch.Tensor,
        target: Target,
        sparse: bool = False,
    ) -> None:
        self.gradient, self.row = gradient, gradient
        self.inputs, self.outputs = layers[0].inputs, layers[-1].outputs
        ways: tuple[Literal["ahead", "back", "to inputs"], ...] = ("ahead", "back", "to inputs")
        self.ways = tuple(DenseRows(tuple(layers), activated, way, sparse) for way in ways)
        self.made: dict[int, Kernel] = {}
        self.target, self.n = target, 0
        self.given = self.scratch = self.x = torch.empty(0)
        self.index = self.everybody = torch.empty(0, dtype=torch.int64)

    def attach(self, row: torch.Tensor) -> None:
        """Compute with the parameters in `row` (1-D, values side by side) from now on."""
        self.row = row

    def forward_of(self, samples: Samples, index: torch.Tensor) -> torch.Tensor:
        """What is made of the samples with these indices (int64 [n]), which are read where they lie."""
        x, _, places = samples.rows(index)
        return self._ahead(x, places)

    @override
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if len(self.everybody) != len(x):
            self.everybody = torch.arange(len(x))
        return self._ahead(x.contiguous(), self.everybody)

    @override
    def backward(self, gradient: torch.Tensor, wanted: bool) -> torch.Tensor | None:
        below = torch.empty(self.n, self.inputs) if wanted else None
        self._go(2 if wanted else 1, gradient.contiguous(), below)
        return below

    def _ahead(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        """The rows of x with these indices; until the next call the result is as it was given."""
        n, spec = len(index), self.ways[0]
        if n != self.n:
            self.n, size = n, spec.scratch(n)
            if len(self.scratch) < size:
                self.scratch = torch.empty(size)
            self.given = self.scratch[spec.given(n) :][: n * self.outputs].view(n, self.outputs)
        self.x, self.index = x, index
        self._go(0, None, None)
        return self.given

    def _go(self, way: int, slopes: torch.Tensor | None, below: torch.Tensor | None) -> None:
        places = (self.x, self.index, self.row, self.gradient, slopes, below, self.scratch)
        if way not in self.made:
            self.made[way] = kernel(self.ways[way], self.target)
        self.made[way](*(0 if each is None else each.data_ptr() for each in places), self.n)
