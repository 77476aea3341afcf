"""Figures of the study of MoCFL (see `papers.mocfl`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import NullFormatter

from fedroam.papers.mocfl.runs import BASELINES, FEW, MANY, METHODS, RATES, SETS, SETS_METHODS, variant
from fedroam.papers.mocfl.tables import CHURN, CONDITIONS, ROWS
from fedroam.recording import Run
from fedroam.study.items import Curves, Figure, OwnFigure


def _curves(item: str, n: int, rates: Sequence[float], title: str) -> Curves:
    """A panel for each method, a line for each rate: eleven methods in one panel cannot be told apart."""
    held = {
        f"{BASELINES['local']}, CAR = {rates[0]:g}": variant("local", n, rates[0]),
        "majority": variant("majority", n),
    }
    panels = {
        label: {**{f"CAR = {rate:g}": variant(kind, n, rate) for rate in rates}, **held}
        for label, kind in ROWS.items()
        if kind not in BASELINES
    }
    return Curves(
        item,
        title,
        panels,
        by_round="accuracy_pooled",
        ylabel="Pooled test accuracy (%)",
        caption=f"A panel for each method; grey, the same in all panels: learning alone and each client's majority "
        f"class. {CHURN}",
        grey=tuple(held),
    )


def _first(runs: Mapping[str, Sequence[Run]]) -> Run:
    return next(found[0] for found in runs.values() if found)


def _classes(runs: Mapping[str, Sequence[Run]]) -> Drawing:
    """Bars: records of each class, over all clients and parts."""
    from fedroam.analysis.figures.drawing import COLOURS, new_figure, style

    run = _first(runs)
    held = run.partition.groupby("class", observed=True)["samples"].sum()
    names = [str(label) for label in run.world["classes"]]
    counts = np.array([int(held.get(label, 0)) for label in names])
    with style():
        figure, ax = new_figure()
        ax.barh(range(len(names)), counts, color=COLOURS[0])
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.set_yticks(range(len(names)), names)
        ax.invert_yaxis()
        for k, count in enumerate(counts):
            ax.annotate(
                f"{count:,}", (max(count, 1), k), (3, 0), textcoords="offset points", va="center", fontsize=8
            )
        ax.margins(x=0.12)
        ax.set_xlabel("Records (log scale)")
    return figure


def _holdings(runs: Mapping[str, Sequence[Run]]) -> Drawing:
    """Bars: training samples of each client by class."""
    from fedroam.analysis.figures.catalogue import class_counts
    from fedroam.analysis.figures.holdings import holdings_figure

    return holdings_figure(*class_counts(_first(runs)))


def _affinities(runs: Mapping[str, Sequence[Run]]) -> Drawing | None:
    """The affinity matrix over time."""
    from fedroam.analysis.figures.affinity import affinity_figure
    from fedroam.analysis.figures.catalogue import class_counts

    run = _first(runs)
    return affinity_figure(run.matrices, class_counts(run)[0])


def _split(item: str, data: str, n: int = FEW) -> OwnFigure:
    return OwnFigure(
        item,
        f"Training samples by client and class: {SETS[data]}, {n} clients",
        (variant("majority", n, data=data),),
        _holdings,
        caption="Of the first seed.",
    )


FIGURES: tuple[Figure, ...] = (
    _curves("figure-3", MANY, RATES[MANY], "Accuracy over rounds by client activity rate, 50 clients"),
    _curves(
        "figure-3-two", MANY, (1.0, 0.5), "Accuracy over rounds at two client activity rates, 50 clients"
    ),
    _curves("figure-4", FEW, RATES[FEW], "Accuracy over rounds by client activity rate, 10 clients"),
    OwnFigure(
        "figure-5",
        "UNSW-NB15: records by class",
        (variant("majority"),),
        _classes,
        caption="Those that the clients hold, in training, validation and test together.",
    ),
    _split("figure-6a", "mnist"),
    _split("figure-6b", "fashion_mnist"),
    _split("figure-6c", "unsw"),
    _split("figure-6c-50", "unsw", MANY),
    Curves(
        "figure-7",
        "FedAvg, FedProx and FedGH on three data sets",
        {
            label: {METHODS[kind]: variant(kind, data=data) for kind in SETS_METHODS}
            for data, label in SETS.items()
        },
        by_round="accuracy_pooled",
        ylabel="Pooled test accuracy (%)",
        caption="Grey: learning alone and each client's majority class. Where FedAvg is not seen, FedProx lies on it.",
        grey=tuple(BASELINES.values()),
    ),
    *(
        OwnFigure(
            f"affinity-{n}-{100 * rate:.0f}",
            f"MoCFL's affinities over time, {n} clients, CAR = {rate:g}",
            (variant("mocfl", n, rate),),
            _affinities,
            caption="Of the first seed, beside how alike the clients' class mixes are; not in the paper.",
        )
        for n, rate in CONDITIONS.values()
    ),
)
