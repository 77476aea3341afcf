"""The numbers behind a report's curves, for the drawings that answer: hovering, hiding, downloading."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedroam.analysis.figures.catalogue import SPECS, isolated_axis
from fedroam.analysis.figures.costs import per_round, spent_and_gained
from fedroam.analysis.figures.pareto import Offer, front
from fedroam.analysis.formatting import JOULES, Units, largest
from fedroam.analysis.report.scripts import deflated
from fedroam.analysis.variants import Variant, mean_by_round, over_seeds

POINTS = 400  # of a line; more cannot be told apart on a screen
_DIGITS = 5  # of every number: finer than a pixel, and half as long

Chart = dict[str, Any]
Columns = tuple[Sequence[Any], Sequence[Any], Sequence[Any], int]  # x, mean, error, n


def chart(title: str, x: str, y: str, lines: Sequence[tuple[str, Columns]], *, log: bool = False) -> Chart:
    """What one drawing shows, as JSON values: `series`, one a label, each with x, mean, error and n.

    x, y: labels of the axes with their units. Lines of more than `POINTS` points are thinned out evenly, the last one
    is kept; `thinned` says so. A number that is none is null.
    """
    series, most = [], max((len(columns[0]) for _, columns in lines), default=0)
    for label, (at, mean, error, n) in lines:
        kept = _kept(len(at))
        series.append(
            {
                "label": label,
                "n": n,
                "x": _numbers(at, kept),
                "mean": _numbers(mean, kept),
                "error": _numbers(error, kept),
            }
        )
    return {"title": title, "x": x, "y": y, "log": log, "series": series, "thinned": most > POINTS}


def curves(compared: Sequence[Variant]) -> dict[str, Chart]:
    """The charts of the figures over rounds and over costs, by the names of those figures."""
    found = {}
    for spec in SPECS:
        made: Chart | None = None
        if spec.units:
            made = _against(compared, spec.title, spec.column, spec.label, spec.units)
        elif spec.column:
            made = _column(compared, spec.column, spec.title, spec.label, spec.scale, spec.log)
        elif spec.name in _MADE:
            made = _MADE[spec.name](compared, spec.title)
        if made is not None:
            found[spec.name] = made
    return found


def scatter(title: str, x: str, y: str, offers: Sequence[Offer]) -> Chart:
    """The chart of a Pareto front: a series of one point for each offer; `front`: which of them none beats."""
    lines = [(offer.label, ([offer.cost], [offer.gain], [offer.error], offer.seeds)) for offer in offers]
    return {**chart(title, x, y, lines), "points": True, "front": front(offers)}


def packed(value: Any) -> str:
    """JSON values as base64 of a zlib stream: short, and without any character that HTML gives a meaning."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return deflated(text.encode("utf-8"))


def _column(
    compared: Sequence[Variant], column: str, title: str, label: str, scale: float = 1.0, log: bool = False
) -> Chart | None:
    """A column of `rounds` over rounds; logarithmic where asked for and the values span a factor of 30."""
    lines = []
    for variant in compared:
        table = over_seeds(variant, column)
        lines.append((variant.label, _scaled(table["round"], table, scale)))
    means = _means(lines)
    if not len(means):
        return None
    positive = means[means > 0]
    wide = len(positive) > 0 and positive.max() > 30 * positive.min()
    return chart(title, "Communication round", label, lines, log=bool(log and wide))


def _isolated(compared: Sequence[Variant], title: str) -> Chart | None:
    label, scale = isolated_axis(compared)
    return _column(compared, "isolated", title, label, scale)


def _against(compared: Sequence[Variant], title: str, column: str, label: str, units: Units) -> Chart | None:
    """Accuracy against what was spent so far."""
    known = spent_and_gained(compared, column, units)
    if known is None:
        return None
    found, unit, factor = known
    lines = [
        (variant.label, _scaled(spent["mean"] / factor, gained, 100))
        for variant, (spent, gained) in zip(compared, found, strict=True)
    ]
    return chart(title, f"{label} ({unit})", "Clients' test accuracy (%)", lines)


def _energy_per_round(compared: Sequence[Variant], title: str) -> Chart | None:
    """Joules a round by variant, then those wasted, of variants that wasted any."""
    spent, wasted = (
        [
            mean_by_round([one for run in variant.included if len(one := per_round(run, column))])
            for variant in compared
        ]
        for column in ("energy", "energy_wasted")
    )
    most = max((table["mean"].max() for table in spent if table["mean"].notna().any()), default=0.0)
    if not (math.isfinite(most) and most > 0):
        return None
    unit, factor = largest(most, JOULES)
    named = [(variant.label, table) for variant, table in zip(compared, spent, strict=True)]
    named += [
        (f"{variant.label}, wasted", table)
        for variant, table in zip(compared, wasted, strict=True)
        if len(table) and table["mean"].max() > 0
    ]
    lines = [(label, _scaled(table["round"], table, 1 / factor)) for label, table in named]
    return chart(title, "Communication round", f"Energy ({unit} a round)", lines)


# The figures that their own functions draw.
_MADE: Mapping[str, Callable[[Sequence[Variant], str], Chart | None]] = {
    "isolated": _isolated,
    "energy_per_round": _energy_per_round,
}


def _scaled(x: pd.Series, table: pd.DataFrame, scale: float) -> Columns:
    mean, error = (table[name].to_numpy(np.float64) * scale for name in ("mean", "error"))
    n = int(table["n"].iloc[0]) if len(table) else 0
    return x.to_numpy(np.float64).tolist(), mean.tolist(), error.tolist(), n


def _means(lines: Sequence[tuple[str, Columns]]) -> np.ndarray:
    """All finite means of all lines."""
    values = np.array([value for _, (_, mean, _, _) in lines for value in mean], dtype=np.float64)
    return values[np.isfinite(values)]


def _kept(points: int) -> np.ndarray:
    """Which points of a line are kept, as indices."""
    return np.unique(np.linspace(0, max(points - 1, 0), min(points, POINTS)).round().astype(np.int64))


def _numbers(values: Sequence[Any], kept: np.ndarray) -> list[float | None]:
    return [_number(float(values[k])) for k in kept.tolist()]


def _number(value: float) -> float | int | None:
    """A number with few digits; whole ones stay whole. None where it is no finite number."""
    if not math.isfinite(value):
        return None
    short = value if abs(value) >= 10**_DIGITS else float(f"{value:.{_DIGITS}g}")
    return int(short) if short == int(short) and abs(short) < 2**53 else short
