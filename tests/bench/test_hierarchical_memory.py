"""The benchmark of memory and time of a hierarchical federation: it runs, says both numbers, and judges them."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from support.waiting import HANGS
from support.warm import python

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "hierarchical_memory.py"
SMALL = "--devices 1200 --access-points 20 --present 0.05 --model mlp --samples 4 --epochs 1 --rounds 2"


def bench(*more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*python(), str(SCRIPT), *SMALL.split(), "--every", "0", *more],
        capture_output=True,
        text=True,
        timeout=HANGS,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads memory from /proc")
def test_it_tells_memory_share_and_progress() -> None:
    done = bench("--share", "0", "--limit", "0.01")
    assert done.returncode == 1, done.stderr
    assert re.search(r"^peak memory: \d+\.\d\d GiB of 0.01 allowed", done.stdout, re.M)
    assert re.search(
        r"^training: \d+\.\d% of the rounds' time, all the rest \d+\.\d\d s a round$", done.stdout, re.M
    )
    assert re.search(
        r"\.\.\. 32 of \d+ devices after \d+:\d\d:\d\d, \d+:\d\d:\d\d left of this round", done.stdout
    )
    assert re.search(r"^ +1 .* \d+:\d\d:\d\d left$", done.stdout, re.M)
    assert bench("--idle", "--limit", "50").returncode == 0  # no training, no share of it
