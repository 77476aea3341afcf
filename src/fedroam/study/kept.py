"""What a project keeps of a study's runs: every number and curve that its items asked for, without the run folders.

`runs.jsonl` has a line for each run: variant, seed, digest of its settings, seconds, numbers of measures, curves, and,
where there is something to say, in which round it diverged, that it ran on a network, and the sums of the source of
parts of the user's own; before them a line on the study, on how it is judged (so many seeds, planned looks), on every
sitting in which runs were computed, and with the names of all measures and the machines of the sittings, told by whose
places there (from 0) they are.
A study goes on from there: a run that is kept is not computed again, so that days of computing may be gathered over
many sittings. What the runs come to stands beside them (see `kept_files`).
"""

from __future__ import annotations

import contextlib
import json
import math
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import Discriminator, Field, Tag

from fedroam.errors import InputError
from fedroam.facts import JsonObject, checked_facts, json_object, own_text
from fedroam.recording import take_lock, write_text
from fedroam.study.planned_looks import rising

FORMAT = 4
# Those that are read: the first has all rounds one by one, and says where nothing diverged; the first two have the name
# of its measure beside each number, which were a quarter of the file; the first three have the machine in each sitting,
# and say where a run has no curves.
FORMATS = (1, 2, 3, FORMAT)
FILE = "runs.jsonl"
# Where a run was computed: by one process, or by the nodes of a network.
Where = Literal["simulation", "network"]
SIMULATION: Where = "simulation"


# Runs, and core hours, by which it is told how long others will take: a sitting of very short ones tells little.
RECENT, RECENT_HOURS = 20, 1.0
KEEPING = 600.0  # seconds that a sitting waits for another one that writes into the same folder
MOST_SEEDS = 10_000
MOST_SECONDS = 1e12
MOST_ROUNDS = 10**9


_Place = Annotated[int, Field(ge=0)]  # in a list of the head


class _Sitting(JsonObject, allow_inf_nan=False):
    command: str = ""
    runs: int = Field(default=0, ge=0)
    hours: float = Field(default=0.0, ge=0, le=MOST_SECONDS)
    environment: Annotated[
        Annotated[dict[str, Any], Tag("object")] | Annotated[_Place, Tag("place")],
        Discriminator(lambda told: "object" if isinstance(told, dict) else "place"),
    ] = {}
    source: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None  # SHA-256 of a user's study file


class _Head(JsonObject, allow_inf_nan=False):
    format: int
    study: str
    scale: str
    sittings: list[_Sitting]
    environments: list[dict[str, Any]] = []
    names: list[str] = []
    seeds: int = Field(default=0, ge=0, le=MOST_SEEDS)
    looks: list[int] = []


class _Rounds(JsonObject):
    """Rounds at equal distances, both ends among them: one by one they would be a tenth of the file."""

    first: int = Field(ge=0, le=MOST_ROUNDS)
    last: int = Field(ge=0, le=MOST_ROUNDS)
    every: int = Field(ge=1, le=MOST_ROUNDS)


class _Curve(JsonObject, allow_inf_nan=False):
    rounds: Annotated[
        Annotated[list[int], Tag("list")] | Annotated[_Rounds, Tag("object")],
        Discriminator(lambda told: "list" if isinstance(told, list) else "object"),
    ]
    values: list[float | Literal["nan", "inf", "-inf"]]


class _Line(JsonObject, allow_inf_nan=False):
    variant: str
    seed: int = Field(ge=0, lt=MOST_SEEDS)
    digest: str
    diverged_at: int | None = None
    seconds: float | None = Field(ge=0, le=MOST_SECONDS)
    numbers: dict[str, list[float | Literal["nan", "inf", "-inf"]]]
    curves: dict[str, _Curve] = {}
    where: Where = SIMULATION
    code: list[Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]] = []


