"""What a report tells of a sweep: the best setting, a table by each varied one, and figures over them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import pandas as pd

from fedroam.analysis.figures.catalogue import ReportFigure
from fedroam.analysis.figures.error_bars import ErrorBars, error_bar_figure, key_text
from fedroam.analysis.figures.heatmap import heatmap_figure
from fedroam.analysis.figures.lines import Line, lines_figure
from fedroam.analysis.figures.pareto import Offer, pareto_figure
from fedroam.analysis.formatting import BYTES, JOULES, NONE, Units, largest, number
from fedroam.analysis.report.charts import Chart, scatter
from fedroam.analysis.report.marginals import (
    Marginal,
    Statistic,
    SweepPoint,
    best_setting,
    final_accuracy,
    is_number,
    marginal,
    marginal_table,
    values_of,
    varied_settings,
)
from fedroam.analysis.report.page import table_html
from fedroam.analysis.summary import summarise, value_at
from fedroam.analysis.variants import mean_and_error, settings_text

_LINES = 6  # more lines in one panel cannot be told apart
_PAIRS = 3  # pairs of settings with heat maps in a report
_LABEL = "Final accuracy (%)"
_NO_UNIT: Units = (("", 1.0),)
_SECONDS: Units = (("h", 3600.0), ("s", 1.0))


@dataclass(frozen=True)
class Outcome:
    """A number of a run that heat maps and trade-offs show: its file name, heading, units, and how it is found."""

    name: str
    title: str
    units: Units
    of: Statistic


def _at_the_end(column: str) -> Statistic:
    return lambda run: value_at(run, column, int(run.rounds["round"].max()))


_GAINS = (
    Outcome("final", _LABEL, _NO_UNIT, final_accuracy),
    Outcome("best", "Highest accuracy (%)", _NO_UNIT, lambda run: 100 * summarise(run, 1).best),
    Outcome(
        "last",
        "Mean accuracy of the last 5 evaluations (%)",
        _NO_UNIT,
        lambda run: 100 * summarise(run, 5).last_k,
    ),
    Outcome(
        "mean_model",
        "Accuracy of the averaged model (%)",
        _NO_UNIT,
        lambda run: 100 * summarise(run, 1).mean_model,
    ),
)
# What an accuracy costs, of all clients together.
_COSTS = (
    Outcome("energy", "Energy", JOULES, _at_the_end("energy")),
    Outcome("bytes", "Bytes sent", BYTES, _at_the_end("bytes")),
    Outcome("air_time", "Air time", _SECONDS, _at_the_end("air_time")),
    Outcome("seconds", "Time to compute", _SECONDS, _at_the_end("seconds")),
)
_REST = (
    Outcome("wasted", "Wasted energy", JOULES, _at_the_end("energy_wasted")),
    Outcome("loss", "Test loss (nats)", _NO_UNIT, _at_the_end("loss")),
    Outcome("consensus", "Consensus distance", _NO_UNIT, _at_the_end("consensus_distance")),
)


def sweep_figures(points: Sequence[SweepPoint]) -> Iterator[ReportFigure]:
    """Accuracy over rounds by setting (small multiples where two vary), final accuracy over each setting of numbers,
    with error bars, and over pairs of settings, as heat maps; made when asked for.
    """
    varied = varied_settings(points)
    if not varied:
        return
    yield from _lines(points, varied)
    for name in varied:
        if len(values_of(points, name)) > 2 and all(is_number(value) for value in values_of(points, name)):
            yield from _error_bars(points, varied, name)
    for quantity in (*_GAINS, *_COSTS, *_REST):
        yield from _heat_maps(points, varied, quantity)
    for name, title, offers, label in _trade_offs(points, varied):
        caption = (
            "A dot for each setting, mean over seeds; strokes: standard error of the accuracy. Filled: no other "
            "setting has a higher accuracy for as little or less (the Pareto front)."
        )
        yield ReportFigure(name, title, caption, pareto_figure(offers, label, _LABEL), part="sweep")


def sweep_charts(points: Sequence[SweepPoint]) -> dict[str, Chart]:
    """The numbers behind those figures of a sweep that answer."""
    told = _trade_offs(points, varied_settings(points))
    return {name: scatter(title, label, _LABEL, offers) for name, title, offers, label in told}


def _trade_offs(
    points: Sequence[SweepPoint], varied: Sequence[str]
) -> Iterator[tuple[str, str, list[Offer], str]]:
    """For each cost that differs between settings: the figure's name and title, the offers, the label of the costs."""
    for cost in _COSTS if varied else ():
        found = _offers(points, varied, cost)
        if found is not None:
            yield f"pareto-{cost.name}", f"Accuracy against {cost.title.lower()}", *found


