"""Lines about callers: each once a minute, and so many in all, so that nobody fills a log by calling."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

WINDOW = 60.0  # seconds
MOST = 100  # lines


class Told:
    """What has been told lately. Called from several threads."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._lines: set[str] = set()
        self._since = time.monotonic()
        self._lock = threading.Lock()

    def once(self, line: str) -> None:
        """Tell a line, unless it, or too much, was told lately."""
        with self._lock:
            if time.monotonic() - self._since > WINDOW:
                self._lines.clear()
                self._since = time.monotonic()
            if line in self._lines or len(self._lines) > MOST:
                return
            self._lines.add(line)
            full = len(self._lines) > MOST
        self._tell(
            f"more than {MOST} lines about callers within {WINDOW:g} s: the others are left out"
            if full
            else line
        )
