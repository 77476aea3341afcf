"""What the files of a run folder must hold: one schema, checked when they are read, so that readers may rely on it."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field

from fedroam.errors import InputError
from fedroam.facts import JsonObject

if TYPE_CHECKING:
    import pandas as pd


class _File(JsonObject):
    bytes: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


def _within(files: dict[str, _File]) -> dict[str, _File]:
    for name in files:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
            raise ValueError(f"{name!r} lies outside the folder")
    return files


Manifest = Annotated[dict[str, _File], AfterValidator(_within)]


class Status(JsonObject):
    """`run.json`."""

    format: Literal[1]
    name: str
    variant: str
    order: int
    seed: int
    digest: str
    state: str
    round: int = Field(ge=0)
    rounds: int = Field(ge=0)
    diverged_at: int | None
    reason: str
    judged: list[str] = []
    models_at_rest: str = "float32"
    lost: str = ""
    files: Manifest = {}


Place = Annotated[list[float], Field(min_length=2, max_length=2)]


class WorldFile(JsonObject):
    """`world.json`."""

    bounds: list[float] = Field(min_length=4, max_length=4)
    reach: float | Literal["inf"]
    groups: list[str]
    classes: list[str]
    parameters: int = Field(ge=0)
    bytes_per_model: int = Field(ge=0)
    uses: list[str] = ["places", "contacts"]
    access_points: list[Place] = []
    access_point_ranges: list[float | None] = []
    distance_mean: float | None = None
    distance_std: float | None = None
    attackers: list[int] = []
    names: dict[str, list[str]] = {}
    matching: list[str] = []
    movement: str = ""


class _Source(JsonObject):
    file: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    needed: str = Field(
        "", pattern=r"^([0-9a-f]{64})?$"
    )  # of what parts need of the file, where that is told apart


class _Stretch(JsonObject):
    where: Literal["simulation", "network"]
    round: int = Field(ge=1)


class Environment(JsonObject):
    """`environment.json`."""

    packages: dict[str, str] = {}
    data: dict[str, Any] = {}
    files: dict[str, dict[str, Any]] = {}
    code: dict[str, _Source] = {}
    where: str = ""
    earlier: list[_Stretch] = []


class Settings(JsonObject):
    """`experiment.toml`: what analysis reads of every experiment. Sections are parts, each with its kind."""

    name: str
    seed: int
    clients: int = Field(ge=1)
    rounds: int = Field(ge=0)
    evaluate_every: int = Field(ge=1)


# The columns that readers rely on, with the kinds of numpy's types that they may have: i, u, f are numbers.
_WHOLE, _NUMBER, _ANY_NUMBER, _TRUTH, _TEXT = "iu", "iuf", "biuf", "biu", "OUTS"
COLUMNS: dict[str, dict[str, str]] = {
    "rounds": {"round": _WHOLE, "accuracy": _NUMBER, "loss": _NUMBER, "seconds": _NUMBER},
    "clients": {
        "round": _WHOLE,
        "client": _WHOLE,
        "group": _TEXT,
        "accuracy": _NUMBER,
        "x": _NUMBER,
        "y": _NUMBER,
    },
    "positions": {"round": _WHOLE, "client": _WHOLE, "x": _NUMBER, "y": _NUMBER, "present": _TRUTH},
    "contacts": {"round": _WHOLE, "i": _WHOLE, "j": _WHOLE},
    "matrices": {"round": _WHOLE, "name": _TEXT, "i": _WHOLE, "j": _WHOLE, "value": _NUMBER},
    "schedule": {"round": _WHOLE, "client": _WHOLE, "state": _TEXT, "begin": _NUMBER, "end": _NUMBER},
    "meter": {
        "process": _WHOLE,
        "piece": _WHOLE,
        "monotonic": _NUMBER,
        "wall": _NUMBER,
        "watt": _NUMBER,
        "joule": _NUMBER,
    },
    "work": {
        "client": _WHOLE,
        "process": _WHOLE,
        "round": _WHOLE,
        "what": _TEXT,
        "begin": _NUMBER,
        "end": _NUMBER,
    },
    "partition": {"client": _WHOLE, "part": _TEXT, "class": _TEXT, "samples": _WHOLE},
}


# What is there only where clients have names.
NAMES = {"device": _TEXT, "site": _TEXT}


def checked_table(table: pd.DataFrame, name: str, path: Path) -> pd.DataFrame:
    """The table, where it has the columns that readers rely on; otherwise InputError that names file and column."""
    for column in COLUMNS[name]:
        if column not in table:
            raise InputError(
                f"{path}: damaged: column {column!r} is missing; found {', '.join(map(str, table))}"
            )
    for label, held in table.dtypes.items():
        # What a federation adds are numbers.
        known = COLUMNS[name] | (NAMES if name == "clients" else {})
        if held.kind not in known.get(str(label), _ANY_NUMBER):
            raise InputError(f"{path}: damaged: column {str(label)!r} holds {held}")
    if name == "rounds" and table.empty:  # round 0 is always there
        raise InputError(f"{path}: damaged: it holds no round")
    return table
