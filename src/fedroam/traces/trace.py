"""A trace: who was where when, in metres and seconds, as one Parquet file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from fedroam.errors import InputError
from fedroam.facts import JsonObject, checked_facts, json_object
from fedroam.writing import checked_name, write_named

KEY = b"fedroam.trace"  # of the file's schema metadata
FORMAT = 1
UNIX = "1970-01-01T00:00:00Z"
HOW = (
    "fedroam trace import SOURCE TARGET makes a trace from CSV, Parquet, SUMO, ns-2, BonnMotion, The ONE, GPX"
)


class _Origin(JsonObject):
    """What a trace's metadata must say (see `Trace.facts`)."""

    source: str
    sha256: str
    epoch: str | None
    projection: str | None
    origin: list[float] | None = Field(min_length=2, max_length=2)
    rows: int
    dropped: dict[str, int]
    source_format: str | None = None
    notes: list[str] = []


@dataclass(frozen=True, eq=False)
class Trace:
    """Fixes of devices, sorted by device and then by time.

    names: the devices, as their source called them. Device i owns the fixes first[i] to first[i + 1]; first: int64
    [devices + 1]. time: float64 [fixes], seconds since `epoch`, rising within a device. point: float64 [fixes, 2],
    metres. venue: int32 [fixes], index into `venues`, or None where the source names no venues. facts: where it
    comes from: `source` (file name), `sha256` (of that file), `epoch` (what time 0 means, ISO 8601, or None for a
    clock of its own), `projection` (PROJ definition, or None where the source was metric), `origin` (latitude and
    longitude of x = y = 0, or None), `rows` (of the source) and `dropped` (faulty fixes by reason);
    where the source was no table, also `source_format` and `notes` (what its reader found worth telling).
    """

    names: tuple[str, ...]
    first: np.ndarray
    time: np.ndarray
    point: np.ndarray
    facts: Mapping[str, Any]
    venues: tuple[str, ...] = ()
    venue: np.ndarray | None = None

    @property
    def devices(self) -> int:
        """Number of devices."""
        return len(self.names)

    @property
    def fixes(self) -> int:
        """Number of fixes."""
        return len(self.time)

    @property
    def device(self) -> np.ndarray:
        """Whose each fix is, int64 [fixes], index into `names`."""
        return np.repeat(np.arange(self.devices), np.diff(self.first))

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """x and y of the lower left corner of all fixes, then of the upper right one, metres."""
        return bounds_of(self.point)

    @property
    def epoch(self) -> str | None:
        """What time 0 means (ISO 8601), None for a clock of its own."""
        epoch = self.facts["epoch"]
        return None if epoch is None else str(epoch)


def bounds_of(point: np.ndarray) -> tuple[float, float, float, float]:
    """x and y of the lower left corner of points (float64 [points, 2]), then of the upper right one."""
    (x0, y0), (x1, y1) = point.min(axis=0), point.max(axis=0)
    return float(x0), float(y0), float(x1), float(y1)


def write_trace(trace: Trace, path: str | Path) -> Path:
    """Write a trace: columns device, time, x, y (and venue), facts and bounds in the schema's metadata.

    The file appears whole or not at all. Raises OSError where it cannot be written.
    """
    target = Path(path)
    columns = {
        "device": _words(trace.device, trace.names),
        "time": pa.array(trace.time),
        "x": pa.array(trace.point[:, 0]),
        "y": pa.array(trace.point[:, 1]),
    }
    if trace.venue is not None:
        columns["venue"] = _words(trace.venue, trace.venues)
    facts = {"format": FORMAT, **trace.facts, "bounds": trace.bounds}
    table = pa.table(columns).replace_schema_metadata({KEY: json.dumps(facts).encode()})
    write_named(target, lambda aside: pq.write_table(table, aside, compression="zstd"))
    return target


def _words(codes: np.ndarray, names: tuple[str, ...]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(names, pa.string()))


def read_trace(path: str | Path) -> Trace:
    """A trace that `write_trace` wrote (or `fedroam trace import`).

    Raises InputError where the file is missing, is no trace, or is damaged (with the row).
    """
    file = checked_name(path)
    if not file.is_file():
        raise InputError(f"{path}: {'a folder' if file.is_dir() else 'no such file'}, wanted is a trace")
    try:
        table = pq.read_table(file)
        table.validate(full=True)  # texts that are no UTF-8 among it
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path}: not a trace, or damaged ({reason}); {HOW}") from None
    held = (table.schema.metadata or {}).get(KEY)
    if held is None:
        raise InputError(f"{path}: a Parquet file, but not a trace; {HOW}")
    try:
        facts = json_object(held)
    except ValueError as error:
        raise InputError(f"{path}: damaged, its metadata is not as written: {error}") from None
    if facts.get("format") != FORMAT:
        raise InputError(f"{path}: trace format {facts.get('format')!r}, allowed is {FORMAT}")
    checked_facts(facts, _Origin, file)
    for name in ("device", "time", "x", "y"):
        if name not in table.column_names:
            raise InputError(f"{path}: damaged, lacks the column {name!r}")
    if not table.num_rows:
        raise InputError(f"{path}: damaged, holds no fixes")
    codes, words = _coded(table, "device", path)
    numbers = [_numbers(table, name, path) for name in ("time", "x", "y")]
    new = np.flatnonzero(np.diff(codes, prepend=-1))
    names = tuple(words[code] for code in codes[new])
    if len(set(names)) < len(names):
        raise InputError(f"{path}: damaged, fixes are not sorted by device")
    time = numbers[0]
    steps = np.diff(time)
    steps[new[1:] - 1] = 1.0
    if (steps <= 0).any():
        row = int(np.flatnonzero(steps <= 0)[0]) + 2
        raise InputError(f"{path}, row {row}: damaged, the time {time[row - 1]:g} does not rise")
    venue: np.ndarray | None = None
    venues: tuple[str, ...] = ()
    if "venue" in table.column_names:
        venue, venues = _coded(table, "venue", path)
    facts = {k: v for k, v in facts.items() if k not in ("format", "bounds")}
    return Trace(
        names, np.append(new, len(time)), time, np.stack(numbers[1:], axis=1), facts, tuple(venues), venue
    )


def _numbers(table: pa.Table, name: str, path: str | Path) -> np.ndarray:
    column = table.column(name)
    if not pa.types.is_floating(column.type):
        raise InputError(f"{path}: damaged, column {name!r} holds {column.type}, wanted are numbers")
    values: np.ndarray = column.to_numpy().astype(np.float64)
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0]) + 1
        raise InputError(f"{path}, row {row}: damaged, {name} is not a finite number")
    return values


def _coded(table: pa.Table, name: str, path: str | Path) -> tuple[np.ndarray, tuple[str, ...]]:
    """A column of words as int32 codes and the distinct words."""
    column = table.column(name)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)) or column.null_count:
        raise InputError(f"{path}: damaged, column {name!r} holds {kind} with gaps, wanted are names")
    plain = column.cast(kind) if pa.types.is_dictionary(column.type) else column
    coded = plain.combine_chunks().dictionary_encode()
    return coded.indices.to_numpy().astype(np.int32), tuple(coded.dictionary.to_pylist())
