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


def test_classes_are_one_a_sample_and_among_those_that_there_are() -> None:
    """Kernels write at the class that they are told."""
    x = np.zeros((3, 2), np.float32)

    def dataset(y: np.ndarray) -> Dataset:
        return Dataset("own", x, y, x[:0], np.zeros(0, np.int64), ("a", "b"))

    assert dataset(np.array([0, 1, 1])).classes == 2
    for y, said in (
        (np.array([0, 2, 1]), "train classes from 0 to 2, allowed are 0 to 1"),
        (np.array([0, -1, 1]), "train classes from -1 to 1, allowed are 0 to 1"),
        (np.array([0.0, 1.0, 1.0]), "train samples must be float32 and classes int64"),
        (np.zeros((3, 2), np.int64), r"train classes are \[3, 2\], allowed is one a sample"),
        (np.zeros(2, np.int64), "3 train samples but 2 classes"),
    ):
        with pytest.raises(InputError, match=said):
            dataset(y)
