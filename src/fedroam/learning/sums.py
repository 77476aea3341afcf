"""Sums over the rows of a matrix, in float64: the same to the last bit for any number of threads.

What is as long as a row is made and divided by NumPy: torch's threads would do it no sooner, and go on spinning for
milliseconds when they are done, on cores that the workers need.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch

from fedroam.learning.cpu.kernels import RowDistances, RowProducts, RowTotal
from fedroam.learning.cpu.workers import shared_workers
from fedroam.learning.half_precision import held
from fedroam.native import Kernel, Target, kernel, target

BLOCK = 4096  # columns: a block of every row fits the cache
COPIED = (
    2**15
)  # values of models at rest in 16 bits that each worker copies at a time: they stay in its cache
NEAREST = 2048  # columns whose sums stay in a core's nearest cache
SHARES, MOST_NEAREST = 4, 32  # parts for each worker, and how many times as many columns these are at most
# Columns, a multiple of BLOCK: what torch leaves to one thread (its grain size). More it divides among all, and those
# that have nothing to do until the next row wait at full speed.
_ALONE = 32_768


@contextlib.contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Within it torch computes with so many threads. Where several divide a sum, its last digits tell how many they
    are: what a run computes so takes one, or it would be another run on a machine with more cores, or in a sweep."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def settled() -> Iterator[None]:
    """Within it an accelerator adds up the same in the same order whenever the same is asked, in whole float32."""
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
        yield


def column_sums(matrix: torch.Tensor) -> torch.Tensor:
    """Sum of the rows, in row order: float64 [columns]."""
    return weighted_sum(matrix, np.arange(len(matrix)), np.ones(len(matrix)))


def column_means(matrix: torch.Tensor) -> torch.Tensor:
    """Mean of the rows, at least one, summed in row order: float64 [columns]."""
    sums = column_sums(matrix)
    return torch.from_numpy(sums.numpy() / len(matrix)) if sums.device.type == "cpu" else sums / len(matrix)


def weighted_sum(matrix: torch.Tensor, rows: np.ndarray, weights: np.ndarray) -> torch.Tensor:
    """sum_k weights[k] * matrix[rows[k]], in the order given: float64 [columns].

    rows: int64; weights: float64. Kernels add each product with one rounding. Raises IndexError for a row that is not
    there.
    """
    rows, weights = _rows_of(matrix, rows), np.ascontiguousarray(weights, np.float64)
    total = torch.from_numpy(np.zeros(matrix.shape[1])).to(matrix.device)
    here = _target(matrix)
    if here:
        add = partial(_total_into, kernel(RowTotal(), here), matrix, rows, weights, total)
        _each(len(rows), len(total), _step(len(total)), add)
        return total
    terms = list(zip(rows.tolist(), weights.tolist(), strict=True))
    for columns in _column_blocks(matrix):
        part, block = total[columns], matrix[:, columns]
        for row, weight in terms:
            part.add_(block[row], alpha=weight)
    return total


def consensus_distance(parameters: torch.Tensor, mean: torch.Tensor | None = None) -> float:
    """||X - Xbar||_F^2 = sum_i ||x_i - xbar||^2, the distance of Jahani et al., Lemma 3 (float64).

    mean: `column_means` of the same, where they are known.
    """
    if len(parameters) == 0:
        return 0.0
    return in_order(distances(parameters, column_means(parameters) if mean is None else mean))


def distances(rows: torch.Tensor, mean: torch.Tensor) -> np.ndarray:
    """||x_i - xbar||^2 of rows x_i (float32 [rows, columns]) and a mean (float64 [columns]) in parts that are to be
    added up: float64 [rows, parts]. What is found of a row does not depend on those beside it."""
    columns, here = rows.shape[1], _target(rows)
    if here:
        found = np.empty((len(rows), -(-columns // BLOCK)), dtype=np.float64)
        run = kernel(RowDistances(), here)
        _each(len(rows), columns, BLOCK, partial(_distances_into, run, rows, mean.contiguous(), found))
        return found
    # In blocks too small to be divided among threads: the same for any number of them. Row by row, since an accelerator
    # adds up in another order where more is to be added up; and taken from it together, which waits for all that was
    # asked before each time that something is.
    several = [(rows[:, some], mean[some], _whole_parts(mean[some])) for some in _column_blocks(rows)]
    parts: list[torch.Tensor] = []
    for k in range(len(rows)):
        for block, middle, away in several:
            torch.sub(block[k], middle, out=away[: len(middle)]).square_()
            parts.append(away.view(-1, BLOCK).sum(1))
    return torch.cat(parts).view(len(rows), -1).cpu().numpy() if parts else np.empty((len(rows), 0))


def _whole_parts(mean: torch.Tensor) -> torch.Tensor:
    """Zeros, float64, as many as so many columns have in whole parts."""
    return mean.new_zeros(-(-len(mean) // BLOCK) * BLOCK, dtype=torch.float64)


def products(matrix: torch.Tensor, own: int, rows: np.ndarray) -> np.ndarray:
    """own . row and row . row of each of these rows (int64), where `own` is one row of the same matrix: float64
    [rows, 2]. What is found of a row does not depend on those beside it. Raises IndexError for a row that is not
    there."""
    columns, here = matrix.shape[1], _target(matrix)
    rows, _ = _rows_of(matrix, rows), _rows_of(matrix, np.array([own]))
    if not here:
        first, others = matrix[own].cpu().numpy(), (matrix[row].cpu().numpy() for row in rows.tolist())
        pairs = [[np.multiply(a, b, dtype=np.float64).sum() for a in (first, b)] for b in others]
        return np.array(pairs).reshape(len(rows), 2)
    found = np.zeros((len(rows), -(-columns // BLOCK), 2))
    _each(
        len(rows),
        columns,
        _step(columns, BLOCK),
        partial(_products_into, kernel(RowProducts(BLOCK), here), matrix, own, rows, found),
    )
    sums: np.ndarray = found.sum(axis=1)
    return sums


def rounded(total: torch.Tensor) -> torch.Tensor:
    """What was summed in float64, as float32."""
    if total.device.type == "cpu":
        return torch.from_numpy(total.numpy().astype(np.float32))
    return total.to(torch.float32)


def in_order(parts: np.ndarray) -> float:
    """The sum of all values, one after the other."""
    return float(np.add.accumulate(parts.reshape(-1))[-1]) if parts.size else 0.0


def _rows_of(matrix: torch.Tensor, rows: np.ndarray) -> np.ndarray:
    """These rows as kernels read them, int64. Raises IndexError where one is not there."""
    rows = np.ascontiguousarray(rows, np.int64)
    if len(rows) and not 0 <= rows.min() <= rows.max() < len(matrix):
        raise IndexError(f"rows {rows.min()} to {rows.max()} of a matrix of {len(matrix)}")
    return rows


def _total_into(
    run: Kernel,
    matrix: torch.Tensor,
    rows: np.ndarray,
    weights: np.ndarray,
    total: torch.Tensor,
    begin: int,
    end: int,
) -> None:
    """Add rows to a total (float64 [columns]) in some of its columns."""
    for own, chosen, some in _in_float32(matrix[:, begin:end], rows):
        factors, there = weights[some], total[begin:end]
        addresses = own.data_ptr(), chosen.ctypes.data, factors.ctypes.data, there.data_ptr()
        run(*addresses, len(chosen), own.stride(0), 0, end - begin)


def _distances_into(
    run: Kernel, rows: torch.Tensor, mean: torch.Tensor, found: np.ndarray, begin: int, end: int
) -> None:
    """The distances of rows in some columns, the part of `found` [rows, parts] that is theirs."""
    middle, part = mean[begin:end], found[:, begin // BLOCK :]
    for own, chosen, some in _in_float32(rows[:, begin:end], np.arange(len(rows))):
        addresses = own.data_ptr(), middle.data_ptr(), part[some].ctypes.data
        run(*addresses, len(chosen), own.stride(0), found.shape[1], 0, end - begin)


def _products_into(
    run: Kernel,
    matrix: torch.Tensor,
    own: int,
    rows: np.ndarray,
    found: np.ndarray,
    begin: int,
    end: int,
) -> None:
    """The products of rows with row `own` in some columns, the part of `found` [rows, blocks, 2] that is theirs."""
    first = matrix[own, begin:end].float()
    for there, chosen, some in _in_float32(matrix[:, begin:end], rows):
        part = found[some, begin // BLOCK :]
        addresses = first.data_ptr(), there.data_ptr(), chosen.ctypes.data, part.ctypes.data
        run(*addresses, len(chosen), there.stride(0), found.shape[1], end - begin)


def _in_float32(matrix: torch.Tensor, rows: np.ndarray) -> Iterator[tuple[torch.Tensor, np.ndarray, slice]]:
    """Matrices in float32, where in them rows lie (int64), and which of `rows` these are, in order: the matrix itself
    with all, or, where it is held in 16 bits, copies of some rows at a time."""
    if matrix.dtype == torch.float32:
        yield matrix, rows, slice(None)
        return
    step, given = max(1, COPIED // max(1, matrix.shape[1])), held(matrix)
    for begin in range(0, len(rows), step):
        some = slice(begin, begin + step)
        # Row by row: to take them by an index costs as much again as what is made of them.
        copies = [given[row].float() for row in rows[some].tolist()]
        yield torch.stack(copies) if len(copies) > 1 else copies[0][None], np.arange(len(copies)), some


def _target(matrix: torch.Tensor) -> Target | None:
    """What kernels are cut for, where they can read a matrix, or copies of its rows in float32."""
    lies_so = matrix.device.type == "cpu" and (matrix.stride(1) == 1 or matrix.shape[1] == 1)
    return target() if lies_so and matrix.dtype in (torch.float32, torch.float16) else None


def _step(columns: int, unit: int = NEAREST) -> int:
    """How many columns a worker sums at a time, in whole units: some times for each worker. Small parts cost more to
    hand out than a few rows of them take, and large ones leave the nearest cache, which matters less."""
    shares = columns // (unit * SHARES * shared_workers().count)
    return unit * min(max(shares, 1), MOST_NEAREST)


def _each(rows: int, columns: int, step: int, do: Callable[[int, int], None]) -> None:
    """do(begin, end) for so many columns at a time of all these rows, by all workers."""
    shared_workers().parts(
        columns, step, lambda _, begin, end: do(begin, end), "sums, part {}".format, work=rows * columns
    )


def _column_blocks(matrix: torch.Tensor) -> Iterator[slice]:
    """All columns in order, in blocks that are worked on by one thread; on a GPU in one."""
    width = _ALONE if matrix.device.type == "cpu" else max(matrix.shape[1], 1)
    for begin in range(0, matrix.shape[1], width):
        yield slice(begin, begin + width)