def run_key(digest: str, where: Where = SIMULATION) -> str:
    """By what a run is known among others: the digest of its settings and, where it was not simulated, where it ran."""
    return digest if where == SIMULATION else f"{digest}@{where}"


@dataclass(frozen=True)
class RunRecord:
    """What is kept of a run: see the module. numbers: the least that each can be, and the number. code: the SHA-256 of
    the source of parts of the user's own by which it was computed (see `recording.code_sums`); empty where it had none,
    and in lines of before that was kept."""

    variant: str
    seed: int
    digest: str
    diverged_at: int | None = None
    seconds: float | None = None
    numbers: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    curves: Mapping[str, pd.Series] = field(default_factory=dict)
    where: Where = SIMULATION
    code: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """By what it is known among others."""
        return run_key(self.digest, self.where)

    @property
    def status(self) -> dict[str, Any]:
        """As far as a study asks for it, what `run.json` says."""
        return {"digest": self.digest, "diverged_at": self.diverged_at}

    @property
    def done(self) -> bool:
        """Only finished runs are kept."""
        return True


@dataclass(frozen=True)
class Records:
    """The runs that are kept of a study at a scale, by their keys, and the sittings in which they were computed.

    seeds: how many of each variant the study was judged by, 0 where it has not been; looks: the planned ones where it
    was judged while it grew (see `analysis.statistics.looks`): once planned, they stay.
    """

    study: str
    scale: str
    runs: Mapping[str, RunRecord] = field(default_factory=dict)
    sittings: tuple[Mapping[str, Any], ...] = ()
    seeds: int = 0
    looks: tuple[int, ...] = ()

    @property
    def hours(self) -> float:
        """Core hours that the kept runs took, as far as that is known."""
        return sum(run.seconds or 0.0 for run in self.runs.values()) / 3600

    @property
    def recent_seconds(self) -> float | None:
        """Core-seconds of a run in the last sittings, of which so many are looked at that they hold `RECENT` runs and
        `RECENT_HOURS`, or all: fedroam becomes faster, and is run on several machines. None where nothing is known."""
        runs, hours = 0, 0.0
        for sitting in reversed(self.sittings):
            if runs < RECENT or hours < RECENT_HOURS:
                runs += int(sitting.get("runs", 0))
                hours += float(sitting.get("hours", 0.0))
        return 3600 * hours / runs if runs and hours else None

    @property
    def source(self) -> str | None:
        """The SHA-256 of the user's study file by which the last runs were kept; None where none is told."""
        told = [sitting.get("source") for sitting in self.sittings]
        return next((sum for sum in reversed(told) if sum is not None), None)

    def judged_by(self, seeds: int, looks: tuple[int, ...] = ()) -> Records:
        """The same, judged by so many seeds, or by more where it was."""
        return replace(self, seeds=max(seeds, self.seeds), looks=looks or self.looks)


def read_records(folder: Path, study: str, scale: str) -> Records:
    """The records in a folder; none where there is no file yet.

    Raises InputError, with file and line, where they are damaged or of another study or scale.
    """
    path = folder / FILE
    if not path.exists():
        return Records(study, scale)
    try:
        lines = own_text(path).removesuffix("\n").split("\n")
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: damaged: {error}") from None
    head = _read(lines[0], _Head, path, 1)
    if head["format"] not in FORMATS or (head["study"], head["scale"]) != (study, scale):
        raise InputError(
            f"{path}: records of format {head['format']}, study {head['study']!r:.60}, scale {head['scale']!r:.60}; "
            f"wanted are format {FORMAT}, study {study}, scale {scale}"
        )
    looks = rising(head.get("looks", []), f"{path}, line 1")
    names = {str(k): name for k, name in enumerate(head.get("names", []))} if head["format"] > 2 else None
    runs: dict[str, RunRecord] = {}
    for number, line in enumerate(lines[1:], start=2):
        value = _read(line, _Line, path, number)
        try:
            run = _record(value, names)
        except ValueError as error:
            raise InputError(f"{path}, line {number}: damaged: {error}") from None
        if run.key in runs:
            raise InputError(
                f"{path}, line {number}: run {run.variant!r:.60}, seed {run.seed}, is there twice"
            )
        runs[run.key] = run
    try:
        sittings = tuple(_with_machine(sitting, head.get("environments", [])) for sitting in head["sittings"])
    except ValueError as error:
        raise InputError(f"{path}, line 1: damaged: {error}") from None
    return Records(study, scale, runs, sittings, head.get("seeds", 0), looks)


