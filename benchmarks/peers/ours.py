"""fedroam, by its command: `fedroam run experiment.toml`, with all that it records; or, of a schedule, its planner.

What the command has recorded is read when it has ended, and that is not in its time.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from interface import Work, run

PACKAGES = ("fedroam", "torch", "numpy")  # whose versions are told


def words(work: Work, rounds: int, home: Path) -> list[str]:
    """The words of the command that does the work, after `fedroam`; it writes into a folder of `home`."""
    options = ["--out", str(home / "run"), "--set", f"rounds={rounds}", "--quiet", "--no-report"]
    return ["run", str((work.folder / "experiment.toml").resolve()), *options]


def recorded(work: Work, home: Path, tell: Any) -> np.ndarray:
    """Tell what a command into `home` has recorded, with its moments; the models that it ended with."""
    from fedroam.recording import open_run
    from fedroam.recording.models import read_models

    done = open_run(next((home / "run").rglob("run.json")).parent)
    for seconds, accuracy in zip(done.rounds["seconds"], done.rounds["accuracy"], strict=True):
        tell(float(accuracy), float(seconds))
    kept = read_models(done.folder / "models.safetensors")
    judged = kept.groups.rows[kept.groups.headline]
    models = [kept.values(client=judged.index(row)) for row in sorted(set(judged))]
    names = work.facts["names"]
    return np.stack([np.concatenate([each[name].reshape(-1) for name in names]) for each in models])


def play(work: Work, rounds: int, tell: Any) -> np.ndarray | None:
    """The same within this process."""
    if work.kind == "schedule":
        return _planned(work, rounds, tell)
    from fedroam.cli import main

    with tempfile.TemporaryDirectory() as home:
        code = main(words(work, rounds, Path(home)))
        if code:
            raise SystemExit(code)
        return recorded(work, Path(home), tell)


def _planned(work: Work, rounds: int, tell: Any) -> None:
    from fedroam.analysis.planned_time import planned_rounds
    from fedroam.planning import plan

    experiment = plan(str(work.folder / "experiment.toml")).runs[0].experiment
    tell(0.0)
    for row in planned_rounds(experiment, rounds):
        tell(float(row["through"]))


if __name__ == "__main__":
    run(play, *PACKAGES)
