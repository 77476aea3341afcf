"""What a round under the clock asks of the batteries."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedroam.clock.timetable import union
from fedroam.contacts import contact_intervals
from fedroam.devices import Battery, Motion, Use, motion_power
from fedroam.mobility import Paths


def drained(
    battery: Battery,
    motion: Motion,
    state: Mapping[str, np.ndarray],
    paths: Paths,
    times: tuple[float, float, float],
    training: np.ndarray,
    radio: np.ndarray,
    access_points: np.ndarray,
) -> dict[str, np.ndarray]:
    """The batteries after a round.

    paths: everybody's ways. times: s, when the round begins, how long it is, and how long everybody moves in it; for
    the rest all stand where their ways end. training: float64 [clients], s; radio: float64 [clients], J; access_points:
    float64 [access points, 2], m, at which devices charge, if the battery says that they charge at places.
    """
    if not state:
        return {}
    begin, seconds, length = times
    power, lasts = motion_power(motion, paths, length)
    joules = np.add.reduceat(power * lasts, paths.first[:-1] - np.arange(paths.clients))
    joules += motion.power(np.zeros(paths.clients)) * max(seconds - length, 0.0)
    near = near_places(paths, battery.charge_radius, access_points, seconds, length)
    return battery.step(state, Use(begin, seconds, paths.present, joules, radio, training, near))


def near_places(
    paths: Paths, radius: float | None, places: np.ndarray, seconds: float, length: float
) -> np.ndarray:
    """The share of a round in which each client is within `radius` (m; None: always) of a place, float64 [clients]."""
    clients, count = paths.clients, len(places)
    if radius is None:
        return np.ones(clients)
    if not count:
        return np.zeros(clients)
    still = Paths.still(places)
    both = Paths(
        np.concatenate([paths.first, paths.first[-1] + still.first[1:]]),
        np.concatenate([paths.time, still.time]),
        np.concatenate([paths.point, still.point]),
        np.concatenate([paths.present, still.present]),
    )
    here = np.flatnonzero(paths.present)
    pairs = np.stack([np.repeat(here, count), np.tile(np.arange(count) + clients, len(here))], axis=1)
    found = contact_intervals(both, radius, pairs)
    close = np.where(found.close == 1.0, max(seconds, length), found.close * length)
    return np.minimum(union(found.i, found.open * length, close, clients) / max(seconds, length), 1.0)
