"""`fedroam compare` and `fedroam report`: what came out of runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedroam.cli import options
from fedroam.cli.console import out, say, writing
from fedroam.errors import InputError

if TYPE_CHECKING:
    from fedroam.analysis.report.marginals import SweepPoint
    from fedroam.recording import Run


def compare(
    folders: options.Runs,
    last: Annotated[
        int, typer.Option(metavar="K", help="Evaluated rounds, counted from the end, whose mean is shown.")
    ] = 5,
    threshold: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Accuracy (0 to 1) whose first round is shown. (default: 90 % of the best final accuracy)",
        ),
    ] = None,
    csv: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the table to a CSV file too.")
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY",
            help="Of a sweep: a row for each value of this varied setting, averaged over the others (may be repeated).",
        ),
    ] = None,
    statistic: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="With --by: final, best, mean, mean_model, energy, wasted, last:K, or rounds_to, energy_to, bytes_to "
            "and :PERCENT.",
        ),
    ] = "final",
    reach: Annotated[
        float | None,
        typer.Option(metavar="X", help="With --by: the smallest value of KEY whose statistic reaches X."),
    ] = None,
    debug: options.Debug = False,
) -> None:
    """Compare runs: final, best and last accuracy, rounds to a threshold, with standard errors over seeds.

    Of a sweep, --by KEY compares the values of a varied setting, paired by seed.
    """
    if by:
        from fedroam.cli.comparing import compare_by

        compare_by(folders, by, statistic, reach, csv)
        return
    from fedroam.analysis import compare_runs, print_comparison

    comparison = compare_runs(_open(folders), last=last, threshold=threshold)
    if csv is not None:
        with writing(csv):
            comparison.table.to_csv(csv, index=False)
    print_comparison(comparison, out())
    if csv is not None:
        say(f"table: {csv}")


def report(
    folders: options.Runs,
    folder: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Where report.html goes. (default: the run folder, or report/ here if several are given)",
        ),
    ] = None,
    debug: options.Debug = False,
) -> None:
    """Write a report on runs: one self-contained HTML file, with its figures beside it."""
    from fedroam.analysis import write_report

    runs = _open(folders)
    for run in runs:
        _read(run)  # a damaged table is found before half of a report is written
    home = Path(folder) if folder is not None else Path(folders[0] if len(folders) == 1 else "report")
    points = _points(folders)
    with writing(home):
        say(f"report: {write_report(runs, home, swept=points)}")


def _open(folders: list[str]) -> list[Run]:
    """The runs in all folders, each once."""
    from fedroam.recording import open_runs

    found = {run.folder.resolve(): run for folder in folders for run in open_runs(folder)}
    return list(found.values())


def _points(folders: list[str]) -> list[SweepPoint]:
    """The rows of a sweep, where one is all that is reported on."""
    if len(folders) != 1 or not (Path(folders[0]) / "sweep.json").exists():
        return []
    from fedroam.cli.comparing import points_of

    return points_of(folders[0])


def _read(run: Run) -> None:
    """Read all that a report is made of; the run keeps it in memory."""
    for facts in (run.settings, run.environment, run.world):
        if not facts:
            raise InputError(f"{run.folder}: holds an empty description, the folder is damaged")
    for table in (run.rounds, run.clients, run.partition):
        if table.empty:
            raise InputError(f"{run.folder}: holds an empty table, the folder is damaged")
    for name in ("positions", "contacts"):
        if (run.folder / "movement" / f"{name}.parquet").exists():
            getattr(run, name)
