"""Rows as networks and back, and the exchange of rows."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from torch import nn

from fedroam.learning import Entry, Layout, Models, consensus_distance, exchange, fill_rows, mix
from fedroam.learning.cpu.workers import shared_workers
from fedroam.learning.engine import make_network, start_models
from fedroam.learning.half_precision import in_half_precision, widened
from fedroam.learning.matrix import LONG, TOGETHER
from fedroam.randomness import stream
from support.learners import problem


class Odd(nn.Module):
    """Parameters of every number of dimensions, a shared one, and buffers (a whole number among them)."""

    def __init__(self) -> None:
        super().__init__()
        self.scalar = nn.Parameter(torch.tensor(2.5))
        self.line, self.plane = nn.Conv1d(2, 3, 4), nn.Conv2d(3, 5, (2, 3))
        self.volume = nn.Conv3d(1, 2, 2)
        self.norm = nn.BatchNorm2d(5)
        self.linear = nn.Linear(6, 4)
        self.again = self.linear


def filled(module: nn.Module, seed: int) -> nn.Module:
    draws = stream(seed, "fill")
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            tensor.copy_(torch.from_numpy(np.asarray(draws.integers(-50, 50, tuple(tensor.shape)))))
    return module


def test_networks_survive_as_rows() -> None:
    module, other = filled(Odd(), 1), filled(Odd(), 2)
    layout = Layout.of(module)
    assert layout.size == sum(p.numel() for p in module.parameters())
    assert layout.buffer_size == 11
    models = Models.empty(layout, 3, momentum=False)
    layout.write(module, models.parameters[1], models.buffers[1])
    assert not models.parameters[0].any()
    assert not models.parameters[2].any()
    layout.read(other, models.parameters[1], models.buffers[1])
    for (name, a), (_, b) in zip(module.state_dict().items(), other.state_dict().items(), strict=True):
        assert torch.equal(a, b), name
    assert sorted(models.parameters[1].tolist()) == sorted(
        value for p in module.parameters() for value in p.flatten().tolist()
    )
    assert models.bytes_each == 4 * (layout.size + 11)


@pytest.mark.parametrize("equal", [True, False])
def test_start_models_are_written_whole(equal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for them is not cleared before: nothing of what lay there may be left."""
    made = torch.empty

    def unwritten(*args: Any, **how: Any) -> torch.Tensor:
        return made(*args, **how).fill_(math.nan)

    def build() -> nn.Module:
        return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 3))

    layout = Layout.of(build())
    with monkeypatch.context() as patched:
        patched.setattr(torch, "empty", unwritten)
        found = start_models(build, layout, 3, 7, equal=equal, momentum=True)
    assert found.momentum is not None
    assert not found.momentum.any()
    for row in range(3):
        other = make_network(build, 7, 0 if equal else row)
        wanted = Models.empty(layout, 1, momentum=False)
        layout.write(other, wanted.parameters[0], wanted.buffers[0])
        assert torch.equal(found.parameters[row], wanted.parameters[0])
        assert torch.equal(found.buffers[row], wanted.buffers[0])


def test_image_weights_lie_channels_last() -> None:
    entry = Entry("w", (2, 3, 4, 5), 7, 120)
    row = torch.arange(200.0)
    view = entry.view(row)
    assert view.shape == (2, 3, 4, 5)
    assert view[0, :, 0, 0].tolist() == [7, 8, 9]
    view[1, 2, 3, 4] = -1
    assert row[7 + 119] == -1


def models_of(parameters: torch.Tensor, buffers: torch.Tensor | None = None) -> Models:
    rows, width = parameters.shape
    buffers = torch.zeros(rows, 0) if buffers is None else buffers
    layout = Layout(
        (Entry("all", (width,), 0, width),), (Entry("more", (buffers.shape[1],), 0, buffers.shape[1]),)
    )
    return Models(layout, parameters, buffers, None)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("values", [3, LONG - 1, LONG, TOGETHER + 5])
