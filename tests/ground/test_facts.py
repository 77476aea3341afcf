"""What values from outside may be at most."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

import fedroam as fr
from fedroam.errors import InputError
from fedroam.facts import (
    BLOCK,
    INTEGER,
    NESTING,
    BeyondLimits,
    json_object,
    no_text,
    read_text,
    within_limits,
)


def nested(levels: int, inner: Any = 0) -> Any:
    """A value within so many lists and tables, by turns."""
    for k in range(levels):
        inner = [inner] if k % 2 else {"a": inner}
    return inner


@pytest.mark.parametrize("value", [nested(NESTING), INTEGER - 1, -INTEGER, "x" * 10**6, {}])
def test_within_limits(value: Any) -> None:
    within_limits(value)


def itself_twice() -> dict[str, Any]:
    held: dict[str, Any] = {}
    held["a"] = held["b"] = held
    return held


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (nested(NESTING + 1), "nested too deep"),
        (nested(100_000), "nested too deep"),
        (itself_twice(), "nested too deep"),
        (INTEGER, "beyond 64 bits"),
        ({"a": [(1, -INTEGER - 1)]}, "beyond 64 bits"),
    ],
    ids=["one level", "many levels", "itself", "integer", "an inner one"],
)
def test_beyond_limits(value: Any, message: str) -> None:
    with pytest.raises(BeyondLimits, match=message):
        within_limits(value)
    for made in (fr.Experiment, lambda **settings: fr.plan(settings)):
        with pytest.raises(fr.InputError, match=message) as told:
            made(mobility={"kind": "random", "grid": value})
        assert "\n" not in str(told.value)


def test_json_is_read() -> None:
    value = {"a": [1, 2.5, None, True, {"b": "c"}]}
    assert json_object(json.dumps(value)) == value
    assert json_object(json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    "text",
    ["", "[]", "3", "{", '{"a": NaN}', '{"a": -Infinity}', '{"a": 1e400}', '{"a": ' + "9" * 5000 + "}",
     '{"a": ' + "9" * 30 + "}", '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", '{"a": ' * 40 + "1" + "}" * 40],
    ids=range(11),
)  # fmt: skip
def test_json_that_is_no_object_or_beyond_limits(text: str) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]{5,300}$"):
        json_object(text)


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_text_is_read_as_editors_write_it(mark: str, tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_bytes(f"{mark}für\r\nalle\n".encode())
    assert read_text(tmp_path / "own.txt") == "für\nalle\n"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (
            "a = 1\n# für\n".encode("latin-1"),
            r", line 2: not UTF-8 text \(byte 9 is 0xfc\).*iconv -f WINDOWS-1252",
        ),
        (
            "a = 1\n".encode("utf-16"),
            r", line 1: not UTF-8 text \(byte 0 is 0xff\).*iconv -f UTF-16",
        ),
        ("a = 1\n".encode("utf-16-le"), ", line 1: a NUL, which no text holds"),
        (b"\x7fELF\0\0\n\xff", r", line 2: not UTF-8 text \(byte 7 is 0xff\).*this is no text at all"),
        ("cut off: ü".encode()[:-1], r", line 1: not UTF-8 text \(byte 9 is 0xc3\)"),
    ],
)
def test_what_is_no_text_is_told_with_its_place_and_a_way_out(data: bytes, told: str, tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_bytes(data)
    with pytest.raises(InputError, match=f"own.txt{told}"):
        read_text(tmp_path / "own.txt")


@pytest.mark.parametrize("before", [0, 1, BLOCK - 2, BLOCK - 1, BLOCK, 3 * BLOCK - 1])
def test_the_place_of_a_byte_is_right_wherever_the_blocks_end(before: int) -> None:
    """A character of two bytes stands at each end of a block that is read, and is none of the error."""
    good = ("ü\n" * before).encode()[:before].decode(errors="ignore").encode()
    wrong = good + "ü".encode() + b"\xff more"
    at, line = len(good) + 2, good.count(b"\n") + 1
    assert f"own.txt, line {line}: not UTF-8 text (byte {at} is 0xff)" in str(
        no_text("own.txt", io.BytesIO(wrong))
    )
