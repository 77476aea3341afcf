"""What a run of many clients costs in memory and time, against its arithmetic: a point for each size, kept in a record.

    python benchmarks/scale.py                                              # 100 and 1,000 clients of each kind
    python benchmarks/scale.py --clients 10000 --kinds decentralized        # one more point; those there are kept
    python benchmarks/scale.py --at-rest float16                            # with models held in 16 bits
    python benchmarks/scale.py --show                                       # the record as a table

`decentralized`: the CNN of workload A (MNIST's shape), mean degree 7.5, each client takes --steps of 32 images a round.
`hierarchical`: MOHAWK with Conv5, an access point for every ten devices, of which 3.5% are there at a time; each takes
--steps of 8 images. Images are noise. All is as in a run: movement, contacts, exchange, accounting, evaluation on 200
images at the start and the end, checkpoints.

Each point is played in a process of its own, below --folder: killed, it goes on from its checkpoint when it is asked
for again, and its row of the record is written when it is done. A row tells the most that lay in memory (of the process
that ended the run), what its arithmetic needs (the models' rows, their momentum, and samples), processor seconds of the
whole run, and of its arithmetic: training and evaluation, as the engine computes them. Processor seconds of a run that
was killed count from its last checkpoint on.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from kept_points import measured, this_machine, when_and_where

from fedroam.components import Part, build, register
from fedroam.data import memory
from fedroam.experiment import Experiment
from fedroam.learning import Engine, Learner, Models, Task
from fedroam.randomness import stream
from fedroam.runner import run

RECORD = Path(__file__).parents[1] / "docs" / "records" / "scale.json"
KINDS = ("decentralized", "hierarchical")
FLOAT32 = "float32"
SPENT = {"training": 0.0, "evaluation": 0.0}  # processor seconds
MOST = {"rows": 0, "bytes": 0}


class Watched:
    """A learner whose processor time is taken down."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner

    def train(self, models: Models, jobs: Any) -> np.ndarray:
        """Train, and note how long, and how many rows there are."""
        width = models.layout.size * (1 + (models.momentum is not None)) + models.layout.buffer_size
        MOST["rows"] = max(MOST["rows"], len(models))
        halved = 2 * models.layout.size if models.half else 0
        MOST["bytes"] = max(MOST["bytes"], (4 * width - halved) * len(models))
        begin = time.process_time()
        found = self.learner.train(models, jobs)
        SPENT["training"] += time.process_time() - begin
        return found

    def evaluate(self, *given: Any) -> Any:
        """Evaluate, and note how long."""
        begin = time.process_time()
        found = self.learner.evaluate(*given)
        SPENT["evaluation"] += time.process_time() - begin
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.learner, name)


@register("engine", "timed")
class Timed(Part):
    """The engine that `auto` chooses, watched."""

    def build(self, task: Task) -> Learner:
        """See `Engine.build`."""
        engine: Engine = build("engine", "auto")  # type: ignore[assignment]
        return Watched(engine.build(task))  # type: ignore[return-value]


