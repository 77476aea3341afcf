"""The nearest access point of everybody."""

from __future__ import annotations

import numpy as np

# Distances this close to each other, relative to the smaller one, are equal: roundings, not places, tell them apart.
ROUNDING = 1e-12


def choose_nearest(
    places: np.ndarray,
    access_points: np.ndarray,
    draws: np.ndarray | None = None,
    ranges: np.ndarray | None = None,
) -> np.ndarray:
    """The nearest access point of each place (Farcas et al., Eq. 4), int64 [places].

    places: float64 [places, 2], metres; access_points: float64 [access points, 2], metres, at least one. Of several at
    the same distance the lowest number wins, or where there are `draws` (float64 [places], each uniform in [0, 1)),
    one at random. ranges: how far each access point reaches, float64 [access points], metres; the nearest is that of
    those which reach the place (of equally near ones with different ranges, that with the shorter range), -1
    where none does.
    """
    if ranges is not None:
        chosen = np.full(len(places), -1, dtype=np.int64)
        nearest = np.full(len(places), np.inf)
        for reach in np.unique(ranges):  # most often all reach equally far
            alike = np.flatnonzero(ranges == reach)
            found = alike[choose_nearest(places, access_points[alike], draws)]
            gap = distances(places, access_points, found)
            better = (gap <= reach) & (gap < nearest * (1 - ROUNDING))
            chosen[better], nearest[better] = found[better], gap[better]
        return chosen
    if not len(places):
        return np.zeros(0, dtype=np.int64)
    from scipy.spatial import cKDTree

    tree = cKDTree(access_points)
    least, first = tree.query(places)
    chosen, reach = np.asarray(first, dtype=np.int64), np.asarray(least) * (1 + ROUNDING)
    for i in np.flatnonzero(tree.query_ball_point(places, reach, return_length=True) > 1):
        equal = np.sort(tree.query_ball_point(places[i], reach[i]))
        chosen[i] = equal[0] if draws is None else equal[int(draws[i] * len(equal))]
    return chosen


def in_service(
    present: np.ndarray,
    places: np.ndarray,
    access_points: np.ndarray,
    chosen: np.ndarray,
    ranges: np.ndarray | None,
) -> np.ndarray:
    """Whether the access point that each device turned to reaches it, bool [devices]; never for one that is away.

    present: bool [devices]; places: float64 [devices, 2], metres; chosen: int64 [devices], -1 for none; ranges: float64
    [access points], metres, None for everywhere.
    """
    served: np.ndarray = present & (chosen >= 0)
    if ranges is None:
        return served
    there = np.flatnonzero(served)
    served[there] = distances(places[there], access_points, chosen[there]) <= ranges[chosen[there]]
    return served


def distances(places: np.ndarray, access_points: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """From each place (float64 [places, 2]) to its access point `chosen` (int64 [places]), float64 [places], metres."""
    gap = places - access_points[chosen]
    return np.asarray(np.hypot(gap[:, 0], gap[:, 1]))
