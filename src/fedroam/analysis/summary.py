"""The numbers of a study: one row a variant, means and standard errors over seeds.

Accuracy is the share (0 to 1) of test samples classified correctly: the mean over clients of the accuracy of each
client's own model (or of that which its federation judges it by: see `judges`), each client counting once, on the
shared test set or on each client's own held-out samples (`evaluate_on`). It is not the accuracy of the averaged
model, which the column `mean_model` gives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fedroam.analysis.evaluated_model import judges
from fedroam.analysis.formatting import percent
from fedroam.analysis.variants import Variant, mean_and_error, variants
from fedroam.errors import InputError
from fedroam.recording import Run

# The default threshold: this share of the highest mean final accuracy among the variants compared.
SHARE = 0.9


@dataclass(frozen=True)
class Scores:
    """What one run comes to; accuracies are shares, bytes and joules are totals over all clients.

    energy, energy_wasted: NaN for runs of an older format, which have no account.
    """

    seed: int
    round: int
    final: float
    best: float
    last_k: float
    mean_model: float
    bytes: float
    energy: float
    energy_wasted: float


def scores(run: Run, last: int) -> Scores:
    """The scores of a run; last_k is the mean accuracy of the last `last` evaluated rounds (or all, if fewer)."""
    rounds = run.rounds.sort_values("round")
    accuracy = rounds["accuracy"].to_numpy(np.float64)
    mean_model = rounds["accuracy_mean_model"].to_numpy(np.float64)
    return Scores(
        seed=int(run.status["seed"]),
        round=int(rounds["round"].iloc[-1]),
        final=float(accuracy[-1]),
        best=float(np.nanmax(accuracy)) if np.isfinite(accuracy).any() else math.nan,
        last_k=float(accuracy[-last:].mean()),
        mean_model=float(mean_model[-1]),
        bytes=float(rounds["bytes"].iloc[-1]),
        energy=_at_end(rounds, "energy"),
        energy_wasted=_at_end(rounds, "energy_wasted"),
    )


def _at_end(rounds: pd.DataFrame, column: str) -> float:
    return float(rounds[column].iloc[-1]) if column in rounds else math.nan


def spent(run: Run, column: str, round: int) -> float:
    """What a cumulative column of `rounds` has come to in an evaluated round; NaN where there is no such column."""
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


def compare_table(runs: Sequence[Run], *, last: int = 5, threshold: float | None = None) -> pd.DataFrame:
    """One row a variant. Means are over seeds; `*_error` is the standard error, s / sqrt(n) with n - 1 in s.

    variant, seeds (n, the runs that count), rounds (the last one that all of them reached);
    final, best, last_k, mean_model with errors: accuracies as shares (last_k: mean of the last `last` evaluated
    rounds; mean_model: the averaged model's, at the end);
    rounds_to, rounds_to_error: first evaluated round with an accuracy of at least `threshold`, over the runs that
    reached it; reached: how many did (NaN and 0 where none: never is not a number);
    bytes, bytes_error: sent by all to the end; bytes_to, bytes_to_error: up to the round in which the threshold was
    reached, over the runs that reached it;
    energy, energy_wasted, energy_to, with errors: joules of all clients, likewise (NaN for runs without an account);
    difference, difference_error, difference_n: final accuracy minus that of the first variant with the same seed;
    diverged, unfinished: the seeds, as text.

    Finished runs count; where a variant has none, its unfinished runs count as far as they got. Differences are
    taken between runs that ended in the same round. The default `threshold` is 90 % of the highest mean final
    accuracy in the table. `table.attrs` holds last, threshold, threshold_rule, first (label), judges (see `judges`) and
    notes. Raises InputError where nothing has been recorded, or last or threshold is out of its range.
    """
    if last < 1:
        raise InputError(f"last = {last}: allowed is a whole number of at least 1")
    if threshold is not None and not 0 < threshold <= 1:
        raise InputError(
            f"threshold = {threshold:g}: allowed is a share of correct answers above 0, up to 1 (0.8 is 80 %)"
        )
    groups = variants(runs)
    found = [[scores(run, last) for run in group.judged] for group in groups]
    if not any(found):
        raise InputError(f"{runs[0].folder}: no round has been recorded yet; run it first")
    rule = "given"
    if threshold is None:
        finals = [mean_and_error([s.final for s in each])[0] for each in found]
        best = max((value for value in finals if math.isfinite(value)), default=math.nan)
        threshold, rule = SHARE * best, f"{percent(SHARE, 0)} of the highest mean final accuracy"
    first = next(k for k, each in enumerate(found) if each)
    rows = [
        _row(group, each, found[first] if k != first else [], threshold)
        for k, (group, each) in enumerate(zip(groups, found, strict=True))
    ]
    table = pd.DataFrame(rows)
    table.attrs = {
        "last": last,
        "threshold": threshold,
        "threshold_rule": rule,
        "first": groups[first].label,
        "judges": judges(groups),
        "notes": [note for group in groups for note in group.notes],
    }
    return table


def _row(group: Variant, each: list[Scores], first: list[Scores], threshold: float) -> dict[str, object]:
    """A variant's row; `first` is what to take differences from."""
    row: dict[str, object] = {
        "variant": group.label,
        "seeds": len(each),
        "rounds": min((s.round for s in each), default=0),
    }
    for name in ("final", "best", "last_k", "mean_model"):
        row[name], row[f"{name}_error"] = mean_and_error([getattr(s, name) for s in each])
    hits = [(run, hit) for run in group.judged if (hit := reached(run, threshold)) is not None]
    row["rounds_to"], row["rounds_to_error"] = mean_and_error([hit for _, hit in hits])
    row["reached"] = len(hits)
    for name in ("bytes", "energy", "energy_wasted"):
        row[name], row[f"{name}_error"] = mean_and_error([getattr(s, name) for s in each])
    for name in ("bytes", "energy"):
        to = [spent(run, name, hit) for run, hit in hits]
        row[f"{name}_to"], row[f"{name}_to_error"] = mean_and_error(to)
    there = {(s.seed, s.round): s.final for s in first}
    gaps = [s.final - there[s.seed, s.round] for s in each if (s.seed, s.round) in there]
    row["difference"], row["difference_error"] = mean_and_error(gaps)
    row["difference_n"] = len(gaps)
    row["diverged"] = _seeds([run for run in group.runs if run.status.get("diverged_at") is not None])
    row["unfinished"] = _seeds([run for run in group.runs if not run.done])
    return row


def _seeds(runs: Sequence[Run]) -> str:
    """The seeds of runs, as text: `0, 2`."""
    return ", ".join(str(run.status["seed"]) for run in runs)
