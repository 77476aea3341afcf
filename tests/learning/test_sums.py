"""Sums over rows, and how far rows are from their mean."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedroam.learning import consensus_distance, in_half_precision, sums, weighted_sum
from fedroam.learning.sums import BLOCK, NEAREST, column_sums, distances, products
from fedroam.randomness import stream

# Whether torch adds a product with one rounding, as kernels do.
FUSED = torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
COLUMNS = st.one_of(st.integers(1, 300), st.just(NEAREST + 77), st.just(BLOCK + 133))


def test_consensus_distance_in_closed_form() -> None:
    """Rows k * u for k = 1 .. n: sum (k - (n + 1) / 2)^2 |u|^2 = n (n^2 - 1) / 12 |u|^2."""
    n, u = 9, torch.arange(1, 6001, dtype=torch.float32) / 100
    rows = torch.arange(1, n + 1, dtype=torch.float32)[:, None] * u
    square = float((u.double() ** 2).sum())
    assert consensus_distance(rows) == pytest.approx(n * (n**2 - 1) / 12 * square, rel=1e-7)
    assert consensus_distance(rows[:1].repeat(4, 1)) == 0
    assert consensus_distance(rows[:0]) == 0


def check_same(found: torch.Tensor, told: torch.Tensor, *, exact: bool) -> None:
    """Equal: to the last bit, or but for another rounding."""
    if exact:
        np.testing.assert_array_equal(found, told)
    else:
        np.testing.assert_allclose(found, told, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("native", ["1", "0"])
def test_sums_over_wide_rows_are_those_of_whole_rows_to_the_last_bit(
    native: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are summed in blocks of columns that one thread works on; the last one is not whole."""
    monkeypatch.setenv("FEDROAM_NATIVE", native)
    draws = stream(0, "wide rows")
    rows = torch.from_numpy(draws.standard_normal((5, 70_001)).astype(np.float32))
    chosen, weights = np.array([4, 0, 3]), draws.random(3)
    summed, weighted = (torch.zeros(rows.shape[1], dtype=torch.float64) for _ in range(2))
    for row in rows:
        summed += row
    for k, weight in zip(chosen, weights, strict=True):
        weighted.add_(rows[k], alpha=weight)
    assert torch.equal(column_sums(rows), summed)
    check_same(weighted_sum(rows, chosen, weights), weighted, exact=FUSED or native == "0")
    away = [[part.sum().item() for part in ((row - summed / 5) ** 2).split(BLOCK)] for row in rows]
    np.testing.assert_allclose(distances(rows, summed / 5), away, rtol=1e-13)
    assert consensus_distance(rows) == pytest.approx(np.sum(away), rel=1e-13)


@given(terms=st.integers(0, 9), columns=st.integers(1, 20), seed=st.integers(0, 1000))
@settings(max_examples=20)
def test_each_term_of_a_total_is_rounded_once(terms: int, columns: int, seed: int) -> None:
    """Against exact fractions (a fraction becomes the float64 next to it)."""
    draws = stream(seed, "rounding")
    rows = draws.standard_normal((4, columns), dtype=np.float32)
    rows *= np.float32(2.0) ** draws.integers(-20, 20, rows.shape)
    chosen, weights = draws.integers(0, 4, terms), draws.random(terms)
    told = np.zeros(columns)
    for column in range(columns):
        for row, weight in zip(chosen, weights, strict=True):
            product = Fraction(float(weight)) * Fraction(float(rows[row, column]))
            told[column] = float(product + Fraction(float(told[column])))
    assert weighted_sum(torch.from_numpy(rows), chosen, weights).tolist() == told.tolist()


