"""Access points from a file of the user's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from typing_extensions import override

from fedroam.access_points.protocol import RANGE, drawn, everywhere, kind_of
from fedroam.components import Part, field, register
from fedroam.data.sources.places import find_file
from fedroam.data.sources.tables import read_header, read_table
from fedroam.errors import InputError
from fedroam.mobility import KnowsPlaces, Mobility

METRIC, GEOGRAPHIC = ("x", "y"), ("lat", "lon")


@register("access_points", "file")
class FromFile(Part):
    """Access points of a CSV file, one a row: columns `x` and `y` (metres), or `lat` and `lon` (WGS84 degrees).

    Degrees are projected as the mobility model's trace was. A column `range` (metres) says how far each one reaches; it
    goes before the setting `range`, which is for all of them. Further columns are not looked at. With `number`, that
    many rows are drawn at random; with `inside`, of those within the world's bounds.
    """

    path: str = field(..., "the CSV file (relative: from here, or FEDROAM_DATA)")
    number: int | None = field(None, "how many of them to draw; not set: all, in the file's order", ge=1)
    inside: bool = field(False, "leave out what lies beyond the bounds of the mobility model's world")
    range: float | None = field(None, RANGE, unit="m", gt=0)

    @override
    def reads(self) -> dict[str, Path]:
        return {"path": find_file(self.path, None, "access_points.path")}

    def places(self, mobility: Mobility, seed: int) -> np.ndarray:
        """The rows of the file, in metres. Raises InputError for what is wrong with it, with the line."""
        return self._rows(mobility, seed)[:, :2]

    def ranges(self, mobility: Mobility, seed: int) -> np.ndarray:
        """The column `range` of these rows, or else the same for all."""
        return self._rows(mobility, seed)[:, 2]

    def _rows(self, mobility: Mobility, seed: int) -> np.ndarray:
        """Place and range of the rows that are access points, float64 [access points, 3], metres."""
        file = self.reads()["path"]
        header = read_header(file)
        names = next((names for names in (METRIC, GEOGRAPHIC) if set(names) <= set(header)), None)
        if names is None:
            raise InputError(
                f"{file}: found the columns {', '.join(header)}; wanted are x and y, or lat and lon"
            )
        own = ("range",) if "range" in header else ()
        table = read_table(file, (*names, *own), ())
        reach = table.get("range", everywhere(len(table[names[0]]), self.range))
        if (reach <= 0).any():
            row = int(np.flatnonzero(reach <= 0)[0])
            raise InputError(
                f"{file}, row {row + 1}, column 'range': {reach[row]:g}, allowed is more than 0 m"
            )
        rows = np.column_stack([_metres(file, names, table, mobility), reach])
        if self.inside:
            low, high = np.reshape(mobility.bounds(), (2, 2))
            rows = rows[((rows[:, :2] >= low) & (rows[:, :2] <= high)).all(axis=1)]
            if not len(rows):
                raise InputError(f"access_points.inside: no place of {file} lies within the world's bounds")
        if self.number is None:
            return rows
        where = " within the world's bounds" if self.inside else ""
        return drawn(rows, self.number, seed, "access_points.number", f"{file} holds{where}")


def _metres(
    file: Path, names: tuple[str, str], table: Mapping[str, np.ndarray], mobility: Mobility
) -> np.ndarray:
    """Every row's place, float64 [rows, 2], metres; names: its two columns."""
    first, second = (table[name] for name in names)
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
