"""From degrees to metres."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from fedroam.errors import InputError

if TYPE_CHECKING:
    from pyproj import Proj

# South of it lies Antarctica: a trace whose fixes are mostly there has its columns swapped.
INHABITED_SOUTH = -60.0
# Degrees by which places may lie outside of a projection's area of use: a city at the edge of a zone has one of them.
MARGIN = 2.0
DISTORTED = 0.1  # share by which a projection may be wrong about distances at a place amid all
Box = tuple[float, float, float, float]


def local_projection(lat: np.ndarray, lon: np.ndarray) -> tuple[str, tuple[float, float]]:
    """The PROJ definition of a projection for a city, and its origin: the median latitude and longitude.

    Azimuthal equidistant on WGS84 (Snyder, Map Projections, USGS 1987, ch. 25): distances from the origin are
    true, others at distance d from it are off by at most (d / R)^2 / 6, which is 3e-6 at 25 km. Places on both sides of
    longitude 180 are neighbours, and their median lies among them.
    """
    east, eastwards = float(np.median(lon)), lon % 360
    if np.ptp(lon) > 180 and np.ptp(eastwards) < np.ptp(lon):
        east = float(np.median(eastwards))
        east -= 360 if east >= 180 else 0
    origin = (round(float(np.median(lat)), 6), round(east, 6))
    return f"+proj=aeqd +lat_0={origin[0]} +lon_0={origin[1]} +datum=WGS84 +units=m +no_defs", origin


def to_metres(
    projection: str, lat: np.ndarray, lon: np.ndarray, where: Callable[[int], str] | None = None
) -> np.ndarray:
    """WGS84 degrees (float64 [points] each) as x and y in a projection (`Trace.facts["projection"]`, or any
    that PROJ knows, such as "EPSG:32618"), float64 [points, 2], metres.

    where(point) names a point in messages. Raises InputError where the projection is unknown, is not in metres, does
    not cover a point, where a point lies more than `MARGIN` degrees outside of the projection's area of use, beyond
    which distances are distorted (definitions of one's own have no such area), or where they are distorted by more than
    `DISTORTED` amid all points, as by "EPSG:3857" of maps on the web far from the equator.
    """
    import pyproj  # here, since it takes its time and most runs have no degrees

    try:
        target = pyproj.CRS.from_user_input(projection)
    except pyproj.exceptions.CRSError:
        raise InputError(
            f"projection {projection!r}: unknown to PROJ; allowed are definitions such as 'EPSG:32618'"
        ) from None
    units = {axis.unit_name for axis in target.axis_info}
    if not target.is_projected or units != {"metre"}:
        raise InputError(
            f"projection {projection!r}: its coordinates are in {', '.join(sorted(units)) or 'no unit'}, "
            "allowed is a projection to metres"
        )

    def named(point: int) -> str:
        at = f"latitude {lat[point]:g}, longitude {lon[point]:g}"
        return at if where is None else f"{where(point)}: {at}"

    area = target.area_of_use
    if area is not None:
        outside = ~_near(lat, lon, (area.south, area.north, area.west, area.east), MARGIN)
        if outside.any():
            k = int(np.flatnonzero(outside)[0])
            more = f" (and {int(outside.sum()) - 1} more)" if outside.sum() > 1 else ""
            raise InputError(
                f"{named(k)}{more} is outside the area of use of projection {projection!r} ({target.name}); allowed "
                f"are {MARGIN:g} degrees around latitudes {area.south:g} to {area.north:g}, longitudes {area.west:g} "
                f"to {area.east:g}, another projection, or a box without such places"
            )
    change = pyproj.Transformer.from_crs("EPSG:4326", target, always_xy=True)
    x, y = change.transform(np.asarray(lon, np.float64), np.asarray(lat, np.float64))
    point = np.stack([np.asarray(x), np.asarray(y)], axis=1)
    if not np.isfinite(point).all():
        k = int(np.flatnonzero(~np.isfinite(point).all(axis=1))[0])
        raise InputError(f"{named(k)} is not covered by projection {projection!r}")
    if area is not None and len(point):
        # A place amid all, also where they lie across longitude 180.
        k = int(np.argpartition(lat, len(lat) // 2)[len(lat) // 2])
        scale = _scale(pyproj.Proj(target), float(lat[k]), float(lon[k]))
        if not abs(scale - 1) <= DISTORTED:
            raise InputError(
                f"{named(k)}: projection {projection!r} ({target.name}) makes distances {scale:.3g} times as long here "
                f"as they are; allowed is {1 - DISTORTED:g} to {1 + DISTORTED:g}: leave it out, or name a local one"
            )
    return point


def _scale(projection: Proj, lat: float, lon: float) -> float:
    """How many times as long as they are a projection makes lengths at a place: those along its meridian or parallel,
    whichever are more wrong (Snyder, ch. 4)."""
    factors = projection.get_factors(lon, lat)
    return float(max(factors.meridional_scale, factors.parallel_scale, key=lambda scale: abs(scale - 1)))


def _near(lat: np.ndarray, lon: np.ndarray, box: Box, margin: float) -> np.ndarray:
    """Whether each point lies in a box (as of `inside`) or at most `margin` degrees beside it, bool [points]."""
    south, north, west, east = box
    width = (east - west) % 360 or 360.0  # from -180 to 180 is all around
    beside = (lon - west + margin) % 360 <= width + 2 * margin
    return np.asarray((lat >= south - margin) & (lat <= north + margin) & beside)


def valid(lat: np.ndarray, lon: np.ndarray) -> np.ndarray:
    """Whether each point lies on the globe, bool [points]."""
    return np.asarray((np.abs(lat) <= 90) & (np.abs(lon) <= 180))  # false for NaN


def inside(lat: np.ndarray, lon: np.ndarray, box: Box) -> np.ndarray:
    """Whether each point lies in a box (south, north, west, east; degrees, inclusive), bool [points]. One whose west is
    greater than its east lies across longitude 180."""
    south, north, west, east = box
    beside = (lon >= west) & (lon <= east) if west <= east else (lon >= west) | (lon <= east)
    return (lat >= south) & (lat <= north) & beside


def swapped(lat: np.ndarray, lon: np.ndarray, box: Box | None) -> np.ndarray:
    """Which rows look like longitude and latitude in each other's place, bool [points].

    As they stand, they lie off the globe, in Antarctica or outside `box`, and the other way round they do not. Without
    a box, two columns that both make sense either way (Europe, Africa) cannot be told apart.
    """

    def sound(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        good = valid(a, b) & (a >= INHABITED_SOUTH)
        return good if box is None else good & inside(a, b, box)

    return np.asarray(~sound(lat, lon) & sound(lon, lat))
