"""Matrices that gain and lose rows in place."""

from __future__ import annotations

import gc
import mmap
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from fedroam.learning import Layout, Models, capacity
from fedroam.learning.capacity import keep, with_capacity
from fedroam.learning.half_precision import held

LAYOUT = Layout.of(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)))


def filled(rows: int, momentum: bool = True) -> Models:
    models = Models.empty(LAYOUT, rows, momentum=momentum)
    for matrix in (models.parameters, models.buffers, models.momentum):
        if matrix is not None:
            matrix[:] = torch.arange(rows)[:, None] + torch.arange(matrix.shape[1]) / 100
    return models


def same(models: Models, rows: list[int]) -> None:
    wanted = filled(10).rows(torch.tensor(rows))
    assert torch.equal(models.parameters[: len(rows)], wanted.parameters)
    assert torch.equal(models.buffers[: len(rows)], wanted.buffers)
    assert models.momentum is not None
    assert wanted.momentum is not None
    assert torch.equal(models.momentum[: len(rows)], wanted.momentum)


@pytest.mark.parametrize("reserved", [True, False])
def test_models_stay_while_others_come_and_go(reserved: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not reserved:
        monkeypatch.setattr(capacity, "_mapped", lambda *_: None)
    models = with_capacity(filled(4), 7, 10)
    assert len(models) == len(models.buffers) == 7
    same(models, [0, 1, 2, 3])
    wide = filled(7)
    models.parameters[4:], models.buffers[4:] = wide.parameters[4:], wide.buffers[4:]
    assert models.momentum is not None
    assert wide.momentum is not None
    models.momentum[4:] = wide.momentum[4:]
    at = models.parameters.data_ptr()
    models = keep(models, [0, 2, 3, 6])
    assert len(models) == len(models.parameters) == 4
    same(models, [0, 2, 3, 6])
    assert models.parameters.is_contiguous()
    models = with_capacity(models, 7, 10)
    assert models.parameters.data_ptr() == at, "moved though there was room"
    same(models, [0, 2, 3, 6])
    models = with_capacity(models, 30, 30)  # more than was promised
    assert len(models) == 30
    same(models, [0, 2, 3, 6])


def test_no_room_is_no_copy() -> None:
    models = filled(4)
    assert with_capacity(models, 4, 9).parameters.data_ptr() == models.parameters.data_ptr()
    assert keep(models, [0, 1, 2, 3]).parameters.data_ptr() == models.parameters.data_ptr()


def test_models_without_momentum_or_buffers() -> None:
    layout = Layout.of(nn.Linear(3, 1))
    models = Models.empty(layout, 1, momentum=False)
    models = keep(with_capacity(models, 5, 5), [0, 3])
    assert (len(models), models.momentum, tuple(models.buffers.shape)) == (2, None, (2, 0))


@pytest.mark.parametrize("rows", [[1, 0], [0, 0], [2, 1, 3]])
def test_rows_out_of_order_are_refused(rows: list[int]) -> None:
    with pytest.raises(ValueError, match="do not rise"):
        keep(filled(4), rows)


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="other systems count memory when it is asked for"
)
def test_room_takes_up_memory_as_it_is_used() -> None:
    """Room for 16 GiB of models, of which 32 MiB are used, costs 32 MiB."""
    layout = Layout.of(nn.Linear(1 << 20, 1, bias=False))
    models = Models.empty(layout, 1, momentum=False)
    gc.collect()  # what earlier tests have left
    before = resident()
    models = with_capacity(models, 8, 4096)
    assert resident() - before < 8 * 2**20
    models.parameters[:] = 1.0
    assert 28 * 2**20 < resident() - before < 40 * 2**20


@pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage").exists(),
    reason="this system has no large pages to ask for",
)
@pytest.mark.parametrize("half", [False, True])
def test_many_models_ask_for_large_pages(half: bool) -> None:
    layout = Layout.of(nn.Linear(1 << 16, 1, bias=False))
    models = Models.empty(layout, 40, momentum=True, half=half)
    assert models.momentum is not None
    wider = with_capacity(models, 50, 60)
    for matrix in (models.parameters, models.momentum, wider.parameters):
        assert "hg" in flags_of(held(matrix).data_ptr()).split()
    assert not models.parameters.any()
    assert not models.momentum.any()


def flags_of(address: int) -> str:
    """What the system keeps of the mapping that an address lies in (proc(5), VmFlags)."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            begin, end = (int(each, 16) for each in words[0].split("-"))
            inside = begin <= address < end
        elif inside and words[0] == "VmFlags:":
            return line
    raise AssertionError(f"no mapping of {address:#x}")


def resident() -> int:
    """Bytes of this process that lie in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE
