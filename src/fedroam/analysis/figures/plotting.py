"""One figure of runs at will: a quantity over rounds, against another quantity, or over a setting that varies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedroam.analysis.figures.drawing import FEW, legend, log_ticks, new_figure, round_ticks, short
from fedroam.analysis.figures.error_bars import is_number, key_text
from fedroam.analysis.figures.publishing import MOST_LINES, look_of, mark_of, size_of
from fedroam.analysis.quantities import Quantity, quantity
from fedroam.analysis.variants import (
    FREE,
    Variant,
    differing,
    mean_and_error,
    mean_by_round,
    variants,
)
from fedroam.checks.arguments import checked
from fedroam.components import FAMILIES, kinds, unit_of
from fedroam.errors import InputError, unknown
from fedroam.recording import Run

BANDS = ("error", "interval", "none")
_LEVEL = 0.95
_SHORT = 27  # characters of a label that a legend shows whole; longer ones are made of the settings that vary
# from which span numbers stand on a logarithmic axis; up to how many each has a tick
_DECADES, _TICKS = (30, 8)


@dataclass(frozen=True)
class _Group:
    """The runs of one line: its key, its label, and the runs of each seed, one for each combination of the rest."""

    key: tuple[Any, ...]
    label: str
    seeds: dict[int, list[Run]]

    def mean(self, values: Callable[[Run], pd.Series]) -> list[pd.Series]:
        """Values by index for each seed: the mean over its runs, where each of them has any."""
        found = []
        for runs in self.seeds.values():
            each = [values(run) for run in runs]
            found.append(pd.concat(each, axis=1, join="inner").mean(axis=1, skipna=False))
        return found


@checked(runs="a list of runs, as open_runs gives those of a folder", ax="axes of matplotlib, or None")
def plot(
    runs: Sequence[Run],
    what: str = "accuracy",
    *,
    by: Sequence[str] | str = (),
    against: str = "round",
    band: str = "error",
    ax: Axes | None = None,
    style: str = "screen",
    width: str | float | None = None,
    height: float | None = None,
    publisher: str = "ieee",
) -> Axes:
    """Draw a column of `rounds`, mean over seeds, a line for each variant, and return the axes.

    what: the column. against: what it is drawn over, a column (`"round"`, `"energy"`, ...: means over seeds of the same
    round), or a setting that varies (`"access_points.number"`: then the value at the end of each run). by: the settings
    that have a line each (`"variant"` for named variants; default: all that vary); runs that differ otherwise are
    averaged within each seed, over seeds that have all of them. band: `"error"`, the standard error of the mean;
    `"interval"`, its 95 % confidence interval (Student's t); or `"none"`. Lines differ in dashes and markers, too.

    ax: axes to draw into, in the style that they have; without them a figure is made, in a style (`"paper"`,
    `"screen"`) and a size (see `size_of`; width `"column"`, `"text"` or mm, height in mm): `ax.figure` has it, and
    `save_figure` writes it. Unfinished runs count where a variant has no finished one. Raises InputError for a column,
    setting or style that there is not, for more than 12 lines, and where there is nothing to draw.
    """
    if not runs:
        raise InputError("plot: an empty list: allowed are one or more runs")
    if band not in BANDS:
        raise unknown("band", band, BANDS)
    compared = [variant for variant in variants(runs) if variant.included]
    included = [run for variant in compared for run in variant.included]
    if not included:
        raise InputError(f"{runs[0].folder}: no round has been recorded yet; run it first")
    if what == "round":
        raise unknown("column of rounds", what, [str(name) for name in included[0].rounds if name != "round"])
    drawn = quantity(what, included)
    varied = _varied(compared)
    names = [by] if isinstance(by, str) else list(by)
    for name in names:
        if name not in varied:
            raise unknown("setting that varies", name, [*varied])
    setting = against in varied
    if not setting and against not in included[0].rounds:
        raise unknown("column of rounds, or setting that varies", against, [*included[0].rounds, *varied])
    if setting and against in names:
        raise InputError(f"{against}: stands on an axis, so it cannot tell lines apart")
    lines_by = names or _needed(varied, [against])
    with matplotlib.rc_context(look_of(style) if ax is None else {}):
        figure: Figure | None = None
        if ax is None:
            figure, ax = new_figure(size_of(width, height, publisher, style))
        if setting:
            numbers = _over_setting(ax, compared, varied, drawn, against, lines_by, band)
        else:
            told = all(len(variant.label) <= _SHORT for variant in compared)
            plain = not names and (told or not lines_by)
            groups = _groups(compared, varied, lines_by, whole=plain)
            numbers = _over_rounds(ax, groups, drawn, quantity(against, included), band)
        title = _band_title(numbers, band, "bars" if setting else "band")
        title = f"at the end of runs; {title}" if setting else title
        if figure is None:
            ax.legend(title=title)
        else:
            small = float(matplotlib.rcParams["legend.fontsize"])
            legend(figure, ax, title, limit=int(figure.get_figwidth() * 72 / (0.52 * small)))
    return ax


def averaged_over(runs: Sequence[Run], by: Sequence[str], against: str = "round") -> list[str]:
    """The settings that vary among runs, and that a figure by some of them averages over."""
    varied = _varied([variant for variant in variants(runs) if variant.included])
    return _needed(varied, [*by, against]) if by else []


def _varied(compared: Sequence[Variant]) -> dict[str, list[Any]]:
    """The settings in which variants differ, and `variant`, their names; each with every variant's value."""
    firsts = [variant.runs[0] for variant in compared]
    found = {name: values for name, values in differing(firsts).items() if name not in FREE}
    return {**found, "variant": [variant.label for variant in compared]}


def _needed(varied: dict[str, list[Any]], given: Sequence[str]) -> list[str]:
    """The settings that tell variants apart, besides those `given`: of settings that vary together, the first."""

    def groups(names: Sequence[str]) -> int:
        columns = [varied[name] for name in names if name in varied]
        return len({repr(values) for values in zip(*columns, strict=True)}) if columns else 1

    kept: list[str] = []
    for name in varied:
        if name not in given and groups([*given, *kept, name]) > groups([*given, *kept]):
            kept.append(name)
    return kept


def _groups(
    compared: Sequence[Variant], varied: dict[str, list[Any]], by: Sequence[str], *, whole: bool
) -> list[_Group]:
    """Variants with equal values of the settings `by`, in the order of these values where they are numbers.

    whole: a line for each variant, as variants are labelled.
    """
    members: dict[tuple[Any, ...], list[Variant]] = {}
    for k, variant in enumerate(compared):
        key = (variant.label,) if whole else tuple(_plain(varied[name][k]) for name in by)
        members.setdefault(key, []).append(variant)
    groups = []
    for key, several in members.items():
        seeds: dict[int, list[Run]] = {}
        for variant in several:
            for run in variant.included:
                seeds.setdefault(int(run.status["seed"]), []).append(run)
        complete = {seed: each for seed, each in sorted(seeds.items()) if len(each) == len(several)}
        groups.append(_Group(key, several[0].label if whole else _label(by, key), complete))
    ordered = all(is_number(value) for group in groups for value in group.key)
    groups = sorted(groups, key=lambda group: group.key) if ordered and not whole else groups
    if len(groups) > MOST_LINES:
        raise InputError(
            f"{len(groups)} lines: allowed are up to {MOST_LINES}, which can be told apart; give fewer runs, or the "
            f"settings that have a line each (by: {', '.join(varied)})"
        )
    return groups


def _label(by: Sequence[str], key: tuple[Any, ...]) -> str:
    """A line's label: `static, k2 = 5`."""
    return ", ".join(
        key_text(value) if isinstance(value, str) else f"{name.rpartition('.')[2]} = {key_text(value)}"
        for name, value in zip(by, key, strict=True)
    )


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | str) and not isinstance(value, bool) else str(value)


def _half(error: np.ndarray, n: np.ndarray | int, band: str) -> np.ndarray:
    """Half the width of a band: the standard error, or that of the confidence interval of a mean of n values."""
    if band == "none":
        return np.full(np.shape(error), np.nan)
    if band == "error":
        return error
    from scipy.special import stdtrit

    count = np.broadcast_to(n, np.shape(error))
    factor = stdtrit(np.maximum(count - 1, 1), 0.5 + _LEVEL / 2)
    return np.asarray(np.where(count > 1, error * factor, np.nan))


def _over_rounds(
    ax: Axes, groups: Sequence[_Group], drawn: Quantity, against: Quantity, band: str
) -> list[int]:
    """Lines over rounds or against another column; gives the number of seeds of each."""

    def table_of(group: _Group, column: str) -> pd.DataFrame:
        return mean_by_round(group.mean(lambda run: run.by_round[column].astype(np.float64)))

    tables = []
    for group in groups:
        spent = None if against.column == "round" else table_of(group, against.column)
        tables.append((group, table_of(group, drawn.column), spent))
    means = np.concatenate([table["mean"].to_numpy(np.float64) for _, table, _ in tables])
    means = means[np.isfinite(means)]
    if not len(means):
        raise InputError(f"{drawn.column}: no seed has all the runs of a line, so there is nothing to draw")
    label, scale = drawn.axis(float(np.abs(means).max()))
    across, factor = against.axis(
        max(
            (float(spent["mean"].max()) for _, _, spent in tables if spent is not None and len(spent)),
            default=1.0,
        )
    )
    positive = means[means > 0]
    log = drawn.log and len(positive) > 0 and positive.max() > 30 * positive.min()
    for k, (group, table, spent) in enumerate(tables):
        y, error = (table[name].to_numpy(np.float64) * scale for name in ("mean", "error"))
        x = table["round"].to_numpy(np.float64)
        if spent is not None:
            x = spent["mean"].to_numpy(np.float64) * factor
        half = _half(error, len(group.seeds), band)
        y = np.where(y > 0, y, np.nan) if log else y
        ax.plot(x, y, **mark_of(k), **_thickness(len(x), k), label=short(group.label, 40))
        if np.isfinite(half).any():
            low = np.maximum(y - half, positive.min() * scale / 2) if log else y - half
            ax.fill_between(x, low, y + half, color=mark_of(k)["color"], alpha=0.2, linewidth=0)
    if log:
        ax.set_yscale("log")
        log_ticks(ax.yaxis)
    if against.column == "round":
        round_ticks(ax, 8)
    ax.margins(x=0.02)
    ax.set_xlabel(across)
    ax.set_ylabel(label)
    return [len(group.seeds) for group in groups]


