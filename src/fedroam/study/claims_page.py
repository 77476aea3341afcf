"""The claims of a study with their verdicts, as HTML and as a table."""

from __future__ import annotations

from html import escape
from typing import Any

import pandas as pd

from fedroam.analysis.report.page import bullets
from fedroam.analysis.statistics.paired import Evidence
from fedroam.study.claims import Claim
from fedroam.study.evaluation import Judgement, evidence_words
from fedroam.study.terminal import MARKS, NOT_HERE
from fedroam.study.wording import FEW, in_short, parts_of, weakest

_CLASSES = {"holds": "yes", "does not hold": "no", "undecided": "open"}


def claims_html(judgement: Judgement) -> str:
    """Each claim with its verdict, what was tested in short, and each of many tests folded away."""
    parts = []
    for claim, verdict in judgement.claims():
        source = "; ".join(filter(None, (claim.source, claim.family)))
        source = f' <span class="small">({escape(source)})</span>' if source else ""
        evidence = None if verdict is None else verdict.evidence
        word, kind, lines = NOT_HERE, "", [f"Tested: {in_short(claim, evidence)}."]
        if verdict is not None:
            word, kind = f"{MARKS[verdict.word]} {verdict.word}", _CLASSES[verdict.word]
            word += f": {verdict.reason}"
            which = weakest(claim, verdict.evidence)
            lines.append(f"{which}: " * bool(which) + evidence_words(verdict.evidence, claim.test.unit))
        told = "".join(f'<p class="small">{escape(line)}</p>' for line in lines)
        parts.append(
            f'<div class="claim {kind}" id="claim-{escape(claim.name)}"><p class="said">{escape(claim.text)}{source}'
            f'</p><p class="verdict">{escape(word)}</p>{told}{_folded(claim, evidence)}</div>'
        )
    if not parts:
        return ""
    rule = (
        f"Holds: the test rejects the opposite at level {judgement.study.alpha:g}. Does not hold: it rejects the "
        f"claim. Both are corrected by Holm's method over the {judgement.families()} judged "
        "here. Undecided: neither. Estimates are means ± standard error over seeds; intervals are for each claim alone."
    )
    return "".join(parts) + f'<p class="small">{escape(rule)}</p>'


def _folded(claim: Claim, evidence: Evidence | None) -> str:
    """Every one of many tests with its numbers, behind a line that unfolds them."""
    parts = [] if evidence is None else parts_of(claim.test, evidence)
    if len(parts) <= FEW:
        return ""
    lines = [f"{part.test.words}: {evidence_words(part.evidence, part.test.unit)}" for part in parts]
    return f'<details><summary>All {len(parts)} comparisons</summary><ul class="small">{bullets(lines)}</ul></details>'


def claims_table(judgement: Judgement) -> pd.DataFrame:
    """One row a claim: its text, verdict, reason, numbers of its test, corrected p-values, seeds that would decide."""
    rows = []
    for claim, verdict in judgement.claims():
        row: dict[str, Any] = {"claim": claim.name, "text": claim.text, "source": claim.source}
        row["family"] = claim.family
        row["tested"] = claim.test.words
        if verdict is None:
            row |= {"verdict": NOT_HERE}
        else:
            row |= {"verdict": verdict.word, "reason": verdict.reason, **_numbers(verdict.evidence)}
            row |= {
                "p_holds_holm": verdict.p_holds,
                "p_fails_holm": verdict.p_fails,
                "seeds_needed": verdict.seeds,
            }
        rows.append({**row, "unit": claim.test.unit})
    return pd.DataFrame(rows)


def _numbers(evidence: Evidence) -> dict[str, Any]:
    names = (
        "test",
        "n",
        "estimate",
        "error",
        "low",
        "high",
        "bound",
        "statistic",
        "df",
        "p_holds",
        "p_fails",
        "note",
    )
    return {name: getattr(evidence, name) for name in names}
