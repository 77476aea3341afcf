"""What the code itself says of parts and their fields: summary, type, default, unit, limits, meaning."""

from __future__ import annotations

import inspect
import math
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union

import tomli_w
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from fedroam.components import FAMILIES, Part, unit_of

_WORDS = {
    int: "whole number",
    float: "number",
    str: "text",
    bool: "true or false",
    type(None): "nothing",
    dict: "table",
}
_LIMITS = {"gt": "> {}", "ge": ">= {}", "lt": "< {}", "le": "<= {}"}


@dataclass(frozen=True)
class FieldFacts:
    """A field of a part or of the experiment, in words. `default` is None where there is none to write."""

    name: str
    type: str
    default: Any
    required: bool
    unit: str
    limits: str
    about: str

    @property
    def shown_default(self) -> str:
        """The default as an experiment file would say it."""
        if self.required:
            return "(required)"
        return "(not set)" if self.default is None else toml_value(self.default)

    @property
    def allowed(self) -> str:
        """Type and limits together: `number >= 0 and < 1`."""
        return f"{self.type} {self.limits}" if self.limits else self.type


def summary(cls: type) -> str:
    """The first line of a class's docstring."""
    text = inspect.getdoc(cls) or ""
    return " ".join(text.split("\n\n")[0].split())


def details(cls: type) -> list[str]:
    """The paragraphs of a class's docstring after the first."""
    text = inspect.getdoc(cls) or ""
    return [" ".join(paragraph.split()) for paragraph in text.split("\n\n")[1:]]


def fields_of(cls: type[BaseModel]) -> list[FieldFacts]:
    """Every field of a part, or of `Experiment` (then without its parts), in the order of their definition."""
    found = []
    for name, info in cls.model_fields.items():
        if name in FAMILIES and not issubclass(cls, Part):
            continue
        required = info.default is PydanticUndefined and info.default_factory is None
        found.append(
            FieldFacts(
                name=name,
                type=type_in_words(info.annotation),
                default=None if required else info.get_default(call_default_factory=True),
                required=required,
                unit=unit_of(info),
                limits=_limits(info.metadata),
                about=info.description or "",
            )
        )
    return found


def toml_value(value: Any) -> str:
    """A plain value in TOML."""
    if isinstance(value, tuple | list):
        return "[" + ", ".join(toml_value(v) for v in value) + "]"
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{toml_value(str(k))} = {toml_value(v)}" for k, v in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return tomli_w.dumps({"v": value}).partition("=")[2].strip()


def type_in_words(annotation: Any) -> str:
    """`float | None` as `number or nothing`, literals as their values, tuples as lists."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        limits = _limits(list(annotation.__metadata__))
        return type_in_words(arguments[0]) + (f" {limits}" if limits else "")
    if origin is Literal:
        return " | ".join(toml_value(value) for value in arguments)
    if origin in (Union, types.UnionType):
        words = [type_in_words(argument) for argument in arguments if argument is not type(None)]
        return " or ".join(dict.fromkeys(words))
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is ...:
            return f"list of: {type_in_words(arguments[0])}"
        return f"list of {len(arguments)}: {', '.join(type_in_words(argument) for argument in arguments)}"
    if origin is dict:
        return "table"
    return _WORDS.get(annotation, annotation.__name__ if isinstance(annotation, type) else str(annotation))


def _limits(metadata: list[Any]) -> str:
    """`>= 0 and < 1`, from what pydantic keeps of a field's limits."""
    return " and ".join(_each_limit(metadata))


def _bound(value: Any) -> str:
    """A limit as people write it: 2^62 for a large power of two."""
    if isinstance(value, int) and value > 2**20 and value.bit_count() == 1:
        return f"2^{value.bit_length() - 1}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _each_limit(metadata: list[Any]) -> Iterator[str]:
    for entry in metadata:
        nested = getattr(entry, "metadata", None)  # a Field inside Annotated keeps its limits one level down
        if nested:
            yield from _each_limit(nested)
        for name, words in _LIMITS.items():
            bound = getattr(entry, name, None)
            if bound is not None:
                yield words.format(_bound(bound))
        for name, words in (("min_length", "at least {} entries"), ("max_length", "at most {} entries")):
            bound = getattr(entry, name, None)
            if bound is not None:
                yield words.format(bound)
        if getattr(entry, "allow_inf_nan", None) is False:
            yield "finite"
        pattern = getattr(entry, "pattern", None)
        if pattern:
            yield f"matching {pattern}"
