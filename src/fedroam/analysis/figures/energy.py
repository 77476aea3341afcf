"""Energy by round: what is spent, and what of it is wasted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fedroam.analysis.figures.lines import Line, series_figure
from fedroam.analysis.formatting import JOULES, largest
from fedroam.analysis.variants import Variant
from fedroam.recording import Run

PANELS = (("Spent", "energy"), ("Wasted", "energy_wasted"))


def per_round(run: Run, column: str) -> pd.Series:
    """What a cumulative column of `rounds` grew by, for each round since the evaluation before; index: round.

    Empty for runs of an older format that lack the column.
    """
    table = run.rounds.drop_duplicates("round", keep="last").set_index("round").sort_index()
    if column not in table or len(table) < 2:
        return pd.Series(dtype=np.float64)
    grown: pd.Series = table[column].astype(np.float64).diff().iloc[1:]
    return grown / np.diff(table.index.to_numpy())


def energy_per_round_figure(groups: Sequence[Variant]) -> Figure | None:
    """Joules a round of all clients together, mean over seeds and standard error; a panel for those wasted, if any.

    Between two evaluations it is the mean of the rounds. None where no run has spent any.
    """
    found = {
        title: [(group.label, [per_round(run, column) for run in group.judged]) for group in groups]
        for title, column in PANELS
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
    return series_figure(panels, f"Energy ({unit} a round)")
