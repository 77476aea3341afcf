"""Runs that differ in varied settings: tables by one setting and figures over them.

What is not asked for is averaged within each seed first, so that n is the number of seeds and nothing else.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from fedroam.analysis.figures.catalogue import ReportFigure
from fedroam.analysis.figures.error_bars import ErrorBars, error_bar_figure, key_text
from fedroam.analysis.figures.heatmap import heatmap_figure
from fedroam.analysis.figures.lines import Line, lines_figure
from fedroam.analysis.formatting import NONE, number
from fedroam.analysis.report.page import table_html
from fedroam.analysis.statistics.paired import above
from fedroam.analysis.statistics.threshold import Threshold, smallest_reaching
from fedroam.analysis.statistics.verdicts import holm
from fedroam.analysis.summary import summarise
from fedroam.analysis.variants import by_round, mean_and_error
from fedroam.errors import InputError, unknown
from fedroam.recording import Run

Statistic = Callable[[Run], float]
_LINES = 6  # more lines in one panel cannot be told apart
_PAIRS = 3  # heat maps in a report
_LABEL = "Final accuracy (%)"


@dataclass(frozen=True)
class SweepPoint:
    """A run of a sweep: its varied settings by dotted name, and its seed. run: None where it is missing."""

    keys: Mapping[str, Any]
    seed: int
    run: Run | None


@dataclass(frozen=True)
class Marginal:
    """Numbers by the values of some settings: for each, one number a seed. pooled: what was averaged over."""

    by: tuple[str, ...]
    groups: dict[tuple[Any, ...], dict[int, float]]
    pooled: str


def final_accuracy(run: Run) -> float:
    """Accuracy (%) at the end: the mean over clients of the accuracy of each one's own model."""
    return 100 * summarise(run, 1).final


def marginal(points: Sequence[SweepPoint], by: Sequence[str], statistic: Statistic) -> Marginal:
    """One number for each value of the settings `by` and each seed, averaged over the other settings.

    The average is over those combinations of the others that every value was run with; a seed counts for a value if
    all of them are finished. Raises InputError for a setting that does not vary.
    """
    varied = list(dict.fromkeys(name for point in points for name in point.keys))
    for name in by:
        if name not in varied:
            raise unknown("varied setting", name, varied)
    rest = [name for name in varied if name not in by]

    def at(point: SweepPoint, names: Sequence[str]) -> tuple[Any, ...]:
        return tuple(point.keys.get(name) for name in names)

    found: dict[tuple[Any, ...], dict[tuple[Any, ...], dict[int, Run | None]]] = {}
    for point in points:
        found.setdefault(at(point, by), {}).setdefault(at(point, rest), {})[point.seed] = point.run
    common = set.intersection(*(set(cells) for cells in found.values())) if found else set()
    groups: dict[tuple[Any, ...], dict[int, float]] = {}
    for value, cells in found.items():
        wanted = [cells[other] for other in cells if not common or other in common]
        seeds = sorted(set.intersection(*(set(cell) for cell in wanted)))
        groups[value] = {}
        for seed in seeds:
            runs = [cell[seed] for cell in wanted]
            if all(run is not None for run in runs):
                groups[value][seed] = float(np.mean([statistic(run) for run in runs if run is not None]))
    pooled = "; ".join(
        f"{name} = {', '.join(dict.fromkeys(key_text(other[k]) for other in sorted(common, key=repr)))}"
        for k, name in enumerate(rest)
    )
    return Marginal(tuple(by), groups, pooled)


