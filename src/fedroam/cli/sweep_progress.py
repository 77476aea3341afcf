"""Progress of a sweep: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Self

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text
from typing_extensions import override

from fedroam.cli.console import cell, progress_console, say, tell, tell_at_once
from fedroam.cli.progress import duration
from fedroam.errors import FedroamError, one_line

if TYPE_CHECKING:
    from fedroam.planning import SweepPlan, SweepRun
    from fedroam.sweep import Event, Progress
    from fedroam.sweep.estimate import Estimate

ROWS = 32  # runs in hand that the table shows
SILENCE = 60.0  # a plain line comes at least this often (seconds) while runs are in hand


def by_reason(failed: Iterable[tuple[str, str]]) -> list[str]:
    """Failed runs, by title and reason, in a line for each reason: `a, seed 0 and 24 more: no such file`."""
    titles: dict[str, list[str]] = {}
    for title, reason in failed:
        titles.setdefault(reason, []).append(title)
    return [
        f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {reason}"
        for reason, names in titles.items()
    ]


def measured_costs(plan: SweepPlan, todo: Mapping[str, SweepRun], workers: int) -> Estimate:
    """What runs of a plan will cost; says which of them would fail. Raises FedroamError where none can be measured."""
    from fedroam.learning.cpu.workers import cores
    from fedroam.planning.own_parts import modules_of
    from fedroam.sweep.estimate import estimate
    from fedroam.sweep.running import check_workers

    check_workers(workers)
    modules = modules_of(run.experiment for run in todo.values())
    found = estimate(todo, min(workers or cores(), len(todo)), use=plan.use, modules=modules)
    for reason in dict.fromkeys(found.failed.values()):
        say(one_line(f"would fail: {reason}"))
    if not found.measured:
        raise FedroamError("none of the variants could be measured, so there is no estimate")
    return found


class SweepProgress:
    """Follows a sweep; this base tells only of failures (`--quiet`)."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def follow(self, progress: Progress, event: Event) -> None:
        """The observer of `run_sweep`."""
        if event.what == "failed":
            self.line(f"{event.title}: failed: {event.text}")
        elif event.what == "again":
            self.line(f"{event.title}: {event.text}; it begins again at its last checkpoint")
        self.show(progress, event)

    def show(self, progress: Progress, event: Event) -> None:
        """Show what happened."""

    def line(self, text: str) -> None:
        """Print a line that stays."""
        tell(one_line(text))

    def interrupted(self) -> None:
        """Say that Ctrl-C was pressed. Called inside a signal handler."""
        tell_at_once("stopping after the present rounds (Ctrl-C again stops at once)")


def headline(progress: Progress) -> str:
    """`5 of 24 runs done, 1 failed, 2 running, 0:00:41 left`."""
    facts = [f"{progress.reused + progress.done} of {progress.total} runs done"]
    if progress.failed:
        facts.append(f"{progress.failed} failed")
    facts.append(f"{len(progress.running)} running")
    left = progress.seconds_left
    if left is not None:
        facts.append(f"{duration(left)} left")
    return ", ".join(facts)


class SweepLines(SweepProgress):
    """A line for each run that ends, and now and then one on how far all have come."""

    def __init__(self) -> None:
        self._told = time.monotonic()

    @override
    def show(self, progress: Progress, event: Event) -> None:
        if event.what == "done":
            accuracy = progress.accuracies.get(event.digest)
            shown = "" if accuracy is None else f", accuracy {accuracy:.4f}"
            tell(one_line(f"{event.title}: done{shown}; {headline(progress)}"))
        elif time.monotonic() - self._told > SILENCE:
            tell(headline(progress))
        else:
            return
        self._told = time.monotonic()


class SweepTable(SweepProgress):
    """A live table: runs done, runs in hand with round and accuracy, time left."""

    def __init__(self) -> None:
        self._live = Live(console=progress_console(), refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    @override
    def show(self, progress: Progress, event: Event) -> None:
        self._live.update(render(progress))

    @override
    def line(self, text: str) -> None:
        self._live.console.print(cell(text))


def render(progress: Progress) -> Group:
    """The live table."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("running")
    for heading in ("round", "accuracy"):
        table.add_column(heading, justify="right")
    for run in list(progress.running.values())[:ROWS]:
        accuracy = "" if run.accuracy is None else f"{run.accuracy:.3f}"
        table.add_row(cell(run.title), f"{run.round}/{run.rounds}", accuracy)
    rest = len(progress.running) - ROWS
    lines = [Text(f"and {rest} more")] if rest > 0 else []
    return Group(Text(headline(progress)), table, *lines)


def sweep_progress(quiet: bool) -> SweepProgress:
    """The way to show progress that fits where stderr goes."""
    if quiet:
        return SweepProgress()
    return SweepTable() if sys.stderr.isatty() else SweepLines()