@pytest.mark.parametrize("rows", [[], [4], [0, 5, 2, 6]])
def test_rows_are_filled_in_these_columns_and_nowhere_else(rows: list[int], values: int, half: bool) -> None:
    draws = torch.Generator().manual_seed(len(rows) + values)
    matrix, given = torch.randn(7, values + 2, generator=draws), torch.randn(values, generator=draws)
    wanted = matrix.clone()
    for row in rows:
        wanted[row, 1 : values + 1] = given
    if half:
        matrix, wanted = in_half_precision(matrix.half()), wanted.half().float()
    fill_rows(matrix, np.array(rows, np.int64), slice(1, values + 1), given)
    assert torch.equal(widened(matrix), wanted)


def test_a_tensor_of_a_network_begins_at_its_address() -> None:
    row = torch.arange(60.0)
    for entry in Layout.of(nn.Sequential(nn.Conv2d(2, 3, 2), nn.Linear(4, 5))).parameters:
        assert entry.address(row[1:]) == entry.view(row[1:]).data_ptr()


def test_the_mean_is_that_of_exact_sums() -> None:
    """A hundred million and one small number: a float32 sum would lose the latter."""
    rows = torch.tensor([[1e8], [1.0], [-1e8], [1.0]])
    assert models_of(rows).mean().parameters.tolist() == [[0.5]]


@pytest.fixture
def restore_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
    shared_workers.cache_clear()


