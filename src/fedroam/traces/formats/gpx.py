"""GPX 1.0 and 1.1: tracks that GPS receivers record."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from fedroam.errors import InputError
from fedroam.traces.formats.folder import stems
from fedroam.traces.formats.markup import walk
from fedroam.traces.formats.reading import Wishes, number
from fedroam.traces.source import Source

TIMELESS = "points without a time"
DEVICES = ("file", "track")


class _Points:
    """Track points of files: file, track (within all files), time as a text, latitude, longitude, line."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, str, float, float, int]] = []
        self.tracks: list[tuple[int, str]] = []  # file, and what it is called or ''
        self.timeless = 0
        self.others: Counter[str] = Counter()


def read_gpx(paths: Sequence[Path], wishes: Wishes) -> Source:
    """Track points (`<trkpt>`) of one or several files. Waypoints and routes, which nobody recorded, are not taken.

    A device is a file, where there are several, and else a track: `wishes.devices` ("file", "track") says otherwise. A
    file's device is called as the file without its ending, a track's by its `<name>` (tracks of one name are one
    device), or `track 1`, `track 2`, ...; with several files, the file's name stands before it. Points without a time
    are left out and counted.

    Raises InputError with file and line for a point without a place, and for times that are not ISO 8601.
    """
    found = _Points()
    for k, path in enumerate(paths):
        _read(k, path, found)
    if not found.rows:
        held = ", ".join(f"{count} {name}" for name, count in found.others.items()) or "nothing else"
        raise InputError(
            f"{paths[0]}: no track point with a time ({found.timeless} without, {held}), wanted are <trkpt> with <time>"
        )
    by = wishes.devices or ("file" if len(paths) > 1 else "track")
    names = _names(paths, found.tracks, by)
    file, track, time, lat, lon, line = zip(*found.rows, strict=True)
    return Source(
        paths[0],
        {
            "device": np.array(names, dtype=object)[np.array(track)],
            "time": np.array(time, dtype=object),
            "lat": np.array(lat),
            "lon": np.array(lon),
        },
        {name: name for name in ("device", "time", "lat", "lon")},
        "gpx",
        np.array(line, dtype=np.int64),
        tuple(paths),
        np.array(file, dtype=np.int64),
        left_out={TIMELESS: found.timeless},
        notes=(f"a device is a {by}",),
    )


def _names(paths: Sequence[Path], tracks: Sequence[tuple[int, str]], by: str) -> list[str]:
    """The device of each track."""
    named = stems(paths, r"\.gpx")
    if by == "file":
        return [named[file] for file, _ in tracks]
    names, before = [], Counter[int]()
    for file, name in tracks:
        before[file] += 1
        called = name or f"track {before[file]}"
        names.append(called if len(paths) == 1 else f"{named[file]}: {called}")
    return names


def _read(file: int, path: Path, found: _Points) -> None:
    inside: list[str] = []
    place: tuple[float, float, int] = (0.0, 0.0, 0)
    pieces: list[str] | None = None
    time = ""

    def start(name: str, attributes: Mapping[str, str], line: int) -> None:
        nonlocal place, pieces, time
        if not inside and name != "gpx":
            raise InputError(f"{path}, line {line}: the root is <{name}>, wanted is <gpx>")
        parent = inside[-1] if inside else ""
        inside.append(name)
        if name == "trk":
            found.tracks.append((file, ""))
        elif name == "trkpt":
            if "trk" not in inside:
                raise InputError(f"{path}, line {line}: a <trkpt> outside of any <trk>")
            where = f"{path}, line {line}, <trkpt>"
            for axis in ("lat", "lon"):
                if axis not in attributes:
                    raise InputError(f"{where}: lacks {axis!r}, wanted are lat and lon")
            place = number(attributes["lat"], where, "lat"), number(attributes["lon"], where, "lon"), line
            time = ""
        elif name in ("wpt", "rtept"):
            found.others[f"<{name}>"] += 1
        if (parent, name) in (("trk", "name"), ("trkpt", "time")):
            pieces = []

    def text(piece: str) -> None:
        if pieces is not None:
            pieces.append(piece)

    def end(name: str, line: int) -> None:
        nonlocal pieces, time
        inside.pop()
        if pieces is not None and name in ("name", "time"):
            said, pieces = "".join(pieces).strip(), None
            if name == "name":
                found.tracks[-1] = (file, said)
            elif said and not re.match(r"\d{4}-\d\d", said):
                raise InputError(f"{path}, line {line}, <time>: {said!r}, allowed are ISO 8601 times")
            else:
                time = said
        elif name == "trkpt":
            if time:
                found.rows.append((file, len(found.tracks) - 1, time, *place))
            else:
                found.timeless += 1

    walk(path, start, end, text)
