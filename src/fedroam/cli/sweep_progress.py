"""Progress of a sweep: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fedroam.cli.console import one_line, tell
from fedroam.cli.progress import duration
from fedroam.interrupts import STOPPED, Interrupted, ending

if TYPE_CHECKING:
    from fedroam.sweep import Event, Progress

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


@contextlib.contextmanager
def going_on(again: str, lost: str = "the rounds since the last checkpoints are lost") -> Iterator[None]:
    """While it lasts, Ctrl-C ends in the command that goes on, `again`, and its own exit code."""
    try:
        yield
    except Interrupted as stop:
        ending()
        tell(one_line(str(stop)))
        tell(f"go on with: {again}")
        raise typer.Exit(STOPPED) from None
    except KeyboardInterrupt:
        ending()
        tell(f"stopped at once; {lost}")
        tell(f"go on with: {again}")
        raise typer.Exit(STOPPED) from None


class SweepProgress:
    """Follows a sweep; this base tells only of failures (`--quiet`)."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def follow(self, progress: Progress, event: Event) -> None:
        """The observer of `run_sweep`."""
        if event.what == "failed":
            self.line(f"{event.title}: failed: {event.text}")
        elif event.what == "again":
            self.line(f"{event.title}: {event.text}; it begins again at its last checkpoint")
        self.show(progress, event)

    def show(self, progress: Progress, event: Event) -> None:
        """Something happened."""

    def line(self, text: str) -> None:
        """A line that stays."""
        tell(text)

    def interrupted(self) -> None:
        """Ctrl-C was pressed. Called inside a signal handler: a bare write, no locks."""
        os.write(2, b"\nstopping after the present rounds (Ctrl-C again stops at once)\n")


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

    def show(self, progress: Progress, event: Event) -> None:
        """See `SweepProgress.show`."""
        if event.what == "done":
            accuracy = progress.accuracies.get(event.digest)
            shown = "" if accuracy is None else f", accuracy {accuracy:.4f}"
            tell(f"{event.title}: done{shown}; {headline(progress)}")
        elif time.monotonic() - self._told > SILENCE:
            tell(headline(progress))
        else:
            return
        self._told = time.monotonic()


class SweepTable(SweepProgress):
    """A live table: runs done, runs in hand with round and accuracy, time left."""

    def __init__(self) -> None:
        self._live = Live(
            console=Console(file=sys.stderr, highlight=False), refresh_per_second=4, transient=True
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, progress: Progress, event: Event) -> None:
        """See `SweepProgress.show`."""
        self._live.update(render(progress))

    def line(self, text: str) -> None:
        """See `SweepProgress.line`."""
        self._live.console.print(Text(text))


def render(progress: Progress) -> Group:
    """The live table."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading, justify in (("running", "left"), ("round", "right"), ("accuracy", "right")):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    for run in list(progress.running.values())[:ROWS]:
        accuracy = "" if run.accuracy is None else f"{run.accuracy:.3f}"
        table.add_row(Text(run.title), f"{run.round}/{run.rounds}", accuracy)
    rest = len(progress.running) - ROWS
    lines = [Text(f"and {rest} more")] if rest > 0 else []
    return Group(Text(headline(progress)), table, *lines)


def sweep_progress(quiet: bool) -> SweepProgress:
    """The way to show progress that fits where stderr goes."""
    if quiet:
        return SweepProgress()
    return SweepTable() if sys.stderr.isatty() else SweepLines()
