"""What runs cost: accuracy against bytes or joules, and joules by round."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedroam.analysis.figures.drawing import draw_line, legend, new_figure, seeds_title, short_each, style
from fedroam.analysis.figures.lines import Line, lines_figure
from fedroam.analysis.formatting import JOULES, Units, largest
from fedroam.analysis.variants import Variant, over_seeds
from fedroam.recording import Run

_PANELS = (("Spent", "energy"), ("Wasted", "energy_wasted"))


def spent_and_gained(
    compared: Sequence[Variant], column: str, units: Units
) -> tuple[list[tuple[pd.DataFrame, pd.DataFrame]], str, float] | None:
    """What each variant spent (a column of `rounds`) and its accuracy, over seeds, and the unit of what was spent with
    its factor; None without numbers, or where nobody spent anything.
    """
    found = [(over_seeds(variant, column), over_seeds(variant, "accuracy")) for variant in compared]
    most = max((spent["mean"].max() for spent, _ in found if spent["mean"].notna().any()), default=0.0)
    if not (np.isfinite(most) and most > 0) or not any(gained["mean"].notna().any() for _, gained in found):
        return None
    return found, *largest(most, units)


def cost_figure(compared: Sequence[Variant], column: str, label: str, units: Units) -> Figure | None:
    """Accuracy (%, mean over clients) against a column of `rounds` that adds up what was spent.

    Both are means over seeds of the same round; the band is the standard error of the accuracy. None without numbers,
    or where nobody spent anything.
    """
    known = spent_and_gained(compared, column, units)
    if known is None:
        return None
    found, unit, factor = known
    with style():
        figure, ax = new_figure()
        names = short_each([variant.label for variant in compared])
        for k, (name, (spent, gained)) in enumerate(zip(names, found, strict=True)):
            x, y, error = (
                numbers.to_numpy(np.float64) for numbers in (spent["mean"], gained["mean"], gained["error"])
            )
            draw_line(ax, k, name, x / factor, y * 100, error * 100)
        ax.set_xlabel(f"{label} ({unit})")
        ax.set_ylabel("Clients' test accuracy (%)")
        ax.xaxis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 5, 10]))
        ax.margins(x=0.01)
        legend(figure, ax, seeds_title([int(spent["n"].iloc[0]) for spent, _ in found if len(spent)]))
    return figure


def per_round(run: Run, column: str) -> pd.Series:
    """What a cumulative column of `rounds` grew by, for each round since the evaluation before; index: round.

    Empty for runs of an older format that lack the column.
    """
    table = run.by_round
    if column not in table or len(table) < 2:
        return pd.Series(dtype=np.float64)
    grown: pd.Series = table[column].astype(np.float64).diff().iloc[1:]
    return grown / np.diff(table.index.to_numpy())


def energy_per_round_figure(compared: Sequence[Variant]) -> Figure | None:
    """Joules a round of all clients together, mean over seeds and standard error; a panel for those wasted, if any.

    Between two evaluations it is the mean of the rounds. None where no run has spent any.
    """
    found = {
        title: [(variant.label, [per_round(run, column) for run in variant.included]) for variant in compared]
        for title, column in _PANELS
    }

    def most(title: str) -> float:
        peaks = [series.max() for _, seeds in found[title] for series in seeds if len(series)]
        return float(np.nanmax([0.0, *peaks]))

    if not most("Spent") > 0:
        return None
    unit, factor = largest(most("Spent"), JOULES)
    panels = [
        (title, [Line(label, tuple(one / factor for one in seeds if len(one))) for label, seeds in lines])
        for title, lines in found.items()
        if most(title) > 0
    ]
    return lines_figure(panels, f"Energy ({unit} a round)")
