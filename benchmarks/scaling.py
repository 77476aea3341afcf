"""How seconds a round and memory grow with clients, neighbours, size of the model and workers: points kept in a record.

    python benchmarks/scaling.py                          # every axis, clients up to 1,000
    python benchmarks/scaling.py --axes clients --most 10000
    python benchmarks/scaling.py --show                   # the record as a table

A point is decentralized learning of MLPs on samples of MNIST's shape, two steps of 16 a client and round, exchanged
with those in reach; everybody walks. What an axis does not vary is 1,000 clients, 50,890 parameters, about 8
neighbours, and a worker on every core. A round is all but evaluation and recording, the median of those after the
first. Each point is a process of its own; those that are there are not made again.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from kept_points import cores, measured, this_machine, when_and_where

from fedroam.data import memory
from fedroam.experiment import Experiment
from fedroam.randomness import stream
from fedroam.scene import prepare
from fedroam.simulation import begin, play_round

RECORD = Path(__file__).parents[1] / "docs" / "records" / "scaling.json"
AXES = {
    "clients": (10, 30, 100, 300, 1000, 3000, 10_000),
    "degree": (2, 4, 8, 16, 32, 64),
    "hidden": (2, 8, 64, 256, 1024),
    "workers": (1, 2, 4, 8, 16),
}
BASE = {"clients": 1000, "degree": 8, "hidden": 64, "workers": 0}
ROUNDS, BATCH, STEPS = 5, 16, 2


def experiment(clients: int, degree: int, hidden: int, workers: int) -> Experiment:
    """The run of a point."""
    x = stream(0, "benchmark images").standard_normal((4000, 28, 28, 1), dtype=np.float32)
    y = np.arange(4000) % 10
    side = math.sqrt(clients * math.pi / degree)  # so many in a range of 1, but for those at the border
    return Experiment(
        clients=clients,
        rounds=ROUNDS,
        evaluate_every=ROUNDS,
        data=memory(x, y, x[:200], y[:200]),
        partition={
            "kind": "client_dirichlet",
            "alpha": 1.0,
            "samples_per_client": BATCH * STEPS,
            "sharing": "replacement",
        },
        model={"kind": "mlp", "hidden": (hidden,)},
        training={"kind": "sgd", "lr": 0.05, "batch_size": BATCH, "steps": STEPS},
        engine={"kind": "cpu", "workers": workers},
        mobility={"kind": "random_walk", "width": side, "height": side, "max_speed": side / 50},
        contacts={"kind": "radius", "radius": 1.0},
    )


def play(axis: str, **at: int) -> dict[str, Any]:
    """A point, in this process."""
    scene = prepare(experiment(**at))
    state, seconds, cpu = begin(scene), [], []
    for _ in range(ROUNDS):
        begun, used = time.perf_counter(), time.process_time()
        state, done = play_round(scene, state)
        seconds.append(time.perf_counter() - begun)
        cpu.append(time.process_time() - used)
    scene.learner.close()
    return {
        "axis": "parameters" if axis == "hidden" else axis,
        "clients": at["clients"],
        "degree": done.meeting.graph.nnz / at["clients"],
        "parameters": scene.task.layout.size,
        "workers": at["workers"] or cores(),
        "round_s": statistics.median(seconds[1:]),
        "rounds_s": seconds,
        "cpu_s": statistics.median(cpu[1:]),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def table(record: dict[str, Any]) -> str:
    """The record as Markdown."""
    lines = [
        "| along | clients | neighbours | parameters | workers | a round | of it for 1,000 clients | processor time | "
        "peak memory |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    names = ("clients", "degree", "parameters", "workers")
    for point in sorted(record["points"].values(), key=lambda p: (names.index(p["axis"]), p[p["axis"]])):
        each = 1e6 * point["round_s"] / point["clients"]
        lines.append(
            f"| {point['axis']} | {point['clients']:,} | {point['degree']:.1f} | {point['parameters']:,} | "
            f"{point['workers']} | {1e3 * point['round_s']:,.0f} ms | {each:,.0f} ms | {point['cpu_s']:.2f} s | "
            f"{point['peak_bytes'] / 2**30:.2f} GiB |"
        )
    return "\n".join([*lines, "", when_and_where(record)])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--axes", nargs="*", choices=list(AXES), default=list(AXES))
    parser.add_argument("--most", type=int, default=1000, help="clients at most (1,000)")
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--show", action="store_true", help="only print the record")
    parser.add_argument("--point", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.point:
        print(json.dumps(play(**json.loads(chosen.point))))
        return 0
    commands = {}
    for axis in [] if chosen.show else chosen.axes:
        for value in AXES[axis]:
            at = {**BASE, "clients": min(BASE["clients"], chosen.most), axis: value}
            if at["clients"] <= chosen.most and at["workers"] <= cores():
                point = json.dumps({"axis": axis, **at})
                commands[f"{axis} {value}"] = [sys.executable, __file__, "--point", point]
    record = measured(chosen.record, commands, this_machine())
    print(table(record))
    return 0


if __name__ == "__main__":
    sys.exit(main())
