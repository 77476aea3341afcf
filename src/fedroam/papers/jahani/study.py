"""Does movement make up for missing links? Table II, figures 2 to 8 and the claims of Jahani et al., to be judged.

Final accuracy where the paper reports it (Table II, figure 2), the highest of the run where it does that (its sweeps).
Declared before any run of it; run whole at scale quick, and not yet in full.
"""

from __future__ import annotations

import math
from typing import Any

from fedroam.papers.jahani.claims import CLAIMS
from fedroam.papers.jahani.runs import (
    ALL_MOBILE,
    ALL_RADII,
    ALL_STEPS,
    ALPHAS,
    CIFAR_LARGE,
    CIFAR_SMALL,
    FEW_MOBILE,
    FEW_RADII,
    FEW_STEPS,
    LARGE,
    LARGE_AXES,
    LARGEST,
    MAP_MOBILE,
    MAP_RADII,
    MAP_STEPS,
    NETWORK_SETTINGS,
    RIVALS,
    RUNS,
    SHARE,
    Settings,
    common,
)
from fedroam.papers.steered_variants import LABELS, PATTERNS, SMALL, Network, shown
from fedroam.study.items import Curves, Doses, Figure, Heat, Search, Table, table
from fedroam.study.measures import best, final, later_half, smallest_b
from fedroam.study.study import Item, Scale, Study

# Table II: final accuracy (%) by pattern, at alpha 0.05 and 0.1, with 3 mobile clients, Rc 3, Rm 5.
TABLE_II = {"dcm": (80.83, 89.65), "dam": (79.85, 88.51), "random": (72.90, 86.90), "static": (47.50, 66.84)}
# Smallest B over 1,000 rounds of ten worlds, least and most, by pattern and number of mobile clients: an independent
# trial of connectivity alone, not numbers of the paper.
SMALLEST_B = {
    "random": {3: (57, 115), 5: (32, 84)},
    "dam": {3: (31, 76), 5: (25, 50)},
    "dcm": {3: (16, 36), 5: (10, 19)},
}
PANELS: dict[str, Settings] = {f"α = {alpha:g}": {"alpha": alpha} for alpha in ALPHAS}


def _b_words() -> str:
    """The ranges of SMALLEST_B in a sentence."""
    told = [
        f"{LABELS[pattern]} " + " and ".join(f"{low} to {high}" for low, high in ranges.values())
        for pattern, ranges in SMALLEST_B.items()
    ]
    return "; ".join(told)


TABLE_2 = table(
    "table-2",
    "Final accuracy on MNIST, 20 clients, 3 mobile",
    {LABELS[pattern]: pattern for pattern in TABLE_II},
    {f"α = {alpha:g} (%)": alpha for alpha in ALPHAS},
    lambda pattern, alpha: RUNS.of(final, pattern, mobile=3, alpha=alpha),
    list(TABLE_II.values()),
    source="Table II",
)
LATER_HALF = table(
    "table-2-later-half",
    "The same runs over their later half",
    {LABELS[pattern]: pattern for pattern in TABLE_II},
    {f"α = {alpha:g} (%)": alpha for alpha in ALPHAS},
    lambda pattern, alpha: RUNS.of(later_half, pattern, mobile=3, alpha=alpha),
    caption="Not in the paper: a steadier number, fixed before any run, for who is ahead.",
)
DROPS = table(
    "drops",
    "What more heterogeneous data cost",
    {LABELS[pattern]: pattern for pattern in TABLE_II},
    {"α = 0.1 minus α = 0.05 (points)": final},
    lambda pattern, measure: (
        RUNS.of(measure, pattern, mobile=3, alpha=0.1) - RUNS.of(measure, pattern, mobile=3, alpha=0.05)
    ),
    [[round(mild - strong, 2)] for strong, mild in TABLE_II.values()],
    source="Sec. V-B3; differences of Table II",
)
CONNECTIVITY = table(
    "smallest-b",
    "Smallest B: rounds after which everybody is linked, again and again",
    {LABELS[pattern]: pattern for pattern in PATTERNS},
    {f"{mobile} mobile": mobile for mobile in (3, 5)},
    lambda pattern, mobile: RUNS.of(smallest_b, pattern, mobile=mobile),
    source="Property 1",
    caption=(
        "“never”: somebody is apart for the whole run. From the recorded contacts; whole windows only. The paper "
        "prints none; an independent trial over 1,000 rounds of ten worlds had, with 3 and 5 mobile clients: "
        f"{_b_words()}; static none. A shorter run has fewer windows, and a B that is smaller or none."
    ),
)
FIGURE_2 = RUNS.curves("figure-2", "MNIST, 18 x 18, 20 clients, 5 mobile", PANELS)
SWEPT: dict[str, Any] = {"measure": best}
FIGURE_3 = (
    RUNS.doses("figure-3a", "How many move", "mobile", FEW_MOBILE, **SWEPT),
    RUNS.doses("figure-3b", "How far they are heard", "radius", FEW_RADII, patterns=PATTERNS, **SWEPT),
    RUNS.doses("figure-3c", "How far they move", "step", FEW_STEPS, **SWEPT),
)
FIGURE_3_ALL = (
    RUNS.doses("figure-3a-all", "How many move: all numbers", "mobile", ALL_MOBILE, **SWEPT),
    RUNS.doses(
        "figure-3b-all",
        "How far they are heard: all radii",
        "radius",
        ALL_RADII,
        patterns=PATTERNS,
        **SWEPT,
    ),
    RUNS.doses("figure-3c-all", "How far they move: all steps", "step", ALL_STEPS, **SWEPT),
)