def _read(line: str, schema: type[JsonObject], path: Path, number: int) -> dict[str, Any]:
    """A line of the file. Raises InputError that names it."""
    where = Path(f"{path}, line {number}")
    try:
        value = json_object(line)
        if "\\ud" in line.lower():  # half a character by its number could not be written again
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError as error:
        raise InputError(f"{where}: damaged: no JSON: {error.msg} at character {error.pos}") from None
    except ValueError as error:
        raise InputError(f"{where}: damaged: {error}") from None
    checked_facts(value, schema, where)
    return value


def _with_machine(sitting: Mapping[str, Any], machines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A sitting that has the machine in which it was, as is told by its place among them, or, in old records, whole."""
    told = sitting.get("environment")
    if not isinstance(told, int):
        return dict(sitting)
    if told >= len(machines):
        raise ValueError(f"a sitting in environment {told}, told are {len(machines)}, from 0 on")
    return {**sitting, "environment": machines[told]}


def _record(value: Mapping[str, Any], names: Mapping[str, str] | None) -> RunRecord:
    """A run from its line. names: of measures, by how its numbers name them; None where they do by those themselves."""
    numbers = {}
    for key, found in value["numbers"].items():
        if names is not None and key not in names:
            raise ValueError(f"a number of measure {key!r:.60}, named are {len(names)}, from 0 on")
        name = key if names is None else names[key]
        if not 1 <= len(found) <= 2:
            raise ValueError(f"numbers of {name!r:.60}: found {len(found)}, allowed are one or two")
        least, most = float(found[0]), float(found[-1])
        if least > most:
            raise ValueError(f"numbers of {name!r:.60} = {found}: the least is above the most")
        numbers[name] = (least, most)
    curves = {}
    for name, curve in value.get("curves", {}).items():
        rounds = _all_rounds(curve["rounds"])
        if len(curve["values"]) != len(rounds):
            raise ValueError(f"curve {name!r:.60}: {len(curve['values'])} values of {len(rounds)} rounds")
        values = [float(one) for one in curve["values"]]
        curves[name] = pd.Series(values, index=list(rounds), dtype=float)
    told = {name: value[name] for name in RunRecord.__dataclass_fields__ if name in value}
    code = tuple(value.get("code", ()))
    return RunRecord(**told | {"numbers": numbers, "curves": curves, "code": code})


def _all_rounds(told: list[int] | Mapping[str, int]) -> Sequence[int]:
    """The rounds that a curve tells, one by one or by their ends; nothing is built of them yet."""
    if isinstance(told, list):
        return told
    first, last, every = told["first"], told["last"], told["every"]
    rounds = range(first, last + 1, every)
    if not rounds or rounds[-1] != last:
        raise ValueError(f"rounds from {first} to {last} by {every}: the last one is none of them")
    return rounds


def _in_short(rounds: list[int]) -> list[int] | dict[str, int]:
    """Rounds by their ends where there are three or more at equal distances."""
    if len(rounds) > 2:
        first, last, every = rounds[0], rounds[-1], rounds[1] - rounds[0]
        if first >= 0 and every > 0 and rounds == list(range(first, last + 1, every)):
            return {"first": first, "last": last, "every": every}
    return rounds


def _in_order(records: Records) -> list[RunRecord]:
    """The runs as they are written: by variant and seed."""
    return sorted(records.runs.values(), key=lambda run: (run.variant, run.seed))


def line_numbers(records: Records) -> dict[str, int]:
    """The line of `runs.jsonl` in which each run stands, by its key, counted from 1."""
    return {
        run.key: number for number, run in enumerate(_in_order(records), start=2)
    }  # the head is the first


def write_records(folder: Path, records: Records) -> Path:
    """Write records into a folder, by variant and seed; returns the file."""
    runs = _in_order(records)
    names = sorted({name for run in runs for name in run.numbers})
    places = {name: str(place) for place, name in enumerate(names)}
    machines: list[Any] = []
    sittings = []
    for sitting in map(dict, records.sittings):
        if (machine := sitting.get("environment")) is not None:
            if machine not in machines:
                machines.append(machine)
            sitting["environment"] = machines.index(machine)
        sittings.append(sitting)
    head = {
        "format": FORMAT,
        "study": records.study,
        "scale": records.scale,
        "seeds": records.seeds,
        "looks": list(records.looks),
        "sittings": sittings,
        "environments": machines,
        "names": names,
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    write_text(path, "".join(f"{_text(line)}\n" for line in (head, *(_line(run, places) for run in runs))))
    return path


@contextlib.contextmanager
def to_write_records(folder: Path) -> Iterator[None]:
    """While it lasts, no other sitting writes into a folder of records, which is made if need be: what is to be written
    is to be read within, or what others kept since would be lost. Raises InputError where one writes for long."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = take_lock(folder / ".lock", KEEPING)
    if lock is None:
        raise InputError(
            f"{folder}: another process has been keeping runs there for {KEEPING:g} s; wait for it"
        )
    with lock:
        yield


def _text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def _line(run: RunRecord, places: Mapping[str, str]) -> dict[str, Any]:
    curves = {  # four digits: they are drawn, not reckoned with
        name: {
            "rounds": _in_short([int(k) for k in curve.index]),
            "values": [_plain(float(f"{v:.4g}")) for v in curve],
        }
        for name, curve in sorted(run.curves.items())
    }
    return {
        "variant": run.variant,
        "seed": run.seed,
        "digest": run.digest,
        **({} if run.where == SIMULATION else {"where": run.where}),
        **({"code": list(run.code)} if run.code else {}),
        **({} if run.diverged_at is None else {"diverged_at": run.diverged_at}),
        "seconds": run.seconds,
        "numbers": {
            places[name]: [_plain(least)] if least == most else [_plain(least), _plain(most)]
            for name, (least, most) in sorted(run.numbers.items())
        },
        **({"curves": curves} if curves else {}),
    }


def _plain(value: float) -> float | str:
    """A number as JSON knows it; those that it does not know as text."""
    return value if math.isfinite(value) else str(value)


def merged(old: Records, found: Iterable[RunRecord], sitting: Mapping[str, Any] | None = None) -> Records:
    """Records with more runs; what is known of a run twice is put together, the newer one first."""
    runs = dict(old.runs)
    for run in found:
        known = runs.get(run.key, run)
        numbers, curves = {**known.numbers, **run.numbers}, {**known.curves, **run.curves}
        seconds = known.seconds if run.seconds is None else run.seconds
        runs[run.key] = replace(run, seconds=seconds, numbers=numbers, curves=curves)
    sittings = old.sittings if sitting is None else (*old.sittings, sitting)
    return replace(old, runs=runs, sittings=sittings)


# Options that say where and how fast something is computed, not what.
_ABOUT_THE_MACHINE = ("--out", "--ray", "--workers")


def without_machine(command: str) -> str:
    """A command line without what is this machine's alone: folders and addresses; of a path the last part stays."""
    words, kept, skip = shlex.split(command), [], False
    for word in words:
        if skip or word in _ABOUT_THE_MACHINE:
            skip = not skip
        else:
            kept.append(Path(word).name if Path(word).is_absolute() else word)
    return shlex.join(kept)
