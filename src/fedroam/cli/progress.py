"""Progress of a plan: a live bar on a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Self

from rich.console import RenderableType
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as RichProgress
from rich.table import Column
from rich.text import Text
from typing_extensions import override

from fedroam.cli.console import progress_console, tell, tell_at_once
from fedroam.errors import visible

if TYPE_CHECKING:
    from fedroam.measurement import Measurement
    from fedroam.planning import Plan, PlannedRun
    from fedroam.runner import Observer

WINDOW = 60.0  # seconds over which the rate is taken
ROOMY = 100  # columns of a terminal from which on the bar has room for the run's name too
SILENCE = 300.0  # a plain line comes at least this often (seconds), however slow the rounds are


class RoundRate:
    """Rounds per second over the last minute, and the time that the rest will take."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._marks: deque[tuple[float, int]] = deque()

    def mark(self, rounds: int) -> None:
        """So many rounds (of all runs, in this session) are done now."""
        now = self._clock()
        self._marks.append((now, rounds))
        while len(self._marks) > 2 and now - self._marks[0][0] > WINDOW:
            self._marks.popleft()

    @property
    def rate(self) -> float | None:
        """Rounds per second; None before there is anything to tell."""
        if len(self._marks) < 2 or self._marks[-1][0] <= self._marks[0][0]:
            return None
        (begin, before), (end, after) = self._marks[0], self._marks[-1]
        return (after - before) / (end - begin)

    def describe(self, left: int) -> str:
        """`12.3 rounds/s, 0:00:41 left`, or nothing where it is not known yet."""
        rate = self.rate
        if not rate:
            return ""
        return f"{rate:.3g} rounds/s, {duration(left / rate)} left"


def duration(seconds: float) -> str:
    """Seconds as h:mm:ss."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


class PlanProgress:
    """Follows the runs of a plan; this base shows nothing (`--quiet`), but knows which runs were reused.

    `follow(planned)` gives the observer of the next run, for `run_plan`.
    """

    def __init__(self, plan: Plan) -> None:
        self.total = sum(planned.experiment.rounds for planned in plan.runs)
        self.runs = len(plan.runs)
        self.begun = 0
        self.done = 0  # rounds of all runs, those of reused runs and of earlier sessions included
        self.reused: list[str] = []
        self.pace = RoundRate()
        self._computed = 0
        self._open: PlannedRun | None = None
        self._seen: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._settle()

    def follow(self, planned: PlannedRun) -> Observer:
        """The observer of the run whose turn it is now."""
        self._settle()
        self.begun += 1
        self._open, self._seen = planned, None
        base, diverged = self.done, False

        def observe(round: int, rounds: int, measurement: Measurement | None) -> None:
            first = self._seen is None
            if first:
                self.pace.mark(self._computed)
            if not first or round > 0:
                self._computed += 1
            self.done = base + round
            self._seen = round
            self.pace.mark(self._computed)
            accuracy = None if measurement is None else measurement.numbers["accuracy"]
            self.show(planned, round, accuracy, first)
            nonlocal diverged
            if measurement is not None and measurement.diverged and not diverged:
                diverged = True
                self.warn(
                    f"{planned.folder}: diverged at round {round}: a loss is no number, or far above guessing"
                )

        return observe

    def _settle(self) -> None:
        """The run before this one is over; if nothing was seen of it, it was there already."""
        if self._open is not None and self._seen is None:
            self.reused.append(self._open.folder)
            self.done += self._open.experiment.rounds
            self.reuse(self._open)
        self._open = None

    @property
    def current(self) -> str:
        """The run in hand, as its folder below the plan's."""
        return "" if self._open is None else self._open.folder

    def interrupted(self) -> None:
        """Say that Ctrl-C was pressed. Called inside a signal handler."""
        tell_at_once("stopping after this round (Ctrl-C again stops at once)")

    def show(self, planned: PlannedRun, round: int, accuracy: float | None, first: bool) -> None:
        """Show that a round is done; `accuracy` where it was evaluated, `first` where it is the first seen of a run."""

    def reuse(self, planned: PlannedRun) -> None:
        """Show that a run was finished already."""

    def warn(self, text: str) -> None:
        """Say what whoever waits must know, in a line that stays."""

    def status(self, text: str) -> None:
        """Show how things are now, in a line that the next one replaces."""


