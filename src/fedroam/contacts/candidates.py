"""Pairs of clients that may come close in a round, found by a spatial index: cost grows with contacts, not pairs.

The round is halved again and again: a client that travels about 2^(k+1) reaches is looked at in 2^k slices of time,
each with the box that its path stays in. So nobody's box is much larger than the radius, a walker has few of them
and a fast vehicle many. Two clients are compared in the slices of the faster one. Boxes are sorted into horizontal
strips and along x within a strip; a look-up is a binary search in the own strip and the two beside it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fedroam.contacts.ragged import chunks, distinct, expand, select
from fedroam.mobility import Paths

FEW = 96  # clients: so few are compared pair by pair, which is faster than any index
LIMIT = 1 << 18  # boxes compared in one go: bounds the memory, changes no result
DEEPEST = 10  # halvings of the round
# Sides of a box, in radii or distances between neighbours: measured from a town's walkers to its cars.
WIDE = 2


@dataclass(frozen=True)
class Boxes:
    """Where clients are in slices of time: middle and half extent of their boxes (float64 [boxes, 2]), metres."""

    client: np.ndarray
    slot: np.ndarray
    middle: np.ndarray
    half: np.ndarray


def candidates(paths: Paths, radius: float, few: int = FEW) -> np.ndarray:
    """Every pair of present clients that may come within `radius` (m), and some others; int64 [pairs, 2], i < j.

    Each pair appears once, ordered by i, then j. Up to `few` present clients are compared pair by pair.
    """
    return paths.derived(("candidates", radius, few), lambda: _candidates(paths, radius, few))


def _candidates(paths: Paths, radius: float, few: int) -> np.ndarray:
    present = np.flatnonzero(paths.present)
    if len(present) < 2:
        return np.zeros((0, 2), dtype=np.int64)
    paths = select(paths, present) if len(present) < paths.clients else paths
    if np.isinf(radius):
        return present[np.stack(np.triu_indices(len(present), k=1), axis=1)]
    reach = _with_slack(radius, paths.point)
    if len(present) <= few:
        boxes, pairs = _boxes(paths, np.arange(len(present)), 0), all_pairs(len(present))
        return np.asarray(present[pairs[_near(boxes, boxes, pairs[:, 0], pairs[:, 1], reach)]])
    levels = _levels(paths, radius)
    table = {int(k): _boxes(paths, np.flatnonzero(levels == k), int(k)) for k in distinct(levels)}
    found = [
        np.minimum(i, j) * len(present) + np.maximum(i, j)
        for slow, boxes in table.items()
        for fast, others in table.items()
        if slow <= fast
        for i, j in _join(boxes, others, fast - slow, reach)
    ]
    pairs = distinct(np.concatenate(found)) if found else np.zeros(0, dtype=np.int64)
    return np.asarray(present[np.stack(np.divmod(pairs, len(present)), axis=1)])


@functools.lru_cache(maxsize=FEW + 1)
def all_pairs(number: int) -> np.ndarray:
    """All pairs i < j of a few, int64 [pairs, 2], ordered by i, then j; read-only."""
    found = np.stack(np.triu_indices(number, k=1), axis=1)
    found.flags.writeable = False
    return found


def close_places(places: np.ndarray, radius: float) -> np.ndarray:
    """Every pair of places (float64 [places, 2], metres) within a finite `radius`, and hardly any others, or all where
    there are few: int64 [pairs, 2], each pair once, in no particular order."""
    if len(places) <= FEW:
        return all_pairs(len(places))
    number = np.arange(len(places))
    points = Boxes(
        client=number,
        slot=np.zeros(len(places), dtype=np.int64),
        middle=np.asfortranarray(places),
        half=np.zeros(places.shape, order="F"),
    )
    found = [np.stack(pair, axis=1) for pair in _join(points, points, 0, _with_slack(radius, places))]
    return np.concatenate(found) if found else np.zeros((0, 2), dtype=np.int64)


def _with_slack(radius: float, places: np.ndarray) -> float:
    """A little more than the radius, for rounding here and in the closed form: a candidate too many does no harm."""
    return radius * (1 + 1e-9) + 1e-12 * float(np.abs(places).max())


def _levels(paths: Paths, radius: float) -> np.ndarray:
    """How often each client's round is halved, int64 [clients]."""
    extent = np.array([np.ptp(paths.point[:, axis]) for axis in (0, 1)])  # many times as fast as along axis 0
    # Boxes smaller than the typical distance between neighbours would only make work.
    spacing = max(float(np.sqrt(extent.prod() / paths.clients)), float(extent.max()) / paths.clients)
    scale = WIDE * max(radius, spacing)
    if scale == 0:  # everybody stands at one point
        return np.zeros(paths.clients, dtype=np.int64)
    return np.clip(np.ceil(np.log2(np.maximum(paths.length / scale, 1))), 0, DEEPEST).astype(np.int64)


