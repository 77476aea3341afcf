"""What readings of the papers change, where it can be counted without training.

    python benchmarks/readings.py          # a minute of a core; docs/records/readings.json

Pages of results tell these numbers beside the readings (`fedroam.papers`); a test holds them together.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from fedroam.analysis.connectivity.contact_statistics import simulate
from fedroam.papers.heredia.study import STUDY as HEREDIA
from fedroam.papers.mocfl.study import STUDY as MOCFL
from fedroam.randomness import stream
from fedroam.scene import deal
from fedroam.writing import write_text

RECORD = Path(__file__).parents[1] / "docs" / "records" / "readings.json"
SHARES = ("p=0", "p=0.05", "p=0.2", "p=0.4", "p=0.6", "p=0.8", "p=1")
WORLDS, ROUNDS, SPLITS = 20, 20, 200
CLASSES, CHUNKS = 10, 4
SAMPLED = {"kind": "sampled", "radius": 45.0, "samples": 100}


def contacts(variant: str, scale: str, worlds: int = WORLDS, **changed: Any) -> float:
    """Contacts of a client in a round, mean over worlds, clients and rounds."""
    found = []
    for world in range(worlds):
        experiment = HEREDIA.experiment(variant, scale, world).replace(
            data={"kind": "digits"}, partition="iid", model="softmax_regression", **changed
        )
        graphs = simulate(experiment, ROUNDS).graphs
        found += [graph.nnz / experiment.clients for graph in graphs]
    return float(np.mean(found))


def classes_held(scale: str) -> dict[str, float]:
    """Classes of a client, with chunks side by side and with chunks cut as the author's code does, mean over splits."""
    experiment = HEREDIA.experiment("p=0", scale, 0)
    size = experiment.partition.settings()["shard_size"]
    samples = experiment.data.settings().get("train_samples") or 50_000
    labels = np.repeat(np.arange(CLASSES), samples // CLASSES)
    ours, theirs = [], []
    for split in range(SPLITS):
        draws = stream(split, "chunks")
        rest = labels
        chunks = []
        for _ in range(experiment.clients * CHUNKS):
            begin = draws.integers(len(rest) - size + 1)
            chunks.append(rest[begin : begin + size])
            rest = np.delete(rest, slice(begin, begin + size))
        dealt = draws.permutation(len(chunks)).reshape(experiment.clients, CHUNKS)
        theirs += [len(np.unique(np.concatenate([chunks[k] for k in mine]))) for mine in dealt]
        beside = [labels[k : k + size] for k in range(0, len(labels) - size + 1, size)]
        dealt = draws.permutation(len(beside))[: experiment.clients * CHUNKS].reshape(
            experiment.clients, CHUNKS
        )
        ours += [len(np.unique(np.concatenate([beside[k] for k in mine]))) for mine in dealt]
    return {"side by side": float(np.mean(ours)), "as the author's code": float(np.mean(theirs))}


def repeated(splits: int = 5) -> list[float]:
    """The share of test records that repeat one that the same client trains on, of each split among ten clients."""
    found = []
    for seed in range(splits):
        experiment = MOCFL.experiment("fedavg,n=10,car=1", "full", seed)
        dataset, split = deal(experiment)
        records = np.ascontiguousarray(dataset.x_train.reshape(len(dataset.x_train), -1))
        labelled = np.column_stack([records, dataset.y_train])
        _, same = np.unique(labelled, axis=0, return_inverse=True)
        of_test = [
            np.isin(same[test], same[train]) for train, test in zip(split.train, split.test, strict=True)
        ]
        found.append(float(np.concatenate(of_test).mean()))
    return found


def main() -> None:
    degrees = {v: {scale: contacts(v, scale) for scale in ("quick", "full")} for v in SHARES}
    missed = {v: 1 - contacts(v, "full", contacts=SAMPLED) / degrees[v]["full"] for v in SHARES}
    record = {
        "heredia": {
            "contacts": degrees,
            "missed_by_sampling": missed,
            "classes": {scale: classes_held(scale) for scale in ("quick", "full")},
        },
        "mocfl": {"repeated": repeated()},
    }
    write_text(RECORD, json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
