"""What a start costs: whole commands, by the clock and in processor time.

    python benchmarks/start.py [--repeats 5] [--record FILE]    # two minutes, nothing else running

Needs MNIST, found as `fedroam run` finds it (FEDROAM_DATA). Each command is run once before any counts, so that modules
and kernels are compiled; then all in turn, each as a process of its own. A run is of one round, FedAvg. Two are
repeated as on a machine on which fedroam was never used: the user's cache is empty.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from fedroam.experiment import Experiment
from fedroam.writing import write_text

RECORD = Path(__file__).parents[1] / "docs" / "records" / "start.json"
RUNS: dict[str, dict[str, Any]] = {
    "A": {"clients": 20, "model": "mnist_cnn", "training": {"batch_size": 32, "steps": 10}},
    "E": {
        "clients": 1000,
        "model": {"kind": "mlp", "hidden": [64]},
        "training": {"batch_size": 16, "steps": 1},
    },
}
FIRST = {
    "A, the first time": "A",
    "list, the first time": "list",
}  # with an empty cache, and what they repeat
WORDS = {
    "torch": "`import torch` alone",
    "A": "`fedroam run`, A: CNN, 20 clients",
    "A, the first time": "the same, the first time on a machine: kernels are compiled",
    "E": "`fedroam run`, E: MLP 784-64-10, 1,000 clients",
    "report": "`fedroam report` of A",
    "list": "`fedroam list`, after the first time",
    "list, the first time": "`fedroam list`, the first time",
    "show": "`fedroam show fedavg`, after the first time",
    "help": "`fedroam --help`",
}


def experiment(kind: str) -> Experiment:
    """The one-round experiment of this name."""
    own = dict(RUNS[kind])
    training = {"kind": "sgd", "lr": 0.1, **own.pop("training")}
    setting = {"data": "mnist", "partition": "iid", "federation": "fedavg", "mobility": "static"}
    return Experiment(name=kind.lower(), rounds=1, training=training, **setting, **own)


def commands(home: Path) -> dict[str, list[str]]:
    """What is measured; runs go to folders of `home`, which holds their experiments."""
    fedroam = [sys.executable, "-m", "fedroam"]
    runs = {
        kind: [
            *fedroam,
            "run",
            str(home / f"{kind}.toml"),
            "--no-report",
            "--quiet",
            "--out",
            str(home / kind),
        ]
        for kind in RUNS
    }
    found = {
        "torch": [sys.executable, "-c", "import torch"],
        **runs,
        "report": [*fedroam, "report", str(home / "A")],
        "list": [*fedroam, "list"],
        "show": [*fedroam, "show", "fedavg"],
        "help": [*fedroam, "--help"],
    }
    return {name: found[FIRST.get(name, name)] for name in WORDS}


def taken(command: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """Seconds by the clock and of processor time (user and system) of a command that must succeed."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, env=environment, check=True, capture_output=True)
    seconds, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measured(home: Path, repeats: int) -> dict[str, dict[str, list[float]]]:
    """Each command's times, all in turn. Runs are begun anew each time."""
    for kind in RUNS:
        write_text(home / f"{kind}.toml", experiment(kind).toml())
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    found: dict[str, dict[str, list[float]]] = {name: {"seconds": [], "processor": []} for name in WORDS}
    for turn in range(repeats + 1):
        for name, command in commands(home).items():
            own = dict(environment)
            if name in FIRST:
                own["XDG_CACHE_HOME"] = str(home / "cache")
                shutil.rmtree(home / "cache", ignore_errors=True)
            if (kind := FIRST.get(name, name)) in RUNS:
                shutil.rmtree(home / kind, ignore_errors=True)
            seconds, processor = taken(command, own)
            if turn:
                found[name]["seconds"].append(round(seconds, 3))
                found[name]["processor"].append(round(processor, 3))
    return found


def table(record: dict[str, Any]) -> str:
    """As the page on performance has it."""
    rows = ["| command | seconds | of processor time | beyond torch |", "|---|---|---|---|"]
    torch_alone = statistics.median(record["commands"]["torch"]["seconds"])
    for name, words in WORDS.items():
        seconds, processor = (
            statistics.median(record["commands"][name][of]) for of in ("seconds", "processor")
        )
        beyond = f"{seconds - torch_alone:.1f}" if FIRST.get(name, name) in RUNS else ""
        rows.append(f"| {words} | {seconds:.2f} | {processor:.2f} | {beyond} |")
    return "\n".join(rows) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--record", type=Path, default=RECORD)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        found = measured(Path(home), chosen.repeats)
    record = {
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads, "
        f"{torch.backends.cpu.get_cpu_capability()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "commands": found,
    }
    write_text(chosen.record, json.dumps(record, indent=1) + "\n")
    print(table(record), end="")


if __name__ == "__main__":
    main()