def thresholds(
    name: str,
    title: str,
    key: str,
    values: tuple[float, ...],
    paper: dict[str, float],
    network: Network = SMALL,
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
        patterns=RIVALS,
        settings=others,
        bound=bound,
        share=SHARE,
        bound_label="90 % of fully connected",
    )
    searches = [
        Search(
            f"{name}-{pattern}",
            f"{title}: smallest value at which {LABELS[pattern]} reaches 90 % of fully connected",
            RUNS.along(best, pattern, key, values, **others),
            bound,
            SHARE,
            paper.get(pattern),
            source=f"Fig. {name[len('figure-')]}",
        )
        for pattern in RIVALS
    ]
    return figure, searches


FIGURE_4 = [
    thresholds(f"figure-4-m{m}", f"Rc needed, {m} mobile", "radius", ALL_RADII, paper, mobile=m)
    for m, paper in {3: {"random": 5.0, "dcm": 4.0}, 5: {"random": 4.0, "dcm": 3.0}}.items()
]
FIGURE_5 = [
    thresholds(
        f"figure-5-rc{radius:g}-rm{step:g}",
        f"Mobile clients needed, Rc = {radius:g}, Rm = {shown(step)}",
        "mobile",
        ALL_MOBILE,
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
            for radius in MAP_RADII
            for step in MAP_STEPS
        },
        "Longest move Rm",
        "Communication radius Rc",
        "Highest accuracy (%)",
        caption="The paper's text does not print the values of these axes; they are ours.",
    )
    for m in MAP_MOBILE
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
    for letter, network in zip("abcd", (CIFAR_SMALL, CIFAR_LARGE, LARGE, LARGEST), strict=True)
    for settings in (NETWORK_SETTINGS[network.name],)
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
    for key, values in LARGE_AXES.items()
    for network in (LARGE, LARGEST)
]

TABLES: tuple[Table, ...] = (TABLE_2, LATER_HALF, DROPS, CONNECTIVITY)
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
QUICK: tuple[Item, ...] = (*TABLES, FIGURE_2, *FIGURE_3)
MEDIUM: tuple[Item, ...] = (
    *QUICK,
    *FIGURE_3_ALL,
    *FIGURE_6,
    *(figure for figure, _ in (*FIGURE_4, *FIGURE_5)),
    *(search for _, searches in (*FIGURE_4, *FIGURE_5) for search in searches),
)
CUT_SETTINGS: Settings = {
    "rounds": 200,
    "evaluate_every": 20,
    "data": {"train_samples": 2000, "test_samples": 1000},
}
CUT = (
    "2,000 training and 1,000 test images instead of 60,000 and 10,000, because a round of full-batch training costs "
    "in proportion to them.",
    "200 rounds, evaluated every 20, instead of 1,000, evaluated every 10: curves still rise, so final accuracies are "
    "lower; B is found over 200 rounds.",
    "2 seeds instead of 6: most claims will stay undecided (--seeds runs more).",
)
MOMENTUM = (
    "On MNIST momentum 0.9 is kept between rounds, with weight decay 5e-4 and pixels in [0, 1]. The paper states "
    "momentum for CIFAR-10 only; the earlier paper of its authors, for both. At this learning rate steps add up to "
    "0.3, the step of the study reza, where momentum is not kept."
)

STUDY = Study(
    name="jahani",
    title="Mobility against sparse connectivity",
    paper=(
        "Jahani, Reza, Jin, Dai: Mobility-Assisted Decentralized Federated Learning: Convergence Analysis and A "
        "Data-Driven Approach."
    ),
    about=(
        "Does movement make up for missing links, and how much of it? A gain of about g points is tested as more than "
        "g / 2; who is ahead, over the later half of the run. Declared before it was run; run at scale quick, "
        "not yet run in full."
    ),
    base="jahani-mnist",
    variants=RUNS.variants,
    scales={
        "quick": Scale(
            seeds=2,
            settings=CUT_SETTINGS,
            cut=(
                *CUT,
                "Figure 3 with three values of each axis; without figures 4 to 8 (--scale medium has 4 to 6).",
                MOMENTUM,
            ),
            without=RUNS.all_but(QUICK),
        ),
        "medium": Scale(
            seeds=2,
            settings=CUT_SETTINGS,
            cut=(*CUT, "Without the larger networks and CIFAR-10 (figures 7 and 8).", MOMENTUM),
            without=RUNS.all_but(MEDIUM),
        ),
        "full": Scale(
            seeds=6,
            cut=(
                MOMENTUM,
                "On CIFAR-10 ResNet-18 starts from random weights, not from those of ImageNet, which do not come with "
                "fedroam (model.weights takes a file of them).",
                "Figures 3 to 6 are run at α = 0.05, and figures 3b and 3c with 5 mobile clients, the paper's default; "
                "its text does not print them, nor Rm of figure 5 (here 5 and unconstrained), nor α, Rc and Rm of "
                "figures 7 and 8: on 27 x 27 they are Rc = 4 and Rm = 7, on 35 x 35 Rc = 5 and Rm = 9 as in the "
                "earlier paper; α = 0.05 on MNIST and 0.1 on CIFAR-10.",
            ),
        ),
    },
    tables=TABLES,
    searches=SEARCHES,
    figures=FIGURES,
    claims=CLAIMS,
)
