"""The work that all do: written by fedroam once, read by each peer (`interface.Work`) without fedroam.

A folder holds the samples as networks see them, the start model, which client computes which batches in which round,
and, where clients exchange with neighbours, who with whom and by which weights; beside it `experiment.toml`, which is
the same for `fedroam run`. Without MNIST below FEDROAM_DATA, scikit-learn's digits take its place, each pixel three by
three and framed, 28 x 28 as well.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits

from fedroam.contacts import contact_intervals
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.learning import Job
from fedroam.scene import Scene, prepare
from fedroam.simulation import begin, play_round
from fedroam.writing import write_text

SEED = 0


@dataclass(frozen=True)
class Workload:
    """What is computed. model: settings of a model part. test: samples that each evaluation looks at."""

    about: str
    kind: str  # "fedavg", "gossip" or "schedule"
    model: dict[str, Any]
    clients: int
    batch: int
    steps: int
    test: int


CNN, LENET, MLP = {"kind": "mnist_cnn"}, {"kind": "lenet_gn"}, {"kind": "mlp", "hidden": [64]}
WORKLOADS = {
    "A": Workload("MNIST CNN", "fedavg", CNN, 20, 32, 10, 10_000),
    "D": Workload("LeNet, GroupNorm", "fedavg", LENET, 48, 8, 2, 2_000),
    "E": Workload("MLP 784-64-10", "fedavg", MLP, 200, 16, 5, 10_000),
    # Every model is judged, so each on fewer samples.
    "A-gossip": Workload("MNIST CNN, neighbours", "gossip", CNN, 20, 32, 10, 500),
    "E-gossip": Workload("MLP 784-64-10, neighbours", "gossip", MLP, 200, 16, 5, 100),
    "S": Workload("contacts of 1,000 devices", "schedule", {"kind": "softmax_regression"}, 1000, 0, 0, 0),
}
LR = 0.05
LENGTH, MODEL, REACH, SIDE = (
    60.0,
    2.0,
    45.0,
    100.0,
)  # s of a round, s of a model, m of reach, m for each device


def framed_digits(path: Path) -> None:
    """Digits of 8 x 8 as grey images of 28 x 28, in a file of arrays."""
    found = load_digits()
    images = np.pad(np.kron(found.images, np.ones((1, 3, 3))), ((0, 0), (2, 2), (2, 2)))
    x, y = (images / 16).astype(np.float32), found.target.astype(np.int64)
    cut = len(x) * 4 // 5
    np.savez(path, x_train=x[:cut], y_train=y[:cut], x_test=x[cut:], y_test=y[cut:])


def experiment(workload: Workload, rounds: int, data: dict[str, Any]) -> Experiment:
    """What `fedroam run` is given: everything else as it comes."""
    if workload.kind == "schedule":
        return schedule(workload.clients, rounds)
    own: dict[str, Any] = {"federation": "fedavg"}
    if workload.kind == "gossip":
        side = 4 if workload.clients <= 20 else 13  # grid points: about five neighbours
        own = {"mobility": {"kind": "static", "grid": side}, "contacts": {"kind": "radius", "radius": 1.0}}
    return Experiment(
        name="peers",
        seed=SEED,
        clients=workload.clients,
        rounds=rounds,
        evaluate_every=1,
        data=data,
        partition="iid",
        model=workload.model,
        training={"kind": "sgd", "lr": LR, "batch_size": workload.batch, "steps": workload.steps},
        **({"mobility": "static"} | own),
    )


def schedule(clients: int, rounds: int) -> Experiment:
    """Devices that walk, and send each other a model while they meet; nobody learns."""
    side = float(SIDE * np.sqrt(clients))
    size = 4 * (64 * 10 + 10)  # bytes of softmax regression on the digits
    return Experiment(
        name="peers-schedule",
        seed=SEED,
        clients=clients,
        rounds=rounds,
        data={"kind": "digits"},
        partition={
            "kind": "client_dirichlet",
            "alpha": 1.0,
            "samples_per_client": 4,
            "sharing": "replacement",
        },
        model="softmax_regression",
        mobility={"kind": "random_walk", "width": side, "height": side},
        contacts={"kind": "closest_approach", "radius": REACH},
        clock={"kind": "seconds", "length": LENGTH},
        link={"kind": "fixed", "throughput": 8e-6 * size / MODEL},
    )


def write(name: str, workload: Workload, rounds: int, folder: Path) -> dict[str, Any]:
    """Write the work of so many rounds, and return its facts. `folder` need not be there."""
    folder.mkdir(parents=True, exist_ok=True)
    data: dict[str, Any] = {"kind": "mnist"} | (
        {"test_samples": workload.test} if workload.test < 10_000 else {}
    )
    try:
        told = experiment(workload, rounds, data)
        scene = prepare(told)
    except InputError as error:
        if "not found" not in str(error):
            raise
        framed_digits(folder / "digits.npz")
        told = experiment(workload, rounds, {"kind": "arrays", "path": str(folder / "digits.npz")})
        scene = prepare(told)
    write_text(folder / "experiment.toml", told.toml())
    arrays = _schedule(scene, rounds) if workload.kind == "schedule" else _learning(scene, workload, rounds)
    sums = hashlib.sha256()
    for key, array in arrays.items():
        np.save(folder / f"{key}.npy", array)
        sums.update(key.encode() + str(array.shape).encode() + np.ascontiguousarray(array).tobytes())
    facts = {
        "name": name,
        **dataclasses.asdict(workload),
        "rounds": rounds,
        "lr": LR,
        "data": scene.dataset.name,
        "sha256": sums.hexdigest(),
    }
    if workload.kind != "schedule":
        facts |= {"parameters": scene.task.layout.size, "test": len(scene.test_y)}
        facts["names"] = [entry.name for entry in scene.task.layout.parameters]
        facts["degree"] = (
            float((arrays["weights"] > 0).sum() / workload.clients - 1) if "weights" in arrays else None
        )
    scene.learner.close()
    write_text(folder / "facts.json", json.dumps(facts, indent=1) + "\n")
    return facts


def _learning(scene: Scene, workload: Workload, rounds: int) -> dict[str, np.ndarray]:
    """Samples, start model, and the batches of all rounds, one after the other."""
    task, held, start = scene.task, scene.split.train, scene.start_models([0]).parameters[0]
    batches = [
        batch
        for t in range(1, rounds + 1)
        for k, own in enumerate(held)
        for batch in Job(k, k, own, t).batches(task)
    ]
    found = {
        "x": np.ascontiguousarray(task.x.numpy()),
        "y": task.y.numpy().astype(np.int64),
        "test_x": np.ascontiguousarray(scene.test_x.numpy()),
        "test_y": scene.test_y.numpy().astype(np.int64),
        "start": torch.cat([entry.view(start).reshape(-1) for entry in task.layout.parameters]).numpy(),
        "samples": scene.split.sizes.astype(np.int64),
        "lengths": np.array([len(batch) for batch in batches]).reshape(rounds, len(held), workload.steps),
        "batches": np.concatenate(batches).astype(np.int64),
    }
    if workload.kind == "gossip":
        graph = begin(scene).meeting.graph.toarray()
        degree = graph.sum(1)
        # Metropolis-Hastings: 1 / (1 + the larger degree of two neighbours), the rest for oneself.
        found["weights"] = graph / (1.0 + np.maximum.outer(degree, degree))
        np.fill_diagonal(found["weights"], 1.0 - found["weights"].sum(1))
    return found


def _schedule(scene: Scene, rounds: int) -> dict[str, np.ndarray]:
    """Who can talk to whom from when to when, seconds of each round; `rows` says where a round begins."""
    state, rows, found = begin(scene), [0], []
    for _ in range(rounds):
        state, _ = play_round(scene, state)
        contacts = contact_intervals(state.meeting.paths, REACH)
        contacts = contacts.some(np.lexsort((contacts.open, contacts.j, contacts.i)))
        found.append(
            np.stack([contacts.i, contacts.j, contacts.open * LENGTH, contacts.close * LENGTH], axis=1)
        )
        rows.append(rows[-1] + len(contacts.i))
    return {"contacts": np.concatenate(found), "rows": np.array(rows), "seconds": np.array([LENGTH, MODEL])}


def tiny(workload: Workload) -> Workload:
    """The same, small enough for a test."""
    clients = min(workload.clients, 6)
    return dataclasses.replace(
        workload, clients=clients, batch=min(workload.batch, 8), steps=min(workload.steps, 2)
    )
