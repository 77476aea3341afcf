"""From a description to a scene: data loaded and dealt out, parts ready, workers started."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from scipy import sparse
from torch import nn

from fedroam.access_points import AccessPoints
from fedroam.contacts import Contacts, pairs_of
from fedroam.cost import Radio, Spread, Tariff, Work
from fedroam.data import Dataset, Partition, Split, cut, load_dataset
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.federation import Federation, Meeting, Setting, TellsDistances
from fedroam.learning import Engine, Layout, Learner, Models, Task, make_network, start_models, to_tensors
from fedroam.learning.objective import Objective
from fedroam.learning.training import Training
from fedroam.mixing import Mixing
from fedroam.mobility import Activity, Mobility, Paths, World, check_limits, checked
from fedroam.randomness import stream
from fedroam.recording import MATRIX_COLUMNS


@dataclass(frozen=True)
class Scene:
    """Everything of a run that does not change from round to round."""

    experiment: Experiment
    dataset: Dataset
    split: Split
    world: World
    setting: Setting
    task: Task
    learner: Learner
    device: torch.device
    test_x: torch.Tensor
    test_y: torch.Tensor
    groups: np.ndarray
    tariff: Tariff

    @property
    def mobility(self) -> Mobility:
        """The mobility pattern."""
        return cast(Mobility, self.experiment.mobility)

    @property
    def activity(self) -> Activity:
        """Who takes part."""
        return cast(Activity, self.experiment.activity)

    @property
    def contacts(self) -> Contacts:
        """The contact rule."""
        return cast(Contacts, self.experiment.contacts)

    @property
    def federation(self) -> Federation:
        """The federation."""
        return cast(Federation, self.experiment.federation)

    def start_models(self, clients: Sequence[int] | None = None) -> Models:
        """The start models of these clients (default: of all), one row each."""
        # The model's own builder: the task's makes the same start values each time.
        return start_models(
            _network(self.experiment, self.dataset),
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
        tables = []
        for name in getattr(self.federation, "recorded", ()):
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
    dataset, split = deal(experiment)
    class_counts = split.class_counts(dataset.y_train, dataset.classes)
    contacts, mobility = cast(Contacts, experiment.contacts), cast(Mobility, experiment.mobility)
    world = World(experiment.seed, experiment.clients, class_counts, contacts.reach(), experiment.rounds)
    groups = mobility.groups(world)
    check_limits(cast(Activity, experiment.activity), world)
    federation = cast(Federation, experiment.federation)
    device = torch.device(experiment.device)
    x, y = to_tensors(dataset.x_train, dataset.y_train, device)
    own = experiment.evaluate_on == "own"
    test_x, test_y = (x, y) if own else to_tensors(dataset.x_test, dataset.y_test, device)
    network = _network(experiment, dataset)
    layout = Layout.of(make_network(network, experiment.seed))
    task = Task(
        network=partial(make_network, network, experiment.seed),
        layout=layout,
        x=x,
        y=y,
        training=cast(Training, experiment.training),
        objective=federation.objective(cast(Objective, experiment.objective)),
        seed=experiment.seed,
    )
    setting = Setting(
        seed=experiment.seed,
        samples=split.sizes,
        mixing=cast(Mixing, experiment.mixing),
        task=task,
        train=split.train,
        validation=split.validation,
        class_counts=class_counts,
        bounds=mobility.bounds(),
        access_points=cast(AccessPoints, experiment.access_points).places(mobility, experiment.seed),
    )
    if isinstance(federation, TellsDistances):
        next(iter(federation.link_distances(setting, ())), None)  # refuses a world without access points
    radio = cast(Radio, experiment.radio)
    tariff = Tariff(radio, radio.spread() or _spread(experiment, world, setting), Work(task.training))
    learner = cast(Engine, experiment.engine).build(task)
    return Scene(
        experiment, dataset, split, world, setting, task, learner, device, test_x, test_y, groups, tariff
    )


def movement(experiment: Experiment, world: World) -> Iterator[Paths]:
    """Where everybody is at the start, and the way everybody takes in each round, without contacts and training.

    Present are those who are there and active, as in a run. Raises InputError where the activity refuses the world.
    """
    mobility, activity = cast(Mobility, experiment.mobility), cast(Activity, experiment.activity)
    check_limits(activity, world)
    state, churn = checked(mobility.start(world), world), activity.start(world.seed, world.clients)
    present = state.get("present")
    paths = Paths.still(state["position"], None if present is None else present.astype(bool))
    for t in range(1, world.rounds + 1):
        yield replace(paths, present=paths.present & churn["active"].astype(bool))
        moved, paths = mobility.step(state, world, t)
        state, churn = checked(moved, world), activity.step(churn, world.seed, world.clients, t)
    yield replace(paths, present=paths.present & churn["active"].astype(bool))


def _spread(experiment: Experiment, world: World, setting: Setting) -> Spread:
    """Of the distances between clients and access points in the run that will be played, found beforehand."""
    federation = experiment.federation
    if not isinstance(federation, TellsDistances):
        return Spread()
    return Spread.of(federation.link_distances(setting, movement(experiment, world)))


def _network(experiment: Experiment, dataset: Dataset) -> Callable[[], nn.Module]:
    """Makes the network that the federation trains, with start values of the moment."""
    model, federation = cast(Any, experiment.model), cast(Federation, experiment.federation)
    return lambda: federation.adapt(model.build(dataset.input_shape, dataset.classes))


def deal(experiment: Experiment) -> tuple[Dataset, Split]:
    """The data set and who holds what. Raises InputError where they do not fit the experiment."""
    dataset = load_dataset(experiment.data)
    if experiment.evaluate_on == "shared" and not len(dataset.y_test):
        raise InputError(
            f"data {dataset.name!r} has no shared test set: set evaluate_on = 'own' and test_share, e.g. 0.2"
        )
    partition = cast(Partition, experiment.partition)
    parts = partition.split(dataset, experiment.clients, stream(experiment.seed, "partition"))
    draws = [stream(experiment.seed, "cut", client=i) for i in range(experiment.clients)]
    return dataset, cut(parts, experiment.validation_share, experiment.test_share, draws)


def describe(scene: Scene) -> dict[str, Any]:
    """What `world.json` says."""
    reach = scene.world.reach
    return {
        "bounds": [float(v) for v in scene.mobility.bounds()],
        "reach": reach if np.isfinite(reach) else "inf",
        "access_points": scene.setting.access_points.tolist(),
        "distance_mean": scene.tariff.spread.mean if scene.tariff.spread.known else None,
        "distance_std": scene.tariff.spread.std if scene.tariff.spread.known else None,
        "groups": [str(group) for group in scene.groups],
        "classes": list(scene.dataset.class_names),
        "parameters": scene.task.layout.size,
        "bytes_per_model": 4 * (scene.task.layout.size + scene.task.layout.buffer_size),
    }


def holdings(scene: Scene) -> pd.DataFrame:
    """Who holds what: one row per client, part (train, validation, test) and class that it holds any of."""
    rows = []
    for part in ("train", "validation", "test"):
        held: tuple[np.ndarray, ...] = getattr(scene.split, part)
        counts = np.stack(
            [np.bincount(scene.dataset.y_train[i], minlength=scene.dataset.classes) for i in held]
        )
        client, label = np.nonzero(counts)
        names = np.array(scene.dataset.class_names, dtype=object)[label]
        frame = {"client": client, "part": part, "class": names, "samples": counts[client, label]}
        rows.append(pd.DataFrame(frame))
    return pd.concat(rows, ignore_index=True)
