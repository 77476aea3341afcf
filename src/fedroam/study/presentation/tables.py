"""A study's result as values: cells.csv, claims.csv and study.json."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from fedroam.study.evaluation import CellResult, StudyResult
from fedroam.study.presentation.wording import NOT_HERE, unit_of


def cells_table(result: StudyResult) -> pd.DataFrame:
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
            for name, cells in result.tables.items()
            for each in cells
        ],
    )


def claims_table(result: StudyResult) -> pd.DataFrame:
    """One row a claim: its text, what the paper prints, verdict, reason, numbers of its test, corrected p-values, seeds
    that would decide."""
    rows = []
    for claim, verdict in result.claims():
        row = {
            "claim": claim.name,
            "text": claim.text,
            "source": claim.source,
            "paper": claim.paper,
            "family": claim.family,
            "tested": claim.test.words,
        }
        found: dict[str, Any] = {"verdict": NOT_HERE}
        if verdict is not None:
            found = {
                "verdict": verdict.word,
                "reason": verdict.reason,
                **_without(verdict.evidence, "kind", "values", "parts", "said_by"),
            }
            found |= {"p_holds_holm": verdict.p_holds, "p_fails_holm": verdict.p_fails}
            found["seeds_needed"] = verdict.seeds
        unit = claim.test.unit if verdict is None else unit_of(claim, verdict.evidence)
        rows.append({**row, **found, "unit": unit})
    return pd.DataFrame(rows)


def _without(found: object, *left_out: str) -> dict[str, Any]:
    return {name: value for name, value in vars(found).items() if name not in left_out}


def as_json(result: StudyResult) -> dict[str, Any]:
    """Everything as plain values; numbers that are none, or infinite, as null or as text."""
    study = result.study
    whole = {
        "format": 1,
        "study": study.name,
        "title": study.title,
        "paper": study.paper,
        "scale": result.scale,
        "seeds": list(result.seeds),
        "cut": list(study.scale(result.scale).cut),
        "runs": _digests(result),
        "missing_runs": [list(key) for key in result.missing],
        "tables": {name: [_cell(each) for each in cells] for name, cells in result.tables.items()},
        "searches": {
            name: None if found.threshold is None else _without(found.threshold, "evidence")
            for name, found in result.searches.items()
        },
        "claims": claims_table(result).to_dict("records"),
        "findings": {finding.title: list(finding.sentences) for finding in result.findings},
        "readings": [vars(each) for each in study.readings],
        "alpha": study.alpha,
    }
    plain: dict[str, Any] = _plain(whole)
    return plain


def _digests(result: StudyResult) -> dict[str, dict[str, str]]:
    """The finished runs by variant and seed: the digest names the folder of a run."""
    find, variants = result.reader.find, result.study.needs(result.scale)
    found = {variant: {seed: find(variant, seed) for seed in result.seeds} for variant in variants}
    return {
        variant: {str(seed): str(run.status["digest"]) for seed, run in runs.items() if run is not None}
        for variant, runs in found.items()
    }


def _cell(each: CellResult) -> dict[str, Any]:
    cell = each.cell
    return {
        "row": cell.row,
        "column": cell.column,
        "value": cell.value.words,
        "unit": cell.value.unit,
        "mean": each.mean,
        "error": each.error,
        "by_seed": {str(seed): value for seed, value in each.by_seed.items()},
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
