"""Rounds that are timed by hand: paths, seconds of training and links as a test says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedroam.clock import Supply, Timetable, first_state, timetable
from fedroam.components import Part
from fedroam.contacts import graph_of
from fedroam.federation import Meeting, Round
from fedroam.mobility import Paths
from fedroam.scene import Scene, prepare
from fedroam.simulation import begin
from support.tiny import tiny


class Told(Part):
    """Local work takes as long as a test says, whatever it is; client i: told[i] seconds."""

    told: tuple[float, ...]

    def seconds(self, seed: int, clients: np.ndarray, passes: np.ndarray, flops: float) -> np.ndarray:
        """As told."""
        return np.array(self.told)[clients]


def timed_scene(work: Sequence[float], **settings: Any) -> Scene:
    """A tiny scene in which client i trains for work[i] seconds."""
    scene = prepare(tiny(clients=len(work), **{"mobility": "static", **settings}))
    assert scene.timing is not None
    return replace(scene, timing=replace(scene.timing, compute=Told(told=tuple(work))))


def meeting(start: Sequence[Sequence[float]], end: Sequence[Sequence[float]]) -> Meeting:
    """All move straight from start to end (m), and may all talk to each other."""
    clients = len(start)
    pairs = np.stack(np.triu_indices(clients, k=1), axis=1)
    paths = Paths.straight(np.array(start, dtype=float), np.array(end, dtype=float))
    return Meeting(paths, graph_of(pairs, clients))


def timed(
    scene: Scene,
    after: Meeting,
    state: Mapping[str, np.ndarray] | None = None,
    reach: float | None = None,
    supply: Supply | None = None,
) -> Timetable:
    """The timetable of round 1."""
    begun = begin(scene)
    before = Meeting(Paths.still(after.paths.start), begun.meeting.graph)
    round = Round(1, begun.models, begun.federation, scene.context, before, scene.learner)
    federation, timing = scene.parts.federation, scene.timing
    assert timing is not None
    if reach is not None:
        timing = replace(timing, reach=reach)
    given = federation.distribute(round)
    begun_with = first_state(scene.experiment.clients, timing)
    kept = begun_with if state is None else state
    return timetable(timing, round, given, after, kept, supply)