def test_threads_change_no_bit(restore_threads: None) -> None:
    draws = stream(5, "rows")
    rows = torch.from_numpy(draws.standard_normal((40, 20_000), dtype=np.float32))
    weights = sparse.random_array((40, 40), density=0.2, rng=draws, format="csr")
    found = []
    for count in (1, 2):
        torch.set_num_threads(count)
        shared_workers.cache_clear()
        models = models_of(rows.clone())
        distance, mean = consensus_distance(models.parameters), models.mean().parameters
        mix(models, weights)
        found.append((distance, mean, models.parameters))
    assert found[0][0] == found[1][0]
    assert torch.equal(found[0][1], found[1][1])
    assert torch.equal(found[0][2], found[1][2])


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 12), st.integers(0, 3), st.integers(0, 600), st.floats(0, 1), st.integers(0, 1000))
def test_mix_is_the_dense_product(rows: int, buffers: int, width: int, density: float, seed: int) -> None:
    draws = stream(seed, "mix")
    x = draws.standard_normal((rows, width + 1)).astype(np.float32)
    more = draws.standard_normal((rows, buffers)).astype(np.float32)
    dense = draws.standard_normal((rows, rows)) * (draws.random((rows, rows)) < density)
    keeps = draws.random(rows) < 0.4
    dense[keeps] = np.eye(rows)[keeps]
    models = models_of(torch.from_numpy(x.copy()), torch.from_numpy(more.copy()))
    address = models.parameters.data_ptr()
    mix(models, sparse.csr_array(dense))
    np.testing.assert_allclose(models.parameters, dense @ x.astype(np.float64), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(models.buffers, dense @ more.astype(np.float64), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(models.parameters[keeps], x[keeps])
    assert models.parameters.data_ptr() == address


FORMS = (sparse.csr_array, sparse.csr_matrix, sparse.coo_array, lambda weights: weights.toarray())


@given(st.data(), st.sampled_from(FORMS))
def test_the_rows_that_change_are_those_of_scipy_entry_by_entry(data: st.DataObject, form: Any) -> None:
    """Empty rows, rows that keep themselves only nearly, and entries in any order and more than once."""
    rows = data.draw(st.integers(1, 6))
    entry = st.tuples(st.integers(0, rows - 1), st.sampled_from([1.0, 0.5, 0.0]))
    held = data.draw(st.lists(st.lists(entry, max_size=3), min_size=rows, max_size=rows))
    held = [own or [(i, 1.0)] if data.draw(st.booleans()) else own for i, own in enumerate(held)]
    columns, values = ([each[k] for own in held for each in own] for k in (0, 1))
    begins = np.cumsum([0, *map(len, held)])
    given_weights = form(sparse.csr_array((np.array(values, float), columns, begins), shape=(rows, rows)))
    weights = sparse.csr_array(given_weights)
    changed, own = exchange.changes(given_weights)
    ends = enumerate(itertools.pairwise(weights.indptr.tolist()))
    alone = [weights.indices[a:b].tolist() == [i] and weights.data[a] == 1.0 for i, (a, b) in ends]
    assert changed.tolist() == np.flatnonzero(~np.array(alone)).tolist()
    expected = weights[changed]
    assert own.shape == expected.shape
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(own, name), getattr(expected, name))
    assert own.data.dtype == expected.data.dtype


@pytest.mark.parametrize(("rows", "width"), [(2, 3), (7, 255), (40, 1000), (300, 4099)])
def test_a_row_alone_is_the_row_among_all_to_the_last_bit(rows: int, width: int) -> None:
    """What a client makes of its neighbourhood does not depend on who else mixes in the same product."""
    draws = stream(rows, "mix alone")
    dense = draws.random((rows, rows)) * (draws.random((rows, rows)) < 0.4) + np.eye(rows)
    weights = sparse.csr_array(dense / dense.sum(1, keepdims=True))
    start = torch.from_numpy(draws.standard_normal((rows, width)).astype(np.float32))
    layout = Layout.of(nn.Linear(width, 1, bias=False))
    together = Models(layout, start.clone(), torch.zeros((rows, 0)), None)
    mix(together, weights)
    for i in range(0, rows, max(1, rows // 10)):
        members = weights.indices[weights.indptr[i] : weights.indptr[i + 1]]
        alone = Models(
            layout, start[torch.from_numpy(members).long()].clone(), torch.zeros((len(members), 0)), None
        )
        row = sparse.csr_array((weights[[i]].data, (np.zeros_like(members), np.arange(len(members)))))
        exchange.mix_rows(alone, row, np.zeros(1, np.int64))
        assert alone.parameters[0].equal(together.parameters[i])


@pytest.mark.parametrize("rows", [2, 30, 90, 400])
def test_the_width_of_a_block_changes_no_bit(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of torch's blocks, of which there are those of models in 16 bits, and all where nothing is compiled."""
    monkeypatch.setenv("FEDROAM_NATIVE", "0")
    draws = stream(rows, "blocks")
    start = torch.from_numpy(draws.standard_normal((rows, 2 * exchange.TASK + 77), dtype=np.float32))
    weights = sparse.random_array((rows, rows), density=min(1, 8 / rows), rng=draws, format="csr")
    found = []
    for values in (exchange.CPU_VALUES, 1, 2**30):
        monkeypatch.setattr(exchange, "CPU_VALUES", values)
        mix(models := models_of(start.clone()), weights)
        found.append((exchange.cpu_columns(rows), models.parameters))
    assert [width for width, _ in found[1:]] == [exchange.LEAST, exchange.TASK]
    assert exchange.LEAST <= found[0][0] <= exchange.TASK
    assert all(torch.equal(one, found[0][1]) for _, one in found)
    np.testing.assert_allclose(found[0][1], weights @ start.numpy(), rtol=1e-4, atol=1e-5)


def test_blocks_of_few_rows_are_wider() -> None:
    found = [exchange.cpu_columns(rows) for rows in (0, 1, 32, 33, 100, 1000, 10**6)]
    assert found == [4096, 4096, 4096, 2048, 1024, 256, 256]


def rounded(exact: Fraction) -> float:
    """The float32 next to a number, the even one of two."""
    near = np.float32(float(exact))
    around = [np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf))]
    return float(min(around, key=lambda each: (abs(Fraction(float(each)) - exact), each.view(np.uint32) % 2)))


@pytest.mark.parametrize("native", ["1", "0"])
@given(columns=st.integers(1, 20), seed=st.integers(0, 1000))
@settings(max_examples=10)
def test_each_term_of_a_sum_is_rounded_once(native: str, columns: int, seed: int) -> None:
    """Against exact fractions: a product and a sum, in the order of a row's entries, beginning with 0."""
    draws = stream(seed, "rounding")
    rows = draws.standard_normal((4, columns), dtype=np.float32)
    rows *= np.float32(2.0) ** draws.integers(-20, 20, rows.shape)
    weights = sparse.random_array((4, 4), density=0.7, rng=draws, format="csr")
    told = np.zeros_like(rows)
    for i, begin in enumerate(weights.indptr[:-1]):
        for column in range(columns):
            total = Fraction(0)
            for e in range(begin, weights.indptr[i + 1]):
                product = Fraction(float(np.float32(weights.data[e]))) * Fraction(
                    float(rows[weights.indices[e], column])
                )
                total = Fraction(rounded(total + product))
            told[i, column] = float(total)
    models = models_of(torch.from_numpy(rows.copy()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDROAM_NATIVE", native)
        mix(models, weights)
    assert models.parameters.tolist() == told.tolist()


@pytest.mark.parametrize("lanes", ["4", "8", "16"])
@given(
    rows=st.integers(1, 40),
    columns=st.one_of(st.integers(1, 300), st.just(exchange.TASK + 133)),
    spare=st.integers(0, 9),
    density=st.floats(0.05, 1),
    seed=st.integers(0, 1000),
)
@settings(max_examples=25)
def test_compiled_and_torch_mix_alike(
    lanes: str, rows: int, columns: int, spare: int, density: float, seed: int
) -> None:
    """To the last bit, whatever the vectors, and nothing else of the rows' memory changes.

    Rows without an entry become zero, some keep themselves, some are read and not changed, and values are anything.
    """
    draws = stream(seed, "compiled")
    memory = torch.from_numpy(draws.standard_normal((rows, columns + spare), dtype=np.float32))
    for odd in (torch.nan, torch.inf, -0.0):
        memory[draws.integers(rows), draws.integers(columns)] = odd
    weights = sparse.random_array((rows, rows), density=density, rng=draws, format="lil")
    for kept in np.flatnonzero(draws.random(rows) < 0.3):
        weights[[kept]] = 0.0
        weights[kept, kept] = 1.0
    found = []
    for setting, value in (("FEDROAM_NATIVE", "0"), ("FEDROAM_VECTOR", lanes)):
        own = memory.clone()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(setting, value)
            mix(models_of(own[:, :columns]), sparse.csr_array(weights))
        assert torch.equal(own[:, columns:], memory[:, columns:])
        found.append(own.numpy().view(np.uint32))
    one, other = found
    numbers = ~np.isnan(one.view(np.float32))
    assert (numbers == ~np.isnan(other.view(np.float32))).all()
    assert (one[numbers] == other[numbers]).all()


def test_mix_reads_before_it_writes() -> None:
    """A cycle: each row takes the next one's old values, over several blocks of columns."""
    rows = torch.arange(3.0)[:, None].repeat(1, 10_000)
    models = models_of(rows)
    mix(models, sparse.csr_array(np.roll(np.eye(3), 1, axis=1)))
    assert models.parameters[:, [0, 5000, 9999]].tolist() == [[1, 1, 1], [2, 2, 2], [0, 0, 0]]


def test_a_diverged_row_harms_its_readers_only() -> None:
    rows = torch.ones(4, 300)
    rows[3] = torch.nan
    models = models_of(rows)
    mix(
        models, sparse.csr_array(np.array([[0.5, 0.5, 0, 0], [0, 0.5, 0, 0.5], [0, 0, 1, 0], [0, 0, 0, 1.0]]))
    )
    assert torch.isnan(models.parameters).all(1).tolist() == [False, True, False, True]
    assert torch.isnan(models.parameters).any(1).tolist() == [False, True, False, True]


def test_momentum_stays_at_home_and_nothing_is_said() -> None:
    task = problem("mlp", (12,), (2, 2))
    start = task.start(equal=False)
    momentum = torch.arange(2.0)[:, None].repeat(1, task.task.layout.size)
    models = Models(start.layout, start.parameters, start.buffers, momentum)
    before = momentum.clone()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mix(models, sparse.csr_array(np.full((2, 2), 0.5)))
    assert models.momentum is not None
    assert torch.equal(models.momentum, before)
    assert torch.equal(models.parameters[0], models.parameters[1])
