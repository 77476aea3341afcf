"""Availability logs: a row for each stretch of time in which a device was on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedroam.errors import InputError
from fedroam.traces.source import ALIASES, Source, devices_of, existing, header_of, matched, read_columns
from fedroam.traces.times import MIXED, seconds

# What the columns of a log are usually called, in lower case.
COLUMNS = {
    "device": ALIASES["device"],
    "begin": ("begin", "start", "from", "on"),
    "end": ("end", "stop", "to", "off"),
}


@dataclass(frozen=True, eq=False)
class Log:
    """When each device was on: stretches [begin, end), sorted by device and time, no two of a device touching.

    device: int64 [stretches], its place in `names`; begin, end: float64 [stretches], seconds since 1970 UTC where the
    log has calendar times (`calendar`), else on a clock of its own.
    """

    names: tuple[str, ...]
    device: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    calendar: bool


def read_log(path: str | Path) -> Log:
    """Read a CSV file (with a header line, gzip or not) or a Parquet file with columns device, begin and end.

    Other usual names are known (`COLUMNS`), further columns are not looked at. Times are numbers of seconds, or ISO
    8601 with a zone, in both columns. Stretches of one device that overlap or touch are merged. Raises InputError with
    file, line and column for what is missing or wrong, an end that is not after its begin among it.
    """
    file = existing(path)
    header = header_of(file)
    # A column that is called as we call it is meant, whatever others there are.
    plain = {want: want for want in COLUMNS if want in header}
    names = matched(file, header, COLUMNS, plain, "rename all but one of them")
    for want in COLUMNS:
        if want not in names:
            raise InputError(
                f"{file}, line 1: no column for {want!r}, found {', '.join(header)}; allowed are "
                f"{', '.join(COLUMNS[want])}"
            )
    source = read_columns(file, names, ())
    begin, calendar = _times(source, "begin")
    end, also = _times(source, "end")
    if calendar != also:
        one, other = (str(source.columns[column][0]) for column in ("begin", "end"))
        raise InputError(
            f"{source.where(0)}, column {names['end']!r}: {other!r} is a time of another kind than {one!r} in column "
            f"{names['begin']!r}; allowed are seconds, or ISO 8601, in both"
        )
    wrong = end <= begin
    if wrong.any():
        k = int(np.flatnonzero(wrong)[0])
        raise InputError(
            f"{source.where(k)}, column {names['end']!r}: {source.columns['end'][k]}, allowed is a time after "
            f"{names['begin']!r} ({source.columns['begin'][k]})"
        )
    device, known = devices_of(source.columns["device"])
    return Log(tuple(known), *_merged(device, begin, end), calendar)


def _times(source: Source, column: str) -> tuple[np.ndarray, bool]:
    """Seconds (float64 [rows]), and whether they are calendar times. Every ISO time names its zone, whichever."""
    return seconds(source.columns[column], MIXED, source.names[column], source.where, asked=False)


def _merged(
    device: np.ndarray, begin: np.ndarray, end: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Stretches that neither overlap nor touch, sorted by device and time: device, begin, end."""
    whose, time = np.concatenate([device, device]), np.concatenate([begin, end])
    step = np.repeat([1, -1], len(device))
    # Of a begin and an end at one time, the begin comes first: such stretches touch.
    order = np.lexsort((-step, time, whose))
    whose, time, step = whose[order], time[order], step[order]
    depth = np.cumsum(step)  # how many stretches are open; back at 0 where a device's last one ends
    opens, closes = (depth == 1) & (step == 1), depth == 0
    return whose[opens], time[opens], time[closes]
