"""What values from outside may be at most, and what a file of fedroam's own must say, checked when it is read."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from fedroam.errors import InputError

NESTING = 32  # levels of tables and lists: whatever walks through values may call itself
INTEGER = 2**63  # TOML's integers are below it
TOO_DEEP = f"tables and lists are nested too deep, allowed are {NESTING} levels"


class BeyondLimits(ValueError):
    """Values that are nested deeper, or hold a larger integer, than any file or setting needs."""


def within_limits(values: Any) -> None:
    """Raise `BeyondLimits` where values are nested deeper than `NESTING`, or hold an integer beyond 64 bits."""
    level = [values]
    for _ in range(NESTING + 1):
        if any(isinstance(value, int) and not -INTEGER <= value < INTEGER for value in level):
            raise BeyondLimits("an integer beyond 64 bits")
        # Each of them once: a dictionary that holds itself twice would have 2 to the 32nd values.
        # To ask plain values for a mapping takes long, and most are plain.
        holders = {
            id(value): value
            for value in level
            if not isinstance(value, str | int | float) and isinstance(value, Mapping | list | tuple)
        }
        inner = (value.values() if isinstance(value, Mapping) else value for value in holders.values())
        level = [value for held in inner for value in held]
        if not level:
            return
    raise BeyondLimits(TOO_DEEP)


def json_object(text: str | bytes) -> dict[str, Any]:
    """The object that a JSON text holds, its numbers finite. Raises ValueError, one line, for anything else."""
    try:
        value = json.loads(text, parse_constant=_finite, parse_float=_finite)
    except RecursionError:
        raise BeyondLimits(TOO_DEEP) from None
    if not isinstance(value, dict):
        raise ValueError(f"found {type(value).__name__}, expected a JSON object")
    within_limits(value)
    return value


def _finite(word: str) -> float:
    """Refuse NaN and infinities: what is written here holds none, and JSON knows none."""
    number = float(word)
    if not math.isfinite(number):
        raise ValueError(f"{word:.40} is no number")
    return number


class JsonObject(BaseModel):
    """A JSON object; keys that it does not name are left alone: later versions may write more."""

    model_config = ConfigDict(strict=True, extra="allow")


Known = TypeVar("Known", bound=JsonObject)


def checked_facts(value: Mapping[str, Any], schema: type[Known], path: Path) -> Known:
    """What a value says by its schema. Raises InputError, one line with file and key, where it does not fit."""
    try:
        return schema.model_validate(value)
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(str(step) for step in problem["loc"])
        found = repr(problem["input"])
        found = found if len(found) <= 60 else f"{found[:57]}..."
        said = problem["msg"].removeprefix("Value error, ")
        missing = problem["type"] == "missing"
        raise InputError(
            f"{path}: damaged: {key} is missing" if missing else f"{path}: damaged: {key} = {found}: {said}"
        ) from None


def checked_lines(path: Path, schema: type[Known]) -> list[Known]:
    """The objects of a file that is written line by line; a last line that a kill cut off is left out.

    Raises InputError with the line where it is damaged, and FileNotFoundError where it is missing.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    found = []
    for number, line in enumerate(lines[:-1], 1):
        where = Path(f"{path}, line {number}")
        try:
            facts = json_object(line)
        except ValueError as error:
            raise InputError(f"{where}: damaged: {error}") from None
        found.append(checked_facts(facts, schema, where))
    return found
