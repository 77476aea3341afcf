"""How long the rounds of a run on a network took, in a file of its folder beside those that the run has written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field

from fedroam.errors import InputError
from fedroam.facts import JsonObject, checked_lines
from fedroam.writing import add_line

TOOK = "network.jsonl"


class RoundTime(JsonObject):
    """How long a round took on a network, s, and each kind of work in it."""

    round: int = Field(ge=1)
    seconds: float = Field(ge=0)
    work: dict[str, Annotated[float, Field(ge=0)]] = {}


def note_round(folder: Path, round: int, seconds: float, work: Mapping[str, float]) -> None:
    """Add a round to the file of a run folder that says how long rounds took on a network; of a round that is played
    again, the last line counts."""
    folder.mkdir(parents=True, exist_ok=True)
    line = {"round": round, "seconds": seconds, "work": dict(work)}
    add_line(folder / TOOK, json.dumps(line))


def read_times(path: Path) -> dict[int, RoundTime]:
    """How long each round took, by its number. Raises InputError where the file is damaged or missing."""
    try:
        return {each.round: each for each in checked_lines(path, RoundTime)}
    except FileNotFoundError as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
