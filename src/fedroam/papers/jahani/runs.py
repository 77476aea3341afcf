"""Networks, axes and runs of the study of Jahani et al.; its tables and claims name runs through `RUNS`."""

from __future__ import annotations

import math
from typing import Any

from fedroam.papers.steered_variants import Catalogue, Network
from fedroam.study.measures import best
from fedroam.study.values import Value

Settings = dict[str, Any]

RUNS = Catalogue(dcm={"ties": "random"})
ALPHAS = (0.05, 0.1)
SHARE = 0.9  # of what the fully connected graph reaches
RIVALS = ("random", "dcm")  # the patterns of the threshold figures

_CIFAR: Settings = {
    "rounds": 2000,
    "data": {"kind": "cifar10", "normalise": "standardise"},
    "model": {"kind": "resnet18"},
    "training": {"lr": 0.01, "batch_size": 512, "steps": 1},
}
LARGE, LARGEST = Network("27x27", 27, 35), Network("35x35", 35, 50)
CIFAR_SMALL, CIFAR_LARGE = Network("cifar10", 18, 20, _CIFAR), Network("cifar10-27x27", 27, 35, _CIFAR)
# The paper's text does not print these; those of 35 x 35 and of CIFAR-10 on 18 x 18 are the earlier paper's.
NETWORK_SETTINGS: dict[str, Settings] = {
    "27x27": {"alpha": 0.05, "radius": 4.0, "step": 7.0},
    "35x35": {"alpha": 0.05, "radius": 5.0, "step": 9.0},
    "cifar10": {"alpha": 0.1, "radius": 3.0, "step": 5.0},
    "cifar10-27x27": {"alpha": 0.1, "radius": 4.0, "step": 7.0},
}

# Axes of figure 3, ours: the few values are run at every scale.
FEW_MOBILE, ALL_MOBILE = (1, 3, 5), (1, 2, 3, 4, 5, 6, 7, 8)
FEW_RADII, ALL_RADII = (1.0, 3.0, 5.0), (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
FEW_STEPS, ALL_STEPS = (1.0, 5.0, math.inf), (1.0, 2.0, 3.0, 5.0, 7.0, 9.0, 12.0, math.inf)
# Axes of figure 6, ours.
MAP_MOBILE, MAP_RADII, MAP_STEPS = (1, 3, 5, 7), (1.0, 3.0, 5.0, 7.0), (1.0, 3.0, 5.0, 9.0, math.inf)
# Axes of figure 8, ours.
LARGE_AXES: dict[str, tuple[float, ...]] = {
    "radius": (2.0, 3.0, 4.0, 5.0, 6.0, 7.0),
    "mobile": (1, 2, 4, 6, 8, 10),
}


def common(network: Network) -> Settings:
    """Rc and Rm of the threshold figures in a larger network, whose α is that of the small one."""
    return {key: value for key, value in NETWORK_SETTINGS[network.name].items() if key != "alpha"}


def above_share(pattern: str, **settings: Any) -> Value:
    """How far the highest accuracy of a run is above 90 % of that of the fully connected graph."""
    return RUNS.of(best, pattern, **settings) - SHARE * best.of(RUNS.fully_connected())
