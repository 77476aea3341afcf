"""Programs of Python that begin at once: forked from one process that has loaded what they would.

To load torch and fedroam takes two seconds of a processor, and tests start dozens of programs that do. Where a test is
not about how a program is loaded, it puts `python()` in the place of `sys.executable`: what it starts then is a process
of its own all the same, with its own arguments, environment, folder, streams and signals.
"""

from __future__ import annotations

import multiprocessing
import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from support.warm.client import FOLDER, begin_server

HERE = Path(__file__).parent
FORKS = hasattr(os, "fork")


def offer(config: pytest.Config) -> None:
    """All tests of this session share a server: the first that needs it starts it, and it ends with the session,
    however that ends."""
    if not FORKS:
        return
    folder = Path(tempfile.mkdtemp(prefix="fedroam-warm-"))
    os.mkfifo(folder / "life")
    life = os.open(folder / "life", os.O_RDWR)  # none of those that are started inherits it
    os.environ[FOLDER] = str(folder)
    words = [sys.executable, "-S", "-E", str(HERE / "fork_server.py")]
    (folder / "python").write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    (folder / "python").chmod(0o700)

    def end() -> None:
        os.close(life)
        shutil.rmtree(folder, ignore_errors=True)

    config.add_cleanup(end)


def python() -> list[str]:
    """The words in the place of `sys.executable`: -m and a module, -c and code, or a script, and arguments follow."""
    if not FORKS:
        return [sys.executable]
    begin_server()
    return [sys.executable, "-S", "-E", str(HERE / "client.py")]


def for_ray() -> dict[str, str]:
    """Settings of a node of Ray whose workers begin so."""
    if not FORKS:
        return {}
    begin_server()
    return {"setup_worker_path": str(HERE / "ray_worker.py")}


def for_multiprocessing() -> None:
    """Let the fork servers that this process starts, one for sweeps and others, begin so."""
    if FORKS:
        multiprocessing.set_executable(str(Path(os.environ[FOLDER]) / "python"))
