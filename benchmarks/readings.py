"""What readings of the papers change, counted, or measured by a few short runs.

    python benchmarks/readings.py                # some minutes of two cores; docs/records/readings.json
    python benchmarks/readings.py reza mohawk    # of these studies alone; the record keeps what it has of others

Pages of results tell these numbers beside the readings (`fedroam.papers`); a test holds them together. Those of Reza et
al. and MOHAWK need the files of MNIST, the latter also the check-ins (FEDROAM_DATA).
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from fedroam.analysis.connectivity.contact_statistics import simulate
from fedroam.federation import hierarchical
from fedroam.papers.heredia.study import STUDY as HEREDIA
from fedroam.papers.mocfl.study import STUDY as MOCFL
from fedroam.papers.mohawk.study import STUDY as MOHAWK
from fedroam.papers.reza.study import STUDY as REZA
from fedroam.parts import Parts
from fedroam.randomness import stream
from fedroam.recording import Run
from fedroam.runner import run
from fedroam.scene import deal, movement, prepare, world_of
from fedroam.study.files import make_files
from fedroam.traces import read_trace
from fedroam.traces.selection import select
from fedroam.writing import write_text

RECORD = Path(__file__).parents[1] / "docs" / "records" / "readings.json"
SHARES = ("p=0", "p=0.05", "p=0.2", "p=0.4", "p=0.6", "p=0.8", "p=1")
WORLDS, ROUNDS, SPLITS = 20, 20, 200
CLASSES, CHUNKS = 10, 4
SAMPLED = {"kind": "sampled", "radius": 45.0, "samples": 100}
# What the study of Reza et al. leaves open on MNIST: its reading, and the two others.
STEERED, SEEDS = "random,m=5,Rc=3,Rm=5,a=0.05", 2
OTHERWISE: dict[str, dict[str, Any]] = {
    "as read": {},
    "momentum kept": {"training": {"momentum_state": "kept"}},
    "pixels standardised": {"data": {"normalise": "standardise"}},
}
# MOHAWK, and hours of it: with one cosine a model, and with one a slice of a tensor, as the authors' code has it.
CARRIED, HOURS = "mnist,non-iid,k2=5,mohawk", 240
# Hours of a window of MOHAWK; and by how much degrees overstate lengths from east to west in the paper's city.
WINDOWS, DEGREES = (5, 10), 1 / math.cos(math.radians(30.3))
# Flights of Reza et al. that are held beside straight ones, and how far one is at most.
FLOWN, WORLDS_FLOWN, REACHED = "dam,m=5,Rc=3,Rm=5,a=0.05", 10, 5.0
COSINES = ("flat", "per_slice")


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


def settings_changed(variant: str, changes: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The parts of a variant of Reza et al. that have other settings, whole."""
    parts = REZA.experiment(variant, "quick").settings()
    return {name: {**parts[name], **other} for name, other in changes.items()}


def _played(experiment: Any) -> Run:
    """A run in a folder that is thrown away, with its tables read."""
    with tempfile.TemporaryDirectory() as folder:
        found = run(experiment, Path(folder) / "run")
        _ = found.rounds
        return found


def ends(changes: dict[str, dict[str, Any]], **shorter: Any) -> dict[str, list[Any]]:
    """Of runs of Reza et al. at scale quick, by seed: accuracies (%) at the end, and the rounds in which they diverged
    (None: never)."""
    found: dict[str, list[Any]] = {"accuracy": [], "diverged": []}
    for seed in range(SEEDS):
        experiment = REZA.experiment(STEERED, "quick", seed)
        played = _played(experiment.replace(**settings_changed(STEERED, changes), **shorter))
        found["accuracy"].append(100 * float(played.rounds["accuracy"].iloc[-1]))
        found["diverged"].append(played.status["diverged_at"])
    return found


@contextmanager
def weights_watched(found: list[float]) -> Iterator[None]:
    """Gather by how much the farthest weight of each average of several models is off that of equal ones, as a part of
    it."""
    plain = hierarchical.attention

    def watched(*given: Any, **named: Any) -> Any:
        weights = plain(*given, **named)
        counts = given[6] if len(given) > 6 else None
        equal = np.ones(len(weights.parameters)) if counts is None else np.asarray(counts, dtype=float)
        if equal.sum() > 1:
            found.append(float(np.abs(weights.parameters / (equal / equal.sum())[:, None] - 1).max()))
        return weights

    hierarchical.attention = watched
    try:
        yield
    finally:
        hierarchical.attention = plain


def unequal(cosine: str, hours: int = HOURS) -> dict[str, float]:
    """By how much weights of MOHAWK are off equal ones, over all averages of a run at scale quick: the median of those
    that are farthest in their average, and the farthest of all."""
    experiment = MOHAWK.experiment(CARRIED, "quick", 0)
    federation = {**experiment.settings()["federation"], "cosine": cosine}
    experiment = experiment.replace(rounds=hours, federation=federation)
    list(make_files(MOHAWK, [experiment]))
    found: list[float] = []
    with weights_watched(found), tempfile.TemporaryDirectory() as folder:
        run(experiment, Path(folder) / "run")
    return {"median": float(np.median(found)), "most": max(found), "averages": len(found)}


