"""fedroam, by its command: `fedroam run experiment.toml`, with all that it records; or, of a schedule, its planner."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from interface import Work, run


def play(work: Work, rounds: int, tell: Any) -> np.ndarray | None:
    """A run into a folder of its own. Moments are those that the run has recorded."""
    return _planned(work, rounds, tell) if work.kind == "schedule" else _run(work, rounds, tell)


def _run(work: Work, rounds: int, tell: Any) -> np.ndarray:
    from fedroam.cli import main

    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "run"
        options = ["--out", str(folder), "--set", f"rounds={rounds}", "--quiet", "--no-report"]
        code = main(["run", str(work.folder / "experiment.toml"), *options])
        if code:
            raise SystemExit(code)
        from fedroam.recording import open_run
        from fedroam.recording.models import read_models

        done = open_run(next(folder.rglob("run.json")).parent)
        for seconds, accuracy in zip(done.rounds["seconds"], done.rounds["accuracy"], strict=True):
            tell(float(accuracy), float(seconds))
        kept = read_models(done.folder / "models.safetensors")
        judged = kept.groups.rows[kept.groups.headline]
        models = [kept.values(client=judged.index(row)) for row in sorted(set(judged))]
    names = work.facts["names"]
    return np.stack([np.concatenate([each[name].reshape(-1) for name in names]) for each in models])


def _planned(work: Work, rounds: int, tell: Any) -> None:
    from fedroam.analysis.planned_time import planned_rounds
    from fedroam.planning import plan

    experiment = plan(str(work.folder / "experiment.toml")).runs[0].experiment
    tell(0.0)
    for row in planned_rounds(experiment, rounds):
        tell(float(row["through"]))


if __name__ == "__main__":
    run(play, "fedroam", "torch", "numpy")
