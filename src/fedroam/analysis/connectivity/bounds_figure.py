"""Measured consensus distance and optimisation error beside their bounds, in one figure."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedroam.analysis.connectivity.trajectory import Trajectory
from fedroam.analysis.figures.drawing import COLOURS, INK, MUTED, empty_figure, log_ticks, round_ticks, style

_WINDOW = "p of a window: not proven"


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
