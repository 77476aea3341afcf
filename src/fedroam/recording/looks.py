"""What devices of a network found out of where they were, round by round, in a file of its run folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field

from fedroam.errors import InputError
from fedroam.facts import JsonObject, checked_lines

LOOKS = "looks.jsonl"
Names = dict[str, Annotated[float, Field(allow_inf_nan=False)]]


class Looked(JsonObject):
    """A round's: by device, who answered it, and the median time that took (s); how strongly it heard whose Wi-Fi it
    has joined (dBm); and which access point it belongs to. Whom nobody answers is left out."""

    round: int = Field(ge=0)
    seconds: dict[str, Names] = {}
    signal: dict[str, Names] = {}
    belongs: dict[str, str] = {}


def note_looks(
    folder: Path,
    round: int,
    seconds: Mapping[str, Mapping[str, float]],
    signal: Mapping[str, Mapping[str, float]],
    belongs: Mapping[str, str],
) -> None:
    """Add a round to the file of a run folder; of a round that is played again, the last line counts. A line that a
    kill has left half written goes."""
    path = folder / LOOKS
    path.touch()
    line = {"round": round, "seconds": seconds, "signal": signal, "belongs": belongs}
    with path.open("r+b") as file:
        file.truncate(file.read().rfind(b"\n") + 1)
        file.seek(0, 2)
        file.write(json.dumps(line).encode() + b"\n")


def read_looks(path: Path) -> dict[int, Looked]:
    """What was found out in each round, by its number. Raises InputError where the file is damaged or missing."""
    try:
        found = {each.round: each for each in checked_lines(path, Looked)}
    except FileNotFoundError as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    return dict(sorted(found.items()))
