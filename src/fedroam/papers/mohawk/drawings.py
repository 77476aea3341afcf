"""How figures 2, 3 and 7 of Farcas et al. are drawn: maps, availability, accuracy against energy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from fedroam.analysis.figures.drawing import (
    INK,
    MUTED,
    colour_of,
    draw_line,
    empty_figure,
    legend,
    seeds_title,
    style,
)
from fedroam.analysis.variants import mean_by_round
from fedroam.components import build
from fedroam.mobility import KnowsPlaces
from fedroam.papers.mohawk.measures import DAY, threshold
from fedroam.randomness import stream
from fedroam.recording import Run
from fedroam.study.measures import column

Found = Mapping[str, Sequence[Run]]  # variant -> run of each seed
_CELLS = 50  # along a side of the map


def maps(runs: Found) -> Drawing | None:
    """Figure 2: points of interest and how many lie in a cell, as many spread uniformly and as they are.

    None where the world of the runs has none.
    """
    found = [run for several in runs.values() for run in several]
    mobility = build("mobility", found[0].settings["mobility"])
    if not isinstance(mobility, KnowsPlaces):
        return None
    real = mobility.points_of_interest()
    low, high = real.min(axis=0), real.max(axis=0)
    even = low + stream(0, "uniform points of interest").random(real.shape) * (high - low)
    edges = [np.linspace(low[k], high[k], _CELLS + 1) / 1000 for k in (0, 1)]
    both = {"Uniform": even / 1000, "As they are": real / 1000}
    counts = {
        name: np.histogram2d(points[:, 0], points[:, 1], bins=edges)[0].T for name, points in both.items()
    }
    shades = LogNorm(1, max(float(each.max()) for each in counts.values()))
    with style():
        figure = empty_figure((8.2, 7.4))
        panels = figure.subplots(2, 2, sharex=True, sharey=True)
        for k, (name, points) in enumerate(both.items()):
            places, cells = panels[:, k]
            places.plot(
                *points.T, ".", color=colour_of(0), markersize=1.2, markeredgewidth=0, rasterized=True
            )
            shown = np.ma.masked_equal(counts[name], 0)
            image = cells.pcolormesh(*edges, shown, cmap="viridis_r", norm=shades, rasterized=True)
            for ax, letter in ((places, "ac"[k]), (cells, "bd"[k])):
                ax.set_aspect("equal")
                ax.grid(visible=False)
                ax.set_title(f"({letter}) {name}", loc="left", fontsize=10)
            cells.set_xlabel("x (km)")
        for ax in panels[:, 0]:
            ax.set_ylabel("y (km)")
        side = (high - low) / _CELLS
        label = f"{len(real):,} places, per {side[0]:.0f} m x {side[1]:.0f} m"
        bar = figure.colorbar(image, ax=panels, label=label, shrink=0.46, anchor=(0.0, 0.03))
        bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        bar.ax.yaxis.set_minor_formatter(NullFormatter())
    return figure


def counted(runs: Sequence[Run], hours: int, until: int | None = None) -> pd.DataFrame:
    """Devices aggregated an hour by each run (columns), as means over stretches of so many hours.

    index: days since the start, of the middle of each stretch; until: the last hour that counts. A last stretch with
    less than half of its hours is left out.
    """
    grown = pd.DataFrame({k: _hourly(run) for k, run in enumerate(runs)}).dropna()
    grown = grown[grown.index <= (until or np.inf)]
    stretch = (grown.index.to_numpy() - 1) // hours
    enough = 2 * np.bincount(stretch)[stretch] >= hours
    table: pd.DataFrame = grown[enough].groupby(stretch[enough]).mean()
    return table.set_axis((table.index + 0.5) * hours / DAY)


def _hourly(run: Run) -> pd.Series:
    """Devices aggregated in each round; nothing is counted, and nothing aggregated, before the first."""
    totals = column(run, "total_aggregated").fillna({0: 0.0})
    return totals.diff().iloc[1:] / np.diff(totals.index)


def normalised(counts: pd.DataFrame) -> pd.DataFrame:
    """Each row over its largest number: 1 is the most that anybody aggregates then; 0 where nobody does."""
    most = counts.max(axis=1)
    return counts.div(most.where(most > 0, 1.0), axis=0)


def availability(
    runs: Found, lines: Mapping[str, str], hours: int, until: int | None = None
) -> Drawing | None:
    """Figure 3: devices aggregated by each method, and the same normalised; lines: {label: variant}.

    Points are means over so many hours, up to hour `until`. Of seeds that all lines have.
    """
    seeds = _common(runs, lines.values())
    if not seeds:
        return None
    tables = [
        counted([_of(runs, variant, seed) for variant in lines.values()], hours, until) for seed in seeds
    ]
    panels = (("Devices an hour", tables), ("Normalised", [normalised(each) for each in tables]))
    with style():
        figure = empty_figure((7.4, 5.2))
        for ax, (ylabel, each) in zip(figure.subplots(2, 1, sharex=True), panels, strict=True):
            for k, label in enumerate(lines):
                found = mean_by_round([table[k] for table in each])
                x, mean, error = (found[name].to_numpy() for name in ("round", "mean", "error"))
                draw_line(ax, k, label, x, mean, error)
            ax.set_ylabel(ylabel)
            ax.set_ylim(bottom=0)
            ax.margins(x=0.01)
        ax.set_xlabel("Days since the start")
        legend(figure, ax, seeds_title([len(seeds)]), limit=100)
    return figure


def printed_energy(joules: Callable[[Run], float]) -> Callable[[Run], pd.Series]:
    """The paper's energy of a client by round: rounds x joules of one full exchange."""

    def series(run: Run) -> pd.Series:
        rounds = column(run).index
        return pd.Series(joules(run) * rounds.to_numpy(np.float64), index=rounds)

    return series


