"""Figures 2 to 8 of Jahani et al., and the searches for the thresholds that figures 4, 5 and 8 show."""

from __future__ import annotations

import math
from typing import Any

from fedroam.papers.jahani import runs
from fedroam.papers.jahani.runs import RUNS, common
from fedroam.papers.steered_variants import ALL, AXES, LABELS, PATTERNS, SMALL, ClientGrid, shown
from fedroam.study.items import Curves, Doses, Figure, Heat, Search
from fedroam.study.measures import best
from fedroam.study.values import Settings

PANELS: dict[str, Settings] = {f"α = {alpha:g}": {"alpha": alpha} for alpha in runs.ALPHAS}
FIGURE_2 = RUNS.curves("figure-2", "MNIST, 18 x 18, 20 clients, 5 mobile", PANELS)
FIGURE_3 = RUNS.figure_3(whole=False, measure=best, heard=PATTERNS)
FIGURE_3_ALL = RUNS.figure_3(whole=True, measure=best, heard=PATTERNS)


def thresholds(
    name: str,
    title: str,
    key: str,
    values: tuple[float, ...],
    paper: dict[str, float],
    network: ClientGrid = SMALL,
    **settings: Any,
) -> tuple[Doses, list[Search]]:
    """Random movement and DCM against 90 % of the fully connected graph: the figure, and a search for each."""
    bound, others = best.of(RUNS.fully_connected(network=network)), {"network": network, **settings}
    figure = RUNS.doses(
        name,
        title,
        key,
        values,
        measure=best,
        patterns=runs.RIVALS,
        settings=others,
        bound=bound,
        share=runs.SHARE,
        bound_label="90 % of fully connected",
    )
    searches = [
        Search(
            f"{name}-{pattern}",
            f"{title}: smallest value at which {LABELS[pattern]} reaches 90 % of fully connected",
            RUNS.along(best, pattern, key, values, **others),
            bound,
            runs.SHARE,
            paper.get(pattern),
            source=f"Fig. {name[len('figure-')]}",
        )
        for pattern in runs.RIVALS
    ]
    return figure, searches


FIGURE_4 = [
    thresholds(f"figure-4-m{m}", f"Rc needed, {m} mobile", "radius", ALL["radius"], paper, mobile=m)
    for m, paper in {3: {"random": 5.0, "dcm": 4.0}, 5: {"random": 4.0, "dcm": 3.0}}.items()
]
FIGURE_5 = [
    thresholds(
        f"figure-5-rc{radius:g}-rm{step:g}",
        f"Mobile clients needed, Rc = {radius:g}, Rm = {shown(step)}",
        "mobile",
        ALL["mobile"],
        {"dcm": 4} if radius == 3 else {},
        radius=radius,
        step=step,
    )
    for radius in (4.0, 3.0)
    for step in (5.0, math.inf)
]
FIGURE_6 = tuple(
    Heat(
        f"figure-6-m{m}",
        f"Rc and Rm together, {m} mobile at random",
        {
            (step, radius): RUNS.of(best, "random", mobile=m, radius=radius, step=step)
            for radius in runs.MAP_RADII
            for step in runs.MAP_STEPS
        },
        AXES["step"],
        AXES["radius"],
        "Highest accuracy (%)",
        caption="The paper's text does not print the values of these axes; they are ours.",
    )
    for m in runs.MAP_MOBILE
)
FIGURE_7: tuple[Curves, ...] = tuple(
    RUNS.curves(
        f"figure-7{letter}",
        f"{'CIFAR-10' if network.settings else 'MNIST'}, {network.side} x {network.side}, {network.clients} clients",
        {
            f"α = {settings['alpha']:g}, Rc = {settings['radius']:g}, Rm = {settings['step']:g}": {
                **settings,
                "network": network,
            }
        },
        caption="The paper's text does not print α, Rc and Rm here; they are ours (see the settings).",
    )
    for letter, network in zip(
        "abcd", (runs.CIFAR_SMALL, runs.CIFAR_LARGE, runs.LARGE, runs.LARGEST), strict=True
    )
    for settings in (runs.NETWORK_SETTINGS[network.name],)
)
FIGURE_8 = [
    thresholds(
        f"figure-8-{network.name}-{key}",
        f"{'Rc' if key == 'radius' else 'Mobile clients'} needed, {network.clients} clients on "
        f"{network.side} x {network.side}",
        key,
        values,
        {},
        network,
        **{k: v for k, v in common(network).items() if k != key},
    )
    for key, values in runs.LARGE_AXES.items()
    for network in (runs.LARGE, runs.LARGEST)
]

SEARCHES = tuple(search for pair in (*FIGURE_4, *FIGURE_5, *FIGURE_8) for search in pair[1])
FIGURES: tuple[Figure, ...] = (
    FIGURE_2,
    *FIGURE_3,
    *FIGURE_3_ALL,
    *(figure for figure, _ in (*FIGURE_4, *FIGURE_5)),
    *FIGURE_6,
    *FIGURE_7,
    *(figure for figure, _ in FIGURE_8),
)
