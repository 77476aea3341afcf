"""Many cases, each in a child process that may compute for ten seconds and take 2 GiB, and what became of them."""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import resource
import shutil
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any
from unicodedata import category

import numpy as np

from attack import flips, targets
from attack.flips import FLIPS
from attack.targets import TARGETS, TRAPS, Silent, Target
from fedroam.cli.console import one_line
from fedroam.errors import FedroamError, InputError
from fedroam.randomness import stream

SECONDS = 10.0  # of computing that a case may take, however busy the machine is
HANGS = 300.0  # seconds by the clock after which a case that does not end is a finding, too
GIB = 2**30
MEMORY = 2 * GIB  # that a case may take beyond what the process has before it
LONGEST = 3000  # characters that an error may have: what a terminal shows at once
ROOMS = (
    "fedroam.analysis.report.report",
    "fedroam.runner",
    "fedroam.sweep.running",
    "fedroam.traces",
    "sklearn.datasets",
    "pydantic",
)
PREPARING = 1200.0  # seconds for imports and samples: longer is for ever


@dataclass(frozen=True)
class Finding:
    """A case that was neither refused with a line nor accepted. what: one line; seen: the place in the code."""

    target: str
    seed: int
    case: int
    what: str
    seen: str = ""

    def __str__(self) -> str:
        return f"{self.target} --seed {self.seed} --case {self.case}: {self.what}{self.seen and f' [{self.seen}]'}"


@dataclass
class Tally:
    """What became of the cases of a target."""

    cases: int = 0
    refused: int = 0
    accepted: int = 0
    findings: list[Finding] = field(default_factory=list)


def named(name: str) -> Target:
    """A target, a flip, or a trap."""
    return (TARGETS | FLIPS | TRAPS)[name]


def content(name: str, seed: int, case: int) -> bytes:
    """What a case gives its target: always the same."""
    return named(name).content(_draws(name, seed, case))


def _draws(name: str, seed: int, case: int) -> np.random.Generator:
    return stream(seed, f"attack {name}", case)


def outcome(name: str, seed: int, case: int, folder: Path) -> tuple[str, str, str]:
    """Play one case here: ("refused" | "accepted" | "finding", one line, place in the code)."""
    data = content(name, seed, case)
    told = io.StringIO()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(told):
            warnings.simplefilter("ignore")
            named(name).enter(folder, data)
    except FedroamError as error:
        # What the command line tells of it; its stderr shows by their numbers what cannot be encoded.
        text = one_line(str(error)).encode("utf-8", "backslashreplace").decode()
        if len(text) > LONGEST:
            return "finding", f"a long error: {len(text)} characters, {text[:200]!r}", _place(error)
        if not "".join(one for one in text if category(one) != "Zs").isprintable():
            return "finding", f"control characters in an error: {text[:200]!r}", _place(error)
        return ("refused" if isinstance(error, InputError) else "accepted"), text, ""
    except Silent as error:
        return "finding", f"silent: {error}", ""
    except BaseException as error:  # MemoryError and what libraries raise on their own are what is looked for
        return "finding", f"{type(error).__name__}: {str(error)[:200]!r}", _place(error)
    return "accepted", "", ""


def _place(error: BaseException) -> str:
    """The last line of fedroam's that an error came through."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/fedroam/" in f.filename]
    return f"{frames[-1].filename.rpartition('/fedroam/')[2]}:{frames[-1].lineno}" if frames else ""


def _serve(connection: Connection, names: Sequence[str], scratch: str) -> None:
    """A child: plays the cases that it is told, within the limit of memory."""
    warnings.simplefilter("ignore")
    tempfile.tempdir = scratch
    with contextlib.redirect_stderr(io.StringIO()):
        targets.made_ready([name for name in names if name not in FLIPS])
        if any(name in FLIPS for name in names):
            flips.made_ready()
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    connection.send("ready")
    while (task := connection.recv()) is not None:
        folder = Path(scratch) / "case"
        folder.mkdir()
        begin = time.process_time()
        found = outcome(*task, folder)
        took = time.process_time() - begin
        if took > SECONDS:
            found = ("finding", f"took over {SECONDS:g} s", "")
        shutil.rmtree(folder, ignore_errors=True)
        connection.send(found)


class _Child:
    """A child and the case that it is at."""

    def __init__(self, names: Sequence[str]) -> None:
        self.scratch = tempfile.mkdtemp(prefix="fedroam-attack-")
        # From a server that has imported all this and nothing else, so that children start at once.
        context = multiprocessing.get_context("forkserver")
        # (Python 3.11's does not look below tests/, so that the rooms are named, too.)
        context.set_forkserver_preload(["attack.campaign", *ROOMS])
        self.connection, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other, names, self.scratch))
        self.process.start()
        other.close()
        self.task: tuple[str, int, int] | None = None
        self.since, self.ready = time.monotonic(), False

    def give(self, task: tuple[str, int, int]) -> None:
        self.task, self.since = task, time.monotonic()
        self.connection.send(task)

    def end(self, at_once: bool) -> None:
        if at_once:
            self.process.kill()
        else:
            self.connection.send(None)
        self.process.join()
        self.connection.close()
        shutil.rmtree(self.scratch, ignore_errors=True)


def attack(
    names: Sequence[str], cases: int, seed: int, workers: int = 1, patience: float = HANGS
) -> Iterator[tuple[str, int, str, str, str]]:
    """Play `cases` cases of each target; gives (target, case, outcome, one line, place) as they come."""
    tasks: Iterator[tuple[str, int, int]] = ((n, seed, k) for n in names for k in range(cases))
    children = [_Child(names) for _ in range(workers)]
    try:
        while children:
            ready = wait([child.connection for child in children], timeout=0.2)
            for child in list(children):
                spent = time.monotonic() - child.since
                answer: Any = None
                if child.connection in ready:
                    try:
                        answer = child.connection.recv()
                    except (EOFError, OSError):
                        child.process.join()
                        answer = ("finding", f"the process died (exit code {child.process.exitcode})", "")
                elif spent > (patience if child.ready else PREPARING):
                    answer = ("finding", f"took over {patience:g} s", "")
                if answer is None:
                    continue
                if answer == "ready":
                    child.ready = True
                elif child.task is None:
                    raise RuntimeError(f"the attack could not be prepared: {answer[1]}")
                else:
                    name, _, case = child.task
                    yield (name, case, *answer)
                    if "died" in answer[1] or "took over" in answer[1]:
                        child.end(at_once=True)
                        children.remove(child)
                        child = _Child(names)
                        children.append(child)
                        continue
                task = next(tasks, None)
                if task is None:
                    child.end(at_once=False)
                    children.remove(child)
                else:
                    child.give(task)
    finally:
        for child in children:
            child.end(at_once=True)


def tallies(names: Sequence[str], cases: int, seed: int, workers: int = 1) -> dict[str, Tally]:
    """What became of the cases, by target."""
    found = {name: Tally() for name in names}
    for name, case, what, line, seen in attack(names, cases, seed, workers):
        tally = found[name]
        tally.cases += 1
        if what == "finding":
            tally.findings.append(Finding(name, seed, case, line, seen))
        elif what == "refused":
            tally.refused += 1
        else:
            tally.accepted += 1
    return found


def alike(findings: Sequence[Finding]) -> list[tuple[int, Finding]]:
    """One finding of each kind and place with how many there are of it, the most frequent first."""
    kinds = [(f.target, f.what.partition(":")[0], f.seen) for f in findings]
    counts = Counter(kinds)
    return [(count, findings[kinds.index(kind)]) for kind, count in counts.most_common()]