def charged_energy(run: Run) -> pd.Series:
    """Joules by round that a device has been charged for, mean over all devices."""
    return column(run, "energy") / int(run.settings["clients"])


def against_energy(
    runs: Found,
    panels: Sequence[tuple[str, Mapping[str, str]]],
    energy: Callable[[Run], pd.Series],
    columns: int,
) -> Drawing | None:
    """Figure 7: accuracy against energy, up to where the slowest line reaches the threshold (dashed).

    panels: title and {label: variant}, so many in a row; a row shares its axis of energy, and those without a run are
    left out. A dot is where the mean over seeds first comes to the threshold.
    """
    every = [(title, {label: runs.get(v, ()) for label, v in lines.items()}) for title, lines in panels]
    found = [(title, lines) for title, lines in every if any(lines.values())]
    if not found:
        return None
    rows = -(-len(found) // columns)
    with style():
        figure = empty_figure((1.0 + 3.1 * columns, 1.0 + 2.5 * rows))
        grid = figure.subplots(rows, columns, sharex="row", sharey=True, squeeze=False)
        for start in range(0, len(found), columns):
            ends = [
                _against(ax, title, lines, energy)
                for ax, (title, lines) in zip(grid[start // columns], found[start:], strict=False)
            ]
            grid[start // columns, 0].set_xlim(0, 1.1 * max(max(ends), 1e-9))
            grid[start // columns, 0].xaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10]))
        figure.supxlabel("Energy per device for communication (J)", fontsize=10)
        figure.supylabel("Accuracy of the cloud's model (%)", fontsize=10)
        numbers = [len(several) for _, lines in found for several in lines.values() if several]
        for ax in grid.flat[len(found) :]:
            ax.set_visible(False)
        legend(figure, grid.flat[0], seeds_title(numbers), limit=40 * columns)
    return figure


def _against(
    ax: Axes, title: str, lines: Mapping[str, Sequence[Run]], energy: Callable[[Run], pd.Series]
) -> float:
    """One panel; gives the joules that are worth showing: until all lines have come to the threshold, or the end."""
    ax.set_title(title, loc="left", fontsize=10)
    ends, dots = [0.0], []
    for k, (label, several) in enumerate(lines.items()):
        if not several:  # named in the legend nevertheless, which serves all panels
            draw_line(ax, k, label, *np.zeros((3, 0)))
            continue
        found = mean_by_round([100 * column(run) for run in several])
        mean, error = found["mean"].to_numpy(), found["error"].to_numpy()
        spent = np.mean([energy(run).loc[found["round"]].to_numpy() for run in several], axis=0)
        draw_line(ax, k, label, spent, mean, error)
        aim = threshold(several[0])
        there = np.flatnonzero(mean >= aim)
        ends.append(float(spent[there[0]] if len(there) else spent[-1]))
        if len(there):
            dots.append((spent[there[0]], mean[there[0]], colour_of(k)))
        if len(ends) == 2:
            ax.axhline(
                aim,
                color=MUTED,
                linestyle=(0, (4, 3)),
                linewidth=1.1,
                label=f"threshold, {aim:g} %",
                zorder=1,
            )
    for x, y, colour in dots:
        ax.plot(x, y, "o", color=colour, markeredgecolor=INK, markersize=6.5, zorder=5)
    return max(ends)


def _of(runs: Found, variant: str, seed: int) -> Run:
    return next(run for run in runs[variant] if int(run.status["seed"]) == seed)


def _common(runs: Found, variants: Iterable[str]) -> list[int]:
    """The seeds that all of these variants have a run of."""
    sets = [{int(run.status["seed"]) for run in runs.get(variant, ())} for variant in variants]
    return sorted(set.intersection(*sets)) if sets else []
