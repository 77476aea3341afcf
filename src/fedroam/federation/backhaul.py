"""How access points reach the cloud: each by a link of its own, or over several hops."""

from __future__ import annotations

import math

import numpy as np

from fedroam.federation.protocol import SERVER, Traffic, access_point

DIRECT = -1


def routes(access_points: np.ndarray, reach: float | None, gateways: int) -> np.ndarray:
    """The next hop of each access point on its way to the cloud, int64 [access points]; -1: the cloud itself.

    access_points: float64 [access points, 2], metres. Without `reach` every access point has a link of its own to the
    cloud. With it, access points at most `reach` metres apart are linked (a wireless mesh), and only the `gateways`
    nearest to the centre of all have one. The others send by the fewest hops: to the nearest of their neighbours that
    are one hop closer (of equals, the lowest number). One that no gateway can be reached from has a link of its own.
    """
    n = len(access_points)
    following = np.full(n, DIRECT, dtype=np.int64)
    if reach is None or not n:
        return following
    from scipy.spatial import cKDTree

    centre = np.hypot(*(access_points - access_points.mean(axis=0)).T)
    layer = np.argsort(centre, kind="stable")[:gateways]
    left = np.setdiff1d(np.arange(n), layer)
    while len(layer) and len(left):
        gap, found = cKDTree(access_points[layer]).query(access_points[left])
        linked, near = np.asarray(gap) <= reach, np.array(found, dtype=np.int64)
        # The tree names any of several at the same distance.
        for k in np.flatnonzero(linked):
            away = np.hypot(*(access_points[layer] - access_points[left[k]]).T)
            near[k] = np.flatnonzero(away == away.min())[np.argmin(layer[away == away.min()])]
        following[left[linked]] = layer[near[linked]]
        layer, left = left[linked], left[~linked]
    return following


def hops(following: np.ndarray) -> np.ndarray:
    """How many transfers lie between each access point and the cloud, int64 [access points]."""
    count, at = np.zeros(len(following), dtype=np.int64), np.arange(len(following))
    while (at >= 0).any():
        count += at >= 0
        at = np.where(at >= 0, following[at], DIRECT)
    return count


def upload(senders: np.ndarray, following: np.ndarray, access_points: np.ndarray, size: int) -> Traffic:
    """Each of these access points (int64) sends a model of `size` bytes to the cloud; every hop is a transfer."""
    parts, at = [], senders
    while len(at):
        parts.append(_sent(at, following[at], access_points, size))
        at = following[at][following[at] != DIRECT]
    return Traffic.joined(parts)


def broadcast(following: np.ndarray, access_points: np.ndarray, size: int) -> Traffic:
    """The cloud's model to every access point, each by one transfer from its next hop, which passes it on."""
    everyone = np.arange(len(following))
    up = _sent(everyone, following, access_points, size)
    return Traffic(up.receiver, up.sender, up.bytes, up.distance)


def _sent(sender: np.ndarray, receiver: np.ndarray, access_points: np.ndarray, size: int) -> Traffic:
    """From access points to access points (-1: the cloud, which has no place)."""
    direct = receiver == DIRECT
    gap = np.hypot(*(access_points[sender] - access_points[receiver]).T)
    to = np.where(direct, SERVER, access_point(receiver))
    return Traffic.of(access_point(sender), to, size, np.where(direct, math.nan, gap))
