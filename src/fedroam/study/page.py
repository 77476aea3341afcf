"""A study's result as files: study.html, cells.csv, claims.csv, study.json and figures/."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

from fedroam.analysis.figures.drawing import figures_below, inline, save
from fedroam.analysis.formatting import NONE
from fedroam.analysis.report.page import bullets, figure, notes_box, table_html
from fedroam.analysis.statistics.paired import Evidence
from fedroam.analysis.variants import flat, plain_text
from fedroam.recording import write_csv, write_json, write_text
from fedroam.study.claims import Claim
from fedroam.study.evaluation import CellResult, StudyResult
from fedroam.study.records import as_json, cells_table, claims_table
from fedroam.study.wording import (
    FEW,
    MARKS,
    NOT_HERE,
    comparisons,
    evidence_words,
    in_short,
    looks_words,
    not_above,
    ours,
    papers,
    search_words,
    weakest,
)

_VERDICTS = {"holds": "yes", "does not hold": "no", "undecided": "open"}  # class of a claim's box
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>$title</title>
<style>$css</style>
</head>
<body>
<header><div class="wide"><h1>$name</h1><p class="facts">$facts</p>
<nav aria-label="Sections">$links</nav></div></header>
<main class="wide">
$notes
$sections
</main>
<footer class="wide">Made by fedroam. Beside this file lie cells.csv, claims.csv, study.json and figures/.</footer>
</body>
</html>
"""
_STYLE = """
.claim { background: var(--paper); border: 1px solid var(--grid); border-left: 6px solid var(--line);
  border-radius: 8px; padding: .7rem 1rem; margin: .7rem 0; }
.claim p { margin: .2rem 0; max-width: 62rem; }
.claim .said { font-size: 1.05rem; }
.verdict { font-weight: 650; }
.claim.yes { border-left-color: var(--c2); } .claim.no { border-left-color: var(--c1); }
#findings h3 { margin-top: 1.1rem; }
.claim.open { border-left-color: var(--c4); }
"""


