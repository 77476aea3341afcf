"""Whether two piecewise-linear paths ever come within a radius: the closed form."""

from __future__ import annotations

import numpy as np

from fedroam.contacts.candidates import candidates
from fedroam.contacts.ragged import chunks, expand
from fedroam.mobility import Paths, within_reach

LIMIT = 1 << 18  # legs looked at in one go: bounds the memory, changes no result


def come_within(paths: Paths, i: np.ndarray, j: np.ndarray, radius: float) -> np.ndarray:
    """Whether clients i[k] and j[k] are at most `radius` (m, inclusive) apart at any moment; bool [pairs].

    On a piece of time in which both move straight, their difference moves on a segment. The segment touches the
    disc of the radius if one of its ends lies in it, or if the foot of the perpendicular from the origin lies on
    the segment and within the radius. Its length, |a x move| / |move|, is compared without dividing, so that pairs
    who graze at exactly the radius count wherever the numbers are exact. The result for a pair depends on its two
    paths alone.
    """
    if np.isinf(radius):
        return np.ones(len(i), dtype=bool)
    met = np.zeros(len(i), dtype=bool)
    met[legs_within(paths, i, j, radius)[0]] = True
    return met


def legs_within(
    paths: Paths, i: np.ndarray, j: np.ndarray, radius: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All legs of clients i[k] and j[k] that come within `radius` (m) while both last: which k (ascending), and the two
    legs; int64 [legs] each."""
    nothing = np.zeros(0, dtype=np.int64)
    if not len(i):
        return nothing, nothing, nothing
    legs, found = Legs.of(paths), []
    for part in chunks(legs.count[i] + legs.count[j], LIMIT):
        which, a, b = legs.overlapping(i[part], j[part])
        near = np.flatnonzero(legs.near(a, b, radius))
        found.append((which[near] + part.start, a[near], b[near]))
    which, a, b = (np.concatenate(side) for side in zip(*found, strict=True))
    if (which[1:] >= which[:-1]).all():
        return which, a, b
    order = np.argsort(which, kind="stable")
    return which[order], a[order], b[order]


def legs_in_contact(
    paths: Paths, radius: float
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The `candidates` of a finite radius, and their `legs_within` it, found once."""

    def find() -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray, np.ndarray]]:
        pairs = candidates(paths, radius)
        return pairs, legs_within(paths, pairs[:, 0], pairs[:, 1], radius)

    return paths.derived(("legs in contact", radius), find)


class Legs:
    """The straight legs of all paths, ordered by client and time."""

    @classmethod
    def of(cls, paths: Paths) -> Legs:
        """Those of these paths, cut once."""
        return paths.derived("legs", lambda: cls(paths))

    def __init__(self, paths: Paths) -> None:
        self.count = np.diff(paths.first) - 1
        self.first = paths.first[:-1] - np.arange(paths.clients)
        own = np.ones(len(paths.time) - 1, dtype=bool)
        own[paths.first[1:-1] - 1] = False  # from one client's last point to the next client's first
        self.start, self.point = np.flatnonzero(own), paths.point
        self.begin, self.end = paths.time[self.start], paths.time[self.start + 1]
        # Clients take disjoint intervals [client, client + 1/2] of one axis, so that one search finds a client's
        # leg at a moment.
        owner = np.repeat(np.arange(paths.clients), self.count)
        self.begin_key, self.end_key = owner + self.begin / 2, owner + self.end / 2

    def overlapping(self, i: np.ndarray, j: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All legs of i[k] and j[k] that share a moment, and some that nearly do: which k, and the two legs."""
        straight = (self.count[i] == 1) & (self.count[j] == 1)
        one = np.flatnonzero(straight)
        which, a, b = self._several(i, j, np.flatnonzero(~straight))
        return (
            np.concatenate([one, which]),
            np.concatenate([self.first[i[one]], a]),
            np.concatenate([self.first[j[one]], b]),
        )

    def _several(
        self, i: np.ndarray, j: np.ndarray, asked: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same for some k (int64), whoever has how many legs."""
        which, a = expand(self.first[i[asked]], self.count[i[asked]])
        which = asked[which]
        # Every leg of j that shares a moment with the leg of i, found with some slack (keys are rounded); legs
        # without a common moment are dropped by whoever asks.
        other = j[which]
        first = np.searchsorted(self.end_key, other + self.begin[a] / 2 - 1e-9, side="left")
        last = np.searchsorted(self.begin_key, other + self.end[a] / 2 + 1e-9, side="right")
        leg, b = expand(first, last - first)
        return which[leg], a[leg], b

    def near(self, a: np.ndarray, b: np.ndarray, radius: float) -> np.ndarray:
        """Whether legs a[k] and b[k] come within the radius (m) while both last; bool [legs]."""
        begin, end = np.maximum(self.begin[a], self.begin[b]), np.minimum(self.end[a], self.end[b])
        gap = self.at(a, begin) - self.at(b, begin)
        last = self.at(a, end) - self.at(b, end)
        move = last - gap
        near = within_reach(gap[:, 0], gap[:, 1], radius) | within_reach(last[:, 0], last[:, 1], radius)
        foot_inside = ((gap * move).sum(axis=1) < 0) & ((last * move).sum(axis=1) > 0)
        cross = np.abs(gap[:, 0] * move[:, 1] - gap[:, 1] * move[:, 0])
        near |= foot_inside & (cross <= radius * np.hypot(move[:, 0], move[:, 1]))
        return np.asarray(near & (begin <= end))

    def at(self, leg: np.ndarray, moment: np.ndarray) -> np.ndarray:
        """Place on a leg at a moment; exact at both ends and for clients that stand still."""
        begin, end = self.begin.take(leg), self.end.take(leg)
        place: np.ndarray = self.point.take(self.start.take(leg) + (moment == end), axis=0)
        k = np.flatnonzero((moment != begin) & (moment != end))  # most ask for an end
        if len(k):
            leg, span = leg[k], (end - begin)[k]
            share = np.divide(moment[k] - begin[k], span, out=np.zeros(len(k)), where=span > 0)
            a, b = self.point[self.start[leg]], self.point[self.start[leg] + 1]
            place[k] = a + share[:, None] * (b - a)
        return place

    def place(self, client: np.ndarray, moment: np.ndarray) -> np.ndarray:
        """Where clients (int64 [asked]) are at moments of the round (0 to 1), float64 [asked, 2]."""
        leg = self.first[client]
        several = np.flatnonzero(self.count[client] > 1)
        if len(several):
            who, low = client[several], leg[several]
            found = np.searchsorted(self.begin_key, who + moment[several] / 2, side="right") - 1
            leg[several] = np.clip(found, low, low + self.count[who] - 1)
        return self.at(leg, moment)
