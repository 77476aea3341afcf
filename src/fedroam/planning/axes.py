"""What a sweep varies: settings by dotted name, each with the values it takes."""

from __future__ import annotations

import itertools
import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedroam.components import FAMILIES
from fedroam.errors import InputError, unknown
from fedroam.experiment import Experiment
from fedroam.facts import BeyondLimits
from fedroam.planning.settings import parse_toml, parse_value

Combination = dict[str, Any]
_CLOSED_BY = {"[": "]", "{": "}", '"': '"', "'": "'"}
MOST = 100_000  # runs of one sweep, and so combinations: more than anybody runs, few enough to list


@dataclass(frozen=True)
class Axes:
    """Settings that vary: `grid` in every combination, `zipped` walked together (lists of one length)."""

    grid: Mapping[str, tuple[Any, ...]]
    zipped: Mapping[str, tuple[Any, ...]]

    @property
    def names(self) -> tuple[str, ...]:
        """The dotted names, the zipped ones first, in the order in which they were given."""
        return (*self.zipped, *self.grid)

    @property
    def size(self) -> int:
        """The number of combinations."""
        rows = max((len(values) for values in self.zipped.values()), default=1)
        return rows * math.prod(len(values) for values in self.grid.values())

    def combinations(self) -> list[Combination]:
        """Every combination, the last name of the grid varying fastest."""
        rows = [dict(zip(self.zipped, row, strict=True)) for row in zip(*self.zipped.values(), strict=True)]
        product = [dict(zip(self.grid, row, strict=True)) for row in itertools.product(*self.grid.values())]
        return [{**row, **cell} for row in (rows or [{}]) for cell in product]

    def table(self) -> dict[str, Any]:
        """As the `[sweep]` section of a file says it."""
        parts = {"grid": self.grid, "zip": self.zipped}
        return {name: {k: list(v) for k, v in axes.items()} for name, axes in parts.items() if axes}


def read_axes(section: Any, over: Iterable[str]) -> Axes:
    """The axes of a file's `[sweep]` section, with those of `--over` (which replace axes of the same name).

    Raises InputError for an unknown name, an empty or doubled list of values, and zipped lists of unequal length.
    """
    if not isinstance(section, Mapping):
        raise InputError(f"sweep = {section!r}: allowed is a table [sweep.grid] or [sweep.zip]")
    for name in section:
        if name not in ("grid", "zip"):
            raise unknown("key of [sweep]", str(name), ("grid", "zip"))
    grid, zipped = (_section(section.get(name, {}), f"sweep.{name}") for name in ("grid", "zip"))
    both = [name for name in grid if name in zipped]
    if both:
        raise InputError(f"{both[0]}: stands in [sweep.grid] and in [sweep.zip]; allowed is one of the two")
    given: set[str] = set()
    for text in over:
        name, values = parse_over(text)
        if name in zipped:
            raise InputError(
                f"--over {name}: varied in [sweep.zip] together with others; change the file, or use --set"
            )
        if name in given:
            raise InputError(f"--over {name}: given twice; list all its values in one")
        given.add(name)
        grid[name] = values
    if len({len(values) for values in zipped.values()}) > 1:
        told = ", ".join(f"{name} has {len(values)}" for name, values in zipped.items())
        raise InputError(f"sweep.zip: lists that are walked together need one length; {told}")
    for name in (*grid, *zipped):
        family, _, rest = name.partition(".")
        for whole in (*grid, *zipped):
            if rest and whole == family:
                raise InputError(f"sweep: {family} is replaced whole, so {name} cannot vary on its own")
    axes = Axes(grid, zipped)
    if axes.size > MOST:
        raise InputError(f"sweep: {axes.size} combinations; allowed are up to {MOST}")
    return axes


