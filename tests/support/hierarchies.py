"""A hierarchical federation without networks: models are short vectors, and training puts what a test says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from fedroam.components import build
from fedroam.contacts import graph_of
from fedroam.federation import Distributed, Exchanged, FederationContext, Meeting, Round
from fedroam.learning import Layout, Models
from fedroam.mobility import Paths


@dataclass(frozen=True)
class PlayedRound:
    """A round: what was handed out, what was exchanged, the cloud's model and that of each access point after it."""

    given: Distributed
    done: Exchanged
    cloud: np.ndarray
    stations: np.ndarray

    @property
    def trained(self) -> list[int]:
        return [job.client for job in self.given.jobs]

    @property
    def aggregated(self) -> list[int]:
        return self.done.aggregated.tolist()

    @property
    def discarded(self) -> list[int]:
        return self.done.discarded.tolist()

    @property
    def rows(self) -> int:
        return len(self.done.models)


def context_of(
    access_points: np.ndarray, samples: Sequence[int], seed: int = 3, ranges: np.ndarray | None = None
) -> FederationContext:
    """Clients that hold this many samples, in a world with these access points (metres)."""
    held = np.array(samples, dtype=np.int64)
    nothing: Any = None
    return FederationContext(
        seed=seed,
        samples=held,
        mixing=nothing,
        task=nothing,
        train=tuple(np.arange(n) for n in samples),
        validation=tuple(np.zeros(0, np.int64) for _ in samples),
        class_counts=held[:, None],
        bounds=(0.0, 0.0, 1000.0, 1000.0),
        access_points=np.asarray(access_points, dtype=np.float64),
        ranges=ranges,
    )


def meeting_of(places: np.ndarray, present: np.ndarray) -> Meeting:
    """Everybody stands still; nobody is in contact with anybody."""
    return Meeting(
        Paths.still(np.asarray(places, np.float64), np.asarray(present, bool)),
        graph_of(np.zeros((0, 2), np.int64), len(places)),
    )


def vectors(width: int) -> Layout:
    """Models of `width` parameters in one tensor."""
    return Layout.of(nn.Linear(width, 1, bias=False))


def play(
    part: Any,
    access_points: np.ndarray,
    samples: Sequence[int],
    places: np.ndarray,
    present: np.ndarray,
    start: Sequence[float],
    learnt: Mapping[tuple[int, int], Sequence[float]] | Any,
    seed: int = 3,
    ranges: np.ndarray | None = None,
) -> list[PlayedRound]:
    """Rounds 1, 2, ... with everybody at places[t] (float64 [rounds + 1, clients, 2], metres), or away.

    learnt[client, round]: what training makes of the model, or a function of (client, round, model).
    """
    federation: Any = build("federation", part) if isinstance(part, str | dict) else part
    context = context_of(access_points, samples, seed, ranges)
    layout = vectors(len(start))

    def begin(clients: Sequence[int]) -> Models:
        models = Models.empty(layout, len(clients), momentum=False)
        models.parameters[:] = torch.tensor(start)
        return models

    learner = cast(Any, None)
    begun = federation.init(context, begin, learner)
    models, state, rounds = begun.models, begun.state, []
    meetings = [meeting_of(at, who) for at, who in zip(places, present, strict=True)]
    for t in range(1, len(meetings)):
        before, after = meetings[t - 1], meetings[t]
        round = Round(t, models, state, context, before, learner)
        given = federation.distribute(round)
        for job in given.jobs:
            row = given.models.parameters[job.row]
            if callable(learnt):
                row.copy_(torch.as_tensor(learnt(job.client, t, row.numpy().copy()), dtype=torch.float32))
            else:
                row.copy_(torch.tensor(learnt[job.client, t], dtype=torch.float32))
        done = federation.exchange(replace(round, models=given.models, state=given.state), after)
        models, state = done.models, done.state
        matrix = models.parameters.numpy()
        rounds.append(PlayedRound(given, done, matrix[0].copy(), matrix[state["ap_row"]].copy()))
    return rounds
