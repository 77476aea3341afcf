"""What readers of all formats share: lines of text, numbers, and columns that grow."""

from __future__ import annotations

import math
import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fedroam.data.sources.tables import raw_lines, unpacked
from fedroam.errors import InputError
from fedroam.facts import no_text
from fedroam.traces.source import Source

DAMAGE = (OSError, EOFError, zlib.error)  # what a file that cannot be read or unpacked raises
UNREADABLE = "cannot be read, damaged or cut off"


@dataclass(frozen=True)
class Wishes:
    """What a user may say about a source that its file does not tell.

    places: "degrees" or "metres" (SUMO); until: where the simulation ends, s (ns-2, BonnMotion); with_z: waypoints
    have a height (BonnMotion); devices: "file" or "track" (GPX). None, or False: nothing was said.
    """

    places: str | None = None
    until: float | None = None
    with_z: bool = False
    devices: str | None = None


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Number (from 1) and stripped text of every line that is not blank, UTF-8, gzip or not.

    Raises InputError with the last line that could be read where the file is damaged.
    """
    number = 0
    try:
        for number, line in enumerate(raw_lines(path), 1):
            stripped = line.strip()
            if stripped:
                yield number, stripped
    except UnicodeDecodeError:
        with unpacked(path) as file:
            error = no_text(path, file)
        raise error from None
    except DAMAGE as error:
        raise InputError(f"{path}, after line {number}: {UNREADABLE} ({error})") from None


def number(text: str, where: str, what: str, low: float = -math.inf) -> float:
    """A finite number, at least `low`. Raises InputError that says where and what it is."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (low <= value < math.inf) or value == -math.inf or "_" in text:
        least = "" if low == -math.inf else f" of {low:g} or more"
        raise InputError(f"{where}: {what} is {text!r}, wanted is a finite number{least}")
    return value


@dataclass
class Fixes:
    """Fixes as a reader finds them, five numbers each. Places are x and y, or longitude and latitude."""

    device: array[int] = field(default_factory=lambda: array("q"))
    time: array[float] = field(default_factory=lambda: array("d"))
    x: array[float] = field(default_factory=lambda: array("d"))
    y: array[float] = field(default_factory=lambda: array("d"))
    line: array[int] = field(default_factory=lambda: array("q"))

    def add(self, device: int, time: float, x: float, y: float, line: int) -> None:
        """A fix of the device with that number."""
        self.device.append(device)
        self.time.append(time)
        self.x.append(x)
        self.y.append(y)
        self.line.append(line)

    def source(
        self,
        path: Path,
        format: str,
        names: Sequence[str],
        *,
        geographic: bool = False,
        left_out: Mapping[str, int] | None = None,
        notes: Sequence[str] = (),
    ) -> Source:
        """The fixes as a source with a clock of its own; names: of the devices, by number."""
        # One object a device, not one a fix: a text column would be as wide as its longest name.
        device = np.array(names, dtype=object)[np.frombuffer(self.device, np.int64)]
        x, y = np.frombuffer(self.x), np.frombuffer(self.y)
        places = {"lat": y, "lon": x} if geographic else {"x": x, "y": y}
        called = {"lat": "y", "lon": "x"} if geographic else {"x": "x", "y": "y"}
        return Source(
            path,
            {"device": device, "time": np.frombuffer(self.time), **places},
            {"device": "id", "time": "time", **called},
            format,
            np.frombuffer(self.line, np.int64),
            own_clock=True,
            left_out=dict(left_out or {}),
            notes=tuple(notes),
        )
