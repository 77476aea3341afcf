"""The exchange itself: rows of the model matrix replaced by weighted sums of rows."""

from __future__ import annotations

import functools

import numpy as np
import torch
from scipy import sparse
from torch.nn import functional

from fedroam.learning.cpu.workers import Workers, cores
from fedroam.learning.matrix import Models

# Columns done at a time: on a CPU, as many as let this part of the rows stay in a core's own cache (it is read once for
# each neighbour), down to those of a thousand rows; elsewhere, so many that a single call is enough work.
CPU_VALUES = 2**17
LEAST = 256
TASK = 4096  # columns that one worker takes at a time
COLUMNS = 65536


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
    weights = sparse.csr_array(weights)
    keeps = (np.diff(weights.indptr) == 1) & (weights.diagonal() == 1.0)
    changed = np.flatnonzero(~keeps)
    return changed, weights if len(changed) == len(keeps) else sparse.csr_array(weights[changed])


def mix_rows(models: Models, weights: sparse.csr_array, changed: np.ndarray) -> None:
    """Replace rows `changed` (int64) by `weights` (float64 CSR [changed, rows]) X, as `mix` does.

    What becomes of a row depends on its own weights alone, to the last bit: not on which others are replaced with it.
    """
    for matrix in (models.parameters, models.buffers):
        if matrix.shape[1]:
            _mix(matrix, weights, changed)


def _mix(matrix: torch.Tensor, weights: sparse.csr_array, changed: np.ndarray) -> None:
    """Rows `changed` of the matrix become `weights` [changed, rows] times the matrix."""

    def tensor(values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(matrix.device)

    read, own = np.unique(weights.indices, return_inverse=True)
    entries, begins = tensor(own.astype(np.int64)), tensor(weights.indptr.astype(np.int64))
    factors = tensor(weights.data.astype(np.float32))
    everything = len(read) == len(changed) == len(matrix)
    source, target = tensor(read.astype(np.int64)), tensor(changed.astype(np.int64))
    width = matrix.shape[1]

    @torch.no_grad()
    def blocks(begin: int, end: int, step: int) -> None:
        for start in range(begin, end, step):
            block = matrix[:, start : min(start + step, end)]
            values = block.contiguous() if everything else block.index_select(0, source)
            # A weighted sum of rows is a "bag of embeddings": of torch's ways to say it, the one with a fast kernel.
            sums = functional.embedding_bag(
                entries, values, begins, mode="sum", per_sample_weights=factors, include_last_offset=True
            )
            if everything:
                block.copy_(sums)
            else:
                block.index_copy_(0, target, sums)

    if matrix.device.type != "cpu":
        blocks(0, width, COLUMNS)
        return
    # Workers of our own, not torch's threads: those would meet several times for each block, and wait each time for
    # whichever is held up by something else.
    starts, step = range(0, width, TASK), cpu_columns(len(read))
    _workers().run(
        [1.0] * len(starts),
        lambda _, k: blocks(starts[k], min(starts[k] + TASK, width), step),
        "exchange, part {}".format,
    )


def cpu_columns(rows: int) -> int:
    """How many columns of so many rows are done at a time on a CPU: a power of two, from `LEAST` to `TASK`."""
    fit = max(1, CPU_VALUES // max(1, rows))
    return min(TASK, max(LEAST, 1 << fit.bit_length() - 1))


@functools.cache
def _workers() -> Workers:
    """As many as torch may use threads in this process, made at the first exchange."""
    return Workers(max(1, min(cores(), torch.get_num_threads())))
