"""The folder of a sweep: what was asked, what became of each run, and one table over all of them."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from fedroam.checks.arguments import check_fields, checked
from fedroam.errors import InputError
from fedroam.facts import JsonObject, checked_facts
from fedroam.planning import SweepPlan
from fedroam.recording import (
    FileFacts,
    Manifest,
    Run,
    changed_files,
    check_summed,
    lasting,
    open_run,
    read_json,
    write_summed,
    write_text,
)

if TYPE_CHECKING:
    import pandas as pd

FILE, SOURCE = "sweep.json", "sweep.toml"
RUNS = "runs"
DIGEST = r"[0-9a-f]{64}"
# Columns of whole numbers, also where some run has none yet.
_WHOLE = ("round", "rounds", "diverged_at", "isolated", "active", "bytes", "bytes_up", "bytes_down")
PAUSE = 2.0  # seconds between two writings of sweep.json; failures are written at once


class _Row(JsonObject):
    keys: dict[str, str | int | float | bool | None]
    seed: int  # as it was asked for; of a refused combination it may be any
    digest: str = Field(pattern=rf"^({DIGEST})?$")  # it names a folder
    reason: str = ""


class _Record(JsonObject):
    state: str = ""
    reason: str = ""
    anew: bool = False  # it is to be begun anew, and has not come to its first round
    cpu_seconds_before: float = 0.0  # in sittings that were broken off by Ctrl-C


class _Asked(JsonObject):
    """`sweep.json`."""

    name: str
    varied: list[str]
    runs: list[_Row]
    records: dict[str, _Record]
    files: Manifest = {}


def run_folder(root: Path, digest: str) -> Path:
    """Where a run lies."""
    return root / RUNS / digest[:16]


class Ledger:
    """Writes `sweep.json`: the runs that were asked for, and by digest what became of those that were tried.

    A finished run also says so itself, in its own folder; the ledger is what remembers reasons of failure.
    """

    def __init__(self, root: Path, plan: SweepPlan, records: Mapping[str, Any]) -> None:
        self.path = root / FILE
        rows: list[dict[str, Any]] = [
            {"keys": dict(run.keys), "seed": run.experiment.seed, "digest": run.experiment.digest}
            for run in plan.runs
        ]
        rows += [
            {"keys": dict(row.keys), "seed": row.seed, "digest": "", "reason": row.reason}
            for row in plan.refused
        ]
        self.content: dict[str, Any] = {
            "format": 1,
            "name": plan.name,
            "varied": list(plan.varied),
            "runs": rows,
            "records": dict(records),
            "files": {},
        }
        self._written = 0.0

    def write_source(self, source: str) -> None:
        """Write `sweep.toml`, and note its sum: after what was promised of another one, or a kill would break that."""
        path, facts = self.path.with_name(SOURCE), FileFacts.of(source.encode("utf-8"))
        if not path.is_file() or FileFacts.on_disk(path) != facts:
            self.write()
            write_text(path, source)
        self.content["files"] = {SOURCE: facts.listed()}

    def note(self, digest: str, now: bool = False, **facts: Any) -> None:
        """Change what is known of a run; written soon, or at once with `now`."""
        self.content["records"].setdefault(digest, {}).update(facts)
        if now or time.monotonic() - self._written > PAUSE:
            self.write()

    def spent(self, digest: str) -> float:
        """The seconds of the processor that sittings which were broken off by Ctrl-C have spent on a run."""
        return float(self.content["records"].get(digest, {}).get("cpu_seconds_before", 0.0))

    def write(self) -> None:
        """Write `sweep.json`, with a SHA-256 over everything else that it says."""
        write_summed(self.path, self.content)
        self._written = time.monotonic()


def check_digest(run: Run, digest: str) -> None:
    """Raise InputError where the folder of a sweep's run holds another run."""
    found = str(run.status["digest"])
    if found != digest:
        raise InputError(
            f"{run.folder / 'run.json'}: digest = {found[:16]}, of other settings; this folder of the sweep is that of "
            f"{digest[:16]}. Move it away, and the sweep computes that run again"
        )


@dataclass(frozen=True)
class SweptRun:
    """One row of a sweep: its varied settings by dotted name, its seed and digest, and what became of it.

    state: done, failed (reason says why), interrupted, running or waiting. The digest is '' where the combination
    was no valid experiment. run: its folder, None before it has begun.
    """

    keys: Mapping[str, Any]
    seed: int
    digest: str
    state: str
    reason: str
    run: Run | None


