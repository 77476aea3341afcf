"""`fedroam clock`: how long the rounds of a run take, before anything is learnt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.progress import track

from fedroam.cli import options
from fedroam.cli.console import cell, grid, note, out, progress_console, say, writing
from fedroam.cli.outputs import check_spares
from fedroam.errors import InputError

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
    devices: Annotated[
        str | None, options.place(metavar="FILE.csv", help="Write a row for each device there.")
    ] = None,
) -> None:
    """What takes how long, and how long batteries last: for planning a fleet; no training needed.

    Plays the rounds of an experiment whose clock kind is "seconds" without learning, and says how long they take, which
    share of the contacts is long enough for both models, how many transfers break, what clients do meanwhile, what
    energy that takes, and with [battery] how long devices last and which run empty first.
    """
    import pandas as pd

    from fedroam.planning import plan
    from fedroam.recording import write_named_csv

    resolved = plan(source, assignments=assignments or (), seeds=seeds, use=use or ())
    _check_places(table, devices, [source, *(use or ())], resolved.runs)
    for line in resolved.notes:
        note(line)
    found = [_followed(planned, rounds) for planned in resolved.runs]
    _print(resolved.runs, found)
    for name, target, tables in (
        ("round", table, [rows for rows, _ in found]),
        ("device", devices, [each for _, each in found]),
    ):
        if target is not None:
            with writing(target):
                write_named_csv(Path(target), pd.concat(tables, ignore_index=True))
            say(f"{target}: a row for each {name}")


def _check_places(
    table: str | None, devices: str | None, inputs: Sequence[str], runs: Sequence[PlannedRun]
) -> None:
    """Refuse to write over what is read, or both tables to one place, before anything is played."""
    from fedroam.recording import files_read

    read: list[str | Path] = [
        *inputs,
        *(path for run in runs for path in files_read(run.experiment).values()),
    ]
    for option, target in (("--out", table), ("--devices", devices)):
        if target is not None:
            check_spares(option, target, read)
    if table is not None and devices is not None and Path(table).resolve() == Path(devices).resolve():
        raise InputError(f"--devices {devices}: is the file of --out; allowed is another file")


def _followed(planned: PlannedRun, rounds: int | None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rounds of one world, and its clients after them, with a line of progress where somebody looks."""
    import pandas as pd

    from fedroam.analysis.planned_time import planned_rounds

    total = planned.experiment.rounds if rounds is None else rounds
    console = progress_console()
    clients: list[pd.DataFrame] = []
    rows = list(
        track(
            planned_rounds(planned.experiment, rounds, clients.append),
            str(planned.folder),
            total=total,
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
    )
    variant, seed = planned.variant, planned.experiment.seed
    return (
        pd.DataFrame(rows).assign(variant=variant, seed=seed),
        clients[0].assign(variant=variant, seed=seed),
    )


def _print(runs: Sequence[PlannedRun], found: Sequence[tuple[pd.DataFrame, pd.DataFrame]]) -> None:
    """A line for each variant, means over its worlds: of time, then of energy; and who runs empty first."""
    from fedroam.analysis.fleet import ENERGY, HEADS, first_empty_words, of_energy, remarks, told
    from fedroam.analysis.planned_time import summary

    worlds: dict[str, list[dict[str, float]]] = {}
    for run, (rounds, clients) in zip(runs, found, strict=True):
        worlds.setdefault(run.variant, []).append(summary(rounds) | of_energy(clients))
    _grid(worlds, [name for name in HEADS if name not in ENERGY])
    if any(name in world for each in worlds.values() for world in each for name in ENERGY):
        say("")
        _grid(worlds, ENERGY)
    counted = sorted({int(world["rounds"]) for each in worlds.values() for world in each})
    known = told([world for each in worlds.values() for world in each])
    say(f"Means over worlds, {', '.join(map(str, counted))} rounds each. {' '.join(remarks(known))}")
    for run, (_, clients) in zip(runs, found, strict=True):
        if words := first_empty_words(clients):
            say(
                f"first to run empty{f', {run.variant}' if run.variant else ''}, seed {run.experiment.seed}: {words}"
            )


def _grid(worlds: Mapping[str, Sequence[Mapping[str, float]]], names: Sequence[str]) -> None:
    """A table of those facts that any world knows."""
    from fedroam.analysis.fleet import HEADS, shown, told

    known = [name for name in told([world for each in worlds.values() for world in each]) if name in names]
    table = grid("Variant", *(HEADS[name][0] for name in known))
    for variant, each in worlds.items():
        table.add_row(cell(variant or "all"), *(cell(shown(name, each)) for name in known))
    out().print(table)
