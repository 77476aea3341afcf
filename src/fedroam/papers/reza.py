"""Where should clients fly that can be steered? The figures and claims of Reza et al., declared to be judged.

The paper prints gains in its text, and curves without numbers; so gains are what our runs are compared with.
Declared, and not yet run in full.
"""

from __future__ import annotations

import math
from typing import Any

from fedroam.papers.claims import Claim, Test, equal, order, rises
from fedroam.papers.items import Figure, Table, table
from fedroam.papers.measures import final, later_half
from fedroam.papers.patterns import (
    AXIS,
    LABELS,
    MOVING,
    PATTERNS,
    STATIC,
    STEERED,
    Catalogue,
    Network,
    about,
    shown,
)
from fedroam.papers.study import Item, Scale, Study
from fedroam.papers.values import Value, average

RUNS = Catalogue(dcm={"ties": "coverage"})
Settings = dict[str, Any]

LARGE = Network("35x35", 35, 50)
CIFAR = Network(
    "cifar10",
    18,
    20,
    {
        "rounds": 600,
        "data": {"kind": "cifar10", "normalise": "standardise"},
        "model": {"kind": "resnet50"},
        "training": {"lr": 0.01, "batch_size": 512, "steps": 1, "momentum_state": "kept"},
    },
)

# What the paper's text prints: gains over random movement in points.
GAINS = {0.05: 8.0, 0.1: 3.0}  # by alpha, DAM and DCM alike, for both Rm
MOBILE_GAINS = {"dam": 5.3, "dcm": 7.0}  # mean over the numbers of mobile clients
SPARSE_GAIN = 15.0  # at Rc = 1, DAM and DCM alike
LARGE_GAINS = {math.inf: 5.0, 9.0: 4.0}  # of DCM, by Rm
CIFAR_GAINS = {(math.inf, "dam"): 5.0, (math.inf, "dcm"): 8.0, (5.0, "dam"): 4.0, (5.0, "dcm"): 5.0}
LIMITS = (math.inf, 5.0)  # Rm

