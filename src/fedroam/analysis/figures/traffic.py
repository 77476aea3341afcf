"""Accuracy against what it cost: bytes sent, joules spent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedroam.analysis.figures.curves import draw
from fedroam.analysis.figures.drawing import legend, new_figure, seeds_title, short, style
from fedroam.analysis.formatting import BYTES, JOULES, Units, largest
from fedroam.analysis.variants import Variant, over_seeds


def traffic_figure(groups: Sequence[Variant]) -> Figure | None:
    """Accuracy (%, mean over clients) against bytes sent by all clients since the start (see `spent_figure`)."""
    return spent_figure(groups, "bytes", "Sent by all clients since the start", BYTES)


def energy_figure(groups: Sequence[Variant]) -> Figure | None:
    """Accuracy (%, mean over clients) against joules that all clients spent since the start (see `spent_figure`)."""
    return spent_figure(groups, "energy", "Spent by all clients since the start", JOULES)


def spent_figure(groups: Sequence[Variant], column: str, label: str, units: Units) -> Figure | None:
    """Accuracy against a column of `rounds` that adds up what was spent.

    Both are means over seeds of the same round; the band is the standard error of the accuracy. None without numbers,
    or where nobody spent anything.
    """
    found = [(over_seeds(group, column), over_seeds(group, "accuracy")) for group in groups]
    most = max((sent["mean"].max() for sent, _ in found if sent["mean"].notna().any()), default=0.0)
    if not (np.isfinite(most) and most > 0) or not any(judged["mean"].notna().any() for _, judged in found):
        return None
    unit, factor = largest(most, units)
    with style():
        figure, ax = new_figure()
        for k, (group, (sent, judged)) in enumerate(zip(groups, found, strict=True)):
            x, y, error = (
                table.to_numpy(np.float64) for table in (sent["mean"], judged["mean"], judged["error"])
            )
            draw(ax, k, short(group.label), x / factor, y * 100, error * 100)
        ax.set_xlabel(f"{label} ({unit})")
        ax.set_ylabel("Clients' test accuracy (%)")
        ax.xaxis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 5, 10]))
        ax.margins(x=0.01)
        legend(figure, ax, seeds_title([int(sent["n"].iloc[0]) for sent, _ in found if len(sent)]))
    return figure
