"""What a run on a network is held against: the simulated one in which the same updates did not arrive."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import override

from fedroam.experiment import Experiment
from fedroam.federation import AggregatesAtHolders
from fedroam.learning import ClassMeans, Held, Job, Learner, Models, Scores
from fedroam.recording import Run
from fedroam.runner import run
from fedroam.scene import Scene, prepare
from support.holders import Answer, Apart, Transfer
from support.sites import same_states, states
from support.tiny import same_tables

NOBODY = np.zeros(0, np.int64)


class Losing(Learner):
    """The ordinary engine, but the training of these (round, client) never arrives, and in these rounds these clients
    (int64) are out of reach; round 0 is the start."""

    def __init__(
        self, inner: Learner, losing: set[tuple[int, int]], away: Mapping[int, np.ndarray] | None = None
    ) -> None:
        self.inner, self.task, self.notes = inner, inner.task, inner.notes
        self.losing, self.away = losing, away or {}
        self.now = 0

    @override
    def begin_round(self, number: int) -> None:
        self.now = number

    @override
    def unreachable(self) -> np.ndarray:
        return self.away.get(self.now, NOBODY)

    @override
    def lost(self) -> np.ndarray:
        return np.array(sorted(i for t, i in self.losing if t == self.now), np.int64)

    @override
    def train(self, models: Models, jobs: Sequence[Job]) -> np.ndarray:
        losses, gone = np.full(len(jobs), np.nan), set(self.lost().tolist())
        arrived = [k for k, job in enumerate(jobs) if job.client not in gone]
        losses[arrived] = self.inner.train(models, [jobs[k] for k in arrived])
        return losses

    @override
    def class_means(
        self, models: Models, rows: Sequence[int], held: Sequence[Held], classes: int
    ) -> ClassMeans:
        return self.inner.class_means(models, rows, held, classes)

    @override
    def evaluate(self, *arguments: Any) -> Scores:
        return self.inner.evaluate(*arguments)

    @override
    def features(self, *arguments: Any) -> Any:
        return self.inner.features(*arguments)

    @override
    def close(self) -> None:
        self.inner.close()


def without(
    experiment: Experiment,
    out: Path,
    losing: set[tuple[int, int]],
    away: Mapping[int, np.ndarray] | None = None,
    transfers: frozenset[Transfer] = frozenset(),
    silent: frozenset[Answer] = frozenset(),
) -> Run:
    """The simulated run in which these trainings do not arrive, and these clients are out of reach; nor do these
    transfers between holders, and these answers of theirs."""

    def stage(own: Experiment) -> Scene:
        scene = prepare(own)
        aggregator, rule = scene.aggregator, scene.parts.federation
        if isinstance(rule, AggregatesAtHolders):
            aggregator = Apart(rule, scene.context, transfers, silent)
        return dataclasses.replace(scene, learner=Losing(scene.learner, losing, away), aggregator=aggregator)

    return run(experiment, out, stage=stage)


def same_movement(network: Run, simulated: Run) -> None:
    """Fail where the run of devices that found out where they were differs from the one that replays it: in a table, or
    in a state, but for how devices make up their minds, what a trace calls them, and the way to where they are, of
    which a network knows the end alone."""
    named, own = ["device", "group"], ("mobility.near", "mobility.other", "mobility.times", "meeting.point")
    tables = ("rounds", "clients", "positions", "contacts")
    same_tables(
        *(
            {name: each.table(name).drop(columns=named, errors="ignore") for name in tables}
            for each in (network, simulated)
        )
    )
    for (_, one), (_, other) in zip(states(network), states(simulated), strict=True):
        for name in one:
            if not name.startswith(own):
                np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def same_runs(a: Run, b: Run) -> None:
    """Fail where two runs' states or tables differ."""
    same_states(a, b)
    same_tables(*({name: each.table(name) for name in ("rounds", "clients")} for each in (a, b)))
