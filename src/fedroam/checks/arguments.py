"""What a public function is given, held against its own type hints: one way for all of them.

    @checked(run="a run, as open_run(...) gives one")
    def final_model(run: Run, which: str | None = None, client: int | None = None) -> FinalModel:

A function says no more than what its hints cannot: how whoever calls it gets what is allowed. It is not pydantic's
`validate_call`, which takes '3' for 3 or, where it is strict, numpy's numbers for none.
"""

from __future__ import annotations

import functools
import inspect
import math
import numbers
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from types import NoneType, SimpleNamespace, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    ParamSpec,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from fedroam.errors import wrong
from fedroam.writing import A_NAME, checked_name

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

P = ParamSpec("P")
R = TypeVar("R")
_WORDS: dict[Any, str] = {
    NoneType: "None",
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "a text",
}


class _Misfit(Exception):
    """A value is not of the type that a hint says."""


@functools.cache
def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The hints of arguments, asked for at the first call: before, not all that they name is loaded.

    What a function returns may be named for type checkers alone.
    """
    given = {name: hint for name, hint in function.__annotations__.items() if name != "return"}
    module = sys.modules[function.__module__]
    return get_type_hints(SimpleNamespace(__annotations__=given), vars(module))


def checked(**ways: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator: a call with an argument that is not of the type its hint says raises InputError, which names function
    and argument, what was found, and what is allowed: by `ways`, or else as the hint says it.

    A text is no list of texts, True no number, NaN none either. Numbers of numpy become Python's, what can be gone
    through but once becomes a list, and names of files are those that the system takes.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        each, call = inspect.signature(function).parameters.values(), function.__name__
        names = tuple(one.name for one in each if one.kind is one.POSITIONAL_OR_KEYWORD)
        inner: Callable[..., R] = function

        @functools.wraps(function)
        def outer(*given: Any, **named: Any) -> R:
            hints = _hints(function)

            def fitting(name: str, value: Any) -> Any:
                return _argument(f"{call}: {name}", value, hints.get(name, Any), ways.get(name))

            placed = [fitting(name, value) for name, value in zip(names, given, strict=False)]
            # What is too much goes on as it is: Python says so better.
            return inner(
                *placed,
                *given[len(placed) :],
                **{name: fitting(name, value) for name, value in named.items()},
            )

        return outer

    return decorate


_fields = functools.cache(get_type_hints)


def check_fields(made: DataclassInstance, **ways: str) -> None:
    """Raise InputError where a field of a data class does not hold what its hint says (see `checked`)."""
    hints = _fields(type(made))
    for each in fields(made):
        name = f"{type(made).__name__}: {each.name}"
        _argument(name, getattr(made, each.name), hints[each.name], ways.get(each.name))


def _argument(owner: str, value: Any, hint: Any, way: str | None) -> Any:
    if hint is Any or (type(value) is hint and hint is not float):  # most are: parts have hundreds of fields
        return value
    try:
        found = _fitted(value, hint)
    except _Misfit:
        raise wrong(owner, value, way or _in_words(hint)) from None
    if isinstance(found, str | os.PathLike) and Path in get_args(hint):
        checked_name(os.fspath(found), owner)
    return found


def _fitted(value: Any, hint: Any) -> Any:
    """The value, as a function with this hint wants it. Raises `_Misfit`."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any or isinstance(hint, TypeVar):
        return value
    if origin in (Union, UnionType):
        return _one_of(value, inner)
    if origin is Literal:
        return _if(any(type(value) is type(each) and value == each for each in inner), value)
    if origin is type:
        return _if(isinstance(value, type), value)
    if hint in (int, float):
        return value if type(value) is int and hint is int else _number(value, hint)
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(value, origin, *inner)
    if origin is not None and issubclass(origin, Iterable):
        return _several(value, origin, inner[0])
    return _if(isinstance(value, origin or hint), value)


def _if(fits: bool, value: Any) -> Any:
    if not fits:
        raise _Misfit
    return value


def _one_of(value: Any, hints: Collection[Any]) -> Any:
    """The value by the first of several hints that it fits; where one is a path, whatever names one."""
    if Path in hints and str in hints and isinstance(value, os.PathLike):
        return value
    for hint in hints:
        try:
            return _fitted(value, hint)
        except _Misfit:
            continue
    raise _Misfit


def _number(value: Any, kind: type[int] | type[float]) -> int | float:
    """Python's own numbers as they are: a whole one stays whole where any is wanted."""
    wanted = numbers.Integral if kind is int else numbers.Real
    if isinstance(value, bool) or not isinstance(value, wanted):
        raise _Misfit
    found = int(value) if isinstance(value, numbers.Integral) else float(value)
    try:
        return found if kind is int or not math.isnan(found) else _if(False, found)
    except OverflowError:  # a whole number that is none of the numbers of a computer
        raise _Misfit from None


def _mapping(value: Any, wanted: type, key: Any, inner: Any) -> Any:
    _if(isinstance(value, wanted), value)
    for name, each in value.items():
        _fitted(name, key)
        _fitted(each, inner)
    return value


def _several(value: Any, wanted: type, inner: Any) -> Any:
    """A list or whatever else can be gone through, as it is where it can be; of a text nobody wants the letters."""
    if isinstance(value, str | bytes) or not isinstance(value, wanted):
        raise _Misfit
    value = list(value) if isinstance(value, Iterator) else value
    found = [_fitted(each, inner) for each in value]
    return value if all(one is other for one, other in zip(value, found, strict=True)) else found


def _in_words(hint: Any) -> str:
    """What a hint allows, in words."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        path = Path in inner and str in inner
        told = [_in_words(each) for each in inner if not (path and each in (str, Path))]
        return " or ".join([A_NAME] * path + told)
    if origin is Literal:
        *first, last = map(repr, inner)
        return f"{', '.join(first)} or {last}" if first else last
    if hint in _WORDS:
        return _WORDS[hint]
    kind = origin or hint
    if kind is Callable or kind is type:
        return "a function" if kind is Callable else "a class"
    if origin is not None and issubclass(kind, Mapping):
        return "a mapping"
    if origin is not None and issubclass(kind, Iterable):
        return f"a list of which each is {_in_words(inner[0])}"
    name = kind.__name__
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"
