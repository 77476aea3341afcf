"""Small helpers for arrays cut into rows of unequal length."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np
from scipy import sparse

from fedroam.mobility import Paths


def expand(begin: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every entry of the ranges begin[k] .. begin[k] + count[k] - 1: which k, and the entry (int64 [total])."""
    which = np.repeat(np.arange(len(begin)), count)
    skipped = np.cumsum(count) - count
    return which, np.arange(len(which)) + (begin - skipped)[which]


def lengths(begins: np.ndarray) -> np.ndarray:
    """How many entries each row has, where it begins given, and behind the last one where that ends. What `numpy.diff`
    gives, in a third of the time; the graph of a round is asked so again and again."""
    return np.asarray(begins[1:] - begins[:-1])


def distinct(values: np.ndarray) -> np.ndarray:
    """Each of some whole numbers once, in order. Sorting many of them is faster than `numpy.unique`'s hashing."""
    ordered = np.sort(values)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


def stable_order(values: np.ndarray, below: int) -> np.ndarray:
    """What sorts whole numbers from 0 to `below` - 1, equal ones as they stand. Those of 16 bits are sorted many times
    as fast."""
    return np.argsort(values.astype(np.uint16) if below <= 1 << 16 else values, kind="stable")


def rising(values: np.ndarray) -> np.ndarray:
    """What sorts float64 values, none of them NaN, equal ones as they stand. They are sorted as they come and equal
    ones put right, which is many times as fast as a stable sort."""
    order = np.argsort(values)
    ordered = values[order]
    rank = np.append(0, np.cumsum(ordered[1:] != ordered[:-1])) * len(values)
    return np.asarray(np.sort(rank[: len(values)] + order) - rank[: len(values)])


def in_rows(
    values: np.ndarray, columns: np.ndarray, begins: np.ndarray, shape: tuple[int, int]
) -> sparse.csr_array:
    """The CSR array of parts that fit together: each row's columns rise, none comes twice. They are not looked through,
    which takes longer than all else that is done to some dozen rows."""
    whole = np.int32 if max(len(values), *shape) < 1 << 31 else np.int64
    made = sparse.csr_array.__new__(sparse.csr_array)  # what copy.copy does, which asks first how it is done
    vars(made).update(vars(_empty(shape, values.dtype)))
    made.data, made.indices, made.indptr = values, columns.astype(whole), begins.astype(whole)
    made.has_sorted_indices = made.has_canonical_format = True
    return made


@functools.lru_cache(maxsize=16)
def _empty(shape: tuple[int, int], kind: np.dtype) -> sparse.csr_array:
    """One without entries, to be copied: to make another takes ten times as long."""
    return sparse.csr_array(shape, dtype=kind)


def chunks(count: np.ndarray, limit: int) -> Iterator[slice]:
    """Consecutive slices of rows whose counts add up to `limit` at most (a row above it stands alone)."""
    total = np.cumsum(count)
    start = 0
    while start < len(count):
        done = total[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(total, done + limit, side="right")))
        yield slice(start, stop)
        start = stop


def select(paths: Paths, clients: np.ndarray) -> Paths:
    """The paths of some clients, in the order given."""
    count = np.diff(paths.first)[clients]
    _, points = expand(paths.first[clients], count)
    first = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    return Paths(first, paths.time[points], paths.point[points], paths.present[clients])
