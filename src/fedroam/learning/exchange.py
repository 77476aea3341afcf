"""The exchange itself: rows of the model matrix replaced by weighted sums of rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from scipy import sparse
from torch.nn import functional

from fedroam.contacts.ragged import in_rows, lengths
from fedroam.learning.cpu.kernels import RowSums
from fedroam.learning.cpu.workers import shared_workers
from fedroam.learning.half_precision import held
from fedroam.learning.matrix import Models
from fedroam.native import Target, kernel, target

# Columns done at a time by torch: on a CPU, as many as let this part of the rows stay in a core's own cache (it is read
# once for each neighbour), down to those of a thousand rows; elsewhere, so many that a single call is enough work.
CPU_VALUES = 2**17
LEAST = 256
COLUMNS = 65536
TASK = 4096  # columns that one worker takes at a time


def mix(models: Models, weights: sparse.csr_array) -> None:
    """X <- W X in place, for parameters and buffers: row i becomes sum_j w_ij x_j (momentum stays at home).

    weights: float64 CSR [rows, rows]; rows that only keep themselves are not touched. Sums run in float32, in the
    order of a row's entries: the same for any number of threads.
    """
    changed, own = changes(weights)
    if len(changed):
        mix_rows(models, own, changed)


def changes(weights: sparse.csr_array) -> tuple[np.ndarray, sparse.csr_array]:
    """The rows (int64, rising) that do not only keep themselves, and their weights (CSR [changed, rows])."""
    if not isinstance(weights, sparse.csr_array):  # which a mixing rule of the user's own may have given
        weights = sparse.csr_array(weights)
    entries = lengths(weights.indptr)
    keeps = (entries == 1) & (weights.diagonal() == 1.0)
    changed = np.flatnonzero(~keeps)
    if len(changed) == len(keeps):
        return changed, weights
    # Cut out here: to ask scipy for rows takes several times as long, which in a round of small models is felt.
    some, begins = np.flatnonzero(np.repeat(~keeps, entries)), np.append(0, np.cumsum(entries[changed]))
    cut = in_rows(weights.data[some], weights.indices[some], begins, (len(changed), weights.shape[1]))
    # A rule of the user's own may list them in any order.
    cut.has_sorted_indices = cut.has_canonical_format = False
    return changed, cut


def mix_rows(models: Models, weights: sparse.csr_array, changed: np.ndarray) -> None:
    """Replace rows `changed` (int64) by `weights` (float64 CSR [changed, rows]) X, as `mix` does.

    What becomes of a row depends on its own weights alone, to the last bit: not on which others are replaced with it.
    """
    for matrix in (models.parameters, models.buffers):
        if matrix.shape[1]:
            _mix(matrix, weights, changed)


def _mix(matrix: torch.Tensor, weights: sparse.csr_array, changed: np.ndarray) -> None:
    """Rows `changed` of the matrix become `weights` [changed, rows] times the matrix."""
    taken = np.zeros(weights.shape[1], dtype=bool)
    taken[weights.indices] = True
    read = np.flatnonzero(taken)
    entries, begins = (np.cumsum(taken) - 1)[weights.indices], weights.indptr.astype(np.int64)
    sums = _Sums(
        read.astype(np.int64), changed.astype(np.int64), entries, begins, weights.data.astype(np.float32)
    )
    if matrix.device.type != "cpu":
        _by_torch(matrix, sums)(0, matrix.shape[1], COLUMNS)
        return
    # Workers of our own, not torch's threads: those would meet several times for each block, and wait each time for
    # whichever is held up by something else.
    here, width, workers = target(), matrix.shape[1], shared_workers()
    count = workers.count  # which another run of this process may change
    work = math.inf
    if here and held(matrix).dtype == torch.float32 and matrix.stride(1) == 1:
        do, work = _compiled(matrix, sums, here, count), len(entries) * width
    else:
        blocks, step = _by_torch(matrix, sums), cpu_columns(len(read))

        def do(_: int, begin: int, end: int) -> None:
            blocks(begin, end, step)

    workers.parts(width, TASK, do, "exchange, part {}".format, most=count, work=work)


class _Sums(NamedTuple):
    """Row changed[i] becomes the sum of factors[e] * row read[entries[e]], e from begins[i] to begins[i + 1]."""

    read: np.ndarray
    changed: np.ndarray
    entries: np.ndarray
    begins: np.ndarray
    factors: np.ndarray


def _compiled(
    matrix: torch.Tensor, sums: _Sums, here: Target, workers: int
) -> Callable[[int, int, int], None]:
    """do(worker, begin, end): these columns, by a kernel, as long as `sums` are there. The same bits as torch's."""
    spec = RowSums()
    run, room = kernel(spec, here), spec.scratch(len(sums.read), here.lanes)
    scratch = np.empty((workers, room), dtype=np.float32)
    arrays = (sums.read, sums.changed, sums.entries, sums.factors, sums.begins)
    given = [matrix.data_ptr(), *(each.ctypes.data for each in arrays)]
    sizes = len(sums.read), len(sums.changed), matrix.stride(0)
    first = scratch.ctypes.data
    return lambda worker, begin, end: run(*given, first + worker * scratch.strides[0], *sizes, begin, end)


def _by_torch(matrix: torch.Tensor, sums: _Sums) -> Callable[[int, int, int], None]:
    """blocks(begin, end, step): these columns, so many at a time."""
    source, target, entries, begins, factors = (
        torch.from_numpy(np.ascontiguousarray(each)).to(matrix.device) for each in sums
    )
    everything = len(source) == len(target) == len(matrix)

    @torch.no_grad()
    def blocks(begin: int, end: int, step: int) -> None:
        for start in range(begin, end, step):
            block = matrix[:, start : min(start + step, end)]
            values = block.contiguous() if everything else block.index_select(0, source)
            # A weighted sum of rows is a "bag of embeddings": of torch's ways to say it, the one with a fast kernel.
            found = functional.embedding_bag(
                entries, values, begins, mode="sum", per_sample_weights=factors, include_last_offset=True
            )
            if everything:
                block.copy_(found)
            else:
                block.index_copy_(0, target, found)

    return blocks


def cpu_columns(rows: int) -> int:
    """How many columns of so many rows are done at a time on a CPU: a power of two, from `LEAST` to `TASK`."""
    fit = max(1, CPU_VALUES // max(1, rows))
    return min(TASK, max(LEAST, 1 << fit.bit_length() - 1))
