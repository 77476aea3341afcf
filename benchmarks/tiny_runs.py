"""A sweep of many tiny runs: how much of it is start-up, and not rounds?

    python benchmarks/tiny_runs.py [--runs 100] [--rounds 200] [--workers 2] [--record FILE.json]

Runs the quickstart with moving clients for many seeds, and a few of the same runs with one round. The difference is
what a round costs; a few with many evaluations, and with two, say what an evaluation costs, of which each run has two
at least: at its start and at its end. All that is left is start-up: of a run (its scene, its folder, its end), and of
the pool (this process, and what starts workers: both import torch). Told in processor time, which other programs on the
machine disturb little. Where PYTHONDONTWRITEBYTECODE is set, both also compile all modules anew.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

from fedroam import run_sweep, sweep_plan

MANY = 41  # rounds of the runs that say what an evaluation costs
FEW = 40  # runs that are compared with those that count: many enough that a worker's first ones do not


def of_children(parent: int) -> float:
    """Seconds of processor time of a process and those of its children that have ended (Linux)."""
    fields = Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def swept(runs: int, rounds: int, workers: int, *assignments: str) -> list[float]:
    """Seconds of processor time of each run."""
    plan = sweep_plan(
        "quickstart", seeds=runs, assignments=[f"rounds={rounds}", *assignments], over=["mobility=random"]
    )
    with tempfile.TemporaryDirectory() as folder:
        records = run_sweep(plan, Path(folder) / "sweep", workers=workers).info["records"].values()
    return [record["cpu_seconds"] for record in records]


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--runs", type=int, default=100)
    options.add_argument("--rounds", type=int, default=200)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--record", type=Path, metavar="FILE.json")
    given = options.parse_args()
    begun = time.process_time()  # all of this process so far is start-up, too
    wall = time.perf_counter()
    runs = swept(given.runs, given.rounds, given.workers)
    wall = time.perf_counter() - wall
    here = time.process_time()
    server: Any = forkserver
    workers = of_children(server._forkserver._forkserver_pid)
    short = statistics.median(swept(FEW, 1, given.workers))
    round = (statistics.median(runs) - short) / (given.rounds - 1)
    often, seldom = (
        statistics.median(swept(FEW, MANY, given.workers, f"evaluate_every={each}")) for each in (1, MANY)
    )
    evaluation = (often - seldom) / (MANY - 1)
    total, rounds = here + workers, round * given.rounds * len(runs)
    evaluations = 2 * evaluation * len(runs)
    of_runs, pool = sum(runs) - rounds - evaluations, total - sum(runs)
    found = {
        "runs": len(runs),
        "rounds": given.rounds,
        "workers": given.workers,
        "processor_seconds": total,
        "of_a_round": round,
        "of_an_evaluation": evaluation,
        "of_a_run_beside_its_rounds": of_runs / len(runs),
        "of_the_pool": pool,
        "of_it_before_the_sweep": begun,
        "share_of_evaluations": evaluations / total,
        "share_of_runs": of_runs / total,
        "share_of_the_pool": pool / total,
        "wall_seconds": wall,
        "load_after": os.getloadavg()[0],
    }
    print(
        f"{len(runs)} runs of {given.rounds} rounds: {total:.1f} s of processor time, {wall:.1f} s by the clock"
    )
    print(
        f"a round: {1000 * round:.2f} ms; an evaluation: {1000 * evaluation:.1f} ms; a run beside its rounds and two "
        f"evaluations: {1000 * of_runs / len(runs):.0f} ms"
    )
    print(f"start-up: {of_runs / total:.1%} in the runs, {pool / total:.1%} ({pool:.1f} s) of the pool")
    if given.record:
        given.record.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
