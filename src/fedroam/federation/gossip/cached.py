"""Cached decentralized learning: models travel further than their owners, in the caches of those who met them."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch
from scipy import sparse
from typing_extensions import override

from fedroam.attacks import Withheld
from fedroam.components import field, register
from fedroam.federation.aggregating import models_of, values
from fedroam.federation.decentralized import Decentralized, truth_of
from fedroam.federation.gossip.delivered import Delivered, directed
from fedroam.federation.holders import Gathered, KnownToHolders, Made, Transfers
from fedroam.federation.protocol import (
    NOBODY,
    Exchanged,
    FederationContext,
    InitialState,
    Meeting,
    Round,
    Start,
)
from fedroam.learning import Learner, Models

# State. A model is held once, whoever has it in a cache: float32 [models, parameters and buffers], with its owner and
# the round in which that one trained it, int64 [models] each. cache: int64 [clients, size], which of them each client
# has, the newest first, and EMPTY after the last.
HELD, OWNER, TRAINED, CACHE = "cached_models", "cached_owner", "cached_round", "cache"
EMPTY = -1
BLOCK = 65536  # columns done at a time


@register("federation", "cached", source="Wang et al., AAAI 2025, arXiv:2408.14001, Algs. 1 and 2 (LRU)")
class Cached(Decentralized):
    """Cached-DFL: clients keep the newest models of others, hand them on when they meet, and average all they have.

    Every client trains its own model. Those in contact send each other that model and all that they have in their
    caches. Of each owner a client keeps the newest model; models that were trained `tau_max` or more rounds ago fall
    out, and so do the oldest beyond `size`. Then everybody who is present replaces its model by the average of it and
    of all models in its cache, weighted by the samples of their owners, whether it met anybody or not; where none of
    these holds samples, all count alike. Mixing rules have no say.

    What a client hands on is what it had when the round began. In a round of one contact after the other (as in the
    paper's code) a model could travel several hops; here it takes one a round. All models of a contact are sent as one
    transfer, and all of them are paid for; `size` models are what a device must have room for.

    It adds columns to the table of rounds: `cached`, models in a cache, and `cache_age`, rounds since they were
    trained, both as means.
    """

    columns: ClassVar[tuple[str, ...]] = ("cached", "cache_age")

    size: int = field(10, "models of others in a cache (C_max)", unit="models", ge=1)
    tau_max: int = field(
        10, "rounds after which a model falls out: what is younger may stay", unit="rounds", ge=1
    )

    @override
    def init(self, context: FederationContext, start: Start, learner: Learner) -> InitialState:
        models = start(range(context.clients))
        width = models.layout.size + models.layout.buffer_size
        nobody = np.zeros(0, np.int64)
        state: dict[str, np.ndarray] = {
            HELD: np.zeros((0, width), np.float32),
            OWNER: nobody,
            TRAINED: nobody,
        }
        state[CACHE] = np.full((context.clients, self.size), EMPTY, np.int64)
        return InitialState(models, state)

    def sends(self, round: Round, meeting: Meeting) -> sparse.csr_array:
        """The own model, and all that have not fallen out of the cache."""
        client, _ = self._young(round)
        models = 1 + np.bincount(client, minlength=round.context.clients)
        sends = meeting.graph.astype(np.int64)
        sends.data = models[sends.indices] * round.models.bytes_each
        return sends

    def _young(self, round: Round) -> tuple[np.ndarray, np.ndarray]:
        """What is in caches and has not fallen out by age: clients, and the models that they have, int64."""
        cache = round.state[CACHE]
        client, place = np.nonzero(cache != EMPTY)
        model = cache[client, place]
        young = round.number - round.state[TRAINED][model] < self.tau_max
        return client[young], model[young]

    @override
    def exchange(self, round: Round, after: Meeting) -> Exchanged:
        """Caches are updated (Alg. 2), then x_i <- sum_j n_j x_j / sum_j n_j over own model and cache (Alg. 1)."""
        meeting, context, models = self.met(round, after), round.context, round.models
        found = Delivered.of(self, round, meeting)
        if not round.aggregator.at_hand:
            found = self._carried(round, meeting, found)
        state = self._updated(round, found.received)
        takes = meeting.paths.present.copy()
        takes[round.training] = False
        takes &= state[CACHE][:, 0] != EMPTY
        clients = np.flatnonzero(takes)
        if round.aggregator.at_hand:
            _average(models, round.withheld, state, context.samples, clients)
        else:
            self._at_peers(round, meeting, state, clients)
        has = state[CACHE] != EMPTY
        age = round.number - state[TRAINED][state[CACHE][has]]
        facts = {"cached": float(has.sum(1).mean()), "cache_age": float(age.mean()) if len(age) else np.nan}
        return Exchanged(found.meeting, found.traffic, models, state, aggregated=found.heard, facts=facts)

    def _carried(self, round: Round, meeting: Meeting, found: Delivered) -> Delivered:
        """What gets through to peers: first all own models, then those in caches; a contact counts if all come."""
        receiver, sender, apart = Meeting(meeting.paths, found.received).links
        client, model = self._young(round)
        first = np.searchsorted(client, np.arange(len(round.models) + 1))
        own = Transfers(sender, receiver, sender, apart)
        arrived = round.aggregator.delivered(round.models, own, round.number)
        link, place = _each(first, np.where(arrived, sender, -1))
        ways = Transfers(sender[link], receiver[link], model[place], apart[link])
        held = models_of(round.models.layout, round.state[HELD])
        arrived[link[~round.aggregator.delivered(held, ways, round.number)]] = False
        received = directed(receiver[arrived], sender[arrived], len(round.models))
        return Delivered.of(self, replace(round, received=received), meeting)

    def _at_peers(
        self, round: Round, meeting: Meeting, state: dict[str, np.ndarray], clients: np.ndarray
    ) -> None:
        """These clients (int64) average for themselves, and keep what is in their caches."""
        models, gathered = truth_of(round) or round.models, []
        mine, theirs = _weights(state, round.context.samples, clients)
        for k, i in enumerate(clients.tolist()):
            cached = slice(*theirs.indptr[k : k + 2].tolist())
            beside = models_of(models.layout, state[HELD][theirs.indices[cached]])
            told = {"weights": np.append(mine.data[k], theirs.data[cached])}
            gathered.append(Gathered(i, i, NOBODY, NOBODY, None, told, beside=beside, stays=True))
        answers, made = round.aggregator.made(
            self, models, gathered, round.context.known(meeting, round.number)
        )
        for i, found in zip(clients[answers].tolist(), made, strict=True):
            round.models.write(i, found.parameters, found.buffers)

    @override
    def made(self, models: Models, gathered: Gathered, known: KnownToHolders) -> Made:
        """The average of a client's own model and of those in its cache."""
        weights, beside = gathered.told["weights"][None], gathered.beside
        assert beside is not None
        own = values(models.parameters[[gathered.own]], models.buffers[[gathered.own]])
        cached = values(beside.parameters, beside.buffers)
        found = _sums(_row(weights[0, :1]), own, _row(weights[0, 1:]), cached)
        parameters, buffers = np.split(found[0], [models.layout.size])
        return Made(torch.from_numpy(parameters), torch.from_numpy(buffers))

    def _updated(self, round: Round, received: sparse.csr_array) -> dict[str, np.ndarray]:
        """The state with everybody's cache after the meetings: of each owner the newest, of these the newest `size`, of
        equally new ones those of the lowest owner."""
        state, number, models = round.state, round.number, round.models
        client, model = self._young(round)
        # Models of the round stand behind those held, one for each client.
        owner = np.concatenate([state[OWNER], np.arange(len(models))])
        trained = np.concatenate([state[TRAINED], np.full(len(models), number)])
        taker, giver = (ends.astype(np.int64) for ends in received.nonzero())
        first = np.searchsorted(client, np.arange(len(models) + 1))  # clients come in order
        contact, given = _each(first, giver)
        who = np.concatenate([client, taker, taker[contact]])
        what = np.concatenate([model, giver + len(state[OWNER]), model[given]])
        others = owner[what] != who
        who, what = who[others], what[others]
        order = np.lexsort((-trained[what], owner[what], who))
        who, what = who[order], what[order]
        newest = np.ones(len(who), bool)
        newest[1:] = (who[1:] != who[:-1]) | (owner[what[1:]] != owner[what[:-1]])
        who, what = who[newest], what[newest]
        order = np.lexsort((owner[what], -trained[what], who))
        who, what = who[order], what[order]
        place = np.arange(len(who)) - np.searchsorted(who, who)
        who, what, place = (part[place < self.size] for part in (who, what, place))
        kept, now = np.unique(what, return_inverse=True)
        cache = np.full_like(state[CACHE], EMPTY)
        cache[who, place] = now
        old, new = kept[kept < len(state[OWNER])], kept[kept >= len(state[OWNER])] - len(state[OWNER])
        fresh = torch.from_numpy(new).to(models.parameters.device)
        held = np.concatenate([state[HELD][old], values(models.parameters[fresh], models.buffers[fresh])])
        return {HELD: held, OWNER: owner[kept], TRAINED: trained[kept], CACHE: cache}


def _weights(
    state: dict[str, np.ndarray], samples: np.ndarray, clients: np.ndarray
) -> tuple[sparse.csr_array, sparse.csr_array]:
    """How these clients (int64), all of whom have a cache, weigh their own models (CSR [clients, all]), and those in it
    (CSR [clients, held]): by the samples of their owners. Where nobody of these holds samples, all count alike."""
    cache = state[CACHE][clients]
    line, place = np.nonzero(cache != EMPTY)
    model = cache[line, place]
    lines = np.concatenate([np.arange(len(clients)), line])
    count = samples.astype(np.float64)
    weight = np.concatenate([count[clients], count[state[OWNER][model]]])
    total = np.bincount(lines, weight, minlength=len(clients))
    weight = np.where(total[lines] > 0, weight, 1.0)
    weight = weight / np.bincount(lines, weight, minlength=len(clients))[lines]
    mine, theirs = np.split(weight, [len(clients)])
    return (
        sparse.csr_array((mine, (lines[: len(clients)], clients)), (len(clients), len(samples))),
        sparse.csr_array((theirs, (line, model)), (len(clients), len(state[OWNER]))),
    )


def _sums(mine: sparse.csr_array, own: np.ndarray, theirs: sparse.csr_array, held: np.ndarray) -> np.ndarray:
    """Weighted sums of own models and held ones, float32 [clients, values]. Sums run in float64."""
    return np.asarray((mine @ own + theirs @ held).astype(np.float32))


def _average(
    models: Models,
    withheld: Withheld | None,
    state: dict[str, np.ndarray],
    samples: np.ndarray,
    clients: np.ndarray,
) -> None:
    """These clients (int64) average their own models with those in their caches."""
    own = values(models.parameters, models.buffers)
    if withheld is not None:  # attackers go on with what they have trained
        own[withheld.rows, : models.layout.size] = withheld.parameters.cpu().numpy()
    mine, theirs = _weights(state, samples, clients)
    size, target = models.layout.size, torch.from_numpy(clients).to(models.parameters.device)
    for matrix, begin in ((models.parameters, 0), (models.buffers, size)):
        for start in range(0, matrix.shape[1], BLOCK):
            part = slice(start, min(start + BLOCK, matrix.shape[1]))
            columns = slice(begin + part.start, begin + part.stop)
            found = _sums(mine, own[:, columns], theirs, state[HELD][:, columns])
            matrix[target, part] = torch.from_numpy(found).to(matrix.device)


def _each(first: np.ndarray, client: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What each of these clients (int64; -1: nobody) has, whose things stand from first[i] to first[i + 1]: which of
    them, and where it stands, int64 [things]."""
    count = np.where(client >= 0, np.diff(first)[client], 0)
    place = np.repeat(first[client] - np.cumsum(count) + count, count) + np.arange(count.sum())
    return np.repeat(np.arange(len(client)), count), place


def _row(values: np.ndarray) -> sparse.csr_array:
    """A row of all these values, zeros among them."""
    return sparse.csr_array(
        (values, np.arange(len(values)), np.array([0, len(values)])), shape=(1, len(values))
    )
