"""Transfers that are to be made in a round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FIRST = -1


@dataclass(frozen=True)
class PlannedTransfers:
    """Transfers that are to be made; all arrays [transfers].

    sender, receiver: int64, nodes. size: float64, bytes. ready: float64, s; infinite for one that never is. after:
    int64, another transfer, which must get through first and waits for none itself, or -1; the one is then ready
    `ready` seconds after the other's end.
    """

    sender: np.ndarray
    receiver: np.ndarray
    size: np.ndarray
    ready: np.ndarray
    after: np.ndarray

    def __len__(self) -> int:
        """Number of transfers."""
        return len(self.sender)
