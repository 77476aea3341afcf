"""What a function is given, held against its hints. All public ones: `tests/house/test_public_arguments.py`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from fedroam.checks.arguments import check_fields, checked
from fedroam.errors import InputError


@checked(thing="what made() gives")
def asked(
    thing: Collection[str] | None = None,
    *,
    number: float = 0.0,
    whole: int = 0,
    switch: bool = False,
    one_of: Literal["a", "b", "c"] = "a",
    files: Iterable[str | Path] = (),
    path: str | Path = ".",
    each: Sequence[int] = (),
    table: Mapping[str, Any] | None = None,
    call: Callable[[], None] | None = None,
) -> dict[str, Any]:
    return locals()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"thing": "letters"}, "asked: thing: found 'letters' (str), allowed is what made() gives"),
        ({"thing": [1]}, "asked: thing: found [1] (list), allowed is what made() gives"),
        ({"number": "1"}, "asked: number: found '1' (str), allowed is a number"),
        ({"number": True}, "asked: number: found True (bool), allowed is a number"),
        ({"number": float("nan")}, "asked: number: found nan (float), allowed is a number"),
        ({"number": 10**400}, "asked: number: found 1"),
        ({"whole": 1.0}, "asked: whole: found 1.0 (float), allowed is a whole number"),
        ({"switch": "no"}, "asked: switch: found 'no' (str), allowed is True or False"),
        ({"one_of": "d"}, "asked: one_of: found 'd' (str), allowed is 'a', 'b' or 'c'"),
        (
            {"files": "mine.py"},
            "asked: files: found 'mine.py' (str), allowed is a list of which each is the name of one",
        ),
        ({"path": 3}, "asked: path: found 3 (int), allowed is the name of one file or folder"),
        ({"path": " "}, "asked: path ' ': allowed is the name of a file or folder, '.' for this one"),
        ({"path": "a\0"}, "asked: path 'a\\x00': a name with NUL in it"),
        ({"each": {1}}, "asked: each: found {1} (set), allowed is a list of which each is a whole number"),
        ({"table": {1: 2}}, "asked: table: found {1: 2} (dict), allowed is a mapping or None"),
        ({"call": 3}, "asked: call: found 3 (int), allowed is a function or None"),
    ],
)
def test_what_a_hint_does_not_say_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as caught:
        asked(**given)
    assert str(caught.value).startswith(says)


def test_what_is_given_by_its_place_is_looked_at_too() -> None:
    wrong: Any = 3
    with pytest.raises(InputError, match="asked: thing: found 3"):
        asked(wrong)


def test_what_fits_goes_on_as_it_is() -> None:
    given: dict[str, Any] = {
        "thing": {"a", "b"},
        "number": 3,
        "one_of": "b",
        "path": Path("new"),
        "each": (1, 2),
        "table": {},
        "call": print,
    }
    found = asked(**given)
    assert all(found[name] is value for name, value in given.items())


def test_numbers_of_numpy_and_what_is_gone_through_once_become_pythons() -> None:
    given: dict[str, Any] = {"number": np.float32(0.5), "whole": np.int64(2), "each": [np.int8(1)]}
    found = asked(**given, files=(f"{name}.py" for name in "ab"))
    assert (found["number"], found["whole"], found["each"], found["files"]) == (0.5, 2, [1], ["a.py", "b.py"])
    assert [type(found[name]) for name in ("number", "whole")] == [float, int]
    assert type(found["each"][0]) is int


def test_too_many_arguments_are_pythons_to_tell() -> None:
    call: Any = asked
    with pytest.raises(TypeError, match="takes from 0 to 1 positional arguments but 2"):
        call(None, None)
    with pytest.raises(TypeError, match="unexpected keyword argument 'hue'"):
        call(hue=3)


@dataclass(frozen=True)
class Held:
    folder: Path
    rows: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self, folder="a Path")


def test_fields_of_a_data_class() -> None:
    assert Held(Path("new"), (1,)).rows == (1,)
    text: Any = "new"
    with pytest.raises(InputError, match=r"Held: folder: found 'new' \(str\), allowed is a Path"):
        Held(text)
    rows: Any = [1]
    with pytest.raises(
        InputError, match=r"Held: rows: found \[1\] .*, allowed is a list of which each is a whole"
    ):
        Held(Path("new"), rows)