class Lines(PlanProgress):
    """A line at the start and the end of each run, and about every tenth of the plan."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._tenth, self._told = 0, time.perf_counter()
        self._accuracy: tuple[int, float] | None = None

    @override
    def show(self, planned: PlannedRun, round: int, accuracy: float | None, first: bool) -> None:
        rounds = planned.experiment.rounds
        if first:
            self._accuracy = None
        if accuracy is not None:
            self._accuracy = (round, accuracy)
        tenth, now = 10 * self.done // self.total, time.perf_counter()
        if not (first or round == rounds or tenth > self._tenth or now - self._told > SILENCE):
            return
        self._tenth, self._told = tenth, now
        facts = [f"{planned.folder}: round {round}/{rounds}"]
        if self._accuracy is not None:
            when, value = self._accuracy
            facts.append(f"accuracy {value:.4f}" + (f" at round {when}" if when != round else ""))
        pace = "" if first else self.pace.describe(self.total - self.done)
        if pace:
            facts.append(pace)
        if self.runs > 1 and first:
            facts.append(f"run {self.begun} of {self.runs}")
        tell(", ".join(facts))

    @override
    def warn(self, text: str) -> None:
        tell(text)

    @override
    def reuse(self, planned: PlannedRun) -> None:
        tell(f"{planned.folder}: finished already, reused")


class _Noted(RichProgress):
    """A bar with a line below it, where there is one."""

    note = ""

    @override
    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        if self.note:
            yield Text(self.note, style="dim", no_wrap=True, overflow="ellipsis")


class Bar(PlanProgress):
    """A live bar over all runs of the plan: run, round, accuracy, rate and time left."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._live = _Noted(
            TextColumn("{task.fields[run]}"),
            BarColumn(bar_width=None, table_column=Column(min_width=6, ratio=1)),
            TextColumn("{task.fields[round]}"),
            TextColumn("{task.fields[accuracy]}"),
            TextColumn("{task.fields[pace]}"),
            console=progress_console(),
            expand=True,
        )
        self._task = self._live.add_task(
            "", total=self.total, run="starting", round="", accuracy="", pace="", start=True
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        super().__exit__(kind)
        self._live.stop()

    @override
    def show(self, planned: PlannedRun, round: int, accuracy: float | None, first: bool) -> None:
        number = f"run {self.begun}/{self.runs}"
        if self.runs == 1:
            name = planned.folder
        else:
            name = f"{planned.folder}, {number}" if self._live.console.width >= ROOMY else number
        if accuracy is not None:
            self._live.update(self._task, accuracy=f"accuracy {accuracy:.3f}")
        at, pace = f"round {round}/{planned.experiment.rounds}", self.pace.describe(self.total - self.done)
        self._live.update(self._task, completed=self.done, run=name, round=at, pace=pace)

    @override
    def reuse(self, planned: PlannedRun) -> None:
        self._live.update(self._task, completed=self.done)
        self._live.console.print(f"{planned.folder}: finished already, reused")

    @override
    def warn(self, text: str) -> None:
        self._live.console.print(visible(text), style="yellow", markup=False, highlight=False)

    @override
    def status(self, text: str) -> None:
        self._live.note = visible(text)


def progress(plan: Plan, quiet: bool) -> PlanProgress:
    """The way to show progress that fits where stderr goes."""
    if quiet:
        return PlanProgress(plan)
    live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    return Bar(plan) if live else Lines(plan)
