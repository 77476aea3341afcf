"""What a clock of seconds costs a run: rounds with the same learning, with and without a timetable.

    python benchmarks/clock_learning.py [--rounds 12] [--of 2000] [--model conv5]

Links and devices are so fast that every model gets through in time: both runs do the same jobs, which is counted. Their
rounds are played in turns, and seconds of the processor (not of the wall clock) are compared round by round: the median
of the ratios, and of the seconds. They are rounds of a run of `--of`: where so many transfers share the air that it
pays, their schedule is compiled in the first round, which is played before and told by itself. The perceptron learns so
little in a round that a timetable is seen beside it; `conv5`, with one pass over the samples, is what papers train.
Prints a line for each federation; the exit code is 1 where jobs differ.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from typing import Any

from fedroam.experiment import Experiment
from fedroam.scene import prepare
from fedroam.simulation import begin, play_round

FEDERATIONS: dict[str, dict[str, Any]] = {
    "decentralized": {},
    "epidemic": {},
    "fedavg": {},
    "mohawk": {"k2": 2},
}
SECONDS = {
    "clock": {"kind": "seconds", "length": 60.0},
    "link": {"kind": "fixed", "throughput": 1e6, "shared": True},
    "compute": {"kind": "flops", "speeds": [1e6]},
}


MODELS: dict[str, tuple[dict[str, Any], int]] = {  # each with its passes over the samples in a round
    "mlp": ({"kind": "mlp", "hidden": [256]}, 8),
    "conv5": ({"kind": "conv5"}, 1),
}


def experiment(kind: str, rounds: int, clients: int, model: str) -> Experiment:
    """Clients on a grid that learn digits."""
    network, epochs = MODELS[model]
    return Experiment(
        clients=clients,
        rounds=rounds,
        data={"kind": "digits", "test_share": 0.2},
        partition="iid",
        model=network,
        training={"kind": "sgd", "lr": 0.05, "batch_size": 8, "epochs": epochs},
        mobility={"kind": "random", "grid": 16, "mobile": clients},
        contacts={"kind": "radius", "radius": 4.0},
        access_points={"kind": "grid", "columns": 3, "rows": 3},
        federation={"kind": kind, **FEDERATIONS[kind]},
        engine={"kind": "cpu", "workers": 1},
    )


def compared(
    kind: str, rounds: int, of: int, clients: int, model: str
) -> tuple[list[int], list[list[float]]]:
    """Jobs of the two runs, and the seconds of each of their rounds, of which the first warms up."""
    plain = experiment(kind, of, clients, model)
    scenes = [prepare(plain), prepare(plain.replace(**SECONDS))]
    states = [begin(scene) for scene in scenes]
    jobs, spent = [0, 0], [[], []]  # type: tuple[list[int], list[list[float]]]
    for t in range(rounds + 1):
        for k in (0, 1) if t % 2 else (1, 0):
            begun = time.process_time()
            states[k], done = play_round(scenes[k], states[k])
            spent[k].append(time.process_time() - begun)
            jobs[k] += len(done.learners)
    for scene in scenes:
        scene.learner.close()
    return jobs, spent


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12, help="rounds of each run (default 12)")
    parser.add_argument("--clients", type=int, default=40, help="clients of each run (default 40)")
    parser.add_argument("--of", type=int, default=2000, help="rounds that the runs would have (default 2000)")
    parser.add_argument("--model", choices=MODELS, default="mlp", help="what is trained (default mlp)")
    options = parser.parse_args()
    differ = False
    for kind in FEDERATIONS:
        jobs, ((warm, *plain), (first, *timed)) = compared(
            kind, options.rounds, options.of, options.clients, options.model
        )
        ratio = statistics.median(b / a for a, b in zip(plain, timed, strict=True))
        differ = differ or jobs[0] != jobs[1]
        print(
            f"{kind:<14} {jobs[0]} and {jobs[1]} jobs   {statistics.median(plain):.3f} and "
            f"{statistics.median(timed):.3f} s a round   ratio {ratio:.3f}   first {warm:.2f} and {first:.2f} s",
            flush=True,
        )
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
