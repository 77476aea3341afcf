"""External movement of The ONE (Opportunistic Network Environment): a header of limits, then fixes."""

from __future__ import annotations

from pathlib import Path

from fedroam.errors import InputError
from fedroam.traces.formats.reading import Fixes, Wishes, number, text_lines
from fedroam.traces.source import Source

HEADER = "minT maxT minX maxX minY maxY [minZ maxZ]"


def read_one(path: Path, wishes: Wishes) -> Source:
    """Fixes `time id x y [z]` as they stand there (not moved to begin at 0, as The ONE does); z is not kept.

    Source: The ONE, input/ExternalMovementReader. Raises InputError with file and line for a fix outside of the
    header's limits.
    """
    fixes = Fixes()
    codes: dict[str, int] = {}
    limits: list[float] = []
    high = False
    for line, text in text_lines(path):
        if text.startswith("#"):
            continue
        where, words = f"{path}, line {line}", text.split()
        if not limits:
            limits = _limits(words, where)
            continue
        if len(words) not in (4, 5):
            raise InputError(f"{where}: {len(words)} values, wanted are time, id, x, y and perhaps z")
        time, name, *place = words
        where = f"{where}, device {name!r}"
        row = number(time, where, "time"), number(place[0], where, "x"), number(place[1], where, "y")
        for what, value, low, high_end in zip(
            ("time", "x", "y"), row, limits[::2], limits[1::2], strict=False
        ):
            if not low <= value <= high_end:
                raise InputError(
                    f"{where}: {what} is {value:.15g}, the header allows {low:.15g} to {high_end:.15g}"
                )
        if len(place) == 3:
            high = number(place[2], where, "z") != 0 or high
        fixes.add(codes.setdefault(name, len(codes)), *row, line)
    if not fixes.time:
        raise InputError(f"{path}: no fix, wanted is a header `{HEADER}` and lines `time id x y`")
    return fixes.source(path, "one", list(codes), notes=["heights (z) are not kept"] if high else [])


def _limits(words: list[str], where: str) -> list[float]:
    if len(words) not in (6, 8):
        raise InputError(f"{where}: {len(words)} values, wanted is a header `{HEADER}`")
    limits = [number(word, where, f"value {k} of the header") for k, word in enumerate(words, 1)]
    for what, low, high in zip("TXYZ", limits[::2], limits[1::2], strict=False):
        if low > high:
            raise InputError(f"{where}: min{what} {low:g} is above max{what} {high:g}; wanted is `{HEADER}`")
    if limits[0] < 0:
        raise InputError(f"{where}: minT is {limits[0]:g}, wanted are times of 0 or more")
    return limits
