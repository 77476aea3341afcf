"""The exchange itself: rows of the model matrix replaced by weighted sums of rows."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from scipy import sparse

from fedroam.learning.matrix import BLOCK, Models


def mix(models: Models, weights: sparse.csr_array) -> None:
    """X <- W X in place, for parameters and buffers: row i becomes sum_j w_ij x_j (momentum stays at home).

    weights: float64 CSR [rows, rows]; rows that only keep themselves are not touched.
    """
    weights = sparse.csr_array(weights)
    keeps = (np.diff(weights.indptr) == 1) & (weights.diagonal() == 1.0)
    changed = np.flatnonzero(~keeps)
    if len(changed) == 0:
        return
    some = weights[changed]
    for matrix in (models.parameters, models.buffers):
        if matrix.shape[1]:
            _mix(matrix, some, torch.from_numpy(changed).to(matrix.device))


def _mix(matrix: torch.Tensor, weights: sparse.csr_array, changed: torch.Tensor) -> None:
    with warnings.catch_warnings():  # torch calls its CSR support beta at each program's first use
        warnings.filterwarnings("ignore", "Sparse CSR tensor support", UserWarning)
        product = torch.sparse_csr_tensor(
            torch.from_numpy(weights.indptr.astype(np.int64)),
            torch.from_numpy(weights.indices.astype(np.int64)),
            torch.from_numpy(weights.data.astype(np.float32)),
            size=weights.shape,
            device=matrix.device,
            check_invariants=False,
        )
    for begin in range(0, matrix.shape[1], BLOCK):
        block = matrix[:, begin : begin + BLOCK]
        block[changed] = product @ block.contiguous()
