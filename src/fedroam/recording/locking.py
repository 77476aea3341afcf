"""Folders to write in: one writer at a time, by a lock that dies with the process that holds it."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import IO

from fedroam.errors import InputError
from fedroam.writing import checked_name

if sys.platform != "win32":
    import fcntl

    _NO_LINK = os.O_NOFOLLOW
else:
    _NO_LINK = 0


def take_lock(path: Path, patience: float = 0.0) -> IO[str] | None:
    """The open lock file, to be closed by whoever took it; None where another process still holds it after `patience`
    seconds. On Windows two writers go unnoticed. Raises OSError where the file cannot be written, InputError where it
    is a link: what it points to would be emptied."""
    if path.is_symlink():
        raise InputError(f"{path}: is a link; fedroam locks files of its own only: delete the link")
    lock = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | _NO_LINK, 0o666), "w")
    if sys.platform == "win32":
        return lock
    end = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except OSError:
            if time.monotonic() >= end:
                lock.close()
                return None
            time.sleep(0.1)


def lock_folder(folder: Path, busy: str) -> IO[str]:
    """Make a folder, if need be, and lock it; `busy` is what another process would be doing. Raises InputError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = take_lock(folder / ".lock")
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{folder}: cannot be written ({reason}); choose another --out") from None
    if lock is None:
        raise InputError(f"{folder}: another process is {busy}; wait for it")
    return lock


def folder_at(path: Path) -> bool:
    """Whether a folder is there. Raises InputError where something else is, or can be."""
    if checked_name(path, "--out").is_dir():
        return True
    if os.path.lexists(path):
        raise InputError(f"{path}: is a file; --out needs a folder")
    return False
