"""Worker processes on this machine: started, given tasks, replaced when they die.

Not a pool of the standard library or of pebble: those share one channel among all workers, which a worker killed at
the wrong moment leaves locked, and they tell neither how far a task has come nor, to a worker, that its parent died.
Here each worker has a pipe of its own.
"""

from __future__ import annotations

import contextlib
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Generic, TypeVar

from fedroam.errors import FedroamError, InputError
from fedroam.sweep import messages
from fedroam.sweep.fork_server import single_threads, start_context
from fedroam.sweep.worker import Setup, serve

TRIES = 3  # a task whose worker dies is tried so often in all
POLL = 0.2  # seconds between two looks at whether to stop
GRACE = 5.0  # seconds that an idle worker gets to leave by itself
# Bytes of memory that there must be for each thread of a run: what it takes itself, and what it computes with.
A_THREAD = 2**28

T = TypeVar("T", bound=messages.Task)


@dataclass
class WorkerHandle(Generic[T]):
    """The parent's view of a worker process."""

    process: BaseProcess
    connection: Connection
    ready: bool = False
    leaving: bool = False  # it was told to end
    task: T | None = None
    begun: int = 0  # of all tasks that were begun, which one this is
    share: messages.Share | None = None  # what it was told to take of the machine; None: a core

    @property
    def several(self) -> bool:
        """Whether it was told to take several cores."""
        return self.share is not None and self.share.cores > 1

    def send(self, order: messages.Message) -> None:
        """Tell it something."""
        with contextlib.suppress(OSError):  # a dead worker is noticed when its pipe is read
            self.connection.send_bytes(messages.encode(order))


