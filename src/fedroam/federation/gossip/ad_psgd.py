"""AD-PSGD: pairs average when they meet, while both go on training."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from typing_extensions import override

from fedroam.components import register
from fedroam.contacts import contact_intervals, graph_of, pairs_of
from fedroam.federation.decentralized import Decentralized
from fedroam.federation.protocol import (
    Arrays,
    Averagings,
    Distributed,
    Evaluated,
    Exchanged,
    FederationContext,
    InitialState,
    Meeting,
    Round,
    Start,
    Traffic,
    own_models,
)
from fedroam.learning import Job, Learner, Models

# State, int64 [clients]: in how many averagings each client has been, and had been when its training began. Within a
# round, bool [clients]: whose training began in it.
AVERAGED, SINCE, BEGUN = "averaged", "averaged_before", "begun"


@register("federation", "ad_psgd", source="Lian, Zhang, Zhang, Liu, ICML 2018, arXiv:1710.06952, Alg. 1")
class AdPsgd(Decentralized):
    """AD-PSGD on contact: pairs that meet average their models while both go on training.

    A client trains a copy of its model. Meanwhile each pair in contact averages once in a round, as soon as neither of
    the two is at it with another: both then hold (x_i + x_j) / 2. When training is done, what it changed is added to
    the model of that moment; where the two are averaging just then, right after it. The paper's workers average once
    for each gradient, with a random neighbour; here contacts say who averages, and local work may be several steps.
    Mixing rules have no say.

    Without seconds all training is done before the first contact opens, and contacts follow each other as they open
    along the way of the round. With seconds, shorter rounds with `late = "carried"` let training span many contacts.

    The matrix of models has two rows a client: its model, and its training. It adds columns to the table of rounds:
    `staleness`, the mean over the round's updates of the averagings of a client between the begin and the end of its
    training, and `averagings`, how many there were.
    """

    columns: ClassVar[tuple[str, ...]] = ("staleness", "averagings")
    takes_pieces: ClassVar[bool] = False
    aggregates: ClassVar[bool] = False  # pairs average: by no other rule

    @override
    def init(self, context: FederationContext, start: Start, learner: Learner) -> InitialState:
        own, clients = start(range(context.clients)), context.clients
        device = own.parameters.device
        models = Models.empty(own.layout, 2 * clients, momentum=own.momentum is not None, device=device)
        models.parameters[:clients], models.buffers[:clients] = own.parameters, own.buffers
        none = np.zeros(clients, np.int64)
        return InitialState(models, {AVERAGED: none, SINCE: none})

    @override
    def distribute(self, round: Round) -> Distributed:
        """Everybody who is present, holds samples and is not training begins to, on a copy of its model."""
        models, clients = round.models, round.context.clients
        begin = round.context.available(round.before)
        rows = torch.from_numpy(begin).to(models.parameters.device)
        for matrix in (models.parameters, models.buffers):
            matrix[clients + rows] = matrix[rows]
        since = round.state[SINCE].copy()
        since[begin] = round.state[AVERAGED][begin]
        jobs = [Job(i, clients + i, round.context.train[i], round.number) for i in begin.tolist()]
        begun = np.zeros(clients, bool)
        begun[begin] = True
        state = {AVERAGED: round.state[AVERAGED], SINCE: since, BEGUN: begun}
        return Distributed(jobs, Traffic.nothing(), models, state)

    def pairs(self, round: Round, meeting: Meeting) -> np.ndarray:
        """All in contact."""
        return pairs_of(meeting.graph).astype(np.int64)

    @override
    def exchange(self, round: Round, after: Meeting) -> Exchanged:
        """x_i, x_j <- (x_i + x_j) / 2 for each averaging, x_i <- x_i + change_i for each training done, in time."""
        models, clients, state = round.models, round.context.clients, round.state
        met = self._met(round, after)
        happened = round.averagings or self._as_they_meet(round, met, after)
        _to_changes(models, state[BEGUN])
        averaged, stale, passed = state[AVERAGED].copy(), [], np.zeros(clients, bool)
        steps = _steps(happened)
        for i, j in steps:
            if i == j:
                stale.append(int(averaged[i] - state[SINCE][i]))
            else:
                averaged[[i, j]] += 1
            passed[[i, j]] = i != j  # what is learnt has been passed on, as long as nothing is added
        passed[round.training] = False
        _take(models, steps, clients)
        first, second = happened.pairs.T
        distance = np.hypot(*(met.paths.end[first] - met.paths.end[second]).T)
        ways = [Traffic.of(*ends, models.bytes_each, distance) for ends in ((first, second), (second, first))]
        return Exchanged(
            Meeting(met.paths, graph_of(happened.pairs, clients)),
            Traffic.joined(ways if len(first) else []),
            models,
            {AVERAGED: averaged, SINCE: state[SINCE]},
            aggregated=np.flatnonzero(passed),
            facts={
                "staleness": float(np.mean(stale)) if stale else np.nan,
                "averagings": float(len(first)),
            },
        )

    def _as_they_meet(self, round: Round, met: Meeting, after: Meeting) -> Averagings:
        """Without seconds: training is done at once, and pairs average when their first contact opens, or at the end of
        the way where they meet by another rule than distance."""
        pairs, clients = self.pairs(round, met), round.context.clients
        found = contact_intervals(self.meeting_of(round, after).paths, round.context.reach, pairs)
        key, first = np.unique(found.i * clients + found.j, return_index=True)
        opens = np.ones(len(pairs))
        opens[np.searchsorted(pairs[:, 0] * clients + pairs[:, 1], key)] = found.open[first]
        order = np.argsort(opens, kind="stable")
        learnt = np.where(round.state[BEGUN], 0.0, np.inf)
        learnt[round.lost] = np.inf
        return Averagings(pairs[order], opens[order], opens[order], learnt)

    @override
    def evaluation_models(self, models: Models, state: Arrays, context: FederationContext) -> Evaluated:
        n = context.clients
        held = Models(models.layout, models.parameters[:n], models.buffers[:n], None)
        return {"own": own_models(held, held.mean())}


def _to_changes(models: Models, begun: np.ndarray) -> None:
    """Where training began in this round (bool [clients]), its row becomes what it changed in its client's model."""
    clients = len(begun)
    rows = torch.from_numpy(np.flatnonzero(begun)).to(models.parameters.device)
    for matrix in (models.parameters, models.buffers):
        matrix[clients + rows] -= matrix[rows]


