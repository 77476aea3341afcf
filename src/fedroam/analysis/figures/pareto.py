"""What settings reach against what they cost, and which of them nothing else beats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from fedroam.analysis.figures.drawing import MUTED, colour_of, legend, new_figure, short_each, style

_NAMED = 12  # settings that a legend names; of more, only those of the front


@dataclass(frozen=True)
class Offer:
    """A setting: its label, what it costs, what it reaches, the standard error of that, and over how many seeds."""

    label: str
    cost: float
    gain: float
    error: float
    seeds: int


def front(offers: Sequence[Offer]) -> list[int]:
    """The offers that none beats, by cost: no other one reaches more for as little, or as much for less."""
    found: list[int] = []
    most = -math.inf
    for k in sorted(range(len(offers)), key=lambda k: (offers[k].cost, -offers[k].gain)):
        equal = found and (offers[k].cost, offers[k].gain) == (offers[found[-1]].cost, offers[found[-1]].gain)
        if offers[k].gain > most or equal:
            found.append(k)
            most = offers[k].gain
    return found


def pareto_figure(offers: Sequence[Offer], xlabel: str, ylabel: str) -> Figure:
    """A dot for each offer, strokes for the standard error; filled and joined by steps: the front."""
    best = front(offers)
    names = short_each([offer.label for offer in offers], 40)
    with style():
        figure, ax = new_figure()
        steps = [offers[k] for k in best]
        ax.step(
            [o.cost for o in steps], [o.gain for o in steps], where="post", color=MUTED, linestyle=(0, (3, 3))
        )
        for k, offer in enumerate(offers):
            error = offer.error if math.isfinite(offer.error) else 0.0
            shown = len(offers) <= _NAMED or k in best
            ax.errorbar(
                offer.cost,
                offer.gain,
                yerr=error,
                color=colour_of(k),
                marker="o",
                markersize=5.5 if k in best else 4.5,
                markerfacecolor=colour_of(k) if k in best else "none",
                linestyle="",
                elinewidth=1.2,
                capsize=2.5,
                label=names[k] if shown else None,
            )
        ax.set_xlabel(xlabel)
        ax.set_ylabel(ylabel)
        legend(figure, ax)
    return figure
