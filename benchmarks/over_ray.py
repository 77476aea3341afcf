"""One run over a Ray cluster of this machine, beside the same run in one process: what spreading costs.

    python benchmarks/over_ray.py                # a few minutes, nothing else running; docs/records/over-ray.json
    python benchmarks/over_ray.py --show         # the record as a table

The same cores either way: two workers of one core each, or one process with two threads. There is no network between
them, so this is what is left where a network is not what a round waits for: messages, rows that are written and read
once more, and that whoever plays the rounds and the workers wait for each other. Each is played three times, in turn,
each time by a process of its own. Needs the extra `ray`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import scaling
from kept_points import measured, this_machine, when_and_where

from fedroam.experiment import Experiment
from fedroam.runner import run

RECORD = Path(__file__).parents[1] / "docs" / "records" / "over-ray.json"
WORKERS, ROUNDS, REPEATS = 2, 12, 3
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "mlp": ("1,000 clients of an MLP 784-64-10, two steps of 16", {}),
    "cnn": (
        "200 clients of the CNN for MNIST, ten steps of 16",
        {"model": "mnist_cnn", "clients": 200, "steps": 10},
    ),
}
WAYS = {"alone": "one process", "ray": "Ray"}


def experiment(name: str, way: str) -> Experiment:
    """A run, in one of the two ways."""
    own = dict(RUNS[name][1])
    steps = own.pop("steps", scaling.STEPS)
    base = scaling.experiment(own.pop("clients", 1000), 8, 64, WORKERS if way == "alone" else 1)
    execution = "process" if way == "alone" else {"kind": "ray", "workers": WORKERS, "cpus": 1}
    training = {**base.settings()["training"], "steps": steps}
    plain = {"rounds": ROUNDS, "evaluate_every": ROUNDS, "checkpoint_every": ROUNDS, "keep_models": "none"}
    return base.replace(**plain, record_movement="none", training=training, execution=execution, **own)


def play(name: str, way: str) -> dict[str, Any]:
    """A point, in this process: when it had come to which round, seconds."""
    moments, begun = [], time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        found = run(
            experiment(name, way),
            Path(folder) / "run",
            observer=lambda *_: moments.append(time.perf_counter() - begun),
        )
        accuracy = float(found.rounds["accuracy"].iloc[-1])
    whole = time.perf_counter() - begun
    return {"run": name, "way": way, "moments": moments, "whole_s": whole, "accuracy": accuracy}


def round_of(point: dict[str, Any]) -> float:
    """Seconds of a round: the median of those after the first and before the last, which is evaluated."""
    return statistics.median(b - a for a, b in itertools.pairwise(point["moments"][1:-1]))


def table(record: dict[str, Any]) -> str:
    """The record as Markdown: medians over the repeats."""
    lines = [
        "| | in | a round | times one process | until round 1 begins | the whole run |",
        "|---|---|---|---|---|---|",
    ]
    for name, (about, _) in RUNS.items():
        alone = 0.0
        for way, told in WAYS.items():
            points = [p for p in record["points"].values() if (p["run"], p["way"]) == (name, way)]
            seconds, start, whole = (
                statistics.median(map(of, points))
                for of in (round_of, lambda p: p["moments"][0], lambda p: p["whole_s"])
            )
            alone = alone or seconds
            times = "" if way == "alone" else f"{seconds / alone:.2f}"
            lines.append(
                f"| {about} | {told} | {1e3 * seconds:.0f} ms | {times} | {start:.1f} s | {whole:.1f} s |"
            )
    return "\n".join([*lines, "", when_and_where(record)])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--show", action="store_true", help="only print the record")
    parser.add_argument("--point", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.point:
        print(json.dumps(play(*chosen.point)))
        return 0
    commands = {
        f"{name} {way} {repeat}": [sys.executable, __file__, "--point", name, way]
        for repeat in range(0 if chosen.show else REPEATS)
        for name in RUNS
        for way in WAYS
    }
    print(table(measured(chosen.record, commands, this_machine())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