def _heat_maps(points: Sequence[SweepPoint], varied: Sequence[str], what: Outcome) -> Iterator[ReportFigure]:
    """A quantity over pairs of settings; nothing where it is not known or the same everywhere."""
    for x, y in itertools.islice(itertools.combinations(varied, 2), _PAIRS):
        found = marginal(points, (x, y), what.of)
        means = [
            mean
            for seeds in found.groups.values()
            if math.isfinite(mean := mean_and_error([*seeds.values()])[0])
        ]
        if not means or (len(set(means)) == 1 and what is not _GAINS[0]):
            continue
        unit, factor = largest(max(map(abs, means)), what.units)
        label = f"{what.title} ({unit})" if unit else what.title
        values = {(a, b): [one / factor for one in seeds.values()] for (a, b), seeds in found.groups.items()}
        figure = heatmap_figure(values_of(points, x), values_of(points, y), values, x, y, label)
        if figure is not None:
            caption = f"{label}, mean ± standard error over seeds{_over(found)}."
            name = _file("heat", x, y) if what is _GAINS[0] else _file("heat", what.name, x, y)
            part = "sweep" if what is _GAINS[0] else "heat"
            yield ReportFigure(name, f"{what.title}: {y} and {x}", caption, figure, part=part)


def _offers(
    points: Sequence[SweepPoint], varied: Sequence[str], cost: Outcome
) -> tuple[list[Offer], str] | None:
    """What each setting reaches and costs, means over the same seeds, and the label of the costs; None where nobody
    paid, or all paid the same."""
    reached, paid = (marginal(points, varied, statistic).groups for statistic in (final_accuracy, cost.of))
    found = []
    for key, seeds in reached.items():
        mean, error = mean_and_error([*seeds.values()])
        price, _ = mean_and_error([*paid[key].values()])
        if math.isfinite(mean) and math.isfinite(price):
            found.append((settings_text(dict(zip(varied, key, strict=True))), price, mean, error, len(seeds)))
    prices = {price for _, price, *_ in found}
    if len(prices) < 2:
        return None
    unit, factor = largest(max(prices), cost.units)
    offers = [Offer(label, price / factor, mean, error, n) for label, price, mean, error, n in found]
    return (
        offers,
        f"{cost.title} ({unit}, all clients)" if cost.name != "seconds" else f"{cost.title} ({unit})",
    )


def sweep_section(points: Sequence[SweepPoint]) -> tuple[str, list[ReportFigure]]:
    """What a report tells of a sweep: the best setting and a table for each varied one (HTML), and the figures."""
    drawn = list(sweep_figures(points))
    parts = []
    best = best_setting(points)
    if best is not None:
        parts.append(f'<p class="headline" id="best"><strong>{escape(best.words())}</strong></p>')
        parts.append('<p class="small">Picked on the test samples themselves, so it flatters.</p>')
    for name in varied_settings(points):
        found = marginal(points, (name,), final_accuracy)
        rows = []
        for row in marginal_table(found.in_order()).to_dict("records"):
            texts = [key_text(row[name]), str(row["seeds"]), number(row["mean"], row["error"])]
            texts.append(number(row["difference"], row["difference_error"], sign=True))
            texts.append(f"{row['p']:.2g}" if math.isfinite(row["p"]) else NONE)
            rows.append([escape(text) for text in texts])
        heads = [name, "Seeds", _LABEL, "Difference to first (points)", "p"]
        parts.append(f"<h3>By {escape(name)}</h3>{table_html(heads, rows)}")
        told = (
            "Mean ± standard error over seeds; differences are paired by seed; p: two-sided t (where all seeds differ "
            "by the same, the sign test), Holm's correction."
        )
        told += found.words
        parts.append(f'<p class="small">{escape(told)}</p>')
    return "".join(parts), drawn


