"""How long a run will take in its own world, and what gets through: its rounds, played without learning."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy import sparse
from typing_extensions import override

from fedroam.analysis.fleet import of_transfers
from fedroam.clock import COLUMNS, TIME, TOTALS
from fedroam.contacts import contact_intervals, met
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.federation.decentralized import Decentralized
from fedroam.learning import Evaluates, Job, Learner, Models
from fedroam.learning.cpu.workers import cores
from fedroam.measurement import COLUMN_OF
from fedroam.mixing import Average, Facts
from fedroam.mobility import Paths, checked
from fedroam.scene import Scene, prepare
from fedroam.simulation import begin, play_round
from fedroam.state import State


class Idle(Evaluates, Learner):
    """An engine at work that learns nothing: models stay as they are handed out. It evaluates as another does."""

    def __init__(self, learner: Learner) -> None:
        self.here, self.task, self.notes = learner, learner.task, ("learns nothing",)

    @override
    def train(self, models: Models, jobs: Sequence[Job]) -> np.ndarray:
        return np.zeros(len(jobs))


class Unmixed:
    """A mixing rule for models without values, which stay as they are."""

    def weights(self, graph: sparse.csr_array, facts: Facts) -> sparse.csr_array:
        """The identity."""
        return sparse.csr_array(sparse.eye_array(graph.shape[0], format="csr"))


Moved = tuple[dict[str, np.ndarray], Paths]


class Foreseen:
    """The movement of a round, found in a thread of its own while the one before is planned.

    It follows from the movement before alone, and so does who is within reach of whom, which is kept with the paths.
    Both threads wait for the interpreter now and then: 10,000 devices take a fifth less time on two cores, and a fifth
    more of the processors'.
    """

    def __init__(self, scene: Scene) -> None:
        self._scene, timing = scene, scene.timing
        self._pays = timing is not None and timing.federation.neighbours is not None and cores() > 1
        # Contacts of few are not those of all.
        everybody = scene.experiment.activity.kind == "always"
        self._reach = timing.reach if timing is not None and everybody else math.inf
        self._thread = ThreadPoolExecutor(1, "movement")
        self._known: tuple[dict[str, np.ndarray], Future[Moved]] | None = None

    def step(self, state: Mapping[str, np.ndarray], round: int) -> Moved:
        """As `Mobility.step`."""
        known, self._known = self._known, None
        if known is not None and all(state[name] is array for name, array in known[0].items()):
            moved, paths = known[1].result()
        else:
            moved, paths = self._scene.parts.mobility.step(state, self._scene.world, round)
        if self._pays and round < self._scene.experiment.rounds:
            following = checked(moved, self._scene.world)
            self._known = following, self._thread.submit(self._look, following, round + 1)
        return moved, paths

    def _look(self, state: Mapping[str, np.ndarray], round: int) -> Moved:
        moved, paths = self._scene.parts.mobility.step(state, self._scene.world, round)
        if math.isfinite(self._reach):
            met(self._scene.parts.contacts, round, paths)
            contact_intervals(paths, self._reach)
        return moved, paths

    def close(self) -> None:
        """Look no further."""
        self._thread.shutdown(cancel_futures=True)


@dataclass(frozen=True)
class Planned(Scene):
    """A scene whose rounds are planned, one after the other, and not learnt in.

    weightless: its models have no values, only their size on the air: nobody looks at them.
    """

    weightless: bool = False

    @cached_property
    def foreseen(self) -> Foreseen:
        """The movement of the next round."""
        return Foreseen(self)

    @override
    def step_mobility(self, state: Mapping[str, np.ndarray], round: int) -> Moved:
        return self.foreseen.step(state, round)

    @override
    def start_models(self, clients: Sequence[int] | None = None) -> Models:
        if not self.weightless:
            return super().start_models(clients)
        rows = self.experiment.clients if clients is None else len(clients)
        nothing = torch.zeros((rows, 0))
        return Models(self.task.layout, nothing, nothing.clone(), None)

    @classmethod
    def of(cls, scene: Scene) -> Planned:
        """The scene, without values where nothing can depend on them."""
        parts = scene.parts
        plain = type(parts.federation) is Decentralized and isinstance(parts.aggregation, Average)
        weightless = plain and not len(scene.attackers)
        context = replace(scene.context, mixing=Unmixed()) if weightless else scene.context
        parts_of = {column.name: getattr(scene, column.name) for column in fields(scene)}
        return cls(**{**parts_of, "context": context}, weightless=weightless)


def planned_rounds(
    experiment: Experiment, rounds: int | None = None, at_end: Callable[[pd.DataFrame], None] | None = None
) -> Iterator[dict[str, Any]]:
    """What the clock says of each round of a run, a row each, without training (default: all rounds).

    Columns: `round`, `time` (s, at its end), `seconds` (s, its own), the clock's (`late`, `transfers`, `through`,
    `broken`, `contacts`, `fit`) and `time_training`, `time_sending`, `time_waiting`, `time_idle`, as shares of the
    round, means over clients. They are those of the run itself, unless its federation chooses by the models what it
    sends. `at_end` is handed the clients after the last round (see `planned_clients`).
    Raises InputError where the experiment has no clock of seconds.
    """
    if experiment.clock.kind == "rounds":
        raise InputError(
            "clock.kind = 'rounds': nothing takes time there; set clock.kind = 'seconds', and [link] and [compute]"
        )
    scene = prepare(experiment if rounds is None else experiment.replace(rounds=rounds))
    learner = Idle(scene.learner)
    scene = Planned.of(replace(scene, learner=learner))
    try:
        state = begin(scene)
        for number in range(1, scene.experiment.rounds + 1):
            following, done = play_round(scene, state)
            seconds = float(following.clock[TIME][0] - state.clock[TIME][0])
            row = {"round": number, TIME: float(following.clock[TIME][0]), "seconds": seconds}
            row |= {name: done.facts.get(name, np.nan) for name in COLUMNS}
            for name in TOTALS:
                row[name] = float((following.clock[name] - state.clock[name]).mean()) / seconds
            state = following
            yield row
        if at_end is not None:
            at_end(planned_clients(scene, state))
    finally:
        scene.foreseen.close()
        learner.close()


def planned_clients(scene: Scene, state: State) -> pd.DataFrame:
    """What the clock, the batteries and the account say of each client after a round, in columns of the run's table
    `clients`."""
    return pd.DataFrame(
        {
            "client": np.arange(scene.experiment.clients),
            **{COLUMN_OF[part]: scene.names[part] for part in COLUMN_OF if part in scene.names},
            **state.account.arrays(),
            **{name: state.clock[name] for name in TOTALS},
            **{f"battery_{name}": array for name, array in state.battery.items()},
        }
    )


def summary(rounds: pd.DataFrame) -> dict[str, float]:
    """A table of planned rounds in a few numbers, in this order: rounds, seconds of all, of one (mean, longest), shares
    of contacts and transfers that get through (NaN where there are none), broken transfers and late clients a round,
    and the shares of time.
    """
    found = {
        "rounds": float(len(rounds)),
        "seconds": float(rounds["seconds"].sum()),
        "seconds_mean": float(rounds["seconds"].mean()),
        "seconds_most": float(rounds["seconds"].max()),
    }
    found |= of_transfers(rounds)
    weights = rounds["seconds"] / rounds["seconds"].sum()
    return found | {name: float((rounds[name] * weights).sum()) for name in TOTALS}
