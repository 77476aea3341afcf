"""Which rows of a table do not beat its baselines, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedroam.study.evaluation import Judged
from fedroam.study.items import Table


def not_above(table: Table, cells: Sequence[Judged]) -> list[str]:
    """A sentence for each column of percentages and each baseline: the rows whose mean is not above the baseline's.

    Means are over the seeds that both have. Rows ahead by no more than the standard error of the difference paired by
    seed are named too. No sentence where a column has no number of the baseline or of any other row.
    """
    there = {
        (each.cell.column, each.cell.row): each for each in cells if each.cell.value.unit == "%" and each.n
    }
    rows = [row for row in dict.fromkeys(each.cell.row for each in cells) if row not in table.baselines]
    told = []
    for column in dict.fromkeys(column for column, _ in there):
        for baseline in table.baselines:
            gaps = {row: _gaps(there, column, row, baseline) for row in rows}
            known = {row: gap for row, gap in gaps.items() if len(gap)}
            if known:
                told.append(f"{column}: {_sentence(known, baseline)}")
    return told


def _gaps(there: dict[tuple[str, str], Judged], column: str, row: str, baseline: str) -> np.ndarray:
    """By seed, how far a row is ahead of a baseline."""
    if (column, row) not in there or (column, baseline) not in there:
        return np.zeros(0)
    own, base = there[column, row].by_seed, there[column, baseline].by_seed
    return np.array([own[seed] - base[seed] for seed in own if seed in base])


def _sentence(gaps: dict[str, np.ndarray], baseline: str) -> str:
    behind = [row for row, gap in gaps.items() if not gap.mean() > 0]
    close = [
        row
        for row, gap in gaps.items()
        if row not in behind and len(gap) > 1 and gap.mean() <= gap.std(ddof=1) / np.sqrt(len(gap))
    ]
    if not behind:
        said = f"every method is above {baseline}"
    else:
        said = f"{len(behind)} of {len(gaps)} do not beat {baseline}, so they are of no use to their users here: "
        said += ", ".join(behind)
    return said + (f" (within a standard error of it: {', '.join(close)})" if close else "") + "."
