"""How long a run will take in its own world, and what gets through: its rounds, played without learning."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy import sparse
from typing_extensions import override

from fedroam.analysis.fleet import of_transfers
from fedroam.clock import COLUMNS, TIME, TOTALS
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.federation.decentralized import Decentralized
from fedroam.learning import Evaluates, Job, Learner, Models
from fedroam.measurement import COLUMN_OF
from fedroam.mixing import Average, Facts
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


class Weightless(Scene):
    """A scene whose models have no values, only their size on the air: for who neither learns nor looks at them."""

    @override
    def start_models(self, clients: Sequence[int] | None = None) -> Models:
        rows = self.experiment.clients if clients is None else len(clients)
        nothing = torch.zeros((rows, 0))
        return Models(self.task.layout, nothing, nothing.clone(), None)

    @classmethod
    def of(cls, scene: Scene) -> Scene:
        """The scene without values where nothing can depend on them; else as it is."""
        parts = scene.parts
        plain = type(parts.federation) is Decentralized and isinstance(parts.aggregation, Average)
        if not plain or len(scene.attackers):
            return scene
        parts_of = {column.name: getattr(scene, column.name) for column in fields(scene)}
        return cls(**{**parts_of, "context": replace(scene.context, mixing=Unmixed())})


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
    scene = Weightless.of(replace(scene, learner=learner))
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
