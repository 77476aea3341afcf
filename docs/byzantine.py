"""Attack every rule and put the tables into the page: `python docs/byzantine.py [FOLDER]`.

The runs lie in FOLDER (default: `runs/byzantine`), where finished ones are reused. What is told of them is kept in
`docs/records/byzantine.json`. Takes a minute or two for each attack.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import fedroam as fr
from fedroam.recording import Run
from fedroam.writing import write_text

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "docs" / "records" / "byzantine.json"
PAGE = ROOT / "docs" / "attacks-and-robust-rules.md"
BEGIN, END = "<!-- byzantine: begin -->", "<!-- byzantine: end -->"
# The attacks: what is set besides the named experiment. The first is the experiment's own.
ATTACKS = {
    "sign_flip": (),
    "gaussian": ("attack.kind=gaussian", "attack.std=1.0"),
    "label_flip": ("attack.kind=label_flip",),
    "alie": ("attack.kind=alie",),
    "none": ("attack.kind=none",),
}
Record = Mapping[str, Mapping[str, list[float]]]


def accuracy(run: Run, honest: np.ndarray) -> float:
    """The mean final accuracy of these clients (bool [clients]) of a run."""
    last = run.clients[run.clients["round"] == run.clients["round"].max()].sort_values("client")
    return float(last["accuracy"].to_numpy()[honest].mean())


def record(folder: Path) -> dict[str, Any]:
    """Run what has not run, and give the accuracy of the same honest clients by attack, rule and seed."""
    runs: dict[str, dict[str, list[Run]]] = {}
    for attack, assignments in ATTACKS.items():
        for run in fr.run_plan(fr.plan("byzantine", assignments=assignments), folder / attack):
            runs.setdefault(attack, {}).setdefault(str(run.status["variant"]), []).append(run)
    honest = [
        ~np.isin(np.arange(run.settings["clients"]), run.attackers) for run in runs["sign_flip"]["average"]
    ]
    found = {
        attack: {
            rule: [accuracy(run, who) for run, who in zip(each, honest, strict=True)]
            for rule, each in rules.items()
            if rule != "nobody_attacks"
        }
        for attack, rules in runs.items()
    }
    seeds = [run.status["seed"] for run in runs["sign_flip"]["average"]]
    versions = runs["sign_flip"]["average"][0].environment["packages"]
    return {"experiment": "byzantine", "seeds": seeds, "versions": versions, "accuracy": found}


def told(values: np.ndarray) -> str:
    """Mean and standard error over seeds, in per cent."""
    return f"{100 * values.mean():.1f} ± {100 * values.std(ddof=1) / math.sqrt(len(values)):.1f}"


def table(accuracies: Record) -> str:
    """A row a rule, a column an attack; then how much of each fall a rule regains."""
    attacks, rules = list(accuracies), list(accuracies["none"])
    names = ["nobody attacks" if name == "none" else f"`{name}`" for name in attacks]
    lines = ["| rule | " + " | ".join(names) + " |", "|---" * (len(attacks) + 1) + "|"]
    for rule in rules:
        cells = [told(np.array(accuracies[attack][rule])) for attack in attacks]
        lines.append(f"| `{rule}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def verdicts(accuracies: Record) -> str:
    """For each rule the share of the fall by the sign flip that it regains, seed by seed."""
    safe, fallen = (np.array(accuracies[attack]["average"]) for attack in ("none", "sign_flip"))
    lines = ["| rule | regained of the fall by `sign_flip` (%) | left of it (points) |", "|---|---|---|"]
    for rule, values in accuracies["sign_flip"].items():
        if rule != "average":
            kept = np.array(values)
            regained, left = (kept - fallen) / (safe - fallen), safe - kept
            lines.append(f"| `{rule}` | {told(regained)} | {told(left)} |")
    return "\n".join(lines)


def main() -> int:
    """Run, keep the record, and rewrite the page's tables."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "runs" / "byzantine"
    kept = record(folder)
    RECORD.parent.mkdir(exist_ok=True)
    text = json.dumps(kept, indent=1) + "\n"
    write_text(RECORD, text)
    page = PAGE.read_text(encoding="utf-8")
    write_text(PAGE, written(page, kept["accuracy"]))
    print(tables(kept["accuracy"]))
    return 0


def tables(accuracies: Record) -> str:
    """Both tables."""
    return f"{table(accuracies)}\n\n{verdicts(accuracies)}"


def written(page: str, accuracies: Record) -> str:
    """The page with its tables made anew."""
    inner = f"{BEGIN}\n{tables(accuracies)}\n{END}"
    return re.sub(f"{BEGIN}.*?{END}", lambda _: inner, page, count=1, flags=re.DOTALL)


if __name__ == "__main__":
    sys.exit(main())
