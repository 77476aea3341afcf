"""Equal models are found bit for bit, and without comparing each with each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fedroam.learning import Layout, Models, alike
from fedroam.learning.alike import first_alike
from fedroam.learning.engine import cases

LONG = Layout.of(nn.Linear(99, 10))
WITH_BUFFERS = Layout.of(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)))
VALUES = (0.0, -0.0, 1.0, float("nan"))


def by_hand(models: Models, rows: list[int], momentum: bool) -> list[int]:
    """Each with each."""
    matrices = [models.parameters, models.buffers, *([models.momentum] if momentum else [])]

    def written(row: int) -> list[bytes]:
        return [matrix[row].numpy().tobytes() for matrix in matrices if matrix is not None]

    return [min(k for k, other in enumerate(rows) if written(other) == written(row)) for row in rows]


@given(st.data(), st.booleans(), st.booleans())
def test_first_alike_is_that_of_each_compared_with_each(
    data: st.DataObject, half: bool, momentum: bool
) -> None:
    count = data.draw(st.integers(1, 6))
    models = Models.empty(WITH_BUFFERS, count, momentum=True, half=half)
    assert models.momentum is not None
    for matrix in (models.parameters, models.buffers, models.momentum):
        places = st.tuples(st.integers(0, count - 1), st.integers(0, matrix.shape[1] - 1))
        for row, column in data.draw(st.lists(places, max_size=3)):
            matrix[row, column] = data.draw(st.sampled_from(VALUES))
    rows = data.draw(st.lists(st.integers(0, count - 1), max_size=9))
    assert first_alike(models, rows, momentum).tolist() == by_hand(models, rows, momentum)


def at(column: int) -> Callable[[Models], None]:
    """Models that differ in one value."""

    def write(models: Models) -> None:
        models.parameters[:, column] = torch.arange(len(models)).float()

    return write


def of_few_kinds(models: Models) -> None:
    """Models of as many kinds as the root of their number, which differ in one value where nobody looks first."""
    models.parameters[:, 64] = (torch.arange(len(models)) % int(len(models) ** 0.5)).float()


def not_even_numbers(models: Models) -> None:
    models.parameters[:, 3] = float("nan")


@pytest.mark.parametrize(
    "write",
    [*map(at, (0, 63, 64, 500, 998, 999)), of_few_kinds, not_even_numbers],
    ids=["0", "63", "64", "500", "998", "999", "few kinds", "NaN"],
)
@pytest.mark.parametrize("rows", [50, 400])
def test_models_that_agree_in_most_values_are_not_compared_each_with_each(
    write: Callable[[Models], None], rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = Models.empty(LONG, rows, momentum=False)
    write(models)
    compared: list[tuple[int, int]] = []
    real = alike._equal

    def equal(matrices: Any, a: int, b: int) -> bool:
        compared.append((a, b))
        return real(matrices, a, b)

    monkeypatch.setattr(alike, "_equal", equal)
    parts = [np.arange(3) for _ in range(rows)]
    asked = cases(models, range(rows), parts)
    assert len(compared) <= 2 * rows
    distinct, of = np.unique(models.parameters.numpy().view(np.int32), axis=0, return_inverse=True)
    assert len(asked.rows) == len(distinct)
    np.testing.assert_array_equal(asked.of[:, None] == asked.of, of.reshape(-1)[:, None] == of.reshape(-1))


def test_one_model_on_everybodys_own_samples_is_asked_once_for_each_set_of_samples() -> None:
    """None is compared with all before it, nor is what all share written out for each."""
    models, rows = Models.empty(LONG, 3, momentum=False), 400
    models.parameters[2, -1] = 1.0
    written: list[int] = []

    class Told(np.ndarray):
        def tobytes(self, order: Any = "C") -> bytes:
            written.append(len(self))
            return super().tobytes(order)

        def __eq__(self, other: object) -> Any:
            raise AssertionError("samples are compared")

    own = [np.arange(k % 100, 107).view(Told) for k in range(rows)]
    asked = cases(models, [0, 1] * (rows // 2), own)
    assert len(asked.rows) == 100
    assert asked.of.tolist() == [k % 100 for k in range(rows)]
    assert len(written) == rows
    written.clear()
    asked = cases(models, [0, 1, 2, 2] * (rows // 4), [own[0]] * rows)
    assert asked.rows == [0, 2]
    assert asked.of.tolist() == [0, 0, 1, 1] * (rows // 4)
    assert len(written) == 1


def test_rows_of_one_hash_that_differ_are_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alike, "_hash", lambda matrices, row: 7)
    models = Models.empty(LONG, 4, momentum=False)
    at(64)(models)
    assert first_alike(models, range(4)).tolist() == [0, 1, 2, 3]
