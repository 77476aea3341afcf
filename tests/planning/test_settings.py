"""Raw settings: what `--set` says, and settings laid over others."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from fedroam.errors import InputError
from fedroam.facts import INTEGER, NESTING
from fedroam.planning.settings import nest, overlay, parse_assignment, read_settings


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


HOSTILE = [
    ("[" * 3_000, "nested too deep, allowed are 32 levels"),
    ("[" * 3_000 + "]" * 3_000, "nested too deep, allowed are 32 levels"),
    ("{a=" * 3_000, "nested too deep, allowed are 32 levels"),
    ("[" * (NESTING + 1) + "]" * (NESTING + 1), "nested too deep, allowed are 32 levels"),
    ("9" * 4_400, "an integer beyond 64 bits"),
    ("0x" + "f" * 10_000, "an integer beyond 64 bits"),
    (str(INTEGER), "an integer beyond 64 bits"),
    (f"{{a = [1, {-INTEGER - 1}]}}", "an integer beyond 64 bits"),
]


@pytest.mark.parametrize(("value", "told"), HOSTILE, ids=range(len(HOSTILE)))
def test_settings_beyond_all_bounds(value: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(f"a = {value}\n")
    with pytest.raises(InputError, match=f"own.toml: .*{told}"):
        read_settings(tmp_path / "own.toml")
    with pytest.raises(InputError, match=f"--set model.hidden: .*{told}"):
        parse_assignment(f"model.hidden={value}")


@pytest.mark.parametrize("text", ["a." * 5_000 + "b = 1", f"[{'.'.join('a' * 5_000)}]"], ids=["key", "table"])
def test_dotted_keys_are_levels_too(text: str, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(text)
    with pytest.raises(InputError, match=r"own.toml: .*nested too deep"):
        read_settings(tmp_path / "own.toml")
    with pytest.raises(InputError, match=r"--set: a key of 5001 parts; allowed are 32"):
        parse_assignment("a." * 5_000 + "b=1")


def test_settings_up_to_the_bounds(tmp_path: Path) -> None:
    text = "[" * (NESTING - 1) + f"{INTEGER - 1}, {-INTEGER}" + "]" * (NESTING - 1)
    (tmp_path / "own.toml").write_text(f"a = {text}\n")
    settings, _ = read_settings(tmp_path / "own.toml")
    assert parse_assignment(f"a={text}") == (["a"], settings["a"])
