"""The loops over the points around a destination, in the part of Python that is compiled: see `native.of_python`."""

from __future__ import annotations

from typing import Annotated

import numpy as np

Whole = Annotated[np.ndarray, np.int64, 1]
Real = Annotated[np.ndarray, np.float64, 1]
Flags = Annotated[np.ndarray, np.bool_, 1]
NONE = -1


def take(
    left: Real,
    near: Flags,
    taken: Flags,
    factors: Real,
    close: Whole,
    none_left: Whole,
    grid: int,
    span: int,
    places: Whole,
    count: int,
) -> int:
    """What is left around the points of a grid when `count` more head for `places`, x and y of each from 0 on; 0.

    left, near, taken: of all points, in their order; factors: what becomes of the points up to `span` away along either
    axis, (2 span + 1)^2 of them; close, none_left: in each row of these, how far from its middle those reach that are
    near, and those of which nothing is left; NONE: there are none.
    """
    for k in range(count):
        x, y = places[2 * k], places[2 * k + 1]
        for row in range(max(0, x - span), min(grid, x + span + 1)):
            away = row - x + span
            there, here = away * (2 * span + 1) + span - y, row * grid
            for column in range(max(0, y - close[away]), min(grid, y + close[away] + 1)):
                left[here + column] = left[here + column] * factors[there + column]
                near[here + column] = True
            for column in range(max(0, y - none_left[away]), min(grid, y + none_left[away] + 1)):
                taken[here + column] = True
    return 0


def follow(
    left: Real,
    known: Real,
    piece: Whole,
    shares: Real,
    pieces: int,
    which: Whole,
    changes: Real,
    grid: int,
    first_row: int,
    end_row: int,
    first_column: int,
    end_column: int,
) -> int:
    """Bring what is known of a window of a grid up to date: how many pieces, that follow each other, have changed.

    left: what there is around each point; known: the same, as known before; piece: of each point, their number for
    those that are in none; shares: of each piece the sum of what is known, and one number more for the points that are
    in none. which, changes: the pieces that have changed, and by how much, at least as many as the window has points;
    behind these changes stands the sum of those that are of pieces, so that there is one number more of them.
    """
    count, total = 0, 0.0
    for row in range(first_row, end_row):
        for point in range(row * grid + first_column, row * grid + end_column):
            change = left[point] - known[point]
            if change != 0.0:
                known[point] = left[point]
                number = piece[point]
                if count == 0 or which[max(count - 1, 0)] != number:
                    which[count] = number
                    changes[count] = 0.0
                    count += 1
                changes[count - 1] = changes[count - 1] + change
    for k in range(count):
        shares[which[k]] = shares[which[k]] + changes[k]
        if which[k] < pieces:
            total += changes[k]
    changes[count] = total
    return count
