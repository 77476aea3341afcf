"""Raw settings: what `--set` says, and settings laid over others."""

from __future__ import annotations

import math
from typing import Any

import pytest

from fedroam.errors import InputError
from fedroam.planning.settings import nest, overlay, parse_assignment


@pytest.mark.parametrize(
    ("text", "keys", "value"),
    [
        ("a.b=3", ["a", "b"], 3),
        ("a=0.5", ["a"], 0.5),
        ("a=1e-3", ["a"], 1e-3),
        ("a=inf", ["a"], math.inf),
        ("a=true", ["a"], True),
        ("a=[1, 2]", ["a"], [1, 2]),
        ("a='3'", ["a"], "3"),
        ("a=static", ["a"], "static"),
        ("a = two words ", ["a"], "two words"),
        ("a=x=y", ["a"], "x=y"),
        ("a.b={c = 1}", ["a", "b"], {"c": 1}),
        ("a=", ["a"], ""),
    ],
)
def test_assignments(text: str, keys: list[str], value: Any) -> None:
    assert parse_assignment(text) == (keys, value)


@pytest.mark.parametrize("text", ["", "a", "=3", "a..b=3", "a b=3", ".a=1"])
def test_wrong_assignments(text: str) -> None:
    with pytest.raises(InputError, match="allowed is key=value"):
        parse_assignment(text)


def test_nest() -> None:
    assert nest(["a", "b", "c"], 1) == {"a": {"b": {"c": 1}}}


def test_an_overlay_changes_what_it_names() -> None:
    notes: list[str] = []
    below = {"clients": 5, "mobility": {"kind": "random", "grid": 9, "mobile": 2}}
    kept = {"clients": 5, "mobility": {"kind": "random", "grid": 9, "mobile": 2}}
    assert overlay(below, {"clients": 6}, notes) == {**kept, "clients": 6}
    assert overlay(below, {"mobility": {"mobile": 3}}, notes)["mobility"] == {
        "kind": "random",
        "grid": 9,
        "mobile": 3,
    }
    assert overlay(below, {"mixing": "data_size"}, notes)["mixing"] == {"kind": "data_size"}
    assert overlay({"mobility": "static"}, {"mobility": {"grid": 4}}, notes)["mobility"] == {
        "kind": "static",
        "grid": 4,
    }
    assert below == kept, "the settings below are not changed"
    assert notes == []


def test_a_change_of_kind_keeps_what_both_kinds_know_and_says_what_is_dropped() -> None:
    notes: list[str] = []
    below = {"mobility": {"kind": "random", "grid": 9, "mobile": 2}}
    assert overlay(below, {"mobility": "static"}, notes)["mobility"] == {"kind": "static", "grid": 9}
    assert notes == ["mobility kind 'static' has no mobile: left out"]
    assert (
        overlay(below, {"mobility": {"kind": "unheard"}}, notes)["mobility"]["mobile"] == 2
    )  # refused later
