"""Accuracy against what it cost to send."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedroam.analysis.curves import draw
from fedroam.analysis.drawing import legend, new_figure, seeds_title, short, style
from fedroam.analysis.variants import Variant, over_seeds


def traffic_figure(groups: Sequence[Variant]) -> Figure | None:
    """Accuracy (%, mean over clients) against bytes sent by all clients since the start.

    Both are means over seeds of the same round; the band is the standard error of the accuracy. None without
    numbers, or where nobody sent anything.
    """
    found = [(over_seeds(group, "bytes"), over_seeds(group, "accuracy")) for group in groups]
    most = max((sent["mean"].max() for sent, _ in found if len(sent)), default=0.0)
    if not (np.isfinite(most) and most > 0) or not any(judged["mean"].notna().any() for _, judged in found):
        return None
    factor, unit = next(
        (f, u) for f, u in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B")) if most >= f
    )
    with style():
        figure, ax = new_figure()
        for k, (group, (sent, judged)) in enumerate(zip(groups, found, strict=True)):
            x, y, error = (
                table.to_numpy(np.float64) for table in (sent["mean"], judged["mean"], judged["error"])
            )
            draw(ax, k, short(group.label), x / factor, y * 100, error * 100)
        ax.set_xlabel(f"Sent by all clients since the start ({unit})")
        ax.set_ylabel("Clients' test accuracy (%)")
        ax.xaxis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 5, 10]))
        ax.margins(x=0.01)
        legend(figure, ax, seeds_title([int(sent["n"].iloc[0]) for sent, _ in found if len(sent)]))
    return figure
