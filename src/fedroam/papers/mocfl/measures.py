"""What the study of MoCFL measures of a run, and the differences of variants that its tables and claims are about.

The contrasts compare MoCFL with FedGH at the same server and start, and tell what each setting brings.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedroam.papers.mocfl.runs import ABLATED, FEW, variant
from fedroam.recording import Run
from fedroam.study.measures import column
from fedroam.study.values import Measure, Quotient, Value, average


def _last_ten(run: Run, of: str) -> float:
    series = column(run, of)
    # never round 0, in which nothing has been learnt
    late_ones = series.index > max(series.index[-1] - 10, 0)
    return 100 * float(series[late_ones].mean(skipna=False))


def _fluctuation(run: Run) -> float:
    series = column(run, "accuracy_pooled")
    return 100 * float(series[series.index > series.index[-1] / 2].std(ddof=0, skipna=False))


def _by_round(run: Run, of: str) -> float:
    series = column(run, of)
    return float(series.iloc[-1] - series.iloc[0]) / float(series.index[-1] - series.index[0])


def _usual_seconds(run: Run) -> float:
    """Seconds of the median round, which a pause or a shared core for a while does not change."""
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
deviation = Measure(
    "standard deviation of accuracy over clients, last ten rounds",
    "pp",
    lambda run: _last_ten(run, "accuracy_std"),
)
fluctuation = Measure(
    "standard deviation of pooled accuracy over the later half's rounds", "pp", _fluctuation, digits=2
)
mean_of_clients = Measure(
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
    return measure.of(variant(kind, clients)) - measure.of(variant(kind, clients, rate))


def time_over(kind: str, other: str, clients: int) -> Quotient:
    """How many times as long as another's a method's round takes, all clients active."""
    return Quotient(seconds.of(variant(kind, clients)), seconds.of(variant(other, clients)))


def traffic_over(kind: str, other: str, clients: int) -> Quotient:
    """How many times as much as with another a method sends in a round, all clients active."""
    return Quotient(traffic.of(variant(kind, clients)), traffic.of(variant(other, clients)))


def ahead(first: str, second: str, clients: int, measure: Measure = best, rate: float = 1.0) -> Value:
    """What one method is ahead of another, all else equal."""
    return measure.of(variant(first, clients, rate)) - measure.of(variant(second, clients, rate))


def part_brings(without: str, clients: int = FEW) -> Value:
    """What a part of MoCFL brings to the last ten rounds, averaged over CAR 1.0 and 0.5."""
    return average(
        late.of(variant("mocfl", clients, rate)) - late.of(variant("mocfl", clients, rate, without=without))
        for rate in ABLATED[clients]
    )


PARTS = {"no-affinity": "affinity step", "no-history": "historical features", "own-head": "global head"}

Contrast = Callable[[int, Measure], Value]


def _minus(first: tuple[str, str], second: tuple[str, str]) -> Contrast:
    """One variant minus another, all clients active: (method, what is changed in it) each."""

    def value(clients: int, measure: Measure = late) -> Value:
        one, other = (measure.of(variant(kind, clients, without=key)) for kind, key in (first, second))
        return one - other

    return value


AS_DECLARED = _minus(("mocfl", ""), ("fedgh", ""))
AS_FEDGH = _minus(("mocfl", "as-fedgh"), ("fedgh", ""))
AT_64 = _minus(("mocfl", "equal-start"), ("fedgh", "server-batch-64"))
SERVER_AND_START = _minus(("mocfl", ""), ("mocfl", "as-fedgh"))

AGAINST_FEDGH: dict[str, Contrast] = {
    "as declared: 64 pairs a step and independent start against one pair and equal start": AS_DECLARED,
    "both with one pair a step and equal start": AS_FEDGH,
    "both with 64 pairs a step and equal start": AT_64,
}
BATCH: dict[str, Contrast] = {
    "MoCFL, independent start": _minus(("mocfl", "server-batch-1"), ("mocfl", "")),
    "MoCFL, equal start": _minus(("mocfl", "as-fedgh"), ("mocfl", "equal-start")),
    "FedGH": _minus(("fedgh", ""), ("fedgh", "server-batch-64")),
}
UNTRAINED = _minus(("fedgh", "untrained-head"), ("fedgh", ""))
START: dict[str, Contrast] = {
    "64 pairs a step": _minus(("mocfl", "equal-start"), ("mocfl", "")),
    "one pair a step": _minus(("mocfl", "as-fedgh"), ("mocfl", "server-batch-1")),
}
PART: dict[str, Contrast] = {
    word: _minus(("mocfl", "as-fedgh"), ("mocfl", f"as-fedgh-{key}")) for key, word in PARTS.items()
}
