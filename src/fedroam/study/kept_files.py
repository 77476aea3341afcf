"""What a study's kept runs come to, beside `runs.jsonl`: claims.json, cells.json, study.json and figures/.

All of it is made of the records alone, so that whoever has them makes the same files again, byte for byte. Numbers
have six digits: processors differ in the last ones. A figure that is drawn from places or matrices, which are not kept,
is drawn where the folders of its runs are, and then stays.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from fedroam.analysis.figures.drawing import figures_below, svg_text
from fedroam.recording import write_text
from fedroam.study.evaluation import StudyResult
from fedroam.study.items import Figure
from fedroam.study.kept import Records
from fedroam.study.kept_pictures import small
from fedroam.study.outlook import Outlook
from fedroam.study.presentation.tables import as_json
from fedroam.study.values import Reader

_DIGITS = 6


def write_kept_files(folder: Path, result: StudyResult, records: Records, outlook: Outlook) -> None:
    """Write into `folder` what a result says, which was made of these records."""
    for name, text in kept_texts(result, records, outlook).items():
        write_text(folder / name, text)
    for figure in result.study.figures:
        drawn = kept_figure(figure, result)
        if drawn is not None:
            _keep(folder, figure.name, drawn)


def keep_figures_of_folders(folder: Path, result: StudyResult, read: Reader) -> None:
    """Write into `folder` those figures that records alone do not give; read: of the runs whose folders are there."""
    for figure in result.study.figures:
        if result.study.can(figure, result.scale) and figure.draw(result.reader) is None:
            drawn = figure.draw(read)
            if drawn is not None:
                _keep(folder, figure.name, small(svg_text(drawn, figure.name)))


def _keep(folder: Path, name: str, drawn: str) -> None:
    below = figures_below(folder)
    below.mkdir(exist_ok=True)
    write_text(below / f"{name}.svg", drawn)


def kept_texts(result: StudyResult, records: Records, outlook: Outlook) -> dict[str, str]:
    """The contents of claims.json, cells.json and study.json."""
    whole = as_json(result)
    claims, cells = whole.pop("claims"), whole.pop("tables")
    for key in ("runs", "readings", "missing_runs"):  # runs.jsonl and the study itself have them
        whole.pop(key)
    for cell in (cell for table in cells.values() for cell in table):
        cell["n"] = len(cell.pop("by_seed"))  # the lines have the number of each seed
    # What the paper has of a cell without runs, the study itself says: more than half of all cells were such.
    found = {name: [cell for cell in table if cell["n"]] for name, table in cells.items()}
    cells = {name: table for name, table in found.items() if table}
    for claim in claims:
        for key in ("asks", "name", "most", "seeds"):  # of the test's inner workings
            claim.pop(key, None)
        more = outlook.of_claim.get(claim["claim"])
        claim["runs_needed"] = None if more is None else more.runs
        claim["hours_needed"] = None if more is None or math.isnan(more.hours) else more.hours
        if more is not None and more.clock:  # of runs on a network, which core hours do not count
            claim["clock_hours_needed"] = None if math.isnan(more.clock) else more.clock
        claim["hours_estimated"] = more is not None and more.estimated
    facts = {
        **whole,
        "looks": list(result.looks),
        "runs_kept": outlook.kept,
        "runs_needed": outlook.needed,
        "runs_of_claims_kept": outlook.kept_of_claims,
        "runs_of_claims_needed": outlook.needed_of_claims,
        "core_hours": records.hours,
        "commands": list(dict.fromkeys(str(one.get("command", "")) for one in records.sittings)),
    }
    return {"claims.json": _text(claims), "cells.json": _text(cells), "study.json": _text(facts)}


def kept_figure(figure: Figure, result: StudyResult) -> str | None:
    """A figure as SVG, None where the records give none; in a dark page it has the page's dark colours."""
    drawn = figure.draw(result.reader) if result.study.can(figure, result.scale) else None
    return None if drawn is None else small(svg_text(drawn, figure.name))


def _text(value: Any) -> str:
    """JSON with a line for each entry of a list, and of the lists and objects of an object."""
    return f"{_lines(_rounded(value))}\n"


def _lines(value: Any, deep: int = 0) -> str:
    if deep > 1 or not isinstance(value, dict | list) or not value:
        return _close(value)
    indent = " " * (deep + 1)
    if isinstance(value, dict):
        inner = [
            f"{indent}{json.dumps(key, ensure_ascii=False)}: {_lines(one, deep + 1)}"
            for key, one in value.items()
        ]
        return "{\n" + ",\n".join(inner) + f"\n{' ' * deep}}}"
    inner = [f"{indent}{_close(one)}" for one in value]
    return "[\n" + ",\n".join(inner) + f"\n{' ' * deep}]"


def _close(value: Any) -> str:
    """In a line, without blanks: a tenth of what is kept would be those."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list) else value
