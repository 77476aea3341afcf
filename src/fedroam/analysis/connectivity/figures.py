"""Figures of connectivity: how long windows must be, and the smallest B of each pattern."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from fedroam.analysis.connectivity.contact_statistics import ContactSequence
from fedroam.analysis.connectivity.windows import connected_windows
from fedroam.analysis.figures.drawing import (
    MUTED,
    colour_of,
    draw_line,
    jitter,
    legend,
    log_ticks,
    new_figure,
    seeds_title,
    short,
    style,
)

_LENGTHS = 60  # window lengths that are drawn


def windows_figure(groups: Mapping[str, Sequence[ContactSequence]]) -> Figure:
    """Share of the aligned windows of B rounds whose graphs, taken together, connect everybody, against B.

    groups: contacts of each world, by variant; lines are means over worlds, bands standard errors.
    """
    with style():
        figure, ax = new_figure()
        for k, (label, worlds) in enumerate(groups.items()):
            rounds = min(len(world.graphs) for world in worlds)
            lengths = np.unique(np.geomspace(1, rounds, _LENGTHS).round().astype(np.int64))
            shares = np.array(
                [[connected_windows(world.latest, int(b)).mean() for b in lengths] for world in worlds]
            )
            n = len(worlds)
            error = shares.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.full(len(lengths), np.nan)
            draw_line(ax, k, short(label), lengths.astype(np.float64), 100 * shares.mean(axis=0), 100 * error)
        ax.set_xscale("log")
        log_ticks(ax.xaxis)
        ax.set_ylim(-3, 103)
        ax.set_xlabel("Length B of a window (rounds)")
        ax.set_ylabel("Windows that connect everybody (%)")
        legend(figure, ax, seeds_title([len(worlds) for worlds in groups.values()]))
    return figure


def smallest_figure(found: Mapping[str, Sequence[float]], rounds: int) -> Figure:
    """The smallest B of each world, one row a variant; worlds without a B (NaN) stand at the right edge.

    found: smallest B of each world, by variant; rounds: of a run.
    """
    with style():
        figure, ax = new_figure((5.8, min(1.5 + 0.5 * len(found), 9.0)))
        edge = rounds * 1.6
        for k, values in enumerate(found.values()):
            every = np.asarray(values, dtype=np.float64)
            known, missing = np.sort(every[np.isfinite(every)]), int((~np.isfinite(every)).sum())
            for x, marker in ((known, "o"), (np.full(missing, edge), "x")):
                y = k + jitter(len(x), 0.5)
                ax.scatter(x, y, s=18, marker=marker, color=colour_of(k), alpha=0.75, zorder=3)
            if len(known):
                ax.plot([np.median(known)] * 2, [k - 0.34, k + 0.34], color=colour_of(k), linewidth=2.4)
        if any(not np.isfinite(value) for values in found.values() for value in values):
            ax.axvline(rounds * 1.25, color=MUTED, linewidth=1)
            ax.text(edge, -0.62, "none", ha="center", va="bottom", color=MUTED, fontsize=9)
        ax.set_xscale("log")
        ax.set_xlim(0.9, edge * 1.3)
        log_ticks(ax.xaxis)
        ax.set_yticks(range(len(found)), [short(label) for label in found])
        ax.set_ylim(len(found) - 0.4, -0.6)
        ax.grid(visible=False, axis="y")
        ax.set_xlabel(f"Smallest B in {rounds} rounds (stroke: median)")
    return figure
