"""Which of several models are equal, bit for bit: what all have in common is computed, or sent, once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from fedroam.learning.half_precision import held
from fedroam.learning.matrix import Models

LOOKED_AT = 64  # values of a row by which nearly all rows that differ are told apart, and as many at its end
_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def first_alike(models: Models, rows: Sequence[int] | np.ndarray, momentum: bool = False) -> np.ndarray:
    """For each of these rows the place among them of the first that is equal to it in all its values, int64 [rows].

    momentum: it counts, too. Each row is compared with two others at most, whatever they have in common: with the first
    of those that agree where one looks, and with the first of those of the same hash. (Should two rows of one hash
    differ, one that is equal to the second of them may be told to be equal to none.)
    """
    place: dict[int, int] = {}
    chosen = [place.setdefault(int(row), k) for k, row in enumerate(rows)]
    of = np.array(chosen, dtype=np.int64)
    matrices = [_bits(models.parameters), _bits(models.buffers)]
    if momentum and models.momentum is not None:
        matrices.append(_bits(models.momentum))
    by_look: dict[bytes, int] = {}
    by_hash: dict[int, int] = {}
    distinct = np.fromiter(place, np.int64, len(place))
    for k, row, seen in zip(place.values(), place, _looks(matrices, distinct), strict=True):
        first = by_look.setdefault(seen.tobytes(), k)
        if first != k and not _equal(matrices, row, int(rows[first])):
            first = by_hash.setdefault(_hash(matrices, row), k)
            if first != k and not _equal(matrices, row, int(rows[first])):
                first = k
        of[k] = first
    return of[of]


def _bits(matrix: torch.Tensor) -> torch.Tensor:
    """The same memory as whole numbers: no value is unequal to itself, and zeros have signs."""
    values = held(matrix)
    return values.view(_BITS[values.element_size()])


def _looks(matrices: Sequence[torch.Tensor], rows: np.ndarray) -> np.ndarray:
    """Some values of each row. Those at its beginning may be the same in all models, as the weights of pixels that are
    never lit or an extractor that all share; those at its end belong to the last layer."""
    found = []
    for matrix in matrices:
        width = matrix.shape[1]
        columns = np.unique(np.linspace(0, max(width - 1, 0), min(width, LOOKED_AT)).astype(np.int64))
        columns = np.union1d(columns, np.arange(max(width - LOOKED_AT, 0), width))
        if matrix.device.type == "cpu":  # not by torch's threads, which go on spinning when they are done
            found.append(matrix.numpy()[rows[:, None], columns])
        else:
            places = (torch.from_numpy(each).to(matrix.device) for each in (rows[:, None], columns))
            found.append(matrix[tuple(places)].cpu().numpy())
    return np.concatenate(found, axis=1)


def _equal(matrices: Sequence[torch.Tensor], a: int, b: int) -> bool:
    return all(torch.equal(matrix[a], matrix[b]) for matrix in matrices)


def _hash(matrices: Sequence[torch.Tensor], row: int) -> int:
    return hash(tuple(matrix[row].cpu().numpy().tobytes() for matrix in matrices))
