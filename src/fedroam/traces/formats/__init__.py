"""Formats of movement: which there are, which one a file is of, and a source read from any of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fedroam.errors import InputError, unknown
from fedroam.traces.formats.bonnmotion import read_bonnmotion
from fedroam.traces.formats.folder import files_of, read_tables
from fedroam.traces.formats.gpx import DEVICES, read_gpx
from fedroam.traces.formats.ns2 import read_ns2
from fedroam.traces.formats.one import read_one
from fedroam.traces.formats.reading import Wishes as Wishes
from fedroam.traces.formats.recognise import recognise as recognise
from fedroam.traces.formats.sumo import read_sumo
from fedroam.traces.formats.waypoints import check_until
from fedroam.traces.source import Source, read_source

# Each format's name in words, and the wishes that have a meaning for it.
FORMATS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "csv": ("CSV", ("columns", "separator")),
    "parquet": ("Parquet", ("columns",)),
    "sumo": ("SUMO FCD", ("places",)),
    "ns2": ("ns-2", ("until",)),
    "bonnmotion": ("BonnMotion", ("until", "with_z")),
    "one": ("The ONE", ()),
    "gpx": ("GPX", ("devices",)),
}
AUTO = "auto"
SEVERAL = ("gpx", "csv", "parquet")  # formats that are read from several files
PLACES = ("degrees", "metres")
_READERS = {"sumo": read_sumo, "ns2": read_ns2, "bonnmotion": read_bonnmotion, "one": read_one}


def read_any(
    paths: Sequence[str | Path], format: str, columns: Mapping[str, str], separator: str, wishes: Wishes
) -> Source:
    """Read a source of any format (`FORMATS`, or "auto": see `recognise`).

    A folder stands for the files in it (see `files_of`). Raises InputError for several files that are not all GPX, CSV
    or Parquet, and for a wish that has no meaning for the format.
    """
    if format not in (AUTO, *FORMATS):
        raise unknown("format of a trace", format, (AUTO, *FORMATS))
    for name, value, allowed in (("places", wishes.places, PLACES), ("devices", wishes.devices, DEVICES)):
        if value is not None and value not in allowed:
            raise unknown(f"value of --{name}", value, allowed)
    check_until(wishes.until)
    if not paths:
        raise InputError("no source: wanted is a file")
    files, notes = files_of(paths, None if format == AUTO else format, separator)
    taken = [recognise(file, separator) if format == AUTO else format for file in files]
    kind = taken[0]
    for file, one in zip(files, taken, strict=True):
        if len(files) > 1 and one not in SEVERAL:
            raise InputError(
                f"{file}: one of {len(files)} files, but {FORMATS[one][0]}; only GPX, CSV and Parquet are read from "
                "several"
            )
        if one != kind:
            raise InputError(
                f"{file}: {FORMATS[one][0]}, but {files[0].name} is {FORMATS[kind][0]}; wanted are files of one format"
            )
    if (files[0].suffix == ".parquet") != (kind == "parquet"):
        raise InputError(
            f"{files[0]}: read as {FORMATS[kind][0]}, but Parquet files, and no others, end in .parquet"
        )
    said = {
        "columns": bool(columns),
        "separator": separator != ",",
        "places": wishes.places is not None,
        "until": wishes.until is not None,
        "with_z": wishes.with_z,
        "devices": wishes.devices is not None,
    }
    for name, given in said.items():
        if given and name not in FORMATS[kind][1]:
            option = "--column" if name == "columns" else "--" + name.replace("_", "-")
            raise InputError(f"{files[0]}: {option} has no meaning for {FORMATS[kind][0]}")
    if kind == "gpx":
        found = read_gpx(files, wishes)
    elif kind in _READERS:
        found = _READERS[kind](files[0], wishes)
    elif len(files) > 1:
        found = read_tables(files, kind, columns, separator)
    else:
        found = read_source(files[0], columns, separator)
    return replace(found, notes=(*found.notes, *notes), format=found.format or (kind if notes else None))
