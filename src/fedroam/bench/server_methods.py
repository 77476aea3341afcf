"""A round of every method with a server, side by side: what each costs beside FedAvg."""

from __future__ import annotations

import statistics

import numpy as np

from fedroam.bench.measures import Others, Result, in_turn
from fedroam.components import kinds
from fedroam.data import memory
from fedroam.experiment import Experiment
from fedroam.federation.server.loop import ServerLoop
from fedroam.randomness import stream
from fedroam.scene import Scene, prepare
from fedroam.simulation import begin, play_round

CLIENTS, TRAINED, FEATURES, CLASSES = 50, 128, 196, 10
MODELS = {"cnn1d": "1-D CNN", "mlp": "MLP 196-64-10"}
SHARE = 0.2  # of a client's samples, for validation


def names() -> list[str]:
    """Every kind of federation on the server loop, FedAvg first."""
    found = [kind for kind, part in kinds("federation").items() if issubclass(part, ServerLoop)]
    return sorted(found, key=lambda kind: (kind != "fedavg", kind))


class _MethodRun:
    """A run of a method: `round()` plays its next round, without evaluation."""

    def __init__(self, kind: str, experiment: Experiment) -> None:
        self.scene: Scene = prepare(experiment.replace(federation=kind))
        self.state = begin(self.scene)

    def round(self) -> None:
        self.state, _ = play_round(self.scene, self.state)


def methods(repeats: int, workers: int, clients: int = CLIENTS, trained: int = TRAINED) -> list[Result]:
    """Seconds a round of each method, in turn, with each of `MODELS`: each client has two batches of 64 and a fifth for
    validation.

    The rounds measured come after the first, in which some methods do less. Evaluation is left out.
    """
    return [line for model in MODELS for line in _of_model(model, repeats, workers, clients, trained)]


def _of_model(model: str, repeats: int, workers: int, clients: int, trained: int) -> list[Result]:
    draws, held = stream(0, "benchmark"), round(trained / (1 - SHARE))
    x = draws.standard_normal((clients * held, FEATURES), dtype=np.float32)
    experiment = Experiment(
        clients=clients,
        rounds=repeats + 2,
        validation_share=SHARE,
        data=memory(x, draws.integers(0, CLASSES, len(x))),
        partition="iid",
        model=model,
        training={"kind": "sgd", "lr": 0.01, "batch_size": 64, "epochs": 1},
        engine={"kind": "auto", "workers": workers},
        mobility="static",
    )
    runs = {kind: _MethodRun(kind, experiment) for kind in names()}
    for each in runs.values():
        each.round()
    # A server's work is of one core, so that rounds do not keep all of them busy by themselves.
    others = Others()
    times = in_turn(repeats, **{kind: each.round for kind, each in runs.items()})
    left = others.left()
    for each in runs.values():
        each.scene.learner.close()
    about = f"{clients} clients x {trained} samples, {MODELS[model]}"
    base = times["fedavg"]
    results = []
    for kind, found in times.items():
        value = statistics.median(found)
        over = statistics.median(a / b for a, b in zip(found, base, strict=True))
        detail = f"{over:.2f} x fedavg, fastest {min(found):.3f} s"
        results.append(
            Result(f"methods: {kind}", about, value, None, "s", False, detail, {"round": found}, left)
        )
    return results