# Axes of figure 3, ours: the few values are run at every scale.
FEW_MOBILE, ALL_MOBILE = (1, 3, 5), (1, 2, 3, 4, 5, 6, 7, 8)
FEW_RADII, ALL_RADII = (1.0, 3.0, 5.0), (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
FEW_STEPS, ALL_STEPS = (1.0, 5.0, math.inf), (1.0, 2.0, 3.0, 5.0, 7.0, 9.0, 12.0, math.inf)
THREE: Settings = {"mobile": 3}

PANELS: dict[str, Settings] = {
    f"α = {alpha:g}, Rm = {shown(step)}": {"alpha": alpha, "step": step} for step in LIMITS for alpha in GAINS
}
LARGE_PANELS: dict[str, Settings] = {
    f"Rm = {shown(step)}": {"network": LARGE, "radius": 5.0, "step": step} for step in LARGE_GAINS
}
CIFAR_PANELS: dict[str, Settings] = {
    f"Rm = {shown(step)}": {"network": CIFAR, "alpha": 0.1, "step": step} for step in LIMITS
}


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


def ahead(first: str, second: str) -> Test:
    """One pattern ahead of another over the later half of the run, averaged over the panels of figure 2."""
    return order(*(average(RUNS.of(later_half, p, **s) for s in PANELS.values()) for p in (first, second)))


def both_limits(alpha: float) -> list[Value]:
    """Gains of DAM and of DCM, each averaged over both Rm."""
    return [average(RUNS.gain(p, alpha=alpha, step=step) for step in LIMITS) for p in STEERED]


def of_three(key: str, value: float) -> Value:
    """Final accuracy with 3 mobile clients and one setting, averaged over the patterns that move."""
    return average(RUNS.of(final, p, **{**THREE, key: value}) for p in MOVING)


def limited(step: float) -> Value:
    """Accuracy over the later half at one Rm, averaged over the patterns that move and both alphas."""
    return average(RUNS.of(later_half, p, alpha=alpha, step=step) for p in MOVING for alpha in GAINS)


def limit_name(step: float) -> str:
    """How the paper calls a finite and an infinite Rm."""
    return "unconstrained" if math.isinf(step) else "constrained"


CLAIMS = (
    Claim(
        "random-beats-static",
        "Clients that move, even at random, are ahead of static ones.",
        ahead("random", STATIC),
        "Fig. 2",
    ),
    Claim("dam-beats-random", "DAM is ahead of random movement.", ahead("dam", "random"), "Fig. 2"),
    Claim("dcm-beats-random", "DCM is ahead of random movement.", ahead("dcm", "random"), "Fig. 2"),
    Claim("dcm-beats-dam", "DCM outperforms DAM.", ahead("dcm", "dam"), "Sec. V-B"),
    *(
        Claim(
            f"gain-alpha-{alpha:g}".replace(".", "_"),
            f"At α = {alpha:g}, DAM and DCM are about {points:g} points above random movement.",
            about((value, points) for value in both_limits(alpha)),
            "Sec. V-B",
        )
        for alpha, points in GAINS.items()
    ),
    Claim(
        "unconstrained-is-better",
        "Unconstrained movement converges better than constrained movement.",
        order(limited(math.inf), limited(5.0)),
        "Sec. V-B",
    ),
    Claim(
        "more-mobile-is-better",
        "The more clients move, the higher the accuracy (mean of random, DAM and DCM).",
        rises({m: average(RUNS.of(final, p, mobile=m) for p in MOVING) for m in FEW_MOBILE}),
        "Sec. V-B1",
    ),
    Claim(
        "gain-over-numbers",
        "Over the numbers of mobile clients, DAM gains 5.3 points on average and DCM 7.",
        about((average(RUNS.gain(p, mobile=m) for m in FEW_MOBILE), g) for p, g in MOBILE_GAINS.items()),
        "Sec. V-B1",
    ),
    Claim(
        "larger-radius-is-better",
        "The larger the communication radius, the higher the accuracy (mean of random, DAM and DCM).",
        rises({radius: of_three("radius", radius) for radius in FEW_RADII}),
        "Sec. V-B2",
    ),
    Claim(
        "gain-sparse",
        "At Rc = 1, DAM and DCM are about 15 points above random movement.",
        about((RUNS.gain(p, radius=1.0, **THREE), SPARSE_GAIN) for p in STEERED),
        "Sec. V-B2",
    ),
    Claim(
        "farther-is-better",
        "The farther clients move in a round, the higher the accuracy (mean of random, DAM and DCM).",
        order(of_three("step", 5.0), of_three("step", 1.0)),
        "Sec. V-B3",
    ),
    Claim(
        "saturates",
        "Accuracy approaches that of unconstrained clients: at Rm = 12 it is within 2 points of it.",
        equal(of_three("step", 12.0), of_three("step", math.inf), margin=2.0),
        "Sec. V-B3; 12 and the margin are ours",
    ),
    *(
        Claim(
            f"gain-large-{limit_name(step)}",
            f"With 50 clients on 35 x 35, DCM is about {points:g} points above random movement, {limit_name(step)}.",
            about([(RUNS.gain("dcm", network=LARGE, radius=5.0, step=step), points)]),
            "Sec. V-B4",
        )
        for step, points in LARGE_GAINS.items()
    ),
    *(
        Claim(
            f"gain-cifar-{limit_name(step)}",
            f"On CIFAR-10, DAM and DCM are about {CIFAR_GAINS[step, 'dam']:g} and {CIFAR_GAINS[step, 'dcm']:g} points "
            f"above random movement, {limit_name(step)}.",
            about((RUNS.gain(p, network=CIFAR, alpha=0.1, step=step), CIFAR_GAINS[step, p]) for p in STEERED),
            "Sec. V-B5",
        )
        for step in LIMITS
    ),
)

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
        "g / 2; who is ahead, over the later half of the run. Declared, not yet run in full."
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
