"""Whether a run folder still holds what its run wrote, bit for bit."""

from __future__ import annotations

from pathlib import Path

from fedroam.errors import InputError
from fedroam.recording import checkpoint
from fedroam.recording.files import FileFacts, json_text
from fedroam.recording.pieces import Pieces
from fedroam.recording.recorder import RECORDED
from fedroam.recording.run import Run, open_run


def damage(folder: Path) -> list[str]:
    """What is wrong with a run folder, one line each; empty where every file is what was written.

    Compares the SHA-256 of each file that `run.json` lists. Of an unfinished run, the newest checkpoint and the pieces
    of tables that it vouches for are read and compared, too. Nothing is changed, and nothing of the folder is run.
    Raises InputError where the run was written before there was a manifest (fedroam 0.1.0): then nobody can tell.
    """
    try:
        run = open_run(folder)
    except InputError as error:
        return [str(error)]
    path = run.folder / "run.json"
    if not run.manifest():
        raise InputError(f"{path}: lists no files: the run was written by a version that kept no check sums")
    found = []
    if path.read_bytes() != json_text(run.status).encode("utf-8"):
        found.append(f"{path}: is not written as fedroam writes it")
    for name, facts in run.manifest().items():
        if FileFacts.on_disk(run.folder / name) != facts:
            found.append(f"{run.folder / name}: damaged: its SHA-256 is not the one that {path.name} lists")
    if not run.done:
        found += _unfinished(run)
    return found


def _unfinished(run: Run) -> list[str]:
    """What is wrong with the newest checkpoint of an unfinished run and the pieces that it vouches for."""
    newest = checkpoint.newest(run.folder / "checkpoints")
    if newest is None:
        return []
    try:
        found = checkpoint.load(newest, run.status["digest"])
        Pieces(run.folder / "unfinished").restore(found.arrays[RECORDED], found.round, found.summed)
    except InputError as error:
        return [str(error)]
    return []
