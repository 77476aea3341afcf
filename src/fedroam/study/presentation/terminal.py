"""A study's result on the terminal."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from itertools import groupby

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from fedroam.study.claims import Claim
from fedroam.study.evaluation import CellResult, StudyResult
from fedroam.study.outlook import Outlook
from fedroam.study.presentation.ahead import outlook_words, to_decide
from fedroam.study.presentation.wording import (
    NOT_HERE,
    as_label,
    evidence_words,
    in_short,
    looks_words,
    not_above,
    number,
    ours,
    papers,
    search_words,
    summary,
    unit_of,
    verdict_words,
)
from fedroam.study.study import Study

_COLOURS = {"holds": "green", "does not hold": "red", "undecided": "yellow"}


def print_result(
    result: StudyResult,
    console: Console,
    items: Collection[str],
    states: Mapping[str, str],
    ahead: Outlook | None = None,
) -> None:
    """Print the asked items: cells beside the paper's, searches, figures, verdicts; then what was cut.

    states: what became of the runs of each item, e.g. "8 of 8 runs"; ahead: what runs to come would decide.
    """
    study = result.study
    console.print(f"[bold]{escape(study.title)}[/bold] ({escape(study.name)}, scale {escape(result.scale)})")
    console.print(escape(study.paper), style="dim")
    for table in study.tables:
        if table.name in items:
            source = f" ({table.source})" if table.source else ""
            console.print(f"\n[bold]{escape(table.title)}[/bold]{escape(source)}: {states[table.name]}")
            _grid(study, result.tables[table.name], console)
            for line in not_above(table, result.tables[table.name]):
                console.print(escape(line))
    for name, found in result.searches.items():
        if name in items:
            console.print(f"\n[bold]{escape(found.search.title)}[/bold]: {states[name]}")
            console.print(escape(f"  {search_words(study, found)}"))
    for figure in study.figures:
        if figure.name in items:
            console.print(
                f"\n[bold]{escape(figure.title)}[/bold]: {states[figure.name]}, figures/{figure.name}.png"
            )
    for claim, _ in result.claims():
        if claim.name in items:
            _claim(result, claim, console, ahead)
    if any(claim.name in items for claim in study.claims):
        console.print(
            f"\nVerdicts: level {study.alpha:g}; corrected: {escape(result.families())}. {looks_words(result)}"
            "Estimates are means ± standard error over seeds; intervals are not corrected; t is positive where an "
            "estimate is on the claim's side of its bound.",
            style="dim",
        )
        for line in filter(None, (*summary(result), study.caution, *outlook_words(result, ahead))):
            console.print(escape(line))
    possible = {name for name, item in study.items.items() if study.can(item, result.scale)}
    if possible <= set(items):  # of a part of the study they would tell half
        for finding in result.findings:
            console.print(f"\n[bold]{escape(finding.title)}[/bold]")
            for line in finding.sentences:
                console.print(escape(f"  {line}"))
    for line in study.scale(result.scale).cut:
        console.print(escape(f"Cut at scale {result.scale}: {line}"), style="yellow")
    for line in result.diverged:
        console.print(escape(f"Note: {line}"), style="yellow")


def _grid(study: Study, cells: tuple[CellResult, ...], console: Console) -> None:
    grid = Grid(box=None, pad_edge=False, header_style="bold")
    heads = ["", "", "Ours", as_label(study), f"Ours − {study.printed_in}", "Seeds"]
    for k, head in enumerate(heads):
        grid.add_column(head, justify="left" if k < 2 else "right")
    for _, rows in groupby(cells, key=lambda each: each.cell.row):
        for k, each in enumerate(rows):
            cell = each.cell
            gap = number(each.distance, math.nan, cell.value.digits, signed=True)
            row = ["" if k else cell.row, cell.column, ours(each), papers(each), gap, str(each.n)]
            grid.add_row(*(escape(text) for text in row))
    console.print(grid)


def _claim(result: StudyResult, claim: Claim, console: Console, ahead: Outlook | None) -> None:
    verdict = result.verdicts.get(claim.name)
    source = "; ".join(filter(None, (claim.source, claim.family)))
    source = f" ({source})" if source else ""
    console.print(f"\n[bold]{escape(claim.name)}[/bold]: {escape(claim.text)}{escape(source)}")
    if verdict is None:
        console.print(escape(". ".join((f"  {NOT_HERE}", *to_decide(result, claim, verdict, ahead)))))
        return
    colour = _COLOURS[verdict.word]
    said = verdict_words(result, claim.name).upper()
    console.print(f"  [{colour}]{said}[/{colour}]: {escape(verdict.reason)}")
    console.print(escape(f"  tested: {in_short(claim, verdict.evidence)}"), style="dim")
    if verdict.evidence.n:
        told = evidence_words(verdict.evidence, unit_of(claim, verdict.evidence))
        console.print(escape(f"  {told}"), style="dim")
    for line in to_decide(result, claim, verdict, ahead):
        console.print(escape(f"  {line}"), style="dim")
