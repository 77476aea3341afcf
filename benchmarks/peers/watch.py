"""What a command and all that it starts take: seconds, processor seconds, memory together (Linux).

Processes are looked at twice a second. Memory is the proportional set size: what several share counts once. Those that
lose their parent are found again, since this process takes them over.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

PAUSE = 0.5  # s between two looks
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER


@dataclass
class Taken:
    """Of a command: exit code, seconds, processor seconds, most memory (bytes) and processes at once, last words."""

    code: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    memory: int = 0
    processes: int = 0
    words: str = ""
    seen: dict[int, float] = field(default_factory=dict)  # processor seconds of each process, when last seen


def take(command: Sequence[str], environment: dict[str, str], log: Path, limit: float) -> Taken:
    """Run a command to its end, or until `limit` (s), and say what it took. What it says goes to `log`."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    found, over = Taken(), threading.Event()
    before = _of_children()
    begun = time.perf_counter()
    with log.open("wb") as words:
        process = subprocess.Popen(
            command, env=environment, stdout=words, stderr=subprocess.STDOUT, start_new_session=True
        )
        looking = threading.Thread(target=_follow, args=(found, over), daemon=True)
        looking.start()
        try:
            found.code = process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            found.code = -signal.SIGKILL
        finally:
            found.seconds = time.perf_counter() - begun
            over.set()
            looking.join()
            _end(process)
    # Those that were waited for are told exactly; others as they were when they were last seen.
    found.cpu = max(sum(found.seen.values()), _of_children() - before)
    found.words = log.read_text(encoding="utf-8", errors="replace")[-2000:]
    return found


def _of_children() -> float:
    told = os.times()
    return told.children_user + told.children_system


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what the command left behind, and wait for it."""
    for number in _below():
        if number != process.pid or process.poll() is None:
            with contextlib.suppress(OSError):
                os.kill(number, signal.SIGKILL)
    process.wait()
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, 0)[0]:
            pass


def _follow(found: Taken, over: threading.Event) -> None:
    tick = os.sysconf("SC_CLK_TCK")
    while True:
        numbers = _below()
        total = 0
        for number in numbers:
            with contextlib.suppress(OSError, IndexError, ValueError):
                fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
                found.seen[number] = (int(fields[11]) + int(fields[12])) / tick
                for line in Path(f"/proc/{number}/smaps_rollup").read_text(encoding="ascii").splitlines():
                    if line.startswith("Pss:"):
                        total += 1024 * int(line.split()[1])
        found.memory, found.processes = max(found.memory, total), max(found.processes, len(numbers))
        if over.wait(PAUSE):
            return


def _below() -> list[int]:
    """All that descend from this process: it runs one command at a time."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                parents.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    waiting = list(parents.get(os.getpid(), []))
    while waiting:
        number = waiting.pop()
        found.append(number)
        waiting += parents.get(number, [])
    return found
