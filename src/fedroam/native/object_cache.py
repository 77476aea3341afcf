"""Compiled kernels kept between processes, in a folder that belongs to the user alone.

To load machine code is to run it. So nothing is read where anybody else could have put it: the folder must be the
user's, with mode 0700, and a file in it the user's, writable by nobody else. The digest in a file tells damage: what
was cut off, flipped or renamed is taken for missing, and written anew. It does not tell malice: whoever can write as
the user can write a right digest, too, but could change fedroam itself as well.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fedroam.data.sources.places import cache_folder

VARIABLE = "FEDROAM_KERNEL_CACHE"
MOST = 64 << 20  # bytes of all files; a kernel has some thousand
LARGEST = 8 << 20  # bytes of one file
ABANDONED = 3600.0  # seconds: a file that was begun so long ago is one of a killed process
LOOK = "0"  # whoever writes a small file under a name that begins so, one of 16, looks through all that there are
NAME = re.compile(r"[0-9a-f]{64}(\.[0-9a-f]{16}\.tmp)?")
# A pipe of that name is not waited for, a link not followed.
SAFELY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


@dataclass(frozen=True)
class ObjectCache:
    """Files by name (64 hexadecimal digits) in `folder`; those used longest ago go when all have over `most` bytes.

    That is looked at whenever a file of a sixteenth of that is written, and with one of 16 smaller ones: of thousands
    of kernels, to look through all for each takes longer than to write it. So for a moment there may be a few more.
    Any number of processes may use it at a time. What cannot be read is missing, what cannot be written is not kept:
    neither is an error.
    """

    folder: Path
    most: int = MOST

    def read(self, name: str) -> bytes | None:
        """What was kept under a name, unchanged; None where it is missing, damaged, or not safe to use."""
        with contextlib.suppress(OSError), self._opened() as folder:
            handle = os.open(name, os.O_RDONLY | SAFELY, dir_fd=folder)
            with os.fdopen(handle, "rb") as file:
                facts = os.fstat(handle)
                if not stat.S_ISREG(facts.st_mode) or facts.st_size > LARGEST:
                    return None
                if facts.st_uid != os.geteuid() or facts.st_mode & 0o022:
                    return None
                found = file.read()
                if found[:32] != _digest(name, found[32:]):
                    return None
                # Used now; a folder that can only be read, as in an image, is used as well.
                with contextlib.suppress(OSError):
                    os.utime(handle)
                return found[32:]
        return None

    def write(self, name: str, content: bytes) -> None:
        """Keep this under a name: others see all of it or nothing."""
        with contextlib.suppress(OSError), self._opened() as folder:
            aside = f"{name}.{secrets.token_hex(8)}.tmp"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | SAFELY
            with os.fdopen(os.open(aside, flags, 0o600, dir_fd=folder), "wb") as file:
                try:
                    # Not flushed to the disk: a file that a power failure leaves half written is noticed.
                    file.write(_digest(name, content) + content)
                    file.flush()
                    os.replace(aside, name, src_dir_fd=folder, dst_dir_fd=folder)
                except OSError:
                    os.unlink(aside, dir_fd=folder)
                    raise
            if name.startswith(LOOK) or len(content) >= self.most // 16:
                self._trim(folder)

    def size(self) -> tuple[int, int]:
        """How many files there are, and their bytes. Raises OSError where the folder is not used, and says why."""
        with self._opened() as folder:
            sizes = [size for _, _, size in _files(folder)]
        return len(sizes), sum(sizes)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        """A handle of the folder, which is made if need be. Raises OSError where it is not the user's alone."""
        if not hasattr(os, "geteuid") or os.open not in os.supports_dir_fd:
            raise PermissionError("this system does not tell whose a file is")
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | SAFELY)
        try:
            facts = os.fstat(folder)
            if facts.st_uid != os.geteuid():
                raise PermissionError(f"it belongs to user {facts.st_uid}; allowed is {os.geteuid()}")
            if facts.st_mode & 0o077:
                raise PermissionError(f"its mode is {facts.st_mode & 0o7777:04o}; allowed is 0700")
            yield folder
        finally:
            os.close(folder)

    def _trim(self, folder: int) -> None:
        """Delete what was used longest ago, to three quarters of what is allowed, where it is more than that."""
        files = sorted(_files(folder))
        left, now = sum(size for _, _, size in files), time.time()
        enough = self.most if left <= self.most else self.most * 3 // 4
        for used, name, size in files:
            if left > enough or (name.endswith(".tmp") and now - used > ABANDONED):
                with contextlib.suppress(FileNotFoundError):  # another process was quicker
                    os.unlink(name, dir_fd=folder)
                left -= size


def object_cache() -> ObjectCache | None:
    """The one in the user's cache, or in the folder that `FEDROAM_KERNEL_CACHE` names; None where that is 0, and where
    there is no such user, as that of a container may have no home."""
    asked = os.environ.get(VARIABLE, "")
    if asked == "0":
        return None
    try:
        return ObjectCache(Path(asked).expanduser() if asked else cache_folder() / "kernels")
    except RuntimeError:  # whose home is not known
        return None


def _digest(name: str, content: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + content).digest()


def _files(folder: int) -> list[tuple[float, str, int]]:
    """Of each file of ours: when it was used, its name and bytes."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                if NAME.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                    facts = entry.stat(follow_symlinks=False)
                    found.append((facts.st_mtime, entry.name, facts.st_size))
    return found
