"""Half precision: what is written is rounded to the nearest, and everything else is computed in float32."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import nn

from fedroam.learning import Layout, Models, in_half_precision
from fedroam.learning.capacity import keep, with_capacity
from fedroam.learning.half_precision import HalfPrecision, held, widened

VALUES = arrays(np.float32, (3, 5), elements=st.floats(width=32))
NUMBERS = arrays(np.float32, (3, 5), elements=st.floats(-100, 100, width=32))
Operation = Callable[[torch.Tensor], torch.Tensor]


def empty(rows: int = 3, columns: int = 5) -> torch.Tensor:
    return in_half_precision(torch.zeros((rows, columns), dtype=torch.float16))


def filled(values: np.ndarray) -> torch.Tensor:
    matrix = empty(*values.shape)
    matrix[:] = torch.from_numpy(values)
    return matrix


def nearest(values: np.ndarray) -> np.ndarray:
    """By numpy, which rounds in software of its own."""
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float32)


@given(VALUES)
def test_what_is_written_is_rounded_to_the_nearest(values: np.ndarray) -> None:
    given, index = torch.from_numpy(values), torch.arange(3)
    found = [empty() for _ in range(5)]
    found[0][:] = given
    for row, one in enumerate(given):
        found[1][row] = one
    found[2].copy_(given)
    found[3].index_copy_(0, index, given)
    found[4][index, 1:4] = given[:, 1:4]
    for matrix in found[:4]:
        np.testing.assert_array_equal(matrix.numpy(), nearest(values))
    np.testing.assert_array_equal(found[4].numpy()[:, 1:4], nearest(values)[:, 1:4])
    assert not found[4].numpy()[:, [0, 4]].any()


@given(VALUES)
def test_a_round_trip_changes_nothing_more(values: np.ndarray) -> None:
    first = filled(values)
    again = empty()
    again[:] = first
    assert torch.equal(held(again).view(torch.int16), held(first).view(torch.int16))
    again[:] = widened(first)
    np.testing.assert_array_equal(again.numpy(), first.numpy())


def test_every_value_of_the_format_is_kept() -> None:
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    numbers = every[np.isfinite(every)].astype(np.float32)
    np.testing.assert_array_equal(filled(numbers[None]).numpy()[0], numbers)


def test_halfway_goes_to_the_even_one_and_too_much_to_infinity() -> None:
    step = 2.0**-10  # from 1 to the next
    given = [1 + step / 2, 1 + 3 * step / 2, 65504.0, 65519.9, 65520.0, -1e30, 2.0**-24, 2.0**-26]
    wanted = [1.0, 1 + 2 * step, 65504.0, 65504.0, np.inf, -np.inf, 2.0**-24, 0.0]
    assert filled(np.array([given], np.float32)).tolist() == [wanted]
    matrix = empty(1, 2)
    matrix[0, 0], matrix[0, 1] = 1e9, 1 + step / 2
    assert matrix.tolist() == [[np.inf, 1.0]]


def test_float64_is_rounded_by_way_of_float32() -> None:
    value = 1 + 2.0**-11 + 2.0**-40  # above halfway, which float32 does not see
    matrix = empty(1, 1)
    matrix[0] = torch.tensor([value], dtype=torch.float64)
    assert matrix.tolist() == [[1.0]]


@pytest.mark.parametrize(
    "compute",
    [
        lambda m: m + 1e-4,
        lambda m: 1e-4 * m,
        lambda m: m - m.mean(0),
        lambda m: torch.lerp(m[0], m[1], 0.3),
        lambda m: torch.cat([m, m * 1.0001]),
        lambda m: torch.stack([m[1], m[0]]),
        lambda m: m[torch.tensor([2, 0])] @ m.T,
        lambda m: m[:, 1:4].clone() * m[:, 1:4],
        lambda m: m.double().square().sum(),
        lambda m: torch.zeros(5).add_(m[0], alpha=0.3),
        lambda m: torch.zeros(5, dtype=torch.float64) + m[2],
        lambda m: torch.where(m > 0, m, -m),
        lambda m: torch.zeros_like(m),
        lambda m: m.float(),
        lambda m: torch.tensor(float(m[1, 1])),
        lambda m: torch.from_numpy(np.array(m.view(-1).numpy())),
        lambda m: torch.stack([row * 3 for row in m]),
    ],
)
@given(values=NUMBERS)
def test_it_is_computed_with_in_float32(compute: Operation, values: np.ndarray) -> None:
    found, wanted = compute(filled(values)), compute(torch.from_numpy(nearest(values)))
    assert type(found) is torch.Tensor
    assert found.dtype == wanted.dtype
    torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.mul_(1.001),
        lambda m: m[1:].sub_(m[0]),
        lambda m: m[2].view(5, 1).add_(0.3),
        lambda m: m[:, :2].__imul__(0.1),
        lambda m: m.zero_(),
        lambda m: m[1].fill_(1e-7),
        lambda m: m.data.index_copy_(0, torch.tensor([1]), m[2:] / 3),
        lambda m: m[0].copy_(m[1] * 0.7),
        lambda m: m.unbind()[1].addcmul_(m[0], m[0], value=0.01),
    ],
)
@given(values=NUMBERS)
def test_an_operation_in_place_is_one_in_float32_and_a_store(change: Operation, values: np.ndarray) -> None:
    matrix, plain = filled(values), torch.from_numpy(nearest(values))
    change(matrix)
    change(plain)
    np.testing.assert_array_equal(matrix.numpy(), nearest(plain.numpy()))


def test_views_see_one_memory_and_copies_stay_small() -> None:
    matrix = filled(np.ones((3, 5), np.float32))
    rows, copy = matrix[:2], matrix.clone()
    rows[1] = torch.full((5,), 2.0)
    assert matrix[1].tolist() == [2.0] * 5
    assert copy[1].tolist() == [1.0] * 5
    for each in (rows, copy, matrix[torch.tensor([0])], matrix.index_select(0, torch.tensor([0]))):
        assert isinstance(each, HalfPrecision)
        assert held(each).element_size() == 2
    assert matrix.shape == torch.Size((3, 5))
    assert isinstance(matrix.shape, torch.Size)


def test_nothing_takes_16_bits_for_32() -> None:
    matrix = filled(np.ones((3, 5), np.float32))
    with pytest.raises(TypeError, match="half precision"):
        matrix.data_ptr()
    with pytest.raises(ValueError, match="read-only"):
        matrix.numpy()[0] = 1.0


# --- matrices of models -----------------------------------------------------------------------------------------

LAYOUT = Layout.of(nn.Sequential(nn.Linear(30, 20), nn.BatchNorm1d(20)))


def test_parameters_take_half_the_memory_and_the_rest_what_it_took() -> None:
    whole, half = (Models.empty(LAYOUT, 10, momentum=True, half=each).arrays() for each in (False, True))
    assert 2 * half["parameters"].nbytes == whole["parameters"].nbytes == 4 * 10 * LAYOUT.size
    # Buffers hold counters and variances, momentum is the optimiser's.
    assert half["buffers"].nbytes == whole["buffers"].nbytes
    assert half["momentum"].nbytes == whole["momentum"].nbytes
    models = with_capacity(Models.empty(LAYOUT, 2, momentum=False, half=True), 5, 40)
    assert held(models.parameters).untyped_storage().nbytes() == 2 * 40 * LAYOUT.size


def test_models_stay_in_half_precision_while_others_come_and_go() -> None:
    models = Models.empty(LAYOUT, 4, momentum=False, half=True)
    models.parameters[:] = torch.arange(4.0)[:, None] + torch.arange(LAYOUT.size) / 1000
    before = models.parameters.numpy()
    models = models.copied(np.array([1, 3]), most=8)
    np.testing.assert_array_equal(models.parameters.numpy(), before[[0, 1, 2, 3, 1, 3]])
    models = keep(models, [0, 3, 5])
    np.testing.assert_array_equal(models.parameters.numpy(), before[[0, 3, 3]])
    few = models.rows(torch.tensor([2, 0]))
    assert models.half
    assert few.half
    assert not few.widened().half
    assert few.widened().widened().parameters.dtype == torch.float32
    assert not models.mean().half
    assert models.bytes_each == 4 * (LAYOUT.size + LAYOUT.buffer_size)  # of the model as it is sent


def test_sums_over_rows_are_those_of_their_values() -> None:
    models = Models.empty(LAYOUT, 6, momentum=False, half=True)
    models.parameters[:] = torch.linspace(-1, 1, 6 * LAYOUT.size).view(6, -1)
    plain = models.widened()
    assert torch.equal(models.mean().parameters, plain.mean().parameters)
    assert models.consensus_distance() == plain.consensus_distance()
    assert models.consensus_distance(models.mean()) == plain.consensus_distance()
