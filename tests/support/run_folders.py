"""Run folders changed by hand: as earlier versions left them, or damaged."""

from __future__ import annotations

import json
from pathlib import Path


def of_before_there_was_a_manifest(folder: Path) -> None:
    """Make a run folder one of fedroam 0.1.0: its `run.json` lists no files and carries no sum."""
    _without_sums(folder / "run.json")


def of_before_sweeps_had_sums(folder: Path) -> None:
    """Make a sweep's folder one of fedroam 0.1.0, in the same way; its runs stay as they are."""
    _without_sums(folder / "sweep.json")


def _without_sums(path: Path) -> None:
    facts = json.loads(path.read_text(encoding="utf-8"))
    kept = {name: value for name, value in facts.items() if name not in ("files", "sha256")}
    path.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
