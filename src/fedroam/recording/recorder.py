"""Writing a run folder, in pieces that a kill cannot spoil."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import pyarrow as pa

from fedroam.errors import InputError
from fedroam.recording import checkpoint
from fedroam.recording.checkpoint import Draft
from fedroam.recording.files import (
    SHORT,
    Columns,
    FileFacts,
    gathered,
    kept,
    settle,
    write_json,
    write_table,
    write_text,
)
from fedroam.recording.locking import folder_at, held, lock_folder
from fedroam.recording.pieces import TablePieces
from fedroam.recording.run import TABLES, Run, flat, open_run, table_path, write_status
from fedroam.writing import half_written

Existing = Literal["refuse", "resume", "replace"]
RECORDED = "recorded.rows"  # in a checkpoint: rows recorded so far, by table
CLEARING = "clearing"  # state of a folder whose old run is being deleted


class Recorder:
    """Writes one run folder.

    Rows are gathered in memory and written, at each checkpoint, as one piece per table under `unfinished/`;
    pieces newer than the newest checkpoint are dropped on resume. The end of the run joins the pieces.

    A thread of its own makes a checkpoint safe, as most of that is waiting for the disk: meanwhile the run goes on, up
    to its next checkpoint. A kill in between loses the rounds since the one before, as a kill just before it would.
    """

    def __init__(self, folder: Path, status: dict[str, Any]) -> None:
        self.folder = folder
        self.status = status
        self._pending: dict[str, list[Columns]] = {name: [] for name in TABLES}
        self._pieces = TablePieces(folder / "unfinished")
        self._lock: IO[str] | None = None
        self._noting = threading.Lock()  # of `status`, and of the file that says it
        self._desk = ThreadPoolExecutor(1, thread_name_prefix="fedroam-recorder")
        self._under_way: Future[None] | None = None

    @property
    def finished(self) -> bool:
        """Whether the folder holds the finished run already."""
        return bool(self.status["state"] == "done")

    def open(self, settings_toml: str, existing: Existing) -> None:
        """Take the folder: make it, or check what it holds (see `check`). Raises InputError where it cannot."""
        digest = self.status["digest"]
        check(self.folder, digest, settings_toml, existing)  # a folder that is refused stays untouched
        # two writers would spoil each other's files
        self._lock = lock_folder(self.folder, "writing this run")
        try:
            # another process may have been faster
            there = check(self.folder, digest, settings_toml, existing)
        except InputError:
            self.close()
            raise
        if there is None or existing == "replace" or there.status["state"] == CLEARING:
            self._clear()
            write_status(self.folder, self.status)
            settle(self.folder)  # or the rest would be nobody's
        else:
            self.status = dict(there.status)
            if there.done:  # a kill may have come between the last rename and this
                shutil.rmtree(self.folder / "unfinished", ignore_errors=True)
        path = self.folder / "experiment.toml"
        facts = FileFacts.of(settings_toml.encode("utf-8"))
        if not path.exists() or FileFacts.on_disk(path) != facts:  # names and threads may differ
            self._unlist(path.name)
            write_text(path, settings_toml)
        if not self.finished:
            self._list(path.name, facts)
        elif path.name not in self.status.get("files", {path.name: None}):
            self._list(path.name, facts)
            self.note()

    def _clear(self) -> None:
        """Empty the folder. A kill in the midst of it leaves a `run.json` that says so, to be cleared on."""
        old = [path for path in self.folder.iterdir() if path.name not in (".lock", "run.json")]
        if not old:
            return
        write_status(self.folder, {**self.status, "state": CLEARING})
        settle(self.folder)
        for path in old:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    def restore(self) -> tuple[int, dict[str, np.ndarray]] | None:
        """The newest checkpoint, or None; what a kill left behind is dropped: pieces beyond it, half files.

        Raises InputError, before anything is dropped, where the newest is damaged, or there is none of a run that had
        one: to begin anew would take the place of the rounds that it has recorded.
        """
        self.made_safe()
        newest = checkpoint.newest(self.folder / "checkpoints")
        gone = checkpoint.lost(self.folder / "checkpoints", self.status["round"])
        if newest is None and gone:
            raise InputError(f"{gone}: bring it back, or {checkpoint.BEGIN_ANEW}")
        found = None if newest is None else checkpoint.load(newest, self.status["digest"])
        self._pieces.drop_after(-1 if found is None else found.round)
        for rows in self._pending.values():  # gathered since, where a run goes back to it
            rows.clear()
        checkpoint.prune(self.folder / "checkpoints")  # a kill may have come before the last one did
        for path in [path for path in self.folder.rglob("*.tmp*") if half_written(path.name)]:
            path.unlink()
        if found is None:
            return None
        arrays = dict(found.arrays)
        self._pieces.restore(arrays.pop(RECORDED), found.round, found.summed)
        return found.round, arrays

    def write(self, name: str, value: Mapping[str, Any]) -> None:
        """Write a JSON file of facts that do not change, and note it in the manifest."""
        self._unlist(name)
        self._list(name, write_json(self.folder / name, value))

    def write_table(self, name: str, rows: Columns) -> None:
        """Write a table that does not change, and note it in the manifest."""
        self._unlist(name)
        self._list(name, write_table(self.folder / name, rows))

    def keep(self, name: str, write: Callable[[Path], FileFacts]) -> None:
        """Let `write` write a file, and note it in the manifest."""
        self._unlist(name)
        self._list(name, write(self.folder / name))

    def add(self, table: str, rows: Columns) -> None:
        """Gather rows of a table."""
        self._pending[table].append(kept(rows))

    def checkpoint(self, round: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Begin to make everything up to `round` safe: the pieces first, then the checkpoint that vouches for them.

        The arrays may change afterwards. Waits for the checkpoint before, and raises what went wrong with it.
        """
        self.made_safe()
        pieces = {name: gathered(rows) for name, rows in self._pending.items() if rows}
        for rows in self._pending.values():
            rows.clear()
        counts = [self._pieces.rows[name] + (len(pieces[name]) if name in pieces else 0) for name in TABLES]
        arrays = {**arrays, RECORDED: np.array(counts, dtype=np.int64)}
        drafted = checkpoint.draft(self.folder / "checkpoints", round, self.status["digest"], arrays)
        self._under_way = self._desk.submit(self._make_safe, round, pieces, drafted)

    def _make_safe(self, round: int, pieces: Mapping[str, pa.Table], drafted: Draft) -> None:
        """What is left to do of a checkpoint."""
        try:
            for name, rows in pieces.items():
                self._pieces.write(name, round, rows)
            self._pieces.vouch(round)
            drafted.complete()
        finally:
            drafted.drop()
        if round < self.status["rounds"]:
            self.note(round=round)
        else:  # what comes next, the end of the run or why there is none, is noted in a moment
            with self._noting:
                self.status["round"] = round

    def made_safe(self) -> None:
        """Wait until the last checkpoint is on the disk. Raises what went wrong with it, OSError for a full disk."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.result()

    def note(self, **facts: Any) -> None:
        """Change facts of `run.json`."""
        with self._noting:
            self.status.update(facts)
            write_status(self.folder, self.status)

    def seconds_so_far(self) -> float:
        """Wall-clock seconds that the recorded rounds took, in this and earlier sessions."""
        return self._pieces.seconds()

    def finish(self) -> None:
        """Join the pieces into the run's tables, write the manifest, and mark the run done.

        Raises FedroamError where the pieces are not what was written while the run was computing.
        """
        self.made_safe()
        checkpoints = sorted((self.folder / "checkpoints").glob("round-*.safetensors"))
        short = all(path.stat().st_size <= SHORT for path in checkpoints)
        with ThreadPoolExecutor(checkpoint.KEEP) as beside:  # of which there is none until it is asked for
            summed = (map if short else beside.map)(FileFacts.on_disk, checkpoints)
            for name in TABLES:
                path = table_path(self.folder, name)
                facts = self._pieces.write_whole(name, path)
                if facts is not None:
                    self._list(str(path.relative_to(self.folder).as_posix()), facts)
            for path, facts in zip(checkpoints, summed, strict=True):
                self._list(f"checkpoints/{path.name}", facts)
        settle(self.folder / "movement")
        self.note(state="done")
        settle(self.folder)
        shutil.rmtree(self.folder / "unfinished", ignore_errors=True)

    def _unlist(self, name: str) -> None:
        """Take a file that is about to be written anew from the manifest: first the promise, or a kill would leave a
        broken one."""
        listed = self.status.get("files", {})
        if name in listed:
            self.note(files={each: was for each, was in listed.items() if each != name})

    def _list(self, name: str, facts: FileFacts) -> None:
        """Note a file in the manifest; `run.json` is not yet written with it."""
        with self._noting:
            self.status["files"] = {
                **self.status.get("files", {}),
                name: facts.listed(),
            }

    def close(self) -> None:
        """Give the folder back, as soon as nothing is being written to it."""
        try:
            self._desk.shutdown()
        finally:
            if self._lock is not None:
                self._lock.close()
                self._lock = None


def check(folder: Path, digest: str, settings_toml: str, existing: Existing) -> Run | None:
    """The run that a folder holds, or None where one may begin there. Writes nothing.

    Raises InputError where the folder must not be used: it is a file, holds something else than a run, another
    experiment than the one with this digest, or, with `existing = "refuse"`, an unfinished run.
    """
    if not folder_at(folder):
        return None
    links = [path for path in folder.rglob("*") if path.is_symlink()]
    if links:
        raise InputError(
            f"{links[0]}: is a link; a run folder holds files of its own only: delete the link, or choose another --out"
        )
    if not (folder / "run.json").exists():
        if any(not half_written(path.name) and path.name != ".lock" for path in folder.iterdir()):
            raise InputError(f"{folder}: not empty and not a run folder; choose another --out")
        return None
    if existing == "replace":
        return Run(folder)
    run = open_run(folder)
    if run.status["digest"] != digest:
        raise InputError(
            f"{folder}: holds another experiment ({_difference(run, settings_toml)}); choose another --out, or "
            "--fresh to replace it"
        )
    if not run.done and existing == "refuse":
        if held(folder):  # while another process goes on with it, no other advice holds
            raise InputError(f"{folder}: another process is writing this run; wait for it")
        raise InputError(
            f"{folder}: holds an unfinished run (round {run.status['round']} of {run.status['rounds']}); add "
            "--resume to go on, or --fresh to begin anew"
        )
    return run


def _difference(run: Run, settings_toml: str) -> str:
    """The first setting in which the run in a folder differs from the one wanted."""
    import tomllib

    there, wanted = flat(run.settings), flat(tomllib.loads(settings_toml))
    for name in sorted({*there, *wanted}):
        if there.get(name) != wanted.get(name):
            return f"{name} = {there.get(name)!r} there, {wanted.get(name)!r} here"
    return "another version's settings"
