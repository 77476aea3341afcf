"""What came out of a sweep, for its last words and for `fedroam compare --by` and `fedroam report`."""

from __future__ import annotations

from collections import Counter
from typing import Any

from fedroam.analysis.figures.error_bars import key_text
from fedroam.analysis.formatting import number
from fedroam.analysis.report.marginals import SweepPoint, in_order
from fedroam.analysis.variants import mean_and_error
from fedroam.sweep import Sweep, SweptRun

_MEASURED = ("accuracy", "loss")  # columns of rounds that the table shows


def points_of(sweep: Sweep) -> list[SweepPoint]:
    """The rows of a sweep with their finished runs."""
    return [SweepPoint(row.keys, row.seed, row.run if row.state == "done" else None) for row in sweep.runs]


def means(sweep: Sweep) -> tuple[list[str], list[list[Any]]]:
    """Headings and rows of a sweep's closing table: one for each combination, numbers in their order.

    Accuracy and loss are those of the last evaluated round, mean ± standard error over the finished seeds; the column
    `seeds` counts these, and `state` tells where others are not done, and how many diverged.
    """
    groups: dict[tuple[Any, ...], list[SweptRun]] = {}
    for row in sweep.runs:
        groups.setdefault(tuple(row.keys.get(name) for name in sweep.varied), []).append(row)
    orders = [in_order(dict.fromkeys(key[k] for key in groups)) for k in range(len(sweep.varied))]
    rows = []
    for key in sorted(groups, key=lambda key: [at.index(one) for at, one in zip(orders, key, strict=True)]):
        runs = [row.run.rounds for row in groups[key] if row.state == "done" and row.run is not None]
        found = [mean_and_error([float(run[name].iloc[-1]) for run in runs]) for name in _MEASURED]
        states = Counter(row.state for row in groups[key])
        told = "done" if set(states) == {"done"} else ", ".join(f"{n} {name}" for name, n in states.items())
        diverged = sum(
            row.run is not None and row.run.status["diverged_at"] is not None for row in groups[key]
        )
        told += f", {diverged} diverged" * (diverged > 0)
        texts = ["" if value is None else key_text(value) for value in key]
        rows.append([*texts, len(runs), told, *(number(mean, error, digits=4) for mean, error in found)])
    return [*sweep.varied, "seeds", "state", *_MEASURED], rows
