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
    since: float = 0.0  # the clock when it was begun


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
    computed now, by digest, in any unit; groups: by digest, groups of runs for which the estimate errs alike, the
    narrowest first: how long a unit of work takes is learnt from the runs of the narrowest group that has begun.
    """

    total: int
    reused: int
    costs: Mapping[str, float]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    clock: Callable[[], float] = time.perf_counter
    done: int = 0
    failed: int = 0
    workers: int = 1
    running: dict[str, Running] = field(default_factory=dict)
    accuracies: dict[str, float] = field(default_factory=dict)
    # Seconds and work of the runs that are over, by group.
    _ended: dict[str, tuple[float, float]] = field(default_factory=dict)
    _over: set[str] = field(default_factory=set)

    def begin(self, digest: str, title: str, rounds: int) -> Event:
        """Note that a worker takes up a run."""
        self.running[digest] = Running(title, rounds, since=self.clock())
        return Event("begun", digest, title)

    def advance(self, digest: str, round: int, accuracy: float | None) -> Event:
        """Note the round that a run has come to."""
        run = self.running[digest]
        run.first = round if run.first is None else run.first
        run.round = round
        if accuracy is not None:
            run.accuracy = self.accuracies[digest] = accuracy
        return Event("round", digest, run.title)

    def end(
        self, digest: str, what: Literal["done", "failed", "again", "interrupted"], text: str = ""
    ) -> Event:
        """Note that a run is over, or its worker is."""
        run = self.running.pop(digest)
        self._add(self._ended, digest, run)
        if what in ("done", "failed"):
            self._over.add(digest)
            self.done += what == "done"
            self.failed += what == "failed"
        return Event(what, digest, run.title, text)

    def _share(self, digest: str, run: Running) -> float:
        """Work that this session has put into a run."""
        return self.costs.get(digest, 0.0) * (run.round - (run.first or 0)) / run.rounds

    def _groups(self, digest: str) -> tuple[str, ...]:
        return (*self.groups.get(digest, ()), "")  # the last is of all

    def _add(self, sums: dict[str, tuple[float, float]], digest: str, run: Running) -> None:
        """Count a run's seconds and work for its groups; one without work says nothing of how long work takes."""
        work = self._share(digest, run)
        if work > 0:
            for group in self._groups(digest):
                seconds, done = sums.get(group, (0.0, 0.0))
                sums[group] = (seconds + self.clock() - run.since, done + work)

    @property
    def seconds_left(self) -> float | None:
        """Wall-clock seconds that the rest will take at the pace of this session; None before it is known."""
        sums = dict(self._ended)
        for digest, run in self.running.items():
            self._add(sums, digest, run)
        pace = {group: seconds / work for group, (seconds, work) in sums.items()}
        if not pace.get("", 0) > 0:
            return None
        left = {}
        for digest, cost in self.costs.items():
            if digest not in self._over:
                begun = self.running.get(digest)
                rest = 1.0 if begun is None else 1 - begun.round / begun.rounds
                left[digest] = rest * cost * next(pace[g] for g in self._groups(digest) if g in pace)
        # A run gets several cores only where fewer runs are left: the longest one bounds the end, with what it has had.
        return max(sum(left.values()) / self.workers, max(left.values(), default=0.0))


Observer = Callable[[Progress, Event], None]