def _section(section: Any, where: str) -> dict[str, tuple[Any, ...]]:
    if not isinstance(section, Mapping):
        raise InputError(f"{where} = {section!r}: allowed is a table of lists")
    axes: dict[str, tuple[Any, ...]] = {}
    for key, values in section.items():
        # `mobility.kind = [...]` without quotes reaches us as a table in a table; both spellings mean the same.
        if isinstance(values, Mapping):
            inner = {f"{key}.{name}": value for name, value in values.items()}
        else:
            inner = {str(key): values}
        for name, value in inner.items():
            axes[name] = _checked(name, value, f"{where}: {name}", distinct=where.endswith("grid"))
    return axes


def parse_over(text: str) -> tuple[str, tuple[Any, ...]]:
    """`mobility.mobile=3,5` of `--over`: the name and its values, each read as TOML (bare words are strings)."""
    name, equals, values = text.partition("=")
    name = name.strip()
    if not equals or not values.strip():
        raise InputError(f"--over {text}: allowed is key=value,value,..., e.g. --over mobility.mobile=3,5")
    try:
        try:
            found = parse_toml(f"values = [{values}]")["values"]
        except tomllib.TOMLDecodeError:
            found = [parse_value(piece) for piece in _pieces(values)]
    except BeyondLimits as error:
        raise InputError(f"--over {name}: {error}") from None
    return name, _checked(name, found, f"--over {name}", distinct=True)


def _pieces(text: str) -> list[str]:
    """Text cut at its commas, but not within brackets or quotes; one that is never closed is a character as any."""
    pieces, start, at = [], 0, 0
    # what closes them is not to be found any more: looked for once, not at each of them
    unclosed: set[str] = set()
    while at < len(text):
        closing = _CLOSED_BY.get(text[at], "")
        if closing and closing not in unclosed:
            there = text.find(closing, at + 1)
            if there < 0:
                unclosed.add(closing)
            else:
                at = there
        elif text[at] == ",":
            pieces.append(text[start:at])
            start = at + 1
        at += 1
    return [*pieces, text[start:]]


def _checked(name: str, values: Any, where: str, *, distinct: bool) -> tuple[Any, ...]:
    """An axis' values, if its name is a setting and the values are a list that makes sense."""
    family, dot, rest = name.partition(".")
    own = [n for n in Experiment.model_fields if n not in FAMILIES]
    if name in ("seed", "seeds"):
        raise InputError(f"{where}: seeds are not varied like other settings; use seeds = 3, or --seeds 3")
    if name == "name":
        raise InputError(f"{where}: a name changes no result; allowed are settings that do")
    if family not in FAMILIES and (dot or name not in own):
        raise unknown("setting", name, [*own, *FAMILIES, *(f"{family}.kind" for family in FAMILIES)])
    if dot and not re.fullmatch(r"[A-Za-z0-9_-]+", rest):
        raise InputError(f"{where}: allowed is a setting (rounds), a part (mobility) or PART.KEY")
    if not isinstance(values, Sequence) or isinstance(values, str) or not values:
        raise InputError(f"{where} = {values!r}: allowed is a list of at least one value")
    if len(values) > MOST:
        raise InputError(f"{where}: {len(values)} values; allowed are up to {MOST}")
    if any(value == "" for value in values):
        raise InputError(f"{where}: an empty value; allowed is value,value,...")
    if dot and rest == "kind" and not all(isinstance(value, str) for value in values):
        raise InputError(f"{where} = {list(values)!r}: allowed are names of kinds")
    counts = Counter(label(value) for value in values)
    twice = next((text for text, count in counts.items() if count > 1), None)
    if distinct and twice is not None:
        raise InputError(f"{where}: the value {twice} stands there twice")
    return tuple(values)


def label(value: Any) -> Any:
    """A varied value as a table's column holds it: numbers, strings and booleans as they are, others as text.

    A whole part is told as `random(mobile=3)`, a list as JSON.
    """
    if isinstance(value, Mapping):
        inner = ", ".join(f"{k}={label(v)}" for k, v in value.items() if k != "kind")
        return f"{value.get('kind', '')}({inner})" if inner else str(value.get("kind", ""))
    if isinstance(value, bool | int | float | str):
        return value
    return json.dumps(value, default=str)
