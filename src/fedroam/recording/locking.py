"""Folders to write in: one writer at a time, by a lock that dies with the process that holds it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO

from fedroam.errors import InputError
from fedroam.writing import NO_LINK, checked_name
from fedroam.writing import take_lock as take_lock

if sys.platform != "win32":
    import fcntl

LOCK = ".lock"
GLANCE = 0.3  # seconds that a writer waits for a lock: whoever asks whether it is held holds it for a moment


def held(folder: Path) -> bool | None:
    """Whether a process writes in a folder now, as its lock tells. None where nobody can know: the folder has no lock,
    as a run that another machine of a cluster computes, or the system tells of none (Windows)."""
    if sys.platform == "win32":
        return None
    try:  # a pipe of that name would let its reader wait
        lock = os.open(folder / LOCK, os.O_RDONLY | os.O_NONBLOCK | NO_LINK)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(lock)
    return False


def lock_folder(folder: Path, busy: str) -> IO[str]:
    """Make a folder, if need be, and lock it; `busy` is what another process would be doing. Raises InputError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = take_lock(folder / LOCK, GLANCE)
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
