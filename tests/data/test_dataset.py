"""A data set refuses what no network can learn from."""

from __future__ import annotations

import numpy as np
import pytest

from fedroam.data import Dataset
from fedroam.data.dataset import AT_ONCE
from fedroam.errors import InputError


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("shape", [(AT_ONCE + 5, 1), (3, AT_ONCE + 5), (5, 2, 3, 1)])
def test_a_value_that_is_not_finite_is_found_wherever_it_is(shape: tuple[int, ...], value: float) -> None:
    """Samples are looked through a few at a time, one at a time where they are large."""
    x, y = np.zeros(shape, np.float32), np.zeros(shape[0], np.int64)
    x[-2].reshape(-1)[-1] = value
    with pytest.raises(InputError, match=f"train sample {len(x) - 2} holds a value that is not finite"):
        Dataset("own", x, y, x[:0], y[:0], ("only",))
