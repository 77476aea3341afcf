"""Waiting for what happens, not for how long it takes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

# No machine is so slow: whoever waits longer waits for something that will not happen. Below pytest's own limit.
HANGS = 1200.0  # seconds


def eventually(condition: Callable[[], object], what: str) -> None:
    """Wait until a condition holds. what: for the message, should it never hold."""
    end = time.monotonic() + HANGS
    while not condition():
        assert time.monotonic() < end, f"never happened: {what}"
        time.sleep(0.02)


def lives(process: int) -> bool:
    """Whether there is such a process, if only one that nobody has waited for."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
