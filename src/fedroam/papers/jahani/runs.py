"""What Jahani et al. ran: networks, axes, and the variants, which tables and claims make by `RUNS`."""

from __future__ import annotations

import math
from typing import Any

from fedroam.papers.steered_variants import ClientGrid, SteeredVariants, later_half_whole
from fedroam.study.measures import best, final
from fedroam.study.values import Settings, Value

RUNS = SteeredVariants(dcm={"ties": "random"})
ALPHAS = (0.05, 0.1)
SHARE = 0.9  # of what the fully connected graph reaches
RIVALS = ("random", "dcm")  # the patterns of the threshold figures

_CIFAR: Settings = {
    **later_half_whole(2000),
    "data": {"kind": "cifar10", "normalise": "standardise"},
    "model": {"kind": "resnet18"},
    "training": {"lr": 0.01, "batch_size": 512, "steps": 1},
}
LARGE, LARGEST = ClientGrid("27x27", 27, 35), ClientGrid("35x35", 35, 50)
CIFAR_SMALL, CIFAR_LARGE = ClientGrid("cifar10", 18, 20, _CIFAR), ClientGrid("cifar10-27x27", 27, 35, _CIFAR)
# The paper's text does not print these; those of 35 x 35 and of CIFAR-10 on 18 x 18 are the earlier paper's.
NETWORK_SETTINGS: dict[str, Settings] = {
    "27x27": {"alpha": 0.05, "radius": 4.0, "step": 7.0},
    "35x35": {"alpha": 0.05, "radius": 5.0, "step": 9.0},
    "cifar10": {"alpha": 0.1, "radius": 3.0, "step": 5.0},
    "cifar10-27x27": {"alpha": 0.1, "radius": 4.0, "step": 7.0},
}

# Axes of figure 6, ours.
MAP_MOBILE, MAP_RADII, MAP_STEPS = (1, 3, 5, 7), (1.0, 3.0, 5.0, 7.0), (1.0, 3.0, 5.0, 9.0, math.inf)
# Axes of figure 8, ours.
LARGE_AXES: dict[str, tuple[float, ...]] = {
    "radius": (2.0, 3.0, 4.0, 5.0, 6.0, 7.0),
    "mobile": (1, 2, 4, 6, 8, 10),
}


def common(network: ClientGrid) -> Settings:
    """Rc and Rm of the threshold figures in a larger network, whose α is that of the small one."""
    return {key: value for key, value in NETWORK_SETTINGS[network.name].items() if key != "alpha"}


def above_share(pattern: str, **settings: Any) -> Value:
    """How far the highest accuracy of a run is above 90 % of that of the fully connected graph."""
    return RUNS.of(best, pattern, **settings) - SHARE * best.of(RUNS.fully_connected())


def drop(pattern: str) -> Value:
    """Final accuracy that more heterogeneous data cost, with 3 mobile clients."""
    return RUNS.of(final, pattern, mobile=3, alpha=0.1) - RUNS.of(final, pattern, mobile=3, alpha=0.05)