def _at_the_end(run: Run, column: str) -> pd.Series:
    last: pd.Series = run.by_round[column].astype(np.float64).iloc[[-1]]
    return last.reset_index(drop=True)


def _thickness(points: int, k: int) -> dict[str, Any]:
    """Sizes that follow the font's, and marks that neither crowd nor hide each other."""
    size = float(matplotlib.rcParams["font.size"])
    every = None if points <= FEW else (k % 5 * max(points // 50, 1), max(points // 10, 1))
    return {"linewidth": 0.15 * size, "markersize": 0.4 * size, "markevery": every}


def _over_setting(
    ax: Axes,
    compared: Sequence[Variant],
    varied: dict[str, list[Any]],
    drawn: Quantity,
    setting: str,
    by: Sequence[str],
    band: str,
) -> list[int]:
    """Values at the end of runs over a setting; gives the number of seeds of each point."""
    values = [_plain(value) for value in varied[setting]]
    scaled = all(is_number(value) for value in values)
    keys = sorted(set(values)) if scaled else list(dict.fromkeys(values))
    lines: dict[tuple[Any, ...], str] = {}
    points: dict[tuple[Any, ...], list[tuple[Any, np.ndarray]]] = {}
    for key in keys:
        chosen = [k for k, value in enumerate(values) if value == key]
        own = {name: [each[k] for k in chosen] for name, each in varied.items()}
        for group in _groups([compared[k] for k in chosen], own, by, whole=False):
            lines[group.key] = group.label
            last = group.mean(lambda run: _at_the_end(run, drawn.column))
            points.setdefault(group.key, []).append((key, np.array([float(one.iloc[0]) for one in last])))
    if len(lines) > MOST_LINES:
        raise InputError(f"{len(lines)} lines: allowed are up to {MOST_LINES}; say by which settings (by)")
    largest = max(
        (np.abs(seeds).max() for each in points.values() for _, seeds in each if len(seeds)), default=np.nan
    )
    if not np.isfinite(largest):
        raise InputError(f"{drawn.column} over {setting}: there is no number to draw")
    label, scale = drawn.axis(float(largest))
    for k, (line, each) in enumerate(points.items()):
        each = [(key, seeds * scale) for key, seeds in each if len(seeds)]
        x = [float(key) if scaled else float(keys.index(key)) for key, _ in each]
        pairs = [mean_and_error(seeds) for _, seeds in each]
        means, errors = (np.array(numbers) for numbers in zip(*pairs, strict=True))
        n = np.array([len(seeds) for _, seeds in each])
        half = np.nan_to_num(_half(errors, n, band))
        size = float(matplotlib.rcParams["font.size"])
        ax.errorbar(
            x, means, yerr=half if half.any() else None, **mark_of(k), linewidth=0.15 * size, markersize=0.45 * size,
            capsize=0.3 * size, label=short(lines[line] or "mean", 40),
        )  # fmt: skip
    if not scaled:
        ax.set_xticks(range(len(keys)), [short(key_text(key), 16) for key in keys])
    else:
        if min(keys) > 0 and max(keys) > _DECADES * min(keys):
            ax.set_xscale("log")
            log_ticks(ax.xaxis)
        if len(keys) <= _TICKS and _apart(keys, ax.get_xscale() == "log"):
            ax.set_xticks([float(key) for key in keys], [key_text(key) for key in keys])
    unit = _unit_of(compared[0].runs[0], setting)
    ax.set_xlabel(f"{setting} ({unit})" if unit else setting)
    ax.set_ylabel(label)
    return [len(seeds) for each in points.values() for _, seeds in each if len(seeds)]


def _apart(keys: Sequence[float], log: bool) -> bool:
    """Whether a tick for each of these numbers, sorted, leaves room between them."""
    places = np.log(keys) if log else np.asarray(keys, dtype=np.float64)
    gaps = np.diff(places)
    return len(gaps) == 0 or bool(gaps.min() >= 0.08 * gaps.sum())


def _unit_of(run: Run, setting: str) -> str:
    """The unit of a part's setting in a run; '' where it has none, or the part is not known here."""
    family, _, key = setting.partition(".")
    part = run.settings.get(family)
    cls = (
        kinds(family).get(str(part.get("kind"))) if family in FAMILIES and isinstance(part, Mapping) else None
    )
    return unit_of(cls.model_fields[key]) if cls is not None and key in cls.model_fields else ""


def _band_title(numbers: Sequence[int], band: str, mark: str) -> str:
    """What lines and bands mean, for the legend."""
    if max(numbers, default=0) <= 1:
        return f"one seed each, no {mark}"
    seeds = f"n = {numbers[0]}" if len(set(numbers)) == 1 else f"n = {min(numbers)} to {max(numbers)}"
    if band == "none":
        return f"mean over seeds ({seeds})"
    words = "± standard error" if band == "error" else f"{_LEVEL:.0%} confidence interval (Student's t)"
    return f"mean over seeds, {mark}: {words} ({seeds})"