def again_within(there: np.ndarray, rounds: int) -> float:
    """Of the rounds in which somebody is there, bool [rounds, devices], and that many more follow: the share after
    which that one is there again within as many."""
    last = len(there) - rounds
    again = np.any([there[k : k + last] for k in range(1, rounds + 1)], axis=0)
    return float(again[there[:last]].mean())


def nearest_of(places: np.ndarray, points: np.ndarray, stretch: float = 1.0) -> np.ndarray:
    """The nearest of some points to each place (float64 [places, 2], m) where lengths from east to west count that many
    times: int64 [places]."""
    scale = np.array([stretch, 1.0])
    return np.asarray(cKDTree(points * scale).query(places * scale)[1])


def month() -> dict[str, Any]:
    """Of the hours in which a device of MOHAWK's month is there: after which it is there again soon, and which would be
    another access point's by degrees as they are in Austin, and how much farther these are."""
    experiment = MOHAWK.experiment(CARRIED, "full", 0)
    list(make_files(MOHAWK, [experiment]))
    scene = prepare(experiment.replace(data={"kind": "digits"}, partition="iid", model="softmax_regression"))
    points = scene.context.access_points
    ways = list(movement(experiment, scene.world))
    scene.learner.close()
    there = np.array([way.present for way in ways])
    places = np.concatenate([way.end[way.present] for way in ways])
    ours, theirs = nearest_of(places, points), nearest_of(places, points, DEGREES)
    far, farther = (np.linalg.norm(places - points[chosen], axis=1).mean() for chosen in (ours, theirs))
    return {
        "again_within": {str(k2): again_within(there, k2) for k2 in WINDOWS},
        "another_access_point": float((ours != theirs).mean()),
        "distance_m": [float(far), float(farther)],
    }


def beside_the_line(here: np.ndarray, after: np.ndarray, target: np.ndarray, most: float) -> np.ndarray:
    """Of flyers who do not reach their targets (float64 [flyers, 2], m): how far the grid point where they are then is
    from the one next to where a straight flight of that length ends, and how far from here that one is, [flying, 2]."""
    way = np.linalg.norm(target - here, axis=1)
    flying = way > most
    here, after, way = here[flying], after[flying], (target - here)[flying] * most / way[flying, None]
    straight = np.round(here + way)
    return np.stack([np.linalg.norm(straight - point, axis=1) for point in (after, here)], axis=1)


def flights(worlds: int = WORLDS_FLOWN, rounds: int = HOURS) -> dict[str, float]:
    """Steps of DAM in worlds of Reza et al. at scale quick, beside straight ones."""
    found = []
    for seed in range(worlds):
        experiment = REZA.experiment(FLOWN, "quick", seed)
        dataset, split = deal(experiment)
        world = world_of(experiment, dataset, split, rounds)
        mobility = Parts.of(experiment).mobility
        state = mobility.start(world)
        for t in range(1, rounds):
            before, (state, _) = state, mobility.step(state, world, t)
            flyers = len(state["destination"])
            here, after = before["position"][:flyers], state["position"][:flyers]
            found.append(beside_the_line(here, after, state["destination"], REACHED))
    apart, way = np.concatenate(found).T
    return {
        "steps": len(apart),
        "others": float((apart > 0).mean()),
        "apart_m": float(apart[apart > 0].mean()),
        "too_far": float((way > REACHED + 1e-9).mean()),
    }


def devices_there() -> int:
    """Devices that check in within the square of MOHAWK's month."""
    experiment = MOHAWK.experiment(CARRIED, "full", 0)
    list(make_files(MOHAWK, [experiment]))
    of = experiment.mobility.settings()
    begin = datetime.fromisoformat(of["begin"]).timestamp()
    return select(read_trace(of["file"]), begin, of["length"], of["box"]).devices


def heredia() -> dict[str, Any]:
    """Contacts, those that sampling misses, and classes held."""
    degrees = {v: {scale: contacts(v, scale) for scale in ("quick", "full")} for v in SHARES}
    missed = {v: 1 - contacts(v, "full", contacts=SAMPLED) / degrees[v]["full"] for v in SHARES}
    return {
        "contacts": degrees,
        "missed_by_sampling": missed,
        "classes": {scale: classes_held(scale) for scale in ("quick", "full")},
    }


STUDIES: dict[str, Callable[[], dict[str, Any]]] = {
    "heredia": heredia,
    "mocfl": lambda: {"repeated": repeated()},
    "mohawk": lambda: {
        "devices": devices_there(),
        "month": month(),
        "unequal_weights": {cosine: unequal(cosine) for cosine in COSINES},
    },
    "reza": lambda: {
        "ends": {name: ends(changes) for name, changes in OTHERWISE.items()},
        "flights": flights(),
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("studies", nargs="*", help=f"of {', '.join(STUDIES)}; all by default")
    chosen = parser.parse_args().studies or [*STUDIES]
    if unknown := set(chosen) - set(STUDIES):
        parser.error(f"no study here: {', '.join(sorted(unknown))}")
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    record |= {name: STUDIES[name]() for name in chosen}
    record = {name: record[name] for name in sorted(record)}
    write_text(RECORD, json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
