"""How far a sweep has come, for whoever shows it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass
class Running:
    """A run in hand: the round it has come to and the accuracy last measured (None before the first)."""

    title: str
    rounds: int
    round: int = 0
    accuracy: float | None = None
    first: int | None = None  # the round at which this session took it up


@dataclass(frozen=True)
class Event:
    """What just happened to a run: `text` is the reason where it failed, or why it begins again."""

    what: Literal["begun", "round", "done", "failed", "again", "interrupted"]
    digest: str
    title: str
    text: str = ""


@dataclass
class Progress:
    """The state of a sweep. Runs are counted once each, by digest.

    total: runs of the sweep; reused: those finished before; costs: the estimated work of the runs that are to be
    computed now, by digest, in any unit.
    """

    total: int
    reused: int
    costs: Mapping[str, float]
    clock: Callable[[], float] = time.perf_counter
    done: int = 0
    failed: int = 0
    workers: int = 1
    running: dict[str, Running] = field(default_factory=dict)
    accuracies: dict[str, float] = field(default_factory=dict)
    _begin: float | None = None
    _spent: float = 0.0
    _over: set[str] = field(default_factory=set)

    def begin(self, digest: str, title: str, rounds: int) -> Event:
        """A worker takes up a run."""
        self._begin = self.clock() if self._begin is None else self._begin
        self.running[digest] = Running(title, rounds)
        return Event("begun", digest, title)

    def advance(self, digest: str, round: int, accuracy: float | None) -> Event:
        """A run has come to a round."""
        run = self.running[digest]
        run.first = round if run.first is None else run.first
        run.round = round
        if accuracy is not None:
            run.accuracy = self.accuracies[digest] = accuracy
        return Event("round", digest, run.title)

    def end(
        self, digest: str, what: Literal["done", "failed", "again", "interrupted"], text: str = ""
    ) -> Event:
        """A run is over, or its worker is."""
        run = self.running.pop(digest)
        self._spent += self._share(digest, run)
        if what in ("done", "failed"):
            self._over.add(digest)
            self.done += what == "done"
            self.failed += what == "failed"
        return Event(what, digest, run.title, text)

    def _share(self, digest: str, run: Running) -> float:
        """Work that this session has put into a run."""
        return self.costs.get(digest, 0.0) * (run.round - (run.first or 0)) / run.rounds

    @property
    def seconds_left(self) -> float | None:
        """Wall-clock seconds that the rest will take at the pace of this session; None before it is known."""
        if self._begin is None:
            return None
        spent = self._spent + sum(self._share(digest, run) for digest, run in self.running.items())
        elapsed = self.clock() - self._begin
        if spent <= 0 or elapsed <= 0:
            return None
        left = {digest: cost for digest, cost in self.costs.items() if digest not in self._over}
        for digest, run in self.running.items():
            if digest in left:
                left[digest] *= 1 - run.round / run.rounds
        # No run can be shared out between workers: the longest one bounds the end.
        return max(sum(left.values()), max(left.values(), default=0.0) * self.workers) * elapsed / spent


Observer = Callable[[Progress, Event], None]
