"""A number over two settings at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from fedroam.analysis.figures.drawing import bare_field, colour_bar, new_figure, short, style
from fedroam.analysis.figures.error_bars import key_text
from fedroam.analysis.variants import mean_and_error

_LUMINANCE = (0.2126, 0.7152, 0.0722)  # of red, green, blue, as in ITU-R BT.709


def heatmap_figure(
    columns: Sequence[Any],
    rows: Sequence[Any],
    values: Mapping[tuple[Any, Any], Sequence[float]],
    xlabel: str,
    ylabel: str,
    label: str,
) -> Figure | None:
    """Mean over seeds for each (column, row), as a colour and as a number with its standard error.

    label: what the colour means, with its unit. Empty cells are left white. None without any number.
    """
    means = np.full((len(rows), len(columns)), np.nan)
    errors = np.full_like(means, np.nan)
    for (x, y), seeds in values.items():
        cell = rows.index(y), columns.index(x)
        means[cell], errors[cell] = mean_and_error(seeds)
    if not np.isfinite(means).any():
        return None
    with style():
        width = min(max(5.8, 2.4 + 0.85 * len(columns)), 13.0)
        figure, ax = new_figure((width, min(max(3.0, 1.5 + 0.55 * len(rows)), 11.0)))
        colours = matplotlib.colormaps["viridis"]
        image = ax.imshow(means, cmap=colours, aspect="auto", origin="lower")
        for i, j in np.ndindex(*means.shape):
            if not math.isfinite(means[i, j]):
                continue
            red, green, blue, _ = colours(image.norm(means[i, j]))
            dark = np.dot(_LUMINANCE, (red, green, blue)) < 0.45
            text = f"{means[i, j]:.1f}"
            if math.isfinite(errors[i, j]):
                text += f"\n±{errors[i, j]:.1f}"
            # Fixed colours: the field behind them does not follow the page's theme.
            ax.text(j, i, text, ha="center", va="center", fontsize=8, color="#fefefe" if dark else "#010101")
        ax.set_xticks(range(len(columns)), [short(key_text(key), 14) for key in columns])
        ax.set_yticks(range(len(rows)), [short(key_text(key), 18) for key in rows])
        bare_field(ax)
        ax.set_xlabel(xlabel)
        ax.set_ylabel(ylabel)
        colour_bar(figure, image, ax, label=label)
    return figure
