"""Judge the page's own claims and put what was found into it: `python docs/judged.py [FOLDER]`.

The study is the first file on `docs/judge-a-claim-of-your-own.md`, at scale full. Its runs lie in FOLDER (default:
`runs/judged`), where finished ones are reused; what is told of them is kept in `docs/records/judged.json`. Takes half a
minute.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from fedroam.writing import write_text

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "docs" / "records" / "judged.json"
PAGE = ROOT / "docs" / "judge-a-claim-of-your-own.md"
BEGIN, END = "<!-- judged: begin -->", "<!-- judged: end -->"
KEPT = ("claim", "verdict", "reason", "n", "estimate", "error", "low", "high")


def study(page: str) -> str:
    """The study's file as the page has it."""
    found = re.search(r"```python\n(# my_study\.py\n.*?)```", page, re.DOTALL)
    assert found is not None
    return found[1]


def digest(page: str) -> str:
    """What tells the study that was judged from another."""
    return hashlib.sha256(study(page).encode()).hexdigest()


def record(page: str, folder: Path) -> dict[str, Any]:
    """Run what has not run, and give what was found of each claim."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "my_study.py").write_text(study(page), encoding="utf-8")
    command = [sys.executable, "-m", "fedroam", "reproduce", "my_study.py", "--scale", "full", "--quiet"]
    subprocess.run(command, cwd=folder, check=True)
    claims = pd.read_csv(folder / "studies" / "reach" / "full" / "claims.csv")
    return {
        "study": digest(page),
        "scale": "full",
        "claims": json.loads(claims[[*KEPT]].to_json(orient="records")),
    }


def table(claims: Iterable[Mapping[str, Any]]) -> str:
    """A row a claim."""
    lines = ["| claim | verdict | estimate (points) | 95 % interval |", "|---|---|---|---|"]
    for one in claims:
        decided = f", {one['reason'].split(' after')[0]}" if one["verdict"] != "undecided" else ""
        numbers = f"{one['estimate']:+.1f} ± {one['error']:.1f} | {one['low']:+.1f} to {one['high']:+.1f}"
        lines.append(f"| {one['claim']} | {one['verdict']}{decided} | {numbers.replace('-', '−')} |")
    return "\n".join(lines)


def written(page: str, claims: Iterable[Mapping[str, Any]]) -> str:
    """The page with its table made anew."""
    inner = f"{BEGIN}\n{table(claims)}\n{END}"
    return re.sub(f"{BEGIN}.*?{END}", lambda _: inner, page, count=1, flags=re.DOTALL)


def main() -> int:
    """Run, keep the record, and rewrite the page's table."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "runs" / "judged"
    page = PAGE.read_text(encoding="utf-8")
    kept = record(page, folder)
    write_text(RECORD, json.dumps(kept, indent=1) + "\n")
    write_text(PAGE, written(page, kept["claims"]))
    print(table(kept["claims"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
