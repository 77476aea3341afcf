"""Sweeps: is the estimate of --dry-run right, and are all cores busy?

    python benchmarks/sweep.py [--seeds 4] [--workers 2]

Estimates the quickstart sweep (two variants), runs it, and prints both as ratios: the truth over the estimate (the
aim: within 30 %), and how busy the cores were (the aim: above 90 %): the share of the time in which the workers were at
a run, and the processor time of the runs, which is less where the machine has other work or waits for its disk.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from fedroam.planning import sweep_plan
from fedroam.sweep import Event, Progress
from fedroam.sweep.estimate import estimate
from fedroam.sweep.running import run_sweep


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--seeds", type=int, default=4)
    options.add_argument("--workers", type=int, default=2)
    given = options.parse_args()
    plan = sweep_plan("quickstart", seeds=given.seeds)
    print(f"{len(plan.distinct)} runs, {given.workers} workers, load before: {os.getloadavg()[0]:.1f}")

    begun = time.perf_counter()
    expected = estimate(plan.distinct, given.workers)
    print(f"estimate: {expected.seconds:.1f} s (found in {time.perf_counter() - begun:.1f} s)")

    hands = np.zeros(2)  # moment of the last change; worker-seconds at work until then
    first = 0.0

    def observe(progress: Progress, event: Event) -> None:
        """Worker-seconds at work: the number of runs in hand, summed over time."""
        nonlocal first
        now = time.perf_counter()
        if event.what == "begun":
            first = first or now
            hands[:] = now, hands[1] + (len(progress.running) - 1) * (now - hands[0]) if hands[0] else 0.0
        elif event.what in ("done", "failed"):
            hands[:] = now, hands[1] + (len(progress.running) + 1) * (now - hands[0])

    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        sweep = run_sweep(plan, Path(folder) / "sweep", workers=given.workers, observer=observe)
        took = time.perf_counter() - begun
        records = sweep.info["records"].values()
        cpu = sum(record["cpu_seconds"] for record in records)
    print(f"truth: {took:.1f} s, of which {first - begun:.1f} s until the first run began")
    print(f"truth / estimate: {took / expected.seconds:.2f}")
    print(f"workers at a run: {hands[1] / (given.workers * took):.1%} of the whole time, ", end="")
    print(f"{hands[1] / (given.workers * (begun + took - first)):.1%} from the first run on")
    print(
        f"processor time of the runs: {cpu / (given.workers * took):.1%}; load after: {os.getloadavg()[0]:.1f}"
    )
    for row in sweep.failed:
        print(f"failed: {dict(row.keys)}, seed {row.seed}: {row.reason}")


if __name__ == "__main__":
    main()
