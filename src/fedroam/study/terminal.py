"""A judgement on the terminal."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from itertools import groupby

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from fedroam.analysis.formatting import NONE
from fedroam.study.baselines import not_above
from fedroam.study.claims import Claim
from fedroam.study.evaluation import Found, Judged, Judgement, evidence_words
from fedroam.study.wording import in_short

COLOURS = {"holds": "green", "does not hold": "red", "undecided": "yellow"}
MARKS = {"holds": "✓", "does not hold": "✗", "undecided": "?"}
NOT_HERE = "not at this scale"


def number(value: float, error: float, digits: int, signed: bool = False) -> str:
    """`59.3 ± 4.5`, `never` for infinity, a dash for no number."""
    if math.isnan(value):
        return NONE
    if math.isinf(value):
        return "never"
    text = f"{value:{'+' if signed else ''}.{digits}f}".replace("-", "−")
    return f"{text} ± {error:.{digits}f}" if math.isfinite(error) else text


def ours(judged: Judged) -> str:
    """Our number, with its error."""
    if not judged.possible:
        return NOT_HERE
    if not judged.n:
        return "not run yet"
    value = judged.cell.value
    return number(judged.mean, judged.error, value.digits, value.unit == "points")


def papers(judged: Judged) -> str:
    """The paper's number, with its error if it gives one."""
    cell = judged.cell
    if cell.paper is None:
        return NONE
    error = math.nan if cell.paper_error is None else cell.paper_error
    return number(cell.paper, error, max(cell.value.digits, 1), cell.value.unit == "points")


def facts(judged: Judged) -> list[str]:
    """A cell as a row: row, column, ours, the paper's, ours minus the paper's, seeds."""
    cell = judged.cell
    gap = number(judged.distance, math.nan, cell.value.digits, signed=True)
    return [cell.row, cell.column, ours(judged), papers(judged), gap, str(judged.n)]


HEADS = ["", "", "Ours", "Paper", "Ours − paper", "Seeds"]


def search_words(found: Found) -> str:
    """The result of a search, and the paper's."""
    said = NOT_HERE if found.threshold is None else found.threshold.words()
    return said + ("" if found.search.paper is None else f". Paper: {found.search.paper:g}")


def print_judgement(
    judgement: Judgement, console: Console, items: Collection[str], states: Mapping[str, str]
) -> None:
    """Print the asked items: cells beside the paper's, searches, figures, verdicts; then what was cut.

    states: what became of the runs of each item, e.g. "8 of 8 runs".
    """
    study = judgement.study
    console.print(
        f"[bold]{escape(study.title)}[/bold] ({escape(study.name)}, scale {escape(judgement.scale)})"
    )
    console.print(escape(study.paper), style="dim")
    for table in study.tables:
        if table.name in items:
            told = f" ({table.source})" if table.source else ""
            console.print(f"\n[bold]{escape(table.title)}[/bold]{escape(told)}: {states[table.name]}")
            _grid(judgement.tables[table.name], console)
            for line in not_above(table, judgement.tables[table.name]):
                console.print(escape(line))
    for name, found in judgement.searches.items():
        if name in items:
            console.print(f"\n[bold]{escape(found.search.title)}[/bold]: {states[name]}")
            console.print(escape(f"  {search_words(found)}"))
    for figure in study.figures:
        if figure.name in items:
            console.print(
                f"\n[bold]{escape(figure.title)}[/bold]: {states[figure.name]}, figures/{figure.name}.png"
            )
    for claim, _ in judgement.claims():
        if claim.name in items:
            _claim(judgement, claim, console)
    if any(claim.name in items for claim in study.claims):
        console.print(
            f"\nVerdicts: level {study.alpha:g}, Holm's correction over the study's {escape(judgement.families())}. "
            "Estimates are means ± standard error over seeds; intervals are not corrected.",
            style="dim",
        )
    able = {name for name, item in study.items.items() if study.can(item, judgement.scale)}
    if able <= set(items):  # of a part of the study they would tell half
        for finding in judgement.findings:
            console.print(f"\n[bold]{escape(finding.title)}[/bold]")
            for line in finding.sentences:
                console.print(escape(f"  {line}"))
    for line in study.scale(judgement.scale).cut:
        console.print(escape(f"Cut at scale {judgement.scale}: {line}"), style="yellow")
    for line in judgement.diverged:
        console.print(escape(f"Note: {line}"), style="yellow")


def _grid(cells: tuple[Judged, ...], console: Console) -> None:
    grid = Grid(box=None, pad_edge=False, header_style="bold")
    for k, head in enumerate(HEADS):
        grid.add_column(head, justify="left" if k < 2 else "right")
    for _, rows in groupby(cells, key=lambda judged: judged.cell.row):
        for k, judged in enumerate(rows):
            row = facts(judged)
            row[0] = row[0] if k == 0 else ""
            grid.add_row(*(escape(text) for text in row))
    console.print(grid)


def _claim(judgement: Judgement, claim: Claim, console: Console) -> None:
    verdict = judgement.verdicts.get(claim.name)
    told = "; ".join(filter(None, (claim.source, claim.family)))
    told = f" ({told})" if told else ""
    console.print(f"\n[bold]{escape(claim.name)}[/bold]: {escape(claim.text)}{escape(told)}")
    if verdict is None:
        console.print(f"  {NOT_HERE}")
        return
    colour = COLOURS[verdict.word]
    console.print(
        f"  [{colour}]{MARKS[verdict.word]} {verdict.word.upper()}[/{colour}]: {escape(verdict.reason)}"
    )
    console.print(escape(f"  tested: {in_short(claim, verdict.evidence)}"), style="dim")
    console.print(escape(f"  {evidence_words(verdict.evidence, claim.test.unit)}"), style="dim")
