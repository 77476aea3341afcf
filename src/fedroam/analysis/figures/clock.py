"""What clients do with their time, and what gets through: shares and Gantt charts of runs under a clock of seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from fedroam.analysis.figures.drawing import COLOURS, GRID, INK, MUTED, PAPER, empty_figure, short, style
from fedroam.analysis.figures.lines import Line, lines_figure
from fedroam.analysis.figures.publishing import look_of, size_of
from fedroam.analysis.fleet import SHARES
from fedroam.analysis.formatting import SECONDS, largest
from fedroam.analysis.variants import Variant
from fedroam.errors import InputError
from fedroam.recording import Run

TIMES = {
    "time_training": "training",
    "time_sending": "sending",
    "time_waiting": "waiting",
    "time_idle": "away",
}
_BARS = 40  # clients a panel; of more, every so many-th in their order, the ends among them
_PANELS = 4
# What clients are at, in the order in which it is told; where it is nothing of this, they wait.
FILLS: Mapping[str, str] = {
    "training": COLOURS[0],
    "sending": COLOURS[1],
    "charging": COLOURS[4],
    "dead": MUTED,
    "away": PAPER,
}
WAITING = GRID
ROUNDS = 12  # that a picture shows; more would be a barcode
_LANE, _AROUND = 0.2, 1.1  # inches: of a client, and of axis and legend
_KEY = 1.0  # inches, of a key of the legend, at most


def shares_of_time(variant: Variant) -> pd.DataFrame:
    """What share of its time each client trained, sent, waited and was away, mean over the runs that count; index:
    client, columns: `TIMES`. Empty where no run has a clock of seconds."""
    found = []
    for run in variant.included:
        clients = run.clients
        if all(name in clients for name in TIMES):
            last = clients[clients["round"] == clients["round"].max()].set_index("client")[list(TIMES)]
            total = last.sum(axis=1)
            found.append(last.div(total.where(total > 0), axis=0))
    if not found:
        return pd.DataFrame(columns=list(TIMES))
    table: pd.DataFrame = sum(found[1:], start=found[0]) / len(found)
    return table.dropna().sort_values(["time_training", "time_sending"], ascending=False, kind="stable")


def client_time_figure(compared: Sequence[Variant]) -> Figure | None:
    """A bar a client: shares of training, sending, waiting and being away, a panel a variant; None without numbers."""
    tables = [(variant.label, shares_of_time(variant)) for variant in compared]
    tables = [(label, table) for label, table in tables if len(table)][:_PANELS]
    if not tables:
        return None
    columns = min(len(tables), 2)
    rows = -(-len(tables) // columns)
    with style():
        figure = empty_figure((5.8 if columns == 1 else 8.6, 1.0 + 2.4 * rows))
        grid = figure.subplots(rows, columns, squeeze=False, sharey=True)
        for ax, (label, table) in zip(grid.flat, tables, strict=False):
            kept = np.unique(np.linspace(0, len(table) - 1, min(len(table), _BARS)).round().astype(np.int64))
            shown, below = table.iloc[kept] * 100, np.zeros(len(kept))
            for k, (name, word) in enumerate(TIMES.items()):
                height = shown[name].to_numpy(np.float64)
                ax.bar(range(len(kept)), height, bottom=below, width=0.92, color=COLOURS[k], label=word)
                below += height
            told = (
                f"{len(kept)} of {len(table)} clients" if len(kept) < len(table) else f"{len(table)} clients"
            )
            ax.set_xlabel(f"{told}, by training")
            ax.set_xticks([])
            ax.set_ylim(0, 100)
            ax.grid(visible=False, axis="x")
            if len(tables) > 1:
                ax.set_title(short(label, 40), loc="left", fontsize=10)
        for ax in list(grid.flat)[len(tables) :]:
            ax.set_visible(False)
        figure.supylabel("Share of the time (%)", fontsize=10)
        handles, words = grid.flat[0].get_legend_handles_labels()
        figure.legend(handles, words, loc="outside upper center", ncols=len(words), frameon=False)
    return figure


def transfers_figure(compared: Sequence[Variant]) -> Figure | None:
    """Which share of a round's contacts and transfers gets through, and how many tries break for each transfer; None
    without numbers."""
    panels = []
    for title, name in (
        ("Contacts that fit", "fit"),
        ("Transfers through", "through"),
        ("Broken tries", "broken"),
    ):
        of = SHARES.get(name, "transfers")
        lines = []
        for variant in compared:
            seeds = []
            for run in variant.included:
                table = run.by_round
                if name in table and of in table:
                    wanted = table[of].where(table[of] > 0)
                    seeds.append((100 * table[name] / wanted).dropna())
            lines.append(Line(variant.label, tuple(one for one in seeds if len(one))))
        if any(line.seeds for line in lines):
            panels.append((title, lines))
    return lines_figure(panels, "Share of those wanted (%)") if panels else None


def round_ends(run: Run) -> pd.Series:
    """When each round ended, s since the start, by round; of rounds that were not evaluated as far as the timetable
    tells, empty where the run has none."""
    found = run.schedule.groupby("round")["end"].max()
    if "time" in run.rounds:
        known = run.rounds.set_index("round")["time"]
        found = pd.concat([known[known.index > 0], found]).groupby(level=0).max()
    return found.sort_index()


def names_of(run: Run) -> dict[int, str]:
    """What clients are called: by their numbers, and by the names of their devices where they have any."""
    clients = run.clients.drop_duplicates("client").set_index("client")
    devices = clients["device"] if "device" in clients else pd.Series("", clients.index)
    return {
        int(i): f"Client {i} ({name})" if name else f"Client {i}"
        for i, name in zip(devices.index.tolist(), devices.tolist(), strict=True)
    }


def first_clients(run: Run) -> int:
    """Of how many clients the timetable was kept: 0 where none was."""
    if run.schedule.empty:
        return 0
    kept = int(run.settings.get("record_schedule", 0))
    return min(kept, int(run.settings["clients"])) if kept else int(run.schedule["client"].max()) + 1


def gantt_figure(run: Run, rounds: tuple[int, int] | None = None) -> Figure | None:
    """The chart of rounds `rounds` (first and last; default: the first ones); None where no timetable was kept."""
    lanes = first_clients(run)
    if not lanes:
        return None
    with style():
        figure = empty_figure((8.6, _AROUND + _LANE * lanes))
        _draw(figure.add_subplot(), run, shown_rounds(run, rounds))
    return figure


def plot_gantt(
    run: Run,
    rounds: tuple[int, int] | None = None,
    *,
    look: str = "screen",
    width: str | float | None = None,
    height: float | None = None,
    publisher: str = "ieee",
) -> Axes:
    """The chart for a paper or the screen (sizes as of `fedroam.plot`), its axes. Raises InputError where the run kept
    no timetable, or has no such rounds."""
    lanes = first_clients(run)
    if not lanes:
        raise InputError(
            f"{run.folder}: keeps no timetable of clients: that takes a run under clock.kind = 'seconds', with "
            "record_schedule above 0"
        )
    shown = shown_rounds(run, rounds)
    with matplotlib.rc_context(look_of(look)):
        across, up = size_of(width, height, publisher, look)
        if height is None:
            up = _AROUND + _LANE * lanes
        figure = empty_figure((across, up))
        axes = figure.add_subplot()
        _draw(axes, run, shown)
    return axes


def shown_rounds(run: Run, rounds: tuple[int, int] | None) -> tuple[int, int]:
    """The rounds asked for, by default the first ones. Raises InputError where the run has not got them."""
    last = int(run.schedule["round"].max())
    if rounds is None:
        return 1, min(ROUNDS, last)
    if not 1 <= rounds[0] <= rounds[1] <= last:
        raise InputError(f"rounds {rounds[0]}:{rounds[1]}: allowed is FIRST:LAST from 1 to {last}")
    return rounds


def _draw(ax: Axes, run: Run, rounds: tuple[int, int]) -> None:
    schedule, ends, lanes = run.schedule, round_ends(run), first_clients(run)
    before = ends[ends.index < rounds[0]]
    begin, end = float(before.max()) if len(before) else 0.0, float(ends[ends.index <= rounds[1]].max())
    unit, factor = largest(end / 2, SECONDS)
    rows = schedule[schedule["round"].between(*rounds)]
    ax.barh(range(lanes), (end - begin) / factor, left=begin / factor, height=0.76, color=WAITING)
    for state, fill in FILLS.items():
        own = rows[rows["state"] == state]
        lasts = (own["end"] - own["begin"]).to_numpy(np.float64) / factor
        ax.barh(
            own["client"], lasts, left=own["begin"].to_numpy(np.float64) / factor, height=0.76, color=fill
        )
    for boundary in ends[(ends > begin) & (ends < end)]:
        ax.axvline(boundary / factor, color=INK, linewidth=0.4, linestyle=(0, (2, 2)))
    ax.set_xlim(begin / factor, end / factor)
    ax.set_ylim(lanes - 0.5, -0.5)
    names = names_of(run)
    ax.set_yticks(
        range(lanes), [short(names.get(i, str(i)).removeprefix("Client "), 14) for i in range(lanes)]
    )
    ax.set_ylabel("Client")
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=False)
    ax.set_xlabel(f"Simulated time since the start ({unit})")
    there = [state for state in FILLS if (rows["state"] == state).any()]
    keys = [Patch(color=FILLS[state], label=state) for state in there if state != "away"]
    keys.append(Patch(color=WAITING, label="waiting"))
    if "away" in there:
        keys.append(Patch(facecolor=PAPER, edgecolor=MUTED, label="away"))
    figure = ax.get_figure(root=True)
    assert figure is not None
    rows_of_keys = (
        1 if figure.get_figwidth() >= _KEY * len(keys) else 2
    )  # beside each other they would be cut off
    columns = -(-len(keys) // rows_of_keys)
    figure.legend(handles=keys, loc="outside upper center", ncols=columns, frameon=False)
