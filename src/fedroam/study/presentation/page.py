"""A study's result as files: study.html, cells.csv, claims.csv, study.json and figures/."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

from fedroam.analysis.figures.drawing import figures_below, inline, save
from fedroam.analysis.report.page import bullets, notes_box
from fedroam.recording import write_csv, write_json, write_text
from fedroam.study.evaluation import StudyResult
from fedroam.study.outlook import Outlook
from fedroam.study.presentation.exhibits import (
    AtScale,
    figure_html,
    findings_html,
    tables_html,
    undrawn_words,
)
from fedroam.study.presentation.sections import (
    claims_html,
    limits,
    readings_html,
    settings_html,
    summary_html,
)
from fedroam.study.presentation.tables import as_json, cells_table, claims_table

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
.claim details { border: 0; background: none; margin: .2rem 0 0; padding: 0; }
.claim summary { font-size: .875rem; color: var(--muted); padding: .1rem 0; }
.claim:target, tr:has(:target) { outline: 2px solid var(--accent); }
.claim.yes { border-left-color: var(--c2); } .claim.no { border-left-color: var(--c1); }
#findings h3 { margin-top: 1.1rem; }
.claim.open { border-left-color: var(--c4); }
"""


def write_study(
    result: StudyResult, folder: Path, states: Mapping[str, str], outlook: Outlook | None = None
) -> Path:
    """Write everything there is of a study into `folder`; returns the path of the HTML page.

    The page needs no other file and no network. states: what became of the runs of each item; outlook: what would
    decide more, where that is known. Items whose runs are missing stand there, marked so.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(folder / "cells.csv", cells_table(result))
    write_csv(folder / "claims.csv", claims_table(result))
    write_json(folder / "study.json", as_json(result))
    study, scales = result.study, [AtScale(result, states)]
    sections = {
        "summary": ("In short", summary_html(result, outlook)),
        "claims": ("Claims", claims_html(result, outlook)),
        "findings": ("What the runs say", findings_html(scales)),
        "tables": ("Tables", tables_html(scales)),
        "figures": ("Figures", _figures(result, folder, states)),
        "readings": ("How the paper was read", readings_html(result)),
        "settings": ("Settings", settings_html(result)),
        "limits": ("What this cannot tell", f'<ul class="remarks">{bullets(limits(result))}</ul>'),
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


def _figures(result: StudyResult, folder: Path, states: Mapping[str, str]) -> str:
    parts = []
    for declared in result.study.figures:
        drawn = declared.draw(result.reader) if result.study.can(declared, result.scale) else None
        if drawn is None:
            parts.append(
                f'<p id="figure-{escape(declared.name)}">{escape(declared.title)}: '
                f"{escape(states[declared.name])}{undrawn_words(result, declared)}.</p>"
            )
            continue
        _, svg = save(drawn, figures_below(folder), declared.name)
        picture = inline(svg.read_text(encoding="utf-8"), escape(declared.title))
        here = AtScale(result, states, {declared.name: picture})
        parts.append(figure_html([here], declared, drawn.get_figwidth() > 7.5))
    return f'<div class="cards">{"".join(parts)}</div>' if parts else ""
