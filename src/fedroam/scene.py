"""From a description to a scene: data loaded and dealt out, parts ready, workers started."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy import sparse
from torch import nn

from fedroam.contacts import pairs_of
from fedroam.cost import DistanceDistribution, SamplePasses, Tariff
from fedroam.data import Dataset, Split, cut, load_dataset
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.federation import (
    AdaptsNetwork,
    AdaptsObjective,
    FederationContext,
    Meeting,
    RecordsMatrices,
    TellsDistances,
)
from fedroam.learning import Layout, Learner, Models, Task, device_of, make_network, start_models, to_tensors
from fedroam.mobility import Paths, World, check_limits, checked
from fedroam.parts import Parts
from fedroam.randomness import stream
from fedroam.recording import MATRIX_COLUMNS


@dataclass(frozen=True)
class Scene:
    """Everything of a run that does not change from round to round.

    test_x, test_y: the samples that models are tested on, as networks see them. groups: each client's, str [clients].
    """

    experiment: Experiment
    parts: Parts
    dataset: Dataset
    split: Split
    world: World
    context: FederationContext
    task: Task
    learner: Learner
    device: torch.device
    test_x: torch.Tensor
    test_y: torch.Tensor
    groups: np.ndarray
    tariff: Tariff

    def start_models(self, clients: Sequence[int] | None = None) -> Models:
        """The start models of these clients (default: of all), one row each."""
        # The model's own builder: the task's makes the same start values each time.
        return start_models(
            _network(self.parts, self.dataset),
            self.task.layout,
            range(self.experiment.clients) if clients is None else clients,
            self.experiment.seed,
            equal=self.experiment.start_models == "equal",
            momentum=self.task.training.keeps_momentum(),
            device=self.device,
        )

    def test_parts(self) -> list[np.ndarray] | None:
        """For each client, its own test samples (indices into the test tensors), or None for the shared set."""
        return list(self.split.test) if self.experiment.evaluate_on == "own" else None

    def graph(self, indptr: np.ndarray, indices: np.ndarray) -> sparse.csr_array:
        """A contact graph from its stored structure."""
        n = self.experiment.clients
        return sparse.csr_array((np.ones(len(indices), dtype=bool), indices, indptr), shape=(n, n))

    def movement_rows(self, round: int, meeting: Meeting) -> tuple[pd.DataFrame, pd.DataFrame]:
        """One round's rows of the movement tables: positions and contacts."""
        places, pairs = meeting.paths.end, pairs_of(meeting.graph)
        n = np.arange(self.experiment.clients, dtype=np.int32)
        positions = {
            "round": np.full(len(n), round, np.int32),
            "client": n,
            "x": places[:, 0],
            "y": places[:, 1],
            "present": meeting.paths.present,
        }
        contacts = {"round": np.full(len(pairs), round, np.int32), "i": pairs[:, 0], "j": pairs[:, 1]}
        return pd.DataFrame(positions), pd.DataFrame(contacts)

    def matrix_rows(self, round: int, state: Mapping[str, np.ndarray]) -> pd.DataFrame:
        """One round's rows of the table of matrices: what is not 0 in those that the federation names."""
        federation, tables = self.parts.federation, []
        for name in federation.recorded if isinstance(federation, RecordsMatrices) else ():
            i, j = np.nonzero(state[name])
            columns = (np.int32(round), name, i, j, state[name][i, j])
            tables.append(pd.DataFrame(dict(zip(MATRIX_COLUMNS, columns, strict=True))))
        return pd.concat(tables, ignore_index=True).astype(MATRIX_COLUMNS) if tables else pd.DataFrame()

    def data_facts(self) -> dict[str, Any]:
        """Which data the run saw."""
        return {
            "name": self.dataset.name,
            "training_samples": len(self.dataset.y_train),
            "test_samples": len(self.dataset.y_test),
            "sha256": self.dataset.fingerprint,
            "notes": list(self.dataset.notes),
        }


