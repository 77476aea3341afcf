"""Whether two piecewise-linear paths ever come within a radius: the closed form."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from fedroam.contacts.candidates import FEW, all_pairs, candidates
from fedroam.contacts.ragged import chunks, expand, lengths
from fedroam.mobility import Paths, within_reach

LIMIT = 1 << 18  # legs looked at in one go: bounds the memory, changes no result


class Near(NamedTuple):
    """Legs of two clients that come within a radius while both last; arrays [legs].

    which: int64, the pair that they are of, ascending. begin, end: float64, from when to when both last (0 to 1). gaps:
    float64 [4, legs], metres, from the other to the one at these two moments: x, y, x, y. at: bool [2, legs], whether
    they are within the radius then.
    """

    which: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    gaps: np.ndarray
    at: np.ndarray

    @classmethod
    def nothing(cls) -> Near:
        """No legs."""
        return cls(
            np.zeros(0, np.int64), np.zeros(0), np.zeros(0), np.zeros((4, 0)), np.zeros((2, 0), dtype=bool)
        )

    def some(self, which: np.ndarray) -> Near:
        """Those of an index (int64), in its order."""
        return Near(*(column.take(which, axis=-1) for column in self))


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
    met[legs_within(paths, i, j, radius).which] = True
    return met


def legs_within(paths: Paths, i: np.ndarray, j: np.ndarray, radius: float) -> Near:
    """All legs of clients i[k] and j[k] that come within `radius` (m) while both last, ordered by k."""
    if not len(i):
        return Near.nothing()
    legs, found = Legs.of(paths), []
    if legs.straight and len(i) <= LIMIT // 2:
        return legs.near(np.arange(len(i)), i, j, radius)
    for part in chunks(legs.count[i] + legs.count[j], LIMIT):
        which, a, b = legs.overlapping(i[part], j[part])
        found.append(legs.near(which + part.start, a, b, radius))
    near = found[0]
    if len(found) > 1:
        near = Near(*(np.concatenate(parts, axis=-1) for parts in zip(*found, strict=True)))
    rises = (near.which[1:] >= near.which[:-1]).all()
    return near if rises else near.some(np.argsort(near.which, kind="stable"))


def few_go_straight(paths: Paths) -> bool:
    """Whether all go straight, and so few are present that every pair is looked at: the closed form is as fast as a
    look at their boxes, or as a tree."""
    return paths.straight_ways and int(paths.present.sum()) <= FEW


def legs_in_contact(paths: Paths, radius: float) -> tuple[np.ndarray, Near]:
    """Pairs of present clients as `candidates` gives them for a finite radius, and their `legs_within` it, found
    once."""

    def find() -> tuple[np.ndarray, Near]:
        if paths.whole is not None:
            return _among(*legs_in_contact(paths.whole, radius), paths.present)
        if few_go_straight(paths):
            present = np.flatnonzero(paths.present)
            pairs = all_pairs(len(present))
            if len(present) < paths.clients:
                pairs = np.asarray(present[pairs])
        else:
            pairs = candidates(paths, radius)
        return pairs, legs_within(paths, pairs[:, 0], pairs[:, 1], radius)

    return paths.derived(("legs in contact", radius), find)


def _among(pairs: np.ndarray, near: Near, present: np.ndarray) -> tuple[np.ndarray, Near]:
    """Those pairs both of which are present (bool [clients]), and their legs."""
    kept = present[pairs[:, 0]] & present[pairs[:, 1]]
    if kept.all():
        return pairs, near
    number = np.cumsum(kept) - 1
    near = near.some(np.flatnonzero(kept[near.which]))
    return pairs[kept], near._replace(which=number[near.which])


class Legs:
    """The straight legs of all paths, ordered by client and time."""

    @classmethod
    def of(cls, paths: Paths) -> Legs:
        """Those of these paths, cut once."""
        return paths.derived("legs", lambda: cls(paths))

    def __init__(self, paths: Paths) -> None:
        self.count = lengths(paths.first) - 1
        self.straight = paths.straight_ways  # then legs are clients
        self._paths, self.point = paths, paths.point

    @cached_property
    def first(self) -> np.ndarray:
        """The first leg of each client, int64 [clients]."""
        return np.asarray(self._paths.first[:-1] - np.arange(self._paths.clients))

    @cached_property
    def start(self) -> np.ndarray:
        """The point in which each leg begins, int64 [legs]."""
        own = np.ones(len(self._paths.time) - 1, dtype=bool)
        own[self._paths.first[1:-1] - 1] = False  # from one client's last point to the next client's first
        return np.flatnonzero(own)

    @cached_property
    def begin(self) -> np.ndarray:
        """When each leg begins, float64 [legs], 0 to 1."""
        return np.asarray(self._paths.time[self.start])

    @cached_property
    def end(self) -> np.ndarray:
        """When each leg ends, float64 [legs], 0 to 1."""
        return np.asarray(self._paths.time[self.start + 1])

    @cached_property
    def owner(self) -> np.ndarray:
        """The client of each leg, int64 [legs]."""
        return np.repeat(np.arange(self._paths.clients), self.count)

    @cached_property
    def ways(self) -> np.ndarray:
        """Where clients begin and end who go straight, float64 [4, clients]: x, y, x, y."""
        return np.ascontiguousarray(self.point.reshape(-1, 4).T)

    # Clients take disjoint intervals [client, client + 1/2] of one axis, so that one search finds a client's leg at a
    # moment.
    @cached_property
    def begin_key(self) -> np.ndarray:
        """Where each leg begins on that axis, float64 [legs]."""
        return np.asarray(self.owner + self.begin / 2)

    @cached_property
    def end_key(self) -> np.ndarray:
        """Where each leg ends on that axis, float64 [legs]."""
        return np.asarray(self.owner + self.end / 2)

    def overlapping(self, i: np.ndarray, j: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All legs of i[k] and j[k] that share a moment, and some that nearly do: which k, and the two legs."""
        if self.straight:
            return np.arange(len(i)), i, j
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

    def near(self, which: np.ndarray, a: np.ndarray, b: np.ndarray, radius: float) -> Near:
        """Those of legs a[k] and b[k], of pair which[k], that come within the radius (m) while both last."""
        if self.straight:
            ways = self.ways
            gaps = ways.take(a, axis=1) - ways.take(b, axis=1)
        else:
            begin, end = np.maximum(self.begin[a], self.begin[b]), np.minimum(self.end[a], self.end[b])
            gaps = np.concatenate([(self.at(a, when) - self.at(b, when)).T for when in (begin, end)])
        x, y, end_x, end_y = gaps
        move_x, move_y = gaps[2:] - gaps[:2]
        at = within_reach(gaps[::2], gaps[1::2], radius)
        foot_inside = (x * move_x + y * move_y < 0) & (end_x * move_x + end_y * move_y > 0)
        touches = np.abs(x * move_y - y * move_x) <= radius * np.hypot(move_x, move_y)
        near = at[0] | at[1] | (foot_inside & touches)
        if self.straight:
            k = np.flatnonzero(near)
            whole = (which.take(k), np.zeros(len(k)), np.ones(len(k)))
            return Near(*whole, gaps.take(k, axis=1), at.take(k, axis=1))
        return Near(which, begin, end, gaps, at).some(np.flatnonzero(near & (begin <= end)))

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
