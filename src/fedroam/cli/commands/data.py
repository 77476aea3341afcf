"""`fedroam data`: who holds what, and downloads."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from fedroam.cli import options
from fedroam.cli.console import cell, note, out, say, writing

if TYPE_CHECKING:
    import pandas as pd

    from fedroam.planning import Plan, PlannedRun

app = typer.Typer(cls=options.Commands, help="Data sets: who holds what, and downloads.")

SHOWN = 40  # clients in the printed table; the CSV file has all


@app.command("info")
def info(
    source: options.Source,
    assignments: options.Assignments = None,
    use: options.Use = None,
    folder: Annotated[
        str,
        typer.Option(
            "--out",
            callback=options.named,
            metavar="DIR",
            help="Where the bubble chart and the full table go.",
        ),
    ] = ".",
    debug: options.Debug = False,
) -> None:
    """Tell who holds what: a table of the clients' samples, and a chart of classes by clients.

    Writes who-holds-what as .png, .svg and .csv. Of several seeds, the first is shown.
    """
    from fedroam.planning import plan as make_plan

    plan = make_plan(source, assignments=assignments or (), use=use or ())
    for line in plan.notes:
        note(line)

    from fedroam.analysis.figures.drawing import save
    from fedroam.analysis.figures.holdings import holdings_figure
    from fedroam.data.label_skew import client_table, describe_split
    from fedroam.recording import write_csv
    from fedroam.scene import deal

    for variant, planned in _different(plan).items():
        dataset, split = deal(planned.experiment)
        name = f"who-holds-what{variant and '-' + variant}"
        if variant:
            say(f"variant {variant}:")
        for line in describe_split(dataset, split):
            say(line)
        table = client_table(dataset, split)
        _print(table)
        title = f"{plan.name}{variant and '/' + variant}, seed {planned.experiment.seed}"
        counts = split.class_counts(dataset.y_train, dataset.classes)
        home = Path(folder)
        with writing(home):
            home.mkdir(parents=True, exist_ok=True)
            write_csv(home / f"{name}.csv", table)
            paths = save(holdings_figure(counts, dataset.class_names, title), home, name)
        say(f"chart: {', '.join(str(path) for path in paths)}")
        say(f"table: {home / name}.csv")


@app.command("fetch")
def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A public data set, e.g. mnist.")],
    root: Annotated[
        str | None,
        typer.Option(
            callback=options.named,
            metavar="DIR",
            help="Where to put it: DIR/NAME. (default: the user's cache folder)",
        ),
    ] = None,
    debug: options.Debug = False,
) -> None:
    """Download a public data set, with its checksums verified."""
    from fedroam.data.sources.fetching import fetch as download

    say(f"data: {download(name, root, progress=sys.stderr.isatty())}")


def _different(plan: Plan) -> dict[str, PlannedRun]:
    """The first run of each variant, but only one where all variants deal out the same samples."""
    first: dict[str, PlannedRun] = {}
    for planned in plan.runs:
        first.setdefault(planned.variant, planned)

    def dealing(planned: PlannedRun) -> tuple[object, ...]:
        e = planned.experiment
        return e.data, e.partition, e.clients, e.seed, e.validation_share, e.test_share

    if len({dealing(planned) for planned in first.values()}) == 1:
        return {"": next(iter(first.values()))}
    return first


def _print(table: pd.DataFrame) -> None:
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for name in table.columns:
        shown.add_column(cell(name), justify="right")
    for row in table.head(SHOWN).itertuples(index=False):
        shown.add_row(*(f"{value:.2f}" if isinstance(value, float) else cell(value) for value in row))
    out().print(shown)
    if len(table) > SHOWN:
        say(f"... and {len(table) - SHOWN} more clients")
