"""From a source file to a trace: columns read, times and places understood, faulty fixes dropped and counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedroam.errors import InputError
from fedroam.traces.cleaning import too_fast
from fedroam.traces.formats import AUTO, Wishes, read_any
from fedroam.traces.geography import Box, inside, local_projection, swapped, to_metres, valid
from fedroam.traces.source import Source, devices_of
from fedroam.traces.times import seconds
from fedroam.traces.trace import UNIX, Trace

ORDERS = ("device", "file", "any")
YEAR_2200 = 7.26e9  # as Unix seconds: numbers beyond it are milliseconds, or no times


def import_trace(
    path: str | Path | Sequence[str | Path],
    *,
    format: str = AUTO,
    columns: Mapping[str, str] | None = None,
    separator: str = ",",
    order: str = "device",
    timezone: str | None = None,
    unit: float = 1.0,
    box: Box | None = None,
    max_speed: float = np.inf,
    projection: str | None = None,
    places: str | None = None,
    until: float | None = None,
    with_z: bool = False,
    devices: str | None = None,
) -> Trace:
    """Read check-ins, GPS fixes, metric fixes or simulated movement from a file.

    Of GPX, CSV and Parquet also from several; a folder stands for the files in it.

    format: "csv", "parquet", "sumo" (FCD XML), "ns2", "bonnmotion", "one" (The ONE), "gpx", or "auto", which tells by
    what stands in the file. A table (CSV, Parquet) has a column of devices, one of times, and either lat and lon (WGS84
    degrees) or x and y (metres); `columns` maps these names to its own where those are unusual (`ALIASES`).

    Times are ISO 8601 with a zone (without one: `timezone`), or numbers of seconds: since 1970 in tables of geographic
    places, else on a clock of their own. unit: what 1 means in places, degrees or metres.

    order: what the file promises, checked: times of a `device` never go backwards, those of the whole `file` do not,
    or `any`. Geographic places are projected to metres, by `projection` or else `local_projection`.

    For one format each: `places` ("degrees" or "metres") says what SUMO wrote where the file does not; `until` (s) ends
    a simulation of ns-2 or BonnMotion, which make fixes where nodes depart and arrive; `with_z` says that waypoints of
    BonnMotion have a height; `devices` ("file" or "track") what a device is in GPX.

    Dropped and counted by reason (`Trace.facts["dropped"]`): places off the globe, at (0, 0), outside `box` (south,
    north, west, east; degrees; across longitude 180 where west is greater than east), local times that a clock change
    makes ambiguous, repeated fixes, another place at the same time, and what makes a device faster than `max_speed`
    (m/s; see `too_fast`).

    Raises InputError with file and row for what is damaged, latitude and longitude in each other's place among it.
    """
    if order not in ORDERS:
        raise InputError(f"order = {order!r}: allowed are {', '.join(ORDERS)}")
    if not max_speed > 0:
        raise InputError(f"max_speed = {max_speed:g} m/s: allowed is more than 0")
    source = read_any(
        [path] if isinstance(path, str | Path) else path,
        format,
        columns or {},
        separator,
        Wishes(places, until, with_z, devices),
    )
    time, calendar = seconds(source.columns["time"], timezone, source.names["time"], source.where)
    unix = calendar or (source.geographic and not source.own_clock)
    if timezone is not None and (source.own_clock or not calendar):
        times = "seconds of a simulation" if source.own_clock else "numbers of seconds"
        raise InputError(
            f"{source.path}, column {source.names['time']!r}: times are {times}, so --timezone {timezone} has no "
            "meaning"
        )
    if not calendar:
        _check_numbers(source, time, unix)
    device, names = devices_of(source.columns["device"])
    _check_order(source, time, device, order)
    fine, dropped = np.ones(len(time), dtype=bool), dict(source.left_out)

    def drop(reason: str, which: np.ndarray) -> None:
        dropped[reason] = int((which & fine).sum())
        fine[which] = False

    drop("local time skipped or repeated by a clock change", np.isnan(time))
    origin: tuple[float, float] | None = None
    if source.geographic:
        lat, lon = source.columns["lat"] * unit, source.columns["lon"] * unit
        _check_swapped(source, lat, lon, box)
        drop("off the globe", ~valid(lat, lon))
        drop("at latitude 0, longitude 0", (lat == 0) & (lon == 0))
        if box is not None:
            drop("outside the box", ~inside(lat, lon, box))
        _any_left(source, fine, dropped)
        if projection is None:
            projection, origin = local_projection(lat[fine], lon[fine])
        point = np.full((len(time), 2), np.nan)
        taken = np.flatnonzero(fine)
        point[fine] = to_metres(projection, lat[fine], lon[fine], lambda k: source.where(int(taken[k])))
    else:
        if box is not None or projection is not None:
            raise InputError(f"{source.path}: places are metric, so box and projection have no meaning")
        point = np.stack([source.columns["x"], source.columns["y"]], axis=1) * unit
    _any_left(source, fine, dropped)

    rows = np.lexsort((time, device))  # stable: of two fixes at one time, the file's first comes first
    rows = rows[fine[rows]]
    again = np.zeros(len(rows), dtype=bool)
    again[1:] = (np.diff(device[rows]) == 0) & (np.diff(time[rows]) == 0)
    first_of = rows[np.maximum.accumulate(np.where(again, 0, np.arange(len(rows))))]
    same = (point[rows] == point[first_of]).all(axis=1)
    dropped["repeated"] = int((again & same).sum())
    dropped["another place at the same time"] = int((again & ~same).sum())
    rows = rows[~again]
    if np.isfinite(max_speed):
        fast = too_fast(device[rows], time[rows], point[rows], max_speed)
        dropped[f"faster than {max_speed:g} m/s"] = int(fast.sum())
        rows = rows[~fast]

    new = np.flatnonzero(np.diff(device[rows], prepend=-1))
    venue: np.ndarray | None = None
    venues: tuple[str, ...] = ()
    if "venue" in source.columns:
        import pandas as pd

        codes, words = pd.factorize(source.columns["venue"][rows])
        venue, venues = codes.astype(np.int32), tuple(str(word) for word in words)
    facts: dict[str, Any] = {
        "source": source.title,
        "sha256": source.sha256(),
        "epoch": UNIX if unix else None,
        "projection": projection,
        "origin": origin,
        "rows": len(time) + sum(source.left_out.values()),
        "dropped": {reason: count for reason, count in dropped.items() if count},
    }
    if source.format is not None:
        facts |= {"source_format": source.format, "notes": list(source.notes)}
    return Trace(
        tuple(names[k] for k in device[rows[new]]),
        np.append(new, len(rows)).astype(np.int64),
        time[rows],
        point[rows],
        facts,
        venues,
        venue,
    )


def _check_numbers(source: Source, time: np.ndarray, unix: bool) -> None:
    """Refuse numbers that are no seconds: on any clock so many of them are another unit's."""
    bad = ~(np.abs(time) < YEAR_2200)  # true for NaN
    if bad.any():
        k = int(np.flatnonzero(bad)[0])
        clock = " since 1970" if unix else f", fewer than {YEAR_2200:.0f}"
        raise InputError(
            f"{source.where(k)}, column {source.names['time']!r}: {time[k]:.15g}, allowed are seconds{clock} (are "
            "these milliseconds?)"
        )


