from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from fedroam.contacts.ragged import in_rows


@given(rows=st.integers(1, 6), columns=st.integers(1, 6), seed=st.integers(0, 99))
def test_rows_put_together_are_those_that_scipy_makes(rows: int, columns: int, seed: int) -> None:
    """And none knows of another of the same shape: what is written into one stays there."""
    draw = np.random.default_rng(seed)
    dense = draw.random((rows, columns)) * (draw.random((rows, columns)) < 0.4)
    plain = sparse.csr_array(dense)
    made, other = (in_rows(plain.data.copy(), plain.indices, plain.indptr, plain.shape) for _ in range(2))
    other.data[:] = 7.0
    np.testing.assert_array_equal(made.toarray(), dense)
    assert made.shape == plain.shape
    assert (made.indices.dtype, made.indptr.dtype) == (plain.indices.dtype, plain.indptr.dtype)
    assert made.has_sorted_indices
    vector = draw.random(columns)
    np.testing.assert_array_equal(made @ vector, plain @ vector)
    empty = in_rows(np.empty(0), np.empty(0, int), np.zeros(rows + 1, int), (rows, columns))
    assert not empty.nnz
