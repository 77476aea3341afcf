"""`fedroam clock`: how long the rounds of a run take, before anything is learnt."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

from rich.progress import track
from rich.table import Table

from fedroam.cli import options
from fedroam.cli.console import cell, note, out, progress_console, say, writing

if TYPE_CHECKING:
    import pandas as pd

    from fedroam.planning import PlannedRun


def clock(
    source: options.Source,
    assignments: options.Assignments = None,
    use: options.Use = None,
    seeds: options.Worlds = None,
    rounds: options.Rounds = None,
    table: Annotated[
        str | None, options.place("--out", metavar="FILE.csv", help="Write a row for each round there.")
    ] = None,
    debug: options.Debug = False,
) -> None:
    """What takes how long: rounds, contacts in which a model fits, waiting; no training needed.

    Plays the rounds of an experiment whose clock kind is "seconds" without learning, and says how long they take, which
    share of the contacts is long enough for both models, how many transfers break, and what clients do meanwhile.
    """
    import pandas as pd

    from fedroam.analysis.planned_time import summary
    from fedroam.planning import plan

    resolved = plan(source, assignments=assignments or (), seeds=seeds, use=use or ())
    for line in resolved.notes:
        note(line)
    found = [_followed(planned, rounds) for planned in resolved.runs]
    everything = pd.concat(found, ignore_index=True)
    _print(
        {
            str(name): [summary(own) for _, own in some.groupby("seed")]
            for name, some in everything.groupby("variant", sort=False)
        }
    )
    if table is not None:
        with writing(table):
            everything.to_csv(table, index=False)
        say(f"{table}: a row for each round")


def _followed(planned: PlannedRun, rounds: int | None) -> pd.DataFrame:
    """The rounds of one world, with a line of progress where somebody looks."""
    import pandas as pd

    from fedroam.analysis.planned_time import planned_rounds

    total = planned.experiment.rounds if rounds is None else rounds
    console = progress_console()
    rows = list(
        track(
            planned_rounds(planned.experiment, rounds),
            str(planned.folder),
            total=total,
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
    )
    return pd.DataFrame(rows).assign(variant=planned.variant, seed=planned.experiment.seed)


def _print(found: dict[str, list[dict[str, float]]]) -> None:
    """A line for each variant: means over its worlds."""
    heads = {
        "seconds_mean": "Round (s)",
        "seconds_most": "Longest (s)",
        "seconds": "All rounds (s)",
        "fit": "Contacts that fit",
        "through": "Transfers through",
        "broken": "Broken a round",
        "late": "Late a round",
        "time_training": "Training",
        "time_sending": "Sending",
        "time_waiting": "Waiting",
        "time_idle": "Away",
    }
    shares = {"fit", "through", *(name for name in heads if name.startswith("time_"))}
    known = {name for worlds in found.values() for world in worlds for name in world}
    grid = Table(box=None, pad_edge=False, header_style="bold")
    grid.add_column("Variant", overflow="fold")
    for name, head in heads.items():
        if name in known:
            grid.add_column(head, justify="right")
    for variant, worlds in found.items():
        cells = [cell(variant or "all")]
        for name in heads:
            if name in known:
                values = [world[name] for world in worlds if name in world and not math.isnan(world[name])]
                mean = sum(values) / len(values) if values else math.nan
                cells.append(_shown(mean, name in shares))
        grid.add_row(*cells)
    out().print(grid)
    counted = sorted({int(world["rounds"]) for worlds in found.values() for world in worlds})
    say(
        f"Means over worlds, {', '.join(map(str, counted))} rounds each. Contacts that fit: pairs that meet and whose "
        "models both get through. Training, sending, waiting, away: what a client does with its time, on average."
    )


def _shown(value: float, share: bool) -> str:
    if math.isnan(value):
        return "–"
    return f"{100 * value:.1f} %" if share else f"{value:.4g}"
