"""What a project keeps of a study's runs: every number and curve that its items asked for, without the run folders.

`runs.jsonl` has a line for each run: variant, seed, digest of its settings, numbers by the names of measures, curves,
seconds; before them a line on the study and on every sitting in which runs were computed. A study goes on from there: a
run that is kept is not computed again, so that days of computing may be gathered over many sittings.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import ValidationError

from fedroam.errors import InputError
from fedroam.facts import Facts, checked_facts
from fedroam.recording import write_text

FORMAT = 1
FILE = "runs.jsonl"


class _Head(Facts):
    format: int
    study: str
    scale: str
    sittings: list[dict[str, Any]]


class _Line(Facts):
    variant: str
    seed: int
    digest: str
    diverged_at: int | None
    seconds: float | None
    numbers: dict[str, list[float | str]]
    curves: dict[str, dict[str, list[float | int | str]]]


@dataclass(frozen=True)
class RunRecord:
    """What is kept of a run: see the module. numbers: the least that each can be, and the number."""

    variant: str
    seed: int
    digest: str
    diverged_at: int | None = None
    seconds: float | None = None
    numbers: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    curves: Mapping[str, pd.Series] = field(default_factory=dict)

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
    """The runs that are kept of a study at a scale, by digest, and the sittings in which they were computed."""

    study: str
    scale: str
    runs: Mapping[str, RunRecord] = field(default_factory=dict)
    sittings: tuple[Mapping[str, Any], ...] = ()


def read_records(folder: Path, study: str, scale: str) -> Records:
    """The records in a folder; none where there is no file yet.

    Raises InputError, with file and line, where they are damaged or of another study or scale.
    """
    path = folder / FILE
    if not path.exists():
        return Records(study, scale)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        values = [json.loads(line, parse_constant=_refused) for line in lines]
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: damaged: {error}") from None
    if not values or not all(isinstance(value, dict) for value in values):
        raise InputError(f"{path}: damaged: every line must be a JSON object, the first one on the study")
    head, rest = values[0], values[1:]
    checked_facts(head, _Head, path)
    if (head["format"], head["study"], head["scale"]) != (FORMAT, study, scale):
        raise InputError(
            f"{path}: records of format {head['format']}, study {head['study']}, scale {head['scale']}; "
            f"wanted are format {FORMAT}, study {study}, scale {scale}"
        )
    runs: dict[str, RunRecord] = {}
    for number, value in enumerate(rest, start=2):
        checked_facts(value, _Line, Path(f"{path}, line {number}"))
        try:
            run = _record(value)
        except (KeyError, ValueError, TypeError, ValidationError) as error:
            raise InputError(f"{path}, line {number}: damaged: {error}") from None
        if run.digest in runs:
            raise InputError(f"{path}, line {number}: run {run.variant}, seed {run.seed} is there twice")
        runs[run.digest] = run
    return Records(study, scale, runs, tuple(head["sittings"]))


def _refused(word: str) -> float:
    raise ValueError(f"{word} is no number")


def _record(value: Mapping[str, Any]) -> RunRecord:
    numbers = {}
    for name, found in value["numbers"].items():
        if not 1 <= len(found) <= 2:
            raise ValueError(f"numbers of {name!r} = {found}: allowed are one or two")
        least, most = float(found[0]), float(found[-1])
        numbers[name] = (least, most)
    curves = {}
    for name, curve in value["curves"].items():
        curves[name] = pd.Series([float(one) for one in curve["values"]], index=curve["rounds"])
    return RunRecord(
        value["variant"],
        value["seed"],
        value["digest"],
        value["diverged_at"],
        value["seconds"],
        numbers,
        curves,
    )


def write_records(folder: Path, records: Records) -> Path:
    """Write records into a folder, by variant and seed; returns the file."""
    head = {
        "format": FORMAT,
        "study": records.study,
        "scale": records.scale,
        "sittings": [dict(sitting) for sitting in records.sittings],
    }
    runs = sorted(records.runs.values(), key=lambda run: (run.variant, run.seed))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    write_text(path, "".join(f"{_text(line)}\n" for line in (head, *map(_line, runs))))
    return path


def _text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False)


def _line(run: RunRecord) -> dict[str, Any]:
    return {
        "variant": run.variant,
        "seed": run.seed,
        "digest": run.digest,
        "diverged_at": run.diverged_at,
        "seconds": run.seconds,
        "numbers": {
            name: [_plain(least)] if least == most else [_plain(least), _plain(most)]
            for name, (least, most) in sorted(run.numbers.items())
        },
        "curves": {
            name: {"rounds": [int(k) for k in curve.index], "values": [_rounded(v) for v in curve]}
            for name, curve in sorted(run.curves.items())
        },
    }


def _plain(value: float) -> float | str:
    """A number as JSON knows it; those that it does not know as text."""
    return value if math.isfinite(value) else str(value)


def _rounded(value: float) -> float | str:
    """Six digits: a curve is drawn, not reckoned with."""
    return _plain(float(f"{value:.6g}"))


def merged(old: Records, found: Iterable[RunRecord], sitting: Mapping[str, Any] | None = None) -> Records:
    """Records with more runs; what is known of a run twice is put together, the newer one first."""
    runs = dict(old.runs)
    for run in found:
        known = runs.get(run.digest, run)
        numbers, curves = {**known.numbers, **run.numbers}, {**known.curves, **run.curves}
        seconds = known.seconds if run.seconds is None else run.seconds
        runs[run.digest] = RunRecord(
            run.variant, run.seed, run.digest, run.diverged_at, seconds, numbers, curves
        )
    sittings = old.sittings if sitting is None else (*old.sittings, sitting)
    return Records(old.study, old.scale, runs, sittings)
