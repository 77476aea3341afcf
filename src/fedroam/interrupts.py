"""Ctrl-C: the first one takes effect at a safe point, the second at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

from fedroam.errors import FedroamError


class Interrupted(FedroamError):
    """Ctrl-C stopped a run after its checkpoint was written."""


class interrupts:  # noqa: N801 (a context manager, used as a function)
    """Within it, Ctrl-C is noted, for the caller to act on when it suits; a second one stops at once.

    Gives a function that tells whether Ctrl-C was pressed. `on_first()` is called at the first one, inside the
    signal handler. Does nothing outside the main thread, where signals cannot be handled.
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
        if self._count > 1:
            raise KeyboardInterrupt
        self._on_first()

    def __exit__(self, *_: object) -> None:
        if self._old is not None:
            signal.signal(signal.SIGINT, self._old)
