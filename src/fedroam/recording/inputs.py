"""Which files a run reads, and whether they still are what they were: the digest knows only their names."""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedroam.components import Part
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.recording import checkpoint
from fedroam.recording.locking import folder_at
from fedroam.recording.recorder import CLEARING, Existing, check
from fedroam.recording.run import Run
from fedroam.recording.sources import same_source, source_facts, sum_of_source

# Not every command that says so has --fresh: reproduce goes on from what there is.
WAY_OUT = (
    "bring back what was there, choose another --out, or delete the folder to begin anew, as --fresh of run and sweep "
    "does"
)


@functools.lru_cache(maxsize=256)
def _sha256(path: str, size: int, changed: int) -> str:
    """SHA-256 of a file (hex), computed once per process while its size and time of modification stay."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256(path: Path) -> str:
    """SHA-256 of a file (hex)."""
    stamp = path.stat()
    return _sha256(str(path.resolve()), stamp.st_size, stamp.st_mtime_ns)


def files_read(experiment: Experiment) -> dict[str, Path]:
    """The files that an experiment's parts read (see `Part.reads`), by setting, e.g. `data.path`.

    Those of a part that does not find all of its files are left out: it may have been given its data otherwise, as
    in a sweep over several machines.
    """
    found: dict[str, Path] = {}
    for prefix, part in _parts(experiment, ""):
        with contextlib.suppress(InputError):
            found.update({f"{prefix}{name}": path for name, path in part.reads().items()})
    return {name: path for name, path in found.items() if path.is_file()}


def _parts(owner: Experiment | Part, prefix: str) -> Iterator[tuple[str, Part]]:
    """Every part of an experiment, and of its parts, with its place, e.g. `data.`."""
    for name, value in owner:
        if isinstance(value, Part):
            yield f"{prefix}{name}.", value
            yield from _parts(value, f"{prefix}{name}.")


def file_facts(experiment: Experiment) -> dict[str, dict[str, Any]]:
    """What a run records of the files it reads, by setting: place, size in bytes, SHA-256."""
    return {
        name: {"file": str(path), "bytes": path.stat().st_size, "sha256": sha256(path)}
        for name, path in files_read(experiment).items()
    }


def code_facts(experiment: Experiment) -> dict[str, dict[str, Any]]:
    """What a run records of the source of parts of the user's own (see `source_facts`)."""
    return source_facts(part for _, part in _parts(experiment, ""))


def code_sums(code: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """The SHA-256 of what `code_facts` tells, in short: of what parts need of each file, wherever it lies."""
    return tuple(sorted(map(sum_of_source, code.values())))


def recorded_experiment(run: Run) -> Experiment:
    """The experiment that a run folder records, built from its settings as data: nothing that it names is loaded.

    Parts of the user's own must be known already (`fedroam.use`). Raises InputError where the settings are no
    experiment, or name a part that is not known.
    """
    path = run.folder / "experiment.toml"
    foreign = [name for name in ("use", "variants", "seeds", "sweep") if name in run.settings]
    if foreign:
        raise InputError(
            f"{path}: {foreign[0]}: does not belong into a run folder, and is not obeyed; allowed are the settings of "
            "an experiment"
        )
    try:
        return Experiment(**run.settings)
    except InputError as error:
        own = "; a part of your own is made known by --use FILE.py" if " kind " in str(error) else ""
        raise InputError(f"{path}: {error}{own}") from None


def run_in(folder: Path, experiment: Experiment, existing: Existing) -> Run | None:
    """The run in a folder that is to be used again or gone on with, None where one begins there anew.

    Raises InputError where the folder must not be used (see `check`), and where a file has changed.
    """
    if not folder_at(folder):
        return None
    there = check(folder, experiment.digest, experiment.toml(), existing)
    if there is None or existing == "replace":
        return None
    unchanged_files(there, experiment)
    return there


def unchanged_files(run: Run, experiment: Experiment) -> None:
    """Raise InputError where a file is not what the run read that is there: its size differs, or its SHA-256.

    So it does where the source of parts of the user's own is another one. Files that are no longer there are no change,
    and neither are those that no record tells of.
    """
    if not _has_results(run):
        return
    if "code" in run.environment:
        _unchanged_code(run, run.environment["code"], code_facts(experiment))
    files = files_read(experiment)
    for name, was in run.environment.get("files", {}).items():
        path = files.get(name)
        if path is None:
            continue
        size = path.stat().st_size
        if size != was["bytes"]:
            raise InputError(
                f"{name} = {path}: has changed since {run.folder} was computed (it had {was['bytes']} bytes, now "
                f"{size}); {WAY_OUT}"
            )
        now = sha256(path)
        if now != was["sha256"]:
            raise InputError(
                f"{name} = {path}: has changed since {run.folder} was computed (its SHA-256 was "
                f"{was['sha256'][:12]}, now {now[:12]}); {WAY_OUT}"
            )


def _unchanged_code(
    run: Run, before: Mapping[str, Mapping[str, Any]], now: Mapping[str, Mapping[str, Any]]
) -> None:
    whole = [sorted(str(facts["sha256"]) for facts in each.values()) for each in (before, now)]
    if whole[0] == whole[1] or code_sums(before) == code_sums(now):  # a file may have another name or place
        return
    for name in sorted({*before, *now}):
        was, found = before.get(name), now.get(name)
        if was is None:
            told = f"{now[name]['file']}: was not part of the code of {run.folder} when it was computed"
        elif found is None:
            told = f"{was['file']}: was part of the code of {run.folder} when it was computed, and is no more"
        elif not same_source(was, found):
            told = (
                f"{found['file']}: has changed since {run.folder} was computed (its SHA-256 was {was['sha256'][:12]}, "
                f"now {found['sha256'][:12]})"
            )
        else:
            continue
        raise InputError(f"{told}; {WAY_OUT}")


def unchanged_data(run: Run, fingerprint: str) -> None:
    """Raise InputError where an unfinished run saw other samples or classes (SHA-256) than it would now."""
    if not _has_results(run):
        return
    was = run.environment.get("data", {}).get("sha256", fingerprint)
    if was != fingerprint:
        raise InputError(
            f"{run.folder}: was begun with other data (SHA-256 of its samples was {was[:12]}, now "
            f"{fingerprint[:12]}); {WAY_OUT}"
        )


def _has_results(run: Run) -> bool:
    """Whether there is anything that a change would spoil."""
    if run.status["state"] == CLEARING or not (run.folder / "environment.json").exists():
        return False
    return run.done or checkpoint.newest(run.folder / "checkpoints") is not None
