"""A number over the values of one setting, with error bars."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fedroam.analysis.figures.drawing import (
    MARKERS,
    MUTED,
    colour_of,
    dash_of,
    legend,
    new_figure,
    seeds_title,
    short,
    style,
)
from fedroam.analysis.variants import mean_and_error

_MANY = 8  # keys; up to here each has a tick of its own


@dataclass(frozen=True)
class ErrorBars:
    """One line with error bars: its label and, for each key, the values of its seeds."""

    label: str
    points: tuple[tuple[Any, tuple[float, ...]], ...]


def error_bar_figure(
    lines: Sequence[ErrorBars], xlabel: str, ylabel: str, *, bound: tuple[str, float] | None = None
) -> Figure | None:
    """Mean over seeds against the key, error bars: ± standard error; bound: a dashed line with its name.

    Finite numbers are drawn to scale; other keys (words, infinity) side by side. None without any number.
    """
    if not any(np.isfinite(value) for line in lines for _, values in line.points for value in values):
        return None
    keys = list(dict.fromkeys(key for line in lines for key, _ in line.points))
    scaled = all(is_number(key) for key in keys)
    if scaled:
        keys = sorted(keys)
    numbers = [len(values) for line in lines for _, values in line.points if values]
    with style():
        figure, ax = new_figure()
        for k, line in enumerate(lines):
            points = sorted(line.points, key=lambda point: keys.index(point[0]))
            x = [float(key) if scaled else float(keys.index(key)) for key, _ in points]
            means, errors = zip(*(mean_and_error(values) for _, values in points), strict=True)
            ax.errorbar(
                x,
                means,
                yerr=[error if math.isfinite(error) else 0.0 for error in errors],
                color=colour_of(k),
                linestyle=dash_of(k),
                marker=MARKERS[k % len(MARKERS)],
                markersize=4.5,
                linewidth=1.6,
                elinewidth=1.2,
                capsize=3,
                label=short(line.label) if line.label else "mean",
            )
        if bound is not None and math.isfinite(bound[1]):
            ax.axhline(bound[1], color=MUTED, linestyle=(0, (4, 3)), linewidth=1.3, label=short(bound[0], 44))
        if not scaled:
            ax.set_xticks(range(len(keys)), [short(key_text(key), 16) for key in keys])
        elif len(keys) <= _MANY and _apart(keys):
            ax.set_xticks([float(key) for key in keys], [f"{key:g}" for key in keys])
        ax.set_xlabel(xlabel)
        ax.set_ylabel(ylabel)
        legend(figure, ax, seeds_title(numbers, "bars"))
    return figure


def key_text(key: Any) -> str:
    """A key for people."""
    if isinstance(key, float):
        return "∞" if math.isinf(key) else f"{key:g}"
    return str(key)


def is_number(key: Any) -> bool:
    """Whether a key is a finite number, so that it can stand to scale."""
    return isinstance(key, int | float) and not isinstance(key, bool) and math.isfinite(key)


def _apart(keys: Sequence[float]) -> bool:
    """Whether neighbouring keys are far enough apart for a tick each."""
    span = max(keys) - min(keys)
    return span > 0 and min(b - a for a, b in itertools.pairwise(keys)) > 0.045 * span
