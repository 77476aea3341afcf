"""`fedroam compare`, `report` and `verify`: what came out of runs, and whether it is still what was written."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedroam.cli import options
from fedroam.cli.console import cell, grid, out, say, tell, writing
from fedroam.cli.outputs import check_spares
from fedroam.errors import InputError, one_line
from fedroam.writing import checked_name

if TYPE_CHECKING:
    from fedroam.analysis.report.marginals import SweepPoint
    from fedroam.recording import Run


def compare(
    folders: options.Runs,
    last: Annotated[
        int | None,
        typer.Option(
            metavar="K", help="Evaluated rounds, counted from the end, whose mean is shown. (default: 5)"
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Accuracy (0 to 1) whose first round is shown. (default: 90 % of the best final accuracy)",
        ),
    ] = None,
    csv: Annotated[
        str | None, options.place(metavar="FILE", help="Write the table to a CSV file too.")
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY",
            help="Of a sweep: a row for each value of this varied setting, averaged over the others (may be repeated).",
        ),
    ] = None,
    statistic: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="With --by: final, best, mean, mean_model, energy, wasted, last:K, or rounds_to, time_to, energy_to, "
            "drawn_to (from batteries), bytes_to and :PERCENT. (default: final)",
        ),
    ] = None,
    reach: Annotated[
        float | None,
        typer.Option(metavar="X", help="With --by: the smallest value of KEY whose statistic reaches X."),
    ] = None,
) -> None:
    """Compare runs: final, best and last accuracy, rounds to a threshold, with standard errors over seeds.

    Of a sweep, --by KEY compares the values of a varied setting, paired by seed.
    """
    apart = {"--last": last, "--threshold": threshold} if by else {"--statistic": statistic, "--reach": reach}
    for option, given in apart.items():
        if given is not None:
            raise InputError(f"{option} {given}: allowed {'without' if by else 'with'} --by only")
    if csv is not None:
        check_spares("--csv", csv)
    if by:
        _compare_by(folders, by, statistic or "final", reach, csv)
        return
    from fedroam.analysis import compare_runs, print_comparison
    from fedroam.recording import write_named_csv

    comparison = compare_runs(open_all(folders), last=5 if last is None else last, threshold=threshold)
    if csv is not None:
        with writing(csv):
            write_named_csv(Path(csv), comparison.table)
    print_comparison(comparison, out())
    if csv is not None:
        say(f"table: {csv}")


def report(
    folders: options.Runs,
    folder: Annotated[
        str | None,
        options.place(
            "--out",
            metavar="DIR",
            help="Where report.html goes. (default: the run folder, or report/ here if several are given)",
        ),
    ] = None,
) -> None:
    """Write a report on runs: one self-contained HTML file, with its figures beside it."""
    from fedroam.analysis.report.report import write_report

    runs = open_all(folders)
    for run in runs:
        _read(run)  # a damaged table is found before half of a report is written
    home = Path(folder) if folder is not None else Path(folders[0] if len(folders) == 1 else "report")
    swept = len(folders) == 1 and (Path(folders[0]) / "sweep.json").exists()
    points = _points_of(folders[0]) if swept else []
    with writing(home):
        say(f"report: {write_report(runs, home, swept=points)}")


def open_all(folders: list[str]) -> list[Run]:
    """The runs in all folders, each once."""
    from fedroam.recording import open_runs

    found = {run.folder.resolve(): run for folder in folders for run in open_runs(folder)}
    return list(found.values())


def _read(run: Run) -> None:
    """Read all that a report is made of; the run keeps it in memory."""
    for facts in (run.settings, run.environment, run.world):
        if not facts:
            raise InputError(f"{run.folder}: holds an empty description, the folder is damaged")
    for table in (run.rounds, run.clients, run.partition):
        if table.empty:
            raise InputError(f"{run.folder}: holds an empty table, the folder is damaged")
    readers: dict[str, Callable[[], object]] = {
        "positions": lambda: run.positions,
        "contacts": lambda: run.contacts,
    }
    for name, read in readers.items():
        if (run.folder / "movement" / f"{name}.parquet").exists():
            read()


def _points_of(folder: str | Path) -> list[SweepPoint]:
    """The rows of a sweep with their finished runs. Raises InputError where the folder is no sweep."""
    from fedroam.cli.sweep_summary import points_of
    from fedroam.sweep import open_sweep

    sweep = open_sweep(folder)
    if not sweep.varied:
        raise InputError(f"{folder}: nothing varies in this sweep but the seed")
    return points_of(sweep)


def _compare_by(
    folders: list[str], by: list[str], statistic: str, reach: float | None, csv: str | None
) -> None:
    """Print the table by settings, and where a threshold is reached; write it as CSV, too."""
    from fedroam.analysis.figures.error_bars import key_text
    from fedroam.analysis.formatting import number
    from fedroam.analysis.report.marginals import marginal, marginal_table, reaching
    from fedroam.recording import write_named_csv
    from fedroam.study.measures import measure

    if len(folders) != 1:
        raise InputError(f"--by: allowed is one sweep folder, found {len(folders)} folders")
    if len(set(by)) < len(by):
        raise InputError(f"--by {by[-1]}: given twice")
    if reach is not None and not math.isfinite(reach):
        raise InputError(f"--reach {reach:g}: allowed is a finite number")
    chosen = measure(statistic)
    points = _points_of(folders[0])
    grouped = marginal(points, by, chosen.number).in_order()
    table = marginal_table(grouped)
    # one decimal of joules would hide a small model's
    small = chosen.unit == "J" and table["mean"].max() < 10
    shown = "mJ" if small else chosen.unit
    told = partial(number, scale=1000.0 if small else 1.0)
    unit = "points" if shown == "%" else shown
    heads = [*by, "Seeds", f"{chosen.name[0].upper()}{chosen.name[1:]} ({shown})"]
    printed = grid(*heads, f"Difference to first ({unit})", "95 % interval", "p", texts=len(by))
    for row in table.to_dict("records"):
        gap = told(row["difference"], row["difference_error"], sign=True)
        ends = [told(row[name], sign=True) for name in ("low", "high")]
        between = " to ".join(ends) if math.isfinite(row["low"]) else "–"
        p = f"{row['p']:.2g}" if math.isfinite(row["p"]) else "–"
        mean = "never in some seed" if _never(grouped.groups, row, by) else told(row["mean"], row["error"])
        texts = [*(key_text(row[name]) for name in by), str(row["seeds"]), mean, gap, between, p]
        printed.add_row(*(cell(text) for text in texts))
    console = out()
    console.print(printed)
    remarks = [
        "Mean ± standard error over seeds; differences are paired by seed. p: two-sided t (where all seeds differ by "
        "the same, the sign test), Holm's correction over the rows; intervals are for each row alone."
    ]
    if grouped.words:
        remarks.append(grouped.words.strip())
    lacking = sum(point.run is None for point in points)
    if lacking:
        remarks.append(
            f"{lacking} of {len(points)} rows of the sweep are not finished; seeds that lack one are left out."
        )
    for line in remarks:
        console.print(cell(line), style="dim")
    if reach is not None:
        say(f"{chosen.name} of {reach:g} {chosen.unit}: {reaching(grouped, reach).words()}")
    if csv is not None:
        with writing(csv):
            write_named_csv(Path(csv), table)
        say(f"table: {csv}")


def _never(
    groups: Mapping[tuple[Any, ...], dict[int, float]], row: Mapping[Hashable, Any], by: list[str]
) -> bool:
    """Whether a threshold was never reached by some seed of a row."""
    key = tuple(row[name] for name in by)
    return any(math.isinf(value) for value in groups.get(key, {}).values())


def verify(folders: options.Runs) -> None:
    """Compare every file of runs and sweeps with the check sums that were written with it; nothing is changed or
    executed.

    The exit code is 0 where all of it is what was written, and 2 where anything is not, or cannot be told. What is
    being written just now is said to be, and compared as far as it does not change meanwhile.
    """
    from fedroam.recording import damage, folders_with, held, robbed_below, runs_below
    from fedroam.sweep import sweep_damage

    bad = {"sweeps": 0, "runs": 0}
    total = {"sweeps": 0, "runs": 0}
    under_way = {"sweeps": 0, "runs": 0}
    for folder in folders:
        root = checked_name(folder)
        sweeps = folders_with("sweep.json", root)
        robbed = robbed_below(root)
        alone = (sweeps or robbed) and not folders_with("run.json", root)
        runs = [] if alone else runs_below(root)
        for kind, places, look in (
            ("sweeps", sweeps, sweep_damage),
            ("runs", runs, damage),
            ("runs", robbed, _robbed),
        ):
            for place in places:
                being_written = held(place)
                try:
                    found = look(place)
                except InputError as error:
                    found = [str(error)]
                total[kind] += 1
                bad[kind] += bool(found)
                for line in found:
                    tell(one_line(line))
                if not found and being_written:
                    under_way[kind] += 1
                    say(f"{place}: is being written; what does not change meanwhile is as written")
                elif not found:
                    say(f"{place}: as written")
    counted = [kind for kind in total if total[kind]]
    if any(bad.values()):
        told = " and ".join(f"{bad[kind]} of {total[kind]} {kind}" for kind in counted)
        raise InputError(f"{told} are not what was written, or cannot be told: see above")
    whole = {kind: total[kind] - under_way[kind] for kind in counted}
    told = " and ".join(f"{whole[kind]} of {total[kind]} {kind}" for kind in counted)
    going_on = " and ".join(f"{number} of the {kind}" for kind, number in under_way.items() if number)
    say(f"{told} are what was written{f'; being written: {going_on}' if going_on else ''}")


def _robbed(place: Path) -> list[str]:
    """What is wrong with a run that has lost its `run.json`."""
    return [
        f"{place / 'run.json'}: missing; the folder holds the other files of a run, which nothing vouches for"
    ]
