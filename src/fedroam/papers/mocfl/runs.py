"""What the paper of MoCFL ran and printed: methods, conditions and variants."""

from __future__ import annotations

from typing import Any

from fedroam.study.values import Settings, StudyVariant

# Labels by kind of federation: the paper's eight in its order, then what was added to them.
PAPERS = {
    "fedavg": "FedAvg",
    "fedprox": "FedProx",
    "moon": "MOON",
    "fedavgdbe": "FedAvgDBE",
    "fedproto": "FedProto",
    "gpfl": "GPFL",
    "fedgh": "FedGH",
    "mocfl": "MoCFL",
}
BASELINES = {"majority": "majority", "local": "local"}
METHODS = {**PAPERS, "fedfomo": "FedFomo", **BASELINES}
ONE_MODEL = ("fedavg", "fedprox", "moon")  # everybody gets the same model
PERSONAL = ("fedavgdbe", "fedproto", "gpfl", "fedgh", "mocfl")
RIVALS = tuple(kind for kind in PAPERS if kind != "mocfl")
ROBUST = ("fedproto", "gpfl", "mocfl")  # with 10 clients, says the paper
FRAGILE = tuple(kind for kind in PAPERS if kind not in ROBUST)

FEW, MANY = 10, 50  # NC
RATES = {FEW: (1.0, 0.5), MANY: (1.0, 0.9, 0.7, 0.5)}  # CAR by NC

# Table 1: accuracy (%) in the best round, by NC.
TABLE_1 = {
    "fedavg": (73.33, 67.81),
    "fedprox": (73.59, 67.22),
    "moon": (73.87, 67.27),
    "fedavgdbe": (81.75, 71.61),
    "fedproto": (77.64, 69.63),
    "gpfl": (82.16, 76.96),
    "fedgh": (84.47, 82.38),
    "mocfl": (89.90, 86.45),
}
# Table 2: seconds of 100 rounds on one RTX 4090, by NC.
TABLE_2 = {
    "fedavg": (186.16, 812.41),
    "fedprox": (215.97, 774.79),
    "moon": (384.77, 1569.32),
    "fedavgdbe": (242.82, 984.09),
    "fedproto": (473.23, 2025.88),
    "gpfl": (584.53, 2419.57),
    "fedgh": (315.83, 1315.73),
    "mocfl": (327.61, 1247.55),
}


def slower(kind: str, clients: int) -> float | None:
    """How many times as long as FedAvg's rounds those of a method take in Table 2."""
    place = (FEW, MANY).index(clients)
    return round(TABLE_2[kind][place] / TABLE_2["fedavg"][place], 2) if kind in TABLE_2 else None


# App. B: final accuracy (%) of FedAvg.
MNIST_FEDAVG = {"mnist": 97.0, "fashion_mnist": 78.0}

