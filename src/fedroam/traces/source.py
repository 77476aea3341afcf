"""The columns of a source file (CSV or Parquet), whatever they are called."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fedroam.data.tables import read_header, read_table
from fedroam.errors import InputError, unknown

# What columns are usually called, in lower case; `columns` of `read_source` says it where this does not.
ALIASES = {
    "device": ("device", "user", "id", "veh", "vehicle", "cab", "taxi", "node", "user_id", "device_id"),
    "time": ("time", "t", "utc", "timestamp", "datetime", "date_time"),
    "lat": ("lat", "latitude"),
    "lon": ("lon", "lng", "long", "longitude"),
    "x": ("x",),
    "y": ("y",),
    "venue": ("venue", "venue_id", "location", "location_id", "place"),
}


@dataclass(frozen=True)
class Source:
    """A source's columns by the names of `ALIASES`: texts or float64 numbers [rows]; its file and the file's hash."""

    path: Path
    columns: dict[str, np.ndarray]
    names: dict[str, str]

    @property
    def geographic(self) -> bool:
        """Whether places are latitudes and longitudes."""
        return "lat" in self.columns

    def where(self, row: int) -> str:
        """How a row (from 0) is named in messages."""
        if self.path.suffix == ".parquet":
            return f"{self.path}, row {row + 1}"
        return f"{self.path}, line {row + 2}"

    def sha256(self) -> str:
        """SHA-256 of the file."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def read_source(path: str | Path, columns: Mapping[str, str], separator: str = ",") -> Source:
    """Read a CSV file (with a header line, gzip or not) or a Parquet file (*.parquet).

    columns: what the file calls device, time, lat, lon, x, y or venue, where it is not one of `ALIASES`. Raises
    InputError with file and row for a missing column, a hole, a text among numbers, and an empty file.
    """
    file = Path(path)
    if not file.is_file():
        raise InputError(f"{path}: {'a folder, wanted is a file' if file.is_dir() else 'no such file'}")
    for name in columns:
        if name not in ALIASES:
            raise unknown("column of a trace", name, ALIASES)
    parquet = file.suffix == ".parquet"
    header = _parquet_header(file) if parquet else read_header(file, separator)
    names = _named(file, header, columns)
    numbers = [names[k] for k in ("lat", "lon", "x", "y") if k in names]
    words = [names[k] for k in ("device", "time", "venue") if k in names]
    table = _read_parquet(file, numbers, words) if parquet else read_table(file, numbers, words, separator)
    return Source(file, {k: table[name] for k, name in names.items()}, names)


def _named(file: Path, header: list[str], columns: Mapping[str, str]) -> dict[str, str]:
    """What the file calls each column that it has."""
    names = {}
    for want, aliases in ALIASES.items():
        if want in columns:
            if columns[want] not in header:
                raise unknown(f"column of {file}", columns[want], header)
            names[want] = columns[want]
            continue
        found = [name for name in header if name.lower() in aliases and name not in columns.values()]
        if len(found) > 1:
            raise InputError(
                f"{file}: {' and '.join(map(repr, found))} may both be the column {want!r}: say which one is, e.g. "
                f"--column {want}={found[0]}"
            )
        if found:
            names[want] = found[0]
    metric = "x" in names and "y" in names
    if metric and "lat" in names and "lon" in names:
        if not {"x", "y"} <= set(columns) and not {"lat", "lon"} <= set(columns):
            raise InputError(
                f"{file}: has x and y and also latitude and longitude; say which, e.g. --column x=x --column y=y"
            )
        metric = {"x", "y"} <= set(columns)
    for name in ("lat", "lon") if metric else ("x", "y"):
        names.pop(name, None)
    for want in ("device", "time", *(("x", "y") if metric else ("lat", "lon"))):
        if want not in names:
            places = "lat and lon, or x and y" if want in ("lat", "lon") else f"{want!r}"
            raise InputError(
                f"{file}, line 1: no column for {places}, found {', '.join(header)}; say which one is, e.g. "
                f"--column {want}={header[0]}"
            )
    return names


def _parquet_header(file: Path) -> list[str]:
    try:
        return [str(name) for name in pq.read_schema(file).names]
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{file}: not a Parquet file, or damaged ({str(error).splitlines()[0]})") from None


def _read_parquet(file: Path, numbers: list[str], words: list[str]) -> dict[str, np.ndarray]:
    try:
        table = pq.read_table(file, columns=[*numbers, *words])
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{file}: damaged ({str(error).splitlines()[0]})") from None
    if not table.num_rows:
        raise InputError(f"{file}: no rows")
    found = {}
    for name in (*numbers, *words):
        column = table.column(name)
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy())[0]) + 1
            raise InputError(f"{file}, row {row}, column {name!r}: empty")
        kind = column.type
        if pa.types.is_timestamp(kind):
            # ISO texts, so that times with and without zone are judged as in a CSV file.
            zone = "" if kind.tz is None else "Z"
            stamps = column.cast(pa.timestamp("us")).to_numpy()
            found[name] = np.char.add(np.datetime_as_string(stamps, unit="us"), zone)
        elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
            values = column.to_numpy()
            if name in numbers or not pa.types.is_integer(kind):
                values = values.astype(np.float64)
                if not np.isfinite(values).all():
                    row = int(np.flatnonzero(~np.isfinite(values))[0]) + 1
                    raise InputError(f"{file}, row {row}, column {name!r}: not a finite number")
            found[name] = values
        elif name in words:
            found[name] = np.array(column.cast(pa.string()).to_pylist(), dtype=str)
        else:
            raise InputError(f"{file}, column {name!r}: holds {kind}, wanted are numbers")
    return found
