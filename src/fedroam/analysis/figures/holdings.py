"""Who holds what: classes by clients, as bubbles."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedroam.analysis.figures.drawing import COLOURS, GRID, MUTED, PAPER, new_figure, short, style
from fedroam.errors import InputError

_SHOWN = 200  # clients; more would be dust
_DOT = 1.5  # points²; whoever holds one sample is seen
_ROOM = (2.0, 1.6)  # inches beside and around the field of bubbles: names, labels, legend


def holdings_figure(class_counts: np.ndarray, class_names: Sequence[str], title: str = "") -> Figure:
    """A bubble for every client and class, its area in proportion to the training samples held
    (the smallest are drawn as a dot, so that one sample is seen).

    class_counts: whole numbers [clients, classes]. More than 200 clients: the first 200 are drawn, and the
    axis says so. Raises InputError where the shape does not fit the names, or nobody holds anything.
    """
    counts = np.asarray(class_counts)
    if counts.ndim != 2 or counts.shape[1] != len(class_names):
        raise InputError(
            f"class counts of shape {counts.shape}, wanted is [clients, {len(class_names)} classes]"
        )
    if not counts.any():
        raise InputError("class counts: nobody holds a sample, there is nothing to draw")
    everybody, (clients, classes) = len(counts), counts[:_SHOWN].shape
    counts = counts[:_SHOWN]
    width = min(max(5.8, _ROOM[0] + 0.22 * clients), 13.0)
    height = min(max(2.8, _ROOM[1] + 0.27 * classes), 16.0)
    # Points between neighbours; along the many clients the largest may overlap, they are seldom side by side.
    pitch = 72 * min(2.2 * (width - _ROOM[0]) / clients, (height - _ROOM[1]) / classes)
    # points² a sample: the largest just fits
    area = (0.98 * min(pitch, 26.0)) ** 2 / max(int(counts.max()), 1)
    with style():
        figure, ax = new_figure((width, height))
        client, label = np.nonzero(counts)
        ax.scatter(
            client,
            label,
            s=np.maximum(counts[client, label] * area, _DOT),
            color=COLOURS[0],
            alpha=0.8,
            edgecolor=PAPER,
            linewidth=0.3,
        )
        for size in _steps(int(counts.max())):
            ax.scatter([], [], s=max(size * area, _DOT), color=COLOURS[0], alpha=0.8, label=f"{size:,}")
        ax.set_xlim(-0.7, clients - 0.3)
        ax.set_ylim(classes - 0.3, -0.7)
        ax.set_yticks(range(classes), [short(str(name), 18) for name in class_names])
        ax.tick_params(length=0)
        ax.xaxis.set_major_locator(MaxNLocator(nbins=min(clients + 1, 20), integer=True, steps=[1, 2, 5, 10]))
        ax.set_xlabel("client" if everybody == clients else f"client (the first {clients} of {everybody:,})")
        ax.set_ylabel("class")
        ax.grid(color=GRID, linewidth=0.5)
        if title:
            ax.set_title(short(title, 90), loc="left", fontsize=10)
        drawn = figure.legend(
            loc="outside upper right",
            ncols=4,
            title="training samples (area)",
            handletextpad=0.6,
            columnspacing=1.6,
            alignment="right",
        )
        drawn.get_title().set_color(MUTED)
    return figure


def _steps(most: int) -> list[int]:
    """Up to four round numbers of samples for the legend, the largest at most `most`."""
    round_numbers = [
        m * 10**e for e in range(int(math.log10(most)) + 1) for m in (1, 2, 5) if m * 10**e <= most
    ]
    return round_numbers[::-1][::2][:4][::-1]
