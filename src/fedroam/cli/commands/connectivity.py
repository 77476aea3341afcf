"""`fedroam connectivity`: who meets whom, and what the theory says of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedroam.cli import options
from fedroam.cli.console import grid, note, out, say, tell, writing
from fedroam.errors import InputError, one_line
from fedroam.writing import checked_name

if TYPE_CHECKING:
    import pandas as pd

    from fedroam.analysis.connectivity.contact_statistics import ContactSequence
    from fedroam.experiment import Experiment
    from fedroam.recording import Run

_WINDOWS = (10, 50, 100)


@dataclass(frozen=True)
class _World:
    """One world: what varied, its seed, and where its meetings come from."""

    title: str
    seed: int
    experiment: Experiment
    run: Run | None


def connectivity(
    source: Annotated[
        str,
        options.operand(
            metavar="FILE|NAME|RUN", help="An experiment file (TOML), a named experiment, or a run folder."
        ),
    ],
    over: Annotated[
        list[str] | None,
        typer.Option(
            "--over",
            metavar="KEY=V,V,...",
            help="Compare values of a setting, e.g. --over mobility.kind=static,random (may be repeated).",
        ),
    ] = None,
    assignments: options.Assignments = None,
    use: options.Use = None,
    seeds: options.Worlds = None,
    rounds: options.Rounds = None,
    windows: Annotated[
        str | None,
        typer.Option(
            metavar="B,B,...", help="Lengths of the windows whose products are judged. (default: 10,50,100)"
        ),
    ] = None,
    sliding: Annotated[
        bool, typer.Option("--sliding", help="Smallest B over windows that begin in every round.")
    ] = False,
    keep_last: Annotated[
        bool, typer.Option("--keep-last", help="Keep the incomplete last window, too.")
    ] = False,
    convergence: Annotated[
        bool,
        typer.Option(
            "--convergence", help="Train (softmax regression, plain SGD) and hold the bounds against it."
        ),
    ] = False,
    folder: Annotated[
        str | None, options.place("--out", metavar="DIR", help="Write tables (CSV) and figures there.")
    ] = None,
) -> None:
    """How connected the clients are: components, mixing parameter p, smallest B; no training needed.

    B-strong connectivity: the contacts of every window of B rounds, taken together, connect everybody. The
    smallest B is exact, over all aligned windows of the rounds looked at; a larger B need not do it as well.

    --convergence trains the first world of each variant and prints and draws what was measured beside the bounds of
    Jahani et al. (Theorem 1, Lemma 3, Corollary 1) and beside tighter ones; infinite ones are called so.
    """
    import pandas as pd

    from fedroam.analysis.connectivity.contact_statistics import pattern_table, recorded, simulate, summary

    refused: list[str] = []
    worlds = list(_worlds(source, over, assignments, use, seeds, refused))
    if sliding and keep_last:
        raise InputError("--sliding and --keep-last: allowed is one of the two")
    found: list[tuple[_World, ContactSequence]] = []
    for world in worlds:
        meetings = simulate(world.experiment, rounds) if world.run is None else recorded(world.run)
        found.append((world, meetings if rounds is None else meetings.first(rounds)))
    lengths = _lengths(windows, min(len(meetings.graphs) for _, meetings in found))
    rows: list[dict[str, Any]] = [
        {
            "variant": world.title,
            "seed": world.seed,
            **summary(meetings, sliding=sliding, keep_last=keep_last),
        }
        for world, meetings in found
    ]
    tables = {"connectivity": pd.DataFrame(rows), **_tables(found, lengths, keep_last)}
    _print_patterns(pattern_table(rows, ["variant"]), rows, sliding)
    _print_windows(tables["windows"])
    figures = {}
    if folder is not None:
        from fedroam.analysis.connectivity.figures import smallest_figure, windows_figure

        groups: dict[str, list[ContactSequence]] = {}
        for world, meetings in found:
            groups.setdefault(world.title or "all", []).append(meetings)
        smallest: dict[str, list[float]] = {}
        for row in rows:
            smallest.setdefault(row["variant"] or "all", []).append(row["b"])
        figures["windows"] = windows_figure(groups)
        figures["smallest_b"] = smallest_figure(smallest, max(int(row["rounds"]) for row in rows))
    if convergence:
        told, drawn = _converge(worlds, rounds, folder is not None)
        tables["convergence"], figures = told, {**figures, **drawn}
    if folder is not None:
        _write(Path(folder), tables, figures)
    if refused:
        raise InputError(f"{len(refused)} refused, and not looked at: {refused[0]}")


def _worlds(
    source: str,
    over: list[str] | None,
    assignments: list[str] | None,
    use: list[str] | None,
    seeds: int | None,
    refused: list[str],
) -> Iterator[_World]:
    """The worlds to look at: those of an experiment, or the runs of a folder; `refused` is given those that cannot be,
    in words."""
    from fedroam.components import use as load
    from fedroam.planning import sweep_plan

    if checked_name(source).is_dir():
        from fedroam.recording import open_runs, recorded_experiment

        for option, given in (("--over", over), ("--set", assignments), ("--seeds", seeds)):
            if given is not None:
                raise InputError(f"{option}: a run folder is looked at as it is; allowed with FILE or NAME")
        for file in use or []:
            load(file)
        for run in open_runs(source):
            yield _World(str(run.status["variant"]), int(run.status["seed"]), recorded_experiment(run), run)
        return
    resolved = sweep_plan(source, over=over or (), assignments=assignments or (), seeds=seeds, use=use or ())
    for line in resolved.notes:
        note(line)
    for row in resolved.refused:
        refused.append(f"{_title(row.keys)}, seed {row.seed}: {row.reason}")
        tell(one_line(f"refused: {refused[-1]}"))
    known: dict[str, str] = {}
    for planned in resolved.runs:
        name = _title(planned.keys)
        twin = known.setdefault(planned.experiment.digest, name)
        if twin != name:  # static clients and a number of mobile ones, for instance
            note(f"{name}, seed {planned.experiment.seed}: the same world as {twin}, left out")
            continue
        yield _World(_title(planned.keys), planned.experiment.seed, planned.experiment, None)


def _title(keys: Mapping[str, Any]) -> str:
    """What tells a variant from the others: `random, mobile=3`."""
    from fedroam.planning import label

    return ", ".join(
        str(label(value))
        if name == "variant" or name.endswith(".kind")
        else f"{name.split('.')[-1]}={label(value)}"
        for name, value in keys.items()
    )


def _lengths(text: str | None, rounds: int) -> list[int]:
    """The window lengths asked for; by default those that fit into the rounds."""
    if text is None:
        return [length for length in _WINDOWS if length <= rounds] or [rounds]
    try:
        lengths = [int(piece) for piece in text.split(",")]
    except ValueError:
        lengths = [0]
    if any(not 1 <= length <= rounds for length in lengths):
        raise InputError(f"--windows {text}: allowed are whole numbers from 1 to {rounds}, e.g. 10,50")
    return lengths


def _tables(
    found: list[tuple[_World, ContactSequence]], lengths: list[int], keep_last: bool
) -> dict[str, pd.DataFrame]:
    """Tables of all worlds: per round, per window length, per pair."""
    import pandas as pd

    from fedroam.analysis.connectivity.contact_statistics import contact_table, round_table, window_table

    makers: dict[str, Any] = {
        "rounds": round_table,
        "windows": lambda meetings: window_table(meetings, lengths, keep_last=keep_last),
        "first_contacts": contact_table,
    }
    return {
        name: pd.concat([_labelled(make(meetings), world) for world, meetings in found], ignore_index=True)
        for name, make in makers.items()
    }


def _labelled(table: pd.DataFrame, world: _World) -> pd.DataFrame:
    table.insert(0, "variant", world.title)
    table.insert(1, "seed", world.seed)
    return table


def _converge(worlds: list[_World], rounds: int | None, draw: bool) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Train the first world of each variant; its measurements and bounds, printed, as a table, and drawn."""
    import pandas as pd

    from fedroam.analysis.connectivity.figures import convergence_figure
    from fedroam.analysis.connectivity.measure import measure_run

    firsts: dict[str, _World] = {}
    for world in worlds:
        firsts.setdefault(world.title, world)
    found: list[dict[str, Any]] = []
    figures: dict[str, Any] = {}
    for title, world in firsts.items():
        ending = None if rounds is None else min(rounds, world.experiment.rounds)
        trajectory = measure_run(world.experiment, ending)
        lines = trajectory.lines()
        say()
        say(f"{title or 'convergence'}, seed {world.seed}, {len(trajectory.weights)} rounds:")
        for name, value, remark in lines:
            say(f"  {name:<58} {_plain(value):>12}{'  ' + remark if remark else ''}")
        found += [
            {"variant": title, "seed": world.seed, "quantity": name, "value": value}
            for name, value, _ in lines
        ]
        if draw:
            name = "convergence" if len(firsts) == 1 else f"convergence_{len(figures) + 1}"
            figures[name] = convergence_figure(trajectory)
    return pd.DataFrame(found), figures


