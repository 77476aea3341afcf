"""A judgement as files: study.html, cells.csv, claims.csv, study.json and figures/."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import pandas as pd

from fedroam.analysis.figures.drawing import inline, save
from fedroam.analysis.report.page import bullets, figure, notes_box, table_html
from fedroam.analysis.variants import flat, plain_text
from fedroam.recording import write_json, write_text
from fedroam.study.baselines import not_above
from fedroam.study.claims_page import claims_html, claims_table
from fedroam.study.evaluation import Judged, Judgement
from fedroam.study.terminal import ours, papers, search_words

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


def write_study(judgement: Judgement, folder: Path, states: Mapping[str, str]) -> Path:
    """Write everything there is of a study into `folder`; returns the path of the HTML page.

    The page needs no other file and no network. states: what became of the runs of each item. Items whose runs are
    missing stand there, marked so.
    """
    folder.mkdir(parents=True, exist_ok=True)
    cells_table(judgement).to_csv(folder / "cells.csv", index=False)
    claims_table(judgement).to_csv(folder / "claims.csv", index=False)
    write_json(folder / "study.json", as_json(judgement))
    study = judgement.study
    sections = {
        "claims": ("Claims", claims_html(judgement)),
        "findings": ("What the runs say", _findings(judgement)),
        "tables": ("Tables", _tables(judgement, states)),
        "figures": ("Figures", _figures(judgement, folder, states)),
        "readings": ("How the paper was read", _readings(judgement)),
        "settings": ("Settings", _settings(judgement)),
    }
    shown = {key: pair for key, pair in sections.items() if pair[1]}
    cut = [f"Cut at scale {judgement.scale}: {line}" for line in study.scale(judgement.scale).cut]
    if judgement.missing:
        cut.append(
            f"{len(judgement.missing)} runs of this scale are missing; what needs them is judged without them."
        )
    css = (resources.files("fedroam.analysis.report") / "assets" / "report.css").read_text(encoding="utf-8")
    content = {
        "title": escape(f"{study.title} – fedroam study"),
        "name": escape(study.title),
        "facts": escape(
            f"{study.paper} Scale {judgement.scale}, {len(judgement.seeds)} seeds. {study.about}"
        ),
        "css": css + _STYLE,
        "links": "".join(f'<a href="#{key}">{title}</a>' for key, (title, _) in shown.items()),
        "notes": notes_box([*cut, *judgement.diverged]),
        "sections": "".join(
            f'<section id="{key}"><h2>{title}</h2>{html}</section>' for key, (title, html) in shown.items()
        ),
    }
    path = folder / "study.html"
    write_text(path, Template(_PAGE).substitute(content))
    return path


def _findings(judgement: Judgement) -> str:
    parts = [
        f'<h3>{escape(finding.title)}</h3><ul class="remarks">{bullets(finding.sentences)}</ul>'
        for finding in judgement.findings
    ]
    rule = (
        "Computed from the runs of this page. “Above” and “below”: the 95 % interval over seeds lies on one side of 0; "
        "it is not corrected for how many are looked at, so this describes and does not test."
    )
    return "".join(parts) + f'<p class="small">{escape(rule)}</p>' if parts else ""


def _readings(judgement: Judgement) -> str:
    readings = judgement.study.readings
    return f'<ul class="remarks">{bullets(readings)}</ul>' if readings else ""


def _tables(judgement: Judgement, states: Mapping[str, str]) -> str:
    parts = []
    for table in judgement.study.tables:
        source = f", {table.source}" if table.source else ""
        heads, rows = _matrix(judgement.tables[table.name], len(judgement.seeds))
        parts.append(f"<h3>{escape(table.title)}</h3>{table_html(heads, rows)}")
        told = f"{states[table.name]}{source}. Mean ± standard error over seeds; below it the paper's. {table.caption}"
        parts.append(f'<p class="small">{escape(told)}</p>')
        parts += [f"<p>{escape(line)}</p>" for line in not_above(table, judgement.tables[table.name])]
    for name, found in judgement.searches.items():
        parts.append(f"<h3>{escape(found.search.title)}</h3><p>{escape(search_words(found))}.</p>")
        told = (
            f"{states[name]}. “Established” and “ruled out”: one-sided t tests over seeds, from the largest and from "
            "the smallest value, each until the first that does not reject, at level 0.05."
        )
        parts.append(f'<p class="small">{escape(told)}</p>')
    return "".join(parts)


def _matrix(cells: Sequence[Judged], seeds: int) -> tuple[list[str], list[list[str]]]:
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


def _figures(judgement: Judgement, folder: Path, states: Mapping[str, str]) -> str:
    parts = []
    for declared in judgement.study.figures:
        drawn = declared.draw(judgement.reader) if judgement.study.can(declared, judgement.scale) else None
        if drawn is None:
            parts.append(f"<p>{escape(declared.title)}: {escape(states[declared.name])}.</p>")
            continue
        _, svg = save(drawn, folder / "figures", declared.name)
        text = inline(svg.read_text(encoding="utf-8"), escape(declared.title))
        caption = f"{declared.caption} {states[declared.name]}.".strip()
        parts.append(figure(text, declared.title, caption, declared.name, drawn.get_figwidth() > 7.5))
    return f'<div class="cards">{"".join(parts)}</div>' if parts else ""


def _settings(judgement: Judgement) -> str:
    study, scale = judgement.study, judgement.scale
    parts = []
    for variant in study.needs(scale):
        settings = flat(study.experiment(variant, scale).settings())
        text = "\n".join(
            f"{name} = {plain_text(value)}" for name, value in settings.items() if name != "seed"
        )
        parts.append(f"<details><summary>{escape(variant)}</summary><pre>{escape(text)}</pre></details>")
    notes = study.notes(scale)
    return "".join(parts) + (f'<ul class="remarks">{bullets(notes)}</ul>' if notes else "")


def cells_table(judgement: Judgement) -> pd.DataFrame:
    """One row a cell: table, row, column, unit, ours, error, seeds, paper, paper_error, difference."""
    return pd.DataFrame(
        [
            {
                "table": name,
                "row": each.cell.row,
                "column": each.cell.column,
                "unit": each.cell.value.unit,
                "ours": each.mean,
                "error": each.error,
                "seeds": each.n,
                "paper": each.cell.paper,
                "paper_error": each.cell.paper_error,
                "difference": each.distance,
            }
            for name, cells in judgement.tables.items()
            for each in cells
        ],
    )


def as_json(judgement: Judgement) -> dict[str, Any]:
    """Everything as plain values; numbers that are none, or infinite, as null or as text."""
    study = judgement.study
    whole = {
        "format": 1,
        "study": study.name,
        "title": study.title,
        "paper": study.paper,
        "scale": judgement.scale,
        "seeds": list(judgement.seeds),
        "cut": list(study.scale(judgement.scale).cut),
        "runs": _digests(judgement),
        "missing_runs": [list(key) for key in judgement.missing],
        "tables": {name: [_cell(each) for each in cells] for name, cells in judgement.tables.items()},
        "searches": {
            name: None
            if found.threshold is None
            else {
                key: getattr(found.threshold, key)
                for key in ("keys", "first", "sure", "ruled_out", "by_seed")
            }
            for name, found in judgement.searches.items()
        },
        "claims": claims_table(judgement).to_dict("records"),
        "findings": {finding.title: list(finding.sentences) for finding in judgement.findings},
        "readings": list(study.readings),
        "alpha": study.alpha,
    }
    plain: dict[str, Any] = _plain(whole)
    return plain


def _digests(judgement: Judgement) -> dict[str, dict[str, str]]:
    """The finished runs by variant and seed: the digest names the folder of a run."""
    find, variants = judgement.reader.find, judgement.study.needs(judgement.scale)
    found = {variant: {seed: find(variant, seed) for seed in judgement.seeds} for variant in variants}
    return {
        variant: {str(seed): str(run.status["digest"]) for seed, run in runs.items() if run is not None}
        for variant, runs in found.items()
    }


def _cell(judged: Judged) -> dict[str, Any]:
    cell = judged.cell
    return {
        "row": cell.row,
        "column": cell.column,
        "value": cell.value.words,
        "unit": cell.value.unit,
        "mean": judged.mean,
        "error": judged.error,
        "by_seed": {str(seed): value for seed, value in judged.by_seed.items()},
        "paper": cell.paper,
        "paper_error": cell.paper_error,
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value
