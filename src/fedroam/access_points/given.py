"""Access points from a file of the user's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from typing_extensions import override

from fedroam.access_points.protocol import drawn, kind_of
from fedroam.components import Part, field, register
from fedroam.data.sources.places import find_file
from fedroam.data.sources.tables import read_header, read_table
from fedroam.errors import InputError
from fedroam.mobility import KnowsPlaces, Mobility

METRIC, GEOGRAPHIC = ("x", "y"), ("lat", "lon")


@register("access_points", "file")
class FromFile(Part):
    """Access points of a CSV file, one a row: columns `x` and `y` (metres), or `lat` and `lon` (WGS84 degrees).

    Degrees are projected as the mobility model's trace was. Further columns are not looked at. With `number`, that
    many rows are drawn at random; with `inside`, of those within the world's bounds.
    """

    path: str = field(..., "the CSV file (relative: from here, or FEDROAM_DATA)")
    number: int | None = field(None, "how many of them to draw; not set: all, in the file's order", ge=1)
    inside: bool = field(False, "leave out what lies beyond the bounds of the mobility model's world")

    @override
    def reads(self) -> dict[str, Path]:
        return {"path": find_file(self.path, None, "access_points.path")}

    def places(self, mobility: Mobility, seed: int) -> np.ndarray:
        """The rows of the file, in metres. Raises InputError for what is wrong with it, with the line."""
        file = self.reads()["path"]
        points = _metres(file, mobility)
        if self.inside:
            low, high = np.reshape(mobility.bounds(), (2, 2))
            points = points[((points >= low) & (points <= high)).all(axis=1)]
            if not len(points):
                raise InputError(f"access_points.inside: no place of {file} lies within the world's bounds")
        if self.number is None:
            return points
        where = " within the world's bounds" if self.inside else ""
        return drawn(points, self.number, seed, "access_points.number", f"{file} holds{where}")


def _metres(file: Path, mobility: Mobility) -> np.ndarray:
    """Every row's place, float64 [rows, 2], metres."""
    header = read_header(file)
    for names in (METRIC, GEOGRAPHIC):
        if set(names) <= set(header):
            table = read_table(file, names, ())
            first, second = (table[name] for name in names)
            break
    else:
        raise InputError(f"{file}: found the columns {', '.join(header)}; wanted are x and y, or lat and lon")
    if names == METRIC:
        return np.stack([first, second], axis=1)
    for row, (lat, lon) in enumerate(zip(first, second, strict=True)):
        if not (abs(lat) <= 90 and abs(lon) <= 180):
            raise InputError(
                f"{file}, row {row + 1}: latitude {lat:g}, longitude {lon:g} is not on the globe"
            )
    if not isinstance(mobility, KnowsPlaces):
        raise InputError(
            f"{file}: mobility {kind_of(mobility)!r} has no projection for lat and lon; wanted are x and y"
        )
    return mobility.to_metres(first, second)
