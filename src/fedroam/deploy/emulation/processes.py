"""The processes of an emulated site's nodes, as the one who starts them sees them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Protocol

from fedroam.deploy.emulation.fork_server import BEGAN, main
from fedroam.deploy.site.file import FILE

PATIENCE = 5.0  # seconds that a node may take to end by itself
SLOW = 30.0  # seconds that the fork server may take to notice, on a busy machine


class Processes(Protocol):
    """Nodes, each a process of its own."""

    def start(self, names: Iterable[str]) -> None:
        """Let nodes begin."""

    def living(self) -> dict[str, int]:
        """The nodes that live, and which process each is."""

    def ended(self) -> dict[str, int]:
        """What has ended, and with which exit code."""

    def end(self) -> None:
        """Nodes that were told that all is done end by themselves; the others are ended."""


def node_processes(folder: Path, use: Sequence[str], meters: Path) -> Processes:
    """Processes for nodes of a site; use: files with the user's own parts; meters: where readings go."""
    files = [str(Path(file).resolve()) for file in use]
    # Elsewhere libraries may have begun threads by the time of a fork, or there is none.
    kind = Forked if sys.platform == "linux" else Spawned
    return kind(folder, files, meters.resolve())


class Forked:
    """Nodes that a fork server makes, which share its memory."""

    def __init__(self, folder: Path, use: Sequence[str], meters: Path, patience: float = PATIENCE) -> None:
        self._patience = patience
        program = f"import sys, {main.__module__} as it; sys.exit(it.guarded(lambda: it.main(sys.argv[1:])))"
        words = [sys.executable, "-c", program, str(folder), str(meters), str(patience), *use]
        self._server = _begun(words, heard=True)
        self._begun = False
        self._living: dict[str, int] = {}
        self._ended: dict[str, int] = {}
        assert self._server.stdout is not None
        self._thread = threading.Thread(
            target=self._listen, args=(self._server.stdout,), name="nodes", daemon=True
        )
        self._thread.start()

    def start(self, names: Iterable[str]) -> None:
        """Let the fork server fork."""
        self._begun = True
        assert self._server.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended: `ended` tells
            self._server.stdin.write("".join(f"{name}\n" for name in names).encode())
            self._server.stdin.flush()

    def living(self) -> dict[str, int]:
        """The nodes, and the fork server."""
        return {"fork server": self._server.pid, **self._living}

    def ended(self) -> dict[str, int]:
        """The nodes, and the fork server."""
        code = self._server.poll()
        return {**self._ended, **({} if code is None else {"fork server": code})}

    def end(self) -> None:
        """Tell the fork server, which ends the nodes."""
        if not self._begun:  # it may still read
            self._server.kill()
        assert self._server.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._server.stdin.close()
        _ended(self._server, 3 * self._patience + SLOW)
        self._thread.join()

    def _listen(self, lines: IO[bytes]) -> None:
        """The thread: what the fork server tells."""
        for line in lines:
            what, name, number = line.decode().split()
            if what == BEGAN:
                self._living[name] = int(number)
            else:
                self._living.pop(name, None)
                self._ended[name] = int(number)


class Spawned:
    """Nodes that are each begun by the command that a device runs."""

    def __init__(self, folder: Path, use: Sequence[str], meters: Path, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._words = [sys.executable, "-m", "fedroam", "node", "--site", str(folder / FILE), "--quiet"]
        self._words += ["--meters", str(meters), *(word for file in use for word in ("--use", file))]
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, names: Iterable[str]) -> None:
        """Start each."""
        for name in names:
            self._nodes[name] = _begun([*self._words, "--name", name])

    def living(self) -> dict[str, int]:
        """The nodes."""
        return {name: node.pid for name, node in self._nodes.items() if node.poll() is None}

    def ended(self) -> dict[str, int]:
        """The nodes."""
        codes = {name: node.poll() for name, node in self._nodes.items()}
        return {name: code for name, code in codes.items() if code is not None}

    def end(self) -> None:
        """One after the other: the first has all the patience, the others what is left of it."""
        for node in self._nodes.values():
            _ended(node, self._patience)


def _begun(words: Sequence[str], *, heard: bool = False) -> subprocess.Popen[bytes]:
    """A process whose libraries begin no threads, in a group of its own: Ctrl-C at the terminal is the server's to act
    on, after the round. heard: it is told, and tells, by pipes."""
    alone = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    # Each thread that serves would otherwise have a heap of its own, of which some is never given back.
    heaps = {"MALLOC_ARENA_MAX": "2"}
    return subprocess.Popen(
        words,
        env=heaps | os.environ | alone,
        start_new_session=True,
        stdin=subprocess.PIPE if heard else subprocess.DEVNULL,
        stdout=subprocess.PIPE if heard else None,
    )


def _ended(process: subprocess.Popen[bytes], patience: float) -> None:
    for force in (process.terminate, process.kill):
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            force()
    process.wait()
