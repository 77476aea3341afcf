"""Which survey points explorers have had within reach: a bit for each, so that thousands of them fit into a state."""

from __future__ import annotations

import numpy as np

_ONES = np.array([number.bit_count() for number in range(256)], dtype=np.uint8)


def nothing_seen(clients: int, points: int) -> np.ndarray:
    """No survey point by any of so many clients; uint8 [clients, points / 8, rounded up].

    The bit of point k is that of value 2^(k mod 8) in byte k // 8.
    """
    return np.zeros((clients, -(-points // 8)), dtype=np.uint8)


def as_bits(seen: np.ndarray) -> np.ndarray:
    """The same with a bit for each point, of what a checkpoint holds: earlier versions wrote bool [clients, points]."""
    bools = seen.dtype == bool and seen.ndim == 2
    return np.packbits(seen, axis=1, bitorder="little") if bools else seen


def mark(seen: np.ndarray, clients: np.ndarray, points: np.ndarray) -> None:
    """Note, in `seen`, that each of these clients has this point within reach; int64 [pairs] both, in any order."""
    bits = np.left_shift(1, points & 7).astype(np.uint8)
    np.bitwise_or.at(seen.reshape(-1), clients * seen.shape[1] + (points >> 3), bits)


def how_many(seen: np.ndarray) -> int:
    """How many points a client has seen; seen: its row."""
    return int(_ONES[seen].sum(dtype=np.int64))


def unseen(seen: np.ndarray, points: int) -> np.ndarray:
    """The numbers of the points that a client has not seen, of so many, rising, int64; seen: its row."""
    return np.flatnonzero(np.unpackbits(seen, count=points, bitorder="little") == 0)
