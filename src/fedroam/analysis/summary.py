"""The numbers of a study: one row a variant, means and standard errors over seeds.

Accuracy is the share (0 to 1) of test samples classified correctly: the mean over clients of the accuracy of each
client's own model (or of that which its federation judges it by: `evaluated_models`), each client counting once, on
the shared test set or on each client's own held-out samples (`evaluate_on`). It is not the accuracy of the averaged
model, which the column `mean_model` gives.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fedroam.analysis.evaluated_model import evaluated_models
from fedroam.analysis.fleet import of_every_round, of_transfers
from fedroam.analysis.formatting import percent
from fedroam.analysis.statistics.paired import apart, interval, two_sided
from fedroam.analysis.statistics.verdicts import holm_known
from fedroam.analysis.variants import Variant, mean_and_error, notes_on, variants
from fedroam.errors import InputError
from fedroam.recording import Run

# The default threshold: this share of the highest mean final accuracy among the variants compared.
SHARE = 0.9


@dataclass(frozen=True)
class RunSummary:
    """What one run comes to; accuracies are shares, bytes and joules are totals over all clients.

    energy, energy_wasted: NaN for runs of an older format, which have no account. time: s by the simulated clock, NaN
    where rounds have no length. fit, through: shares of contacts in which all gets through, and of transfers that do;
    broken, late: transfers and clients a round; of evaluated rounds where `every_round` is false; NaN likewise.
    drawn: J from all batteries, NaN without.
    """

    seed: int
    round: int
    final: float
    best: float
    last_k: float
    last_counted: int
    mean_model: float
    bytes: float
    energy: float
    energy_wasted: float
    time: float
    fit: float
    through: float
    broken: float
    late: float
    every_round: bool
    drawn: float


def summarise(run: Run, last: int) -> RunSummary:
    """The summary of a run; last_k is the mean accuracy of the last `last` evaluated rounds, and last_counted says how
    many that are: fewer where there are fewer. Round 0, before any learning, counts only where there is no other.
    """
    rounds = run.rounds.sort_values("round")
    accuracy, end = rounds["accuracy"].to_numpy(np.float64), int(rounds["round"].iloc[-1])
    learnt = accuracy[rounds["round"].to_numpy() > 0]
    counted = (learnt if len(learnt) else accuracy)[-last:]
    transfers = of_transfers(rounds)
    return RunSummary(
        seed=int(run.status["seed"]),
        round=end,
        final=float(accuracy[-1]),
        best=float(np.nanmax(accuracy)) if np.isfinite(accuracy).any() else math.nan,
        last_k=float(counted.mean()),
        last_counted=len(counted),
        mean_model=value_at(run, "accuracy_mean_model", end),
        bytes=value_at(run, "bytes", end),
        energy=value_at(run, "energy", end),
        energy_wasted=value_at(run, "energy_wasted", end),
        time=value_at(run, "time", end),
        fit=transfers.get("fit", math.nan),
        through=transfers.get("through", math.nan),
        broken=transfers.get("broken", math.nan),
        late=transfers.get("late", math.nan),
        every_round=of_every_round(rounds),
        drawn=value_at(run, "battery_drawn", end),
    )


def value_at(run: Run, column: str, round: int) -> float:
    """A column of `rounds` in an evaluated round; NaN where there is no such column."""
    rounds = run.rounds
    if column not in rounds:
        return math.nan
    there = rounds[column].to_numpy(np.float64)[rounds["round"].to_numpy() == round]
    return float(there[-1])


def reached(run: Run, threshold: float) -> int | None:
    """The first evaluated round whose accuracy is at least `threshold`, or None if there is none."""
    rounds = run.rounds.sort_values("round")
    hits = rounds["round"].to_numpy()[rounds["accuracy"].to_numpy(np.float64) >= threshold]
    return int(hits[0]) if len(hits) else None


@dataclass(frozen=True)
class Comparison:
    """Variants beside one another: a row for each in `table`, and what its columns mean.

    last: of how many evaluated rounds last_k is the mean; threshold: the accuracy of rounds_to, and the rule that gave
    it; first: the label of the variant that differences are taken from; evaluated_models: the model that clients are
    judged by, by variant; evaluated_on: the setting of that name, by variant; notes: what a reader must know of
    unfinished and diverged runs.
    """

    table: pd.DataFrame
    last: int
    threshold: float
    threshold_rule: str
    first: str
    evaluated_models: Mapping[str, str]
    evaluated_on: Mapping[str, str]
    notes: tuple[str, ...]


def compare_runs(runs: Sequence[Run], *, last: int = 5, threshold: float | None = None) -> Comparison:
    """Compare variants, one row each. Means are over seeds; `*_error` is the standard error, s / sqrt(n), n - 1 in s.

    variant, seeds (n, the runs that count), rounds (the last one that all of them reached);
    final, best, last_k, mean_model with errors: accuracies as shares (last_k: mean of the last `last` evaluated
    rounds after round 0; mean_model: the averaged model's, at the end); last_counted: of how many rounds last_k is the
    mean, the fewest of any seed;
    rounds_to, rounds_to_error: first evaluated round with an accuracy of at least `threshold`, over the runs that
    reached it; reached: how many did (NaN and 0 where none: never is not a number);
    bytes, bytes_error: sent by all to the end; bytes_to, bytes_to_error: up to the round in which the threshold was
    reached, over the runs that reached it;
    energy, energy_wasted, energy_to, with errors: joules of all clients, likewise (NaN for runs without an account);
    time, time_to, with errors: seconds by the simulated clock, likewise (NaN where rounds have no length);
    fit, through, with errors: shares of contacts in which all gets through, and of transfers that do; broken, late,
    with errors: broken transfers and late clients a round (NaN likewise); every_round: in how many runs these are of
    all rounds, and not only of the evaluated ones, as in runs of older versions;
    drawn, drawn_to, with errors: joules drawn from all batteries, as energy (NaN without batteries);
    difference, difference_error, difference_n: final accuracy minus that of the first variant with the same seed;
    difference_low, difference_high, difference_p: its 95 % confidence interval, for this comparison alone, and the
    two-sided p-value (t), by Holm's correction over the rows (NaN with fewer than two seeds in both; where all seeds
    differ by the same there is no interval, NaN, and the exact sign test takes the place of t);
    diverged, unfinished: the seeds, as text.

    Finished runs count; where a variant has none, its unfinished runs count as far as they got. Differences are
    taken between runs that ended in the same round. The default `threshold` is 90 % of the highest mean final
    accuracy in the table. Raises InputError where nothing has been recorded, or last or threshold is out of its range.
    """
    if last < 1:
        raise InputError(f"last = {last}: allowed is a whole number of at least 1")
    if threshold is not None and not 0 < threshold <= 1:
        raise InputError(
            f"threshold = {threshold:g}: allowed is a share of correct answers above 0, up to 1 (0.8 is 80 %)"
        )
    compared = variants(runs)
    found = [[summarise(run, last) for run in variant.included] for variant in compared]
    if not any(found):
        raise InputError(f"{runs[0].folder}: no round has been recorded yet; run it first")
    rule = "given"
    if threshold is None:
        finals = [mean_and_error([s.final for s in each])[0] for each in found]
        best = max((value for value in finals if math.isfinite(value)), default=math.nan)
        threshold, rule = SHARE * best, f"{percent(SHARE, 0)} of the highest mean final accuracy"
    first = next(k for k, each in enumerate(found) if each)
    rows = [
        _row(variant, each, found[first] if k != first else [], threshold)
        for k, (variant, each) in enumerate(zip(compared, found, strict=True))
    ]
    adjusted = holm_known([row["difference_p"] for row in rows])
    rows = [{**row, "difference_p": p} for row, p in zip(rows, adjusted, strict=True)]
    scale = link_scale_note([run for variant in compared for run in variant.included])
    return Comparison(
        pd.DataFrame(rows),
        last,
        threshold,
        rule,
        compared[first].label,
        evaluated_models(compared),
        {v.label: str(v.included[0].settings.get("evaluate_on", "shared")) for v in compared if v.included},
        (*notes_on(compared), *([scale] if scale else [])),
    )


def _row(
    variant: Variant, each: list[RunSummary], first: list[RunSummary], threshold: float
) -> dict[str, Any]:
    """A variant's row; `first` is what to take differences from."""
    row: dict[str, Any] = {
        "variant": variant.label,
        "seeds": len(each),
        "rounds": min((s.round for s in each), default=0),
    }

    def put(name: str, values: Sequence[float]) -> None:
        row[name], row[f"{name}_error"] = mean_and_error(values)

    put("final", [s.final for s in each])
    put("best", [s.best for s in each])
    put("last_k", [s.last_k for s in each])
    row["last_counted"] = min((s.last_counted for s in each), default=0)
    put("mean_model", [s.mean_model for s in each])
    hits = [(run, hit) for run in variant.included if (hit := reached(run, threshold)) is not None]
    put("rounds_to", [hit for _, hit in hits])
    row["reached"] = len(hits)
    put("bytes", [s.bytes for s in each])
    put("energy", [s.energy for s in each])
    put("energy_wasted", [s.energy_wasted for s in each])
    put("time", [s.time for s in each])
    put("time_to", [value_at(run, "time", hit) for run, hit in hits])
    put("fit", [s.fit for s in each])
    put("through", [s.through for s in each])
    put("broken", [s.broken for s in each])
    put("late", [s.late for s in each])
    row["every_round"] = sum(s.every_round for s in each)
    put("drawn", [s.drawn for s in each])
    put("drawn_to", [value_at(run, "battery_drawn", hit) for run, hit in hits])
    put("bytes_to", [value_at(run, "bytes", hit) for run, hit in hits])
    put("energy_to", [value_at(run, "energy", hit) for run, hit in hits])
    there = {(s.seed, s.round): s.final for s in first}
    gaps = [apart((s.final, -there[s.seed, s.round])) for s in each if (s.seed, s.round) in there]
    put("difference", gaps)
    row["difference_n"] = len(gaps)
    row["difference_low"], row["difference_high"] = interval(gaps)
    row["difference_p"] = two_sided(gaps)
    row["diverged"] = _seeds([run for run in variant.runs if run.status.get("diverged_at") is not None])
    row["unfinished"] = _seeds([run for run in variant.runs if not run.done])
    return row


def _seeds(runs: Sequence[Run]) -> str:
    """The seeds of runs, as text: `0, 2`."""
    return ", ".join(str(run.status["seed"]) for run in runs)


def link_scale_note(runs: Sequence[Run]) -> str:
    """What a reader must know of runs whose access points differ; '' where there is nothing to know."""
    told = [run for run in runs if run.world.get("distance_mean") is not None]
    places = {json.dumps(run.settings.get("access_points"), sort_keys=True) for run in told}
    if len(places) < 2:
        return ""
    found = {(run.world["distance_mean"], run.world["distance_std"]) for run in told}
    if len(found) == 1:
        mean, std = found.pop()
        return (
            "access points vary; LTE is measured by one scale in all runs: distances between clients and access points "
            f"of {mean:.4g} m on average, standard deviation {std:.4g} m"
        )
    return (
        "access points vary, and each run measures LTE by its own distances: what counts as far away is farther where "
        "there are fewer of them, so energy hardly shows how many there are (radio.distance_mean and "
        "radio.distance_std set one scale for all)"
    )
