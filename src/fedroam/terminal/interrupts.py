"""Ctrl-C: the first one takes effect at a safe point, the second at once; nothing cuts off the last words."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

from fedroam.errors import FedroamError

STOPPED = 130  # exit code of a program stopped by Ctrl-C
PATIENCE = 5.0  # seconds that an ending program may take before Ctrl-C ends it without further ado


class Interrupted(FedroamError):
    """Ctrl-C stopped a run after its checkpoint was written."""


class StoppedAtOnce(KeyboardInterrupt):
    """Ctrl-C that takes effect at once.

    A class of its own, because CPython marks a process to die of SIGINT, whatever its exit code, as soon as a plain
    KeyboardInterrupt has left a text given to `exec` or `eval`, even where it is handled afterwards. Data classes and
    named tuples are made by such texts, so a Ctrl-C while a library is imported would often end in the signal.
    """


class WholeProgram:
    """Ctrl-C for a whole program: within it, one raises StoppedAtOnce, until the program is `ending`.

    From then on Ctrl-C does nothing for `PATIENCE` seconds (the last words are said, locks and screens given back),
    and afterwards ends the process with exit code 130. `for_good`: the process ends after it, so Ctrl-C stays without
    effect: Python gives signals their deadly meaning back while it shuts down. Does nothing outside the main thread.
    """

    def __init__(self, for_good: bool) -> None:
        self._for_good = for_good
        self._ending: float | None = None
        self._old: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._old = signal.signal(signal.SIGINT, self)
        return self

    def ending(self) -> None:
        """Nothing is to be interrupted any more."""
        self._ending = time.monotonic()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """The signal handler."""
        if self._ending is None:
            raise StoppedAtOnce
        if time.monotonic() - self._ending > PATIENCE:
            os._exit(STOPPED)

    def __exit__(self, *_: object) -> None:
        self.ending()
        if self._old is not None:
            signal.signal(signal.SIGINT, signal.SIG_IGN if self._for_good else self._old)


def ending() -> None:
    """The program says its last words: tell the `WholeProgram` around, if there is one."""
    handler = signal.getsignal(signal.SIGINT)
    if isinstance(handler, WholeProgram):
        handler.ending()


class interrupts:  # noqa: N801 (a context manager, used as a function)
    """Within it, Ctrl-C is noted, for the caller to act on when it suits; a second one raises StoppedAtOnce.

    Gives a function that tells whether Ctrl-C was pressed. `on_first()` is called at the first one, inside the
    signal handler. Where Interrupted or KeyboardInterrupt leaves it, the program around it is ending (see
    `WholeProgram`). Does nothing outside the main thread, where signals cannot be handled.
    """

    def __init__(self, on_first: Callable[[], None]) -> None:
        self._on_first = on_first

    def __enter__(self) -> Callable[[], bool]:
        self._count, self._old = 0, None
        if threading.current_thread() is threading.main_thread():
            self._old = signal.signal(signal.SIGINT, self._note)
        return lambda: self._count > 0

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._count += 1
        if self._count == 1:
            self._on_first()
        elif isinstance(self._old, WholeProgram):
            self._old(number, frame)
        else:
            raise StoppedAtOnce

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._old is None:
            return
        stopped = kind is not None and issubclass(kind, (Interrupted, KeyboardInterrupt))
        if stopped and isinstance(self._old, WholeProgram):
            self._old.ending()
        signal.signal(signal.SIGINT, self._old)
