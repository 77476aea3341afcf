"""Raw settings, before an experiment is made of them: read from a file, given by `--set`, laid over each other."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from fedroam.components import FAMILIES, Part, kinds
from fedroam.errors import InputError, unknown
from fedroam.facts import NESTING, TOO_DEEP, BeyondLimits, text_of, within_limits
from fedroam.writing import checked_name

Settings = dict[str, Any]


def named_experiments() -> dict[str, Path]:
    """The experiments that come with fedroam, by name."""
    folder = Path(str(resources.files("fedroam"))) / "experiments"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def read_settings(source: str | Path) -> tuple[Settings, str]:
    """The raw settings of an experiment file or of a named experiment, and how to call it in messages."""
    path, named = checked_name(source, "experiment"), named_experiments()
    if str(source) in named:
        path = named[str(source)]
    elif not _answers(path, Path.is_file):
        if _answers(path, Path.is_dir):
            raise InputError(
                f"{source}: is a folder; allowed is an experiment file (TOML), or the name of one"
            )
        if path.is_symlink():
            raise InputError(f"{source}: is a link to {str(path.readlink())!r}, which leads to no file")
        if path.suffix == "" and path.parent == Path():
            raise unknown("experiment", str(source), named)
        raise InputError(f"{source}: no such experiment file (named experiments: {', '.join(named)})")
    try:
        text = text_of(path.read_bytes(), source)
    except OSError as error:
        raise InputError(f"{source}: cannot be read: {error.strerror or error}") from None
    try:
        return parse_toml(text), str(source)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{source}: not valid TOML: {error}") from None
    except BeyondLimits as error:
        raise InputError(f"{source}: {error}") from None


def parse_toml(text: str) -> Settings:
    """The tables of a TOML text, nested no deeper than `NESTING`, integers of 64 bits.

    Raises TOMLDecodeError where it is no TOML, and `BeyondLimits`; both are ValueErrors.
    """
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise BeyondLimits(TOO_DEEP) from None
    except ValueError as error:  # Python's own limit to the digits of an integer
        raise BeyondLimits(f"an integer beyond 64 bits ({error})") from None
    within_limits(found)
    return found


def _answers(path: Path, asked: Callable[[Path], bool]) -> bool:
    """Whether there is such a file or folder; there is none of a name that the system does not take."""
    try:
        return asked(path)
    except (OSError, ValueError):
        return False


def parse_value(text: str) -> Any:
    """A value of the command line, read as TOML; a bare word is a string. Raises `BeyondLimits`."""
    try:
        return parse_toml(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text.strip()


def parse_assignment(text: str) -> tuple[list[str], Any]:
    """`a.b=value` of `--set`: the path of keys and the value, read as TOML (bare words are strings)."""
    name, equals, value = text.partition("=")
    keys = [part.strip() for part in name.split(".")]
    if not equals or not all(re.fullmatch(r"[A-Za-z0-9_-]+", part) for part in keys):
        raise InputError(f"--set {text}: allowed is key=value, e.g. --set mobility.mobile=3")
    if len(keys) > NESTING:
        raise InputError(f"--set: a key of {len(keys)} parts; allowed are {NESTING}")
    try:
        return keys, parse_value(value)
    except BeyondLimits as error:
        raise InputError(f"--set {'.'.join(keys)}: {error}") from None


def nest(keys: Sequence[str], value: Any) -> Any:
    """`["a", "b"], 1` as `{"a": {"b": 1}}`; no keys: the value itself."""
    for part in reversed(keys):
        value = {part: value}
    return value


def overlay(settings: Mapping[str, Any], changes: Mapping[str, Any], notes: list[str]) -> Settings:
    """`changes` laid over `settings`. A section that changes its kind keeps the keys the new kind knows too.

    Keys of the old kind that the new one lacks are dropped, and `notes` says so: nothing is ignored silently.
    """
    result = {k: dict(v) if isinstance(v, Mapping) else v for k, v in settings.items()}
    for name, change in changes.items():
        if name not in FAMILIES:
            result[name] = change
            continue
        before = result.get(name, {})
        before = {"kind": before} if isinstance(before, str) else before
        change = {"kind": change} if isinstance(change, str) else change
        if not isinstance(change, Mapping) or not isinstance(before, Mapping):
            result[name] = change
            continue
        old, new = (m.get("kind", FAMILIES[name].default) for m in (before, {**before, **change}))
        if new != old and isinstance(new, str) and new in kinds(name):
            fields = kinds(name)[new].model_fields
            dropped = [k for k in before if k != "kind" and k not in fields]
            if dropped:
                notes.append(f"{name} kind {new!r} has no {', '.join(dropped)}: left out")
            before = {k: v for k, v in before.items() if k in fields}
        result[name] = {**before, **change}
    return result


def kind_in(settings: Mapping[str, Any], family: str) -> str:
    """The kind that settings give a family: the one they name, or its default."""
    section = settings.get(family, {})
    if isinstance(section, Part):
        return section.kind
    return str(section.get("kind", FAMILIES[family].default) if isinstance(section, Mapping) else section)


def plain_parts(settings: Mapping[str, Any]) -> Settings:
    """Settings in which part objects have become tables, so that others can be laid over them."""
    return {k: v.settings() if isinstance(v, Part) else v for k, v in settings.items()}
