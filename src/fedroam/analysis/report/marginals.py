"""Runs that differ in varied settings: tables by one setting, and the best of all.

What is not asked for is averaged within each seed first, so that n is the number of seeds and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from fedroam.analysis.figures.error_bars import key_text
from fedroam.analysis.formatting import number
from fedroam.analysis.statistics.paired import above, apart, interval, two_sided
from fedroam.analysis.statistics.threshold import Threshold, smallest_reaching
from fedroam.analysis.statistics.verdicts import holm_known
from fedroam.analysis.summary import summarise
from fedroam.analysis.variants import mean_and_error, settings_text
from fedroam.errors import InputError, unknown
from fedroam.recording import Run

Statistic = Callable[[Run], float]
SHOWN = 3  # combinations of settings that are named where some are left out


@dataclass(frozen=True)
class SweepPoint:
    """A run of a sweep: its varied settings by dotted name, and its seed. run: None where it is missing."""

    keys: Mapping[str, Any]
    seed: int
    run: Run | None


@dataclass(frozen=True)
class Marginal:
    """Numbers by the values of some settings: for each, one number a seed. pooled: what was averaged over, and what
    was left out of it. beside: what else has not the same values for all of them, so that a difference may be its."""

    by: tuple[str, ...]
    groups: dict[tuple[Any, ...], dict[int, float]]
    pooled: str
    beside: str = ""

    @property
    def words(self) -> str:
        """Both as sentences, each with a space before it."""
        told = f" Averaged within each seed over {self.pooled}." if self.pooled else ""
        if self.beside:
            told += f" Not the same in all rows, so that what differs may be its doing: {self.beside}."
        return told

    def in_order(self) -> Marginal:
        """The same with its groups in the order in which people look for them: numbers ascending."""
        columns = [in_order(dict.fromkeys(key[k] for key in self.groups)) for k in range(len(self.by))]
        keys = sorted(
            self.groups, key=lambda key: [at.index(one) for at, one in zip(columns, key, strict=True)]
        )
        return replace(self, groups={key: self.groups[key] for key in keys})


def final_accuracy(run: Run) -> float:
    """Accuracy (%) at the end: the mean over clients of the accuracy of each one's own model."""
    return 100 * summarise(run, 1).final


def marginal(points: Sequence[SweepPoint], by: Sequence[str], statistic: Statistic) -> Marginal:
    """One number for each value of the settings `by` and each seed, averaged over the other settings.

    The average is over those combinations of the others that every value was run with; a seed counts for a value if
    all of them are finished. A combination that some value has finished with no seed, while it has with another
    combination, is left out for all values: or one that always fails would empty the table. Where no combination was
    run with every value (settings that vary together), each has the average of its own. Raises InputError for a setting
    that does not vary.
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
    ran = [{other for other, seeds in cells.items() if any(seeds.values())} for cells in found.values()]
    done = set.intersection(common, *(cells for cells in ran if cells))
    left_out = sorted(common - done, key=repr) if done else []
    common = done or common
    groups: dict[tuple[Any, ...], dict[int, float]] = {}
    for value, cells in found.items():
        wanted = [cells[other] for other in cells if not common or other in common]
        seeds = sorted(set.intersection(*(set(cell) for cell in wanted)))
        groups[value] = {}
        for seed in seeds:
            runs = [cell[seed] for cell in wanted]
            if all(run is not None for run in runs):
                groups[value][seed] = float(np.mean([statistic(run) for run in runs if run is not None]))
    pooled, beside = [], []
    for k, name in enumerate(rest):
        rows = [{other[k] for other in (common or cells)} for cells in found.values()]
        values = in_order(sorted(set().union(*rows), key=repr))
        if any(row != rows[0] for row in rows):
            beside.append(f"{name} = {', '.join(map(key_text, values))}")
        elif common or len(values) > 1:
            pooled.append(f"{name} = {', '.join(map(key_text, values))}")
    if left_out:
        without = "; ".join(settings_text(dict(zip(rest, other, strict=True))) for other in left_out[:SHOWN])
        more = f" and {len(left_out) - SHOWN} more" if len(left_out) > SHOWN else ""
        pooled[-1] += f" (without {without}{more}, where nothing is finished for some row)"
    return Marginal(tuple(by), groups, "; ".join(pooled), "; ".join(beside))


def marginal_table(found: Marginal) -> pd.DataFrame:
    """One row for each value: the settings, seeds, mean, error; difference to the first row, paired by seed, with
    n, its 95 % confidence interval (low, high), and p: two-sided, corrected by Holm's method over the rows."""
    rows = []
    first = next(iter(found.groups.values()), {})
    for k, (value, seeds) in enumerate(found.groups.items()):
        row: dict[str, Any] = {**dict(zip(found.by, value, strict=True)), "seeds": len(seeds)}
        row["mean"], row["error"] = mean_and_error(list(seeds.values()))
        gaps = [apart((seeds[seed], -first[seed])) for seed in seeds if seed in first] if k else []
        row["difference"], row["difference_error"] = mean_and_error(gaps)
        row["n"] = len(gaps)
        evidence = above(gaps)
        row["low"], row["high"], row["p"] = evidence.low, evidence.high, two_sided(gaps)
        rows.append(row)
    table = pd.DataFrame(rows)
    table["p"] = holm_known(table["p"].tolist())
    return table


