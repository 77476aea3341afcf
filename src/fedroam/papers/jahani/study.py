"""Does movement make up for missing links? Table II, figures 2 to 8 and the claims of Jahani et al., to be judged.

Final accuracy where the paper reports it (Table II, figure 2), the highest of the run where it does that (its sweeps).
Declared before any run of it; run whole at scale quick, and not yet in full.
"""

from __future__ import annotations

from fedroam.papers.jahani.claims import CLAIMS
from fedroam.papers.jahani.figures import (
    FIGURE_2,
    FIGURE_3,
    FIGURE_3_ALL,
    FIGURE_4,
    FIGURE_5,
    FIGURE_6,
    FIGURES,
    SEARCHES,
)
from fedroam.papers.jahani.tables import TABLES
from fedroam.papers.steered_variants import QUICK, QUICK_IMAGES
from fedroam.study.study import Scale, Study, all_but, declared_by
from fedroam.study.values import Item

ITEMS: tuple[Item, ...] = (*CLAIMS, *TABLES, *FIGURES, *SEARCHES)
IN_QUICK: tuple[Item, ...] = (*TABLES, FIGURE_2, *FIGURE_3)
# The searches of figures 4 and 5 need what the figures do.
IN_MEDIUM: tuple[Item, ...] = (
    *IN_QUICK,
    *FIGURE_3_ALL,
    *FIGURE_6,
    *(figure for figure, _ in (*FIGURE_4, *FIGURE_5)),
)
CUT = (
    QUICK_IMAGES,
    "200 rounds, evaluated every 20, instead of 1,000, evaluated every 10: curves still rise, so final accuracies are "
    "lower; B is found over 200 rounds.",
    "4 seeds instead of 6.",
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
    variants=declared_by(ITEMS),
    scales={
        "quick": Scale(
            seeds=4,
            settings=QUICK,
            cut=(
                *CUT,
                "Figure 3 with three values of each axis; without figures 4 to 8 (--scale medium has 4 to 6).",
                MOMENTUM,
            ),
            without=all_but(ITEMS, IN_QUICK),
        ),
        "medium": Scale(
            seeds=4,
            settings={
                "rounds": 600,
                "evaluate_every": 20,
                "data": {"train_samples": 3000, "test_samples": 1000},
            },
            cut=(
                "3,000 training and 1,000 test images instead of 60,000 and 10,000, because a round of full-batch "
                "training costs in proportion to them.",
                "600 rounds, evaluated every 20, instead of 1,000, evaluated every 10; B is found over 600 rounds.",
                "4 seeds instead of 6.",
                "Without the larger networks and CIFAR-10 (figures 7 and 8).",
                MOMENTUM,
            ),
            without=all_but(ITEMS, IN_MEDIUM),
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
