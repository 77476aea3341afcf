"""`fedroam compare SWEEP --by KEY`: a number by the values of a varied setting."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from fedroam.cli.console import out, say, writing
from fedroam.errors import InputError

if TYPE_CHECKING:
    from fedroam.analysis.report.marginals import SweepPoint


def points_of(folder: str | Path) -> list[SweepPoint]:
    """The rows of a sweep with their finished runs. Raises InputError where the folder is no sweep."""
    from fedroam.analysis.report.marginals import SweepPoint
    from fedroam.sweep import open_sweep

    sweep = open_sweep(folder)
    if not sweep.varied:
        raise InputError(f"{folder}: nothing varies in this sweep but the seed")
    return [SweepPoint(row.keys, row.seed, row.run if row.state == "done" else None) for row in sweep.runs]


def compare_by(
    folders: list[str], by: list[str], statistic: str, reach: float | None, csv: str | None
) -> None:
    """Print the table by settings, and where a threshold is reached; write it as CSV, too."""
    from fedroam.analysis.figures.error_bars import key_text
    from fedroam.analysis.formatting import number
    from fedroam.analysis.report.marginals import marginal, marginal_table, reaching
    from fedroam.study.measures import measure

    if len(folders) != 1:
        raise InputError(f"--by: allowed is one sweep folder, found {len(folders)} folders")
    if len(set(by)) < len(by):
        raise InputError(f"--by {by[-1]}: given twice")
    chosen = measure(statistic)
    points = points_of(folders[0])
    grouped = marginal(points, by, chosen.number)
    table = marginal_table(grouped)
    grid = Table(box=None, pad_edge=False, header_style="bold")
    unit = "points" if chosen.unit == "%" else chosen.unit
    heads = [*by, "Seeds", f"{chosen.name[0].upper()}{chosen.name[1:]} ({chosen.unit})"]
    for k, head in enumerate([*heads, f"Difference to first ({unit})", "95 % interval", "p"]):
        grid.add_column(escape(head), justify="left" if k < len(by) else "right")
    for row in table.to_dict("records"):
        gap = number(row["difference"], row["difference_error"], sign=True)
        ends = [number(row[name], sign=True) for name in ("low", "high")]
        between = " to ".join(ends) if math.isfinite(row["low"]) else "–"
        p = f"{row['p']:.2g}" if math.isfinite(row["p"]) else "–"
        mean = "never in some seed" if _never(grouped.groups, row, by) else number(row["mean"], row["error"])
        texts = [*(key_text(row[name]) for name in by), str(row["seeds"]), mean, gap, between, p]
        grid.add_row(*(escape(text) for text in texts))
    console = out()
    console.print(grid)
    remarks = [
        "Mean ± standard error over seeds; differences are paired by seed. p: two-sided t, Holm's correction over the "
        "rows; intervals are for each row alone."
    ]
    if grouped.pooled:
        remarks.append(f"Averaged within each seed over {grouped.pooled}.")
    lacking = sum(point.run is None for point in points)
    if lacking:
        remarks.append(
            f"{lacking} of {len(points)} rows of the sweep are not finished; seeds that lack one are left out."
        )
    for line in remarks:
        console.print(escape(line), style="dim")
    if reach is not None:
        say(f"{chosen.name} of {reach:g} {chosen.unit}: {reaching(grouped, reach).words()}")
    if csv is not None:
        with writing(csv):
            table.to_csv(csv, index=False)
        say(f"table: {csv}")


def _never(
    groups: Mapping[tuple[Any, ...], dict[int, float]], row: Mapping[Hashable, Any], by: list[str]
) -> bool:
    """Whether a threshold was never reached by some seed of a row."""
    key = tuple(row[name] for name in by)
    return any(math.isinf(value) for value in groups.get(key, {}).values())
