"""How much memory there is, how much a worker may take, how much it took. Linux tells and obeys; others do not."""

from __future__ import annotations

import contextlib
import re
import sys
from pathlib import Path

GIB = 1024**3
STATUS = Path("/proc/self/status")
# Bytes that a worker's limit allows besides its share: stacks of threads, what allocators keep of memory that was given
# back, and buffers that libraries map and hardly touch. The system counts all of it, though it is not held: 230 to 410
# MiB were measured. What a worker held before its first run, which the told figure has in it, makes up for the rest.
RESERVED = 3 * 2**27
WORDS = ("allocate memory", "bad_alloc", "can't start new thread")  # of errors for want of memory
SPARE = 0.9  # share of the free memory that a sweep takes where it is not told otherwise


def _kilobytes(file: Path, name: str) -> int | None:
    """A line `Name: 123 kB` of a file in /proc, in bytes."""
    try:
        found = re.search(rf"^{name}:\s+(\d+) kB", file.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found.group(1)) * 1024 if found else None


def available_memory() -> int | None:
    """Bytes that new work may take without swapping, within this container's limit; None where nobody tells."""
    free = _kilobytes(Path("/proc/meminfo"), "MemAvailable")
    try:
        group = Path("/sys/fs/cgroup")
        most, used = (group / "memory.max").read_text().strip(), (group / "memory.current").read_text()
        if most != "max":
            inside = max(int(most) - int(used), 0)
            free = inside if free is None else min(free, inside)
    except (OSError, ValueError):
        pass
    return free


def limit_memory(budget: int, shared: int = 0) -> tuple[int, int] | None:
    """Let this process take `budget` bytes more than it holds now, and map `shared` bytes of data besides.

    What exceeds it fails as out of memory, in this process alone. Gives the former limit (to be put back with
    `restore`), None where the system has no such limit. RLIMIT_DATA counts private writable memory (setrlimit(2),
    since Linux 4.7), unlike RLIMIT_AS, which also counts what is only reserved.
    """
    held = _kilobytes(STATUS, "VmData")
    if not sys.platform.startswith("linux") or held is None:
        return None
    import resource

    former = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = held + budget + shared
    soft = wanted if former[1] == resource.RLIM_INFINITY else min(wanted, former[1])
    resource.setrlimit(resource.RLIMIT_DATA, (soft, former[1]))
    return former


def raise_limit(by: int) -> None:
    """Let this process take so many bytes more, where `limit_memory` has limited it."""
    if sys.platform.startswith("linux"):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        if soft != resource.RLIM_INFINITY:
            wanted = soft + by
            resource.setrlimit(
                resource.RLIMIT_DATA, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard)
            )


def restore(former: tuple[int, int] | None) -> None:
    """Undo `limit_memory`."""
    if former is not None:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, former)


def die_first() -> None:
    """Ask the system to end this process rather than another when memory runs out: it can be started again."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")


def peak_memory() -> int | None:
    """The most memory that this process has held, libraries included, shared data not; bytes."""
    peak, file, shared = (_kilobytes(STATUS, name) for name in ("VmHWM", "RssFile", "RssShmem"))
    if peak is None:
        return None
    return max(peak - (file or 0) - (shared or 0), 0)


def out_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or what caused it, is that memory ran out (torch, C++ and threads say so only in words)."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        words = str(error).lower()
        if isinstance(error, MemoryError) or any(told in words for told in WORDS):
            return True
        error = error.__cause__ or error.__context__
    return False
