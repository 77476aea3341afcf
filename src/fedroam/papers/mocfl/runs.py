"""What the paper of MoCFL ran and printed: methods, conditions, variants, and the measures of the study."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fedroam.recording import Run
from fedroam.study.measures import column
from fedroam.study.values import Measure, Value, average

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
# App. B: final accuracy (%) of FedAvg.
MNIST_FEDAVG = {"mnist": 97.0, "fashion_mnist": 78.0}

# Parts of MoCFL left out or changed: a label, the federation's settings, and settings of the experiment.
ABLATIONS: dict[str, tuple[str, Mapping[str, Any], Mapping[str, Any]]] = {
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
MATCHED: dict[str, tuple[str, Mapping[str, Any], Mapping[str, Any]]] = {
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
MATCHED_FEDGH: dict[str, tuple[str, Mapping[str, Any], Mapping[str, Any]]] = {
    "server-batch-64": ("64 pairs a step", {"server_batch": 64}, {}),
    # What its authors' public code does: its server steps other parameters than those of the head it hands out.
    "untrained-head": ("head never trained", {"server_epochs": 0}, {}),
}
# As FedProto's authors judge: among the prototypes of the classes that a client holds.
HELD: dict[str, tuple[str, Mapping[str, Any], Mapping[str, Any]]] = {
    "held": ("judged among the classes held", {"candidates": "held"}, {})
}
OPTIONS = {**ABLATIONS, **MATCHED, **MATCHED_FEDGH, **HELD}

SETS = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "unsw": "UNSW-NB15"}
SETS_METHODS = ("fedavg", "fedprox", "fedgh", *BASELINES)

# At scale quick there is a quarter of the rounds, and four times the learning rate, for clients and servers alike.
QUICK_ROUNDS, QUICK_LR, QUICK_SAMPLES = 25, 0.04, 3000


def name(kind: str, clients: int = FEW, rate: float = 1.0, data: str = "unsw", *, without: str = "") -> str:
    """The variant of a method. data: also `distinct`, records without repeats; without: a key of OPTIONS.

    What a majority is does not depend on who is active: its variant is the same for all rates.
    """
    rate = 1.0 if kind == "majority" else rate
    prefix = "" if data == "unsw" else f"{data.replace('_', '-')},"
    return f"{prefix}{kind}{'-' + without if without else ''},n={clients},car={rate:g}"


def _changes(
    kind: str, clients: int, rate: float, data: str, without: str
) -> Callable[[str], Mapping[str, Any]]:
    """Settings over the base, which is MoCFL, by scale."""
    _, federation, others = OPTIONS.get(without, ("", {}, {}))

    def changes(scale: str) -> Mapping[str, Any]:
        own = {"server_lr": QUICK_LR} if scale == "quick" and kind in ("fedgh", "mocfl") else {}
        found: dict[str, Any] = {
            "clients": clients,
            "activity": {"rate": rate},
            "federation": {"kind": kind, **own, **federation},
            "start_models": "independent" if kind == "mocfl" else "equal",
            **others,
        }
        if data == "distinct":
            found["data"] = {"deduplicate": True}
        elif data != "unsw":
            few = {"train_samples": QUICK_SAMPLES} if scale == "quick" else {}
            found["data"], found["model"] = {"kind": data, **few}, "mnist_cnn"
        return found

    return changes


def _every() -> list[tuple[str, int, float, str, str]]:
    """Kind, NC, CAR, data and ablation of every variant."""
    main = [(k, n, rate, "unsw", "") for n, rates in RATES.items() for k in METHODS for rate in rates]
    distinct = [(k, n, 1.0, "distinct", "") for n in RATES for k in METHODS]
    parts = [
        ("mocfl", n, rate, "unsw", a) for n, rates in ABLATED.items() for a in ABLATIONS for rate in rates
    ]
    images = [(k, FEW, 1.0, data, "") for data in MNIST_FEDAVG for k in SETS_METHODS]
    matched = [("mocfl", n, 1.0, "unsw", key) for n in RATES for key in MATCHED]
    matched += [("fedgh", n, 1.0, "unsw", key) for n in RATES for key in MATCHED_FEDGH]
    matched += [("fedproto", n, 1.0, "unsw", key) for n in RATES for key in HELD]
    return [
        one for one in (*main, *distinct, *parts, *images, *matched) if one[0] != "majority" or one[2] == 1.0
    ]


VARIANTS = {
    name(k, n, rate, data, without=a): _changes(k, n, rate, data, a) for k, n, rate, data, a in _every()
}


def _last_ten(run: Run, of: str) -> float:
    series = column(run, of)
    late_ones = series.index > max(
        series.index[-1] - 10, 0
    )  # never round 0, in which nothing has been learnt
    return 100 * float(series[late_ones].mean(skipna=False))


def _fluctuation(run: Run) -> float:
    series = column(run, "accuracy_pooled")
    return 100 * float(series[series.index > series.index[-1] / 2].std(ddof=0, skipna=False))


def _by_round(run: Run, of: str) -> float:
    series = column(run, of)
    return float(series.iloc[-1] - series.iloc[0]) / float(series.index[-1] - series.index[0])


def _usual_seconds(run: Run) -> float:
    """The median round's: a run that was paused, or had to share its core for a while, is not judged by that."""
    times = column(run, "seconds")
    return float(np.median(np.diff(times) / np.diff(times.index)))


