"""Networks, axes, printed numbers and runs of the study of Reza et al.; its tables and claims name runs by `RUNS`."""

from __future__ import annotations

import math
from typing import Any

from fedroam.papers.steered_variants import Catalogue, Network, shown

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
