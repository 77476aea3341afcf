"""The fast engine against the reference engine on all of MNIST: full batch, 20 clients, five rounds of `mnist-random`.

    FEDROAM_DATA=/a/folder/with/mnist python benchmarks/engine_agreement.py [--set key=value ...]

Prints, after each round, the largest absolute difference of any parameter of any client, and the seconds that each
engine took. Exit code 1 where the difference reaches 1e-4.
"""

from __future__ import annotations

import argparse
import sys
import time

import torch

from fedroam.planning import plan
from fedroam.scene import prepare
from fedroam.simulation import begin, play_round

LIMIT = 1e-4


def trajectory(engine: str, rounds: int, assignments: list[str]) -> tuple[list[torch.Tensor], list[float]]:
    """The parameters of all clients after each round, and the seconds that the round took."""
    experiment = plan("mnist-random", assignments=[*assignments, f"engine.kind={engine}"]).runs[0].experiment
    scene = prepare(experiment)
    state, parameters, seconds = begin(scene), [], []
    for _ in range(rounds):
        before = time.perf_counter()
        state, *_ = play_round(scene, state)
        seconds.append(time.perf_counter() - before)
        parameters.append(state.models.parameters.clone())
    scene.learner.close()
    return parameters, seconds


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--set", action="append", default=[], metavar="key=value")
    arguments = parser.parse_args()
    fast, fast_seconds = trajectory("cpu", arguments.rounds, arguments.set)
    slow, slow_seconds = trajectory("reference", arguments.rounds, arguments.set)
    worst = 0.0
    print("round  max |difference|  largest parameter  cpu (s)  reference (s)")
    for t in range(arguments.rounds):
        worst = float((fast[t] - slow[t]).abs().max())
        largest = float(slow[t].abs().max())
        print(f"{t + 1:5d}  {worst:16.2e}  {largest:17.3f}  {fast_seconds[t]:7.2f}  {slow_seconds[t]:13.2f}")
    return int(not worst < LIMIT)


if __name__ == "__main__":
    sys.exit(main())
