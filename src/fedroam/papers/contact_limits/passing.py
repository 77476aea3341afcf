"""How long contacts last, and so which share of them is long enough: in closed form, and on the timetable's contacts.

Two clients of relative speed v that pass at distance d are within R of each other for 2 sqrt(R^2 - d^2) / v. The closed
form takes ways as straight for that long and directions as uniform, which random waypoint's are not quite; what is
counted takes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedroam.contacts import contact_intervals
from fedroam.errors import InputError
from fedroam.mobility import Mobility, World
from fedroam.mobility.random_waypoint import RandomWaypoint

_STEPS = 40  # of each integral: speeds of both, and their angle


def closed_form(
    seconds: float, radius: float, speeds: tuple[float, float], length: float, trained: float = 0.0
) -> float:
    """The share (%) of the contacts of a round in which a model fits that takes so many seconds (float >= 0, s).

    radius: m; speeds: lowest and highest of new ways of random waypoint, m/s; length: of a round, s; trained: when in
    the round sending begins, s. A pair's contact counts in each round that it touches, with its part in that round, as
    the clock has it.

    A pass at distance d = R u lasts D = (2 R / v) sqrt(1 - u^2), u uniform on [0, 1], and begins at any time. It
    touches a round for beginnings of measure length + D; those that leave T seconds after c have the measure
    length - c + D - 2 T if D >= T, else none. With x = v T / (2 R) and u* = sqrt(1 - x^2) the means over u are

        length + pi R / (2 v)   and   (length - c - 2 T) u* + (R / v) (u* x + arcsin u*).

    Passes of relative speed v come as often as v; speeds of the steady state have a density as 1 / speed.
    """
    if seconds > length - trained:
        return 0.0
    middle = (np.arange(_STEPS) + 0.5) / _STEPS
    speed = speeds[0] * (speeds[1] / speeds[0]) ** middle
    one, other, angle = np.meshgrid(speed, speed, np.pi * middle, indexing="ij")
    v = np.sqrt(one**2 + other**2 - 2 * one * other * np.cos(angle))
    x = np.minimum(v * seconds / (2 * radius), 1.0)
    widest = np.sqrt(1 - x**2)
    fits = (length - trained - 2 * seconds) * widest + radius / v * (widest * x + np.arcsin(widest))
    return float(100 * (v * fits).sum() / (v * (length + np.pi * radius / (2 * v))).sum())


@dataclass(frozen=True)
class Contacts:
    """All contacts of some rounds. pair: int64 [contacts], ascending, by round and pair; open, close: float64, s."""

    pair: np.ndarray
    open: np.ndarray
    close: np.ndarray

    @classmethod
    def of(cls, mobility: Mobility, radius: float, length: float, world: World, rounds: int) -> Contacts:
        """Those of the first so many rounds, each of `length` s, of clients who reach `radius` (m).

        Raises InputError where nobody meets.
        """
        state, pairs, opens, closes = mobility.start(world), [], [], []
        for number in range(1, rounds + 1):
            state, paths = mobility.step(state, world, number)
            found = contact_intervals(paths, radius)
            pairs.append((number * world.clients + found.i) * world.clients + found.j)
            opens.append(length * found.open)
            closes.append(length * found.close)
        if not sum(map(len, pairs)):
            raise InputError(f"contacts of {rounds} rounds within {radius:g} m: there are none")
        return cls(np.concatenate(pairs), np.concatenate(opens), np.concatenate(closes))

    def lasting(self, trained: float = 0.0) -> np.ndarray:
        """How long the longest contact of each pair lasts in each round that it meets, from `trained` s on, float64."""
        first = np.flatnonzero(np.append(True, np.diff(self.pair) != 0))
        return np.asarray(np.maximum.reduceat(self.close - np.maximum(self.open, trained), first))

    def fit(self, seconds: Sequence[float], trained: float = 0.0) -> list[float]:
        """The share (%) of the pairs that meet in which a model fits, for each time that it may take (s)."""
        lasting = np.sort(self.lasting(trained))
        return [100 * float(1 - np.searchsorted(lasting, one) / len(lasting)) for one in seconds]


def roaming(speeds: tuple[float, float], side: float) -> RandomWaypoint:
    """Random waypoint in a square. speeds: m/round; side: m."""
    return RandomWaypoint(width=side, height=side, min_speed=speeds[0], max_speed=speeds[1])
