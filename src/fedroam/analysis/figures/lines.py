"""Lines over rounds: of a column of `rounds` for each variant, or of any numbers of runs in several panels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedroam.analysis.figures.drawing import (
    DASHES,
    FEW,
    MARKERS,
    MUTED,
    SIZE,
    draw_line,
    empty_figure,
    legend,
    log_ticks,
    new_figure,
    round_ticks,
    seeds_title,
    short,
    short_each,
    style,
)
from fedroam.analysis.variants import Variant, mean_by_round, over_seeds

_MOST_COLUMNS = 3


def column_figure(
    compared: Sequence[Variant], column: str, label: str, *, scale: float = 1.0, log: bool = False
) -> Figure | None:
    """A column of `rounds` over rounds: mean over seeds and, as a band, its standard error.

    label: the y axis with its unit; scale: factor from the column to that unit; log: logarithmic where the values
    span more than a factor of 30 (zeros are then not drawn). None where there is no number to draw.
    """
    found = [over_seeds(variant, column) for variant in compared]
    means = np.concatenate([table["mean"].to_numpy(np.float64) for table in found])
    means = means[np.isfinite(means)]
    if not len(means):
        return None
    positive = means[means > 0]
    log = log and len(positive) > 0 and positive.max() > 30 * positive.min()
    floor = positive.min() * scale if log else None
    seeds = [int(table["n"].iloc[0]) for table in found if len(table)]
    with style():
        figure, ax = new_figure()
        names = short_each([variant.label for variant in compared])
        for k, (name, table) in enumerate(zip(names, found, strict=True)):
            if not len(table):
                name += " (nothing recorded)"
            elif len(set(seeds)) > 1:
                name += f" (n = {table['n'].iloc[0]})"
            x = table["round"].to_numpy(np.float64)
            y, error = (table[part].to_numpy(np.float64) * scale for part in ("mean", "error"))
            draw_line(ax, k, name, x, np.where(y > 0, y, np.nan) if log else y, error, floor)
        if log:
            ax.set_yscale("log")
            log_ticks(ax.yaxis)
        ax.set_xlabel("Communication round")
        ax.set_ylabel(label)
        round_ticks(ax, 8)
        ax.margins(x=0.01)
        zeros = "; zeros not drawn" if log and len(positive) < len(means) else ""
        legend(figure, ax, seeds_title(seeds) + zeros)
    return figure


@dataclass(frozen=True)
class Line:
    """A label and, for each seed, its values by round (index: round).

    grey: thin, without points and band: what the others are held against.
    """

    label: str
    seeds: tuple[pd.Series, ...]
    grey: bool = False


def lines_figure(panels: Sequence[tuple[str, Sequence[Line]]], ylabel: str) -> Figure | None:
    """One panel for each (title, lines), all with the same axes; a line and an error band for each label.

    The same label has the same colour in every panel; where there are grey lines, too, the others have dashes and
    points of their own. Panels without any number are left out, None if all are; a label without any says so, a grey
    one is left out.
    """
    tables = [(title, [(line, mean_by_round(line.seeds)) for line in lines]) for title, lines in panels]
    tables = [(title, rows) for title, rows in tables if any(t["mean"].notna().any() for _, t in rows)]
    if not tables:
        return None
    every = [line for _, rows in tables for line, _ in rows]
    labels = list(dict.fromkeys(line.label for line in every if not line.grey))
    names = dict(zip(labels, short_each(labels), strict=True))
    recorded = {line.label for _, rows in tables for line, table in rows if table["mean"].notna().any()}
    names |= {label: f"{names[label]} (nothing recorded)" for label in labels if label not in recorded}
    greys = list(dict.fromkeys(line.label for line in every if line.grey))
    columns = 2 if len(tables) == 4 else min(len(tables), _MOST_COLUMNS)
    rows_of_panels = -(-len(tables) // columns)
    size = SIZE if len(tables) == 1 else (1.0 + 3.3 * columns, 0.9 + 2.4 * rows_of_panels)
    with style():
        figure = empty_figure(size)
        grid = figure.subplots(rows_of_panels, columns, sharex=True, sharey=True, squeeze=False)
        for place, (title, rows) in enumerate(tables):
            ax = grid.flat[place]
            for line, table in rows:
                x, y, error = (table[name].to_numpy(np.float64) for name in ("round", "mean", "error"))
                if line.grey and line.label not in recorded:
                    continue  # it would be a name in the legend, and nothing to it
                if line.grey:
                    _draw_behind(ax, greys.index(line.label), short(line.label), x, y)
                    continue
                draw_line(ax, (k := labels.index(line.label)), names[line.label], x, y, error)
                if greys:
                    marker = MARKERS[k % len(MARKERS)] if len(x) <= FEW else ""
                    ax.lines[-1].set(linestyle=DASHES[k % len(DASHES)], marker=marker)
            if title and len(tables) > 1:
                ax.set_title(short(title, 40), loc="left", fontsize=10)
            ax.margins(x=0.01)
            round_ticks(ax, 6)
        for ax in grid.flat[len(tables) :]:
            ax.set_visible(False)
        for ax in grid.flat[: len(tables)]:
            ax.tick_params(labelbottom=True)  # each panel can be read by itself
        figure.supxlabel("Communication round", fontsize=10)
        figure.supylabel(ylabel, fontsize=10)
        _name_all(grid.flat[0], list(names.values()))
        seeds = [len(line.seeds) for line in every if line.seeds]
        legend(figure, grid.flat[0], seeds_title(seeds), limit=int(76 * size[0] / SIZE[0]))
    return figure


def _draw_behind(ax: Axes, k: int, label: str, x: np.ndarray, y: np.ndarray) -> None:
    """Draw the k-th grey line, behind the others."""
    dashes = DASHES[(k + 2) % len(DASHES)]
    ax.plot(x, y, color=MUTED, linestyle=dashes, linewidth=1.2, zorder=1.5, label=label)


def _name_all(ax: Axes, names: Sequence[str]) -> None:
    """Give the first panel the lines of the others, without points: its legend serves them all."""
    nothing = np.zeros(0)
    named = set(ax.get_legend_handles_labels()[1])
    for k, name in enumerate(names):
        if name not in named:
            draw_line(ax, k, name, nothing, nothing, nothing)
