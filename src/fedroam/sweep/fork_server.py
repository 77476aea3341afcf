"""How worker processes are started: on Linux from one that has loaded the libraries, once for all of them."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext

FORKSERVER = sys.platform.startswith("linux")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
# Arrow's own allocator reserves a GiB at its first table, which a limit of memory counts as if it were held.
ALONE = {**dict.fromkeys(THREADS, "1"), "ARROW_DEFAULT_MEMORY_POOL": "system"}


def start_context() -> SpawnContext | ForkServerContext:
    """How processes are started. Never by plain fork: this process has threads, and a fork would copy their locks
    but not them. On Linux a fork server loads the libraries once for all workers."""
    if not FORKSERVER:
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fedroam.sweep.loading"])
    return context


def warm_up() -> None:
    """Let the fork server load the libraries while this process does something else, such as loading its own."""
    if FORKSERVER:
        from multiprocessing import resource_tracker
        from multiprocessing.forkserver import ensure_running

        start_context()
        resource_tracker.ensure_running()  # which lets Ctrl-C through again when it has started its own process
        with single_threads(), _unheard():
            ensure_running()


@contextlib.contextmanager
def _unheard() -> Iterator[None]:
    """Ctrl-C waits, and processes started within it never hear of it: the fork server would end in the midst of loading
    a library, and say so at length. It ends with this process; workers are told by a message."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def single_threads() -> Iterator[None]:
    """Processes started within it load their libraries with one thread each, and take no memory before they need it."""
    before = {name: os.environ.get(name) for name in ALONE}
    os.environ.update(ALONE)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
