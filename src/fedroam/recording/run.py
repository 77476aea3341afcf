"""Reading a run folder: the only input of every analysis."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedroam.checks.arguments import check_fields, checked
from fedroam.components import FAMILIES
from fedroam.errors import InputError, unknown
from fedroam.facts import checked_facts
from fedroam.planning.settings import parse_toml
from fedroam.recording.environment import NETWORK, SIMULATION, in_words
from fedroam.recording.files import (
    FileFacts,
    check_summed,
    manifest_of,
    read_facts,
    read_json,
    read_table,
    write_summed,
)
from fedroam.recording.schema import Environment, Settings, Status, WorldFile, checked_table
from fedroam.writing import checked_name

if TYPE_CHECKING:
    import pandas as pd
    from torch import nn

# New ones at the end: a checkpoint counts their rows in this order.
TABLES = ("rounds", "clients", "positions", "contacts", "matrices", "schedule")
MATRIX_COLUMNS = {"round": "int32", "name": "str", "i": "int32", "j": "int32", "value": "float64"}
SCHEDULE_COLUMNS = {"round": "int32", "client": "int32", "state": "str", "begin": "float64", "end": "float64"}
_MAY_LACK = {"matrices": MATRIX_COLUMNS, "schedule": SCHEDULE_COLUMNS}  # not every run has them
STATUS = {"name", "variant", "order", "seed", "digest", "state", "round", "rounds", "diverged_at", "reason"}
_BESIDE = ("environment.json", "world.json", "partition.parquet")  # what every run writes beside `run.json`
# Wall-clock readings: the only numbers of a run that a repetition does not give again.
NOT_REPEATABLE = ("seconds",)


def table_path(folder: Path, name: str) -> Path:
    """Where a finished run keeps a table."""
    home = folder / "movement" if name in ("positions", "contacts") else folder
    return home / f"{name}.parquet"


def write_status(folder: Path, status: Mapping[str, Any]) -> None:
    """Write `run.json`, with a SHA-256 over everything else that it says."""
    write_summed(folder / "run.json", status)


@dataclass(frozen=True)
class Run:
    """A run folder, finished or not. Tables are pandas frames, read when first asked for."""

    folder: Path

    def __post_init__(self) -> None:
        check_fields(self, folder="a Path; open_run(...) takes a name, too")

    @cached_property
    def status(self) -> dict[str, Any]:
        """`run.json`: name, variant, seed, digest, state, round, rounds, diverged_at, reason; judged: what the models
        are called that clients are judged by, the headline first (see `Federation.judged`); models_at_rest: how they
        are held, where that is not in float32; lost: why the first training of a run on a network did not arrive,
        where none had before."""
        return read_json(self.folder / "run.json")

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The resolved experiment as plain values."""
        path = self.folder / "experiment.toml"
        settings = read_facts(path, parse_toml)
        checked_facts(settings, Settings, path)
        # A run from before a family of parts came had none of it: what its default kind says now.
        later = {name: {"kind": family.default} for name, family in FAMILIES.items() if family.later}
        return {**later, **settings}

    @property
    def attackers(self) -> tuple[int, ...]:
        """The clients that attack; none unless the experiment has an attack."""
        return tuple(self.world.get("attackers", ()))

    @cached_property
    def environment(self) -> dict[str, Any]:
        """`environment.json`: versions, machine, data fingerprint."""
        return self._facts("environment.json", Environment)

    @property
    def where(self) -> str:
        """What made the run: `simulation` or `network`, with what its devices found out of where they were, if they
        did; where it was gone on with elsewhere, up to which round it was what."""
        if not (self.folder / "environment.json").exists():
            return SIMULATION
        found = in_words(self.environment)
        movement = self.world.get("movement", "") if found == NETWORK else ""
        return f"{found}, movement by {movement}" if movement else found

    @cached_property
    def world(self) -> dict[str, Any]:
        """`world.json`: bounds (m), reach (m), groups by client, class names, parameters, bytes of one model,
        and attackers where there are any."""
        return self._facts("world.json", WorldFile)

    @cached_property
    def partition(self) -> pd.DataFrame:
        """Who holds what: client, part (train, validation, test), class, samples."""
        path = self.folder / "partition.parquet"
        return checked_table(read_table(path), "partition", path)

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """One row per evaluated round."""
        return self.table("rounds")

    @cached_property
    def by_round(self) -> pd.DataFrame:
        """`rounds` by their number, in order; of a round that was evaluated twice, the last."""
        return self.rounds.drop_duplicates("round", keep="last").set_index("round").sort_index()

    @cached_property
    def clients(self) -> pd.DataFrame:
        """One row per client and evaluated round."""
        return self.table("clients")

    @cached_property
    def positions(self) -> pd.DataFrame:
        """Where everybody was when models were exchanged: round, client, x, y (m), present."""
        return self.table("positions")

    @cached_property
    def contacts(self) -> pd.DataFrame:
        """Who met: round, i, j with i < j."""
        return self.table("contacts")

    @cached_property
    def matrices(self) -> pd.DataFrame:
        """Matrices of the federation's state: round, name, i, j, value; zeros have no row. Empty where it has none."""
        return self.table("matrices")

    @cached_property
    def schedule(self) -> pd.DataFrame:
        """Who was at what when: round, client, state, begin, end (s since the start), of the first clients; what no row
        covers is waiting. Empty where nothing takes time, and in runs of before it was recorded."""
        return self.table("schedule")

    @checked()
    def model(self, which: str | None = None, *, client: int | None = None) -> nn.Module:
        """A model that the run ended with, on the CPU and in evaluation mode: `run.model(client=3)`.

        which: `"mean"`, `"global"` or another name under which the federation judges clients (default: its first);
        client: whose, where each has its own. It maps float32 samples [n, *shape], images as [n, channels, height,
        width], to logits [n, classes]; `preprocessing.json` says how samples of a file become that. A model of your own
        must be known already (`fedroam.use`, or an `import` of what a `torch_module` names): nothing is loaded.

        Raises InputError where the run keeps no such model. A run of before models were kept is no loss:
        `fedroam export` takes them from its checkpoint.
        """
        from fedroam.recording.models import DESCRIPTION, FILE, filled, network, network_input, read_models

        path = self.folder / FILE
        if not path.is_file():
            raise InputError(
                f"{self.folder}: keeps no models (it is unfinished, was told so by keep_models, or was computed before "
                "there were any); `fedroam export` takes them from the checkpoint of a finished run"
            )
        listed = self.manifest().get(FILE)
        if listed is not None and FileFacts.on_disk(path) != listed:
            raise InputError(f"{path}: damaged: its SHA-256 is not the one that run.json lists")
        values = read_models(path).values(which, client)
        module = network(self.settings, network_input(self.folder / DESCRIPTION), str(self.folder))
        return filled(module, values, str(path))

    @property
    def name(self) -> str:
        """Name of the experiment, with the variant if there is one."""
        variant = self.status.get("variant", "")
        return f"{self.status['name']}/{variant}" if variant else str(self.status["name"])

    @property
    def done(self) -> bool:
        """Whether the run has come to its end."""
        return self.status.get("state") == "done"

    @checked()
    def table(self, name: str) -> pd.DataFrame:
        """A table by name; of an unfinished run, as far as it got; empty where the run has none of it."""
        import pandas as pd

        if name not in TABLES:
            raise unknown("table of a run", name, TABLES)
        path = table_path(self.folder, name)
        if path.exists():
            return checked_table(read_table(path), name, path)
        parts = sorted((self.folder / "unfinished").glob(f"{name}-*.parquet"))
        if not parts and name in _MAY_LACK:
            return pd.DataFrame({column: pd.Series(dtype=kind) for column, kind in _MAY_LACK[name].items()})
        if not parts:
            raise InputError(f"{path}: missing; the run has recorded nothing yet, or the folder is damaged")
        tables = [checked_table(read_table(part), name, part) for part in parts]
        return pd.concat(tables, ignore_index=True)

    @checked()
    def plot(self, what: str = "accuracy", **options: Any) -> Any:
        """Draw a column of `rounds` and return matplotlib's axes; options are those of `fedroam.plot`."""
        # Named, not imported: analysis comes after recording.
        return importlib.import_module("fedroam.analysis.figures.plotting").plot([self], what, **options)

    def manifest(self) -> dict[str, FileFacts]:
        """Size and SHA-256 of each file as `run.json` lists them; empty in a run of fedroam 0.1.0."""
        return manifest_of(self.status)

    def _facts(self, name: str, schema: type[Environment] | type[WorldFile]) -> dict[str, Any]:
        path = self.folder / name
        facts = read_json(path)
        checked_facts(facts, schema, path)
        return facts


