"""The result of a study in a few sentences, with numbers and errors."""

from __future__ import annotations

import math

import pandas as pd

from fedroam.analysis.formatting import number
from fedroam.analysis.statistics.verdicts import ALPHA
from fedroam.analysis.summary import Comparison

_MOST = 8  # comparisons put into words; the table has all of them


def headline(comparison: Comparison) -> list[str]:
    """Sentences about a comparison: who ends highest, then each difference to the first variant."""
    table = comparison.table
    known = table[table["final"].notna()]
    if not len(known):
        return ["No run has a final accuracy that is a number; see the notes."]
    best = known.iloc[int(known["final"].to_numpy().argmax())]
    seeds = int(best["seeds"])
    over = f"mean ± standard error over {seeds} seeds" if seeds > 1 else "one seed"
    if len(table) == 1:
        alike = comparison.evaluated_models.get(best["variant"]) == "global"
        who = "the global model reaches" if alike else "the clients' models reach"
        return [f"After {best['rounds']} rounds {who} a test accuracy of {_points(best)} ({over})."]
    text = f"After {best['rounds']} rounds “{best['variant']}” ends highest: test accuracy {_points(best)} ({over})"
    others = known[known["variant"] != best["variant"]]
    if 0 < len(others) <= 3:
        text += ", against " + ", ".join(
            f"{_points(row)} for “{row['variant']}”" for _, row in others.iterrows()
        )
    sentences = [text + "."]
    compared = [row for _, row in known.iterrows() if row["difference_n"]]
    sentences += [_difference(row, comparison.first) for row in compared[:_MOST]]
    if len(compared) > 1:
        sentences.append("Intervals are for each comparison alone; p is corrected for their number (Holm).")
    return sentences


def _difference(row: pd.Series, first: str) -> str:
    """One comparison, with what its interval allows to say."""
    n, gap = int(row["difference_n"]), float(row["difference"])
    shown = number(gap, row["difference_error"], scale=100, sign=True)
    low, high, p = (float(row[f"difference_{end}"]) for end in ("low", "high", "p"))
    if not math.isfinite(gap):
        return (
            f"“{row['variant']}” minus “{first}”: in one of {n} seeds or more a final accuracy is no number."
        )
    if n < 2:
        return (
            f"“{row['variant']}” minus “{first}”: {shown} percentage points, one seed: no error can be given."
        )
    if not math.isfinite(low):
        verdict = (
            "more than half of all seeds differ that way" if p <= ALPHA else "no difference is established"
        )
        return (
            f"“{row['variant']}” minus “{first}”: {shown} percentage points in each of {n} seeds, paired; "
            f"no interval (exact sign test), p = {p:.2g}: {verdict}."
        )
    ends = f"{number(low, scale=100, sign=True)} to {number(high, scale=100, sign=True)}"
    verdict = "no difference is established" if low <= 0 <= high else "the interval excludes zero"
    return (
        f"“{row['variant']}” minus “{first}”: {shown} percentage points, paired over {n} seeds; "
        f"95\u00a0% interval {ends} (Student's t), p = {p:.2g}: {verdict}."
    )


def _points(row: pd.Series) -> str:
    """A final accuracy: `79.9 ± 1.3 %`."""
    return f"{number(row['final'], row['final_error'], scale=100)}\u00a0%"
