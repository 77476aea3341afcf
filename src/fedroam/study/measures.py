"""Measures that papers of this field report; any function of a run is one, too: `Measure("name", "%", function)`.

Accuracies are in percent: the mean over clients of the accuracy of each one's own model (see `analysis.summary`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np
import pandas as pd

from fedroam.analysis.neighbours import neighbours
from fedroam.analysis.report.marginals import final_accuracy
from fedroam.errors import InputError, unknown
from fedroam.recording import Run
from fedroam.study.values import Measure


def column(run: Run, name: str = "accuracy") -> pd.Series:
    """A column of `rounds`, by round."""
    table = run.by_round
    if name not in table:
        raise InputError(
            f"{run.folder}: rounds have no column {name!r}; they have {', '.join(table.columns)}"
        )
    return table[name].astype(float)


def by_group(run: Run, group: str, name: str = "accuracy") -> pd.Series:
    """A column of `clients`, by round: the mean over the clients of a group."""
    clients = run.clients
    chosen = clients[clients["group"] == group]
    if chosen.empty:
        raise unknown(f"group of clients in {run.folder}", group, {str(g) for g in clients["group"].unique()})
    return chosen.groupby("round")[name].mean().astype(float)


def neighbours_by_group(run: Run, group: str, name: str = "cumulated") -> pd.Series:
    """Neighbours by round, from round 1: the mean over the clients of a group.

    name: `degree` (in the round), `cumulated` (degrees added up) or `distinct` (different ones so far); see
    `analysis.neighbours`.
    """
    table = neighbours(run)
    chosen = table[table["group"] == group]
    if chosen.empty:
        raise unknown(f"group of clients in {run.folder}", group, set(table["group"]))
    return chosen.set_index("round")[name].astype(float)


def _after_start(series: pd.Series) -> pd.Series:
    """A series without round 0, in which nothing has been learnt."""
    return series[series.index > 0]


def _percent(series: pd.Series) -> float:
    """The mean of a series in percent; NaN where any of it is."""
    return 100 * float(series.mean(skipna=False))


def _later_half(run: Run) -> float:
    series = column(run)
    return _percent(series[series.index > series.index[-1] / 2])


def _smallest_b(run: Run) -> float:
    # Imported here: it takes learning along, which a study that is only listed does not need.
    from fedroam.analysis.connectivity.contact_statistics import recorded

    length = recorded(run).smallest_window().length
    return math.inf if length is None else float(length)


final = Measure("final accuracy", "%", final_accuracy)
best = Measure("highest accuracy", "%", lambda run: 100 * float(np.nanmax(column(run))))
over_run = Measure("accuracy averaged over the run", "%", lambda run: _percent(_after_start(column(run))))
mean_model = Measure(
    "final accuracy of the averaged model",
    "%",
    lambda run: 100 * float(column(run, "accuracy_mean_model").iloc[-1]),
)
# Steadier than the final accuracy, which swings from round to round where clients' data are unlike.
later_half = Measure("accuracy averaged over the later half of the run", "%", _later_half)
# B-strong connectivity (Jahani et al., Property 1): infinite where the whole run leaves somebody apart.
smallest_b = Measure(
    "smallest B", "rounds", _smallest_b, digits=0, horizon=lambda run: float(run.status["rounds"])
)


def last(k: int) -> Measure:
    """Accuracy averaged over the last k evaluated rounds after the start.

    One evaluation swings from round to round; claims on what is gained at the end are steadier by the mean of a few.
    A run with fewer has the mean of those. Raises InputError where k is below 1.
    """
    if k < 1:
        raise InputError(f"last({k}): allowed is a number of evaluations from 1 on")
    return Measure(
        f"accuracy averaged over the last {k} evaluations",
        "%",
        lambda run: _percent(_after_start(column(run)).iloc[-k:]),
    )


def group_over_run(group: str, name: str = "accuracy") -> Measure:
    """The accuracy of a group of clients, averaged over the evaluated rounds after the start."""
    return Measure(
        f"accuracy of group {group} averaged over the run",
        "%",
        lambda run: _percent(_after_start(by_group(run, group, name))),
    )


def gap_over_run(ahead: str, behind: str) -> Measure:
    """Accuracy of one group minus that of another, averaged over the evaluated rounds after the start (points)."""

    def number(run: Run) -> float:
        return _percent(_after_start(by_group(run, ahead) - by_group(run, behind)))

    return Measure(f"advantage of group {ahead} over {behind}, averaged over the run", "points", number)


def degree_over_run(group: str) -> Measure:
    """Neighbours a round of the clients of a group, averaged over all rounds; the client itself is not counted."""
    return Measure(
        f"neighbours a round of group {group}",
        "neighbours",
        lambda run: float(neighbours_by_group(run, group, "degree").mean()),
        digits=2,
    )


def rounds_to(accuracy: float) -> Measure:
    """The first evaluated round with at least this accuracy (%); infinity where it is never reached."""
    return Measure(
        f"rounds to {accuracy:g} %", "rounds", lambda run: _first_round(run, accuracy), horizon=last_round
    )


def last_round(run: Run) -> float:
    """The last evaluated round: what was not reached by then takes longer."""
    return float(column(run).index[-1])


def spent_to(accuracy: float, name: str, unit: str, factor: float = 1.0) -> Measure:
    """What a cumulative column of `rounds` (bytes, energy, time) has come to, times a factor, in the first evaluated
    round with at least this accuracy (%); infinity where it is never reached."""

    def number(run: Run) -> float:
        at = _first_round(run, accuracy)
        return math.inf if math.isinf(at) else factor * float(column(run, name).loc[at])

    def horizon(run: Run) -> float:
        return factor * float(column(run, name).iloc[-1])

    return Measure(f"{name} to {accuracy:g} %", unit, number, horizon=horizon)


def _first_round(run: Run, accuracy: float) -> float:
    if not 0 < accuracy <= 100:
        raise InputError(f"accuracy to reach = {accuracy:g}: allowed is a percentage above 0, up to 100")
    series = column(run)
    hits = series.index[100 * series.to_numpy() >= accuracy]
    return float(hits[0]) if len(hits) else math.inf


energy = Measure("energy of all clients", "J", lambda run: float(column(run, "energy").iloc[-1]))
wasted = Measure("wasted energy", "J", lambda run: float(column(run, "energy_wasted").iloc[-1]))

BY_NAME: dict[str, Measure] = {
    "final": final,
    "best": best,
    "mean": over_run,
    "mean_model": mean_model,
    "energy": energy,
    "wasted": wasted,
}
_WITH_NUMBER: dict[str, Callable[[float], Measure]] = {
    "last": lambda k: last(int(k)),
    "rounds_to": rounds_to,
    "energy_to": lambda accuracy: spent_to(accuracy, "energy", "J"),
    "drawn_to": lambda accuracy: spent_to(accuracy, "battery_drawn", "J"),
    "time_to": lambda accuracy: spent_to(accuracy, "time", "s"),
    "bytes_to": lambda accuracy: spent_to(accuracy, "bytes", "MB", 1e-6),
}


def measure(name: str) -> Measure:
    """A measure by its name: final, best, mean, mean_model, energy, wasted, last:K, or rounds_to, time_to, energy_to,
    drawn_to (from batteries), bytes_to and :PERCENT."""
    word, colon, number = name.partition(":")
    if word in BY_NAME and not colon:
        return BY_NAME[word]
    if word == "last" and colon and not re.fullmatch(r"[1-9][0-9]{0,8}", number):
        raise InputError(f"statistic {name!r}: allowed is a whole number of evaluations from 1, e.g. last:5")
    if word in _WITH_NUMBER and re.fullmatch(r"\d+(\.\d+)?", number):
        return _WITH_NUMBER[word](float(number))
    raise unknown(
        "statistic", name, [*BY_NAME, "last:5", *(f"{each}:80" for each in _WITH_NUMBER if each != "last")]
    )