@checked()
def open_run(folder: str | Path) -> Run:
    """Open a run by its folder.

    Raises InputError where it is not a run folder, where `run.json` is not what was written, or where a file of its
    manifest is missing or of another size. `verify` compares the SHA-256 of each file, too.
    """
    run = Run(Path(folder))
    if not run.folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    path = run.folder / "run.json"
    if not path.exists() and any([*run.folder.glob("*/run.json"), *run.folder.glob("*/*/run.json")]):
        raise InputError(f"{folder}: holds runs, and is none itself; open_runs opens them")
    status = run.status
    if status.get("format") != 1 or not status.keys() >= STATUS:
        raise InputError(f"{path}: damaged, or written by another version of fedroam")
    check_summed(status, path)
    checked_facts(status, Status, path)
    manifest = run.manifest()
    for name, listed in manifest.items():
        file = run.folder / name
        if not file.is_file():
            raise InputError(f"{file}: missing; {path.name} lists it with {listed.size} bytes")
        size = file.stat().st_size
        if size != listed.size:
            raise InputError(f"{file}: damaged: it has {size} bytes, {path.name} says {listed.size}")
    if run.done and manifest:
        for name in TABLES:
            table = table_path(run.folder, name)
            if table.exists() and str(table.relative_to(run.folder).as_posix()) not in manifest:
                raise InputError(f"{table}: was not written by this run: {path.name} does not list it")
    return run


