"""One flipped bit in any file of a run's or a sweep's folder: `fedroam verify` tells, and nobody goes on with it."""

from __future__ import annotations

import fnmatch
import functools
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attack import mutations
from attack.targets import Silent, Target, held, laid, swept
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.recording import damage, runs_below
from fedroam.recording.run import TABLES, Run
from fedroam.runner import run
from fedroam.sweep import open_sweep, sweep_damage
from fedroam.terminal.interrupts import Interrupted
from support.tiny import tiny

Folder = Mapping[str, bytes]  # every file by its path within it


def _experiment() -> Experiment:
    """A run that writes every table that there is."""
    model = {"kind": "mlp", "hidden": [4]}
    timed = {"clock": {"kind": "seconds", "length": 60.0}, "compute": "flops", "link": "fixed"}
    return tiny(evaluate_every=1, validation_share=0.2, model=model, federation="mocfl", **timed)


@functools.cache
def whole() -> Folder:
    """A finished run."""
    home = Path(tempfile.mkdtemp(prefix="attack-"))
    return held(run(_experiment(), home / "run").folder)


@functools.cache
def left() -> Folder:
    """The same, left after its third round."""
    home = Path(tempfile.mkdtemp(prefix="attack-"))

    def stop(round: int, *_: object) -> None:
        if round == 3:
            raise Interrupted

    try:
        run(_experiment(), home / "run", observer=stop)
    except Interrupted:
        return held(home / "run")
    raise AssertionError("was not left")


FACTS = (
    "run.json",
    "world.json",
    "environment.json",
    "experiment.toml",
    "partition.parquet",
    "preprocessing.json",
)
TABLES_DONE = (
    "rounds.parquet",
    "clients.parquet",
    "matrices.parquet",
    "schedule.parquet",
    "movement/*.parquet",
    "models.safetensors",
)
PIECES = tuple(f"unfinished/{name}-*.parquet" for name in TABLES)
CHECKPOINTS = "checkpoints/round-*.safetensors"
KINDS = {  # of files, by the folder that has them: which of them each is
    "run": (whole, (*FACTS, *TABLES_DONE, CHECKPOINTS)),
    "unfinished run": (left, (*FACTS, *PIECES, CHECKPOINTS, "unfinished/sums-*.json")),
    "sweep": (swept, ("sweep.json", "sweep.toml", "runs/*")),
}


def files_of(folder: Folder, kind: str) -> list[str]:
    """The files of a kind, without sums that no checkpoint needs any more."""
    rounds = {name[-len("00000000.safetensors") :][:8] for name in folder if name.startswith("checkpoints/")}
    found = [name for name in folder if fnmatch.fnmatch(name, kind)]
    return [
        n for n in found if not n.startswith("unfinished/sums-") or n[-len("00000000.json") :][:8] in rounds
    ]


@dataclass(frozen=True)
class _Flip(Target):
    """A target whose cases are a flipped bit each: of which file stands in the content's first line."""

    folder: Callable[[], Folder] = dict
    kind: str = ""

    def content(self, draws: np.random.Generator) -> bytes:
        names = files_of(self.folder(), self.kind)
        name = names[int(draws.integers(len(names)))]
        return name.encode() + b"\n" + mutations.flip(draws, self.folder()[name])


FLIPS: dict[str, Target] = {}


def _verify(files: Callable[[], Folder], folder: Path, data: bytes) -> None:
    name, _, content = data.partition(b"\n")
    home = laid({**files(), name.decode(): content}, folder / "run")
    found = [line for place in runs_below(home) for line in damage(place)]
    if (home / "sweep.json").exists():
        found += sweep_damage(home)
    if not found:
        raise Silent(f"{name.decode()} is not what was written, and fedroam verify does not tell")
    raise InputError("; ".join(found)[:1000])


def _resume(files: Callable[[], Folder], folder: Path, data: bytes) -> None:
    """What is gone on with ends in the same numbers, and in a folder that is as it was written."""
    name, _, content = data.partition(b"\n")
    home = laid({**files(), name.decode(): content}, folder / "run")
    if (home / "sweep.json").exists():
        if open_sweep(home).info != _ledger():
            raise Silent("a sweep goes on from a ledger that says something else")
        return
    found = run(_experiment(), home)
    for table, wanted in _wanted().items():
        if not _numbers(found)[table].equals(wanted):
            raise Silent(f"resumed over a damaged {name.decode()}, and {table} holds other numbers")
    if damage(home):
        raise Silent(f"resumed over a damaged {name.decode()}, and the folder is damaged: {damage(home)[0]}")


@functools.cache
def _ledger() -> object:
    home = Path(tempfile.mkdtemp(prefix="attack-"))
    return open_sweep(laid(swept(), home / "sweep")).info


def _numbers(found: Run) -> dict[str, object]:
    return {name: getattr(found, name).drop(columns="seconds", errors="ignore") for name in TABLES}


@functools.cache
def _wanted() -> dict[str, object]:
    home = Path(tempfile.mkdtemp(prefix="attack-"))
    return _numbers(Run(laid(whole(), home / "run")))


for _owner, (_files, _kinds) in KINDS.items():
    for _kind in _kinds:
        _ways = {"verify": _verify}
        if _owner == "unfinished run" or _kind == "sweep.json":
            _ways["resume"] = _resume
        for _way, _do in _ways.items():
            _enter = functools.partial(_do, _files)
            FLIPS[f"{_way}, {_owner}, {_kind}"] = _Flip(tuple, _enter, (), _files, _kind)


def made_ready() -> None:
    """Make all folders now."""
    for files in (whole, left, swept, _ledger, _wanted):
        files()
