"""What is read off a source: columns of devices, times and places; those of CSV and Parquet files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fedroam.data.sources.tables import other_separator, read_header, read_table, texts_of
from fedroam.errors import InputError, unknown
from fedroam.writing import checked_name

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
    """A source's columns by the names of `ALIASES`: texts or float64 numbers [rows]; its file and the file's hash.

    names: what the source calls them. What follows is for sources that are no tables: their `format`; `line`, the line
    of each row, int64 [rows]; `files`, all of them where there are several, and `part`, which of them each row is of,
    int64 [rows]; `own_clock`, whether times count from a beginning of their own although places are geographic;
    `left_out`, what was not taken, counted by reason; `notes`, what else is worth telling.
    """

    path: Path
    columns: dict[str, np.ndarray]
    names: dict[str, str]
    format: str | None = None
    line: np.ndarray | None = None
    files: tuple[Path, ...] = ()
    part: np.ndarray | None = None
    own_clock: bool = False
    left_out: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def geographic(self) -> bool:
        """Whether places are latitudes and longitudes."""
        return "lat" in self.columns

    @property
    def title(self) -> str:
        """The file's name; of several files the first ones, and how many more there are."""
        names = [file.name for file in self.files or (self.path,)]
        return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")

    def where(self, row: int) -> str:
        """How a row (from 0) is named in messages."""
        file = self.path
        if self.part is not None:
            file = self.files[self.part[row]]
        if self.line is not None:
            return f"{file}, line {self.line[row]}"
        if self.part is not None:
            row -= int(np.searchsorted(self.part, self.part[row]))
        return f"{file}, row {row + 1}" if file.suffix == ".parquet" else f"{file}, line {row + 2}"

    def sha256(self) -> str:
        """SHA-256 of the file; of several files, that of the list of their SHA-256, a line each."""
        found = [_sha256(file) for file in self.files or (self.path,)]
        return found[0] if len(found) == 1 else hashlib.sha256("\n".join(found).encode()).hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_source(
    path: str | Path, columns: Mapping[str, str], separator: str = ",", *, nameless: bool = False
) -> Source:
    """Read a CSV file (with a header line, gzip or not) or a Parquet file (*.parquet).

    columns: what the file calls device, time, lat, lon, x, y or venue, where it is not one of `ALIASES`. nameless: the
    column of devices may be missing. Raises InputError with file and row for a missing column, a hole, a text among
    numbers, and an empty file.
    """
    file = existing(path)
    for name in columns:
        if name not in ALIASES:
            raise unknown("column of a trace", name, ALIASES)
    names = _named(file, header_of(file, separator), columns, nameless)
    return read_columns(file, names, ("lat", "lon", "x", "y"), separator)


def existing(path: str | Path) -> Path:
    """The path of a file. Raises InputError where there is none."""
    file = checked_name(path)
    if not file.is_file():
        raise InputError(f"{path}: {'a folder, wanted is a file' if file.is_dir() else 'no such file'}")
    return file


def header_of(file: Path, separator: str = ",") -> list[str]:
    """What a CSV or Parquet file calls its columns."""
    if file.suffix == ".parquet":
        return _parquet_header(file)
    return read_header(file, separator, also="Parquet in a file whose name ends in .parquet")


def read_columns(
    file: Path, names: Mapping[str, str], numeric: Sequence[str], separator: str = ","
) -> Source:
    """The columns `names` of a CSV or Parquet file, by our name for each; those in `numeric` hold numbers."""
    numbers = [name for k, name in names.items() if k in numeric]
    words = [name for k, name in names.items() if k not in numeric]
    if file.suffix == ".parquet":
        table = _read_parquet(file, numbers, words)
    else:
        table = read_table(file, numbers, words, separator)
    return Source(file, {k: table[name] for k, name in names.items()}, dict(names))


def matched(
    file: Path,
    header: Sequence[str],
    aliases: Mapping[str, Sequence[str]],
    columns: Mapping[str, str],
    way_out: str = "say which one is, e.g. --column {want}={name}",
) -> dict[str, str]:
    """What the file calls each column of `aliases` that it has: what `columns` says, or an alias in any case.

    Raises InputError where two aliases fit, and says the `way_out`.
    """
    names = {}
    for want, known in aliases.items():
        if want in columns:
            if columns[want] not in header:
                raise unknown(f"column of {file}", columns[want], header)
            names[want] = columns[want]
            continue
        found = [name for name in header if name.lower() in known and name not in columns.values()]
        if len(found) > 1:
            raise InputError(
                f"{file}: {' and '.join(map(repr, found))} may both be the column {want!r}: "
                f"{way_out.format(want=want, name=found[0])}"
            )
        if found:
            names[want] = found[0]
    return names


def devices_of(values: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Whose each row is (int64 [rows]), and the devices' names in order; whole numbers are ordered as numbers."""
    import pandas as pd

    codes, words = pd.factorize(values)
    names = [str(word) for word in words]
    try:
        order = sorted(range(len(names)), key=lambda k: int(names[k]))
    except ValueError:
        order = sorted(range(len(names)), key=lambda k: names[k])
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank[codes], [names[k] for k in order]


def _named(file: Path, header: list[str], columns: Mapping[str, str], nameless: bool) -> dict[str, str]:
    """What the file calls each column of a trace that it has, with places of one kind."""
    names = matched(file, header, ALIASES, columns)
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
        if want not in names and not (nameless and want == "device"):
            places = "lat and lon, or x and y" if want in ("lat", "lon") else f"{want!r}"
            way_out = f"say which one is, e.g. --column {want}={header[0]}"
            if mark := other_separator(header):
                way_out = f"if {mark!r} stands between cells, say --separator {mark!r}"
            raise InputError(f"{file}, line 1: no column for {places}, found {', '.join(header)}; {way_out}")
    return names


def _parquet_header(file: Path) -> list[str]:
    try:
        return [str(name) for name in pq.read_schema(file).names]
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{file}: not a Parquet file, or damaged ({str(error).splitlines()[0]})") from None


def _read_parquet(file: Path, numbers: list[str], words: list[str]) -> dict[str, np.ndarray]:
    try:
        table = pq.read_table(file, columns=[*numbers, *words])
        table.validate(full=True)  # texts that are no UTF-8 among it
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
            # What is finer than a microsecond is cut off.
            stamps = column.cast(pa.timestamp("us"), safe=False).to_numpy()
            found[name] = np.char.add(np.datetime_as_string(stamps, unit="us"), zone)
        elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
            values = column.to_numpy()
            if name in numbers or not pa.types.is_integer(kind):
                values = values.astype(np.float64)
                if not np.isfinite(values).all():
                    row = int(np.flatnonzero(~np.isfinite(values))[0]) + 1
                    raise InputError(f"{file}, row {row}, column {name!r}: not a finite number")
            found[name] = values
        elif name in words and not pa.types.is_nested(kind):
            texts = texts_of(column.cast(pa.string()))
            if (texts == "").any():
                raise InputError(
                    f"{file}, row {int(np.flatnonzero(texts == '')[0]) + 1}, column {name!r}: empty"
                )
            found[name] = texts
        else:
            wanted = "texts or numbers" if name in words else "numbers"
            raise InputError(f"{file}, column {name!r}: holds {kind}, wanted are {wanted}")
    return found