def experiment(kind: str, clients: int, rounds: int, steps: int, at_rest: str = FLOAT32) -> Experiment:
    """The run of a point."""
    draws, hierarchical = stream(0, "benchmark images"), kind == "hierarchical"
    shape, batch = ((3, 32, 32), 8) if hierarchical else ((1, 28, 28), 32)
    x = draws.standard_normal((4000, *shape), dtype=np.float32)
    y = np.arange(4000) % 10
    side = math.sqrt(clients * math.pi / 7.5)  # the mean degree in a square with a range of 1
    own: dict[str, Any] = {
        "model": "mnist_cnn",
        "mobility": {"kind": "random_walk", "width": side, "height": side, "max_speed": side / 50},
        "contacts": {"kind": "radius", "radius": 1.0},
    }
    if hierarchical:
        own = {
            "model": "conv5",
            "mobility": {"kind": "random_walk", "width": 17_500.0, "height": 17_500.0, "max_speed": 3000.0},
            "activity": {"kind": "on_off", "mean_on": 1.75, "mean_off": 1.75 * (1 - 0.035) / 0.035},
            "access_points": {"kind": "uniform", "number": clients // 10},
            "federation": {"kind": "mohawk", "k2": 10},
        }
    return Experiment(
        name=f"scale-{kind}",
        clients=clients,
        rounds=rounds,
        evaluate_every=rounds,
        checkpoint_every=10,
        record_movement="none",
        keep_models="none",
        data=memory(x, y, x[:200], y[:200], layout="channels_first"),
        partition={
            "kind": "client_dirichlet",
            "alpha": 0.1,
            "samples_per_client": 2 * batch,
            "sharing": "replacement",
        },
        training={"kind": "sgd", "lr": 0.01, "batch_size": batch, "steps": steps},
        engine="timed",
        models_at_rest=at_rest,
        **own,
    )


def play(kind: str, clients: int, rounds: int, steps: int, at_rest: str, folder: Path) -> dict[str, Any]:
    """A point, in this process."""
    described, alone = experiment(kind, clients, rounds, steps, at_rest), resident()
    begun, begin = time.perf_counter(), time.process_time()
    done = run(described, folder)
    whole, clock, task = time.process_time() - begin, time.perf_counter() - begun, described
    images = 4000 * int(np.prod((3, 32, 32) if kind == "hierarchical" else (28, 28))) * 4
    return {
        "kind": kind,
        "clients": clients,
        "rounds": rounds,
        "steps": steps,
        "at_rest": at_rest,
        "digest": task.digest,
        "parameters": int(done.world["parameters"]),
        "rows": MOST["rows"],
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 2**30,
        "program_gib": alone,
        "models_gib": MOST["bytes"] / 2**30,
        "samples_gib": images / 2**30,
        "cpu_s": whole,
        "clock_s": clock,
        **{f"{name}_s": seconds for name, seconds in SPENT.items()},
    }


def resident() -> float:
    """GiB of this process that lie in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**30


def table(record: dict[str, Any]) -> str:
    """The record as Markdown."""
    lines = [
        "| kind | clients | rounds | rows of models at most | at rest | peak memory | program alone | models | "
        "by the clock | processor time | of its arithmetic |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for point in sorted(
        record["points"].values(), key=lambda p: (p["kind"], p["clients"], at_rest_of(p) != FLOAT32)
    ):
        arithmetic = point["training_s"] + point["evaluation_s"]
        lines.append(
            f"| {point['kind']} | {point['clients']:,} | {point['rounds']} | {point['rows']:,} | "
            f"{at_rest_of(point)} | {point['peak_gib']:.2f} GiB | {point['program_gib']:.2f} GiB | "
            f"{point['models_gib']:.2f} GiB | "
            f"{point['clock_s']:.0f} s | {point['cpu_s']:.0f} s | {point['cpu_s'] / arithmetic:.2f} times |"
        )
    return "\n".join([*lines, "", when_and_where(record)])


def at_rest_of(point: dict[str, Any]) -> str:
    """How the models of a point were held; the first ones do not say so."""
    return str(point.get("at_rest", FLOAT32))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=KINDS)
    parser.add_argument("--clients", nargs="*", type=int, default=[100, 1000])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=1, help="optimiser steps of a client and round")
    parser.add_argument("--at-rest", choices=(FLOAT32, "float16"), default=FLOAT32, help="models_at_rest")
    parser.add_argument("--folder", type=Path, default=Path("runs/scale"))
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--show", action="store_true", help="only print the record")
    parser.add_argument("--point", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.point:
        kind, clients = chosen.kinds[0], chosen.clients[0]
        folder = chosen.folder / f"{kind}-{clients}-{chosen.rounds}-{chosen.steps}-{chosen.at_rest}"
        print(json.dumps(play(kind, clients, chosen.rounds, chosen.steps, chosen.at_rest, folder)))
        return 0
    commands = {}
    for kind in [] if chosen.show else chosen.kinds:
        for clients in chosen.clients:
            more = ["--kinds", kind, "--clients", str(clients), "--rounds", str(chosen.rounds)]
            more += ["--steps", str(chosen.steps), "--folder", str(chosen.folder), "--point"]
            name = f"{kind} {clients} {chosen.rounds} {chosen.steps}"
            if chosen.at_rest != FLOAT32:
                name, more = f"{name} {chosen.at_rest}", [*more, "--at-rest", chosen.at_rest]
            commands[name] = [sys.executable, __file__, *more]
    record = measured(chosen.record, commands, this_machine())
    print(table(record))
    return 0


if __name__ == "__main__":
    sys.exit(main())
