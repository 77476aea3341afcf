"""A comparison table on the terminal."""

from __future__ import annotations

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedroam.analysis.formatting import cells, columns, remarks


def print_table(table: pd.DataFrame, console: Console) -> None:
    """Print a table of `compare_table`, what its numbers mean, and the runs that diverged or did not finish.

    Variants are rows; where the terminal is too narrow for that and holds them side by side, they are columns.
    """
    heads, rows = columns(table), cells(table)
    lying = [heads, *rows]
    standing = [list(column) for column in zip(*lying, strict=True)]
    shown = lying if _width(lying) <= console.width or _width(standing) > console.width else standing
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for k, head in enumerate(shown[0]):
        grid.add_column(escape(head), justify="left" if k == 0 else "right", overflow="fold")
    for row in shown[1:]:
        grid.add_row(*(escape(text) for text in row))
    console.print(grid)
    for line in remarks(table):
        console.print(escape(line), style="dim", highlight=False)
    for note in table.attrs["notes"]:
        console.print(escape(f"Note: {note}"), style="yellow", highlight=False)


def _width(rows: list[list[str]]) -> int:
    """Characters that a table needs on one line: its widest cells and two spaces between columns."""
    return sum(max(map(len, column)) + 2 for column in zip(*rows, strict=True)) - 2
