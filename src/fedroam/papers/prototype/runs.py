"""The runs of the prototype: two methods, two data sets, each played by nodes of a network and simulated."""

from __future__ import annotations

from fedroam.devices.classes import BOARDS
from fedroam.papers.mohawk.runs import TRACES
from fedroam.study.kept import Where
from fedroam.study.values import Settings, StudyVariant

METHODS = {"hierfavg": "HierFAVG", "mohawk": "MOHAWK"}
DATA = {"mnist": ("MNIST", 1), "cifar10": ("CIFAR-10", 5)}  # label, k1
PLACES: tuple[Where, ...] = ("network", "simulation")
DEVICES, ACCESS_POINTS = 36, 20

BOARD = "raspberry_pi_4"
EFFICIENCY = 0.1
# Operations of a pass of one sample through the paper's network, forward and backward, counted (devices.arithmetic).
CONV5_FLOPS = {"mnist": 117_864_960, "cifar10": 120_224_256}

BASE: Settings = {
    **TRACES["month"],
    "clients": DEVICES,
    "rounds": 743,
    "evaluate_every": 5,
    "checkpoint_every": 5,
    "data": {"kind": "mnist"},
    "partition": {
        "kind": "client_dirichlet",
        "alpha": 100.0,
        "samples_per_client": 500,
        "sharing": "replacement",
    },
    "model": {"kind": "conv5", "init": "kaiming_normal"},
    "training": {"kind": "sgd", "lr": 0.01, "batch_size": 8, "epochs": 1},
    "access_points": {"kind": "points_of_interest", "number": ACCESS_POINTS},
    "contacts": {"kind": "radius", "radius": 0.0},
    "radio": {"kind": "lte_wifi", "training_power": BOARDS[BOARD][1]},
    "federation": {"kind": "mohawk", "k2": 5},
    "clock": {"kind": "seconds", "length": 1.0, "wait": "all"},
    "link": {"kind": "fixed", "throughput": 10.0},
    "compute": {"kind": "board", "boards": [BOARD], "efficiency": EFFICIENCY},
}


def board_seconds(data: str) -> float:
    """How long a board takes to train on one sample, s."""
    return CONV5_FLOPS[data] / (BOARDS[BOARD][0] * EFFICIENCY)


def played(data: str, method: str, place: Where) -> StudyVariant:
    """A method on a data set (k2 = 5, IID), as nodes play it or as it is simulated: the settings are the same."""
    seconds = board_seconds(data)
    settings: Settings = {
        "data": {"kind": data},
        "training": {"epochs": DATA[data][1]},
        "radio": {"training_time": seconds},
        "federation": {"kind": method, "k2": 5},
    }
    small: Settings = {"data": {"kind": "digits", "test_share": 0.5}}
    return StudyVariant(f"{data},{method},{place}", settings, {"tiny": small})


QUICK: Settings = {
    "rounds": 15,
    "evaluate_every": 1,
    "data": {"test_samples": 500},
    "partition": {"samples_per_client": 50},
}
# What needs no file, and a minute.
TINY: Settings = {
    "clients": 6,
    "rounds": 6,
    "evaluate_every": 1,
    "checkpoint_every": 2,
    "mobility": {"kind": "random", "grid": 20, "mobile": 6},
    "activity": {"kind": "rate", "rate": 0.7},
    "access_points": {"kind": "uniform", "number": 3},
    "data": {"kind": "digits", "test_share": 0.5},
    "partition": {"samples_per_client": 50},
    "model": {"kind": "mlp", "hidden": [16]},
    "federation": {"k2": 2},
    "radio": {"distance_mean": 300.0, "distance_std": 100.0},
    "compute": {"kind": "flops", "speeds": [1e-3]},
}
