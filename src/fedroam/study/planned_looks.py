"""The looks that are planned for a study, in `looks.json` of its folder: once planned, they stay.

Records tell them, too (see `kept`), but not every study has records, and a study whose looks were forgotten would be
judged at the full level by somebody who has already looked.
"""

from __future__ import annotations

from pathlib import Path

from fedroam.errors import InputError
from fedroam.facts import JsonObject, checked_facts
from fedroam.recording import read_json, write_json

FILE = "looks.json"


class _Planned(JsonObject):
    """`looks.json`; a folder may serve several studies and scales."""

    format: int
    looks: dict[str, list[int]]


def rising(looks: list[int], where: str) -> tuple[int, ...]:
    """Looks as they may be planned: rising numbers of seeds from 2. Raises InputError that names where they stand."""
    if looks != sorted({look for look in looks if look > 1}):
        raise InputError(f"{where}: damaged: looks = {tuple(looks)!r:.60}: allowed are rising numbers from 2")
    return tuple(looks)


def planned_looks(folder: Path, study: str, scale: str) -> tuple[int, ...]:
    """The looks that were planned in a study's folder, none where there were none. Raises InputError where the file is
    damaged."""
    return rising(_read(folder).get(_name(study, scale), []), str(folder / FILE))


def plan_looks(folder: Path, study: str, scale: str, looks: tuple[int, ...]) -> None:
    """Note in a study's folder, which is made if need be, that it is judged by these looks."""
    there, name = _read(folder), _name(study, scale)
    if there.get(name) != list(looks):
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / FILE, {"format": 1, "looks": {**there, name: list(looks)}})


def _name(study: str, scale: str) -> str:
    return f"{study}, scale {scale}"


def _read(folder: Path) -> dict[str, list[int]]:
    path = folder / FILE
    return checked_facts(read_json(path), _Planned, path).looks if path.exists() else {}
