"""All models of a run as rows of one contiguous float32 matrix [rows, parameters]."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from fedroam.errors import InputError
from fedroam.learning.capacity import keep, with_capacity
from fedroam.learning.half_precision import HalfPrecision, held, in_half_precision, widened


@dataclass(frozen=True)
class Entry:
    """One tensor of a network within a row: its name, shape and place."""

    name: str
    shape: tuple[int, ...]
    offset: int
    size: int

    def view(self, row: torch.Tensor) -> torch.Tensor:
        """The tensor as a view into `row` (1-D). 4-D weights lie channels-last, as fast convolutions read them."""
        flat = row[self.offset : self.offset + self.size]
        if len(self.shape) == 4:
            out, channels, height, width = self.shape
            return flat.view(out, height, width, channels).permute(0, 3, 1, 2)
        return flat.view(self.shape)


@dataclass(frozen=True)
class Layout:
    """Where each parameter and each buffer of a network lies in a row. Shared parameters lie there once."""

    parameters: tuple[Entry, ...]
    buffers: tuple[Entry, ...]

    @classmethod
    def of(cls, module: nn.Module) -> Layout:
        """The layout of a network, in the order of its `named_parameters` and `named_buffers`."""
        return cls(_entries(module.named_parameters()), _entries(module.named_buffers()))

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(entry.size for entry in self.parameters)

    @property
    def buffer_size(self) -> int:
        """Number of buffer values (running statistics; integers are held as float32)."""
        return sum(entry.size for entry in self.buffers)

    def columns(self, part: str) -> slice:
        """Where the parameters of a submodule (`"extractor"`, `"head"`) lie in a row, side by side.

        Raises InputError where there are none, or they do not lie side by side.
        """
        return _columns(self.parameters, part)

    def buffer_columns(self, part: str) -> slice:
        """Where the buffers of a submodule lie in a row of buffers; an empty slice where it has none."""
        found = [entry for entry in self.buffers if _belongs(entry, part)]
        return _columns(self.buffers, part) if found else slice(0, 0)

    @torch.no_grad()
    def write(self, module: nn.Module, parameters: torch.Tensor, buffers: torch.Tensor) -> None:
        """Copy a network's values into a row of each matrix."""
        _copy(self.parameters, dict(module.named_parameters()), parameters, to_row=True)
        _copy(self.buffers, dict(module.named_buffers()), buffers, to_row=True)

    @torch.no_grad()
    def read(self, module: nn.Module, parameters: torch.Tensor, buffers: torch.Tensor) -> None:
        """Copy a row of each matrix into a network."""
        _copy(self.parameters, dict(module.named_parameters()), parameters, to_row=False)
        _copy(self.buffers, dict(module.named_buffers()), buffers, to_row=False)


def _belongs(entry: Entry, part: str) -> bool:
    return entry.name == part or entry.name.startswith(f"{part}.")


def _columns(entries: tuple[Entry, ...], part: str) -> slice:
    own = [entry for entry in entries if _belongs(entry, part)]
    if not own:
        known = ", ".join(dict.fromkeys(entry.name.partition(".")[0] for entry in entries))
        raise InputError(f"the model has no parameters under {part!r}; found {known or 'none at all'}")
    begin, end = own[0].offset, own[-1].offset + own[-1].size
    if sum(entry.size for entry in own) != end - begin:
        raise InputError(f"the model's parameters under {part!r} do not lie side by side (are some shared?)")
    return slice(begin, end)


def _entries(tensors: Iterator[tuple[str, torch.Tensor]]) -> tuple[Entry, ...]:
    entries, offset = [], 0
    for name, tensor in tensors:
        entries.append(Entry(name, tuple(tensor.shape), offset, tensor.numel()))
        offset += tensor.numel()
    return tuple(entries)


