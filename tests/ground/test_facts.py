"""What values from outside may be at most."""

from __future__ import annotations

import json
from typing import Any

import pytest

import fedroam as fr
from fedroam.facts import INTEGER, NESTING, BeyondLimits, json_object, within_limits


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
