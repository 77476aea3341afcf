"""What is measured of the prototype's runs: energy as its Table 10 has it, and how far a network is its simulation."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd

from fedroam.analysis.agreement import MODELS, PER_ROUND, Agreement, read_agreement
from fedroam.papers.mohawk.measures import (
    consumed,
    consumed_all,
    consumed_hourly,
    wasted,
    wasted_all,
    wasted_hourly,
)
from fedroam.papers.prototype.runs import played
from fedroam.recording import Run
from fedroam.recording.round_times import TOOK, read_times
from fedroam.study.measures import column
from fedroam.study.values import Measure, Value

# What is compared (`analysis.agreement`).
COMPARED = (
    "models and state",
    "who takes part",
    "bytes",
    "times by the model",
    "energy by the model",
    "accuracies, losses",
)
TABLE_10 = {
    "Cumulative wasted / experiment": wasted_all,
    "Cumulative consumed / experiment": consumed_all,
    "Average wasted / device": wasted,
    "Average consumed / device": consumed,
    "Average wasted / comm. round": wasted_hourly,
    "Average consumed / comm. round": consumed_hourly,
}
training_all = Measure(
    "energy consumed by training", "J", lambda run: float(column(run, "energy_training").iloc[-1]), digits=0
)
communication_all = Measure(
    "energy consumed by communication",
    "J",
    lambda run: float((column(run, "energy") - column(run, "energy_training")).iloc[-1]),
    digits=0,
)


def _found(run: Run) -> Agreement:
    return read_agreement(run.folder, str(run.status["digest"]))


def difference(what: str) -> Measure:
    """By how much a network's run differs from its simulation, in millionths: of the unit for models and what is
    learnt, of the value for seconds and joules."""
    name = f"largest difference of {what}"
    return Measure(name, "millionths", lambda run: 1e6 * _found(run).compared[what].difference, digits=3)


def identical(what: str) -> Measure:
    """The share of runs in which something is the same bits on the network and simulated."""
    return Measure(
        f"same bits: {what}", "%", lambda run: 100.0 * _found(run).compared[what].identical, digits=0
    )


WORK = ("train", "carry", "aggregate")


def _rest(run: Run) -> float:
    spent = _found(run).seconds
    return spent.get("network", math.nan) - sum(_spent(spent, work) for work in WORK)


def _time(name: str, words: str) -> Measure:
    return Measure(words, "s", lambda run: _spent(_found(run).seconds, name), digits=2)


def _spent(seconds: Mapping[str, float], name: str) -> float:
    """What a round takes, or some work of it: 0 where only other work is told, NaN where none is."""
    other = name in WORK and any(work in seconds for work in WORK)
    return seconds.get(name, 0.0 if other else math.nan)


ON_NETWORK = _time("network", "time of a round on the network")
TIMES = {
    "A round on the network": ON_NETWORK,
    "A round, simulated": _time("simulated", "simulated time of a round"),
    "… of it training": _time("train", "time of a round spent on training"),
    "… models on their way": _time("carry", "time of a round spent on transfers"),
    "… aggregation (no time in the simulation)": _time("aggregate", "time of a round spent on aggregation"),
    "… all else (no time in the simulation)": Measure(
        "time of a round spent on the rest", "s", _rest, digits=2
    ),
}
off = Measure(
    "difference of the time of a round, largest of the run",
    "% of the simulated",
    lambda run: 100 * _found(run).compared[PER_ROUND].difference,
    digits=1,
)
LIMIT = 1e6 * MODELS


def of_both(measure: Measure, data: str) -> tuple[Value, Value]:
    """A measure of HierFAVG and of MOHAWK on a data set, as nodes have played them."""
    return measure.of(played(data, "hierfavg", "network")), measure.of(played(data, "mohawk", "network"))


def seconds_by_round(run: Run) -> pd.Series:
    """Seconds of a round, by evaluated round, averaged since the one before: as it was on a network, or simulated."""
    ends = column(run, "time")
    if (run.folder / TOOK).exists():
        took = read_times(run.folder / TOOK)
        whole = pd.Series({t: sum(took[k].seconds for k in took if k <= t) for t in ends.index})
    else:
        whole = ends
    since = pd.Series(whole.index, whole.index).diff()
    return (whole.diff() / since).iloc[1:].astype(float)
