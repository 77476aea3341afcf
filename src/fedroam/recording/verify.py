"""Whether a run folder still holds what its run wrote, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fedroam.errors import InputError
from fedroam.recording import checkpoint
from fedroam.recording.files import FileFacts, json_text, manifest_of
from fedroam.recording.locking import held
from fedroam.recording.pieces import TablePieces
from fedroam.recording.recorder import RECORDED
from fedroam.recording.run import Run, open_run


def damage(folder: Path) -> list[str]:
    """What is wrong with a run folder, one line each; empty where every file is what was written.

    Compares the SHA-256 of each file that `run.json` lists. Of an unfinished run, the checkpoints and the pieces of
    tables that they vouch for are read and compared, too, unless the run is being written just now (`held`), which
    replaces them. Nothing is changed, and nothing of the folder is run. Raises InputError where the run was written
    before there was a manifest (fedroam 0.1.0): then nobody can tell.
    """
    return lasting(folder, lambda: _damage(folder))


def lasting(folder: Path, look: Callable[[], list[str]]) -> list[str]:
    """What `look` finds wrong with a folder; where a process is writing there, only what a second look finds as well:
    the rest was changed in the midst of the first."""
    found = look()
    return [line for line in look() if line in found] if found and held(folder) else found


def _damage(folder: Path) -> list[str]:
    being_written = held(folder)
    try:
        run = open_run(folder)
    except InputError as error:
        return [str(error)]
    path = run.folder / "run.json"
    if being_written:
        return _listed(path, run.status)
    if not run.manifest():
        raise InputError(f"{path}: lists no files: the run was written by a version that kept no check sums")
    found = changed_files(path, run.status)
    if not run.done:
        found += _unfinished(run)
    return found


def changed_files(path: Path, facts: Mapping[str, Any]) -> list[str]:
    """What differs from a JSON file of `write_summed` that was read as `facts`: its own bytes, and what it lists."""
    found = []
    if path.read_bytes() != json_text(facts).encode("utf-8"):
        found.append(f"{path}: is not written as fedroam writes it")
    return found + _listed(path, facts)


def _listed(path: Path, facts: Mapping[str, Any]) -> list[str]:
    """What differs from the files that it lists."""
    found = []
    for name, listed in manifest_of(facts).items():
        file = path.parent / name
        if not file.is_file():
            found.append(f"{file}: missing; {path.name} lists it with {listed.size} bytes")
            continue
        try:
            facts_now = FileFacts.on_disk(file)
        except OSError as error:
            found.append(f"{file}: cannot be read: {error.strerror or error}")
            continue
        if facts_now != listed:
            found.append(f"{file}: damaged: its SHA-256 is not the one that {path.name} lists")
    return found


def _unfinished(run: Run) -> list[str]:
    """What is wrong with the checkpoints of an unfinished run and the pieces that each vouches for."""
    gone = checkpoint.lost(run.folder / "checkpoints", run.status["round"])
    told = [gone] if gone else []
    for path in checkpoint.kept(run.folder / "checkpoints"):
        try:
            found = checkpoint.load(path, run.status["digest"])
            TablePieces(run.folder / "unfinished").restore(found.arrays[RECORDED], found.round, found.summed)
        except InputError as error:
            told.append(str(error))
    return told
