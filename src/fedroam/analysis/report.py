"""One self-contained HTML file about a set of runs."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from fedroam.analysis.summary import compare_table
from fedroam.analysis.words import cells, columns, remarks
from fedroam.recording import Run, write_text


def write_report(runs: Sequence[Run], folder: Path) -> Path:
    """Write `report.html` into `folder` (made if need be) and return its path."""
    table = compare_table(runs)
    head = "".join(f"<th>{escape(text)}</th>" for text in columns(table))
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in cells(table)
    )
    lines = "".join(f"<p>{escape(line)}</p>" for line in [*remarks(table), *table.attrs["notes"]])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "report.html"
    page = f'<!doctype html><meta charset="utf-8"><title>fedroam</title><table>{head}{rows}</table>{lines}'
    write_text(path, page)
    return path
