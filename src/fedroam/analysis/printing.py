"""A comparison table on the terminal."""

from __future__ import annotations

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedroam.analysis.words import cells, columns, remarks


def print_table(table: pd.DataFrame, console: Console) -> None:
    """Print a table of `compare_table`, what its numbers mean, and the runs that diverged or did not finish."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for k, head in enumerate(columns(table)):
        shown.add_column(escape(head), justify="left" if k == 0 else "right", overflow="fold")
    for row in cells(table):
        shown.add_row(*(escape(text) for text in row))
    console.print(shown)
    for line in remarks(table):
        console.print(escape(line), style="dim", highlight=False)
    for note in table.attrs["notes"]:
        console.print(escape(f"Note: {note}"), style="yellow", highlight=False)
