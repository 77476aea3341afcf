"""Kill a run with SIGKILL at random moments, resume it, and compare with an uninterrupted run.

    python benchmarks/kill_and_resume.py            # 20 kills
    python benchmarks/kill_and_resume.py --kills 3 --rounds 20

Every file of the folders must be equal byte for byte; of `rounds.parquet` every column but the wall clock's must
be equal bit for bit. Prints one line a kill; the exit code is 1 where anything differs.
"""

from __future__ import annotations

import argparse
import multiprocessing
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pandas as pd

from fedroam.experiment import Experiment
from fedroam.randomness import stream
from fedroam.recording import NOT_REPEATABLE, read_json
from fedroam.runner import run


def experiment(rounds: int) -> Experiment:
    """Ten clients that learn digits on a grid; checkpoints and evaluations at different rounds."""
    return Experiment(
        name="kill-and-resume",
        clients=10,
        rounds=rounds,
        evaluate_every=2,
        checkpoint_every=3,
        data={"kind": "digits", "test_share": 0.5},
        model={"kind": "mlp", "hidden": [16]},
        training={"kind": "sgd", "lr": 0.05, "momentum": 0.9, "batch_size": 16, "epochs": 1},
        mobility={"kind": "random", "grid": 8, "mobile": 5},
        engine={"kind": "cpu", "workers": 2},
    )


def child(folder: str, rounds: int) -> None:
    """Run or resume; a process of its own."""
    run(experiment(rounds), folder)


def files(folder: Path) -> dict[str, Path]:
    """Every file of a run folder by its path within it, but for the lock."""
    return {
        str(path.relative_to(folder)): path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def differences(one: Path, other: Path) -> list[str]:
    """What differs between two run folders that should be equal."""
    here, there = files(one), files(other)
    found = [f"only in one: {name}" for name in sorted(here.keys() ^ there.keys())]
    for name in sorted(here.keys() & there.keys()):
        if name == "rounds.parquet":
            tables = [
                pd.read_parquet(path).drop(columns=list(NOT_REPEATABLE)) for path in (here[name], there[name])
            ]
            try:
                pd.testing.assert_frame_equal(*tables, check_exact=True)
            except AssertionError as error:
                found.append(f"{name}: {str(error).splitlines()[0]}")
        elif name == "run.json":
            if facts(here[name]) != facts(there[name]):
                found.append(f"{name}: differs in what is not a wall clock's")
        elif here[name].read_bytes() != there[name].read_bytes():
            found.append(f"{name}: bytes differ")
    return found


def facts(path: Path) -> dict[str, Any]:
    """What a run.json says, without the sums over wall-clock readings (bytes and SHA-256 of rounds.parquet)."""
    status = read_json(path)
    files = {name: value for name, value in status.get("files", {}).items() if name != "rounds.parquet"}
    return {**status, "files": files, "sha256": None}


def reached(folder: Path) -> str:
    """Where a killed run stood, as its folder tells."""
    try:
        status = read_json(folder / "run.json")
    except Exception:
        return "nothing written"
    newest = max((p.stem for p in (folder / "checkpoints").glob("round-*.safetensors")), default="none")
    return f"{status['state']}, newest checkpoint {newest.removeprefix('round-').lstrip('0') or '0'}"


def start(context: Any, folder: Path, rounds: int) -> Any:
    """A child process at work on a folder."""
    process = context.Process(target=child, args=(str(folder), rounds))
    process.start()
    return process


def main() -> int:
    """Kill, resume, compare, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=20, help="how many runs are killed (default 20)")
    parser.add_argument("--rounds", type=int, default=40, help="rounds of each run (default 40)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments of the kills (default 0)")
    options = parser.parse_args()
    # Children are forked from a server that has imported fedroam and nothing else, so that they start at once.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["fedroam.runner", "fedroam.data", "fedroam.learning", "fedroam.federation"]
    )
    moments = stream(options.seed, "kills")
    failed = 0
    with tempfile.TemporaryDirectory(prefix="fedroam-kill-") as scratch:
        whole = Path(scratch) / "whole"
        warm = start(context, Path(scratch) / "warm", options.rounds)  # the server imports
        warm.join()
        begin = time.perf_counter()
        uninterrupted = start(context, whole, options.rounds)
        uninterrupted.join()
        took = time.perf_counter() - begin
        if warm.exitcode or uninterrupted.exitcode:
            print("the uninterrupted run failed")
            return 1
        print(f"uninterrupted: {took:.2f} s, {options.rounds} rounds, {len(files(whole))} files")
        print(f"{'kill':>4}  {'after':>7}  {'state when killed':<40}  result")
        killed, trial = 0, 0
        while killed < options.kills:
            folder, after = Path(scratch) / f"killed-{trial}", float(moments.uniform(0, took))
            trial += 1
            process = start(context, folder, options.rounds)
            process.join(after)
            process.kill()
            process.join()
            if process.exitcode == 0:  # it had finished: another moment
                took = min(took, after)
                continue
            killed += 1
            state = reached(folder)
            resumed = start(context, folder, options.rounds)
            resumed.join()
            problems = differences(whole, folder) if resumed.exitcode == 0 else ["the resumed run failed"]
            failed += bool(problems)
            print(f"{killed:>4}  {after:>5.2f} s  {state:<40}  {'; '.join(problems) or 'equal'}", flush=True)
            shutil.rmtree(folder)
    print(f"{options.kills - failed} of {options.kills} resumed runs equal the uninterrupted one")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