@pytest.mark.parametrize("lanes", ["4", "8", "16"])
@given(
    rows=st.integers(1, 12), columns=COLUMNS, spare=st.integers(0, 9), terms=st.integers(0, 13),
    seed=st.integers(0, 1000),
)  # fmt: skip
@settings(max_examples=20)
def test_totals_and_distances_of_all_vectors(
    lanes: str, rows: int, columns: int, spare: int, terms: int, seed: int
) -> None:
    """Totals are torch's to the last bit, distances nearly, those of a row alone its own; also of values that are not
    finite. Rows may lie apart in memory."""
    draws = stream(seed, "compiled")
    memory = torch.from_numpy(draws.standard_normal((rows, columns + spare), dtype=np.float32))
    for odd in (torch.nan, torch.inf, -0.0):
        memory[draws.integers(rows), draws.integers(columns)] = odd
    matrix, mean = memory[:, :columns], torch.from_numpy(draws.standard_normal(columns))
    chosen, weights = draws.integers(0, rows, terms), draws.standard_normal(terms)
    found = []
    for setting, value in (("FEDROAM_NATIVE", "0"), ("FEDROAM_VECTOR", lanes)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(setting, value)
            found.append((weighted_sum(matrix, chosen, weights), distances(matrix, mean)))
            alone = np.concatenate([distances(matrix[k : k + 1], mean) for k in range(rows)])
            np.testing.assert_array_equal(alone, found[-1][1])
    (total, apart), (other_total, other_apart) = found
    check_same(other_total, total, exact=FUSED)
    assert apart.shape == other_apart.shape == (rows, -(-columns // BLOCK))
    np.testing.assert_allclose(other_apart, apart, rtol=1e-12)


@given(
    rows=st.integers(1, 6), columns=COLUMNS, spare=st.integers(0, 9), others=st.integers(0, 5),
    seed=st.integers(0, 1000),
)  # fmt: skip
@settings(max_examples=40)
def test_products_are_the_same_to_the_last_bit_with_all_vectors(
    rows: int, columns: int, spare: int, others: int, seed: int
) -> None:
    """And those of NumPy nearly; a row's do not depend on those beside it. Rows may lie apart in memory."""
    draws = stream(seed, "products")
    memory = torch.from_numpy(draws.standard_normal((rows, columns + spare), dtype=np.float32))
    matrix, own, chosen = memory[:, :columns], int(draws.integers(rows)), draws.integers(0, rows, others)
    values = matrix.double().numpy()
    told = [[values[own] @ values[row], values[row] @ values[row]] for row in chosen]
    found = []
    for setting, value in [
        ("FEDROAM_NATIVE", "0"),
        *(("FEDROAM_VECTOR", lanes) for lanes in ("4", "8", "16")),
    ]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(setting, value)
            found.append(products(matrix, own, chosen))
            alone = [products(matrix, own, chosen[k : k + 1]) for k in range(others)]
            np.testing.assert_array_equal(np.concatenate([np.empty((0, 2)), *alone]), found[-1])
    for each in found:
        np.testing.assert_allclose(each, np.reshape(told, (others, 2)), rtol=1e-12, atol=1e-10)
    np.testing.assert_array_equal(found[1], found[2])
    np.testing.assert_array_equal(found[1], found[3])


def test_products_tell_what_is_no_number() -> None:
    rows = torch.ones(3, 2 * BLOCK + 5)
    rows[1, -1], rows[2, 7] = torch.nan, torch.inf
    found = products(rows, 0, np.arange(3))
    np.testing.assert_array_equal(found, [[2 * BLOCK + 5] * 2, [np.nan] * 2, [np.inf] * 2])


def test_rows_at_rest_in_16_bits_are_summed_as_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last bit, a few rows at a time."""
    monkeypatch.setattr(sums, "COPIED", 2 * 5000)
    drawn = torch.from_numpy(stream(0, "half").standard_normal((7, 5003), dtype=np.float32)).half()
    half, plain = in_half_precision(drawn)[:, 1:5001], drawn.float()[:, 1:5001]
    rows, weights = np.array([2, 0, 6, 6, 1]), np.array([0.3, 0.5, 0.1, 0.7, -2.0])
    assert torch.equal(weighted_sum(half, rows, weights), weighted_sum(plain, rows, weights))
    assert torch.equal(column_sums(half), column_sums(plain))
    assert consensus_distance(half) == consensus_distance(plain)
    np.testing.assert_array_equal(products(half, 3, rows), products(plain, 3, rows))


@pytest.mark.parametrize("row", [-1, 3])
def test_a_row_that_is_not_there_is_told(row: int) -> None:
    with pytest.raises(IndexError, match="of a matrix of 3"):
        weighted_sum(torch.zeros(3, 4), np.array([0, row]), np.ones(2))
    for own, others in ((0, [0, row]), (row, [0])):
        with pytest.raises(IndexError, match="of a matrix of 3"):
            products(torch.zeros(3, 4), own, np.array(others))


def test_matrices_of_other_types_are_read_as_what_they_are() -> None:
    """float64, and plain float16: kernels read float32."""
    drawn = torch.from_numpy(stream(1, "types").standard_normal((3, 40)))
    rows, weights = np.array([2, 0]), np.array([0.5, 0.25])
    check_same(weighted_sum(drawn, rows, weights), 0.5 * drawn[2] + 0.25 * drawn[0], exact=False)
    half = drawn.half()
    assert torch.equal(weighted_sum(half, rows, weights), weighted_sum(half.float(), rows, weights))
    np.testing.assert_array_equal(products(half, 1, rows), products(half.float(), 1, rows))
    told = [[drawn[1] @ drawn[row], drawn[row] @ drawn[row]] for row in rows]
    np.testing.assert_allclose(products(drawn, 1, rows), told, rtol=1e-12)


@pytest.mark.parametrize("half", [False, True], ids=["float32", "16 bits"])
def test_sums_do_not_depend_on_how_columns_are_divided(half: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    draws = stream(3, "test")
    rows = torch.from_numpy(draws.standard_normal((7, 40 * NEAREST + 77)).astype(np.float32))
    matrix = in_half_precision(rows) if half else rows
    which, weights = np.array([4, 0, 6, 2]), draws.random(4)
    found, shared, steps = [], [], set()
    for shares in (1, 4, 1000):
        monkeypatch.setattr(sums, "SHARES", shares)
        steps.add(sums._step(rows.shape[1]))
        found.append(weighted_sum(matrix, which, weights))
        shared.append(products(matrix, 1, which))
    assert len(steps) > 1
    for other in (1, 2):
        assert torch.equal(found[0], found[other])
        np.testing.assert_array_equal(shared[0], shared[other])
