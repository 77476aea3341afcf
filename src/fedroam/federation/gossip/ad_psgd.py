"""AD-PSGD: pairs average when they meet, while both go on training."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import ClassVar

import numpy as np
import torch
from typing_extensions import override

from fedroam.components import register
from fedroam.contacts import graph_of, pairs_of
from fedroam.federation.decentralized import Decentralized
from fedroam.federation.gossip.delivered import first_opens
from fedroam.federation.holders import Gathered, KnownToHolders, Made, Transfers
from fedroam.federation.protocol import (
    NOBODY,
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
# Pairs that average, and clients (twice) that add what they learnt.
Turn = tuple[list[tuple[int, int]], list[tuple[int, int]]]


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

    @override
    def init(self, context: FederationContext, start: Start, learner: Learner) -> InitialState:
        own, clients = start(range(context.clients)), context.clients
        momentum = own.momentum is not None
        models = Models.empty(
            own.layout, 2 * clients, momentum=momentum, device=own.parameters.device, half=own.half
        )
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
        met = self.met(round, after)
        happened = round.averagings or self._as_they_meet(round, met, after)
        steps = _steps(happened)
        at_peers = None if round.aggregator.at_hand else models.rows(torch.arange(2 * clients))
        _to_changes(models, state[BEGUN])
        if at_peers is None:
            _take(models, _turns(steps, clients), clients)
        else:
            taken = self._take_at_peers(round, met, _turns(steps, clients), at_peers)
            steps = [step for step in steps if step in taken]
        pairs = np.array([step for step in steps if step[0] != step[1]], np.int64).reshape(-1, 2)
        averaged, stale, passed = state[AVERAGED].copy(), [], np.zeros(clients, bool)
        for i, j in steps:
            if i == j:
                stale.append(int(averaged[i] - state[SINCE][i]))
            else:
                averaged[[i, j]] += 1
            passed[[i, j]] = i != j  # what is learnt has been passed on, as long as nothing is added
        passed[round.training] = False
        first, second = pairs.T
        distance = np.hypot(*(met.paths.end[first] - met.paths.end[second]).T)
        ways = [Traffic.of(*ends, models.bytes_each, distance) for ends in ((first, second), (second, first))]
        return Exchanged(
            Meeting(met.paths, graph_of(pairs, clients)),
            Traffic.joined(ways if len(first) else []),
            models,
            {AVERAGED: averaged, SINCE: state[SINCE]},
            aggregated=np.flatnonzero(passed),
            facts={
                "staleness": float(np.mean(stale)) if stale else np.nan,
                "averagings": float(len(pairs)),
            },
        )

    def _take_at_peers(
        self, round: Round, met: Meeting, turns: Sequence[Turn], at_peers: Models
    ) -> set[tuple[int, int]]:
        """Let peers take these steps, turn by turn: those that happened.

        at_peers: what each holds as the exchange begins, its model and what it made of that in training. A pair
        averages if both models get through; who does not answer keeps its model, and takes no further step.
        """
        models, known = round.models, round.context.known(met, round.number)
        taken, silent = set[tuple[int, int]](), set[int]()
        for averagings, updates in turns:
            pairs = [pair for pair in averagings if silent.isdisjoint(pair)]
            first, second = np.array(pairs, np.int64).reshape(-1, 2).T
            apart = np.hypot(*(met.paths.end[first] - met.paths.end[second]).T)
            sender, receiver = np.append(first, second), np.append(second, first)
            ways = Transfers(sender, receiver, sender, np.append(apart, apart))
            there, back = np.split(round.aggregator.delivered(models, ways, round.number), 2)
            pairs = list(compress(pairs, there & back))
            gathered = [
                Gathered(i, i, np.array([j]), np.array([j]), None)
                for pair in pairs
                for i, j in (pair, pair[::-1])
            ]
            learnt = [i for i, _ in updates if i not in silent]
            for i in learnt:
                beside = at_peers.rows(torch.tensor([round.context.clients + i, i]))
                gathered.append(Gathered(i, i, NOBODY, NOBODY, None, beside=beside))
            into = [each.own for each in gathered]
            answers = round.aggregator.replace(self, models, gathered, into, known)
            silent |= {into[k] for k in np.flatnonzero(~answers).tolist()}
            taken |= {*pairs, *((i, i) for i in learnt if i not in silent)}
        return taken

    @override
    def made(self, models: Models, gathered: Gathered, known: KnownToHolders) -> Made:
        """The average of a client's model and its partner's; or that model and what its training has changed."""
        matrices, beside = (models.parameters, models.buffers), gathered.beside
        if beside is None:
            (other,) = gathered.rows.tolist()
            parameters, buffers = (_halved(matrix[gathered.own], matrix[other]) for matrix in matrices)
        else:
            both = zip(matrices, (beside.parameters, beside.buffers), strict=True)
            parameters, buffers = (matrix[gathered.own] + (new - old) for matrix, (new, old) in both)
        return Made(parameters, buffers)

    def _as_they_meet(self, round: Round, met: Meeting, after: Meeting) -> Averagings:
        """Without seconds: training is done at once, and pairs average when their first contact opens, or at the end of
        the way where they meet by another rule than distance."""
        pairs = self.pairs(round, met)
        opens = first_opens(pairs, self.meeting_of(round, after).paths, round.context.reach)
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


def _halved(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """The average of two models, or of two rows of them."""
    return (one + other) * 0.5


def _turns(steps: list[tuple[int, int]], clients: int) -> list[Turn]:
    """Steps in an order that makes no difference; those of a turn concern other clients, each."""
    turn = [0] * clients
    turns: list[Turn] = []
    for i, j in steps:
        now = max(turn[i], turn[j])
        turn[i] = turn[j] = now + 1
        if now == len(turns):
            turns.append(([], []))
        turns[now][i == j].append((i, j))
    return turns


def _take(models: Models, turns: list[Turn], clients: int) -> None:
    """Take these steps, those of a turn at once."""
    for averagings, updates in turns:
        for matrix in (models.parameters, models.buffers):
            if averagings:
                first, second = torch.tensor(averagings, device=matrix.device).T
                matrix[first] = matrix[second] = _halved(matrix[first], matrix[second])
            if updates:
                rows = torch.tensor(updates, device=matrix.device)[:, 0]
                matrix[rows] += matrix[clients + rows]
