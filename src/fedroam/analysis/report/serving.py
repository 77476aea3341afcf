"""Where a run's access points stand, how far they reach, and which one serves whom."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedroam.errors import InputError
from fedroam.recording import Run


@dataclass(frozen=True)
class AccessPointsOfRun:
    """Places, float64 [access points, 2], and ranges, float64 [access points] (inf: everywhere), in metres.

    serve_nearest: whether devices turn to the nearest one that reaches them, so that places tell who serves whom.
    """

    places: np.ndarray
    ranges: np.ndarray
    serve_nearest: bool


def access_points(run: Run) -> AccessPointsOfRun | None:
    """The access points of a run, None where it has none. Raises InputError where `world.json` contradicts itself."""
    found = run.world.get("access_points") or []
    if not found:
        return None
    places = np.array(found, dtype=np.float64)
    told = run.world.get("access_point_ranges") or [None] * len(places)
    ranges = np.array([math.inf if reach is None else reach for reach in told], dtype=np.float64)
    if not np.isfinite(places).all() or ranges.shape != (len(places),) or not (ranges >= 0).all():
        raise InputError(f"{run.folder / 'world.json'}: damaged: access_points and their ranges do not fit")
    federation = run.settings.get("federation")
    nearest = isinstance(federation, Mapping) and federation.get("access") == "nearest"
    return AccessPointsOfRun(places, ranges, nearest)


def serving_points(places: np.ndarray, points: AccessPointsOfRun) -> np.ndarray:
    """The access point that serves each client in each frame, int64 [frames, clients]; -1 where none does.

    That is the nearest of those in whose range it is (Farcas et al., Eq. 4). Of several equally near ones it is the
    first, where a run may have drawn another. places: float64 [frames, clients, 2], metres, NaN for who is away.
    """
    from fedroam.access_points import choose_nearest, distances  # few runs have any

    serving = np.full(places.shape[:2], -1, dtype=np.int64)
    there = np.isfinite(places[:, :, 0])
    flat = places[there]
    chosen = np.full(len(flat), -1, dtype=np.int64)
    nearest = np.full(len(flat), math.inf)
    for reach in np.unique(points.ranges):
        alike = np.flatnonzero(points.ranges == reach)
        found = alike[choose_nearest(flat, points.places[alike])]
        gap = distances(flat, points.places, found)
        better = (gap <= reach) & (gap < nearest)
        chosen[better], nearest[better] = found[better], gap[better]
    serving[there] = chosen
    return serving
