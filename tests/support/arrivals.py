"""Updates that arrive at once, taken in the order of clients, for examples that are worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest


class _Rising:
    def random(self, count: int) -> np.ndarray:
        return np.arange(count) / count


def by_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who of equals arrives first is drawn; from now on it is the one with the lowest number."""
    monkeypatch.setattr("fedroam.federation.protocol.stream", lambda *_: _Rising())