def marginal_table(found: Marginal) -> pd.DataFrame:
    """One row for each value: the settings, seeds, mean, error; difference to the first row, paired by seed, with
    n, its 95 % confidence interval (low, high), and p: two-sided, corrected by Holm's method over the rows."""
    rows = []
    first = next(iter(found.groups.values()), {})
    for k, (value, seeds) in enumerate(found.groups.items()):
        row: dict[str, Any] = {**dict(zip(found.by, value, strict=True)), "seeds": len(seeds)}
        row["mean"], row["error"] = mean_and_error(list(seeds.values()))
        gaps = [seeds[seed] - first[seed] for seed in seeds if seed in first] if k else []
        row["difference"], row["difference_error"] = mean_and_error(gaps)
        row["n"] = len(gaps)
        evidence = above(gaps)
        row["low"], row["high"] = evidence.low, evidence.high
        row["p"] = min(1.0, 2 * min(evidence.p_holds, evidence.p_fails)) if len(gaps) > 1 else math.nan
        rows.append(row)
    table = pd.DataFrame(rows)
    tested = table["p"].notna()
    table.loc[tested, "p"] = holm(table.loc[tested, "p"].tolist())
    return table


def reaching(found: Marginal, bound: float) -> Threshold:
    """The smallest value of the one setting that reaches `bound`; seeds that ran at every value count."""
    if len(found.by) != 1 or not all(_is_number(value[0]) for value in found.groups):
        raise InputError(f"{', '.join(found.by)}: a threshold needs one setting whose values are numbers")
    seeds = sorted(set.intersection(*(set(each) for each in found.groups.values())))
    values = np.array([[each[seed] for each in found.groups.values()] for seed in seeds])
    keys = [float(value[0]) for value in found.groups]
    return smallest_reaching(keys, values.reshape(len(seeds), len(keys)), bound)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _values(points: Sequence[SweepPoint], name: str) -> list[Any]:
    return list(dict.fromkeys(point.keys.get(name) for point in points))


def _varied(points: Sequence[SweepPoint]) -> list[str]:
    """The settings that have more than one value."""
    names = dict.fromkeys(name for point in points for name in point.keys)
    return [name for name in names if len(_values(points, name)) > 1]


def sweep_figures(points: Sequence[SweepPoint]) -> Iterator[ReportFigure]:
    """Accuracy over rounds by setting (small multiples where two vary), final accuracy over each setting of numbers,
    with error bars, and over pairs of settings, as heat maps; made when asked for.
    """
    varied = _varied(points)
    if not varied:
        return
    yield from _lines(points, varied)
    for name in varied:
        if len(_values(points, name)) > 2 and all(_is_number(value) for value in _values(points, name)):
            yield from _error_bars(points, varied, name)
    for x, y in itertools.islice(itertools.combinations(varied, 2), _PAIRS):
        found = marginal(points, (x, y), final_accuracy)
        values = {(a, b): list(seeds.values()) for (a, b), seeds in found.groups.items()}
        figure = heatmap_figure(_ordered(points, x), _ordered(points, y), values, x, y, _LABEL)
        if figure is not None:
            caption = f"{_LABEL}, mean ± standard error over seeds{_over(found)}."
            yield ReportFigure(_file("heat", x, y), f"{y} and {x}", caption, figure, part="sweep")


def sweep_section(points: Sequence[SweepPoint]) -> tuple[str, list[ReportFigure]]:
    """What a report tells of a sweep: a table for each varied setting (HTML), and the figures."""
    drawn = list(sweep_figures(points))
    parts = []
    for name in _varied(points):
        found = marginal(points, (name,), final_accuracy)
        rows = []
        for row in marginal_table(found).to_dict("records"):
            texts = [key_text(row[name]), str(row["seeds"]), number(row["mean"], row["error"])]
            texts.append(number(row["difference"], row["difference_error"], sign=True))
            texts.append(f"{row['p']:.2g}" if math.isfinite(row["p"]) else NONE)
            rows.append([escape(text) for text in texts])
        heads = [name, "Seeds", _LABEL, "Difference to first (points)", "p"]
        parts.append(f"<h3>By {escape(name)}</h3>{table_html(heads, rows)}")
        told = "Mean ± standard error over seeds; differences are paired by seed; p: two-sided t, Holm's correction."
        told += f" Averaged within each seed over {found.pooled}." if found.pooled else ""
        parts.append(f'<p class="small">{escape(told)}</p>')
    return "".join(parts), drawn


