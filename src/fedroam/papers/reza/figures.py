"""Figures 2 to 5 of Reza et al."""

from __future__ import annotations

from fedroam.papers.reza.runs import CIFAR_PANELS, LARGE_PANELS, PANELS, RUNS, THREE
from fedroam.study.items import Figure

FIGURE_2 = RUNS.curves("figure-2", "MNIST, 18 x 18, 20 clients, 5 mobile", PANELS)
FIGURE_3 = RUNS.figure_3(whole=False, others=", 3 mobile", settings=THREE)
FIGURES: tuple[Figure, ...] = (
    FIGURE_2,
    *FIGURE_3,
    *RUNS.figure_3(whole=True, others=", 3 mobile", settings=THREE),
    RUNS.curves("figure-4", "MNIST, 35 x 35, 50 clients, 5 mobile, Rc = 5", LARGE_PANELS),
    RUNS.curves("figure-5", "CIFAR-10, 18 x 18, 20 clients, 5 mobile", CIFAR_PANELS),
)