def write_study(result: StudyResult, folder: Path, states: Mapping[str, str]) -> Path:
    """Write everything there is of a study into `folder`; returns the path of the HTML page.

    The page needs no other file and no network. states: what became of the runs of each item. Items whose runs are
    missing stand there, marked so.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(folder / "cells.csv", cells_table(result))
    write_csv(folder / "claims.csv", claims_table(result))
    write_json(folder / "study.json", as_json(result))
    study = result.study
    sections = {
        "claims": ("Claims", _claims(result)),
        "findings": ("What the runs say", _findings(result)),
        "tables": ("Tables", _tables(result, states)),
        "figures": ("Figures", _figures(result, folder, states)),
        "readings": ("How the paper was read", _readings(result)),
        "settings": ("Settings", _settings(result)),
    }
    shown = {key: pair for key, pair in sections.items() if pair[1]}
    cut = [f"Cut at scale {result.scale}: {line}" for line in study.scale(result.scale).cut]
    if result.missing:
        cut.append(
            f"{len(result.missing)} runs of this scale are missing; what needs them is judged without them."
        )
    css = (resources.files("fedroam.analysis.report") / "assets" / "report.css").read_text(encoding="utf-8")
    content = {
        "title": escape(f"{study.title} – fedroam study"),
        "name": escape(study.title),
        "facts": escape(f"{study.paper} Scale {result.scale}, {len(result.seeds)} seeds. {study.about}"),
        "css": css + _STYLE,
        "links": "".join(f'<a href="#{key}">{title}</a>' for key, (title, _) in shown.items()),
        "notes": notes_box([*cut, *result.diverged]),
        "sections": "".join(
            f'<section id="{key}"><h2>{title}</h2>{html}</section>' for key, (title, html) in shown.items()
        ),
    }
    path = folder / "study.html"
    write_text(path, Template(_PAGE).substitute(content))
    return path


def _claims(result: StudyResult) -> str:
    """Each claim with its verdict, what was tested in short, and each of many tests folded away."""
    parts = []
    for claim, verdict in result.claims():
        source = "; ".join(filter(None, (claim.source, claim.family)))
        source = f' <span class="small">({escape(source)})</span>' if source else ""
        evidence = None if verdict is None else verdict.evidence
        word, kind, lines = NOT_HERE, "", [f"Tested: {in_short(claim, evidence)}."]
        if verdict is not None:
            word, kind = f"{MARKS[verdict.word]} {verdict.word}", _VERDICTS[verdict.word]
            word += f": {verdict.reason}"
            which = weakest(claim, verdict.evidence)
            lines.append(f"{which}: " * bool(which) + evidence_words(verdict.evidence, claim.test.unit))
        tested = "".join(f'<p class="small">{escape(line)}</p>' for line in lines)
        parts.append(
            f'<div class="claim {kind}" id="claim-{escape(claim.name)}"><p class="said">{escape(claim.text)}{source}'
            f'</p><p class="verdict">{escape(word)}</p>{tested}{_all_comparisons(claim, evidence)}</div>'
        )
    if not parts:
        return ""
    rule = (
        f"Holds: the test rejects the opposite at level {result.study.alpha:g}. Does not hold: it rejects the "
        f"claim. Undecided: neither. Corrected: {result.families()}. {looks_words(result)}Estimates are means "
        "± standard error over seeds; intervals are for each claim alone."
    )
    return "".join(parts) + f'<p class="small">{escape(rule)}</p>'


def _all_comparisons(claim: Claim, evidence: Evidence | None) -> str:
    """Every one of many tests with its numbers, behind a line that unfolds them."""
    parts = [] if evidence is None else comparisons(claim, evidence)
    if len(parts) <= FEW:
        return ""
    lines = [f"{part.test.words}: {evidence_words(part.evidence, part.test.unit)}" for part in parts]
    return f'<details><summary>All {len(parts)} comparisons</summary><ul class="small">{bullets(lines)}</ul></details>'


def _findings(result: StudyResult) -> str:
    parts = [
        f'<h3>{escape(finding.title)}</h3><ul class="remarks">{bullets(finding.sentences)}</ul>'
        for finding in result.findings
    ]
    rule = (
        "Computed from the runs of this page. “Above” and “below”: the 95 % interval over seeds lies on one side of 0; "
        "it is not corrected for how many are looked at, so this describes and does not test."
    )
    return "".join(parts) + f'<p class="small">{escape(rule)}</p>' if parts else ""


def _readings(result: StudyResult) -> str:
    """A table of how the paper was read, and of where the study departs from it."""
    readings = result.study.readings
    if not readings:
        return ""
    rows = [
        [
            escape(each.about),
            escape(each.paper or "silent")
            + f'<div class="small">{escape(each.source)}</div>' * bool(each.source),
            escape(each.here),
            "deviation" if each.deviation else "reading",
            escape(each.effect) or NONE,
        ]
        for each in sorted(readings, key=lambda each: not each.deviation)
    ]
    return table_html(["", "The paper", "Here", "", "What it changes"], rows)


def _tables(result: StudyResult, states: Mapping[str, str]) -> str:
    parts = []
    for table in result.study.tables:
        source = f", {table.source}" if table.source else ""
        heads, rows = _matrix(result.tables[table.name], len(result.seeds))
        parts.append(f"<h3>{escape(table.title)}</h3>{table_html(heads, rows)}")
        told = f"{states[table.name]}{source}. Mean ± standard error over seeds; below it the paper's. {table.caption}"
        parts.append(f'<p class="small">{escape(told)}</p>')
        parts += [f"<p>{escape(line)}</p>" for line in not_above(table, result.tables[table.name])]
    for name, found in result.searches.items():
        parts.append(f"<h3>{escape(found.search.title)}</h3><p>{escape(search_words(found))}.</p>")
        told = (
            f"{states[name]}. “Established” and “ruled out”: one-sided t tests over seeds, from the largest and from "
            "the smallest value, each until the first that does not reject, at level 0.05."
        )
        parts.append(f'<p class="small">{escape(told)}</p>')
    return "".join(parts)


def _matrix(cells: Sequence[CellResult], seeds: int) -> tuple[list[str], list[list[str]]]:
    """Headings and rows as the paper sets them: our number, below it the paper's and the seeds if some are missing."""
    heads = list(dict.fromkeys(each.cell.column for each in cells))
    there = {(each.cell.row, each.cell.column): each for each in cells}
    rows = []
    for name in dict.fromkeys(each.cell.row for each in cells):
        row = [escape(name)]
        for head in heads:
            each = there.get((name, head))
            if each is None:
                row.append("")
                continue
            told = [f"paper {papers(each)}"] if each.cell.paper is not None else []
            told += [f"n = {each.n}"] if 0 < each.n < seeds else []
            row.append(
                escape(ours(each)) + f'<div class="small">{escape(", ".join(told))}</div>' * bool(told)
            )
        rows.append(row)
    return ["", *heads], rows


def _figures(result: StudyResult, folder: Path, states: Mapping[str, str]) -> str:
    parts = []
    for declared in result.study.figures:
        drawn = declared.draw(result.reader) if result.study.can(declared, result.scale) else None
        if drawn is None:
            parts.append(f"<p>{escape(declared.title)}: {escape(states[declared.name])}.</p>")
            continue
        _, svg = save(drawn, figures_below(folder), declared.name)
        text = inline(svg.read_text(encoding="utf-8"), escape(declared.title))
        caption = f"{declared.caption} {states[declared.name]}.".strip()
        parts.append(figure(text, declared.title, caption, declared.name, drawn.get_figwidth() > 7.5))
    return f'<div class="cards">{"".join(parts)}</div>' if parts else ""


def _settings(result: StudyResult) -> str:
    study, scale = result.study, result.scale
    parts = []
    for variant in study.needs(scale):
        settings = flat(study.experiment(variant, scale).settings())
        text = "\n".join(
            f"{name} = {plain_text(value)}" for name, value in settings.items() if name != "seed"
        )
        parts.append(f"<details><summary>{escape(variant)}</summary><pre>{escape(text)}</pre></details>")
    notes = study.notes(scale)
    return "".join(parts) + (f'<ul class="remarks">{bullets(notes)}</ul>' if notes else "")
