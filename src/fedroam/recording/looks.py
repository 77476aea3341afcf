"""What devices of a network found out of where they were, round by round, in a file of its run folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from fedroam.errors import InputError
from fedroam.facts import JsonObject, checked_lines
from fedroam.writing import add_line

LOOKS = "looks.jsonl"
Names = dict[str, Annotated[float, Field(allow_inf_nan=False)]]


class Looked(JsonObject):
    """A round's: by device, who answered it, and the median time that took (s); how strongly it heard whose Wi-Fi it
    has joined (dBm); and which access point it belongs to. Whom nobody answers is left out. told: peers that were
    there, whoever answered them."""

    round: int = Field(ge=0)
    seconds: dict[str, Names] = {}
    signal: dict[str, Names] = {}
    belongs: dict[str, str] = {}
    told: list[str] = []

    @property
    def present(self) -> set[str]:
        """Who was there."""
        return {*self.belongs} or {*self.told, *self.seconds}

    @property
    def met(self) -> list[tuple[str, str]]:
        """Pairs of which each has answered the other."""
        return [
            (one, other)
            for one, heard in self.seconds.items()
            for other in heard
            if one < other and one in self.seconds.get(other, ())
        ]


def note_looks(
    folder: Path,
    round: int,
    seconds: Mapping[str, Mapping[str, float]],
    signal: Mapping[str, Mapping[str, float]],
    belongs: Mapping[str, str],
    told: Sequence[str] = (),
) -> None:
    """Add a round to the file of a run folder; of a round that is played again, the last line counts."""
    line: dict[str, object] = {"round": round, "seconds": seconds, "signal": signal, "belongs": belongs}
    line |= {"told": [*told]} if told else {}
    add_line(folder / LOOKS, json.dumps(line))


def read_looks(path: Path) -> dict[int, Looked]:
    """What was found out in each round, by its number. Raises InputError where the file is damaged or missing."""
    try:
        found = {each.round: each for each in checked_lines(path, Looked)}
    except FileNotFoundError as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    return dict(sorted(found.items()))
