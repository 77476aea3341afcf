"""The loop: move, meet, learn, exchange, account, measure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from fedroam.cost import Account
from fedroam.federation import Meeting, Traffic
from fedroam.measurement import Measurement, Round, measure
from fedroam.mobility import Paths, checked
from fedroam.scene import Scene
from fedroam.state import State


def begin(scene: Scene) -> State:
    """The state before round 1: start models, start places, and who is in contact there."""
    mobility = checked(scene.mobility.start(scene.world), scene.world)
    present = mobility.get("present")
    activity = scene.activity.start(scene.experiment.seed, scene.experiment.clients)
    paths = Paths.still(mobility["position"], None if present is None else present.astype(bool))
    meeting = _meeting(scene, paths, activity)
    begun = scene.federation.init(scene.setting, scene.start_models, scene.learner)
    account = Account.new(scene.experiment.clients)
    return State(0, begun.models, mobility, begun.state, activity, meeting, 0, account)


def _meeting(scene: Scene, paths: Paths, activity: Mapping[str, np.ndarray]) -> Meeting:
    """Who meets whom of those who are there and active."""
    paths = replace(paths, present=paths.present & activity["active"].astype(bool))
    return Meeting(paths, scene.contacts.meet(paths))


@dataclass(frozen=True)
class Happened:
    """What a round did, for the measurement: the meeting in which models were exchanged, the clients (int64) that
    learnt, the mean training loss of each piece of local work (float64), and the federation's own columns.
    """

    meeting: Meeting
    learners: np.ndarray
    losses: np.ndarray
    facts: Mapping[str, float]

    @classmethod
    def nothing(cls, meeting: Meeting) -> Happened:
        """Before round 1."""
        return cls(meeting, np.zeros(0, np.int64), np.zeros(0), {})


def play_round(scene: Scene, state: State) -> tuple[State, Happened]:
    """One round. Returns the next state, and what happened."""
    federation, setting, learner = scene.federation, scene.setting, scene.learner
    t, before, seed, clients = state.round + 1, state.meeting, scene.experiment.seed, scene.experiment.clients
    # learn
    given = federation.distribute(state.models, state.federation, setting, before, t, learner)
    losses = learner.train(given.models, given.jobs)
    # move
    mobility, paths = scene.mobility.step(state.mobility, scene.world, t)
    activity = scene.activity.step(state.activity, seed, clients, t)
    # meet
    after = _meeting(scene, paths, activity)
    # exchange
    done = federation.exchange(given.models, given.state, setting, before, after, t, learner)
    # account
    traffic = Traffic.joined([given.traffic, done.traffic])
    fates = (done.aggregated, done.discarded)
    account = scene.tariff.charge(state.account, given.jobs, traffic, *fates)
    mobility = checked(mobility, scene.world)
    sent = state.bytes_sent + traffic.total
    following = State(t, done.models, mobility, done.state, activity, after, sent, account)
    learners = np.unique(np.array([job.client for job in given.jobs], dtype=np.int64))
    return following, Happened(done.meeting, learners, losses, done.facts)


def measured(scene: Scene, state: State, done: Happened, seconds: float) -> Measurement:
    """Judge the state after a round; `seconds` is the wall clock since the start."""
    judged = scene.federation.judged(state.models, state.federation, scene.setting)
    totals = (state.bytes_sent, state.account, seconds)
    round = Round(state.round, done.meeting, done.learners, done.losses, done.facts, *totals)
    return measure(scene, judged, round)
