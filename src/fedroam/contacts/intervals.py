"""When in a round two clients are within reach: the opening and closing times of their contacts, in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedroam.contacts.approach import Legs, Near, legs_in_contact, legs_within
from fedroam.contacts.candidates import candidates
from fedroam.mobility import Paths

INTERVALS = "intervals"  # of all, kept with the paths


@dataclass(frozen=True)
class Intervals:
    """Contacts of a round as intervals of its time, arrays [contacts], ordered by i, j and opening.

    i, j: int64, the two clients. open, close: float64, 0 to 1, both inclusive; a pair that only touches has an
    interval without duration. A contact that was open before the round opens at 0, and one that outlasts it closes
    at 1.
    """

    i: np.ndarray
    j: np.ndarray
    open: np.ndarray
    close: np.ndarray

    def __len__(self) -> int:
        """Number of contacts."""
        return len(self.i)

    def some(self, which: np.ndarray) -> Intervals:
        """Those of an index or mask, in its order."""
        return Intervals(self.i[which], self.j[which], self.open[which], self.close[which])

    @classmethod
    def joined(cls, parts: Sequence[Intervals]) -> Intervals:
        """Those of all parts, one after the other."""
        nobody, never = np.zeros(0, np.int64), np.zeros(0)
        return cls(
            np.concatenate([nobody, *(part.i for part in parts)]),
            np.concatenate([nobody, *(part.j for part in parts)]),
            np.concatenate([never, *(part.open for part in parts)]),
            np.concatenate([never, *(part.close for part in parts)]),
        )


def contact_intervals(paths: Paths, radius: float, pairs: np.ndarray | None = None) -> Intervals:
    """The intervals in which clients are at most `radius` (m, inclusive) apart.

    pairs: int64 [pairs, 2], each once, those that are asked for; None: all present clients (found once). On a piece of
    time in which both move straight, the interval lies between the two roots of |gap + s move|^2 = radius^2. What is in
    reach at the end of one piece and at the beginning of the next is one contact. A pair has an interval here exactly
    where `closest_approach` says that it meets. Memory and time grow with contacts, not with pairs.
    """
    if pairs is not None:
        return _found(paths, radius, pairs)
    whole = paths.whole

    def find() -> Intervals:
        if whole is None or not intervals_known(whole, radius):
            return _found(paths, radius)
        found = contact_intervals(whole, radius)
        return found.some(np.flatnonzero(paths.present[found.i] & paths.present[found.j]))

    return paths.derived((INTERVALS, radius), find)


def intervals_known(paths: Paths, radius: float) -> bool:
    """Whether the intervals of all present clients, or of more, were found already."""
    return any(one is not None and one.knows((INTERVALS, radius)) for one in (paths, paths.whole))


def _found(paths: Paths, radius: float, asked: np.ndarray | None = None) -> Intervals:
    """The intervals of the pairs asked, or of all."""
    if np.isinf(radius):
        i, j = (candidates(paths, radius) if asked is None else asked).T.astype(np.int64)
        found = Intervals(i, j, np.zeros(len(i)), np.ones(len(i)))
    elif asked is None:
        pairs, near = legs_in_contact(paths, radius)
        return _intervals(pairs[:, 0], pairs[:, 1], radius, near)  # in order
    else:
        i, j = asked.T.astype(np.int64)
        found = _intervals(i, j, radius, legs_within(paths, i, j, radius))
    key = found.i * paths.clients + found.j
    rises = (key[1:] > key[:-1]) | ((key[1:] == key[:-1]) & (found.open[1:] >= found.open[:-1]))
    return found if rises.all() else found.some(np.lexsort((found.open, found.j, found.i)))


def crossings(gap: np.ndarray, move: np.ndarray, radius: float) -> tuple[np.ndarray, np.ndarray]:
    """Where on its way a difference gap + s move (s from 0 to 1) is within the radius: from, to; float64 [ways] each.

    gap, move: float64 [2, ways]. Both ends are cut to 0 to 1; a way that misses the disc has from = to.
    """
    (x, y), (move_x, move_y) = gap, move
    square, along = move_x * move_x + move_y * move_y, x * move_x + y * move_y
    inside = x * x + y * y - radius**2
    moving = square > 0
    root = np.sqrt(np.maximum(along * along - square * inside, 0.0))
    safe = np.where(moving, square, 1.0)
    first, last = (np.minimum(np.maximum(cut / safe, 0.0), 1.0) for cut in (-along - root, root - along))
    return np.where(moving, first, 0.0), np.where(moving, last, inside <= 0)


def distance_at(legs: Legs, i: np.ndarray, j: np.ndarray, time: np.ndarray) -> np.ndarray:
    """How far apart clients i[k] and j[k] are at time[k] of the round (0 to 1), float64 [asked], metres."""
    gap = legs.place(i, time) - legs.place(j, time)
    return np.asarray(np.hypot(gap[:, 0], gap[:, 1]))


def _intervals(i: np.ndarray, j: np.ndarray, radius: float, near: Near) -> Intervals:
    """The contacts of pairs, in their order, from their `legs_within` the radius."""
    once = (near.which[1:] > near.which[:-1]).all()
    if not once:
        near = near.some(np.lexsort((near.end, near.begin, near.which)))
    which, begin, end, (at_begin, at_end) = near.which, near.begin, near.end, near.at
    # The ends of pieces are decided as `closest_approach` decides, not by rounded roots: so no contact is torn there.
    low, high = crossings(near.gaps[:2], near.gaps[2:] - near.gaps[:2], radius)
    opening = np.where(at_begin, begin, begin + low * (end - begin))
    closing = np.where(at_end, end, np.maximum(begin + high * (end - begin), opening))
    if once:
        return Intervals(i[which], j[which], opening, closing)
    follows = np.zeros(len(which), dtype=bool)
    follows[1:] = (which[1:] == which[:-1]) & at_end[:-1] & at_begin[1:] & (end[:-1] == begin[1:])
    head = np.flatnonzero(~follows)
    tail = np.append(head[1:], len(which)) - 1
    return Intervals(i[which[head]], j[which[head]], opening[head], closing[tail[: len(head)]])
