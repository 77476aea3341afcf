"""One self-contained HTML file about a set of runs, and its figures as files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from fedroam.analysis.figures.catalogue import all_figures, timetables
from fedroam.analysis.figures.drawing import figures_below, inline, save
from fedroam.analysis.report import page
from fedroam.analysis.report.charts import POINTS, curves, packed
from fedroam.analysis.report.devices import energy_table, fleet_table
from fedroam.analysis.report.gantt import gantt_chart
from fedroam.analysis.report.marginals import SweepPoint
from fedroam.analysis.report.movement import playback
from fedroam.analysis.report.scripts import asset, inline_scripts, packed_libraries, policy
from fedroam.analysis.report.swept import sweep_charts, sweep_section
from fedroam.analysis.summary import compare_runs
from fedroam.analysis.variants import uses, variants
from fedroam.recording import Run, write_text


def write_report(
    runs: Sequence[Run],
    folder: Path,
    *,
    last: int = 5,
    threshold: float | None = None,
    swept: Sequence[SweepPoint] = (),
) -> Path:
    """Write `report.html` and `figures/NAME.png` and `.svg` into `folder` (made if need be); return its path.

    The page needs no other file and no network, and follows the reader's light or dark theme. last and threshold
    are those of `compare_runs`; swept: the rows of a sweep, for tables and figures by its varied settings. Raises
    InputError where there are no runs or nothing has been recorded.
    """
    comparison, compared = compare_runs(runs, last=last, threshold=threshold), variants(runs)
    by_setting, figures = sweep_section(swept) if swept else ("", [])
    charts = {**curves(compared), **(sweep_charts(swept) if swept else {})}
    for chart, (label, run) in timetables(compared).items():
        charts[chart] = gantt_chart(run, f"Who is at what when, {label}")
    parts: dict[str, list[str]] = {"main": [], "curves": [], "data": [], "sweep": [], "heat": []}
    for drawn in [*figures, *all_figures(compared)]:
        _, svg = save(drawn.figure, figures_below(Path(folder)), drawn.name)
        text = inline(svg.read_text(encoding="utf-8"), escape(f"{drawn.title}. {drawn.caption}"))
        main = drawn.name == "accuracy"
        thinned = f" At most {POINTS} points a line." if charts.get(drawn.name, {}).get("thinned") else ""
        if charts.get(drawn.name, {}).get("cut"):
            thinned = (
                f" Here: the first {len(charts[drawn.name]['rounds'])} of {charts[drawn.name]['cut']} rounds."
            )
        shown = page.figure(
            text, drawn.title, drawn.caption + thinned, drawn.name, main or drawn.figure.get_figwidth() > 7.5
        )
        parts["main" if main else drawn.part].append(shown)
    words, numbers, remarks = page.result(comparison)
    places = uses(compared, "places")
    movement: dict[str, Any] = playback(compared) if places else {"runs": [], "start": 0, "notes": []}
    name, facts = page.heading(compared)
    content = {
        "title": escape(f"{name} – fedroam report"),
        "name": escape(name),
        "facts": escape(facts),
        "notes": page.notes_box(comparison.notes),
        "headline": words,
        "table": numbers,
        "remarks": remarks,
        "sweep_link": '<a href="#sweep">By setting</a>' if by_setting else "",
        "sweep": _sweep(by_setting, parts["sweep"], parts["heat"]),
        "main": "".join(parts["main"]),
        "figures": "".join(parts["curves"]),
        "devices": fleet_table(compared) + energy_table(compared),
        "holdings": f'<div class="cards">{"".join(parts["data"])}</div>',
        "movement_link": '<a href="#movement">Movement</a>' if places else "",
        "map": _map(movement["notes"]) if places else "",
        "settings": page.settings(compared),
        "environment": page.environment(compared),
        "movement": _json(movement),
        "charts": packed(charts),
        "policy": policy(),
        "css": asset("report.css"),
        "libraries": packed_libraries(),
        "scripts": inline_scripts(),
        "footer": "Made by fedroam. The figures lie beside this file, in figures/, as PNG and SVG.",
    }
    path = Path(folder) / "report.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, Template(asset("report.html")).substitute(content))
    return path


def _sweep(by_setting: str, figures: Sequence[str], more: Sequence[str]) -> str:
    """The section on what varies, nothing where it is no sweep."""
    if not by_setting:
        return ""
    heat = ""
    if more:
        heat = page.folded(f"Heat maps of {len(more)} more", f'<div class="cards">{"".join(more)}</div>')
    cards = f'<div class="cards">{"".join(figures)}</div>'
    return f'<section id="sweep"><h2>By setting</h2>{by_setting}{cards}{heat}</section>'


def _json(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _map(notes: Sequence[str]) -> str:
    """The section on movement: the map, how to read it, and what was left out of it."""
    lines = [
        "Places and contacts are those in which models are exchanged, one a round; between two rounds the map draws "
        "straight lines, not the ways taken.",
        "Keys, with the map in focus: space plays and pauses, ← and → step, Home and End jump, N and P choose a "
        "client, Escape lets go of it.",
        *notes,
    ]
    inside = f'{asset("map.html")}<ul class="remarks">{page.bullets(lines)}</ul>'
    return f'<section id="movement">\n<h2>Movement and contacts</h2>\n{inside}\n</section>'
