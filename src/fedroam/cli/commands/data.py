"""`fedroam data`: who holds what, and downloads."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedroam.cli import options
from fedroam.cli.console import cell, grid, note, out, say, writing
from fedroam.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from fedroam.planning import SweepPlan, SweepRun

app = typer.Typer(cls=options.Commands, help="Data sets: who holds what, and downloads.")

SHOWN = 40  # clients in the printed table; the CSV file has all


@app.command("info")
def info(
    source: options.Source,
    assignments: options.Assignments = None,
    use: options.Use = None,
    folder: Annotated[
        str, options.place("--out", metavar="DIR", help="Where the bubble chart and the full table go.")
    ] = ".",
) -> None:
    """Tell who holds what: a table of the clients' samples, and a chart of classes by clients.

    Writes who-holds-what as .png, .svg and .csv, of a sweep or of variants for each way in which samples are dealt out.
    Of several seeds, the first is shown.
    """
    from fedroam.planning import sweep_plan, title

    plan = sweep_plan(source, assignments=assignments or (), use=use or (), to_run=False)
    for line in plan.notes:
        note(line)

    from fedroam.analysis.figures.drawing import save
    from fedroam.analysis.figures.holdings import holdings_figure
    from fedroam.data.label_skew import client_table, describe_split
    from fedroam.recording import write_csv
    from fedroam.scene import deal, match_devices, sites_of

    for row in plan.refused:
        note(f"refused: {title(row.keys)}: {row.reason}")
    for variant, planned in _different(plan).items():
        try:
            dataset, split = deal(planned.experiment)
        except InputError as error:
            raise InputError(f"{variant}: {error}" if variant else str(error)) from None
        in_a_name = re.sub(r"[^A-Za-z0-9._=-]+", "-", variant)[:80]
        name = f"who-holds-what{variant and '-' + in_a_name}"
        if variant:
            say(f"{'variant ' if planned.keys.get('variant') == variant else ''}{variant}:")
        for line in (*describe_split(dataset, split), *match_devices(planned.experiment, dataset).notes):
            say(line)
        table = client_table(dataset, split, sites_of(planned.experiment.partition, dataset, split))
        _print(table)
        heading = f"{plan.name}{variant and '/' + variant}, seed {planned.experiment.seed}"
        counts = split.class_counts(dataset.y_train, dataset.classes)
        home = Path(folder)
        with writing(home):
            home.mkdir(parents=True, exist_ok=True)
            write_csv(home / f"{name}.csv", table)
            paths = save(holdings_figure(counts, dataset.class_names, heading), home, name)
        say(f"chart: {', '.join(str(path) for path in paths)}")
        say(f"table: {home / name}.csv")


@app.command("fetch")
def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A public data set, e.g. mnist.")],
    root: Annotated[
        str | None,
        options.place(metavar="DIR", help="Where to put it: DIR/NAME. (default: the user's cache folder)"),
    ] = None,
) -> None:
    """Download a public data set, with its checksums verified."""
    from fedroam.data.sources.fetching import fetch as download

    say(f"data: {download(name, root, progress=sys.stderr.isatty())}")


def _different(plan: SweepPlan) -> dict[str, SweepRun]:
    """The first run of each way in which samples are dealt out, named by what is varied of it; '' for the only one.

    Where samples are dealt out in more than one way, every variant is shown.
    """
    from fedroam.components import Part
    from fedroam.planning import title
    from fedroam.traces.matching import NamesHolders

    def dealing(run: SweepRun) -> str:
        e = run.experiment
        # Where clients are matched by name, movement and availability decide who holds what, too.
        named = [e.mobility, e.activity, e.match] if isinstance(e.partition, NamesHolders) else []
        own = (e.data, e.partition, e.clients, e.validation_share, e.test_share, *named)
        return repr([part.settings() if isinstance(part, Part) else part for part in own])

    first: dict[tuple[str, str], SweepRun] = {}
    for run in plan.runs:
        first.setdefault((str(run.keys.get("variant", "")), dealing(run)), run)
    if len({how for _, how in first}) == 1:
        return {"": next(iter(first.values()))}
    shown = first.values()
    telling = [name for name in plan.varied if len({repr(run.keys.get(name)) for run in shown}) > 1]
    return {title({name: run.keys[name] for name in telling if name in run.keys}): run for run in shown}


def _print(table: pd.DataFrame) -> None:
    shown = grid(*table.columns, texts=0)
    for row in table.head(SHOWN).itertuples(index=False):
        shown.add_row(*(f"{value:.2f}" if isinstance(value, float) else cell(value) for value in row))
    out().print(shown)
    if len(table) > SHOWN:
        say(f"... and {len(table) - SHOWN} more clients")