class WorkerPool(Generic[T]):
    """Up to `count` worker processes with the same setup, which share `cores` (0: one for each).

    Where there are more cores than runs, because few are left or memory is short, runs compute with several.
    """

    def __init__(self, count: int, setup: Setup, cores: int = 0) -> None:
        self.count = count
        self.cores = max(cores, count)
        self.setup = setup
        self._context = start_context()
        self._workers: list[WorkerHandle[T]] = []
        self._deaths: Counter[str] = Counter()  # of the workers of a task
        self._failed_starts = 0  # without one that succeeded between
        self._begun = 0
        self._alone: set[str] = set()  # tasks that had too little memory for several threads

    def run(
        self,
        tasks: Iterable[T],
        on_message: Callable[[T, messages.Message], None],
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """Do the tasks in this order; returns when all have ended. on_message(task, message): what is to say of each.

        Once `stop()` is true, no further task begins and workers leave theirs at the next safe point. A task whose
        worker dies is tried again, at most `TRIES` times in all, then said to have failed. Raises InputError where
        workers cannot be set up, FedroamError where they do not even start. Leaves no process behind.
        """
        waiting = deque(tasks)
        stopped = False
        try:
            while waiting or self._busy():
                if not stopped and stop():
                    stopped = True
                    waiting.clear()
                    for worker in self._workers:
                        worker.send(messages.Stop())
                while self._staying() < min(self.count, len(waiting) + self._busy()):
                    self._workers.append(self._start_worker())
                for worker in self._readable():
                    try:
                        message = messages.decode(worker.connection.recv_bytes())
                    except (EOFError, OSError):
                        self._handle_death(worker, waiting, on_message, stopped)
                    else:
                        self._handle_message(worker, message, waiting, on_message, stopped)
                for worker in self._workers:
                    if worker.ready and worker.task is None and waiting:
                        worker.task = waiting.popleft()
                        self._begun += 1
                        worker.begun = self._begun
                        on_message(worker.task, messages.TaskBegun())
                        worker.send(worker.task)
                if not stopped:
                    self._share_out(len(waiting))
        finally:
            self._close()

    def _busy(self) -> int:
        return sum(worker.task is not None for worker in self._workers)

    def _staying(self) -> int:
        return sum(not worker.leaving for worker in self._workers)

    def _share_out(self, waiting: int) -> None:
        """Give what nobody needs to the runs in hand: an even share of cores and memory to each, and a core that is
        left over to the last begun, which has the most before it. Workers for whom no task is left go, or they would
        hold memory."""
        busy = [worker for worker in self._workers if worker.task is not None]
        if not waiting:
            for worker in self._workers:
                if worker.ready and worker.task is None:
                    worker.ready, worker.leaving = False, True
                    worker.send(messages.Close())
        together = min(self.count, len(busy) + waiting)
        if not busy or (together == self.cores and not any(worker.share for worker in busy)):
            return
        each, over = divmod(self.cores, together)
        memory = None if self.setup.memory is None else self.setup.memory * self.count // together
        for k, worker in enumerate(sorted(busy, key=lambda worker: -worker.begun)):
            if not isinstance(worker.task, messages.RunTask):
                continue
            cores = 1 if worker.task.digest in self._alone else each + (k < over)
            if memory is not None:
                cores = min(cores, max(1, memory // A_THREAD))
            share = messages.Share(cores, memory)
            if worker.share != share:
                worker.share = share
                worker.send(share)

    def _start_worker(self) -> WorkerHandle[T]:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=serve, args=(theirs, self.setup), name="fedroam-worker", daemon=True
        )
        with single_threads():
            process.start()
        theirs.close()  # or the end of the worker would not end the pipe
        return WorkerHandle(process, ours)

    def _readable(self) -> list[WorkerHandle[T]]:
        """The workers that have something to say, or are dead."""
        pipes = [worker.connection for worker in self._workers]
        by_pipe: dict[object, WorkerHandle[T]] = dict(zip(pipes, self._workers, strict=True))
        return [by_pipe[pipe] for pipe in wait(pipes, POLL)]

    def _handle_message(
        self,
        worker: WorkerHandle[T],
        message: messages.Message,
        waiting: deque[T],
        on_message: Callable[[T, messages.Message], None],
        stopped: bool = False,
    ) -> None:
        """Note what a worker says of itself, and pass on what it says of its task. One that ran out of memory with
        several threads is tried again with one."""
        if isinstance(message, messages.Ready):
            worker.ready, self._failed_starts = True, 0
        elif isinstance(message, messages.Broken):
            raise InputError(message.reason)
        elif worker.task is not None:
            task = worker.task
            if not isinstance(message, messages.RoundDone):
                worker.task = None
            if isinstance(message, messages.Failed) and message.out_of_memory:  # it ends itself now
                worker.ready, worker.leaving = False, True
                if worker.several and task.digest not in self._alone:
                    self._alone.add(task.digest)
                    message = messages.Again("out of memory with several threads; now with one")
                    if stopped:
                        message = messages.Stopped()
                    else:
                        waiting.appendleft(task)
            on_message(task, message)

    def _handle_death(
        self,
        worker: WorkerHandle[T],
        waiting: deque[T],
        on_message: Callable[[T, messages.Message], None],
        stopped: bool,
    ) -> None:
        """Part with a dead worker; its task is tried again, or has failed."""
        worker.process.join(GRACE)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()
        self._workers.remove(worker)
        worker.connection.close()
        how, task = _death(worker.process.exitcode), worker.task
        if task is None:
            if not worker.ready and not worker.leaving and worker.process.exitcode != 0:
                self._failed_starts += 1
                if self._failed_starts == TRIES:
                    raise FedroamError(
                        f"worker processes cannot start ({how}); a script that runs a sweep needs the line "
                        "if __name__ == '__main__': before it"
                    )
            return
        self._deaths[task.digest] += 1
        if worker.several:  # the system may have ended it for want of memory
            self._alone.add(task.digest)
        if stopped:
            on_message(task, messages.Stopped())
        elif self._deaths[task.digest] < TRIES:
            on_message(task, messages.Again(how))
            # What was to be replaced has been, or the worker died before: either way the ledger knows.
            waiting.appendleft(task)
        else:
            on_message(task, messages.Failed(f"{how}, {TRIES} times"))

    def _close(self) -> None:
        for worker in self._workers:
            if worker.ready and worker.task is None:
                worker.send(messages.Close())
            elif not worker.leaving:
                worker.process.kill()
        for worker in self._workers:
            worker.process.join(GRACE)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.connection.close()
        self._workers.clear()


def _death(code: int | None) -> str:
    """How a process ended, in words."""
    if code is None or code >= 0:
        return f"its worker ended by itself with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = " (by hand, or by the system for want of memory)" if name == "SIGKILL" else ""
    return f"its worker was killed by {name}{hint}"
