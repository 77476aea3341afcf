"""One writer of a folder at a time: a lock that dies with the process that holds it."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import IO

from fedroam.errors import InputError

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
