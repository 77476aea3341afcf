"""Writing files so that a kill or a full disk at any moment leaves the old file or the new one, never half of one."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from fedroam.errors import InputError, wrong

if sys.platform != "win32":
    import fcntl

    NO_LINK = os.O_NOFOLLOW  # of `os.open`: refuses a link
else:
    NO_LINK = 0


A_NAME = "the name of one file or folder"


def checked_name(path: str | Path, owner: str = "") -> Path:
    """The path, where the system takes such a name: no part of it is too long, it holds no NUL, and it is not empty,
    which would mean the folder that one happens to be in.

    Nothing need be there. Raises InputError, in the name of the option or setting `owner`.
    """
    if not isinstance(path, str | os.PathLike):
        raise wrong(owner or "path", path, A_NAME)
    if not os.fspath(path).strip():
        raise InputError(
            f"{owner or 'path'} {str(path)!r}: allowed is the name of a file or folder, '.' for this one"
        )
    try:
        os.lstat(path)
    except ValueError:
        raise InputError(
            f"{owner} {str(path)!r}: a name with NUL in it; allowed are names without".strip()
        ) from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            longest = max(map(len, Path(path).parts))
            told = f"its longest part has {longest} characters, allowed are about 255, and 4096 in all"
            raise InputError(f"{owner} {str(path)!r}: a name that is too long: {told}".strip()) from None
    return Path(path)


def make_folder(folder: Path) -> None:
    """Make a folder that the user named, and those above it, where there is none. Raises InputError where none can be
    made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be made ({error.strerror or error}); allowed is a folder that is there, or can be"
        ) from None


def half_written(name: str) -> bool:
    """Whether a file of this name is one that was being written: ours end in `.tmp`, and safetensors writes beside the
    file that it was named, to `.tmp` and six letters or digits."""
    return name.endswith(".tmp") or re.fullmatch(r"\.tmp[0-9A-Za-z]{6}", name) is not None


@contextlib.contextmanager
def _put_into_place(path: Path) -> Iterator[tuple[int, Path]]:
    """A new file beside `path`, open for writing (its descriptor, which is the caller's to close, and its name), that
    is renamed to `path` in the end.

    It has a name that nobody can foresee and is made by nobody else, so that nothing that was planted in the folder is
    written through; it ends in `.tmp`, and is deleted where writing fails. A link at `path` is refused: InputError.
    """
    name = os.fspath(path)
    if os.path.islink(name):  # noqa: PTH114 (as texts, which is sooner: a run writes dozens of files)
        raise InputError(f"{path}: is a link; fedroam writes files of its own only: delete the link")
    aside = f"{name}.{secrets.token_hex(6)}.tmp"
    try:
        yield os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666), Path(aside)
        os.replace(aside, name)  # noqa: PTH105
    except Exception as error:
        Path(aside).unlink(missing_ok=True)  # a full disk leaves neither half a file nor the place it takes
        if isinstance(error, OSError) and error.filename in (None, aside):  # none: while it was written
            error.filename = name  # the one that whoever reads the message knows
        raise


@contextlib.contextmanager
def being_written(path: Path) -> Iterator[Path]:
    """A new file beside `path`, to be filled within it; in the end it is flushed to the disk and renamed to `path`.

    The file aside has a name that nobody can foresee, ends in `.tmp`, and is deleted where writing fails. A link at
    `path` is refused: InputError.
    """
    with _put_into_place(path) as (handle, aside):
        os.close(handle)
        yield aside
        with aside.open("rb+") as written:  # anew: whoever filled it may have put another file there
            os.fsync(written.fileno())


def write_aside(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file as it is `being_written`."""
    with being_written(path) as aside:
        write(aside)


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file whole, as `write_aside` does."""
    with _put_into_place(path) as (handle, _), open(handle, "wb") as file:  # noqa: PTH123 (a descriptor)
        file.write(data)
        file.flush()
        os.fsync(handle)


def linked(path: Path, whole: Path) -> bool:
    """Put a file that is whole and flushed to the disk to `path` under another name, instead of writing it again;
    whether the system can (not every file system knows several names of a file, and nothing is changed then).

    A link at `path` is refused: InputError.
    """
    name = os.fspath(path)
    if os.path.islink(name):  # noqa: PTH114
        raise InputError(f"{path}: is a link; fedroam writes files of its own only: delete the link")
    aside = f"{name}.{secrets.token_hex(6)}.tmp"
    try:
        os.link(whole, aside, follow_symlinks=False)
    except (OSError, NotImplementedError):
        return False
    try:
        if not stat.S_ISREG(os.lstat(aside).st_mode):
            return False
        os.replace(aside, name)  # noqa: PTH105
    finally:
        # It is there still where `path` was the same file: nothing is renamed then.
        Path(aside).unlink(missing_ok=True)
    return True


def write_text(path: Path, text: str) -> None:
    """Write text as UTF-8, lines ending as they do in it, as `write_aside` does."""
    write_bytes(path, text.encode("utf-8"))


def add_line(path: Path, line: str) -> None:
    """Add a line to a file that is written line by line, as UTF-8; a last one that a kill or a power failure has left
    half written goes, which the new one would otherwise be joined to."""
    path.touch()
    with path.open("r+b") as file:
        file.truncate(file.read().rfind(b"\n") + 1)
        file.seek(0, os.SEEK_END)
        file.write(f"{line}\n".encode())


def write_named(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill the file that the user named, as `write_aside` does.

    The user may name what fedroam would not of itself: a link is followed, a pipe or a device is written to.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        write(path)
        return
    try:
        write_aside(target, write)
    except OSError as error:
        if error.filename == str(target):
            error.filename = str(path)  # as the user has called it
        raise


def take_lock(path: Path, patience: float = 0.0) -> IO[str] | None:
    """The open lock file, to be closed by whoever took it; None where another process still holds it after `patience`
    seconds. On Windows two writers go unnoticed. Raises OSError where the file cannot be written, InputError where it
    is a link: what it points to would be emptied."""
    if path.is_symlink():
        raise InputError(f"{path}: is a link; fedroam locks files of its own only: delete the link")
    lock = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | NO_LINK, 0o666), "w")
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
