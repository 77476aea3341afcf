"""The fast engine against the reference engine on all of MNIST: full batch, 20 clients, five rounds of `mnist-random`.

    FEDROAM_DATA=/a/folder/with/mnist python benchmarks/engine_agreement.py [--set key=value ...]

Both engines begin each round at the same point, where the reference engine arrived: a ReLU that rounding decides
another way moves a step by one sample's share of 3,000, but would grow over rounds. Prints, for each round, the largest
absolute difference of any parameter of any client, and the seconds that each engine took. Exit code 1 where the
difference reaches 1e-4.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace

from fedroam.learning import Models
from fedroam.planning import plan
from fedroam.scene import Scene, prepare
from fedroam.simulation import begin, play_round
from fedroam.state import State

LIMIT = 1e-4


def prepared(engine: str, assignments: list[str]) -> Scene:
    return prepare(
        plan("mnist-random", assignments=[*assignments, f"engine.kind={engine}"]).runs[0].experiment
    )


def played(scene: Scene, state: State) -> tuple[State, float]:
    """The next state, and the seconds that the round took. `state` stays as it is."""
    own = state.models
    momentum = None if own.momentum is None else own.momentum.clone()
    models = Models(own.layout, own.parameters.clone(), own.buffers.clone(), momentum)
    before = time.perf_counter()
    following, *_ = play_round(scene, replace(state, models=models))
    return following, time.perf_counter() - before


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--set", action="append", default=[], metavar="key=value")
    arguments = parser.parse_args()
    fast, slow = (prepared(engine, arguments.set) for engine in ("cpu", "reference"))
    state, worst = begin(slow), 0.0
    print("round  max |difference|  largest parameter  cpu (s)  reference (s)")
    for t in range(1, arguments.rounds + 1):
        other, fast_seconds = played(fast, state)
        state, slow_seconds = played(slow, state)
        apart = float((other.models.parameters - state.models.parameters).abs().max())
        largest, worst = float(state.models.parameters.abs().max()), max(worst, apart)
        print(f"{t:5d}  {apart:16.2e}  {largest:17.3f}  {fast_seconds:7.2f}  {slow_seconds:13.2f}")
    for scene in (fast, slow):
        scene.learner.close()
    return int(not worst < LIMIT)


if __name__ == "__main__":
    sys.exit(main())
