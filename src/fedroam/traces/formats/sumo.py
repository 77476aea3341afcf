"""SUMO's floating-car data: `sumo --fcd-output FILE.xml`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fedroam.errors import InputError
from fedroam.traces.formats.markup import walk
from fedroam.traces.formats.reading import Fixes, Wishes, number
from fedroam.traces.source import Source

ROOT = "fcd-export"
KINDS = ("vehicle", "person")
CONTAINERS = "containers, which are neither vehicle nor person"
_GEO = re.compile(r"<fcd-output\.geo\s+value=\"(\w+)\"")
_CLOCK = re.compile(r"(?:(\d+):)?(\d+):(\d\d):(\d\d(?:\.\d+)?)")


def read_sumo(path: Path, wishes: Wishes) -> Source:
    """Fixes of all vehicles and persons, in the network's plane, or in degrees where `--fcd-output.geo` was set.

    Which of the two is told by `wishes.places`, or by the configuration that SUMO writes into a comment at the file's
    head, or by places that can be no degrees; where none of the three does, InputError. If a vehicle and a person have
    the same id, all devices are named with what they are. Memory: about 60 bytes a fix.
    """
    fixes, said = Fixes(), [wishes.places]
    codes: dict[tuple[str, str], int] = {}  # what it is, and its id
    inside: list[float] = []  # the time of the step that is being read
    seen = {"root": False, "containers": 0}

    def comment(text: str) -> None:
        if "<configuration" in text and "<fcd-output " in text:
            geo = _GEO.search(text)
            told = geo is not None and geo[1].lower() in ("true", "1", "yes", "on", "t", "x")
            said[0] = said[0] or ("degrees" if told else "metres")

    def start(name: str, attributes: Mapping[str, str], line: int) -> None:
        if name in KINDS:
            if not inside:
                raise InputError(f"{path}, line {line}: a {name} outside of any timestep")
            try:
                key, x, y = (name, attributes["id"]), attributes["x"], attributes["y"]
            except KeyError as error:
                raise InputError(
                    f"{path}, line {line}: a {name} without {error.args[0]!r}, wanted are id, x and y (if "
                    "--fcd-output.attributes was set, it must name x and y)"
                ) from None
            device = codes.setdefault(key, len(codes))
            if not key[1]:
                raise InputError(f"{path}, line {line}: a {name} with an empty id")
            try:
                places = float(x), float(y)
            except ValueError:
                places = np.nan, np.nan
            # The words only where they are needed: there are millions of places.
            if not abs(places[0] + places[1]) < np.inf:
                where = f"{path}, line {line}, {name} {key[1]!r}"
                places = number(x, where, "x"), number(y, where, "y")
            fixes.add(device, inside[0], *places, line)
        elif name == "timestep":
            if "time" not in attributes:
                raise InputError(f"{path}, line {line}: a timestep without 'time'")
            inside[:] = [_seconds(attributes["time"], f"{path}, line {line}")]
        elif name == "container" and inside:
            seen["containers"] += 1
        elif not seen["root"] and name != ROOT:
            raise InputError(f"{path}, line {line}: the root is <{name}>, wanted is <{ROOT}> (--fcd-output)")
        seen["root"] = True

    def end(name: str, _: int) -> None:
        if name == "timestep":
            inside.clear()

    walk(path, start, end, comment=comment)
    if not fixes.time:
        raise InputError(f"{path}: no vehicle and no person in any timestep, wanted is at least one")
    places = said[0] or _places(path, fixes)
    twice = len({own for _, own in codes}) < len(codes)
    names = [f"{kind}:{own}" if twice else own for kind, own in codes]
    notes = [f"places are taken as {places}"]
    if twice:
        notes.append("vehicles and persons share ids: devices are named vehicle:ID and person:ID")
    return fixes.source(
        path,
        "sumo",
        names,
        geographic=places == "degrees",
        left_out={CONTAINERS: int(seen["containers"])},
        notes=notes,
    )


def _places(path: Path, fixes: Fixes) -> str:
    """Metres, if any place can be no degrees. Raises InputError where both may be meant."""
    x, y = np.frombuffer(fixes.x), np.frombuffer(fixes.y)
    if (np.abs(x) > 180).any() or (np.abs(y) > 90).any():
        return "metres"
    raise InputError(
        f"{path}: x from {x.min():g} to {x.max():g} and y from {y.min():g} to {y.max():g} may be metres, or longitudes "
        "and latitudes (--fcd-output.geo); say --places metres or --places degrees"
    )


def _seconds(text: str, where: str) -> float:
    """A time of SUMO: seconds, or [days:]hours:minutes:seconds (`--human-readable-time`)."""
    clock = _CLOCK.fullmatch(text)
    if clock is None:
        return number(text, where, "time", 0.0)
    # of any number of digits; too many are infinite
    days, hours, minutes, rest = map(float, clock.groups("0"))
    seconds = ((days * 24 + hours) * 60 + minutes) * 60 + rest
    if not math.isfinite(seconds):
        raise InputError(f"{where}: time has {len(text)} digits, wanted is a finite number of days or hours")
    return seconds
