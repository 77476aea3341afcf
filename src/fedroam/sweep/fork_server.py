"""How worker processes are started: on Linux from one that has loaded the libraries, once for all of them."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext

FORKSERVER = sys.platform.startswith("linux")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def start_context() -> SpawnContext | ForkServerContext:
    """How processes are started. Never by plain fork: this process has threads, and a fork would copy their locks
    but not them. On Linux a fork server loads the libraries once for all workers."""
    if not FORKSERVER:
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fedroam.sweep.worker"])
    return context


def warm_up() -> None:
    """Let the fork server load the libraries while this process does something else, such as loading its own."""
    if FORKSERVER:
        from multiprocessing.forkserver import ensure_running

        start_context()
        with single_threads():
            ensure_running()


@contextlib.contextmanager
def single_threads() -> Iterator[None]:
    """Processes started within it load their libraries with one thread each."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