@dataclass(frozen=True)
class Sweep:
    """A sweep's folder, finished or not. Tables are read when first asked for."""

    folder: Path

    def __post_init__(self) -> None:
        check_fields(self, folder="a Path; open_sweep(...) takes a name, too")

    @cached_property
    def info(self) -> dict[str, Any]:
        """`sweep.json`."""
        return read_json(self.folder / FILE)

    @property
    def name(self) -> str:
        """Name of the experiment."""
        return str(self.info["name"])

    @property
    def varied(self) -> tuple[str, ...]:
        """The names of the varied settings: columns of both tables."""
        return tuple(self.info["varied"])

    @cached_property
    def runs(self) -> tuple[SweptRun, ...]:
        """One entry for each combination and seed, in the order of the plan; equal runs share a folder."""
        opened: dict[str, tuple[str, str, Run | None]] = {}
        rows = []
        for row in self.info["runs"]:
            digest = row["digest"]
            if digest not in opened:
                opened[digest] = self._state(digest) if digest else ("failed", "", None)
            state, reason, run = opened[digest] if digest else ("failed", str(row.get("reason", "")), None)
            rows.append(SweptRun(row["keys"], row["seed"], digest, state, reason, run))
        return tuple(rows)

    def _state(self, digest: str) -> tuple[str, str, Run | None]:
        record = self.info["records"].get(digest, {})
        if record.get("anew"):  # what its folder holds is what was to be replaced
            failed = record.get("state") == "failed"
            return ("failed", str(record.get("reason", "")), None) if failed else ("waiting", "", None)
        folder = run_folder(self.folder, digest)
        run = open_run(folder) if (folder / "run.json").exists() else None
        if run is not None:
            check_digest(run, digest)
        if run is not None and run.done:
            return "done", "", run
        if record.get("state") == "failed":
            return "failed", str(record.get("reason", "")), run
        if run is None:
            return "waiting", "", None
        return str(run.status["state"]), str(run.status["reason"]), run

    @property
    def failed(self) -> tuple[SweptRun, ...]:
        """The rows that failed."""
        return tuple(row for row in self.runs if row.state == "failed")

    @property
    def done(self) -> bool:
        """Whether every run has come to its end."""
        return all(row.state == "done" for row in self.runs)

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per combination and seed: the varied settings, seed, digest, state, reason, round, rounds,
        diverged_at, and the last measurement (accuracy, loss, ..., see `Run.rounds`)."""
        import pandas as pd

        rows = []
        for row in self.runs:
            status = {} if row.run is None else row.run.status
            facts: dict[str, Any] = {
                **dict.fromkeys(self.varied),
                **row.keys,
                "seed": row.seed,
                "digest": row.digest,
                "state": row.state,
                "reason": row.reason,
                "round": status.get("round"),
                "rounds": status.get("rounds", row.keys.get("rounds")),
                "diverged_at": status.get("diverged_at"),
            }
            measured = _rounds(row)
            if measured is not None and len(measured):
                last = measured.drop(columns="round").iloc[-1]
                facts.update({str(name): value for name, value in last.items()})
            rows.append(facts)
        table = pd.DataFrame(rows)
        whole = [name for name in _WHOLE if name in table]
        return table.astype(dict.fromkeys(whole, "Int64"))

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """Every evaluated round of every run (see `Run.rounds`), with the varied settings and the seed in front.

        Runs that have not finished are there as far as they got. A run that stands for several combinations is
        there for each.
        """
        import pandas as pd

        front = [*self.varied, "seed"]
        pieces = []
        for row in self.runs:
            measured = _rounds(row)
            if measured is not None:
                keys = {**row.keys, "seed": row.seed}
                pieces.append(measured.assign(**{name: keys.get(name) for name in front}))
        if not pieces:
            return pd.DataFrame(columns=[*front, "round"])
        whole = pd.concat(pieces, ignore_index=True)
        return whole[[*front, *(name for name in whole.columns if name not in front)]]


def _rounds(row: SweptRun) -> pd.DataFrame | None:
    """The measured rounds of a run, None before the first."""
    if row.run is None:
        return None
    try:
        return row.run.rounds
    except InputError:
        if row.state == "done":
            raise
        return None


@checked()
def open_sweep(folder: str | Path) -> Sweep:
    """A sweep by its folder. Raises InputError where it is not one."""
    sweep = Sweep(Path(folder))
    if not sweep.folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    if not (sweep.folder / FILE).exists():
        raise InputError(f"{folder}: no sweep here ({FILE} is missing); fedroam sweep makes one")
    try:
        _check_whole(sweep.info, sweep.folder / FILE)
    except InputError as error:
        raise InputError(
            f"{error}; delete the file, and fedroam sweep finds the finished runs again"
        ) from None
    return sweep


def _check_whole(info: dict[str, Any], path: Path) -> None:
    """Raise InputError where `sweep.json` is not what a sweep writes."""
    if info.get("format") != 1 or not info.keys() >= {"name", "varied", "runs", "records"}:
        raise InputError(f"{path}: damaged, or written by another version of fedroam")
    check_summed(info, path)
    checked_facts(info, _Asked, path)


def sweep_damage(folder: Path) -> list[str]:
    """What is wrong with a sweep's own files, and which of its finished runs are gone or others; one line each.

    The runs' own files are compared by `recording.damage`. Nothing is changed, and nothing of the folder is run. Raises
    InputError where the sweep was written before there were sums (fedroam 0.1.0): then nobody can tell.
    """
    return lasting(folder, lambda: _damage(folder))


def _damage(folder: Path) -> list[str]:
    try:
        sweep = open_sweep(folder)
    except InputError as error:
        return [str(error)]
    path = sweep.folder / FILE
    if "sha256" not in sweep.info:
        raise InputError(f"{path}: has no check sum: the sweep was written by a version that kept none")
    found = changed_files(path, sweep.info)
    for digest, record in sweep.info["records"].items():
        run = run_folder(sweep.folder, digest)
        if record.get("state") != "done" or not re.fullmatch(DIGEST, digest):  # it names a folder
            continue
        if not (run / "run.json").is_file():
            found.append(f"{run}: missing; {FILE} lists it as done")
            continue
        try:
            status = open_run(run).status
        except InputError:  # told of where the run itself is looked at
            continue
        if status["digest"] != digest or status["state"] != "done":
            found.append(f"{run}: is not the finished run that {FILE} lists")
    return found