def _boxes(paths: Paths, clients: np.ndarray, level: int) -> Boxes:
    """The boxes of some clients in each of 2^level slices of the round."""
    own = select(paths, clients) if len(clients) < paths.clients else paths
    slots = 1 << level
    if own.straight_ways and slots == 1:
        low, high = np.minimum(own.point[::2], own.point[1::2]), np.maximum(own.point[::2], own.point[1::2])
    elif slots == 1:
        low = np.minimum.reduceat(own.point, own.first[:-1], axis=0)
        high = np.maximum.reduceat(own.point, own.first[:-1], axis=0)
    else:
        edges = np.stack([own.at(k / slots) for k in range(slots + 1)], axis=1)
        low = np.minimum(edges[:, :-1], edges[:, 1:]).reshape(-1, 2)
        high = np.maximum(edges[:, :-1], edges[:, 1:]).reshape(-1, 2)
        # A point on the edge of two slices belongs to both (time * slots is exact: a power of two).
        owner = np.repeat(np.arange(own.clients), np.diff(own.first)) * slots
        for slot in (np.floor(own.time * slots), np.ceil(own.time * slots) - 1):
            row = owner + np.clip(slot, 0, slots - 1).astype(np.int64)
            np.minimum.at(low, row, own.point)
            np.maximum.at(high, row, own.point)
    return Boxes(
        client=np.repeat(clients, slots),
        slot=np.tile(np.arange(slots), len(clients)),
        middle=np.asfortranarray((low + high) / 2),
        half=np.asfortranarray((high - low) / 2),
    )


def _near(a: Boxes, b: Boxes, i: np.ndarray, j: np.ndarray, reach: float) -> np.ndarray:
    """Whether box i[k] of a and box j[k] of b are at most `reach` apart."""
    square = np.zeros(len(i))
    for axis in (0, 1):  # a column at a time: gathering rows of two is slower
        gap = np.abs(a.middle[:, axis].take(i) - b.middle[:, axis].take(j))
        gap -= a.half[:, axis].take(i)
        gap -= b.half[:, axis].take(j)
        np.maximum(gap, 0, out=gap)
        square += gap * gap
    return np.asarray(square <= reach * reach)


def _join(a: Boxes, b: Boxes, halvings: int, reach: float) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Clients of boxes at most `reach` apart at the same time; slices of b are `halvings` times halved ones of a.

    Joined with itself, a set gives each pair of boxes once.
    """
    same = a is b
    tall = reach + a.half[:, 1].max() + b.half[:, 1].max()
    x, bottom = a.middle[:, 0], a.middle[:, 1].min()
    strip_height = max(tall, float(np.ptp(a.middle[:, 1])) / len(x))
    strip_height = strip_height if strip_height > 0 else 1.0
    strip = np.floor((a.middle[:, 1] - bottom) / strip_height).astype(np.int64)
    strips = int(strip.max()) + 1
    # One whole number orders the boxes by slice, strip and x: binary searches in it are exact.
    by_x = np.argsort(x)
    rank = np.empty(len(x), dtype=np.int64)
    rank[by_x] = np.arange(len(x))
    key = (a.slot * strips + strip) * len(x) + rank
    order = np.argsort(key)
    key, sorted_x = key[order], x[by_x]
    seek = order if same else np.lexsort((b.middle[:, 0], b.slot))  # in order, for the sake of the cache
    y, slot = b.middle[seek, 1], b.slot[seek] >> halvings
    asked = by_x if same else np.argsort(b.middle[:, 0])  # in order, which is many times as fast
    wide = reach + b.half[asked, 0] + a.half[:, 0].max()
    left, right = np.empty(len(asked), dtype=np.int64), np.empty(len(asked), dtype=np.int64)
    left[asked] = np.searchsorted(sorted_x, b.middle[asked, 0] - wide, side="left")
    right[asked] = np.searchsorted(sorted_x, b.middle[asked, 0] + wide, side="right")
    left, right = left[seek], right[seek]
    sorted_y, half = a.middle[order, 1], a.half[order, 1]
    reach_y = reach + b.half[seek, 1]
    here = np.floor(np.clip((y - bottom) / strip_height, -2, strips + 1)).astype(np.int64)
    for step in (0, 1) if same else (-1, 0, 1):
        base = (slot * strips + here + step) * len(x)
        begin = np.arange(1, len(x) + 1) if same and step == 0 else np.searchsorted(key, base + left)
        count = np.searchsorted(key, base + right) - begin
        count[(here + step < 0) | (here + step >= strips)] = 0
        for part in chunks(count, LIMIT):
            which, entry = expand(begin[part], count[part])
            apart = np.abs(sorted_y.take(entry) - y[part].take(which))
            beside = np.flatnonzero(apart - half.take(entry) <= reach_y[part].take(which))
            i, j = order[entry[beside]], seek[part][which[beside]]
            near = _near(a, b, i, j, reach)
            yield a.client[i[near]], b.client[j[near]]
