"""Figures of connectivity: lengths of windows, the smallest B of each pattern, and bounds beside what they bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedroam.analysis.connectivity.contact_statistics import ContactSequence
from fedroam.analysis.connectivity.windows import connected_windows
from fedroam.analysis.figures.drawing import (
    COLOURS,
    INK,
    MUTED,
    colour_of,
    draw_line,
    empty_figure,
    jitter,
    legend,
    log_ticks,
    new_figure,
    round_ticks,
    seeds_title,
    short,
    style,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fedroam.analysis.connectivity.trajectory import Trajectory

_LENGTHS = 60  # window lengths that are drawn
_WINDOW = "p of a window: not proven"


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


def convergence_figure(trajectory: Trajectory) -> Figure:
    """Three panels: consensus distance with Lemma 3, mean optimisation error with Theorem 1, and the products of
    windows of B rounds with Corollary 1. Bounds that are infinite are named in the panel, not drawn.
    """
    with style():
        figure = empty_figure((11.2, 3.9))
        left, middle, right = figure.subplots(1, 3)
        rounds = np.arange(len(trajectory.values))
        _panel(
            left,
            rounds,
            trajectory.consensus,
            trajectory.tight_consensus,
            np.full(len(rounds), trajectory.consensus_bound(window=True)),
            np.full(len(rounds), trajectory.consensus_bound()),
            "Lemma 3",
        )
        left.set_ylabel("Consensus distance Σ‖x − x̄‖²")
        _panel(
            middle,
            rounds + 1,
            trajectory.gap,
            trajectory.tight_gap,
            trajectory.gap_bound(window=True),
            trajectory.gap_bound(),
            "Theorem 1",
        )
        middle.set_ylabel("Mean of f(x̄) − f* so far")
        _products(right, trajectory)
        handles, labels = middle.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=4, columnspacing=1.4, handlelength=2.2)
    return figure


def _panel(
    ax: Axes,
    x: np.ndarray,
    measured: np.ndarray,
    tight: np.ndarray,
    window: np.ndarray,
    printed: np.ndarray,
    name: str,
) -> None:
    """A measured quantity over rounds, and its bounds on a logarithmic axis."""
    infinite = []
    proven = printed[-1] == window[-1]  # every round is connected: B = 1, and the two readings are one
    for label, values, colour, dash in (
        ("measured", measured, INK, "-"),
        ("from measured products", tight, COLOURS[0], "-"),
        (_WINDOW, window, COLOURS[1], (0, (5, 2))),
        ("as printed", printed, COLOURS[2], (0, (1.5, 1.5))),
    ):
        hidden = label == _WINDOW and proven
        shown = np.where(np.isfinite(values) & (values > 0) & (not hidden), values, np.nan)
        named = f"_{label}" if hidden else label  # matplotlib's way to leave it out of a legend
        ax.plot(x, shown, label=named, color=colour, linestyle=dash, linewidth=1.8)
        if np.isinf(values[-1]) and not hidden:
            infinite.append(label)
    ax.set_yscale("log")
    if infinite:
        text = "\n".join(f"{name}, {label}: infinite" for label in infinite)
        ax.text(0.98, 0.97, text, transform=ax.transAxes, ha="right", va="top", color=MUTED, fontsize=9)
        low, high = ax.get_ylim()
        ax.set_ylim(low, high * (high / low) ** (0.09 * len(infinite)))  # room for the words
    log_ticks(ax.yaxis)
    round_ticks(ax, 6)
    ax.margins(x=0.01)
    ax.set_xlabel("Communication round" if name == "Lemma 3" else "Rounds T + 1")


def _products(ax: Axes, trajectory: Trajectory) -> None:
    """||P - J||_F^2 of each window of B rounds."""
    products, bound = trajectory.products, trajectory.corollary()
    floor = 1e-16
    b = trajectory.window
    length = b or len(trajectory.weights)
    ends = length * np.arange(1, len(products) + 1)
    marker = "o" if len(products) <= 60 else None
    ax.plot(ends, np.maximum(products, floor), color=INK, marker=marker, markersize=3.2, linewidth=1.4)
    most = trajectory.clients - 1
    for value, colour, text in ((bound, COLOURS[2], "Corollary 1"), (most, MUTED, "N − 1: holds for any")):
        if value > 0:
            ax.axhline(value, color=colour, linestyle=(0, (1.5, 1.5)), linewidth=1.8)
            ax.annotate(
                text,
                (0.98, value),
                xycoords=ax.get_yaxis_transform(),
                xytext=(0, 3),
                textcoords="offset points",
                ha="right",
                color=colour,
            )
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    ax.set_ylim(low, high * 3)
    log_ticks(ax.yaxis)
    round_ticks(ax, 6)
    ax.set_xlabel(f"Round at the end of a window (B = {b})" if b else "Whole run (no B)")
    ax.set_ylabel("‖product − 11ᵀ/N‖² of a window")
