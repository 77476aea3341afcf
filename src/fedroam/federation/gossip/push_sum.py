"""Push-sum: averages that need no answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import compress
from typing import ClassVar

import numpy as np
import torch
from scipy import sparse
from typing_extensions import override

from fedroam.components import register
from fedroam.federation.aggregating import values
from fedroam.federation.decentralized import Decentralized, truth_of
from fedroam.federation.gossip.delivered import Delivered, directed
from fedroam.federation.holders import Gathered, KnownToHolders, Made, Model, Transfers
from fedroam.federation.protocol import (
    NOBODY,
    Arrays,
    Evaluated,
    Exchanged,
    FederationContext,
    InitialState,
    Meeting,
    Round,
    Start,
    own_models,
)
from fedroam.learning import Layout, Learner, Models
from fedroam.learning.layout import Entry

# State: numerators, float64 [clients, parameters and buffers], and weights, float64 [clients].
NUMERATORS, WEIGHTS = "numerators", "push_weights"
BLOCK = 65536  # columns done at a time
NUMBER = 4  # bytes of the weight, a float32, that travels with a model


@register(
    "federation",
    "push_sum",
    source="Kempe, Dobra, Gehrke, FOCS 2003; Assran et al., ICML 2019, arXiv:1811.10792, Alg. 1",
)
class PushSum(Decentralized):
    """Stochastic Gradient Push: every client pushes shares of what it holds to those in contact, and needs no answer.

    A client holds a numerator x, a weight w (1 at first) and so the model z = x / w, on which it trains: what training
    changes in z is added to x. Then it divides x and w into 1 + d equal shares, keeps one and sends one to each of the
    d clients in contact; what it gets is added. A share that does not get through stays with its sender, which is
    assumed to know. So an exchange leaves the sums of x and w over all clients as they are, whatever breaks. Mixing
    rules have no say.

    Messages are float32, x and w themselves float64: a sender subtracts exactly what it has sent, so that both sums are
    kept up to the rounding of sums in float64. A client that is heard but hears nobody for long loses its weight, and
    what it learns then changes its own model by 1 / w of it: `push_weight_least` of the table of rounds is the smallest
    weight. The model that stands for all is the sum of x over that of w.
    """

    columns: ClassVar[tuple[str, ...]] = ("push_weight_least",)

    @override
    def init(self, context: FederationContext, start: Start, learner: Learner) -> InitialState:
        models = start(range(context.clients))
        held = values(models.parameters, models.buffers).astype(np.float64)
        return InitialState(models, {NUMERATORS: held, WEIGHTS: np.ones(context.clients)})

    def sends(self, round: Round, meeting: Meeting) -> sparse.csr_array:
        """A model and a weight to everybody in contact."""
        return meeting.graph.astype(np.int64) * (round.models.bytes_each + NUMBER)

    def message(self, layout: Layout) -> Layout:
        """A share of a numerator, as a model, and as one more buffer that of the weight."""
        return Layout(layout.parameters, (*layout.buffers, Entry(WEIGHTS, (1,), layout.buffer_size, 1)))

    @override
    def exchange(self, round: Round, after: Meeting) -> Exchanged:
        """x_i <- sum_j p_ij (x_j + change_j), w_i <- sum_j p_ij w_j, z_i <- x_i / w_i (Assran et al., Alg. 1)."""
        meeting, models = self.met(round, after), round.models
        found = Delivered.of(self, round, meeting)
        shares = 1.0 / (1.0 + np.diff(meeting.sends(self, round).tocsc().indptr))
        if round.aggregator.at_hand:
            numerators, weights = _here(round, found.received, shares)
        else:
            found, numerators, weights = self._at_peers(round, meeting, found, shares)
        _write(models, numerators, weights)
        state = {NUMERATORS: numerators, WEIGHTS: weights}
        facts = {"push_weight_least": float(weights.min())}
        return Exchanged(found.meeting, found.traffic, models, state, aggregated=found.heard, facts=facts)

    def _at_peers(
        self, round: Round, meeting: Meeting, found: Delivered, shares: np.ndarray
    ) -> tuple[Delivered, np.ndarray, np.ndarray]:
        """What gets through of what peers say, and their numerators and weights then.

        What was sent to a peer that does not tell what it made of it is its own all the same: it is made for it here.
        """
        models, known = round.models, round.context.known(meeting, round.number)
        x, w = round.state[NUMERATORS].copy(), round.state[WEIGHTS].copy()

        def keeps(i: int) -> dict[str, np.ndarray]:
            return {NUMERATORS: round.state[NUMERATORS][i], WEIGHTS: round.state[WEIGHTS][i : i + 1]}

        speaking = [
            Gathered(i, i, NOBODY, NOBODY, None, {"share": shares[i : i + 1]}, keeps(i))
            for i in found.heard.tolist()
        ]
        answers, said = round.aggregator.said(self, models, speaking, known)
        messages = Models.empty(self.message(models.layout), len(models), momentum=False)
        spoke = np.zeros(len(models), dtype=bool)
        for each, message in zip(compress(speaking, answers), said, strict=True):
            messages.write(each.own, *message)
            spoke[each.own] = True
        receiver, sender, apart = Meeting(meeting.paths, found.received).links
        there = spoke[sender]
        ways = Transfers(sender[there], receiver[there], sender[there], apart[there])
        arrived = round.aggregator.delivered(messages, ways, round.number)
        received = directed(ways.receiver[arrived], ways.sender[arrived], len(models))
        found = Delivered.of(self, replace(round, received=received), meeting)
        through = np.bincount(received.indices, minlength=len(shares)).astype(np.float64)
        truth = truth_of(round) or models
        gathered = []
        # Whoever has learnt adds it to its numerator, even where it is away by now.
        learnt = np.setdiff1d(round.context.available(round.before), round.lost)
        for i in np.union1d(learnt, np.flatnonzero(meeting.paths.present)).tolist():
            senders = received.indices[received.indptr[i] : received.indptr[i + 1]].astype(np.int64)
            told = {"share": shares[i : i + 1], "through": through[i : i + 1]}
            own = truth.rows(torch.tensor([i]))
            gathered.append(Gathered(i, i, senders, senders, None, told, keeps(i), own))
        answers, answered = round.aggregator.made(self, messages, gathered, known)
        for each, answer in zip(gathered, answers.tolist(), strict=True):
            made = next(answered) if answer else self.made(messages, each, known)
            x[each.own], w[each.own] = made.keeps[NUMERATORS], made.keeps[WEIGHTS][0]
        return found, x, w

    def said(self, models: Models, gathered: Gathered, known: KnownToHolders) -> Model:
        """A client's share of numerator and weight."""
        told = values(models.parameters[[gathered.own]], models.buffers[[gathered.own]])
        share = _share(_with_weight(gathered, told), gathered.told["share"])
        parameters, buffers = np.split(share[0].astype(np.float32), [models.layout.size])
        return torch.from_numpy(parameters), torch.from_numpy(buffers)

    @override
    def made(self, models: Models, gathered: Gathered, known: KnownToHolders) -> Made:
        """The numerator and the weight of a client that has sent shares and got these, and its model."""
        assert gathered.beside is not None
        mine = _with_weight(gathered, values(gathered.beside.parameters, gathered.beside.buffers))
        rows = torch.from_numpy(gathered.rows)
        pushed = values(models.parameters[rows], models.buffers[rows]).astype(np.float64)
        got = sparse.csr_array(np.ones((1, len(rows))))
        share, through = gathered.told["share"], gathered.told["through"]
        x, w = np.split(_exchanged(mine, _share(mine, share), through, got, pushed)[0], [-1])
        model = Models.empty(gathered.beside.layout, 1, momentum=False)
        _write(model, x[None], w)
        return Made(model.parameters[0], model.buffers[0], {NUMERATORS: x, WEIGHTS: w})

    @override
    def evaluation_models(self, models: Models, state: Arrays, context: FederationContext) -> Evaluated:
        total = state[NUMERATORS].sum(0, keepdims=True)
        mean = Models.empty(models.layout, 1, momentum=False, device=models.parameters.device)
        _write(mean, total, state[WEIGHTS].sum(keepdims=True))
        return {"own": own_models(models, mean)}


