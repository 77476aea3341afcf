"""Threads that stay alive over a run and take jobs one after the other, the largest first.

Each worker computes with one thread, so that results do not depend on how many workers there are: the arithmetic
of a job is the same whoever does it, and no job is ever split between workers.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import os
import platform
import queue
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch

from fedroam.errors import FedroamError, InputError, told

# Blocks below this size are kept by the allocator, larger ones go back to the system when freed. glibc allows no
# higher threshold.
KEPT_BLOCK = 32 * 1024 * 1024
# What the allocator may hold back before it returns memory to the system, and how much it takes at a time.
KEPT_MEMORY = 1024 * 1024 * 1024
MEMORY_STEP = 64 * 1024 * 1024


def cores() -> int:
    """Cores that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@functools.cache
def keep_memory() -> bool:
    """Tell glibc's allocator to keep freed blocks of up to 32 MiB; whether it could be told (once a process).

    By default every activation above 128 KiB is a fresh mapping whose pages the kernel must clear on first touch,
    at each step anew; that can cost a third of the time of a small network. Elsewhere than on glibc this does
    nothing. See mallopt(3).
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        libc = ctypes.CDLL(None)
        libc.gnu_get_libc_version  # noqa: B018  (absent in other C libraries)
        trim, top_pad, mmap_threshold = -1, -2, -3
        settings = ((mmap_threshold, KEPT_BLOCK), (trim, KEPT_MEMORY), (top_pad, MEMORY_STEP))
        told = [libc.mallopt(name, value) == 1 for name, value in settings]
        return all(told)
    except (OSError, AttributeError):
        return False


SHARED_SAFELY = "2.10"  # the version of torch, which compares its own by number


@functools.cache
def share_no_convolution() -> bool:
    """Have an older torch compute without oneDNN on ARM; whether this is that (once a process).

    There threads that convolve at once get wrong numbers, and NaN: seen with 2.9.1, no more with 2.10. One worker goes
    without it, too: results do not depend on how many there are.
    """
    wrong = platform.machine().lower() in ("aarch64", "arm64") and torch.__version__ < SHARED_SAFELY
    if wrong:
        torch.backends.mkldnn.set_flags(False)
    return wrong


class Cancelled(Exception):
    """Raised inside a job to leave it early, because another failed or the user pressed Ctrl-C."""


PATIENCE = 0.5  # seconds
# Multiplications and additions that are over before a worker would be awake.
FEW = 2**22


@contextlib.contextmanager
def computing_as_workers() -> Iterator[None]:
    """Within it this thread takes denormals for zeros, as workers do, and comes to the same bits."""
    before = bool(np.float32(1e-40) * np.float32(1) == 0)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


class _Batch:
    """Jobs handed to the workers together."""

    def __init__(self, order: Sequence[int], do: Callable[[int, int], None], workers: int) -> None:
        self.left = iter(order)
        self.do = do
        self.lock = threading.Lock()
        self.stop = threading.Event()
        self.done = threading.Semaphore(0)
        self.workers = workers
        self.failures: dict[int, BaseException] = {}

    def work(self, worker: int) -> None:
        while not self.stop.is_set():
            with self.lock:
                job = next(self.left, None)
            if job is None:
                break
            try:
                self.do(worker, job)
            except Cancelled:
                break
            except BaseException as error:
                self.failures[job] = error
                self.stop.set()
        self.done.release()


def _serve(worker: int, inbox: queue.SimpleQueue[_Batch | None], ready: threading.Semaphore) -> None:
    torch.get_num_threads()  # torch sets up each thread on its first use, and would undo an earlier setting
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # denormals are up to a hundred times slower; set for this thread only
    ready.release()
    while (batch := inbox.get()) is not None:
        batch.work(worker)
        del batch  # or an idle worker would keep a finished batch, and all that it refers to, alive


def _dismiss(inboxes: list[queue.SimpleQueue[_Batch | None]], threads: list[threading.Thread]) -> None:
    for inbox in inboxes:
        inbox.put(None)
    for thread in threads:
        if thread is not threading.current_thread():  # a worker may hold the last reference to the pool
            thread.join()


def _failure(job: str, error: BaseException) -> FedroamError:
    """What is raised for the error of a job."""
    kind = InputError if isinstance(error, InputError) else FedroamError
    return kind(f"{job}: {told(error)}")


MOST_WORKERS = 1024  # threads of a process, or processes of a sweep on one machine


def _checked(count: int) -> int:
    if not 0 <= count <= MOST_WORKERS:
        raise InputError(f"workers = {count}: allowed are 0 (one a core) to {MOST_WORKERS}")
    return count or cores()


class Workers:
    """A number of single-threaded workers; 0 means one for each core this process may use.

    `close` ends them. So does the garbage collector, and so does the end of the program.
    """

    def __init__(self, count: int = 0) -> None:
        self.count = _checked(count)
        keep_memory()
        share_no_convolution()
        self._inboxes: list[queue.SimpleQueue[_Batch | None]] = []
        self._threads: list[threading.Thread] = []
        self._batch: _Batch | None = None
        self._process = os.getpid()
        self._turn = threading.Lock()
        self._finalizer = weakref.finalize(self, _dismiss, self._inboxes, self._threads)

    def _start(self) -> None:
        self._process = os.getpid()
        before, ready = torch.get_num_threads(), threading.Semaphore(0)
        more = range(len(self._threads), self.count)
        for worker in more:
            inbox: queue.SimpleQueue[_Batch | None] = queue.SimpleQueue()
            thread = threading.Thread(
                target=_serve, args=(worker, inbox, ready), name=f"fedroam-{worker}", daemon=True
            )
            thread.start()
            self._inboxes.append(inbox)
            self._threads.append(thread)
        for _ in more:
            ready.acquire()
        # A worker's setting is its own, but torch also keeps the last one as the default of later threads.
        torch.set_num_threads(before)

    def resize(self, count: int) -> None:
        """Have so many workers (0: one a core) from the next jobs on. Of what has been begun nothing changes."""
        with self._turn:
            self.count = _checked(count)

    def run(
        self,
        sizes: Sequence[float],
        do: Callable[[int, int], None],
        name: Callable[[int], str] = "job {}".format,
        *,
        serial: bool = False,
        most: int | None = None,
    ) -> None:
        """Call do(worker, k) once for each k, the largest sizes[k] first; wait for all.

        Where a call raises, no further one begins and the error of the first job (by number) is raised again with
        name(k) in front; so it is for KeyboardInterrupt in this thread. With `serial` one worker does all, with `most`
        those below that number, for whom the caller has room.
        """
        if not self._finalizer.alive:
            raise FedroamError("these workers are closed")
        with self._turn:
            batch = self._run(sizes, do, 1 if serial else min(most or self.count, self.count))
        if batch.failures:
            first = min(batch.failures)
            error = batch.failures[first]
            raise _failure(name(first), error) from error

    def parts(
        self,
        count: int,
        step: int,
        do: Callable[[int, int, int], None],
        name: Callable[[int], str],
        *,
        most: int | None = None,
        work: float = math.inf,
    ) -> None:
        """Call do(worker, begin, end) for so many of `count` columns, or rows, at a time, as `run` does.

        work: the multiplications and additions of all of it, where kernels do them. If they are `FEW`, this thread does
        them, in the place of worker 0.
        """
        starts = range(0, count, step)
        if work <= FEW:
            with computing_as_workers():
                for k, begin in enumerate(starts):
                    try:
                        do(0, begin, min(begin + step, count))
                    except Exception as error:
                        raise _failure(name(k), error) from error
            return
        self.run(
            [1.0] * len(starts),
            lambda worker, k: do(worker, starts[k], min(starts[k] + step, count)),
            name,
            most=most,
        )

    def _run(self, sizes: Sequence[float], do: Callable[[int, int], None], most: int) -> _Batch:
        if self._process != os.getpid():  # a forked process has the objects but not the threads
            self._inboxes.clear()
            self._threads.clear()
        if len(self._threads) < self.count:
            self._start()
        order = sorted(range(len(sizes)), key=lambda k: (-sizes[k], k))
        count = min(most, len(order))
        batch = self._batch = _Batch(order, do, count)
        for inbox in self._inboxes[:count]:
            inbox.put(batch)
        waiting = count
        try:
            while waiting:
                # Not for ever: a signal just before the wait begins is answered only when it ends.
                waiting -= batch.done.acquire(timeout=PATIENCE)
        except BaseException:  # Ctrl-C: let the workers leave their jobs, so that nobody writes any more
            batch.stop.set()
            for _ in range(waiting):
                batch.done.acquire()
            raise
        finally:
            self._batch = None
        return batch

    def check(self) -> None:
        """To be called now and then inside a long job: raises Cancelled where the work is to end."""
        batch = self._batch
        if batch is not None and batch.stop.is_set():
            raise Cancelled

    def close(self) -> None:
        """End the threads."""
        self._finalizer()


@functools.cache
def shared_workers() -> Workers:
    """Workers for what is done to all models together: as many as torch may use threads in this process, made at the
    first call."""
    return Workers(max(1, min(cores(), torch.get_num_threads())))