def runs_below(folder: str | Path) -> list[Path]:
    """Every run folder here or below, by path, whatever is in it. Raises InputError where there is none."""
    root = checked_name(folder)
    if not root.is_dir():
        raise InputError(f"{folder}: no such folder")
    if (root / "run.json").exists():
        return [root]
    found = folders_with("run.json", root)
    if not found:
        raise InputError(f"{folder}: no run folder here or below (a run folder holds run.json)")
    return found


def folders_with(name: str, folder: Path) -> list[Path]:
    """The folders here or below, by path, that hold a file of this name. Folders that vanish meanwhile, as where runs
    are put into place, or that must not be read, are passed by; links are not followed."""
    return sorted(Path(place) for place, _, files in os.walk(folder) if name in files)


def robbed_below(folder: Path) -> list[Path]:
    """The folders here or below, by path, that hold what a run writes, and no `run.json`: it was lost or taken away."""
    return sorted(
        Path(place)
        for place, _, files in os.walk(folder)
        if "run.json" not in files and sum(name in files for name in _BESIDE) > 1
    )


@checked()
def open_runs(folder: str | Path) -> list[Run]:
    """Every run in a folder or below it (variants and seeds), ordered by path."""
    runs = [open_run(path) for path in runs_below(folder)]
    order = {id(run): k for k, run in enumerate(runs)}
    return sorted(runs, key=lambda run: (run.status.get("order", 0), order[id(run)]))


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings as one level with dotted names: `{"data": {"kind": "digits"}}` as `{"data.kind": "digits"}`."""
    result: dict[str, Any] = {}
    for name, value in settings.items():
        dotted = f"{prefix}{name}"
        if isinstance(value, Mapping):
            result.update(flat(value, f"{dotted}."))
        else:
            result[dotted] = value
    return result
