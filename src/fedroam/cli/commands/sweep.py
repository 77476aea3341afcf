"""`fedroam sweep`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand
from typing_extensions import override

from fedroam.cli import options
from fedroam.cli.console import FAILED, cell, grid, note, out, say, tell
from fedroam.cli.going_on import Given, command, going_on
from fedroam.cli.progress import duration
from fedroam.cli.sweep_progress import by_reason, measured_costs, sweep_progress
from fedroam.errors import one_line

if TYPE_CHECKING:
    from fedroam.planning import SweepPlan
    from fedroam.sweep import Sweep

SHOWN = 60  # rows of a table on the screen; the whole one is in the folder


class SweepCommand(TyperCommand):
    """`--ray` may stand alone: then the cluster is one of this machine."""

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for k, word in enumerate(args):
            following = args[k + 1] if k + 1 < len(args) else ""
            if word == "--ray" and not re.fullmatch(r"auto|local|ray://\S+|\S+:\d+", following):
                args = [*args[: k + 1], "local", *args[k + 1 :]]
                break
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed


def sweep(
    source: options.Source,
    over: Annotated[
        list[str] | None,
        typer.Option(
            "--over",
            metavar="KEY=V,V,...",
            help="Vary a setting over values, e.g. --over mobility.kind=static,random (may be repeated: every "
            "combination is run).",
        ),
    ] = None,
    assignments: options.Assignments = None,
    use: options.Use = None,
    seeds: Annotated[
        int | None, typer.Option(metavar="K", help="Run K seeds of each, the same ones for all.")
    ] = None,
    folder: Annotated[
        str | None,
        options.place("--out", metavar="DIR", help="Where the sweep goes. (default: sweeps/NAME-DIGEST)"),
    ] = None,
    workers: options.Workers = 0,
    memory: Annotated[
        float | None,
        typer.Option(
            metavar="GIB",
            help="Memory for all workers together; a run that needs more than its share fails alone.",
        ),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="[ADDRESS]",
            help="Spread the runs over a Ray cluster (auto, HOST:PORT, ray://...); alone: a local one.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the runs, and measure what they will cost.")
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin all anew, replacing what is there.")] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Try the failed runs again, from their checkpoints.")
    ] = False,
    track: options.Track = None,
    quiet: options.Quiet = False,
) -> None:
    """Run an experiment for every combination of settings and seed, several at a time.

    An experiment file is a program: it can load Python code. Run a stranger's only after reading it.

    What varies comes from --over and from the file ([sweep.grid], [sweep.zip], [variants.NAME]). The same command
    again goes on where it was stopped: finished runs are not run again. A run that fails is recorded with its reason
    and does not stop the others (exit code 1 at the end). Ctrl-C leaves checkpoints.
    """
    from fedroam.sweep.fork_server import warm_up

    if ray is None:  # the workers' libraries are loaded beside those of this process, which take as long
        warm_up()

    from fedroam.components import load_rooms

    load_rooms()  # before what would load them, too, and have them looked through for garbage meanwhile

    from fedroam.planning import sweep_plan, title
    from fedroam.sweep.folder import FILE
    from fedroam.sweep.running import run_sweep
    from fedroam.sweep.scale import one_scale

    found = sweep_plan(source, over=over or (), assignments=assignments or (), seeds=seeds, use=use or ())
    plan = one_scale(found)
    for line in plan.notes:
        note(line)
    for row in plan.refused:
        tell(one_line(f"refused: {title(row.keys, row.seed)}: {row.reason}"))
    root = Path(folder) if folder is not None else plan.folder
    if dry_run:
        _dry_run(plan, root, workers, fresh, retry_failed)
        return

    options_given: dict[str, Given] = {"--over": over, "--set": assignments, "--use": use, "--seeds": seeds}
    options_given |= {"--out": folder, "--memory": memory, "--ray": ray, "--track": track}
    options_given |= {"--workers": workers or None, "--quiet": quiet}
    again = command("sweep", source, options=options_given)
    following = sweep_progress(quiet)
    with going_on(again, begun=lambda: (root / FILE).exists()), following:
        done = run_sweep(
            plan,
            root,
            workers=workers,
            memory_gib=memory,
            ray=ray,
            observer=following.follow,
            on_interrupt=following.interrupted,
            fresh=fresh,
            retry_failed=retry_failed,
            track=track or (),
        )
    conclude(done)


def conclude(sweep: Sweep) -> None:
    """Means over seeds, the best setting, the failures, the next command, and the exit code."""
    from fedroam.analysis.report.marginals import best_setting
    from fedroam.cli.sweep_summary import means, points_of
    from fedroam.planning import title

    _print(*means(sweep))
    best = best_setting(points_of(sweep)) if sweep.varied else None
    if best is not None:
        say(one_line(f"{best.words()} Picked on the test samples, so it flatters."))
    failed = {row.digest or title(row.keys, row.seed): row for row in sweep.failed}
    refused = [row for row in failed.values() if not row.digest]
    broken = [row for row in failed.values() if row.digest]
    for what, rows in (("refused", refused), ("failed", broken)):
        for line in by_reason((title(row.keys, row.seed), row.reason) for row in rows):
            say(one_line(f"{what}: {line}"))
    say(f"sweep: {sweep.folder}")
    if any(row.state == "done" for row in sweep.runs):
        say(f"next: {command('report', str(sweep.folder), options={})}")
    if refused:
        tell(f"error: {len(refused)} refused: there is no run of such settings")
    if broken:
        tell(f"error: {len(broken)} of the runs failed; after mending what is wrong: --retry-failed")
    if failed:
        raise typer.Exit(FAILED)


def _print(headings: list[str], rows: list[list[Any]]) -> None:
    table = grid(*headings, texts=len(headings))
    for row in rows[:SHOWN]:
        table.add_row(*(cell(value) for value in row))
    out().print(table)
    if len(rows) > SHOWN:
        say(f"... and {len(rows) - SHOWN} more")


def _dry_run(plan: SweepPlan, root: Path, workers: int, fresh: bool, retry_failed: bool) -> None:
    """`--dry-run`: the runs with digest and state, then time and memory."""
    from fedroam.sweep.running import dry_run

    rows, todo = dry_run(plan, root, fresh=fresh, retry_failed=retry_failed)
    headings = [*plan.varied, "seed", "digest", "state"]
    _print(headings, [[*(row[0].get(n, "") for n in plan.varied), *row[1:]] for row in rows])
    say(
        f"{len(rows)} rows, {len(plan.distinct)} different runs, {len(todo)} to be computed"
        + (f", {len(plan.refused)} refused" if plan.refused else "")
    )
    say(f"sweep: {root}")
    if not todo:
        return
    found = measured_costs(plan, todo, workers)
    many = "one variant" if found.measured == 1 else f"{found.measured} variants"
    say(f"time: about {duration(found.seconds)} with {found.workers} worker(s), measured on {many}")
    from fedroam.sweep.limits import GIB, available_memory

    data = f"data {found.data / GIB:.2f} GiB once"
    if found.memory is None:
        say(f"memory: {data}; that of the workers is not told by this system")
    else:
        each, total = found.memory / GIB, (found.memory * found.workers + found.data) / GIB
        say(f"memory: about {each:.2f} GiB a worker, {data}: {total:.2f} GiB in all")
        free = available_memory()
        if free is not None and total * GIB > free:
            say(f"note: that is more than the {free / GIB:.2f} GiB that are free; choose fewer --workers")
