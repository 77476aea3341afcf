"""Kill a run with SIGKILL at random moments, resume it, and compare with an uninterrupted run.

    python benchmarks/kill_and_resume.py            # 20 kills
    python benchmarks/kill_and_resume.py --kills 3 --rounds 20
    python benchmarks/kill_and_resume.py --kinds all --kills 200    # of every federation, and of sweeps, in turn
    python benchmarks/kill_and_resume.py --kinds all --seconds      # the same under a clock of seconds
    python benchmarks/kill_and_resume.py --kinds all --seconds --each --kills 20    # 20 of each kind

A moment is drawn from when a run's folder is there to when it is done, by the clock of an uninterrupted run. Every file
of the folders must be equal byte for byte; of `rounds.parquet` every column but the wall clock's must be equal bit for
bit. Prints one line a kill; the exit code is 1 where anything differs.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedroam.components import kinds
from fedroam.errors import FedroamError
from fedroam.experiment import Experiment
from fedroam.federation.hierarchical import Hierarchical
from fedroam.planning import sweep_plan
from fedroam.randomness import stream
from fedroam.recording import NOT_REPEATABLE, environment, read_json
from fedroam.runner import run
from fedroam.sweep.running import run_sweep

SWEEP = "sweep"  # two runs with two workers, who notice that the process that is killed has gone
DEFAULT = "decentralized"
# With a cloud, that averages every k2 rounds.
GLOBAL = {kind for kind, part in kinds("federation").items() if issubclass(part, Hierarchical)}


def kinds_to_kill(asked: list[str]) -> list[str]:
    """The federations that are meant, and sweeps."""
    return [*kinds("federation"), SWEEP] if asked == ["all"] else asked


def timed(kind: str) -> dict[str, Any]:
    """Settings by which everything takes time: work and transfers go on in later rounds, and devices run empty."""
    # At access points late work is kept by a rule of the federation's own.
    late = {} if kind in GLOBAL else {"late": "carried"}
    return {
        "clock": {"kind": "seconds", "length": 10.0, **late},
        "compute": {"kind": "flops", "speeds": [1e-4, 2e-5], "shares": [0.5, 0.5]},
        "link": {"kind": "fixed", "throughput": 5e-3, "shared": True, "simultaneous": 2, "broken": "resumed"},
        "contacts": {"kind": "closest_approach", "radius": 1.5},
        "battery": {
            "kind": "battery",
            "capacity": 0.02,
            "start_lowest": 0.2,
            "charger": 1.5,
            "charge_radius": 1.5,
        },
    }


def experiment(rounds: int, kind: str = DEFAULT, seconds: bool = False) -> Experiment:
    """Ten clients that learn digits on a grid; checkpoints and evaluations at different rounds."""
    if kind != DEFAULT or seconds:
        return Experiment(
            name="kill-and-resume",
            clients=6,
            rounds=rounds,
            evaluate_every=2,
            checkpoint_every=3,
            validation_share=0.2,
            data={"kind": "digits", "test_share": 0.5},
            model={"kind": "mlp", "hidden": [8]},
            training={"kind": "sgd", "lr": 0.05, "batch_size": 16, "steps": 3},
            mobility={"kind": "random", "grid": 4, "mobile": 3},
            access_points={"kind": "grid", "columns": 2, "rows": 2},
            federation={"kind": kind, **({"k2": 2} if kind in GLOBAL else {})},
            **(timed(kind) if seconds else {}),
        )
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


def child(folder: str, rounds: int, kind: str, seconds: bool) -> None:
    """Run or resume; a process of its own."""
    if kind == SWEEP:
        swept = {
            **experiment(rounds, "fedavg", seconds).settings(),
            "sweep": {"grid": {"training.lr": [0.05, 0.1]}},
        }
        if not run_sweep(sweep_plan(swept), folder, workers=2).done:
            raise SystemExit(1)
    else:
        run(experiment(rounds, kind, seconds), folder)


def files(folder: Path) -> dict[str, Path]:
    """Every file of a run folder by its path within it, but for the lock."""
    return {
        str(path.relative_to(folder)): path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def differences(one: Path, other: Path) -> list[str]:
    """What differs between two run folders that should be equal."""
    if (one / "sweep.json").exists():
        return [
            f"{path.name}: {line}"
            for path in sorted((one / "runs").iterdir())
            for line in differences(path, other / "runs" / path.name)
        ]
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


def start(context: Any, folder: Path, rounds: int, kind: str, seconds: bool) -> Any:
    """A child process at work on a folder."""
    process = context.Process(target=child, args=(str(folder), rounds, kind, seconds))
    process.start()
    return process


def begun(folder: Path, process: Any) -> None:
    """Wait until a child has written something, or has gone."""
    while not any(folder.rglob("*.json")) and process.exitcode is None:
        process.join(0.002)


def kill(
    context: Any,
    kind: str,
    kills: int,
    rounds: int,
    moments: np.random.Generator,
    home: Path,
    seconds: bool = False,
) -> tuple[int, int]:
    """Kill runs of a kind and resume them: how many had a checkpoint, and how many came out different.

    Raises FedroamError where none can run.
    """
    whole, checkpoints, failed = home / "whole", 0, 0
    start(context, home / "warm", 1, kind, seconds).join()  # the server imports
    uninterrupted = start(context, whole, rounds, kind, seconds)
    begun(whole, uninterrupted)
    begin = time.perf_counter()
    uninterrupted.join()
    took = time.perf_counter() - begin
    if uninterrupted.exitcode:
        raise FedroamError(f"{kind}: the uninterrupted run failed")
    print(f"{kind}, uninterrupted: {took:.2f} s, {rounds} rounds, {len(files(whole))} files")
    print(f"{'kill':>4}  {'after':>7}  {'state when killed':<40}  result")
    killed, trial = 0, 0
    while killed < kills:
        folder, after = home / f"killed-{trial}", float(moments.uniform(0, took))
        trial += 1
        process = start(context, folder, rounds, kind, seconds)
        begun(folder, process)
        process.join(after)
        process.kill()
        process.join()
        if process.exitcode == 0:  # it had finished: another moment
            took = min(took, after)
            continue
        killed += 1
        state = reached(folder)
        checkpoints += any(folder.rglob("checkpoints/round-*.safetensors"))
        resumed = start(context, folder, rounds, kind, seconds)
        resumed.join()
        problems = differences(whole, folder) if resumed.exitcode == 0 else ["the resumed run failed"]
        failed += bool(problems)
        print(f"{killed:>4}  {after:>5.2f} s  {state:<40}  {'; '.join(problems) or 'equal'}", flush=True)
        shutil.rmtree(folder)
    return checkpoints, failed


def main() -> int:
    """Kill, resume, compare, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=20, help="how many runs are killed (default 20)")
    parser.add_argument("--each", action="store_true", help="so many of each kind, not in all")
    parser.add_argument("--rounds", type=int, default=40, help="rounds of each run (default 40)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments of the kills (default 0)")
    parser.add_argument(
        "--kinds", nargs="+", default=[DEFAULT], help="federations, sweep, or all (default decentralized)"
    )
    parser.add_argument("--seconds", action="store_true", help="under a clock of seconds, with batteries")
    parser.add_argument("--record", type=Path, help="add a line of JSON with the figures to this file")
    options = parser.parse_args()
    # Children are forked from a server that has imported fedroam and nothing else, so that they start at once.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["fedroam.runner", "fedroam.data", "fedroam.learning", "fedroam.federation", "fedroam.sweep.running"]
    )
    moments = stream(options.seed, "kills")
    chosen = kinds_to_kill(options.kinds)
    of: dict[str, list[int]] = {}  # kills, those with a checkpoint, and those that came out different
    for k, kind in enumerate(chosen):
        kills = options.kills
        if not options.each:
            kills = options.kills // len(chosen) + (k < options.kills % len(chosen))
        if not kills:
            continue
        with tempfile.TemporaryDirectory(prefix="fedroam-kill-") as scratch:
            try:
                home = Path(scratch)
                found = kill(context, kind, kills, options.rounds, moments, home, options.seconds)
            except FedroamError as error:
                print(error)
                return 1
        of[kind] = [kills, *found]
        print(f"{kind}: {kills} kills, {found[0]} with a checkpoint, {found[1]} different", flush=True)
    done, failed = (sum(counts[n] for counts in of.values()) for n in (0, 2))
    if options.record is not None:
        ran = environment()
        line = {"what": "kills", "seed": options.seed, "all": done, "findings": failed, "kinds": chosen}
        line |= {"rounds": options.rounds, "kills, with a checkpoint, different": of}
        line |= {"clock": "seconds"} if options.seconds else {}
        line |= {
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
            "python": ran["python"],
            "packages": ran["packages"],
        }
        with options.record.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    print(f"{done - failed} of {done} resumed runs equal the uninterrupted one")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
