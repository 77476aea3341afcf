"""The tables of `fedroam connectivity`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rich.table import Table

from fedroam.cli.console import out, say

if TYPE_CHECKING:
    import pandas as pd


def print_patterns(table: pd.DataFrame, rows: list[dict[str, Any]], sliding: bool) -> None:
    """The table of patterns, and what its columns mean."""
    heads = (
        "Variant",
        "Worlds",
        "Degree",
        "Components",
        "Connected rounds",
        "p of a round",
        "Smallest B",
        "None",
    )
    grid = _grid(heads)
    for row in table.to_dict("records"):
        low, middle, high = (row[name] for name in ("b_min", "b_median", "b_max"))
        b = (
            "none"
            if math.isnan(middle)
            else f"{middle:g}"
            if low == high
            else f"{middle:g} ({low:g}–{high:g})"
        )
        cells = [
            row["variant"] or "all",
            str(row["seeds"]),
            f"{row['degree']:.2f}",
            f"{row['components']:.2f}",
        ]
        cells += [f"{100 * row['connected']:.1f} %", plain(row["p_mean"]), b, str(row["without"])]
        grid.add_row(*cells)
    out().print(grid)
    counted = {int(row["rounds"]) for row in rows}
    which = "window" if sliding else "aligned window"
    say(
        f"Smallest B: the contacts of every {which} of B rounds, taken together, connect everybody; median (lowest–"
        f"highest) over worlds, exact over {', '.join(map(str, sorted(counted)))} rounds. None: worlds in which no B "
        "does."
    )
    if any(row["windows"] == 1 for row in rows):
        say("note: in some worlds only one window of B rounds fits into the run; look at more rounds")
    if (table["p_mean"] < 0).any():
        say(
            "note: p is below 0 where weights are not doubly stochastic: no mixing parameter of 0 to 1 exists there"
        )


def print_windows(table: pd.DataFrame) -> None:
    """What products of windows do, means over worlds."""
    grid = _grid(("Variant", "Window (rounds)", "Windows", "Connect everybody", "Smallest p", "Mean p"))
    for key, some in table.groupby(["variant", "length"], sort=False):
        variant, length = key if isinstance(key, tuple) else ("", key)
        cells = [str(variant or "all"), str(length), f"{some['windows'].mean():g}"]
        cells += [f"{100 * some['connected'].mean():.1f} %", plain(some["p_min"].min())]
        grid.add_row(*cells, plain(some["p_mean"].mean()))
    out().print(grid)


def _grid(heads: tuple[str, ...]) -> Table:
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for k, head in enumerate(heads):
        grid.add_column(head, justify="left" if k == 0 else "right", overflow="fold")
    return grid


def plain(value: float) -> str:
    """A number with four digits; infinity in words, no number as a dash."""
    if math.isnan(value):
        return "–"
    return f"{value:.4g}" if math.isfinite(value) else "infinity"
