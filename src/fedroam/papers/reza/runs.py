"""What Reza et al. ran and printed: networks, panels, and the variants, which tables and claims make by `RUNS`."""

from __future__ import annotations

import math

from fedroam.papers.steered_variants import ClientGrid, SteeredVariants, later_half_whole, shown
from fedroam.study.values import Settings

RUNS = SteeredVariants(dcm={"ties": "coverage"})

LARGE = ClientGrid("35x35", 35, 50)
CIFAR = ClientGrid(
    "cifar10",
    18,
    20,
    {
        **later_half_whole(600),
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
