"""`fedroam watch` and `fedroam serve`: runs that another process computes, in the terminal and in a browser."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fedroam.cli import options
from fedroam.cli.console import cell, out, say
from fedroam.errors import InputError, one_line
from fedroam.terminal.streams import output_lost

if TYPE_CHECKING:
    from fedroam.live import Glance

_UNFINISHED = ("stopped", "interrupted", "waiting")
ROWS = 40  # runs that the table shows; the rest is counted

Folder = Annotated[str, options.operand(metavar="DIR", help="A run, a folder of runs, or a sweep.")]


def watch(
    folder: Folder,
    every: Annotated[
        float, typer.Option(metavar="SECONDS", help="How long to wait between two looks, from 0.2.")
    ] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Look once and end.")] = False,
) -> None:
    """Follow runs that another process computes: state, round and accuracy, as their folders tell.

    Ends when no run is running or waiting any more, or with Ctrl-C; the runs go on. A run that nobody computes
    any more, as after a kill, is stopped. What is shown is what is on the disk, so a run moves on at its checkpoints.
    Nothing is written.
    """
    from fedroam.live import Watcher

    if not 0.2 <= every <= 3600:
        raise InputError(f"--every {every:g}: allowed are 0.2 to 3600 seconds")
    watcher = Watcher(folder)
    now = watcher.look()
    if not now:
        raise InputError(f"{folder}: no run folder here or below (a run folder holds run.json)")
    try:
        if once:
            out().print(watched(now, time.time()))
        elif sys.stdout.isatty():
            with Live(watched(now, time.time()), console=out(), auto_refresh=False) as live:
                while not (all(glance.over for glance in now) or output_lost()):
                    time.sleep(every)
                    now = watcher.look()
                    live.update(watched(now, time.time()), refresh=True)
        else:
            told: dict[tuple[str, str, int | None], str] = {}
            while True:
                _tell_changes(now, told)
                if all(glance.over for glance in now) or output_lost():
                    break
                time.sleep(every)
                now = watcher.look()
    except KeyboardInterrupt:  # the way to leave
        return
    _tell_how_to_go_on(now)


def _tell_how_to_go_on(now: Sequence[Glance]) -> None:
    """What to do of runs that nobody computes any more."""
    unfinished = [glance for glance in now if glance.over and glance.state in _UNFINISHED]
    if unfinished:
        say(
            f"{len(unfinished)} of {len(now)} runs are not finished, and nobody computes them: the command that began "
            "them goes on (fedroam run with --resume, fedroam sweep as it was)"
        )


def _tell_changes(now: Sequence[Glance], told: dict[tuple[str, str, int | None], str]) -> None:
    """A line for each run that is not what was last told of it."""
    for glance in now:
        key, line = (glance.place, glance.name, glance.seed), _line(glance)
        if told.get(key) != line:
            told[key] = line
            say(one_line(line))


def _line(glance: Glance) -> str:
    accuracy = "" if glance.accuracy is None else f", accuracy {glance.accuracy:.4f}"
    reason = f": {glance.reason}" if glance.reason else ""
    seed = "" if glance.seed is None else f", seed {glance.seed}"
    return f"{glance.name}{seed}: {glance.state}{reason}, round {glance.round}/{glance.rounds}{accuracy}"


def watched(now: Sequence[Glance], clock: float) -> Group:
    """The table of runs as they are now: those in hand first, then those that failed, the others after them.

    clock: seconds since 1970.
    """
    order = {
        "running": 0,
        "unreadable": 1,
        "failed": 1,
        "stopped": 2,
        "interrupted": 2,
        "done": 3,
        "waiting": 4,
    }
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("run", "seed", "state"):
        table.add_column(heading, overflow="fold")
    table.add_column("", width=16)
    for heading in ("round", "accuracy", "written"):
        table.add_column(heading, justify="right")
    for glance in sorted(now, key=lambda one: order.get(one.state, 2))[:ROWS]:
        state = glance.state + (f": {glance.reason}" if glance.reason else "")
        table.add_row(
            cell(glance.name),
            cell("" if glance.seed is None else glance.seed),
            cell(state),
            ProgressBar(total=max(glance.rounds, 1), completed=glance.round, width=16),
            f"{glance.round}/{glance.rounds}" if glance.rounds else "",
            "" if glance.accuracy is None else f"{glance.accuracy:.3f}",
            _ago(clock - glance.written) if glance.written else "",
        )
    counts = Counter(glance.state for glance in now)
    lines = [Text(", ".join(f"{n} {state}" for state, n in counts.items()))]
    if len(now) > ROWS:
        lines.append(Text(f"and {len(now) - ROWS} more"))
    return Group(table, *lines)


def _ago(seconds: float) -> str:
    """How long ago: `12 s`, `5 min`, `3 h`, `4 d`."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{max(seconds, 0):.0f} s ago"


def serve(
    folder: Folder,
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Port of this machine; 0 takes a free one.")
    ] = 8377,
) -> None:
    """Show a folder's runs in a browser of this machine: the list, live curves and the map; nothing is written.

    It listens on 127.0.0.1 alone, so other machines cannot reach it, and ends with Ctrl-C.
    """
    from fedroam.live.server import LiveServer

    with LiveServer(folder, port) as server:
        say(f"serving {folder} at {server.url} (Ctrl-C ends it)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:  # the way to end it
            return
