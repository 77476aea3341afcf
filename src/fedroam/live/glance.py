"""What run folders say at a moment, while another process may be writing them."""

from __future__ import annotations

import hashlib
import math
import os
import stat
from dataclasses import dataclass, replace
from pathlib import Path

from fedroam.analysis.variants import has_rounds, settings_text
from fedroam.errors import InputError, one_line
from fedroam.recording import CLEARING, Run, held, open_run
from fedroam.sweep.folder import FILE, open_sweep, run_folder

MOST = 2000  # runs below a folder that are looked at
SMALL = 64 * 2**20  # bytes of the largest description (JSON, TOML) that is read
_INNER = frozenset({"checkpoints", "movement", "unfinished", "figures", ".data"})
_COMPUTED = ("running", CLEARING)  # states of a run that somebody computes, or was computing when killed
Stamp = tuple[int, int]


@dataclass(frozen=True)
class Glance:
    """A run as its folder tells it. state: as `run.json` has it, `waiting` before there is one, `unreadable` with a
    reason where the folder is damaged or just being changed, `stopped` where it says that it is running and nobody
    computes it. accuracy: share, of the newest round on the disk, None before there is any. written: when `run.json`
    was last written (seconds since 1970). left: whether nobody writes there any more, as locks tell.

    id: names the run in addresses; it is no path.
    """

    id: str
    folder: Path
    place: str
    name: str
    seed: int | None
    state: str
    round: int
    rounds: int
    accuracy: float | None
    written: float
    reason: str = ""
    left: bool = False

    @property
    def over(self) -> bool:
        """Whether nothing more will come of it by itself."""
        return self.left or self.state not in (*_COMPUTED, "waiting", "unreadable")


class Watcher:
    """The runs at or below a folder. A run is read again only where its `run.json` has changed.

    Links are not followed, and a run folder that holds one, or anything but files and folders, is not read: the
    folder may have come from elsewhere. Raises InputError where there is no such folder.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        if not self.root.is_dir():
            raise InputError(f"{root}: no such folder")
        self._known: dict[Path, tuple[Stamp, Glance]] = {}

    def look(self) -> list[Glance]:
        """Every run now, in the order of paths; those of a sweep that have not begun come last."""
        found, swept, free = [], self._sweep(), held(self.root) is False
        for folder in run_folders(self.root):
            left = _left(folder)  # before it is read: a run that comes to its end gives its lock back last
            try:
                facts = (folder / "run.json").lstat()
            except OSError:  # it was there a moment ago
                continue
            stamp = facts.st_mtime_ns, facts.st_size
            known = self._known.get(folder)
            if known is None or known[0] != stamp:
                glance = self._read(folder, facts.st_mtime)
                known = (stamp, glance)
                if glance.state != "unreadable":  # it may have been caught in the middle of a change
                    self._known[folder] = known
            found.append(_stopped(known[1]) if left and _left(folder) else known[1])
        there = {glance.folder.name for glance in found}
        waiting = [
            Glance(
                "",
                self.root / row.folder,
                "",
                row.name,
                row.seed,
                row.state,
                0,
                0,
                None,
                0.0,
                row.reason,
                free,
            )
            for folder, row in swept.items()
            if folder not in there
        ]
        return [_named(glance, swept.get(glance.folder.name)) for glance in found] + waiting

    def open(self, id: str) -> Run:
        """The run with that id, opened anew. Raises InputError where there is none, or it cannot be read now."""
        for folder in run_folders(self.root):
            if self._id(folder) == id:
                check_plain(folder)
                return open_run(folder)
        raise InputError(f"{self.root}: no run {id!r} here or below")

    def _id(self, folder: Path) -> str:
        return hashlib.sha256(os.fsencode(folder.relative_to(self.root))).hexdigest()[:16]

    def _read(self, folder: Path, written: float) -> Glance:
        id, place = self._id(folder), folder.relative_to(self.root).as_posix()
        try:
            check_plain(folder)
            run = open_run(folder)
            status = run.status
            accuracy = float(run.rounds["accuracy"].iloc[-1]) if has_rounds(run) else math.nan
        except InputError as error:
            reason = one_line(str(error))
            return Glance(id, folder, place, folder.name, None, "unreadable", 0, 0, None, written, reason)
        return Glance(
            id,
            folder,
            place,
            run.name,
            int(status["seed"]),
            str(status["state"]),
            int(status["round"]),
            int(status["rounds"]),
            accuracy if math.isfinite(accuracy) else None,
            written,
            one_line(str(status["reason"])),
        )

    def _sweep(self) -> dict[str, _RunRow]:
        """The rows of the sweep that the root holds, by the name of their run folder; none where it is no sweep."""
        path = self.root / FILE
        if not path.is_file() or path.is_symlink() or path.stat().st_size > SMALL:
            return {}
        try:
            info = open_sweep(self.root).info
        except InputError:  # caught in the middle of a change: the runs are there all the same
            return {}
        rows = {}
        for row in info["runs"]:
            record = info["records"].get(row["digest"], {})
            folder = run_folder(Path(), row["digest"])
            state = "failed" if record.get("state") == "failed" or not row["digest"] else "waiting"
            reason = one_line(str(record.get("reason") or row.get("reason", "")))
            key = folder.name or f"{row['keys']} {row['seed']}"
            rows[key] = _RunRow(folder, settings_text(row["keys"]), row["seed"], state, reason)
        return rows


@dataclass(frozen=True)
class _RunRow:
    """A run of a sweep as `sweep.json` has it: its folder below the sweep's, its varied settings in words, ..."""

    folder: Path
    name: str
    seed: int
    state: str
    reason: str


def _left(folder: Path) -> bool:
    """Whether nobody writes in a run's folder, nor computes the sweep that it belongs to, which may begin it again."""
    return held(folder) is False and not held(folder.parent.parent)


def _stopped(glance: Glance) -> Glance:
    """A run that nobody writes any more."""
    return replace(glance, left=True, state="stopped" if glance.state in _COMPUTED else glance.state)


def _named(glance: Glance, row: _RunRow | None) -> Glance:
    """A run as its sweep calls it; what failed there has failed."""
    if row is None:
        return glance
    failed = row.state == "failed"
    return replace(
        glance,
        name=row.name or glance.name,
        state="failed" if failed else glance.state,
        reason=row.reason if failed else glance.reason,
    )


def run_folders(root: Path) -> list[Path]:
    """The run folders at or below a folder, by path; links are not followed. At most `MOST`."""
    found: list[Path] = []
    for place, folders, files in os.walk(root, followlinks=False):
        folders[:] = sorted(name for name in folders if name not in _INNER)
        if "run.json" in files:
            found.append(Path(place))
            folders.clear()
        if len(found) >= MOST:
            break
    return found


def check_plain(folder: Path) -> None:
    """Raise InputError where a run folder holds a link, a pipe or a device, or a description too large to be one."""
    for path in sorted(folder.rglob("*")):
        try:
            facts = path.lstat()
        except OSError:  # a file that a writer has renamed or deleted meanwhile
            continue
        if not (stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode)):
            raise InputError(f"{path}: is a link or no file; a run folder holds files of its own only")
        if path.suffix in (".json", ".toml") and facts.st_size > SMALL:
            raise InputError(f"{path}: has {facts.st_size} bytes; allowed are {SMALL}")