def _write(folder: Path, tables: dict[str, pd.DataFrame], figures: dict[str, Any]) -> None:
    from fedroam.analysis.figures.drawing import save
    from fedroam.recording import write_csv

    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            write_csv(folder / f"{name}.csv", table)
        for name, figure in figures.items():
            save(figure, folder, name)
    say(f"written: {folder}")


def _print_patterns(table: pd.DataFrame, rows: list[dict[str, Any]], sliding: bool) -> None:
    """The table of patterns, and what its columns mean."""
    heads = ("Worlds", "Degree", "Components", "Connected rounds", "p of a round", "Smallest B", "None")
    shown = grid("Variant", *heads)
    for row in table.to_dict("records"):
        low, middle, high = (row[name] for name in ("b_min", "b_median", "b_max"))
        b = "none" if math.isnan(middle) else f"{middle:g}"
        if low < high:
            b += f" ({low:g}–{high:g})"
        cells = [
            row["variant"] or "all",
            str(row["seeds"]),
            f"{row['degree']:.2f}",
            f"{row['components']:.2f}",
        ]
        cells += [f"{100 * row['connected']:.1f} %", _plain(row["p_mean"]), b, str(row["without"])]
        shown.add_row(*cells)
    out().print(shown)
    counted = {int(row["rounds"]) for row in rows}
    which = "window" if sliding else "aligned window"
    say(
        f"Smallest B: the contacts of every {which} of B rounds, taken together, connect everybody; median (lowest–"
        f"highest) over worlds, exact over {', '.join(map(str, sorted(counted)))} rounds. None: worlds in which no B "
        "does."
    )
    if any(row["windows"] == 1 for row in rows):
        say("note: in some worlds only one window of B rounds fits into the run; look at more rounds")
    if (table["p_mean"] < 0).any():
        say(
            "note: p is below 0 where weights are not doubly stochastic: no mixing parameter of 0 to 1 exists there"
        )


def _print_windows(table: pd.DataFrame) -> None:
    """What products of windows do, means over worlds."""
    shown = grid("Variant", "Window (rounds)", "Windows", "Connect everybody", "Smallest p", "Mean p")
    for key, some in table.groupby(["variant", "length"], sort=False):
        variant, length = key if isinstance(key, tuple) else ("", key)
        cells = [str(variant or "all"), str(length), f"{some['windows'].mean():g}"]
        cells += [f"{100 * some['connected'].mean():.1f} %", _plain(some["p_min"].min())]
        shown.add_row(*cells, _plain(some["p_mean"].mean()))
    out().print(shown)


def _plain(value: float) -> str:
    """A number with four digits; infinity in words, no number as a dash."""
    if math.isnan(value):
        return "–"
    return f"{value:.4g}" if math.isfinite(value) else "infinity"
