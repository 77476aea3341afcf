"""Transfers that take as long as a radio says: whoever sends holds back each piece until it would be through.

The server tells, with its leave to send a model, how fast its link is; it needs no right to shape the network.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field

import numpy as np

from fedroam.cost import Tariff
from fedroam.federation import Traffic
from fedroam.scene import Scene

PIECE = 1.0  # seconds that a piece takes at most: whoever waits for the next one sees that there is progress
SMALLEST = 1024  # bytes of a piece, however slow the link


@dataclass(frozen=True)
class Rates:
    """How fast models get from one end to another: in the air time for which a run's `[radio]` charges.

    size: bytes of a model.
    """

    tariff: Tariff
    size: int

    @classmethod
    def of(cls, scene: Scene) -> Rates:
        """Those of a run."""
        layout = scene.task.layout
        return cls(scene.tariff, 4 * (layout.size + layout.buffer_size))

    def __call__(self, sender: np.ndarray, receiver: np.ndarray, distance: np.ndarray) -> np.ndarray:
        """Bytes in a second, float64 [transfers]; infinite where a transfer takes no time.

        sender, receiver: int64 [transfers], as `Traffic` writes them; distance: float64 [transfers], m, NaN where an
        end has no place. Raises InputError where the price depends on distances that are not known.
        """
        traffic = Traffic.of(sender, receiver, self.size, distance)
        cost = self.tariff.radio.cost(traffic, self.tariff.distances)
        with np.errstate(divide="ignore"):
            return np.asarray(self.size / np.maximum(cost.time_up, cost.time_down))


@dataclass
class Pace:
    """How fast a node sends to others, and when each of its links is free again. Called from several threads."""

    _rates: dict[int, float] = field(default_factory=dict)
    _free: dict[int, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def set(self, end: int, rate: float) -> None:
        """From now on the link to a holder carries so many bytes in a second."""
        with self._lock:
            self._rates[end] = rate

    def piece(self, end: int, most: int) -> int:
        """How many bytes to send at once to a holder, of `most`."""
        rate = self._rates.get(end, math.inf)
        return most if rate * PIECE >= most else max(SMALLEST, int(rate * PIECE))

    def wait(self, end: int, size: int, now: float) -> float:
        """Seconds until the link to a holder has carried a piece of so many bytes, which comes after all before it;
        now: s, of any clock that is always the same."""
        with self._lock:
            begin = max(now, self._free.get(end, now))
            self._free[end] = begin + size / self._rates.get(end, math.inf)
            return self._free[end] - now
