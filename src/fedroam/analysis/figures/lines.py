"""Lines over rounds from any function of a run, in one panel or in several (small multiples)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from fedroam.analysis.figures.curves import FEW, draw
from fedroam.analysis.figures.drawing import DASHES, MARKERS, MUTED, legend, seeds_title, short, style
from fedroam.analysis.variants import mean_and_error

_MOST_COLUMNS = 3


@dataclass(frozen=True)
class Line:
    """A label and, for each seed, its values by round (index: round).

    grey: thin, without points and band: what the others are held against.
    """

    label: str
    seeds: tuple[pd.Series, ...]
    grey: bool = False

    def table(self) -> pd.DataFrame:
        """round, mean, error over the rounds that every seed has."""
        if not self.seeds:
            return pd.DataFrame({"round": [], "mean": [], "error": []})
        rounds = sorted(set.intersection(*(set(one.index) for one in self.seeds)))
        values = np.stack([one.reindex(rounds).to_numpy(np.float64) for one in self.seeds], axis=1)
        pairs = [mean_and_error(row) for row in values]
        return pd.DataFrame(
            {"round": rounds, "mean": [mean for mean, _ in pairs], "error": [error for _, error in pairs]}
        )


def series_figure(
    panels: Sequence[tuple[str, Sequence[Line]]], ylabel: str, *, xlabel: str = "Communication round"
) -> Figure | None:
    """One panel for each (title, lines), all with the same axes; a line and an error band for each label.

    The same label has the same colour in every panel; where there are grey lines, too, the others have dashes and
    points of their own. Panels without any number are left out; None if all are.
    """
    tables = [(title, [(line, line.table()) for line in lines]) for title, lines in panels]
    tables = [(title, rows) for title, rows in tables if any(t["mean"].notna().any() for _, t in rows)]
    if not tables:
        return None
    every = [line for _, rows in tables for line, _ in rows]
    labels = list(dict.fromkeys(line.label for line in every if not line.grey))
    greys = list(dict.fromkeys(line.label for line in every if line.grey))
    columns = min(len(tables), _MOST_COLUMNS)
    rows_of_panels = -(-len(tables) // columns)
    size = (5.8, 3.6) if len(tables) == 1 else (1.0 + 3.3 * columns, 0.9 + 2.4 * rows_of_panels)
    with style():
        figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.09, h_pad=0.07))
        FigureCanvasAgg(figure)
        grid = figure.subplots(rows_of_panels, columns, sharex=True, sharey=True, squeeze=False)
        for place, (title, rows) in enumerate(tables):
            ax = grid.flat[place]
            for line, table in rows:
                x, y, error = (table[name].to_numpy(np.float64) for name in ("round", "mean", "error"))
                if line.grey:
                    _held_against(ax, greys.index(line.label), short(line.label), x, y)
                    continue
                draw(ax, (k := labels.index(line.label)), short(line.label), x, y, error)
                if greys:
                    ax.lines[-1].set(linestyle=DASHES[k % len(DASHES)], marker=_marker(k, len(x)))
            if title and len(tables) > 1:
                ax.set_title(short(title, 40), loc="left", fontsize=10)
            ax.margins(x=0.01)
            ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6, steps=[1, 2, 5, 10]))
        for ax in grid.flat[len(tables) :]:
            ax.set_visible(False)
        figure.supxlabel(xlabel, fontsize=10)
        figure.supylabel(ylabel, fontsize=10)
        _name_all(grid.flat[0], labels)
        numbers = [len(line.seeds) for line in every if line.seeds]
        legend(
            figure,
            grid.flat[0],
            seeds_title(numbers),
            limit=int(76 * size[0] / 5.8),
        )
    return figure


def _held_against(ax: Axes, k: int, label: str, x: np.ndarray, y: np.ndarray) -> None:
    """The k-th grey line, behind the others."""
    dashes = DASHES[(k + 2) % len(DASHES)]
    ax.plot(x, y, color=MUTED, linestyle=dashes, linewidth=1.2, zorder=1.5, label=label)


def _marker(k: int, points: int) -> str:
    return MARKERS[k % len(MARKERS)] if points <= FEW else ""


def _name_all(ax: Axes, labels: Sequence[str]) -> None:
    """One legend serves all panels, so the first one gets the lines of the others, without points."""
    nothing = np.zeros(0)
    named = set(ax.get_legend_handles_labels()[1])
    for k, label in enumerate(labels):
        if short(label) not in named:
            draw(ax, k, short(label), nothing, nothing, nothing)
