"""Transfers that take as long as a radio says, and training that takes as long as a device does: whoever sends holds
back each piece until it would be through, whoever trains its answer.

The server tells, with its leave to send a model, how fast its link is; it needs no right to shape the network.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from fedroam.clock import Timing
from fedroam.cost import Tariff
from fedroam.federation import Traffic
from fedroam.learning import Job
from fedroam.links import rates_of
from fedroam.scene import Scene

PIECE = 1.0  # seconds that a piece takes at most: whoever waits for the next one sees that there is progress
SMALLEST = 1024  # bytes of a piece, however slow the link


class Network(Protocol):
    """A network whose links are slow by themselves."""

    @property
    def impaired(self) -> bool:
        """Whether its links also have the delay and the loss of the run's `[link]`."""

    def shape(self, sender: np.ndarray, receiver: np.ndarray, rate: np.ndarray) -> None:
        """Make the links from senders to receivers (int64 [transfers]) so fast (float64 [transfers], bytes/s)."""


@dataclass(frozen=True)
class Rates:
    """How fast models get from one end to another: in the time that a run's `[link]` says, or, under a clock without
    seconds, in the air time for which its `[radio]` charges.

    size: bytes of a model. timing: what takes how long; None under a clock without seconds. network: what makes
    links so fast, where it is not the senders; then these send as fast as they can.
    """

    tariff: Tariff
    size: int
    timing: Timing | None = None
    network: Network | None = None

    @classmethod
    def of(cls, scene: Scene, network: Network | None = None) -> Rates:
        """Those of a run."""
        layout = scene.task.layout
        return cls(scene.tariff, 4 * (layout.size + layout.buffer_size), scene.timing, network)

    def __call__(
        self,
        sender: np.ndarray,
        receiver: np.ndarray,
        distance: np.ndarray,
        size: np.ndarray | None = None,
    ) -> np.ndarray:
        """Bytes in a second, float64 [transfers]; infinite where a transfer takes no time.

        sender, receiver: int64 [transfers], as `Traffic` writes them; distance: float64 [transfers], m, NaN where an
        end has no place. size: float64 [transfers], bytes of each, above 0; None: those of a model. Raises InputError
        where the price depends on distances that are not known.
        """
        if self.timing is not None:
            link, rate = self.timing.link, self._bare(self.timing, sender, receiver, distance)
            sizes = np.full(len(sender), float(self.size)) if size is None else size
            with np.errstate(divide="ignore"):
                return np.asarray(sizes / (link.setup + sizes / (rate * (1 - link.loss))))
        traffic = Traffic.of(sender, receiver, self.size, distance)
        cost = self.tariff.cost(traffic)
        with np.errstate(divide="ignore"):
            return np.asarray(self.size / np.maximum(cost.time_up, cost.time_down))

    def shape(
        self,
        sender: np.ndarray,
        receiver: np.ndarray,
        distance: np.ndarray,
        size: np.ndarray | None = None,
        times: np.ndarray | float = 1.0,
    ) -> None:
        """Make links so many times as fast from now on, where it is not the senders that are slow; the other arguments
        are those of the call.

        A network whose links have delay and loss gets the rate without them: it is they that make transfers longer.
        """
        if self.network is None:
            return
        if self.timing is not None and self.network.impaired:
            rate = self._bare(self.timing, sender, receiver, distance)
        else:
            rate = self(sender, receiver, distance, size)
        self.network.shape(sender, receiver, rate * times)

    @staticmethod
    def _bare(timing: Timing, sender: np.ndarray, receiver: np.ndarray, distance: np.ndarray) -> np.ndarray:
        """The rate of the link itself, without setup and loss."""
        return rates_of(timing.link, distance, timing.seed, np.stack([sender, receiver], axis=1))

    def work(self, jobs: Sequence[Job], client: int) -> float | None:
        """Seconds that a client's local work takes; None for as long as it does."""
        return None if self.timing is None else float(self.timing.work(jobs, client + 1)[client])


@dataclass
class Pace:
    """How fast a node sends to others, when each of its links is free again, and since when it has nothing else to do.

    Nodes are asked for one thing after the other, all of them at once: who is ready early is asked when the last one
    is. What it then sends, or trains, counts as begun when it was ready, as it would by itself; who has done nothing
    yet in a round has been ready since that began, however late it is asked. since: that moment, s, of any clock that
    is always the same; not known before a round begins. Called from several threads.
    """

    round: int = 0
    since: float = -math.inf
    _rates: dict[int, float] = field(default_factory=dict)
    _free: dict[int, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, round: int, began: float) -> None:
        """Something is asked for in a round that began then; with a new one all are ready."""
        with self._lock:
            if round != self.round:
                self.round, self.since = round, began

    def done(self, now: float, seconds: float = 0.0) -> float:
        """What was asked for has been done, which takes so many seconds by itself; how many of them are still to pass
        before it may be told."""
        with self._lock:
            self.since = max(now, self.since + seconds)
            return self.since - now

    def passing(self, size: int, rate: float, now: float) -> float:
        """Seconds until so many bytes that need not be sent, as they are there already, would have got through at this
        rate (bytes/s)."""
        with self._lock:
            return max(0.0, (now if math.isinf(self.since) else self.since) + size / rate - now)

    def set(self, end: int, rate: float) -> None:
        """From now on the link to a holder carries so many bytes in a second."""
        with self._lock:
            self._rates[end] = rate

    def piece(self, end: int, most: int) -> int:
        """How many bytes to send at once to a holder, of `most`."""
        rate = self._rates.get(end, math.inf)
        return most if rate * PIECE >= most else max(SMALLEST, int(rate * PIECE))

    def wait(self, end: int, size: int, now: float) -> float:
        """Seconds until the link to a holder has carried a piece of so many bytes, which comes after all before it, and
        not before the node was ready; now: s, of the clock of `since`."""
        with self._lock:
            begin = max(now if math.isinf(self.since) else self.since, self._free.get(end, -math.inf))
            self._free[end] = begin + size / self._rates.get(end, math.inf)
            return max(0.0, self._free[end] - now)
