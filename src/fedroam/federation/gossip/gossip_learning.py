"""Gossip learning: each client sends its model to one random peer, which merges it with its own by their ages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import compress
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import torch
from pydantic import model_validator
from scipy import sparse
from typing_extensions import override

from fedroam.components import field, register
from fedroam.contacts import pairs_of
from fedroam.federation.aggregating import values
from fedroam.federation.decentralized import Decentralized
from fedroam.federation.gossip.delivered import Delivered, directed, drawn_each, first_opens
from fedroam.federation.holders import Gathered, KnownToHolders, Made, Model, Transfers
from fedroam.federation.protocol import (
    NOBODY,
    Arrays,
    Distributed,
    Exchanged,
    FederationContext,
    InitialState,
    Meeting,
    Round,
    Start,
)
from fedroam.learning import Jobs, Layout, Learner, Models, clients_of, some_of
from fedroam.learning.layout import Entry
from fedroam.learning.training import sample_passes
from fedroam.randomness import stream

# State, [clients] each: int64, how old models are, and by how many samples the training of a round ages them; bool, who
# has got a model that it has not trained yet; and the models that were got last, float32 [clients, parameters and
# buffers], with their ages, int64, NONE before the first. Within a round, int64: the row of the model that was got and
# is trained beside the client's own, or NONE.
AGES, WORK, FRESH, LAST, LAST_AGES = "model_ages", "samples_a_round", "fresh", "last_models", "last_ages"
SECOND = "second_row"
NONE = -1
ONE_PEER = 1
NUMBER = 4  # bytes of the age, a float32, that travels with a model


class Aged(NamedTuple):
    """A model, float32 [parameters and buffers], and its age, samples."""

    values: np.ndarray
    age: int


@register(
    "federation",
    "gossip_learning",
    source="Ormándi et al., CCPE 2013, arXiv:1109.1396 (RW, MU, UM); Hegedűs et al., JPDC 2021; read in the authors' "
    "code, github.com/ormandi/Gossip-Learning-Framework",
)
class GossipLearning(Decentralized):
    """Gossip learning: in each round every client sends its model, with its age, to one random peer in contact; whoever
    gets a model merges it with its own, and trains what comes of it in the next round.

    A model's age t is the number of samples that it has been trained on, each as often as it was in a batch. By
    `merge = "age"` (JPDC 2021) the client's model w, t and the one it got are merged to
    w <- (t w + t_got w_got) / (t + t_got), t <- max(t, t_got); of two models of age 0 its own stays, as in the authors'
    code. By "average" (MU, CCPE 2013) to (w + w_got) / 2, of the same age. By "none" the model that was got takes the
    place of the client's (RW): models walk from peer to peer. In CCPE 2013 a model is merged with the one that was got
    before it, as both came, and what comes of it takes the place of the client's own (`partner = "last"`; the first one
    is merged with the client's own).

    A client that gets several models in a round merges them one after the other, in the order in which they arrive;
    those that arrive together, in an order drawn anew. Without seconds they arrive as the contacts open. A round trains
    each client's model once, however many it got. In the papers only a model that was got is trained
    (`trains = "on_receipt"`: who has got none since its last training does not train, and nobody does in the first
    round). With `create = "update_merge"` (UM, CCPE 2013) a model that was got is trained at its receiver before it is
    merged: in the next round the client trains its own model and, beside it, the one that it got last (of several the
    others count for nothing), merges the two, and sends what comes of it. That is twice the work.

    Who is away keeps its model and its age; who comes for the first time begins with its start model, of age 0, which
    counts for nothing in a merge by age. Training that is broken off adds nothing to an age. The mean of all models
    does not stay in a merge. An attacker says its true age. Ages travel as float32: whole up to 2^24, above that
    rounded. Mixing rules have no say.

    It adds a column to the table of rounds: `model_age`, the mean age of all clients' models, in samples.
    """

    columns: ClassVar[tuple[str, ...]] = ("model_age",)

    merge: Literal["age", "average", "none"] = field(
        "age", "how two models are merged: weighted by their ages, both alike, or the one that was got stays"
    )
    partner: Literal["own", "last"] = field(
        "own", "what a model is merged with: the client's own, or the one that it got before"
    )
    trains: Literal["each_round", "on_receipt"] = field(
        "each_round", "when a client trains: in each round, or once after it has got a model"
    )
    create: Literal["merge_update", "update_merge"] = field(
        "merge_update",
        "whether a client trains what comes of the merge (MU), or both models before it (UM)",
        later=True,
    )

    @model_validator(mode="after")
    def _of_its_merge(self) -> GossipLearning:
        for name, value, default in (
            ("partner", self.partner, "own"),
            ("create", self.create, "merge_update"),
        ):
            if self.merge == "none" and value != default:
                raise ValueError(f'{name} = "{value}" has no meaning with merge = "none": leave it out')
        return self

    @property
    def _keeps_last(self) -> bool:
        """Whether clients keep the models that they got last."""
        return self.partner == "last" or self.create == "update_merge"

    @property
    def _keeps_fresh(self) -> bool:
        """Whether it matters who has got a model that it has not trained yet."""
        return self.trains == "on_receipt" or self.create == "update_merge"

    @override
    def init(self, context: FederationContext, start: Start, learner: Learner) -> InitialState:
        models, clients = start(range(context.clients)), context.clients
        held, own = np.unique(context.samples, return_inverse=True)
        work = np.array([sample_passes(context.task.training, each) for each in held.tolist()], np.int64)
        state = {AGES: np.zeros(clients, np.int64), WORK: work[own]}
        if self._keeps_fresh:
            state[FRESH] = np.zeros(clients, bool)
        if self._keeps_last:
            width = models.layout.size + models.layout.buffer_size
            state |= {LAST: np.zeros((clients, width), np.float32), LAST_AGES: np.full(clients, NONE)}
        return InitialState(models, state)

    @override
    def distribute(self, round: Round) -> Distributed:
        """Everybody who is present and holds samples trains its model, or those of them who have got one; under UM also
        the one that it has got."""
        given, context = super().distribute(round), round.context
        if self._keeps_fresh:
            fresh = round.state[FRESH][clients_of(given.jobs)]
            waiting = clients_of(given.jobs)[fresh]
        if self.trains == "on_receipt":
            given = replace(given, jobs=some_of(given.jobs, fresh))
        if self.create == "merge_update":
            return given
        own, second = clients_of(given.jobs), context.clients + np.arange(len(waiting))
        models = given.models.copied(waiting, 2 * context.clients)
        if len(waiting):
            for row, model in zip(second.tolist(), round.state[LAST][waiting], strict=True):
                parameters, buffers = np.split(model, [models.layout.size])
                models.write(row, torch.from_numpy(parameters), torch.from_numpy(buffers))
        rows = np.full(context.clients, NONE)
        rows[waiting] = second
        jobs = Jobs(
            np.append(own, waiting), np.append(own, second), context.train, context.samples, round.number
        )
        return replace(given, jobs=jobs, models=models, state={**given.state, SECOND: rows})

    def sends(self, round: Round, meeting: Meeting) -> sparse.csr_array:
        """A model and its age to one peer in contact, drawn anew in each round."""
        drawn = drawn_each("gossip", round, meeting, ONE_PEER)
        return drawn.astype(np.int64) * (round.models.bytes_each + NUMBER)

    def message(self, layout: Layout) -> Layout:
        """A model, and as one more buffer its age."""
        return Layout(layout.parameters, (*layout.buffers, Entry(AGES, (1,), layout.buffer_size, 1)))

    @override
    def exchange(self, round: Round, after: Meeting) -> Exchanged:
        """w_i, t_i <- merge((w_i, t_i), (w_j, t_j)) for each model that client i got, as they arrived."""
        meeting, models, clients = self.met(round, after), round.models, round.context.clients
        state = {name: array for name, array in round.state.items() if name != SECOND}
        learnt = self._learnt(round)
        second = np.full(clients, NONE)
        if self.create == "update_merge":
            second[learnt] = round.state[SECOND][learnt]
        work = np.zeros_like(state[WORK])
        work[learnt] = state[WORK][learnt]
        known = round.context.known(meeting, round.number)
        found = Delivered.of(self, round, meeting)
        # Peers keep their ages themselves; and who has trained two models merges them.
        further = np.flatnonzero(second != NONE) if round.aggregator.at_hand else learnt
        speaking = np.union1d(np.union1d(found.heard, _receivers(found)), further)
        messages = Models.empty(self.message(models.layout), clients, momentum=False)
        spoke = np.zeros(clients, dtype=bool)
        gathered = [
            self._gathered(state, i, NOBODY, work, _rows(models, second[i : i + 1]))
            for i in speaking.tolist()
        ]
        answers, said = round.aggregator.said(self, models, gathered, known)
        for each, message in zip(compress(gathered, answers), said, strict=True):
            messages.write(each.own, *message)
            spoke[each.own] = True
        if round.withheld is not None:  # attackers say something else, and go on with what they have trained
            rows = torch.from_numpy(round.withheld.rows).to(models.parameters.device)
            models.parameters[rows] = round.withheld.parameters
        found = self._carried(round, meeting, found, messages, spoke)
        merging = np.union1d(_receivers(found), further)
        rows_of = dict(self._in_order(round, after, found))
        gathered = [
            self._gathered(state, i, rows_of.get(i, NOBODY), work, _rows(models, np.array([i, second[i]])))
            for i in merging.tolist()
        ]
        answers, made = round.aggregator.made(self, messages, gathered, known)
        new = dict(state) | {name: state[name].copy() for name in self._kept()}
        new[AGES] += work
        got = np.zeros(clients, dtype=bool)
        for each, answer in zip(compress(gathered, answers), made, strict=True):
            models.write(each.own, answer.parameters, answer.buffers)
            for name, kept in answer.keeps.items():
                new[name][each.own] = kept[0]
            got[each.own] = len(each.rows) > 0
        if self._keeps_fresh:
            waits = state[FRESH].copy()
            waits[learnt] = False
            new[FRESH] = waits | got
        if len(models) > clients:
            models = models.kept(np.arange(clients))
        facts = {"model_age": float(new[AGES].mean())}
        return Exchanged(found.meeting, found.traffic, models, new, aggregated=found.heard, facts=facts)

    def _learnt(self, round: Round) -> np.ndarray:
        """The clients (int64) whose models have been trained in this round."""
        without = np.concatenate([round.lost, round.training, round.dropped])
        learnt = np.setdiff1d(round.context.available(round.before), without)
        return learnt if self.trains == "each_round" else learnt[round.state[FRESH][learnt]]

    def _kept(self) -> tuple[str, ...]:
        """What of the state a client keeps beside its model."""
        return (AGES, LAST, LAST_AGES) if self._keeps_last else (AGES,)

    def _gathered(
        self, state: Arrays, client: int, rows: np.ndarray, work: np.ndarray, beside: Models | None
    ) -> Gathered:
        """What has reached a client, with what it keeps, by how much this round has aged its models, and which it has
        beside those."""
        keeps = {name: state[name][client : client + 1] for name in self._kept()}
        told = {"learnt": work[client : client + 1]}
        return Gathered(client, client, rows, rows, None, told, keeps, beside)

    def _carried(
        self, round: Round, meeting: Meeting, found: Delivered, messages: Models, spoke: np.ndarray
    ) -> Delivered:
        """What of it gets through."""
        receiver, sender, apart = Meeting(meeting.paths, found.received).links
        there = spoke[sender]
        ways = Transfers(sender[there], receiver[there], sender[there], apart[there])
        arrived = round.aggregator.delivered(messages, ways, round.number)
        if there.all() and arrived.all():
            return found
        received = directed(ways.receiver[arrived], ways.sender[arrived], len(spoke))
        return Delivered.of(self, replace(round, received=received), meeting)

    def _in_order(self, round: Round, after: Meeting, found: Delivered) -> Iterator[tuple[int, np.ndarray]]:
        """Each client that got anything, and from whom (int64), in the order in which it arrived."""
        received, clients = found.received, round.context.clients
        receiver = np.repeat(np.arange(clients), np.diff(received.indptr))
        sender = received.indices.astype(np.int64)
        if round.received is not None and round.received_at is not None:
            to, of = (ends.astype(np.int64) for ends in round.received.nonzero())
            place = np.searchsorted(to * clients + of, receiver * clients + sender)
            when = round.received_at[place]
        else:
            pairs = pairs_of(found.meeting.graph).astype(np.int64)
            opens = first_opens(pairs, self.meeting_of(round, after).paths, round.context.reach)
            low, high = np.minimum(receiver, sender), np.maximum(receiver, sender)
            when = opens[np.searchsorted(pairs[:, 0] * clients + pairs[:, 1], low * clients + high)]
        for i in _receivers(found).tolist():
            own = slice(*received.indptr[i : i + 2].tolist())
            order = np.zeros(1, np.int64)
            if (several := own.stop - own.start) > 1:
                draws = stream(round.context.seed, "order of arrival", round.number, i)
                order = draws.permutation(several)
            yield i, sender[own][order[np.argsort(when[own][order], kind="stable")]]

    def said(self, models: Models, gathered: Gathered, known: KnownToHolders) -> Model:
        """A client's model, as it is after the training of the round, and its age."""
        own = values(models.parameters[gathered.own], models.buffers[gathered.own])
        created = self._created(own, gathered, gathered.beside, 0)
        parameters, buffers = np.split(created.values, [models.layout.size])
        age = np.array([created.age], np.float32)
        return torch.from_numpy(parameters), torch.from_numpy(np.append(buffers, age))

    @override
    def made(self, models: Models, gathered: Gathered, known: KnownToHolders) -> Made:
        """What a client makes of its own model and of those that it got, in this order."""
        beside, keeps = gathered.beside, dict(gathered.keeps)
        assert beside is not None
        own = self._created(values(beside.parameters[0], beside.buffers[0]), gathered, beside, 1)
        last = None
        if self._keeps_last and keeps[LAST_AGES][0] != NONE:
            last = Aged(keeps[LAST][0], int(keeps[LAST_AGES][0]))
        rows = torch.from_numpy(gathered.rows)
        for message in values(models.parameters[rows], models.buffers[rows]):
            got = Aged(message[:-1], int(message[-1]))
            if self.partner == "last" and last is not None:
                own = last
            if self.create == "merge_update":
                own = self.merged(own, got)
            last = got
        keeps[AGES] = np.array([own.age])
        if self._keeps_last and last is not None:
            keeps |= {LAST: last.values[None].copy(), LAST_AGES: np.array([last.age])}
        parameters, buffers = np.split(own.values, [beside.layout.size])
        return Made(torch.from_numpy(parameters), torch.from_numpy(buffers), keeps)

    def _created(self, own: np.ndarray, gathered: Gathered, trained: Models | None, second: int) -> Aged:
        """A client's model (float32 [values]) after the training of the round: merged with the one that it got and has
        trained beside it, if there is one in that row of these."""
        learnt = int(gathered.told["learnt"][0])
        found = Aged(own, int(gathered.keeps[AGES][0]) + learnt)
        if trained is None or len(trained) <= second:
            return found
        got = values(trained.parameters[second], trained.buffers[second])
        return self.merged(found, Aged(got, int(gathered.keeps[LAST_AGES][0]) + learnt))

    def merged(self, own: Aged, got: Aged) -> Aged:
        """Two models as one, reckoned in float64: each value lies between theirs."""
        if self.merge == "none":
            return got
        # In the authors' code: `MergeableLogReg.merge` (by ages; where both are 0 it returns itself), and `PegasosMU`,
        # which halves the sum of the last two models that came, and takes the higher age.
        total = own.age + got.age
        share = 0.5 if self.merge == "average" else got.age / total if total else 0.0
        found = (1.0 - share) * own.values.astype(np.float64) + share * got.values.astype(np.float64)
        return Aged(found.astype(np.float32), max(own.age, got.age))


def _receivers(found: Delivered) -> np.ndarray:
    """The clients (int64, ascending) that got anything."""
    return np.flatnonzero(np.diff(found.received.indptr))


def _rows(models: Models, rows: np.ndarray) -> Models | None:
    """Those of these rows (int64) that there are; None for none."""
    some = rows[rows != NONE]
    return models.rows(torch.from_numpy(some).to(models.device)) if len(some) else None
