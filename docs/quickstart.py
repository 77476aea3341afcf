"""Run the quickstart and put its figure and its table into the README: `python docs/quickstart.py`.

The runs lie in `runs/`, where finished ones are reused. Takes about a minute. What each of them ended with is kept in
`docs/records/quickstart.json`: tests hold the table against it, and some runs computed again against its lines.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import fedroam as fr
from fedroam.analysis import compare_runs, variants
from fedroam.analysis.figures.catalogue import draw_figure
from fedroam.analysis.figures.drawing import style
from fedroam.analysis.report.table import cells, columns
from fedroam.analysis.summary import reached, summarise
from fedroam.recording import Run
from fedroam.writing import write_aside, write_text

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "docs" / "records" / "quickstart.json"
PICTURE = ROOT / "docs" / "images" / "quickstart.png"
SPARED = ("Seeds", "Best", "Mean of last", "Sent to", "Energy", "Wasted")
BEGIN, END = "<!-- quickstart: begin -->", "<!-- quickstart: end -->"


def draw(runs: list[Run], path: Path) -> None:
    """The figure of the accuracy over rounds, 200 dots per inch."""
    figure = draw_figure("accuracy", variants(runs))
    if figure is None:
        raise SystemExit("the quickstart recorded no accuracy")
    path.parent.mkdir(exist_ok=True)
    with style():
        write_aside(
            path, lambda aside: figure.savefig(aside, format="png", dpi=200, metadata={"Software": None})
        )


def record(planned: fr.Plan, runs: list[Run]) -> str:
    """What the table is made of, from each run, and the digest of its experiment, as JSON.

    final, mean_model: accuracies at the end; bytes: sent in all; rounds: until the final accuracy was nine tenths of
    the best mean, None where it never was.
    """
    threshold, ends = compare_runs(runs).threshold, [summarise(run, 1) for run in runs]
    lines = [
        {
            "variant": one.variant,
            "seed": one.experiment.seed,
            "digest": one.experiment.digest,
            "final": round(end.final, 6),
            "mean_model": round(end.mean_model, 6),
            "bytes": end.bytes,
            "rounds": reached(run, threshold),
        }
        for one, run, end in zip(planned.runs, runs, ends, strict=True)
    ]
    return json.dumps(lines, indent=1) + "\n"


def table(runs: list[Run]) -> str:
    """The comparison as a Markdown table, without the columns that a first look can spare."""
    found = compare_runs(runs)
    heads = columns(found)
    shown = [k for k, head in enumerate(heads) if not head.startswith(SPARED)]
    rows = [heads, ["---"] * len(heads), *cells(found)]
    rows = [[row[k] for k in shown] for row in rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def main() -> int:
    """Run, draw, and rewrite the README's table."""
    planned = fr.plan("quickstart")
    runs = fr.run_plan(planned, ROOT / "runs" / "readme-quickstart")
    draw(runs, PICTURE)
    write_text(RECORD, record(planned, runs))
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    new = re.sub(
        f"{BEGIN}.*?{END}", lambda _: f"{BEGIN}\n{table(runs)}\n{END}", text, count=1, flags=re.DOTALL
    )
    write_text(readme, new)
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size // 1000} kB; README.md: table rewritten")
    print(table(runs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
