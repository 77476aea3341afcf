from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from support.waiting import HANGS
from support.warm import python

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "kill_and_resume.py"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_runs_killed_at_random_moments_resume_to_equal_files() -> None:
    """Of sweeps, see `tests/sweep/test_run.py`."""
    words = ["--kinds", "decentralized", "mohawk", "--kills", "3", "--rounds", "10", "--seed", "5"]
    done = subprocess.run(
        [*python(), str(SCRIPT), *words],
        capture_output=True,
        text=True,
        timeout=HANGS,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 of 3 resumed runs equal the uninterrupted one" in done.stdout
