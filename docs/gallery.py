"""Run the gallery's five studies and write its page, pictures and record: `python docs/gallery.py`.

The runs lie in `runs/gallery`, where finished ones are reused. Takes some minutes on two cores.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import fedroam as fr
from fedroam.analysis import compare_runs, variants
from fedroam.analysis.figures.catalogue import draw_figure
from fedroam.analysis.figures.drawing import style
from fedroam.analysis.report.table import cells, columns
from fedroam.planning import Plan
from fedroam.recording import Run
from fedroam.writing import write_aside, write_text

DOCS = Path(__file__).parent
RECORD = DOCS / "gallery" / "record.json"
PAGE = DOCS / "gallery.md"
# File, heading, the figure of the catalogue, what the picture shows, and the columns of the table.
STUDIES = (
    (
        "how-many-must-move",
        "How many must move?",
        "accuracy",
        "Test accuracy over rounds, for none to ten of twenty clients moving",
        ("Variant", "Final accuracy", "Difference", "Averaged model"),
    ),
    (
        "lean-to-the-fast",
        "Should neighbours lean to the fast?",
        "accuracy",
        "Test accuracy over rounds, for four ways to weigh fast neighbours",
        ("Variant", "Final accuracy", "Difference", "Averaged model"),
    ),
    (
        "devices-that-come-and-go",
        "Devices that come and go",
        "accuracy",
        "Test accuracy over rounds of three hierarchical methods",
        ("Variant", "Final accuracy", "Difference", "Wasted"),
    ),
    (
        "half-are-away",
        "Half are away",
        "accuracy",
        "Test accuracy over rounds of four methods with a server, half of the clients away",
        ("Variant", "Final accuracy", "Difference", "Sent"),
    ),
    (
        "how-many-access-points",
        "What do more access points buy?",
        "energy",
        "Test accuracy against energy, for 4, 16 and 100 access points",
        ("Variant", "Final accuracy", "Difference", "Energy"),
    ),
)


def source(name: str) -> Path:
    """The experiment file of a study."""
    return DOCS / "gallery" / f"{name}.toml"


def digest(plan: Plan) -> str:
    """What identifies the runs of a study."""
    return hashlib.sha256("".join(run.experiment.digest for run in plan.runs).encode()).hexdigest()


def table(runs: list[Run], heads: tuple[str, ...]) -> list[list[str]]:
    """The comparison, head first, cut to the columns that begin so."""
    found = compare_runs(runs)
    every = columns(found)
    shown = [next(k for k, head in enumerate(every) if head.startswith(wanted)) for wanted in heads]
    return [[row[k] for k in shown] for row in (every, *cells(found))]


def body(settings: str) -> str:
    """An experiment file without the comment that it begins with."""
    return settings[settings.index("\nname = ") + 1 :]


def page(record: dict[str, Any]) -> str:
    """The page, made from the record alone."""
    written = [
        "# Gallery",
        "Five small studies on data that comes with fedroam. Each is one file, runs in minutes on two cores, "
        "and ends in these numbers: means over five seeds ± standard error, every variant on the same seeds. "
        "[docs/gallery/record.json](gallery/record.json) keeps what was run; "
        "`.venv/bin/python docs/gallery.py` runs what `runs/gallery` lacks, and makes this page.",
    ]
    for name, heading, _, alternative, _ in STUDIES:
        settings = source(name).read_text(encoding="utf-8")
        rows = record["studies"][name]["table"]
        written += [
            f"## {heading}",
            " ".join(line.removeprefix("# ") for line in settings.splitlines() if line.startswith("# ")),
            f"![{alternative}](images/gallery-{name}.png)",
            "\n".join("| " + " | ".join(row) + " |" for row in (rows[0], ["---"] * len(rows[0]), *rows[1:])),
            f"```toml\n# {name}.toml\n{body(settings)}```",
            f"<!-- test: add --set rounds=1 --seeds 1 -->\n```bash\nfedroam run {name}.toml\n```",
        ]
    return "\n\n".join(written) + "\n"


def main() -> int:
    """Run all, draw, and write record and page."""
    record: dict[str, Any] = {"fedroam": fr.__version__, "command": "python docs/gallery.py", "studies": {}}
    for name, _, figure, _, heads in STUDIES:
        plan = fr.plan(str(source(name)))
        runs = fr.run_plan(plan, DOCS.parent / "runs" / "gallery" / name)
        drawn = draw_figure(figure, variants(runs))
        if drawn is None:
            raise SystemExit(f"{name}: nothing to draw")
        picture = DOCS / "images" / f"gallery-{name}.png"
        with style():
            write_aside(
                picture,
                lambda aside, made=drawn: made.savefig(  # type: ignore[misc]
                    aside, format="png", dpi=130, metadata={"Software": None}
                ),
            )
        record["studies"][name] = {"runs": len(runs), "digest": digest(plan), "table": table(runs, heads)}
        print(f"{name}: {len(runs)} runs", flush=True)
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    write_text(RECORD, text)
    write_text(PAGE, page(record))
    return 0


if __name__ == "__main__":
    sys.exit(main())