def _check_order(source: Source, time: np.ndarray, device: np.ndarray, order: str) -> None:
    """Refuse a time that goes backwards where the file promises that none does."""
    if order == "any":
        return
    rows = np.arange(len(time)) if order == "file" else np.argsort(device, kind="stable")
    back = np.diff(time[rows]) < 0
    if order == "device":
        back &= np.diff(device[rows]) == 0
    if back.any():
        k = int(rows[1:][back].min())
        whose = "" if order == "file" else f" of device {source.columns['device'][k]}"
        raise InputError(
            f"{source.where(k)}, column {source.names['time']!r}: the time{whose} goes backwards "
            f"({source.columns['time'][k]}); if rows may stand in any order, say --order any"
        )


def _check_swapped(source: Source, lat: np.ndarray, lon: np.ndarray, box: Box | None) -> None:
    """Refuse a file in which most rows make sense only with latitude and longitude exchanged."""
    wrong = swapped(lat, lon, box)
    if 2 * wrong.sum() > len(wrong):
        k = int(np.flatnonzero(wrong)[0])
        lat_name, lon_name = source.names["lat"], source.names["lon"]
        told = "wanted is a sound file"
        if source.format in (None, "csv", "parquet"):
            told = f"say --column lat={lon_name} --column lon={lat_name}"
        raise InputError(
            f"{source.where(k)}: latitude {lat[k]:g}, longitude {lon[k]:g} (and {int(wrong.sum()) - 1} more rows): "
            f"the two are swapped; {told}"
        )


def _any_left(source: Source, fine: np.ndarray, dropped: Mapping[str, int]) -> None:
    if not fine.any():
        told = ", ".join(f"{count} {reason}" for reason, count in dropped.items() if count)
        raise InputError(f"{source.path}: no fix is left ({told}), wanted is at least one")
