"""Figures of the study of contact limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from matplotlib.figure import Figure as Drawing
from typing_extensions import override

from fedroam.analysis.figures.drawing import colour_of, style
from fedroam.papers.contact_limits.measures import fit
from fedroam.papers.contact_limits.regimes import REGIME_MAP
from fedroam.papers.contact_limits.runs import (
    INSTANT,
    METHOD_LABELS,
    PATTERNS,
    RANKING_TIMES,
    REGIMES,
    TIMES,
    regime,
    roam,
    steered,
    walk,
)
from fedroam.papers.contact_limits.tables import COMPARED, MEETINGS
from fedroam.papers.contact_limits.winners import expected, method
from fedroam.papers.steered_variants import LABELS
from fedroam.study.items import Curves, Doses
from fedroam.study.measures import final, later_half
from fedroam.study.values import Reader


@dataclass(frozen=True)
class Reckoned(Doses):
    """A value over a setting, and beside it what a formula gives. formula: a number for each line's label and key."""

    formula: Callable[[str, float], float] = field(kw_only=True)

    @override
    def draw(self, read: Reader) -> Drawing | None:
        drawn = super().draw(read)
        if drawn is None:
            return None
        with style():
            ax = drawn.axes[0]
            for k, (label, points) in enumerate(self.lines.items()):
                keys = np.linspace(min(points), max(points), 50)
                ax.plot(keys, [self.formula(label, key) for key in keys], color=colour_of(k), linewidth=0.8)
        return drawn


FIGURES = (
    Reckoned(
        "waypoint-fit-by-time",
        "How long a model may take on random waypoint",
        {
            label: {time: fit.of(roam(time, *meeting)) for time in TIMES if time != INSTANT}
            for label, meeting in MEETINGS.items()
        },
        xlabel="Time of a model on the link (s)",
        ylabel="Transfers that get through (%)",
        caption="Thin lines: the closed form of straight passes, which last 2 sqrt(R² − d²) / v.",
        formula=lambda label, time: expected(time, *MEETINGS[label]),
    ),
    Doses(
        "waypoint-accuracy-by-time",
        "What that does to accuracy on random waypoint",
        {
            label: {time: later_half.of(roam(time, *meeting)) for time in TIMES}
            for label, meeting in MEETINGS.items()
        },
        xlabel="Time of a model on the link (s)",
        ylabel="Accuracy over the later half (%)",
    ),
    Curves(
        "winners-over-rounds",
        "Which method wins where, over rounds",
        {
            f"{words}: {regime(time)}": {label: method(name, time) for label, name in COMPARED.items()}
            for words, time in REGIMES.items()
        },
        caption="Fast clients on random waypoint with a reach of 50 m.",
    ),
    Doses(
        "fit-by-time",
        "How long a model may take on straight walks",
        {
            label: {time: fit.of(walk(time, *meeting)) for time in TIMES if time != INSTANT}
            for label, meeting in MEETINGS.items()
        },
        xlabel="Time of a model on the link (s)",
        ylabel="Transfers that get through (%)",
    ),
    Doses(
        "accuracy-by-time",
        "What that does to accuracy on straight walks",
        {
            label: {time: final.of(walk(time, *meeting)) for time in TIMES}
            for label, meeting in MEETINGS.items()
        },
        xlabel="Time of a model on the link (s)",
        ylabel="Final accuracy (%)",
    ),
    Curves(
        "methods-over-rounds",
        "Methods over rounds on straight walks",
        {
            regime(time): {
                label: walk(time, "fast", method=method) for method, label in METHOD_LABELS.items()
            }
            for time in (INSTANT, 10.0)
        },
        caption="Fast walkers with a reach of 50 m.",
    ),
    Curves(
        "rankings-over-rounds",
        "Movement over rounds",
        {
            regime(time): {LABELS[pattern]: steered(pattern, time) for pattern in PATTERNS}
            for time in RANKING_TIMES
        },
    ),
    REGIME_MAP,
)