def _over(found: Marginal) -> str:
    told = f", averaged over {found.pooled}" if found.pooled else ""
    return f"{told}, beside what is not the same for all: {found.beside}" if found.beside else told


def _file(kind: str, *names: str) -> str:
    return "-".join([kind, *names]).replace(".", "_")


def _at(points: Sequence[SweepPoint], name: str | None, value: Any) -> list[SweepPoint]:
    """The points where a setting has a value; all of them without a setting."""
    return [point for point in points if name is None or point.keys.get(name) == value]


def _lines(points: Sequence[SweepPoint], varied: Sequence[str]) -> Iterator[ReportFigure]:
    lines_by = next((name for name in varied if len(values_of(points, name)) <= _LINES), varied[0])
    panels_by = next((name for name in varied if name != lines_by), None)
    panels = []
    for panel in [None] if panels_by is None else values_of(points, panels_by):
        chosen = _at(points, panels_by, panel)
        lines = [
            Line(key_text(value), tuple(_accuracy(_at(chosen, lines_by, value))))
            for value in values_of(points, lines_by)[:_LINES]
        ]
        panels.append(("" if panels_by is None else f"{panels_by} = {key_text(panel)}", lines))
    figure = lines_figure(panels, "Clients' test accuracy (%)")
    if figure is not None:
        rest = [name for name in varied if name not in (lines_by, panels_by)]
        caption = f"Test accuracy by {lines_by}" + (f", a panel for each {panels_by}" if panels_by else "")
        caption += f", averaged over {', '.join(rest)}." if rest else "."
        shown = len(values_of(points, lines_by))
        caption += f" The first {_LINES} of {shown} values are drawn." if shown > _LINES else ""
        yield ReportFigure("sweep-curves", f"Accuracy by {lines_by}", caption, figure, part="sweep")


def _accuracy(points: Sequence[SweepPoint]) -> Iterator[pd.Series]:
    """Accuracy (%) by round, one series a seed: the mean over the runs of the seed."""
    by_seed: dict[int, list[pd.Series]] = {}
    for point in points:
        if point.run is not None:
            accuracy = point.run.by_round["accuracy"].astype(float)
            by_seed.setdefault(point.seed, []).append(100 * accuracy)
    most = max(map(len, by_seed.values()), default=0)
    for each in by_seed.values():
        if len(each) == most:  # a seed with missing runs would be another mean
            yield pd.concat(each, axis=1, join="inner").mean(axis=1, skipna=False)


def _error_bars(points: Sequence[SweepPoint], varied: Sequence[str], name: str) -> Iterator[ReportFigure]:
    colour = _colour(points, varied, name)
    lines, pooled = [], ""
    for value in [None] if colour is None else values_of(points, colour):
        chosen = [
            SweepPoint({key: v for key, v in point.keys.items() if key != colour}, point.seed, point.run)
            for point in _at(points, colour, value)
        ]
        found = marginal(chosen, (name,), final_accuracy)
        pooled = _over(found)
        dots = tuple((key, tuple(seeds.values())) for (key,), seeds in found.groups.items())
        label = f"{colour} = {key_text(value)}" if is_number(value) else key_text(value)
        lines.append(ErrorBars("" if colour is None else label, dots))
    figure = error_bar_figure(lines, name, _LABEL)
    if figure is not None:
        title, caption = f"{_LABEL} over {name}", f"Mean over seeds{pooled}."
        yield ReportFigure(_file("dose", name), title, caption, figure, part="sweep")


def _colour(points: Sequence[SweepPoint], varied: Sequence[str], first: str) -> str | None:
    """The setting that is told by colour beside `first`: one of words, else the one with fewest values."""
    others = [name for name in varied if name != first and len(values_of(points, name)) <= _LINES]

    def rank(name: str) -> tuple[bool, int]:
        values = values_of(points, name)
        return all(is_number(value) for value in values), len(values)

    return min(others, key=rank, default=None)
