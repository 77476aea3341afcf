"""Folders to write in: one writer at a time, by a lock that dies with the process that holds it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

from fedroam.errors import InputError
from fedroam.writing import checked_name
from fedroam.writing import take_lock as take_lock


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