def _copy(
    entries: tuple[Entry, ...], tensors: dict[str, torch.Tensor], row: torch.Tensor, *, to_row: bool
) -> None:
    for entry in entries:
        view = entry.view(row)
        if to_row:
            view.copy_(tensors[entry.name])
        else:
            tensors[entry.name].copy_(view)


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
        made = torch.zeros if cleared else torch.empty
        parameters = made((rows, layout.size), dtype=torch.float16 if half else torch.float32, device=device)
        buffers = made((rows, layout.buffer_size), dtype=torch.float32, device=device)
        rest = torch.zeros((rows, layout.size), dtype=torch.float32, device=device) if momentum else None
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
        for row, source in enumerate(sources.tolist(), begin):
            models.parameters[row].copy_(models.parameters[source])
            models.buffers[row].copy_(models.buffers[source])
        if models.momentum is not None:
            models.momentum[begin:].zero_()
        return models

    def kept(self, rows: np.ndarray) -> Models:
        """The models in these rows (int64, rising); the others are given up, and `self` must not be used afterwards."""
        return keep(self, rows)

    def write(self, row: int, parameters: torch.Tensor, buffers: torch.Tensor) -> None:
        """Replace a model; its momentum stays."""
        self.parameters[row] = parameters
        self.buffers[row] = buffers

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

        def mean(matrix: torch.Tensor) -> torch.Tensor:
            return (column_sums(matrix) / len(matrix)).to(torch.float32)[None]

        return Models(self.layout, mean(self.parameters), mean(self.buffers), None)

    def consensus_distance(self) -> float:
        """How far the parameters are from their mean, as the function of this name."""
        return consensus_distance(self.parameters)


BLOCK = 4096  # columns: a block of every row fits the cache
# Columns, a multiple of BLOCK: what torch leaves to one thread (its grain size). More it divides among all, and those
# that have nothing to do until the next row wait at full speed.
_ALONE = 32_768


def _column_blocks(matrix: torch.Tensor) -> Iterator[slice]:
    """All columns in order, in blocks that are worked on by one thread; on a GPU in one."""
    width = _ALONE if matrix.device.type == "cpu" else max(matrix.shape[1], 1)
    for begin in range(0, matrix.shape[1], width):
        yield slice(begin, begin + width)


def column_sums(matrix: torch.Tensor) -> torch.Tensor:
    """Sum of the rows in float64, in row order: the same for any number of threads."""
    total = torch.zeros(matrix.shape[1], dtype=torch.float64, device=matrix.device)
    for some in _column_blocks(matrix):
        part = total[some]
        for row in matrix[:, some]:
            part += row
    return total


def weighted_sum(matrix: torch.Tensor, rows: np.ndarray, weights: np.ndarray) -> torch.Tensor:
    """sum_k weights[k] * matrix[rows[k]] in float64, in the order given: the same for any number of threads."""
    total = torch.zeros(matrix.shape[1], dtype=torch.float64, device=matrix.device)
    terms = list(zip(rows.tolist(), weights.tolist(), strict=True))
    for some in _column_blocks(matrix):
        part, block = total[some], matrix[:, some]
        for row, weight in terms:
            part.add_(block[row], alpha=weight)
    return total


def consensus_distance(parameters: torch.Tensor) -> float:
    """||X - Xbar||_F^2 = sum_i ||x_i - xbar||^2, the distance of Jahani et al., Lemma 3 (float64)."""
    if len(parameters) == 0:
        return 0.0
    return in_order(distances(parameters, column_sums(parameters) / len(parameters)))


def distances(rows: torch.Tensor, mean: torch.Tensor) -> np.ndarray:
    """||x_i - xbar||^2 of rows x_i (float32 [rows, columns]) and a mean (float64 [columns]) in parts that are to be
    added up: float64 [rows, parts]."""
    # In blocks too small to be divided among threads: the same for any number of them.
    several = [(rows[:, some], mean[some]) for some in _column_blocks(rows)]
    parts = [
        [float(part.sum()) for block, middle in several for part in ((block[k] - middle) ** 2).split(BLOCK)]
        for k in range(len(rows))
    ]
    return np.array(parts, dtype=np.float64).reshape(len(rows), -1)


def in_order(parts: np.ndarray) -> float:
    """The sum of all values, one after the other."""
    return float(np.add.accumulate(parts.reshape(-1))[-1]) if parts.size else 0.0
