"""What the figures over rounds have in common: a line and an error band for each variant."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from fedroam.analysis.figures.drawing import colour_of, dash_of, legend, new_figure, seeds_title, short, style
from fedroam.analysis.variants import Variant, over_seeds

FEW = 30  # evaluations; up to here each is marked


def curves_figure(
    groups: Sequence[Variant], column: str, label: str, *, scale: float = 1.0, log: bool = False
) -> Figure | None:
    """A column of `rounds` over rounds: mean over seeds and, as a band, its standard error.

    label: the y axis with its unit; scale: factor from the column to that unit; log: logarithmic where the values
    span more than a factor of 30 (zeros are then not drawn). None where there is no number to draw.
    """
    found = [over_seeds(group, column) for group in groups]
    means = np.concatenate([table["mean"].to_numpy(np.float64) for table in found])
    means = means[np.isfinite(means)]
    if not len(means):
        return None
    positive = means[means > 0]
    log = log and len(positive) > 0 and positive.max() > 30 * positive.min()
    with style():
        figure, ax = new_figure()
        for k, (group, table) in enumerate(zip(groups, found, strict=True)):
            x = table["round"].to_numpy(np.float64)
            y, error = (table[name].to_numpy(np.float64) * scale for name in ("mean", "error"))
            if log:
                y = np.where(y > 0, y, np.nan)
            draw(
                ax, k, _label(group, table, found), x, y, error, floor=positive.min() * scale if log else None
            )
        if log:
            ax.set_yscale("log")
            ax.yaxis.set_major_formatter(FuncFormatter(power))
            ax.yaxis.set_minor_formatter(NullFormatter())
        ax.set_xlabel("Communication round")
        ax.set_ylabel(label)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8, steps=[1, 2, 5, 10]))
        ax.margins(x=0.01)
        zeros = "; zeros not drawn" if log and len(positive) < len(means) else ""
        legend(figure, ax, seeds_title([_n(table) for table in found if len(table)]) + zeros)
    return figure


def draw(
    ax: Axes, k: int, label: str, x: np.ndarray, y: np.ndarray, error: np.ndarray, floor: float | None = None
) -> None:
    """The k-th variant's line and band; floor: on a logarithmic axis, where a band that reaches zero is cut."""
    marker = "o" if len(x) <= FEW else None
    ax.plot(
        x,
        y,
        color=colour_of(k),
        linestyle=dash_of(k),
        linewidth=1.8,
        marker=marker,
        markersize=3.2,
        label=label,
    )
    lower = y - error if floor is None else np.maximum(y - error, floor / 2)
    if np.isfinite(error).any():
        ax.fill_between(x, lower, y + error, color=colour_of(k), alpha=0.2, linewidth=0)


def power(value: float, _: object = None) -> str:
    """A tick of a logarithmic axis: 0.01 to 1000 as they are, others as a power of ten."""
    if 0.01 <= value <= 1000:
        return f"{value:g}"
    mantissa, _, exponent = f"{value:.0e}".partition("e")
    text = f"10{str(int(exponent)).translate(str.maketrans('-0123456789', '⁻⁰¹²³⁴⁵⁶⁷⁸⁹'))}"
    return text if mantissa == "1" else f"{mantissa}·{text}"


def _n(table: pd.DataFrame) -> int:
    return int(table["n"].iloc[0]) if len(table) else 0


def _label(group: Variant, table: pd.DataFrame, every: Sequence[pd.DataFrame]) -> str:
    """The variant's name; with its number of seeds where they differ between variants."""
    if not len(table):
        return f"{short(group.label)} (nothing recorded)"
    equal = len({_n(other) for other in every if len(other)}) == 1
    return short(group.label) if equal else f"{short(group.label)} (n = {_n(table)})"
