"""From a description to a scene: data loaded and dealt out, parts ready, workers started."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
import torch
from scipy import sparse
from torch import nn

from fedroam.access_points import places_of, ranges_of
from fedroam.attacks import Attack, attackers_of
from fedroam.checks.answers import kept_state, only_to_read, same_again
from fedroam.clock import Timed, Timing, check_fits
from fedroam.components import FAMILIES, answer_of, ours
from fedroam.contacts import GoesByRound, pairs_of, reach_of
from fedroam.cost import DistanceDistribution, SamplePasses, Tariff
from fedroam.data import Dataset, Split, cut, load_dataset, name_of, split_of
from fedroam.data.preparing import limit
from fedroam.devices import Arithmetic, CountsBeside, battery_at_start, training_flops
from fedroam.errors import InputError
from fedroam.execution import SpreadComputation, Spreading
from fedroam.experiment import Experiment
from fedroam.federation import (
    AdaptsObjective,
    AddsColumns,
    Aggregates,
    Aggregator,
    AtHand,
    Federation,
    FederationContext,
    Meeting,
    RecordsMatrices,
    TellsDistances,
    network_of,
    used_by,
)
from fedroam.federation.decentralized import Decentralized
from fedroam.learning import Layout, Learner, Models, Task, device_of, make_network, start_models, to_tensors
from fedroam.learning.training import LimitsBatches
from fedroam.links import check_link
from fedroam.mixing import Average
from fedroam.mobility import (
    Advises,
    KnowsSeconds,
    Mobility,
    Paths,
    World,
    active_after,
    active_at_start,
    check_limits,
    checked,
    checked_beginning,
    checked_bounds,
    checked_groups,
    checked_step,
    checked_within,
    own_paths,
)
from fedroam.models import one_sample_fails, try_out
from fedroam.parts import Parts
from fedroam.planning.advice import small_reach
from fedroam.randomness import stream
from fedroam.recording import MATRIX_COLUMNS
from fedroam.recording.models import NetworkInput
from fedroam.traces import Matching, NamesDevices, NamesHolders, begins_apart, check_intervals, match


class Sight(Protocol):
    """Finds out where everybody is and who meets whom, in the place of mobility and contact rule: on a network, where
    devices tell what answers them."""

    @property
    def by(self) -> str:
        """How, in a word."""

    def start(self) -> dict[str, np.ndarray]:
        """The state before anybody has looked; it holds at least `position` and `present`, as that of a mobility."""

    def look(
        self, state: Mapping[str, np.ndarray], round: int
    ) -> tuple[dict[str, np.ndarray], sparse.csr_array | None]:
        """The state when everybody has learnt in a round, and who meets whom then: a graph as `Meeting` has it, or None
        where the contact rule tells it from places."""


@dataclass(frozen=True)
class Scene:
    """Everything of a run that does not change from round to round.

    test_x, test_y: the samples that models are tested on, as networks see them. groups: each client's, str [clients].
    attackers: who attacks, int64. matching: how clients were matched with devices. timing: what takes how long; None
    where nothing takes time. aggregator: aggregates, for those who hold models. spread: who computes it elsewhere; None
    where it is this process that does. sight: finds out where everybody is; None where the mobility says it.
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
    attackers: np.ndarray
    matching: Matching
    timing: Timing | None
    aggregator: Aggregator = field(default_factory=AtHand)
    spread: SpreadComputation | None = None
    sight: Sight | None = None

    def start_mobility(self) -> dict[str, np.ndarray]:
        """The state of movement before round 1."""
        if self.sight is not None:
            return checked(self.sight.start(), self.world)
        return _started(self.experiment, self.parts.mobility, self.world)

    def step_mobility(
        self, state: Mapping[str, np.ndarray], round: int
    ) -> tuple[dict[str, np.ndarray], Paths]:
        """The state of movement after a round, and the way that everybody takes in it."""
        return _stepped(self.experiment, self.parts.mobility, state, self.world, round)

    @cached_property
    def names(self) -> dict[str, list[str]]:
        """What the parts that know names call each client, by part: `mobility`, `activity`, and `data`, where the names
        of all samples that a client holds stand together. Parts without names are left out."""
        experiment, found = self.experiment, {}
        for name, part in (("mobility", self.parts.mobility), ("activity", self.parts.activity)):
            if isinstance(part, NamesDevices):
                names = self.matching.devices or part.device_names(experiment.seed)
                found[name] = list(names[: experiment.clients])
        sites = sites_of(self.parts.partition, self.dataset, self.split)
        return {**found, "data": sites} if sites else found

    @property
    def half(self) -> bool:
        """Whether models at rest are held in 16 bits."""
        return self.experiment.models_at_rest == "float16"

    def start_models(self, clients: Sequence[int] | None = None) -> Models:
        """The start models of these clients (default: of all), one row each."""
        clients = range(self.experiment.clients) if clients is None else clients
        equal = self.experiment.start_models == "equal"
        # Equal models that are to go elsewhere need to be here once.
        once = equal and self.spread is not None
        # The model's own builder: the task's makes the same start values each time.
        models = start_models(
            _network(self.parts, self.dataset),
            self.task.layout,
            clients[:1] if once else clients,
            self.experiment.seed,
            equal=equal,
            momentum=self.task.training.keeps_momentum(),
            device=self.device,
            half=self.half,
        )
        return self.placed(models, np.zeros(len(clients), np.int64) if once else np.arange(len(models)))

    def placed(self, models: Models, rows: np.ndarray | None = None) -> Models:
        """Rows (int64; default: all) of models that are here, where the run's models are to be."""
        if self.spread is None:
            return models
        return self.spread.models(models, np.arange(len(models)) if rows is None else rows)

    def test_parts(self, round: int) -> list[np.ndarray] | None:
        """The test samples of a round's evaluation (indices into the test tensors): each client's own, or one set that
        all share; None for the whole shared set. Before the last evaluations that is a share of them (`Experiment`).
        """
        own = list(self.split.test) if self.experiment.evaluate_on == "own" else None
        return list(self._shares) if round < self.experiment.whole_from else own

    @cached_property
    def _shares(self) -> list[np.ndarray]:
        """What every evaluation before the last ones is of: the same samples each time, which may take longer to choose
        than to judge by a small model."""
        own = self.experiment.evaluate_on == "own"
        return [self._some(part) for part in (self.split.test if own else [np.arange(len(self.test_y))])]

    def _some(self, part: np.ndarray) -> np.ndarray:
        """`evaluate_share` of some test samples, at least one of them."""
        count = math.ceil(self.experiment.evaluate_share * len(part))
        if count:
            part = part[limit(self.test_y[part].cpu().numpy(), count, "evaluate_share", "evaluation")]
        return part

    def graph(self, indptr: np.ndarray, indices: np.ndarray) -> sparse.csr_array:
        """A contact graph from its stored structure."""
        n = self.experiment.clients
        return sparse.csr_array((np.ones(len(indices), dtype=bool), indices, indptr), shape=(n, n))

    def movement_rows(
        self, round: int, meeting: Meeting
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
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
        return positions, contacts

    def matrix_rows(self, round: int, state: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        """One round's rows of the table of matrices: what is not 0 in those that the federation names; None where
        nothing is."""
        federation, tables = self.parts.federation, []
        for name in federation.recorded if isinstance(federation, RecordsMatrices) else ():
            i, j = np.nonzero(state[name])
            tables.append((np.full(len(i), round), np.full(len(i), name), i, j, state[name][i, j]))
        if not any(len(values) for *_, values in tables):
            return None
        columns = zip(MATRIX_COLUMNS.items(), zip(*tables, strict=True), strict=True)
        return {name: np.concatenate(parts).astype(kind) for (name, kind), parts in columns}

    def data_facts(self) -> dict[str, Any]:
        """Which data the run saw."""
        return {
            "name": self.dataset.name,
            "training_samples": len(self.dataset.y_train),
            "test_samples": len(self.dataset.y_test),
            "sha256": self.dataset.fingerprint,
            "notes": list(self.dataset.notes),
            **({"never_taught": self.dataset.never_taught} if self.dataset.never_taught else {}),
        }


def prepare(experiment: Experiment) -> Scene:
    """Load, deal out and check everything. Raises InputError before anything is written."""
    device = device_of(experiment.device)
    dataset, split = deal(experiment)
    matching, seed = match_devices(experiment, dataset), experiment.seed
    parts = Parts.of(experiment).of_devices(matching.devices)
    check_intervals(parts.mobility, parts.activity)
    if apart := begins_apart(parts.mobility, parts.activity):
        matching = replace(matching, notes=(*matching.notes, apart))
    if unasked := _mixing_unasked(experiment, parts):
        matching = replace(matching, notes=(*matching.notes, unasked))
    world = world_of(experiment, dataset, split, experiment.rounds)
    with answer_of("mobility", experiment.mobility):
        groups, bounds = (
            checked_groups(parts.mobility.groups(world), world),
            checked_bounds(parts.mobility.bounds()),
        )
    for part in (parts.activity, parts.contacts):
        check_limits(part, world)
    _started(experiment, parts.mobility, world)
    active_at_start(parts.activity, seed, experiment.clients)
    battery_at_start(parts.battery, seed, experiment.clients)
    x, y = to_tensors(dataset.x_train, dataset.y_train, device)
    own = experiment.evaluate_on == "own"
    test_x, test_y = (x, y) if own else to_tensors(dataset.x_test, dataset.y_test, device)
    attackers = attackers_of(parts.attack, seed, experiment.clients)
    x, y, train = _poisoned(experiment, parts.attack, attackers, x, y, split.train, dataset.classes)
    if not ours(parts.model):
        kind, shape = experiment.model.kind, dataset.input_shape
        try_out(parts.model, kind, shape, dataset.classes, seed, logits=ours(parts.objective))
    _check_columns(experiment, parts.federation)
    network, federation, objective = _network(parts, dataset), parts.federation, parts.objective
    started = make_network(network, seed)
    _check_batches(experiment, parts, started, dataset.input_shape, train)
    task = Task(
        network=partial(make_network, network, seed),
        layout=Layout.of(started),
        x=x,
        y=y,
        training=parts.training,
        objective=federation.objective(objective) if isinstance(federation, AdaptsObjective) else objective,
        seed=seed,
    )
    access_points = places_of(parts.access_points, parts.mobility, seed)
    ranges = ranges_of(parts.access_points, parts.mobility, seed)
    context = FederationContext(
        seed=seed,
        samples=_fixed(split.sizes),
        mixing=parts.mixing,
        task=task,
        train=train,
        validation=split.validation,
        class_counts=_fixed(world.class_counts),
        bounds=bounds,
        access_points=access_points,
        ranges=ranges,
        aggregation=parts.aggregation,
        reach=reach_of(parts.contacts),
        rounds=experiment.rounds,
        late=experiment.clock.kind != "rounds",
    )
    rule = experiment.aggregation.kind
    if rule != FAMILIES["aggregation"].default and not (
        isinstance(federation, Aggregates) and federation.aggregates
    ):
        raise InputError(
            f"aggregation.kind = {rule!r}: federation {experiment.federation.kind!r} aggregates by a rule of its own; "
            f"allowed is {FAMILIES['aggregation'].default!r}"
        )
    if isinstance(federation, TellsDistances):  # refuses a world without access points
        next(iter(federation.link_distances(seed, world.clients, access_points, ())), None)
    distances = parts.radio.spread() or link_distances(experiment, world, access_points, ranges)
    tariff = Tariff(parts.radio, distances, SamplePasses(task.training))
    timing = _timing(experiment, parts, context, tariff.passes, dataset)
    learner = parts.engine.build(task)
    spread = parts.execution.spread(
        Spreading(
            context,
            federation,
            experiment.engine,
            tuple(experiment.parts.values()),
            learner,
            split.test,
            None if own else (test_x, test_y),
        )
    )
    if spread is not None and experiment.models_at_rest != "float32":
        raise InputError(
            f"models_at_rest = {experiment.models_at_rest!r}: execution kind {experiment.execution.kind!r} spreads "
            "models over workers, which hold them in float32; allowed with it is 'float32'"
        )
    return Scene(
        experiment,
        parts,
        dataset,
        split,
        world,
        context,
        task,
        learner if spread is None else spread.learner,
        device,
        test_x,
        test_y,
        groups,
        tariff,
        attackers,
        matching,
        timing,
        AtHand() if spread is None else spread.aggregator,
        spread,
    )


def world_of(experiment: Experiment, dataset: Dataset, split: Split, rounds: int) -> World:
    """The facts that mobility may use, in so many rounds of a run with these data."""
    return World(
        experiment.seed,
        experiment.clients,
        split.class_counts(dataset.y_train, dataset.classes),
        reach_of(Parts.of(experiment).contacts),
        rounds,
        match_devices(experiment, dataset).devices,
    )


def own_distances(experiment: Experiment) -> DistanceDistribution:
    """The distances between clients and access points in the run of an experiment, whatever its radio says.

    Raises InputError where the experiment cannot be run.
    """
    dataset, split = deal(experiment)
    world = world_of(experiment, dataset, split, experiment.rounds)
    parts = Parts.of(experiment).of_devices(world.devices)
    check_limits(parts.activity, world)
    places = places_of(parts.access_points, parts.mobility, world.seed)
    ranges = ranges_of(parts.access_points, parts.mobility, world.seed)
    return link_distances(experiment, world, places, ranges)


def _poisoned(
    experiment: Experiment,
    attack: Attack,
    attackers: np.ndarray,
    x: torch.Tensor,
    y: torch.Tensor,
    train: tuple[np.ndarray, ...],
    classes: int,
) -> tuple[torch.Tensor, torch.Tensor, tuple[np.ndarray, ...]]:
    """Training samples x, y with those that attackers learn by other classes added, and each client's then (indices).

    Samples are added, not changed: others may hold them, too, or be tested on them. Raises InputError for classes that
    kernels cannot learn: they write at the class that they are told, wherever that lies.
    """
    held, added, total = list(train), [], len(y)
    for client in attackers.tolist():
        own = train[client]
        # Not to be written into: changed in place, it would be the truth that it is compared with.
        true = _fixed(y[torch.from_numpy(own).to(y.device)].cpu().numpy())
        lied = attack.labels(true, classes)
        if not len(own):
            continue
        if told := _no_classes(lied, len(own), classes):
            raise InputError(
                f"attack kind {experiment.attack.kind!r}: labels gave {told} for client {client}; allowed is int64 "
                f"[{len(own)}], from 0 to {classes - 1}"
            )
        if not np.array_equal(lied, true):
            added.append((own, lied))
            held[client] = np.arange(total, total + len(own))
            total += len(own)
    if not added:
        return x, y, train
    indices, labels = (
        torch.from_numpy(np.concatenate(each)).to(y.device) for each in zip(*added, strict=True)
    )
    return torch.cat([x, x[indices]]), torch.cat([y, labels.to(y.dtype)]), tuple(held)


def _no_classes(found: object, samples: int, classes: int) -> str:
    """What was found, in words, where it is not one of so many classes for each sample; else nothing."""
    if not isinstance(found, np.ndarray):
        return f"a {type(found).__name__}"
    if found.dtype.kind not in "iu" or found.shape != (samples,):
        return f"{found.dtype} {list(found.shape)}"
    low, high = found.min(), found.max()
    return "" if low >= 0 and high < classes else f"classes from {low} to {high}"


def movement(experiment: Experiment, world: World) -> Iterator[Paths]:
    """Where everybody is at the start, and the paths of everybody in each round, without contacts and training.

    Present are those who are there and active, as in a run. Raises InputError where the activity refuses the world.
    """
    parts = Parts.of(experiment).of_devices(world.devices)
    mobility, activity = parts.mobility, parts.activity
    check_limits(activity, world)
    state = _started(experiment, mobility, world)
    churn = active_at_start(activity, world.seed, world.clients)
    present = state.get("present")
    paths = Paths.still(state["position"], None if present is None else present.astype(bool))
    for t in range(1, world.rounds + 1):
        yield replace(paths, present=paths.present & churn["active"].astype(bool))
        state, paths = _stepped(experiment, mobility, state, world, t)
        churn = active_after(activity, churn, world.seed, world.clients, t)
    yield replace(paths, present=paths.present & churn["active"].astype(bool))


def _mixing_unasked(experiment: Experiment, parts: Parts) -> str:
    """The sentence on a mixing rule that was chosen for a federation that asks none; empty where it asks, or where that
    is not known, as of one's own."""
    chosen, federation = experiment.mixing.kind, parts.federation
    if chosen == FAMILIES["mixing"].default or not ours(federation):
        return ""
    if isinstance(federation, Decentralized) and type(federation).exchange is Decentralized.exchange:
        return ""
    return (
        f"mixing.kind = {chosen!r} says nothing here: federation {experiment.federation.kind!r} asks no mixing rule, "
        "and runs that differ in it alone are the same"
    )


def _started(experiment: Experiment, mobility: Mobility, world: World) -> dict[str, np.ndarray]:
    """The start of a pattern, held against what a pattern must answer."""
    with answer_of("mobility", experiment.mobility, 0):
        found = checked(mobility.start(world), world)
        if ours(mobility):
            return found
        same_again(found, checked(mobility.start(world), world))
        return kept_state(found, None, position=np.float64, present=bool)


def _stepped(
    experiment: Experiment, mobility: Mobility, state: Mapping[str, np.ndarray], world: World, round: int
) -> tuple[dict[str, np.ndarray], Paths]:
    """One step of a pattern, held against what a pattern must answer."""
    with answer_of("mobility", experiment.mobility, round):
        if ours(mobility):
            return checked_step(mobility.step(state, world, round), world)
        after, paths = _own_step(mobility, state, world, round)
        checked_beginning(state, paths)
        checked_within(paths, mobility.bounds())
        if round == 1:
            again, way = _own_step(mobility, state, world, round)
            same_again({**after, "way": paths.point}, {**again, "way": way.point})
        return after, paths


def _own_step(
    mobility: Mobility, state: Mapping[str, np.ndarray], world: World, round: int
) -> tuple[dict[str, np.ndarray], Paths]:
    """What a step of a pattern of one's own gives, in arrays of their own."""
    found = mobility.step(only_to_read(state), world, round)
    if isinstance(found, tuple) and len(found) == 2:
        found = found[0], own_paths(found[1], world)
    after, paths = checked_step(found, world)
    return kept_state(after, state, position=np.float64, present=bool), paths


def link_distances(
    experiment: Experiment, world: World, access_points: np.ndarray, ranges: np.ndarray | None
) -> DistanceDistribution:
    """The distances between clients and access points in the run that will be played, found beforehand.

    access_points: float64 [access points, 2], and ranges: float64 [access points] or None, metres. Not known where the
    federation does not tell them.
    """
    federation = Parts.of(experiment).federation
    if not isinstance(federation, TellsDistances):
        return DistanceDistribution()
    paths = movement(experiment, world)
    further = () if ranges is None else (ranges,)
    told = federation.link_distances(world.seed, world.clients, access_points, paths, *further)
    return DistanceDistribution.of(told)


def _timing(
    experiment: Experiment,
    parts: Parts,
    context: FederationContext,
    passes: SamplePasses,
    dataset: Dataset,
) -> Timing | None:
    """What takes how long; None under a clock without seconds. Raises InputError where that does not fit."""
    if parts.clock.length is None:
        for family in ("link", "compute", "motion", "battery"):
            kind, instant = experiment.parts[family].kind, FAMILIES[family].default
            if kind != instant:
                raise InputError(
                    f"{family}.kind = {kind!r}: nothing takes time under clock kind {experiment.clock.kind!r}; set "
                    f"clock.kind = 'seconds', or leave {family!r} out ({instant!r})"
                )
        return None
    check_link(parts.link)
    if parts.clock.late == "carried" and len(attackers_of(parts.attack, experiment.seed, experiment.clients)):
        raise InputError(
            "clock.late = 'carried': what attackers send is made in the round in which they train; with attackers "
            "allowed is 'dropped'"
        )
    if experiment.battery.kind == "none" and experiment.motion.kind != "none":
        raise InputError(
            f"motion.kind = {experiment.motion.kind!r}: nothing draws on a battery that is none; set battery.kind = "
            "'battery', or leave 'motion' out"
        )
    if parts.battery.charge_radius is not None and not len(context.access_points):
        raise InputError(
            "battery.charge_radius: there are no access points to charge at; set [access_points]"
        )
    for family, part in (("mobility", parts.mobility), ("activity", parts.activity)):
        told = part.seconds_each() if isinstance(part, KnowsSeconds) else None
        if told not in (None, parts.clock.length):
            raise InputError(
                f"clock.length = {parts.clock.length:g}: in a round {family} {experiment.parts[family].kind!r} goes on "
                f"by {family}.interval = {told:g} s; allowed is the same for both"
            )
    if isinstance(parts.contacts, GoesByRound):
        raise InputError(
            f"contacts.kind = {experiment.contacts.kind!r}: it tells rounds, not when in them; allowed with it is "
            "clock.kind = 'rounds'"
        )
    network, arithmetic = make_network(_network(parts, dataset), experiment.seed), None
    if isinstance(parts.compute, CountsBeside) and parts.compute.counts == "all":
        arithmetic = Arithmetic.of(network, dataset.input_shape, context.task.objective)
    timing = Timing(
        parts.clock,
        Timed.of(parts.federation),
        parts.clock.length,
        parts.link,
        parts.compute,
        passes,
        training_flops(network, dataset.input_shape) if arithmetic is None else arithmetic.training,
        reach_of(parts.contacts),
        context.access_points,
        context.ranges,
        experiment.seed,
        batteries=experiment.battery.kind != "none",
        rounds=experiment.rounds,
        arithmetic=arithmetic,
    )
    check_fits(
        timing,
        experiment.federation.kind,
        attacked=bool(len(attackers_of(parts.attack, experiment.seed, experiment.clients))),
        averages=isinstance(parts.aggregation, Average),
    )
    return timing


def _fixed(array: np.ndarray) -> np.ndarray:
    """The same, not to be written into: a run has it once for all rounds, and no checkpoint holds it."""
    array.setflags(write=False)
    return array


def _check_columns(experiment: Experiment, federation: Federation) -> None:
    """Raise InputError where the columns that a federation adds to the table of rounds are no names."""
    columns = federation.columns if isinstance(federation, AddsColumns) else ()
    names = isinstance(columns, tuple) and all(
        isinstance(each, str) and each.isidentifier() for each in columns
    )
    if not names or len(set(columns)) < len(columns):
        kind = experiment.federation.kind
        raise InputError(
            f"federation kind {kind!r}: columns = {columns!r}; allowed is a tuple of names, each once"
        )


def _check_batches(
    experiment: Experiment,
    parts: Parts,
    network: nn.Module,
    shape: tuple[int, ...],
    train: Sequence[np.ndarray],
) -> None:
    """Raise InputError where a client's training has a batch of one sample, and the network cannot learn from one."""
    failure, training = one_sample_fails(network, shape), parts.training
    if not failure:
        return
    checked = set[int]()  # how many samples a client holds says how large its batches are
    for client, held in enumerate(map(len, train)):
        if held in checked:
            continue
        checked.add(held)
        if any(len(batch) == 1 for batch in training.batches(held, stream(0, "sample passes"))):
            key = "training"
            if isinstance(training, LimitsBatches):
                key = f"training.batch_size = {training.batch_size}"
            raise InputError(
                f"{key}: of the {held} samples of client {client} a batch holds a single one, with which model kind "
                f"{experiment.model.kind!r} cannot be trained ({failure}); allowed is a training.batch_size that "
                "leaves no single sample, or training.drop_last = true with a batch_size of 2 or more"
            )


def _network(parts: Parts, dataset: Dataset) -> Callable[[], nn.Module]:
    """Makes the network that the federation trains, with start values of the moment."""
    return partial(network_of, parts.model, parts.federation, dataset.input_shape, dataset.classes)


def deal(experiment: Experiment) -> tuple[Dataset, Split]:
    """The data set and who holds what. Raises InputError where they do not fit the experiment."""
    dataset = load_dataset(experiment.data)
    if experiment.evaluate_on == "shared" and not len(dataset.y_test):
        why = f" ({dataset.untested})" if dataset.untested else ""
        share = experiment.test_share
        also = " and test_share, e.g. 0.2"
        if share:
            also = f": test_share = {share:g} is of each client's own samples, which only that reads"
        raise InputError(f"data {dataset.name!r} has no shared test set{why}; set evaluate_on = 'own'{also}")
    clients, seed = experiment.clients, experiment.seed
    shares = experiment.validation_share, experiment.test_share
    devices = match_devices(experiment, dataset).devices
    parts, given = Parts.of(experiment).of_devices(devices), experiment.partition

    def dealt() -> Split:
        held = split_of(parts.partition, dataset, clients, stream(seed, "partition"))
        draws = [stream(seed, "cut", client=i) for i in range(clients if any(shares) else 0)]
        return cut(held, *shares, draws)

    if not ours(given) or given.reads():  # it may give something else each time, or say so each time
        return dataset, dealt()
    return dataset, dataset.dealt((name_of(given), devices, clients, seed, shares), dealt)


def sites_of(partition: object, dataset: Dataset, split: Split) -> list[str]:
    """Whose samples each client holds, in words, where the partition deals them by name; else nothing."""
    if not isinstance(partition, NamesHolders):
        return []
    return [
        ", ".join(partition.names_of(dataset, np.concatenate(held)))
        for held in zip(split.train, split.validation, split.test, strict=True)
    ]


def match_devices(experiment: Experiment, dataset: Dataset) -> Matching:
    """Which device each client is, where several parts know devices by name. Raises InputError as `match` does."""
    parts, seed = Parts.of(experiment), experiment.seed
    mobility, activity, partition = parts.mobility, parts.activity, parts.partition
    asked = experiment.match != "order"
    names: dict[str, tuple[str, ...]] = {}
    if asked and isinstance(mobility, NamesDevices):
        names["mobility"] = mobility.device_names(seed)
    if asked and isinstance(activity, NamesDevices):
        names["activity"] = activity.device_names(seed)
    if asked and isinstance(partition, NamesHolders):
        names["data"] = partition.device_names(dataset)
    return match(names, experiment.clients, experiment.match)


def describe(scene: Scene) -> dict[str, Any]:
    """What `world.json` says."""
    reach, distances, ranges = scene.world.reach, scene.tariff.distances, scene.context.ranges
    return {
        "bounds": [float(v) for v in scene.context.bounds],
        "reach": reach if np.isfinite(reach) else "inf",
        "access_points": scene.context.access_points.tolist(),
        "access_point_ranges": [] if ranges is None else [r if r < np.inf else None for r in ranges.tolist()],
        "distance_mean": distances.mean if distances.known else None,
        "distance_std": distances.std if distances.known else None,
        "groups": [str(group) for group in scene.groups],
        "names": scene.names,
        "matching": list(scene.matching.notes),
        "classes": list(scene.dataset.class_names),
        "parameters": scene.task.layout.size,
        "uses": list(used_by(scene.parts.federation)),
        "bytes_per_model": 4 * (scene.task.layout.size + scene.task.layout.buffer_size),
        **({"attackers": scene.attackers.tolist()} if len(scene.attackers) else {}),
        **({} if scene.sight is None else {"movement": scene.sight.by}),
    }


def advice(experiment: Experiment) -> list[str]:
    """What speaks against an experiment's settings although they are allowed, a sentence each."""
    parts, told = Parts.of(experiment), []
    if experiment.device != "cpu":
        cuda = experiment.device.startswith("cuda")
        before = "; an earlier state was, on one kind of GPU with one network"
        known = f"not yet measured{before if cuda else ''}"
        told.append(
            f'device = "{experiment.device}": {known}; benchmarks/gpu.py tells how fast it is here beside a plain '
            "loop and beside two cores"
        )
    if "contacts" in used_by(parts.federation):
        told.append(small_reach(reach_of(parts.contacts), parts.mobility.bounds()))
    # Where a log or the data name devices, too, they choose which devices of the trace are clients.
    chosen_by_name = experiment.match != "order" and (
        isinstance(parts.activity, NamesDevices) or isinstance(parts.partition, NamesHolders)
    )
    if isinstance(parts.mobility, Advises) and not chosen_by_name:
        told.append(parts.mobility.advice(experiment.clients, experiment.rounds, experiment.seed))
    told.append(begins_apart(parts.mobility, parts.activity))
    return [text for text in told if text]


def describe_input(scene: Scene) -> dict[str, Any]:
    """What `preprocessing.json` says: what is needed to use a model of the run on new samples."""
    dataset = scene.dataset
    return NetworkInput(
        input_shape=list(dataset.input_shape),
        classes=list(dataset.class_names),
        samples=dataset.preprocessing,
    ).model_dump()


def partition_table(scene: Scene) -> dict[str, np.ndarray]:
    """Who holds what: one row per client, part (train, validation, test) and class that it holds any of."""
    split, dataset, rows = scene.split, scene.dataset, list[tuple[np.ndarray, ...]]()
    for part, held in (("train", split.train), ("validation", split.validation), ("test", split.test)):
        counts = np.stack([np.bincount(dataset.y_train[i], minlength=dataset.classes) for i in held])
        client, label = np.nonzero(counts)
        names = np.array(dataset.class_names, dtype=object)[label]
        rows.append((client, np.full(len(client), part), names, counts[client, label]))
    columns = zip(("client", "part", "class", "samples"), zip(*rows, strict=True), strict=True)
    return {name: np.concatenate(parts) for name, parts in columns}
