"""Where should clients fly that can be steered? The figures and claims of Reza et al., declared to be judged.

The paper prints gains in its text, and curves without numbers; so gains are what our runs are compared with.
Declared before any run of it; run whole at scale quick, and not yet in full.
"""

from __future__ import annotations

from fedroam.papers.reza.claims import CLAIMS
from fedroam.papers.reza.runs import (
    ALL_MOBILE,
    ALL_RADII,
    ALL_STEPS,
    CIFAR_GAINS,
    CIFAR_PANELS,
    FEW_MOBILE,
    FEW_RADII,
    FEW_STEPS,
    GAINS,
    LARGE_GAINS,
    LARGE_PANELS,
    LIMITS,
    MOBILE_GAINS,
    PANELS,
    RUNS,
    SPARSE_GAIN,
    THREE,
    Settings,
)
from fedroam.papers.steered_variants import AXIS, LABELS, PATTERNS, STEERED
from fedroam.study.items import Figure, Table, table
from fedroam.study.measures import final
from fedroam.study.study import Item, Scale, Study
from fedroam.study.values import average


def gains(
    name: str, title: str, rows: dict[str, Settings], paper: list[list[float | None]], source: str
) -> Table:
    """Gains over random movement; rows: arguments of `Catalogue.variant` by label."""
    return table(
        name,
        title,
        rows,
        {"DAM minus random (points)": "dam", "DCM minus random (points)": "dcm"},
        lambda settings, pattern: RUNS.gain(pattern, **settings),
        paper,
        source=source,
        caption="Final accuracy, paired by seed. The paper's gains are approximate and have no errors.",
    )


FINAL = table(
    "final",
    "Final accuracy on MNIST (%)",
    {LABELS[pattern]: pattern for pattern in PATTERNS},
    PANELS,
    lambda pattern, settings: RUNS.of(final, pattern, **settings),
    source="Fig. 2",
    caption="The paper draws curves and prints no numbers. Static clients have no Rm: their runs are the same.",
)
GAINED = gains(
    "gains", "Gains on MNIST", PANELS, [[GAINS[s["alpha"]]] * 2 for s in PANELS.values()], "Sec. V-B"
)
GAINED_MOBILE = table(
    "gains-mobile",
    "Gains averaged over numbers of mobile clients",
    {"1, 3 and 5 mobile": FEW_MOBILE, "1 to 8 mobile": ALL_MOBILE},
    {f"{LABELS[pattern]} minus random (points)": pattern for pattern in STEERED},
    lambda numbers, pattern: average(RUNS.gain(pattern, mobile=m) for m in numbers),
    [[MOBILE_GAINS[pattern] for pattern in STEERED]] * 2,
    source="Sec. V-B1, with Fig. 3a",
    caption=f"Final accuracy, paired by seed. {AXIS}",
)
GAINED_SPARSE = gains(
    "gains-sparse",
    "Gains in a sparse network",
    {"Rc = 1, 3 mobile": {**THREE, "radius": 1.0}},
    [[SPARSE_GAIN] * 2],
    "Sec. V-B2, with Fig. 3b",
)
GAINED_LARGE = gains(
    "gains-large",
    "Gains in the larger network",
    LARGE_PANELS,
    [[None, points] for points in LARGE_GAINS.values()],
    "Sec. V-B4, with Fig. 4",
)
GAINED_CIFAR = gains(
    "gains-cifar",
    "Gains on CIFAR-10",
    CIFAR_PANELS,
    [[CIFAR_GAINS[step, pattern] for pattern in STEERED] for step in LIMITS],
    "Sec. V-B5, with Fig. 5",
)
FIGURE_2 = RUNS.curves("figure-2", "MNIST, 18 x 18, 20 clients, 5 mobile", PANELS)
FIGURE_3 = (
    RUNS.doses("figure-3a", "How many move", "mobile", FEW_MOBILE),
    RUNS.doses("figure-3b", "How far they are heard, 3 mobile", "radius", FEW_RADII, settings=THREE),
    RUNS.doses("figure-3c", "How far they move, 3 mobile", "step", FEW_STEPS, settings=THREE),
)
FIGURE_3_ALL = (
    RUNS.doses("figure-3a-all", "How many move: all numbers", "mobile", ALL_MOBILE),
    RUNS.doses(
        "figure-3b-all", "How far they are heard, 3 mobile: all radii", "radius", ALL_RADII, settings=THREE
    ),
    RUNS.doses("figure-3c-all", "How far they move, 3 mobile: all steps", "step", ALL_STEPS, settings=THREE),
)
FIGURE_4 = RUNS.curves("figure-4", "MNIST, 35 x 35, 50 clients, 5 mobile, Rc = 5", LARGE_PANELS)
FIGURE_5 = RUNS.curves("figure-5", "CIFAR-10, 18 x 18, 20 clients, 5 mobile", CIFAR_PANELS)


FIGURES: tuple[Figure, ...] = (FIGURE_2, *FIGURE_3, *FIGURE_3_ALL, FIGURE_4, FIGURE_5)
QUICK: tuple[Item, ...] = (FINAL, GAINED, GAINED_SPARSE, FIGURE_2, *FIGURE_3)
MOMENTUM = (
    "On MNIST momentum does not outlive a round (an optimiser made anew for the round's one step), and pixels are in "
    "[0, 1]. The paper states momentum 0.9 and not which of the two it did; kept between rounds it does not learn at a "
    "learning rate of 0.3 here, and with standardised pixels it diverges."
)

STUDY = Study(
    name="reza",
    title="Distribution-aware mobility: DAM and DCM",
    paper="Reza, Jahani, Jin, Dai: Distribution-Aware Mobility-Assisted Decentralized Federated Learning.",
    about=(
        "Does it help to fly a few clients to where the data differ? A gain of about g points is tested as more than "
        "g / 2; who is ahead, over the later half of the run. Declared before it was run; run at scale quick, "
        "not yet run in full."
    ),
    base="mnist-random",
    variants=RUNS.variants,
    scales={
        "quick": Scale(
            seeds=2,
            settings={
                "rounds": 200,
                "evaluate_every": 20,
                "data": {"train_samples": 2000, "test_samples": 1000},
            },
            cut=(
                "2,000 training and 1,000 test images instead of 60,000 and 10,000, because a round of full-batch "
                "training costs in proportion to them.",
                "200 rounds, evaluated every 20, instead of 1,000, evaluated every 10: curves still rise, so final "
                "accuracies are lower and gains differ from those at the end.",
                "2 seeds instead of 10: most claims will stay undecided (--seeds runs more).",
                "Figure 3 with three values of each axis; without the larger network and CIFAR-10 (figures 4 and 5), "
                "whose runs take hours.",
                MOMENTUM,
            ),
            without=RUNS.all_but(QUICK),
        ),
        "full": Scale(
            seeds=10,
            cut=(
                MOMENTUM,
                "On CIFAR-10 ResNet-50 starts from random weights, not from those of ImageNet, which do not come with "
                "fedroam (model.weights takes a file of them); momentum is kept between rounds there.",
            ),
        ),
    },
    tables=(FINAL, GAINED, GAINED_MOBILE, GAINED_SPARSE, GAINED_LARGE, GAINED_CIFAR),
    figures=FIGURES,
    claims=CLAIMS,
)