def reaching(found: Marginal, bound: float) -> Threshold:
    """The smallest value of the one setting that reaches `bound`; seeds that ran at every value count."""
    if len(found.by) != 1 or not all(is_number(value[0]) for value in found.groups):
        raise InputError(f"{', '.join(found.by)}: a threshold needs one setting whose values are numbers")
    seeds = sorted(set.intersection(*(set(each) for each in found.groups.values())))
    values = np.array([[each[seed] for each in found.groups.values()] for seed in seeds])
    keys = [float(value[0]) for value in found.groups]
    return smallest_reaching(keys, values.reshape(len(seeds), len(keys)), bound)


def is_number(value: Any) -> bool:
    """Whether a value of a setting is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def values_of(points: Sequence[SweepPoint], name: str) -> list[Any]:
    """The values of a setting, numbers in their order, others as they first appear."""
    return in_order(dict.fromkeys(point.keys.get(name) for point in points))


def in_order(values: Iterable[Any]) -> list[Any]:
    """Values for people: numbers in their order, others as they come."""
    found = list(values)
    return sorted(found) if all(map(is_number, found)) else found


def varied_settings(points: Sequence[SweepPoint]) -> list[str]:
    """The settings that have more than one value."""
    names = dict.fromkeys(name for point in points for name in point.keys)
    return [name for name in names if len(values_of(points, name)) > 1]


@dataclass(frozen=True)
class BestSetting:
    """The setting with the highest mean final accuracy (%): its varied values, mean, standard error and seeds.

    settings: how many were compared (finished in at least one seed). alike: how many of the others are not told apart
    from it, the 95 % interval of the difference, paired by seed, holding zero, or none being there as all seeds differ
    by the same; None with fewer than two seeds in both. same: how many of the others have its final accuracy in each of
    its seeds, as where what varies changes nothing.
    """

    keys: Mapping[str, Any]
    mean: float
    error: float
    seeds: int
    settings: int
    alike: int | None
    same: int = 0

    def words(self) -> str:
        """One sentence: `Best: radius=3: 83.1 ± 0.4 % ...`."""
        over = f"mean ± standard error over {self.seeds} seeds" if self.seeds > 1 else "one seed"
        text = f"Best of {self.settings} settings: {settings_text(self.keys)}, final accuracy "
        text += f"{number(self.mean, self.error)}\u00a0% ({over})"
        same = ""
        if self.same:
            have = "has" if self.same == 1 else "have"
            same = f"; {self.same} of the others {have} the same in every seed"
        if self.alike is None:
            return f"{text}{same}. With so few seeds no other can be told from it."
        rest = "every other one is below it"
        if self.alike:
            rest = f"{self.alike} of the others cannot be told from it"
        return f"{text}{same}; by 95\u00a0% intervals, each for itself, {rest}."


def best_setting(points: Sequence[SweepPoint]) -> BestSetting | None:
    """The best setting of a sweep; None where fewer than two have a final accuracy that is a number.

    Settings that finished in fewer seeds than others do not win. It was picked on the test samples, so it flatters.
    """
    varied = varied_settings(points)
    if not varied:
        return None
    found = {key: seeds for key, seeds in marginal(points, varied, final_accuracy).groups.items() if seeds}
    if len(found) < 2:
        return None
    most = max(map(len, found.values()))
    means = {
        key: mean_and_error(list(seeds.values()))[0] for key, seeds in found.items() if len(seeds) == most
    }
    known = {key: mean for key, mean in means.items() if math.isfinite(mean)}
    if not known:
        return None
    best = max(known, key=lambda key: known[key])
    alike, judged = 0, False
    for key, seeds in found.items():
        gaps = [apart((found[best][seed], -seeds[seed])) for seed in seeds if seed in found[best]]
        if key == best or len(gaps) < 2:
            continue
        low, high = interval(gaps)
        judged = True
        alike += not (low > 0 or high < 0)
    mean, error = mean_and_error(list(found[best].values()))
    keys = dict(zip(varied, best, strict=True))
    same = sum(seeds == found[best] for seeds in found.values()) - 1
    return BestSetting(keys, mean, error, most, len(found), alike if judged else None, same)