# A method changed: a label, the federation's settings, and settings of the experiment.
Change = tuple[str, Settings, Settings]
# Parts of MoCFL left out or changed.
ABLATIONS: dict[str, Change] = {
    "no-affinity": ("without affinity step", {"neighbours": 0}, {}),
    "no-history": ("without historical features", {"history": "none"}, {}),
    "own-head": ("without global head", {"head": "own"}, {}),
    "head-alone": ("global head alone", {"neighbours": 0, "history": "none"}, {}),
    "server-batch-1": ("server takes one pair a step", {"server_batch": 1}, {}),
    "equal-start": ("equal start models", {}, {"start_models": "equal"}),
}
ABLATED = {FEW: (1.0, 0.5), MANY: (1.0, 0.5)}
# Added after the first run, all clients active: MoCFL with FedGH's server and start, its parts left out there, and
# FedGH with MoCFL's server. (Without affinity step and history MoCFL is FedGH then.)
_ONE, _EQUAL = {"server_batch": 1}, {"start_models": "equal"}
MATCHED: dict[str, Change] = {
    "as-fedgh": ("one pair a step, equal start", _ONE, _EQUAL),
    **{
        f"as-fedgh-{key}": (label, {**_ONE, **ABLATIONS[key][1]}, _EQUAL)
        for key, label in {
            "no-affinity": "the same without affinity step",
            "no-history": "the same without historical features",
            "own-head": "the same without global head",
        }.items()
    },
}
MATCHED_FEDGH: dict[str, Change] = {
    "server-batch-64": ("64 pairs a step", {"server_batch": 64}, {}),
    # What its authors' public code does: its server steps other parameters than those of the head it hands out.
    "untrained-head": ("head never trained", {"server_epochs": 0}, {}),
}
# As FedProto's authors judge: among the prototypes of the classes that a client holds.
HELD: dict[str, Change] = {"held": ("judged among the classes held", {"candidates": "held"}, {})}
# The other rule of each rival whose public code departs from its paper.
PUBLIC: dict[str, Change] = {
    "whole-batch": ("one norm of the whole batch", {"distance": "batch"}, {}),
    "met-in-training": ("prototypes of features met during training", {"collected": "during"}, {}),
    "tracked": ("the running mean of the start pass", {"start_pass": "tracked"}, {}),
}
PUBLIC_OF = {"gpfl": "whole-batch", "fedproto": "met-in-training", "fedavgdbe": "tracked"}
OPTIONS = {**ABLATIONS, **MATCHED, **MATCHED_FEDGH, **HELD, **PUBLIC}

SETS = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "unsw": "UNSW-NB15"}
SETS_METHODS = ("fedavg", "fedprox", "fedgh", *BASELINES)

# At scale quick there is a quarter of the rounds, and four times the learning rate, for clients and servers alike.
QUICK_ROUNDS, QUICK_LR, QUICK_SAMPLES = 25, 0.04, 3000
MEDIUM_SAMPLES, MEDIUM_IMAGES = 20_000, 12_000


def variant(
    kind: str, clients: int = FEW, rate: float = 1.0, data: str = "unsw", *, without: str = ""
) -> StudyVariant:
    """The variant of a method. data: also `distinct`, records without repeats; without: a key of OPTIONS.

    What a majority is does not depend on who is active: its variant is the same for all rates.
    """
    rate = 1.0 if kind == "majority" else rate
    prefix = "" if data == "unsw" else f"{data.replace('_', '-')},"
    name = f"{prefix}{kind}{'-' + without if without else ''},n={clients},car={rate:g}"
    _, federation, others = OPTIONS.get(without, ("", {}, {}))
    settings: dict[str, Any] = {
        "clients": clients,
        "activity": {"rate": rate},
        "federation": {"kind": kind, **federation},
        "start_models": "independent" if kind == "mocfl" else "equal",
        **others,
    }
    quick: dict[str, Any] = {"federation": {"server_lr": QUICK_LR}} if kind in ("fedgh", "mocfl") else {}
    medium: dict[str, Any] = {}
    if data == "distinct":
        settings["data"] = {"deduplicate": True}
    elif data != "unsw":
        settings["data"], settings["model"] = {"kind": data}, "mnist_cnn"
        quick["data"], medium["data"] = {"train_samples": QUICK_SAMPLES}, {"train_samples": MEDIUM_IMAGES}
    return StudyVariant(name, settings, {"quick": quick, "medium": medium})


# All that is run, for every table, figure and claim.
RUNS = (
    *(variant(k, n, rate) for n, rates in RATES.items() for k in METHODS for rate in rates),
    *(variant(k, n, data="distinct") for n in RATES for k in METHODS),
    *(
        variant("mocfl", n, rate, without=key)
        for n, rates in ABLATED.items()
        for key in ABLATIONS
        for rate in rates
    ),
    *(variant(k, data=data) for data in MNIST_FEDAVG for k in SETS_METHODS),
    *(variant("mocfl", n, without=key) for n in RATES for key in MATCHED),
    *(variant("fedgh", n, without=key) for n in RATES for key in MATCHED_FEDGH),
    *(variant("fedproto", n, without=key) for n in RATES for key in HELD),
    *(variant(kind, n, without=key) for n in RATES for kind, key in PUBLIC_OF.items()),
)