def _steps(happened: Averagings) -> list[tuple[int, int]]:
    """What happened, in order: pairs (i, j) that averaged, and (i, i) where what i learnt was added."""
    # Where the client is just averaging, with the models of when that began, what it learnt is added right after it.
    during: dict[int, int] = {}
    for k, pair in enumerate(happened.pairs.tolist()):
        for i in pair:
            if happened.begun[k] < happened.learnt[i] <= happened.ended[k]:
                during[i] = k
    steps = [(k, 1, i, j) for k, (i, j) in enumerate(happened.pairs.tolist())]
    for i in np.flatnonzero(np.isfinite(happened.learnt)).tolist():
        before = int(np.searchsorted(happened.ended, happened.learnt[i]))
        steps.append((during[i], 2, i, i) if i in during else (before, 0, i, i))
    return [(i, j) for _, _, i, j in sorted(steps)]


def _take(models: Models, steps: list[tuple[int, int]], clients: int) -> None:
    """Take these steps; those that concern other clients than the ones before them, many at a time."""
    turn = [0] * clients
    turns: list[tuple[list[tuple[int, int]], list[tuple[int, int]]]] = []
    for i, j in steps:
        now = max(turn[i], turn[j])
        turn[i] = turn[j] = now + 1
        if now == len(turns):
            turns.append(([], []))
        turns[now][i == j].append((i, j))
    for averagings, updates in turns:
        for matrix in (models.parameters, models.buffers):
            if averagings:
                first, second = torch.tensor(averagings, device=matrix.device).T
                matrix[first] = matrix[second] = (matrix[first] + matrix[second]) * 0.5
            if updates:
                rows = torch.tensor(updates, device=matrix.device)[:, 0]
                matrix[rows] += matrix[clients + rows]
