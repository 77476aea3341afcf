"""Run the study of `docs/tutorial.md` and put its table into the page: `python docs/tutorial.py`.

The runs lie in `runs/tutorial-page`, where finished ones are reused. What each of them ended with is kept in
`docs/records/tutorial.json`, with the digest of its experiment: a test holds the page's file and table against it.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fedroam as fr
from fedroam.analysis.summary import summarise
from fedroam.writing import write_text

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "docs" / "records" / "tutorial.json"
PAGE = ROOT / "docs" / "tutorial.md"
BEGIN, END = "<!-- tutorial: begin -->", "<!-- tutorial: end -->"
HEADS = ("Variant", "Seeds", "Final accuracy (%)", "Averaged model (%)", "Difference to nobody (points)")


def planned(page: str) -> fr.Plan:
    """The runs of the file as the page has it."""
    found = re.search(r"```toml\n(# tutorial\.toml\n.*?)```", page, re.DOTALL)
    assert found is not None
    return fr.plan(tomllib.loads(found[1]))


def record(runs: fr.Plan, folder: Path) -> list[dict[str, Any]]:
    """Run what has not run, and give the accuracies that each run ended with."""
    ends = [summarise(run, 1) for run in fr.run_plan(runs, folder)]
    return [
        {
            "variant": one.variant,
            "seed": one.experiment.seed,
            "digest": one.experiment.digest,
            "final": round(end.final, 6),
            "mean_model": round(end.mean_model, 6),
        }
        for one, end in zip(runs.runs, ends, strict=True)
    ]


def told(values: Sequence[float], sign: str = "") -> str:
    """Mean and standard error over seeds, of shares as per cent."""
    error = statistics.stdev(values) / len(values) ** 0.5
    return f"{100 * statistics.fmean(values):{sign}.1f} ± {100 * error:.1f}"


def table(kept: Sequence[dict[str, Any]]) -> str:
    """A row a variant, in Markdown; differences are paired by seed."""
    lines = [HEADS, ("---",) * len(HEADS)]
    still = [line["final"] for line in kept if line["variant"] == "nobody"]
    for variant in dict.fromkeys(line["variant"] for line in kept):
        own = [line for line in kept if line["variant"] == variant]
        final, averaged = ([line[what] for line in own] for what in ("final", "mean_model"))
        gains = [a - b for a, b in zip(final, still, strict=True)]
        shown = "–" if variant == "nobody" else told(gains, "+")
        lines.append((variant, str(len(own)), told(final), told(averaged), shown))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def written(page: str, kept: Sequence[dict[str, Any]]) -> str:
    """The page with its table made anew."""
    inner = f"{BEGIN}\n{table(kept)}\n{END}"
    return re.sub(f"{BEGIN}.*?{END}", lambda _: inner, page, count=1, flags=re.DOTALL)


def main() -> int:
    """Run, keep the record, and rewrite the page's table."""
    page = PAGE.read_text(encoding="utf-8")
    kept = record(planned(page), ROOT / "runs" / "tutorial-page")
    write_text(RECORD, json.dumps(kept, indent=1) + "\n")
    write_text(PAGE, written(page, kept))
    print(table(kept))
    return 0


if __name__ == "__main__":
    sys.exit(main())
