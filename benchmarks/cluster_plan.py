"""One run of very many clients over a cluster, reckoned from unit costs that were measured on this machine.

    python benchmarks/cluster_plan.py measure          # ten minutes of one core; docs/records/cluster-plan.json
    python benchmarks/cluster_plan.py plan             # the reckoning, as the page on clusters shows it

Measured are processor seconds of one core: a step of the CNN of workload A with 32 images, a judgement of one model on
1,000 images, an exchange of a row with its 7.5 neighbours, taking a row out of a worker's matrix and putting it into
another's, and what whoever plays the rounds does for each client (movement, contacts, weights, accounting, orders to
workers), with workers that do nothing. How many rows cross between machines is counted: clients stand at random in a
square, and are placed by who is in reach.

The reckoning takes a round to be one part after the other, nothing overlapping, and every machine to be as fast as this
one. What a network carries is an assumption, and so are cores: --gbit, --cores.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch
from kept_points import this_machine
from scipy import sparse
from scipy.spatial import cKDTree

from fedroam.bench.workloads import WORKLOADS, Ours
from fedroam.contacts import graph_of
from fedroam.execution import Spreading
from fedroam.execution.kinds import spread
from fedroam.execution.placement import crossings, partition
from fedroam.execution.transport import Transport
from fedroam.experiment import Experiment
from fedroam.learning import mix
from fedroam.mixing import Facts
from fedroam.parts import mixing_of
from fedroam.randomness import stream
from fedroam.scene import prepare
from fedroam.simulation import begin, play_round
from fedroam.writing import write_text

RECORD = Path(__file__).parents[1] / "docs" / "records" / "cluster-plan.json"
DEGREE, CLIENTS, MACHINES = 7.5, 1_000_000, 100
IMAGES = 1000  # that a model is judged on


class Idle(Transport):
    """Workers that do nothing: what is left is the work of whoever plays the rounds."""

    def __init__(self, count: int) -> None:
        self._count = count

    @property
    def count(self) -> int:
        return self._count

    @property
    def notes(self) -> tuple[str, ...]:
        return ()

    def start(self) -> None:
        """Nothing to reach."""

    def call(self, worker: int, method: str, *given: Any, returns: int = 1) -> list[Any]:
        """Losses are all that is looked at."""
        return [np.zeros(len(given[0].client)) if method == "train" else None] * returns

    def get(self, promised: Sequence[Any]) -> list[Any]:
        return list(promised)

    def renew(self) -> None:
        """Nobody is lost."""

    def close(self) -> None:
        """Nothing to give back."""


def seconds(do: Callable[[], object], least: float = 3.0) -> float:
    """Processor seconds of one call, of as many as take `least` together, after one that does not count."""
    do()
    begin, count = time.process_time(), 0
    while time.process_time() - begin < least:
        do()
        count += 1
    return (time.process_time() - begin) / count


def square(clients: int) -> tuple[np.ndarray, float]:
    """Places in a square, float64 [clients, 2], where a range of 1 gives the mean degree; its side."""
    side = math.sqrt(clients * math.pi / DEGREE)
    return stream(0, "places").random((clients, 2)) * side, side


def reach_graph(clients: int) -> np.ndarray:
    """Who is in reach of whom, int64 [pairs, 2]."""
    found: np.ndarray = cKDTree(square(clients)[0]).query_pairs(1.0, output_type="ndarray")
    return found


def measure(clients: int, machines: int) -> dict[str, Any]:
    """The unit costs."""
    torch.set_num_threads(1)
    work = WORKLOADS["A"]
    ours = Ours(work, workers=1)
    step = seconds(ours.round) / (work.clients * work.steps)
    x, y = ours.test[0][:IMAGES], ours.test[1][:IMAGES]
    judged = seconds(lambda: ours.learner.evaluate(ours.models, range(4), x, y)) / 4
    n = 1000
    graph = graph_of(reach_graph(n), n)
    weights = mixing_of("metropolis").weights(graph, Facts(np.ones(n, np.int64), np.zeros(n)))
    many = ours.models.rows(torch.arange(n) % len(ours.models))
    mixed = seconds(lambda: mix(many, weights)) / n
    matrix, order = many.parameters.numpy(), np.arange(0, n, 3)

    def carry() -> None:
        matrix[order] = np.concatenate([matrix[order], matrix[order, :0]], axis=1)

    carried = seconds(carry) / len(order)
    pairs = reach_graph(clients)
    met = sparse.coo_array(
        (np.ones(len(pairs), np.float32), (pairs[:, 0], pairs[:, 1])), shape=(clients, clients)
    )
    whole = sparse.csr_array(met + met.T)
    begun = time.process_time()
    place = partition(whole, np.ones(clients), machines)
    placing = time.process_time() - begun
    return {
        "machine": this_machine(),
        "measured": date.today().isoformat(),
        "parameters": int(ours.models.layout.size),
        "step_s": step,
        "judged_s": judged,
        "mixed_s": mixed,
        "carried_s": carried,
        "driver_s": {str(count): driver(count, machines) for count in sorted({10_000, 100_000, clients})},
        "placing_s": placing,
        "clients": clients,
        "machines": machines,
        "rows_crossing": crossings(whole, place),
        "rows_crossing_unplaced": crossings(whole, stream(0, "anywhere").integers(0, machines, clients)),
        "largest_share": float(np.bincount(place).max() * machines / clients),
    }


def driver(clients: int, workers: int) -> float:
    """Processor seconds for a client and round, of whoever plays the rounds."""
    side = square(clients)[1]
    experiment = Experiment(
        clients=clients,
        rounds=6,
        data={"kind": "digits"},
        partition={"kind": "client_dirichlet", "samples_per_client": 4, "sharing": "replacement"},
        model="softmax_regression",
        training={"kind": "sgd", "steps": 1, "batch_size": 4},
        mobility={"kind": "random_walk", "width": side, "height": side, "max_speed": side / 50},
        contacts={"kind": "radius", "radius": 1.0},
    )
    scene = prepare(experiment)
    run = Spreading(
        scene.context,
        scene.parts.federation,
        experiment.engine,
        (),
        scene.learner,
        scene.split.test,
        (scene.test_x, scene.test_y),
    )
    found = spread(run, Idle(workers), 1)
    scene = replace(scene, learner=found.learner, aggregator=found.aggregator, spread=found)
    state = begin(scene)
    state, _ = play_round(scene, state)
    begun, rounds = time.process_time(), 3
    for _ in range(rounds):
        state, _ = play_round(scene, state)
    return (time.process_time() - begun) / rounds / clients


def driver_of(record: dict[str, Any]) -> float:
    """Of what whoever plays the rounds was measured to take for a client and round, that of the most clients: as many
    as are planned for."""
    found: float = record["driver_s"][max(record["driver_s"], key=int)]
    return found


def plan(record: dict[str, Any], cores: int, gbit: float, steps: int, every: int) -> str:
    """The reckoning as Markdown."""
    n, machines = record["clients"], record["machines"]
    row = 4 * record["parameters"]
    largest = record["largest_share"] * n / machines  # clients of the machine that has most
    network = gbit * 1e9 / 8  # bytes/s
    crossing = record["rows_crossing"] / machines
    costs = {
        f"training, {steps} steps": largest * steps * record["step_s"] / cores,
        "exchange on the workers": largest * record["mixed_s"] / cores,
        "rows between machines": crossing * (row / network + 2 * record["carried_s"]),
        "whoever plays the rounds": n * driver_of(record),
        f"judging on {IMAGES:,} images, every {every} rounds": largest * record["judged_s"] / cores / every,
        f"mean of all models, every {every} rounds": n / machines * row / network / every,
        f"checkpoint, every {every} rounds": n * row / network / every,
    }
    total = sum(costs.values())
    lines = ["| part of a round | seconds | share |", "|---|---|---|"]
    lines += [f"| {name} | {value:.1f} | {100 * value / total:.0f} % |" for name, value in costs.items()]
    lines += [f"| a round | {total:.1f} | |", f"| 100 rounds | {100 * total / 3600:.1f} h | |", ""]
    alone = n * steps * record["step_s"] / cores
    lines += [
        f"- One such machine alone: {alone:.0f} s a round for the training, and {n * row / 2**30:.0f} GiB of models.",
        f"- A worker machine: {largest * row / 2**30:.1f} GiB of models, and {crossing * row / 2**30:.2f} GiB of rows "
        "that it is lent in an exchange.",
        f"- Rows that cross in a round: {record['rows_crossing']:,}, {crossing * row / 1e6:.0f} MB into each machine; "
        f"placed without regard to who meets whom it would be {record['rows_crossing_unplaced']:,}.",
        f"- Placing all clients anew: {record['placing_s']:.0f} s.",
        f"- The machine that plays the rounds: {n * row / 2**30:.0f} GiB while a checkpoint is written, and the whole "
        "data set.",
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("measure", "plan"))
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--machines", type=int, default=MACHINES)
    parser.add_argument("--cores", type=int, default=16, help="of each machine")
    parser.add_argument("--gbit", type=float, default=10.0, help="Gbit/s into and out of each machine")
    parser.add_argument("--steps", type=int, default=10, help="optimiser steps of a client and round")
    parser.add_argument("--every", type=int, default=10, help="rounds between evaluations and checkpoints")
    chosen = parser.parse_args()
    if chosen.what == "measure":
        found = measure(chosen.clients, chosen.machines)
        chosen.record.parent.mkdir(parents=True, exist_ok=True)
        write_text(chosen.record, json.dumps(found, indent=1) + "\n")
    record = json.loads(chosen.record.read_text(encoding="utf-8"))
    print(plan(record, chosen.cores, chosen.gbit, chosen.steps, chosen.every))
    return 0


if __name__ == "__main__":
    sys.exit(main())