def _ordered(points: Sequence[SweepPoint], name: str) -> list[Any]:
    values = _values(points, name)
    return sorted(values) if all(_is_number(value) for value in values) else values


def _over(found: Marginal) -> str:
    return f", averaged over {found.pooled}" if found.pooled else ""


def _file(kind: str, *names: str) -> str:
    return "-".join([kind, *names]).replace(".", "_")


def _at(points: Sequence[SweepPoint], name: str | None, value: Any) -> list[SweepPoint]:
    """The points where a setting has a value; all of them without a setting."""
    return [point for point in points if name is None or point.keys.get(name) == value]


def _lines(points: Sequence[SweepPoint], varied: Sequence[str]) -> Iterator[ReportFigure]:
    lines_by = next((name for name in varied if len(_values(points, name)) <= _LINES), varied[0])
    panels_by = next((name for name in varied if name != lines_by), None)
    panels = []
    for panel in [None] if panels_by is None else _ordered(points, panels_by):
        chosen = _at(points, panels_by, panel)
        lines = [
            Line(key_text(value), tuple(_accuracy(_at(chosen, lines_by, value))))
            for value in _ordered(points, lines_by)[:_LINES]
        ]
        panels.append(("" if panels_by is None else f"{panels_by} = {key_text(panel)}", lines))
    figure = lines_figure(panels, "Clients' test accuracy (%)")
    if figure is not None:
        rest = [name for name in varied if name not in (lines_by, panels_by)]
        caption = f"Test accuracy by {lines_by}" + (f", a panel for each {panels_by}" if panels_by else "")
        caption += f", averaged over {', '.join(rest)}." if rest else "."
        shown = len(_values(points, lines_by))
        caption += f" The first {_LINES} of {shown} values are drawn." if shown > _LINES else ""
        yield ReportFigure("sweep-curves", f"Accuracy by {lines_by}", caption, figure, part="sweep")


def _accuracy(points: Sequence[SweepPoint]) -> Iterator[pd.Series]:
    """Accuracy (%) by round, one series a seed: the mean over the runs of the seed."""
    by_seed: dict[int, list[pd.Series]] = {}
    for point in points:
        if point.run is not None:
            accuracy = by_round(point.run)["accuracy"].astype(float)
            by_seed.setdefault(point.seed, []).append(100 * accuracy)
    most = max(map(len, by_seed.values()), default=0)
    for each in by_seed.values():
        if len(each) == most:  # a seed with missing runs would be another mean
            yield pd.concat(each, axis=1, join="inner").mean(axis=1, skipna=False)


def _error_bars(points: Sequence[SweepPoint], varied: Sequence[str], name: str) -> Iterator[ReportFigure]:
    colour = _colour(points, varied, name)
    lines, pooled = [], ""
    for value in [None] if colour is None else _values(points, colour):
        chosen = [
            SweepPoint({key: v for key, v in point.keys.items() if key != colour}, point.seed, point.run)
            for point in _at(points, colour, value)
        ]
        found = marginal(chosen, (name,), final_accuracy)
        pooled = _over(found)
        dots = tuple((key, tuple(seeds.values())) for (key,), seeds in found.groups.items())
        label = f"{colour} = {key_text(value)}" if _is_number(value) else key_text(value)
        lines.append(ErrorBars("" if colour is None else label, dots))
    figure = error_bar_figure(lines, name, _LABEL)
    if figure is not None:
        title, caption = f"{_LABEL} over {name}", f"Mean over seeds{pooled}."
        yield ReportFigure(_file("dose", name), title, caption, figure, part="sweep")


def _colour(points: Sequence[SweepPoint], varied: Sequence[str], first: str) -> str | None:
    """The setting that is told by colour beside `first`: one of words, else the one with fewest values."""
    others = [name for name in varied if name != first and len(_values(points, name)) <= _LINES]

    def rank(name: str) -> tuple[bool, int]:
        values = _values(points, name)
        return all(_is_number(value) for value in values), len(values)

    return min(others, key=rank, default=None)
