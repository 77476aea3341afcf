"""The loop: move, meet, learn, exchange, account, measure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fedroam.attacks import Trial
from fedroam.cost import Account
from fedroam.federation import Meeting, Round, Traffic
from fedroam.measurement import RoundResult
from fedroam.mobility import Paths, checked
from fedroam.scene import Scene
from fedroam.state import State


def begin(scene: Scene) -> State:
    """The state before round 1: start models, start places, and who is in contact there."""
    parts, clients = scene.parts, scene.experiment.clients
    mobility = checked(parts.mobility.start(scene.world), scene.world)
    present = mobility.get("present")
    activity = parts.activity.start(scene.experiment.seed, clients)
    paths = Paths.still(mobility["position"], None if present is None else present.astype(bool))
    meeting = _meeting(scene, paths, activity)
    initial = parts.federation.init(scene.context, scene.start_models, scene.learner)
    return State(0, initial.models, mobility, initial.state, activity, meeting, 0, Account.new(clients))


def _meeting(scene: Scene, paths: Paths, activity: Mapping[str, np.ndarray]) -> Meeting:
    """Who meets whom of those who are there, active and within reach of whoever asks them to learn."""
    here = paths.present & activity["active"].astype(bool)
    here[scene.learner.unreachable()] = False
    paths = replace(paths, present=here)
    return Meeting(paths, scene.parts.contacts.meet(paths))


def play_round(scene: Scene, state: State) -> tuple[State, RoundResult]:
    """One round. Returns the next state, and what the round did."""
    parts, experiment, t = scene.parts, scene.experiment, state.round + 1
    round = Round(t, state.models, state.federation, scene.context, state.meeting, scene.learner)
    scene.learner.begin_round(t)
    # learn
    given = parts.federation.distribute(round)
    trial = Trial.before(parts.attack, scene.attackers, experiment.clients, given.models, given.jobs)
    losses, lost = scene.learner.train(given.models, given.jobs), scene.learner.lost()
    withheld = None if trial is None else trial.send(given.models, experiment.seed, t)
    # move
    mobility, paths = parts.mobility.step(state.mobility, scene.world, t)
    activity = parts.activity.step(state.activity, experiment.seed, experiment.clients, t)
    # meet
    after = _meeting(scene, paths, activity)
    # exchange
    handed = replace(round, models=given.models, state=given.state, withheld=withheld, lost=lost)
    done = parts.federation.exchange(handed, after)
    # account
    traffic = Traffic.joined([given.traffic, done.traffic])
    learnt = [*given.jobs, *given.trained]
    account = scene.tariff.charge(state.account, learnt, traffic, done.aggregated, done.discarded)
    sent = state.bytes_sent + traffic.total
    mobility = checked(mobility, scene.world)
    following = State(t, done.models, mobility, done.state, activity, after, sent, account)
    clients = np.array([job.client for job in given.jobs], dtype=np.int64)
    stepped = ~np.isnan(losses)
    # A loss that is no number is that of a model that exploded, or of a client without a batch.
    for k in np.flatnonzero(~stepped).tolist():
        stepped[k] = next(given.jobs[k].positions(scene.task), None) is not None
    told = ~np.isin(clients, np.append(scene.attackers, lost))
    learnt_here = np.setdiff1d(clients, lost)
    return following, RoundResult(done.meeting, learnt_here, losses[told], stepped[told], done.facts)
