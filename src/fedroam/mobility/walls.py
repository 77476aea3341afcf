"""Reflecting walls: straight motion in a box, exact for any number of reflections in a round."""

from __future__ import annotations

import numpy as np

from fedroam.mobility.world import Paths


def reflected(start: np.ndarray, move: np.ndarray, low: np.ndarray, high: np.ndarray) -> Paths:
    """Paths of points that move straight and are thrown back by the walls of a box, as light is by mirrors.

    start: float64 [clients, 2] inside the box, metres; move: float64 [clients, 2], way of the round if there were
    no walls; low, high: float64 [2], the box (high > low). At a wall the velocity component across it changes its
    sign; in a corner both do. The way travelled is the length of `move`. Breakpoints lie at the wall hits, exactly
    on the wall, at strictly rising times.

    Method of images: unfolded, the walk is a straight line through mirrored copies of the box, and it hits walls
    where a coordinate is a whole multiple of the box's side.
    """
    clients, side, place = len(start), high - low, start - low
    owner, time, on_wall = _hits(place, move, side)
    count = np.bincount(owner, minlength=clients)
    first = np.concatenate([[0], np.cumsum(count + 2)]).astype(np.int64)
    hit = first[owner] + 1 + np.arange(len(owner)) - (np.cumsum(count) - count)[owner]
    times = np.zeros(first[-1])
    times[first[1:] - 1] = 1.0
    times[hit] = time
    of = np.repeat(np.arange(clients), count + 2)
    points = low + _fold(place[of] + move[of] * times[:, None], side)
    points[hit] = np.where(np.isnan(on_wall), points[hit], np.where(on_wall > 0, high, low))
    points = np.clip(points, low, high)  # low + side may be a last bit more than high
    points[first[:-1]] = start
    return Paths(first, times, points, np.ones(clients, dtype=bool))


def _fold(unfolded: np.ndarray, side: np.ndarray) -> np.ndarray:
    """Where in the box unfolded coordinates (float64 [points, 2]) lie; those inside it stay as they are."""
    point, axis = np.nonzero((unfolded < 0) | (unfolded > side))
    width = side[axis]
    rest = np.mod(unfolded[point, axis], 2 * width)
    found = unfolded.copy()
    found[point, axis] = np.where(rest > width, 2 * width - rest, rest)
    return found


def _hits(place: np.ndarray, move: np.ndarray, side: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Wall hits strictly inside the round, by client and time: client, time, and which walls (float64 [hits, 2]).

    The walls: per axis 0 for the low one, 1 for the high one, NaN for none; a corner is one hit of both axes.
    """
    found = []
    for axis in (0, 1):
        p, m, width = place[:, axis], move[:, axis], side[axis]
        end = p + m
        count = np.where(end > width, np.ceil(end / width) - 1, np.where(end < 0, np.ceil(-end / width), 0))
        count = count.astype(np.int64)
        owner = np.repeat(np.arange(len(p)), count)
        nth = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
        image = np.where(m[owner] > 0, nth + 1, -nth)  # the wall at image * width of the unfolded axis
        time = (image * width - p[owner]) / m[owner]
        inside = (time > 0) & (time < 1)  # a start on the wall is no hit, an end on it no breakpoint
        walls = np.full((len(owner), 2), np.nan)
        walls[:, axis] = image % 2
        found.append((owner[inside], time[inside], walls[inside]))
    owner, time, walls = (np.concatenate(parts) for parts in zip(*found, strict=True))
    if not len(owner):
        return owner, time, walls
    order = np.lexsort((time, owner))
    owner, time, walls = owner[order], time[order], walls[order]
    new = np.append(True, (np.diff(owner) != 0) | (np.diff(time) != 0))  # both axes at once: one breakpoint
    return owner[new], time[new], np.fmax.reduceat(walls, np.flatnonzero(new), axis=0)
