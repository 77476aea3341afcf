"""What files from outside hold: text, values within limits, and what a file of fedroam's own must say; checked when
they are read."""

from __future__ import annotations

import codecs
import io
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from fedroam.errors import InputError

NESTING = 32  # levels of tables and lists: whatever walks through values may call itself
INTEGER = 2**63  # TOML's integers are below it
BLOCK = 2**16  # bytes that are looked at at a time for where a file stops being text
_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # which editors write at the beginning of UTF-16
TOO_DEEP = f"tables and lists are nested too deep, allowed are {NESTING} levels"


class BeyondLimits(ValueError):
    """Values that are nested deeper, or hold a larger integer, than any file or setting needs."""


def read_text(path: Path) -> str:
    """The text of a file in UTF-8, which some editors begin with a mark of its encoding.

    Raises InputError where it is no text or in another encoding, OSError where it cannot be read.
    """
    return text_of(path.read_bytes(), path)


def text_of(data: bytes, where: str | Path) -> str:
    """The text that the bytes of a file are; `where` is what the file is called. Raises InputError as `read_text`."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise no_text(where, io.BytesIO(data)) from None
    if "\0" in text:  # so is UTF-16 without a mark, of letters that ASCII has
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(f"{where}, line {line}: a NUL, which no text holds; allowed is text in UTF-8")
    return io.IncrementalNewlineDecoder(None, translate=True).decode(text, final=True)


def own_text(path: Path) -> str:
    """The text of a file that fedroam has written. Raises ValueError, one line, where it is none, and OSError."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 text: byte {error.start} is 0x{error.object[error.start]:02x}") from None


def no_text(where: str | Path, file: io.BufferedIOBase, allowed: str = "text in UTF-8") -> InputError:
    """The error for a file that cannot be decoded: where it stops being UTF-8, what it may be, and what to do about it.

    file: open at its beginning, however long it is.
    """
    decoder, before, line, way_out = codecs.getincrementaldecoder("utf-8")(), 0, 1, ""
    while True:
        block = file.read(BLOCK)
        way_out = way_out or _way_to_utf8(block)
        begun = len(decoder.getstate()[0])  # bytes of a character that the block before has begun
        try:
            decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            at = max(error.start - begun, 0)
            line += block.count(b"\n", 0, at)
            found = f"byte {before - begun + error.start} is 0x{error.object[error.start]:02x}"
            return InputError(
                f"{where}, line {line}: not UTF-8 text ({found}); allowed is {allowed}: {way_out}"
            )
        before, line = before + len(block), line + block.count(b"\n")
        if not block:
            return InputError(f"{where}: not UTF-8 text; allowed is {allowed}")


def _way_to_utf8(beginning: bytes) -> str:
    """What to do about a file that begins so and is not UTF-8."""
    if beginning[:2] not in _MARKS and b"\0" in beginning:
        return "this is no text at all"
    encoding = "UTF-16" if beginning[:2] in _MARKS else "WINDOWS-1252"
    return f"if it is text, iconv -f {encoding} -t UTF-8 makes UTF-8 of it"


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
        lines = own_text(path).split("\n")
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
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
