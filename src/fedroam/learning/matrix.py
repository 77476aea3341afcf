"""All models of a run as rows of one contiguous float32 matrix [rows, parameters]."""

from __future__ import annotations

import numpy as np
import torch

from fedroam.learning.capacity import keep, move_rows, put_row, room, with_capacity
from fedroam.learning.cpu.workers import shared_workers
from fedroam.learning.half_precision import HalfPrecision, held, in_half_precision, widened
from fedroam.learning.layout import Layout
from fedroam.learning.sums import column_means, consensus_distance, rounded

LONG = 2**14  # values of a row from which on rows are written by workers of ours
TOGETHER = 2**16  # values that a worker writes at a time


def fill_rows(matrix: torch.Tensor, rows: np.ndarray, columns: slice, values: torch.Tensor) -> None:
    """These rows (int64) of a matrix get the same values in some columns: float32 [columns]."""
    if matrix.device.type != "cpu" or isinstance(matrix, HalfPrecision) or len(values) < LONG:
        matrix[torch.from_numpy(rows).to(matrix.device), columns] = values
        return
    # Not by torch's threads, which go on spinning for milliseconds when they are done, and take cores from others.
    places = rows.tolist()

    def fill(_: int, begin: int, end: int) -> None:
        for row in places[begin:end]:
            matrix[row, columns].copy_(values)

    shared_workers().parts(len(places), max(1, TOGETHER // len(values)), fill, "rows, part {}".format)


class Models:
    """The models of a run and their optimiser state: float32 matrices, one row a model.

    parameters: [rows, layout.size]; buffers: [rows, layout.buffer_size]; momentum: [rows, layout.size], or None
    where the optimiser keeps none between rounds. All three may be written into. Parameters may be held in 16 bits:
    then they are computed with in float32 all the same, and rounded when they are written (`HalfPrecision`). Rows may
    lie elsewhere (see `execution`): then asking for a matrix brings all of them here, and `at_hand`, `rows`, `copied`,
    `kept`, `mean` and `consensus_distance` move no more than they need.
    """

    def __init__(
        self,
        layout: Layout,
        parameters: torch.Tensor,
        buffers: torch.Tensor,
        momentum: torch.Tensor | None,
    ) -> None:
        self.layout = layout
        self._parameters, self._buffers, self._momentum = parameters, buffers, momentum

    @property
    def parameters(self) -> torch.Tensor:
        """float32 [rows, layout.size]."""
        return self._parameters

    @property
    def buffers(self) -> torch.Tensor:
        """float32 [rows, layout.buffer_size]."""
        return self._buffers

    @property
    def momentum(self) -> torch.Tensor | None:
        """float32 [rows, layout.size], or None."""
        return self._momentum

    @classmethod
    def empty(
        cls,
        layout: Layout,
        rows: int,
        *,
        momentum: bool,
        device: torch.device | str = "cpu",
        half: bool = False,
        cleared: bool = True,
    ) -> Models:
        """Room for `rows` models, all zero. half: their parameters are held in 16 bits; cleared: parameters and
        buffers are zero, else each is to be written before it is read."""
        held_in = torch.float16 if half else torch.float32
        parameters = room(rows, layout.size, held_in, device, cleared=cleared)
        buffers = room(rows, layout.buffer_size, torch.float32, device, cleared=cleared)
        rest = room(rows, layout.size, torch.float32, device, cleared=True) if momentum else None
        return Models(layout, in_half_precision(parameters) if half else parameters, buffers, rest)

    def __len__(self) -> int:
        return len(self._parameters)

    @property
    def device(self) -> torch.device:
        """Where they lie."""
        return self._parameters.device

    @property
    def half(self) -> bool:
        """Whether parameters are held in 16 bits."""
        return isinstance(self._parameters, HalfPrecision)

    def widened(self) -> Models:
        """These models with parameters in float32, to be computed with step by step: a copy of those in 16 bits."""
        if not self.half:
            return self
        return Models(self.layout, widened(self.parameters), self.buffers, self.momentum)

    def rows(self, index: torch.Tensor) -> Models:
        """A copy of these rows (int64), in this order, held as they are."""
        momentum = None if self.momentum is None else self.momentum.index_select(0, index)
        return Models(
            self.layout, self.parameters.index_select(0, index), self.buffers.index_select(0, index), momentum
        )

    def at_hand(self, rows: np.ndarray) -> tuple[Models, np.ndarray]:
        """Models in this process that hold these rows (int64), to be read only, and where in them (int64)."""
        return self, rows

    def copied(self, sources: np.ndarray, most: int) -> Models:
        """The same models, followed by copies of these rows (int64) whose momentum is zero; `self` must not be used
        afterwards. most: rows that there will ever be, about."""
        begin = len(self)
        models = with_capacity(self, begin + len(sources), most)
        for matrix in (models.parameters, models.buffers):
            move_rows(matrix, begin + np.arange(len(sources)), sources)
        if models.momentum is not None:
            models.momentum[begin:].zero_()
        return models

    def kept(self, rows: np.ndarray) -> Models:
        """The models in these rows (int64, rising); the others are given up, and `self` must not be used afterwards."""
        return keep(self, rows)

    def write(self, row: int, parameters: torch.Tensor, buffers: torch.Tensor) -> None:
        """Replace a model; its momentum stays."""
        put_row(self.parameters, row, parameters)
        put_row(self.buffers, row, buffers)

    def arrays(self) -> dict[str, np.ndarray]:
        """The matrices by name, as a checkpoint holds them: to be read only. Parameters are float32 or float16, as
        they are held."""
        found = {"parameters": held(self.parameters).cpu().numpy(), "buffers": self.buffers.cpu().numpy()}
        return found if self.momentum is None else {**found, "momentum": self.momentum.cpu().numpy()}

    @property
    def bytes_each(self) -> int:
        """What one model weighs on the air: parameters and buffers as float32, bytes. How models are held at rest makes
        no difference: what is sent is the method's."""
        return 4 * (self.layout.size + self.layout.buffer_size)

    def mean(self) -> Models:
        """The average of all models, as a matrix of one row (accumulated in float64, in row order)."""
        return Mean(self, column_means(self.parameters), column_means(self.buffers))

    def consensus_distance(self, mean: Models | None = None) -> float:
        """How far the parameters are from their mean, as the function of this name.

        mean: where it is what `mean` has given of these very models, as they are, they are not summed again.
        """
        exact = mean.exact if isinstance(mean, Mean) and mean.of is self else None
        return consensus_distance(self.parameters, exact)


class Mean(Models):
    """The average of models, as a matrix of one row. of: the models; exact: float64 [layout.size], their mean
    parameters before these were rounded."""

    def __init__(self, of: Models, parameters: torch.Tensor, buffers: torch.Tensor) -> None:
        super().__init__(of.layout, rounded(parameters)[None], rounded(buffers)[None], None)
        self.of, self.exact = of, parameters
