"""Capacity for a number of models that changes from round to round, without copying those that stay."""

from __future__ import annotations

import contextlib
import mmap
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from fedroam.learning.cpu.workers import shared_workers
from fedroam.learning.half_precision import HalfPrecision, held, in_half_precision

if TYPE_CHECKING:
    from fedroam.learning.matrix import Models

# Linux: pages of a mapping count when they are first written to, not when it is made. (mmap(2); Python names this
# flag from version 3.13 on.)
NORESERVE = 0x4000
LARGE = 2**22  # bytes from which on memory is asked for on large pages
DIVIDED = 2**18  # values: to copy fewer takes no longer than to hand them to workers


def room(
    rows: int, width: int, dtype: torch.dtype, device: torch.device | str, *, cleared: bool
) -> torch.Tensor:
    """A matrix of so many rows: zeros, or (not cleared) values that are to be written before they are read.

    On the CPU a large one lies on large pages where the system has them: an exchange goes through all rows for each few
    columns, and of thousands of small pages a processor does not remember where they are.
    """
    size = dtype.itemsize * rows * width
    mapped = _mapped(rows, width, dtype) if torch.device(device).type == "cpu" and size >= LARGE else None
    if mapped is not None:
        return mapped
    return (torch.zeros if cleared else torch.empty)((rows, width), dtype=dtype, device=device)


def with_capacity(models: Models, rows: int, most: int) -> Models:
    """The same models, followed by further rows whose values mean nothing yet: `rows` in all.

    Where the matrix has capacity behind it, it is used in place; otherwise all is copied once to a place with a
    capacity of `most` rows, of which only those ever used take up memory (on Linux with models on the CPU; elsewhere
    rows are copied each time they outgrow it, by half). `models` must not be used afterwards.
    """

    def wider(matrix: torch.Tensor) -> torch.Tensor:
        return _wider(matrix, rows, max(most, rows))

    momentum = None if models.momentum is None else wider(models.momentum)
    return type(models)(models.layout, wider(models.parameters), wider(models.buffers), momentum)


def keep(models: Models, rows: Sequence[int] | np.ndarray) -> Models:
    """The models in these rows, in this order, moved to the front of the same matrix; the others are given up.

    rows: int64, rising. `models` must not be used afterwards.
    """
    order = np.asarray(rows, dtype=np.int64)
    if (np.diff(order) <= 0).any():
        raise ValueError(f"rows {order.tolist()} do not rise: one would be overwritten before it is moved")
    moved = np.flatnonzero(order != np.arange(len(order)))
    for matrix in (models.parameters, models.buffers, models.momentum):
        if matrix is None or not matrix.shape[1]:
            continue
        move_rows(matrix, moved, order[moved])
    n = len(order)
    momentum = None if models.momentum is None else models.momentum[:n]
    return type(models)(models.layout, models.parameters[:n], models.buffers[:n], momentum)


def move_rows(matrix: torch.Tensor, to: np.ndarray, origins: np.ndarray) -> None:
    """Copy rows `origins` to rows `to` (int64 each), one after the other; a row that was written to may be read.

    On the CPU by NumPy: torch's threads would go on spinning for milliseconds on cores that the workers need.
    """
    pairs = list(zip(to.tolist(), origins.tolist(), strict=True))
    if matrix.device.type != "cpu":
        for row, origin in pairs:
            matrix[row].copy_(matrix[origin])
        return
    values = held(matrix).numpy()

    def move(begin: int, end: int) -> None:
        for row, origin in pairs:
            np.copyto(values[row, begin:end], values[origin, begin:end])

    columns = matrix.shape[1]
    if len(pairs) * columns < DIVIDED:
        move(0, columns)
    else:
        workers = shared_workers()
        workers.parts(
            columns, -(-columns // workers.count), lambda _, *some: move(*some), "rows, part {}".format
        )


def put_row(matrix: torch.Tensor, row: int, values: torch.Tensor) -> None:
    """Write these values, [columns], into a row; by NumPy, as `move_rows`, where both are float32 on the CPU."""
    if matrix.device.type == values.device.type == "cpu" and matrix.dtype == values.dtype == torch.float32:
        np.copyto(matrix[row].numpy(), values.numpy())
    else:
        matrix[row] = values


def _wider(matrix: torch.Tensor, rows: int, most: int) -> torch.Tensor:
    """`matrix` with more rows, in place if its storage can hold them."""
    if isinstance(matrix, HalfPrecision):
        return in_half_precision(_wider(held(matrix), rows, most))
    width = matrix.shape[1]
    if rows <= len(matrix):
        return matrix[:rows]
    storage = matrix.untyped_storage()
    begins = matrix.storage_offset() * matrix.element_size()
    if matrix.is_contiguous() and storage.nbytes() - begins >= rows * width * matrix.element_size():
        return matrix.as_strided((rows, width), (width, 1))
    wide = _mapped(most, width, matrix.dtype, NORESERVE) if matrix.device.type == "cpu" else None
    if wide is None:
        capacity = min(most, max(rows, len(matrix) + len(matrix) // 2))
        wide = torch.empty((capacity, width), dtype=matrix.dtype, device=matrix.device)
    wide[: len(matrix)].copy_(matrix)
    return wide[:rows]


def _mapped(rows: int, width: int, dtype: torch.dtype, flags: int = 0) -> torch.Tensor | None:
    """A matrix of zeros that takes up memory as it is written; None where the system knows no such thing."""
    if not sys.platform.startswith("linux") or not rows * width:
        return None
    try:
        flags |= mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        mapping = mmap.mmap(-1, dtype.itemsize * rows * width, flags=flags)
    except (OSError, ValueError, OverflowError):
        return None
    with contextlib.suppress(OSError):  # a system without large pages
        mapping.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(mapping, dtype=dtype).view(rows, width)
