"""Runs that broke down: those that diverged, and those whose accuracy fell back to guessing."""

from __future__ import annotations

import pandas as pd

from fedroam.analysis.formatting import percent

FAR = 0.2  # share of answers gained over the models of round 0: far above guessing
LEFT = 0.1  # of what was gained at best: who ends with less fell back to guessing


def fell_back(accuracy: pd.Series) -> bool:
    """Whether accuracy, by round, was far above that of the untrained models of round 0, and ended there again."""
    if accuracy.empty or accuracy.index[0] != 0:
        return False
    gained = accuracy - accuracy.iloc[0]
    return bool(gained.max() >= FAR and gained.iloc[-1] < LEFT * gained.max())


def breakdown(accuracy: pd.Series | None, diverged_at: int | None, end: float | None = None) -> str:
    """What a reader must know of a run that diverged or fell back to guessing: both, and how it was before and at the
    end. Empty where it did neither. accuracy: by round, None where that is not known; end: the last one (0 to 1), which
    may be known even so.
    """
    told = []
    if diverged_at is not None:
        told.append(f"diverged at round {diverged_at} (a loss was no number, or far above guessing)")
    if accuracy is not None and fell_back(accuracy):
        told.append("fell back to guessing")
    if not told:
        return ""
    course = ""
    before = accuracy if accuracy is None or diverged_at is None else accuracy[accuracy.index < diverged_at]
    if accuracy is not None and before is not None and not before.empty:
        when = "" if diverged_at is None else " before"
        course = f": accuracy {percent(before.max())} at best{when}, {percent(accuracy.iloc[-1])} at the end"
    elif end is not None:
        course = f": accuracy {percent(end)} at the end"
    return f"{' and '.join(told)}{course}; it counts in every mean"
