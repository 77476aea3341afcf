"""Cached decentralized learning: models travel further than their owners, in the caches of those who met them."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from scipy import sparse
from typing_extensions import override

from fedroam.components import field, register
from fedroam.federation.aggregating import values
from fedroam.federation.decentralized import Decentralized
from fedroam.federation.gossip.delivered import Delivered
from fedroam.federation.protocol import Exchanged, FederationContext, InitialState, Meeting, Round, Start
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
    of all models in its cache, weighted by the samples of their owners, whether it met anybody or not. Mixing rules
    have no say.

    What a client hands on is what it had when the round began. In a round of one contact after the other (as in the
    paper's code) a model could travel several hops; here it takes one a round. All models of a contact are sent as one
    transfer, and all of them are paid for; `size` models are what a device must have room for.

    It adds columns to the table of rounds: `cached`, models in a cache, and `cache_age`, rounds since they were
    trained, both as means.
    """

    columns: ClassVar[tuple[str, ...]] = ("cached", "cache_age")
    takes_pieces: ClassVar[bool] = False
    aggregates: ClassVar[bool] = False  # averages by samples: no other rule

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
        meeting, context, models = self._met(round, after), round.context, round.models
        found = Delivered.of(self, round, meeting)
        state = self._updated(round, found.received)
        told = values(models.parameters, models.buffers)
        own = told
        if round.withheld is not None:  # attackers go on with what they have trained
            own = told.copy()
            own[round.withheld.rows, : models.layout.size] = round.withheld.parameters.cpu().numpy()
        takes = meeting.paths.present.copy()
        takes[round.training] = False
        _average(models, own, state, context.samples, np.flatnonzero(takes))
        has = state[CACHE] != EMPTY
        age = round.number - state[TRAINED][state[CACHE][has]]
        facts = {"cached": float(has.sum(1).mean()), "cache_age": float(age.mean()) if len(age) else np.nan}
        return Exchanged(found.meeting, found.traffic, models, state, aggregated=found.heard, facts=facts)

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
        count = np.diff(first)[giver]
        given = np.repeat(first[giver] - np.cumsum(count) + count, count) + np.arange(count.sum())
        who = np.concatenate([client, taker, np.repeat(taker, count)])
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


def _average(
    models: Models, own: np.ndarray, state: dict[str, np.ndarray], samples: np.ndarray, clients: np.ndarray
) -> None:
    """These clients (int64) average their own models (float32 [clients, values]) with those in their caches.

    Sums run in float64. Where nobody of these holds samples, all count alike.
    """
    cache = state[CACHE][clients]
    line, place = np.nonzero(cache != EMPTY)
    model = cache[line, place]
    lines = np.concatenate([np.arange(len(clients)), line])
    count = samples.astype(np.float64)
    weight = np.concatenate([count[clients], count[state[OWNER][model]]])
    total = np.bincount(lines, weight, minlength=len(clients))
    weight = np.where(total[lines] > 0, weight, 1.0)
    weight = weight / np.bincount(lines, weight, minlength=len(clients))[lines]
    alone = np.bincount(line, minlength=len(clients)) == 0
    size, target = models.layout.size, torch.from_numpy(clients[~alone]).to(models.parameters.device)
    mine = sparse.csr_array(
        (weight[: len(clients)], (lines[: len(clients)], clients)), (len(clients), len(own))
    )
    theirs = sparse.csr_array((weight[len(clients) :], (line, model)), (len(clients), len(state[OWNER])))
    for matrix, begin in ((models.parameters, 0), (models.buffers, size)):
        for start in range(0, matrix.shape[1], BLOCK):
            part = slice(start, min(start + BLOCK, matrix.shape[1]))
            columns = slice(begin + part.start, begin + part.stop)
            found = mine @ own[:, columns] + theirs @ state[HELD][:, columns]
            matrix[target, part] = torch.from_numpy(found[~alone].astype(np.float32)).to(matrix.device)