def _order(run: Run) -> float:
    # Imported here: matplotlib, which a study that is only listed does not need.
    from fedroam.analysis.figures.affinity import agreement, class_similarity, matrix_of, rounds_shown
    from fedroam.analysis.figures.catalogue import class_counts

    rounds, (counts, _) = rounds_shown(run.matrices), class_counts(run)
    if not rounds:
        return float("nan")
    return agreement(matrix_of(run.matrices, "affinity", rounds[-1], len(counts)), class_similarity(counts))


# Right answers among all test samples of all clients, as the paper counts; its "best" is chosen on test data.
best = Measure(
    "pooled accuracy in the best round",
    "%",
    lambda run: 100 * float(column(run, "accuracy_pooled").max(skipna=False)),
)
late = Measure("pooled accuracy, last ten rounds", "%", lambda run: _last_ten(run, "accuracy_pooled"))
balanced = Measure("balanced accuracy, last ten rounds", "%", lambda run: _last_ten(run, "balanced_accuracy"))
macro_f1 = Measure("macro-F1, last ten rounds", "%", lambda run: _last_ten(run, "macro_f1"))
spread = Measure(
    "standard deviation of accuracy over clients, last ten rounds",
    "pp",
    lambda run: _last_ten(run, "accuracy_std"),
)
fluctuation = Measure(
    "standard deviation of pooled accuracy over the later half's rounds", "pp", _fluctuation, digits=2
)
as_judged = Measure(
    "mean over clients of accuracy, last ten rounds", "%", lambda run: _last_ten(run, "accuracy")
)
own_head = Measure(
    "the same with each client's own head", "%", lambda run: _last_ten(run, "accuracy_own_head")
)
seconds = Measure("seconds a round, median over rounds", "s", _usual_seconds, digits=2)
traffic = Measure("megabytes a round", "MB", lambda run: _by_round(run, "bytes") / 1e6, digits=2)
order_kept = Measure(
    "rank correlation of affinity with the class mixes' similarity, last round", "", _order, digits=2
)


def drop(kind: str, clients: int = FEW, rate: float = 0.5, measure: Measure = late) -> Value:
    """What a method loses where fewer are active."""
    return measure.of(name(kind, clients)) - measure.of(name(kind, clients, rate))


def ahead(first: str, second: str, clients: int, measure: Measure = best, rate: float = 1.0) -> Value:
    """What one method is ahead of another, all else equal."""
    return measure.of(name(first, clients, rate)) - measure.of(name(second, clients, rate))


def part_brings(without: str, clients: int = FEW) -> Value:
    """What a part of MoCFL brings to the last ten rounds, averaged over CAR 1.0 and 0.5."""
    return average(
        late.of(name("mocfl", clients, rate)) - late.of(name("mocfl", clients, rate, without=without))
        for rate in ABLATED[clients]
    )