def prepare(experiment: Experiment) -> Scene:
    """Load, deal out and check everything. Raises InputError before anything is written."""
    parts, seed, device = Parts.of(experiment), experiment.seed, device_of(experiment.device)
    dataset, split = deal(experiment)
    class_counts = split.class_counts(dataset.y_train, dataset.classes)
    world = World(seed, experiment.clients, class_counts, parts.contacts.reach(), experiment.rounds)
    groups = parts.mobility.groups(world)
    check_limits(parts.activity, world)
    x, y = to_tensors(dataset.x_train, dataset.y_train, device)
    own = experiment.evaluate_on == "own"
    test_x, test_y = (x, y) if own else to_tensors(dataset.x_test, dataset.y_test, device)
    network, federation, objective = _network(parts, dataset), parts.federation, parts.objective
    task = Task(
        network=partial(make_network, network, seed),
        layout=Layout.of(make_network(network, seed)),
        x=x,
        y=y,
        training=parts.training,
        objective=federation.objective(objective) if isinstance(federation, AdaptsObjective) else objective,
        seed=seed,
    )
    context = FederationContext(
        seed=seed,
        samples=split.sizes,
        mixing=parts.mixing,
        task=task,
        train=split.train,
        validation=split.validation,
        class_counts=class_counts,
        bounds=parts.mobility.bounds(),
        access_points=parts.access_points.places(parts.mobility, seed),
    )
    if isinstance(federation, TellsDistances):  # refuses a world without access points
        next(iter(federation.link_distances(seed, world.clients, context.access_points, ())), None)
    distances = parts.radio.spread() or link_distances(experiment, world, context.access_points)
    tariff = Tariff(parts.radio, distances, SamplePasses(task.training))
    learner = parts.engine.build(task)
    return Scene(
        experiment,
        parts,
        dataset,
        split,
        world,
        context,
        task,
        learner,
        device,
        test_x,
        test_y,
        groups,
        tariff,
    )


def movement(experiment: Experiment, world: World) -> Iterator[Paths]:
    """Where everybody is at the start, and the paths of everybody in each round, without contacts and training.

    Present are those who are there and active, as in a run. Raises InputError where the activity refuses the world.
    """
    parts = Parts.of(experiment)
    mobility, activity = parts.mobility, parts.activity
    check_limits(activity, world)
    state, churn = checked(mobility.start(world), world), activity.start(world.seed, world.clients)
    present = state.get("present")
    paths = Paths.still(state["position"], None if present is None else present.astype(bool))
    for t in range(1, world.rounds + 1):
        yield replace(paths, present=paths.present & churn["active"].astype(bool))
        moved, paths = mobility.step(state, world, t)
        state, churn = checked(moved, world), activity.step(churn, world.seed, world.clients, t)
    yield replace(paths, present=paths.present & churn["active"].astype(bool))


def link_distances(experiment: Experiment, world: World, access_points: np.ndarray) -> DistanceDistribution:
    """The distances between clients and access points in the run that will be played, found beforehand.

    access_points: float64 [access points, 2], metres. Not known where the federation does not tell them.
    """
    federation = Parts.of(experiment).federation
    if not isinstance(federation, TellsDistances):
        return DistanceDistribution()
    paths = movement(experiment, world)
    return DistanceDistribution.of(federation.link_distances(world.seed, world.clients, access_points, paths))


def _network(parts: Parts, dataset: Dataset) -> Callable[[], nn.Module]:
    """Makes the network that the federation trains, with start values of the moment."""

    def made() -> nn.Module:
        network = parts.model.build(dataset.input_shape, dataset.classes)
        federation = parts.federation
        return federation.adapt(network) if isinstance(federation, AdaptsNetwork) else network

    return made


def deal(experiment: Experiment) -> tuple[Dataset, Split]:
    """The data set and who holds what. Raises InputError where they do not fit the experiment."""
    dataset = load_dataset(experiment.data)
    if experiment.evaluate_on == "shared" and not len(dataset.y_test):
        raise InputError(
            f"data {dataset.name!r} has no shared test set: set evaluate_on = 'own' and test_share, e.g. 0.2"
        )
    clients, seed = experiment.clients, experiment.seed
    shares = Parts.of(experiment).partition.split(dataset, clients, stream(seed, "partition"))
    draws = [stream(seed, "cut", client=i) for i in range(clients)]
    return dataset, cut(shares, experiment.validation_share, experiment.test_share, draws)


def describe(scene: Scene) -> dict[str, Any]:
    """What `world.json` says."""
    reach, distances = scene.world.reach, scene.tariff.distances
    return {
        "bounds": [float(v) for v in scene.parts.mobility.bounds()],
        "reach": reach if np.isfinite(reach) else "inf",
        "access_points": scene.context.access_points.tolist(),
        "distance_mean": distances.mean if distances.known else None,
        "distance_std": distances.std if distances.known else None,
        "groups": [str(group) for group in scene.groups],
        "classes": list(scene.dataset.class_names),
        "parameters": scene.task.layout.size,
        "bytes_per_model": 4 * (scene.task.layout.size + scene.task.layout.buffer_size),
    }


def partition_table(scene: Scene) -> pd.DataFrame:
    """Who holds what: one row per client, part (train, validation, test) and class that it holds any of."""
    split, dataset, rows = scene.split, scene.dataset, []
    for part, held in (("train", split.train), ("validation", split.validation), ("test", split.test)):
        counts = np.stack([np.bincount(dataset.y_train[i], minlength=dataset.classes) for i in held])
        client, label = np.nonzero(counts)
        names = np.array(dataset.class_names, dtype=object)[label]
        frame = {"client": client, "part": part, "class": names, "samples": counts[client, label]}
        rows.append(pd.DataFrame(frame))
    return pd.concat(rows, ignore_index=True)
