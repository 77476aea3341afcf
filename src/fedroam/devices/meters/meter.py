"""What a part of the family `meter` promises, and the log of a device's own work that it is held against."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

from fedroam.components import Part, register
from fedroam.errors import FedroamError

What = Literal["training", "communication", "other"]


class MeterError(FedroamError):
    """A meter that cannot be read."""


class Sample(NamedTuple):
    """One reading: when, by the device's own clocks (s; monotonic, and since 1970), and what: a power (W), or how much
    energy has been counted since the meter was opened (J); the other of the two is NaN."""

    monotonic: float
    wall: float
    watt: float = math.nan
    joule: float = math.nan


class Interval(NamedTuple):
    """A stretch of a device's work in a round, s of its monotonic clock."""

    round: int
    what: What
    begin: float
    end: float


@dataclass
class WorkClock:
    """A device's clocks, and the log of its work.

    monotonic never goes back, so intervals are taken by it; wall, seconds since 1970, ties them to other clocks.
    """

    intervals: list[Interval] = field(default_factory=list)
    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time

    @contextlib.contextmanager
    def during(self, what: What, round: int) -> Iterator[None]:
        """Log what is done within it, also where it fails: its energy is spent."""
        begin = self.monotonic()
        try:
            yield
        finally:
            self.intervals.append(Interval(round, what, begin, self.monotonic()))

    def power(self, watt: float) -> Sample:
        """A reading of a power now."""
        return Sample(self.monotonic(), self.wall(), watt=watt)

    def energy(self, joule: float) -> Sample:
        """A reading of a counter now."""
        return Sample(self.monotonic(), self.wall(), joule=joule)


@runtime_checkable
class Meter(Protocol):
    """How the power of a device is measured."""

    @property
    def live(self) -> bool:
        """Whether it reads while the device works, so that a first sample is waited for."""

    def samples(self, watch: WorkClock, stop: threading.Event) -> Iterator[Sample]:
        """Readings in the order of time, until `stop` is set. All of a meter's are powers, or all are counted energy.

        Raises MeterError where it cannot be read (it may be tried again), InputError where its settings cannot be.
        """


@register("meter", "none")
class NoMeter(Part):
    """Nothing is measured."""

    live: ClassVar[bool] = False

    def samples(self, watch: WorkClock, stop: threading.Event) -> Iterator[Sample]:
        """None."""
        yield from ()
