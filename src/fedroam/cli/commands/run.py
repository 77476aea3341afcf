"""`fedroam run`."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedroam.cli import options
from fedroam.cli.console import note, out, say, writing
from fedroam.cli.going_on import Given, command, going_on
from fedroam.cli.progress import progress
from fedroam.errors import FedroamError, InputError, told

if TYPE_CHECKING:
    from fedroam.recording import Run


def run(
    source: options.Source,
    assignments: options.Assignments = None,
    use: options.Use = None,
    seeds: Annotated[
        int | None, typer.Option(metavar="K", help="Run K seeds, from the file's seed on.")
    ] = None,
    folder: Annotated[
        str | None,
        options.place("--out", metavar="DIR", help="Where the runs go. (default: runs/NAME-DIGEST)"),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue unfinished runs.")] = False,
    fresh: options.Fresh = False,
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Threads of the engine; results do not depend on it.")
    ] = None,
    track: options.Track = None,
    quiet: options.Quiet = False,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Whether to write report.html.")
    ] = True,
) -> None:
    """Run an experiment: every variant and seed, then a table and a report.

    An experiment file is a program: it can load Python code. Run a stranger's only after reading it.

    Finished runs are reused; an unfinished one needs --resume or --fresh.

    Ctrl-C stops after the present round and leaves a checkpoint; a second one stops at once.
    """
    from fedroam.data.ahead import read_ahead
    from fedroam.planning import plan as make_plan

    existing = options.existing(resume, fresh)
    changes = [*(assignments or []), *([] if workers is None else [f"engine.workers={workers}"])]
    plan = make_plan(source, assignments=changes, seeds=seeds, use=use or (), common_data=read_ahead)
    for line in plan.notes:
        note(line)

    from fedroam.runner import run_plan
    from fedroam.scene import advice
    from fedroam.terminal.interrupts import Interrupted
    from fedroam.tracking import check_trackers, trackers_named

    # What is wrong is told below, of runs that are still to be computed.
    with contextlib.suppress(InputError):
        variants = {planned.variant: planned.experiment for planned in plan.runs}
        for line in dict.fromkeys(text for each in variants.values() for text in advice(each)):
            note(line)

    check_trackers(track or ())
    root = Path(folder) if folder is not None else plan.folder
    options_given: dict[str, Given] = {"--set": assignments, "--use": use, "--seeds": seeds, "--out": folder}
    options_given |= {
        "--track": track,
        "--workers": workers,
        "--quiet": quiet,
        "--no-report": not report,
        "--resume": True,
    }
    again = command("run", source, options=options_given)
    following = progress(plan, quiet)

    def begun() -> bool:
        return any((root / planned.folder / "run.json").exists() for planned in plan.runs)

    with going_on(again, "the rounds since the last checkpoint are lost", begun):
        try:
            with following:
                runs = run_plan(
                    plan,
                    root,
                    existing=existing,
                    observer=following.follow,
                    on_interrupt=following.interrupted,
                    trackers=lambda: trackers_named(track or ()),
                )
        except (InputError, Interrupted):
            raise
        except Exception as error:
            where = f"{root / following.current}: " if following.current else ""
            raise FedroamError(f"{where}{told(error)}") from error
    if following.reused and quiet:
        say(f"reused: {', '.join(following.reused)}")
    _conclude(runs, root, report)


def _conclude(runs: list[Run], root: Path, report: bool) -> None:
    """The table, what went astray, and the report."""
    from fedroam.analysis import compare_runs, print_comparison

    print_comparison(compare_runs(runs), out())
    home = runs[0].folder if len(runs) == 1 else root
    say(f"runs: {home}")
    if report:
        from fedroam.analysis.report.report import write_report

        with writing(home):
            say(f"report: {write_report(runs, home)}")