def _here(round: Round, received: sparse.csr_array, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numerators and weights of all clients after the exchange, all at once."""
    x, w = round.state[NUMERATORS], round.state[WEIGHTS]
    got = received.astype(np.float64)
    through = np.bincount(received.indices, minlength=len(shares)).astype(np.float64)
    parts = _share(w[:, None], shares)
    weights = _exchanged(w[:, None], parts, through, got, parts)[:, 0]
    numerators = np.empty_like(x)
    for columns, told, own, held in _trained(round):
        mine = _learnt(x[:, columns], w, own, held)
        kept = pushed = _share(mine, shares)
        if told is not own:  # attackers push what they say, and go on with what they have trained
            pushed = _share(_learnt(x[:, columns], w, told, held), shares)
        numerators[:, columns] = _exchanged(mine, kept, through, got, pushed)
    return numerators, weights


def _learnt(
    x: np.ndarray, w: np.ndarray, trained: np.ndarray, held: torch.dtype = torch.float32
) -> np.ndarray:
    """Numerators (float64 [clients, values]) with what training has changed in the models that they stood for, which
    were held in this type: rounding is no change."""
    begun = torch.from_numpy((x / w[:, None]).astype(np.float32)).to(held).float().numpy()
    return np.asarray(x + (trained.astype(np.float64) - begun))


def _with_weight(gathered: Gathered, trained: np.ndarray) -> np.ndarray:
    """What a client that has trained (float32 [1, values]) holds: its numerator, then its weight, [1, values + 1]."""
    weight = gathered.keeps[WEIGHTS]
    return np.concatenate([_learnt(gathered.keeps[NUMERATORS][None], weight, trained), weight[None]], axis=1)


def _share(held: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Of what clients hold (float64 [clients, values]) so large a share, as it arrives: as float32 has it, float64."""
    return np.asarray((shares[:, None] * held).astype(np.float32).astype(np.float64))


def _exchanged(
    mine: np.ndarray, kept: np.ndarray, through: np.ndarray, got: sparse.csr_array, pushed: np.ndarray
) -> np.ndarray:
    """What clients hold that each gave away a share (`kept`, by its own reckoning) so many times, and got others."""
    return np.asarray(mine - through[:, None] * kept + got @ pushed)


def _trained(round: Round) -> Iterator[tuple[slice, np.ndarray, np.ndarray, torch.dtype]]:
    """Block by block of columns: what clients say that they have trained, and what they have, float32; and the type in
    which models at rest are held."""
    models, withheld = round.models, round.withheld
    size = models.layout.size
    for matrix, first in ((models.parameters, 0), (models.buffers, size)):
        for start in range(0, matrix.shape[1], BLOCK):
            part = slice(start, min(start + BLOCK, matrix.shape[1]))
            told = matrix[:, part].cpu().numpy()
            own = told
            if withheld is not None and first == 0:
                own = told.copy()
                own[withheld.rows] = withheld.parameters[:, part].cpu().numpy()
            yield slice(first + part.start, first + part.stop), told, own, matrix.dtype


def _write(models: Models, numerators: np.ndarray, weights: np.ndarray) -> None:
    """Make each row the model of its numerator and weight."""
    size = models.layout.size
    for matrix, columns in ((models.parameters, slice(0, size)), (models.buffers, slice(size, None))):
        found = (numerators[:, columns] / weights[:, None]).astype(np.float32)
        matrix.copy_(torch.from_numpy(found))
