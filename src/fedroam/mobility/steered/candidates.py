"""Candidate points: where steered clients may fly to in a continuous rectangle."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np

from fedroam.mobility.steered.coverage import NOBODY

Drawn = Literal["halton", "jittered", "clients", "intersections"]

# Circles are drawn this much smaller than the radio reach, so that where they meet is within reach of both centres
# in floating point too.
WITHIN = 1 - 1e-9


def evenly_spread(number: int, size: np.ndarray, drawn: Drawn, stream: np.random.Generator) -> np.ndarray:
    """`number` points all over the rectangle [0, size] that need no knowledge: "jittered", or else "halton"."""
    return jittered(number, size, stream) if drawn == "jittered" else halton(number, stream) * size


def candidate_points(
    survey: np.ndarray,
    places: np.ndarray,
    reach: float,
    size: np.ndarray,
    drawn: Drawn,
    stream: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Candidates drawn as `drawn` says (see `DAMContinuous`), and the owners of each: see `CoverageMap`.

    `survey` are the evenly spread points, which are the candidates themselves where `drawn` names such; otherwise
    the candidates come from the static clients' `places`, as many as `survey` has points if they are random.
    """
    if drawn == "clients":
        return _around_clients(places, reach, size, len(survey), stream)
    if drawn == "intersections":
        return _intersections(places, reach, size)
    return survey, np.full((len(survey), 2), NOBODY)


def halton(number: int, stream: np.random.Generator) -> np.ndarray:
    """`number` points of the Halton sequence in bases 2 and 3 (Halton 1960), shifted by one random vector modulo 1.

    They fill the unit square evenly, and fewer are the beginning of more; float64 [number, 2] in [0, 1).
    """
    shift = stream.random(2)
    index = np.arange(1, number + 1)
    return np.stack([(_mirrored(index, base) + shift[k]) % 1.0 for k, base in enumerate((2, 3))], axis=1)


def _mirrored(index: np.ndarray, base: int) -> np.ndarray:
    """The radical inverse: the digits of `index` mirrored at the point."""
    rest, weight, value = index.copy(), 1.0 / base, np.zeros(len(index))
    while rest.any():
        value += weight * (rest % base)
        rest, weight = rest // base, weight / base
    return value


def jittered(number: int, size: np.ndarray, stream: np.random.Generator) -> np.ndarray:
    """One uniform point in each of `number` cells of equal area, in columns of nearly square cells; float64
    [number, 2] in the rectangle [0, size].
    """
    columns = max(1, min(number, round(math.sqrt(number * size[0] / size[1]))))
    each = np.diff(np.arange(columns + 1) * number // columns)  # cells of each column, all but equal
    column = np.repeat(np.arange(columns), each)
    row = np.arange(number) - (np.cumsum(each) - each)[column]
    draws = stream.random((number, 2))
    # A column is as wide as its share of the cells, so that all cells have the same area.
    left = ((np.cumsum(each) - each) / number)[column]
    x = left + draws[:, 0] * each[column] / number
    y = (row + draws[:, 1]) / each[column]
    return np.asarray(np.stack([x, y], axis=1) * size)


def uniform_within(
    here: np.ndarray, reach: float, size: np.ndarray, stream: np.random.Generator
) -> np.ndarray:
    """A point uniform over what of the disc of radius `reach` around `here` lies in the rectangle [0, size].

    By rejection from the box around both; at least pi / 4 of the draws are accepted, wherever `here` lies.
    """
    low, high = np.maximum(here - reach, 0.0), np.minimum(here + reach, size)
    while True:
        point = np.clip(low + stream.random(2) * (high - low), low, high)
        if np.hypot(*(point - here)) <= reach:
            return np.asarray(point)


def _around_clients(
    places: np.ndarray, reach: float, size: np.ndarray, number: int, stream: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The static clients' places, then points uniform within reach of each in turn, until there are `number`."""
    turns = np.arange(max(number - len(places), 0)) % max(len(places), 1)
    found = [uniform_within(places[i], reach, size, stream) for i in turns] if len(places) else []
    owner = np.concatenate([np.arange(len(places)), turns[: len(found)]])
    points = np.concatenate([places, np.array(found).reshape(-1, 2)])
    return points, np.stack([owner, np.full(len(owner), NOBODY)], axis=1)


def _intersections(places: np.ndarray, reach: float, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points among which there is, for any point of the rectangle, one that covers at least the same clients.

    The static clients' places, where two circles of the radio reach around them meet, and where a circle meets an
    edge: what discs and the rectangle have in common is a whole disc, the whole rectangle (then any place covers as
    much), or has such a corner. The circle intersection points of Church, "The planar maximal covering location
    problem", J. Reg. Sci. 24 (1984), in a rectangle.
    """
    if reach >= np.hypot(*size):  # from anywhere, everybody is heard
        return places, np.stack([np.arange(len(places)), np.full(len(places), NOBODY)], axis=1)
    found = list(_meeting_points(places, reach * WITHIN, size))
    points, owners = (np.concatenate(parts) for parts in zip(*found, strict=True))
    inside = ((points >= 0) & (points <= size)).all(axis=1)
    return points[inside], owners[inside]


def _meeting_points(
    places: np.ndarray, radius: float, size: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Points, some of them outside the rectangle, and their owners: what `_intersections` is made of."""
    from scipy.spatial import cKDTree

    index = np.arange(len(places))
    yield places, np.stack([index, np.full(len(index), NOBODY)], axis=1)
    pairs = (
        cKDTree(places).query_pairs(2 * radius, output_type="ndarray") if len(places) else np.zeros((0, 2))
    )
    one, two = pairs.astype(np.int64).reshape(-1, 2).T
    way = places[two] - places[one]
    apart = np.hypot(way[:, 0], way[:, 1])
    one, two, way, apart = (a[apart > 0] for a in (one, two, way, apart))
    middle = (places[one] + places[two]) / 2
    off = np.sqrt(np.maximum(radius**2 - (apart / 2) ** 2, 0.0)) / apart
    across = np.stack([-way[:, 1], way[:, 0]], axis=1) * off[:, None]
    for points in (middle + across, middle - across):
        yield points, np.stack([one, two], axis=1)
    for axis in (0, 1):
        for edge in (0.0, size[axis]):
            away = np.abs(places[:, axis] - edge)
            meets = np.flatnonzero(away <= radius)
            along = np.sqrt(radius**2 - away[meets] ** 2)
            for side in (-1, 1):
                points = places[meets].copy()
                points[:, axis] = edge
                points[:, 1 - axis] += side * along
                yield points, np.stack([meets, np.full(len(meets), NOBODY)], axis=1)
