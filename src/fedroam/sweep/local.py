"""Worker processes on this machine: started, given tasks, replaced when they die.

Not a pool of the standard library or of pebble: those share one channel among all workers, which a worker killed at
the wrong moment leaves locked, and they tell neither how far a task has come nor, to a worker, that its parent died.
Here each worker has a pipe of its own.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Any

from fedroam.errors import FedroamError, InputError
from fedroam.sweep.worker import Message, serve

FORKSERVER = sys.platform.startswith("linux")
TRIES = 3  # a task whose worker dies is tried so often in all
POLL = 0.2  # seconds between two looks at whether to stop
GRACE = 5.0  # seconds that an idle worker gets to leave by itself
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")

# (task, message): what a worker says of its task. Besides the worker's own messages: {"is": "begun"}, and
# {"is": "again", "reason": ...} where the worker died and another will take the task up.
Hear = Callable[[Message, Message], None]


def start_context() -> BaseContext:
    """How processes are started. Never by plain fork: this process has threads, and a fork would copy their locks
    but not them. On Linux a fork server loads the libraries once for all workers."""
    context = multiprocessing.get_context("forkserver" if FORKSERVER else "spawn")
    if FORKSERVER:
        context.set_forkserver_preload(["fedroam.sweep.worker"])
    return context


def warm_up() -> None:
    """Let the fork server load the libraries while this process does something else."""
    if FORKSERVER:
        from multiprocessing.forkserver import ensure_running

        start_context()
        with _single_threads():
            ensure_running()


@dataclass
class _Hand:
    """A worker process, as its parent knows it."""

    process: BaseProcess
    connection: Connection
    ready: bool = False
    task: Message | None = field(default=None)

    def send(self, message: Message) -> None:
        with contextlib.suppress(OSError):  # a dead worker is noticed when its pipe is read
            self.connection.send_bytes(json.dumps(message).encode())


class Crew:
    """Up to `count` worker processes with the same setting (see `worker.equip`)."""

    def __init__(self, count: int, setting: Mapping[str, Any]) -> None:
        self.count = count
        self.setting = dict(setting)
        self._context = start_context()
        self._hands: list[_Hand] = []
        self._deaths: dict[str, int] = {}
        self._stillborn = 0

    def work(self, tasks: Iterable[Message], hear: Hear, stop: Callable[[], bool] = lambda: False) -> None:
        """Do the tasks, each of which has a "digest", in this order; returns when all have ended.

        Once `stop()` is true, no further task begins and workers leave theirs at the next safe point. A task whose
        worker dies is tried again, at most `TRIES` times in all, then said to have failed. Raises InputError where
        workers cannot be equipped, FedroamError where they do not even start. Leaves no process behind.
        """
        waiting = deque(tasks)
        stopped = False
        try:
            while waiting or any(hand.task for hand in self._hands):
                if not stopped and stop():
                    stopped = True
                    waiting.clear()
                    for hand in self._hands:
                        hand.send({"do": "stop"})
                while len(self._hands) < min(self.count, len(waiting) + self._busy()):
                    self._hands.append(self._hire())
                for hand in self._spoken():
                    self._attend(hand, waiting, hear, stopped)
                for hand in self._hands:
                    if hand.ready and hand.task is None and waiting:
                        hand.task = waiting.popleft()
                        hear(hand.task, {"is": "begun"})
                        hand.send(hand.task)
        finally:
            self._dismiss()

    def _busy(self) -> int:
        return sum(hand.task is not None for hand in self._hands)

    def _hire(self) -> _Hand:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(  # type: ignore[attr-defined]
            target=serve, args=(theirs, self.setting), name="fedroam-worker", daemon=True
        )
        with _single_threads():
            process.start()
        theirs.close()  # or the end of the worker would not end the pipe
        return _Hand(process, ours)

    def _spoken(self) -> list[_Hand]:
        """The workers that have something to say, or are dead."""
        by_pipe = {hand.connection: hand for hand in self._hands}
        return [by_pipe[pipe] for pipe in wait(list(by_pipe), POLL) if isinstance(pipe, Connection)]

    def _attend(self, hand: _Hand, waiting: deque[Message], hear: Hear, stopped: bool) -> None:
        try:
            message = json.loads(hand.connection.recv_bytes())
        except (EOFError, OSError):
            self._mourn(hand, waiting, hear, stopped)
            return
        if message["is"] == "ready":
            hand.ready, self._stillborn = True, 0
        elif message["is"] == "broken":
            raise InputError(str(message["reason"]))
        elif hand.task is not None:
            task = hand.task
            if message["is"] != "round":
                hand.task = None
            if message.get("memory"):  # it ends itself now
                hand.ready = False
            hear(task, message)

    def _mourn(self, hand: _Hand, waiting: deque[Message], hear: Hear, stopped: bool) -> None:
        """A worker is dead."""
        hand.process.join(GRACE)
        self._hands.remove(hand)
        hand.connection.close()
        how = _death(hand.process.exitcode)
        if hand.task is None:
            if not hand.ready and hand.process.exitcode != 0:
                self._stillborn += 1
                if self._stillborn == TRIES:
                    raise FedroamError(
                        f"worker processes cannot start ({how}); a script that runs a sweep needs the line "
                        "if __name__ == '__main__': before it"
                    )
            return
        task = hand.task
        deaths = self._deaths[task["digest"]] = self._deaths.get(task["digest"], 0) + 1
        if stopped:
            hear(task, {"is": "interrupted"})
        elif deaths < TRIES:
            hear(task, {"is": "again", "reason": how})
            # What was to be replaced has been, or the worker died before: either way the ledger knows.
            waiting.appendleft(task)
        else:
            hear(task, {"is": "failed", "reason": f"{how}, {deaths} times"})

    def _dismiss(self) -> None:
        for hand in self._hands:
            if hand.ready and hand.task is None:
                hand.send({"do": "close"})
            else:
                hand.process.kill()
        for hand in self._hands:
            hand.process.join(GRACE)
            if hand.process.is_alive():
                hand.process.kill()
                hand.process.join()
            hand.connection.close()
        self._hands.clear()


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


@contextlib.contextmanager
def _single_threads() -> Iterator[None]:
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
