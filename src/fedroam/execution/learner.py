"""Learning and aggregation by workers, each with the models and samples of its clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy import sparse
from typing_extensions import override

from fedroam.execution.crew import Crew, by_worker
from fedroam.execution.rows import HERE, SpreadModels
from fedroam.execution.worker import Tested, Work
from fedroam.federation import (
    AggregatesAtHolders,
    Aggregator,
    AtHand,
    Gathered,
    KnownToHolders,
    Made,
    Transfers,
)
from fedroam.learning import Evaluates, Held, Job, Learner, Models, Scores, clients_of
from fedroam.learning.engine import Indices, Rows
from fedroam.learning.exchange import changes

# Ask a worker something of models there: its number, their slots, and which of all that were asked for they are.
Ask = Callable[[int, np.ndarray, np.ndarray], list[Any]]


class SpreadLearner(Evaluates, Learner):
    """A learner whose clients are spread over workers.

    here: an engine of this process, for models that stand for all. test: the samples that all share; None where each
    client has its own.
    """

    def __init__(self, crew: Crew, here: Learner, test: torch.Tensor | None, rounds: int) -> None:
        self.crew, self.here, self.rounds = crew, here, rounds
        self.task, self.notes = here.task, (*crew.transport.notes, *here.notes)
        self._test = test

    @override
    def open(self) -> None:
        self.crew.start()
        self.notes = (*self.crew.transport.notes, *self.here.notes)

    @override
    def renew(self) -> None:
        self.crew.renew()

    @override
    def close(self) -> None:
        self.crew.transport.close()
        self.here.close()

    @override
    def begin_round(self, number: int) -> None:
        self.crew.start()
        self.crew.settle(self.rounds - number + 1)

    @override
    def told(self) -> dict[str, int]:
        return dict(self.crew.told)

    # --- training ---------------------------------------------------------------------------------------------

    @override
    def train(self, models: Models, jobs: Sequence[Job]) -> np.ndarray:
        losses = np.full(len(jobs), np.nan)
        if not jobs:
            return losses
        self.crew.start()
        rows = np.array([job.row for job in jobs], dtype=np.int64)
        workers = self.crew.place[clients_of(jobs)]
        if isinstance(models, SpreadModels):
            self.crew.bring(models, rows, workers)
            self._train(jobs, models.slot[rows], workers, losses)
            return losses
        spread = SpreadModels.of(self.crew, models, rows)  # models of the federation's own, which stay here
        places = np.arange(len(rows))
        self.crew.bring(spread, places, workers)
        self._train(jobs, spread.slot, workers, losses)
        self.crew.fetch(spread, places, models, rows)
        return losses

    def _train(self, jobs: Sequence[Job], slots: np.ndarray, workers: np.ndarray, losses: np.ndarray) -> None:
        asked = []
        self.crew.changes += 1
        for w, own in by_worker(workers):
            work = self._work([jobs[k] for k in own.tolist()], slots[own])
            asked.append((own, self.crew.transport.call(w, "train", work)))
        for own, promise in asked:
            losses[own] = self.crew.get(promise)[0]

    def _work(self, jobs: Sequence[Job], slots: np.ndarray) -> Work:
        work = Work(clients_of(jobs), slots, np.array([job.round for job in jobs], dtype=np.int64))
        known: dict[int, int] = {}  # of tensors, by identity

        def place(tensor: torch.Tensor | None) -> int:
            if tensor is None:
                return -1
            if id(tensor) not in known:
                known[id(tensor)] = len(work.tensors)
                work.tensors.append(tensor.numpy())
            return known[id(tensor)]

        for k, job in enumerate(jobs):
            if job.samples is not self.crew.held.train[job.client]:
                work.samples[k] = job.samples
            if job.anchor is not None:
                work.pull[k] = (job.anchor.pull, place(job.anchor.target), place(job.anchor.shift))
            if job.given:
                work.given[k] = {name: place(value) for name, value in job.given.items()}
            if job.each:
                work.each[k] = {name: place(value) for name, value in job.each.items()}
        return work

    # --- evaluation -------------------------------------------------------------------------------------------

    @override
    def evaluate(
        self, models: Models, rows: Rows, x: torch.Tensor, y: torch.Tensor, parts: Indices | None = None
    ) -> Scores:
        index = np.asarray(rows, dtype=np.int64)
        if x is not self._test or len(np.unique(index)) < 2:
            near, place = models.at_hand(index)
            return self.here.evaluate(near, place.tolist(), x, y, parts)
        self.crew.start()
        even = np.arange(len(index)) * self.crew.transport.count // len(index)
        workers = even
        if isinstance(models, SpreadModels):
            workers = np.where(models.holder[index] == HERE, even, models.holder[index])
        one = parts is not None and all(part is parts[0] for part in parts)

        def ask(w: int, slots: np.ndarray, own: np.ndarray) -> list[Any]:
            some = None if parts is None else [parts[0]] if one else [parts[k] for k in own.tolist()]
            return self.crew.transport.call(w, "test", slots, some)

        return self._scores(models, index, workers, ask)

    @override
    def judge(self, models: Models, rows: Rows, held: Sequence[Held]) -> Scores:
        index = np.asarray(rows, dtype=np.int64)
        return self._scores(models, index, self._whose(held), self._of_samples("judge", held))

    @override
    def represent(self, models: Models, rows: Rows, held: Sequence[Held]) -> list[torch.Tensor]:
        index = np.asarray(rows, dtype=np.int64)
        found = [torch.empty(0)] * len(index)
        ask = self._of_samples("features", held)
        for own, features in self._asked(models, index, self._whose(held), ask):
            for k, each in zip(own.tolist(), features, strict=True):
                found[k] = torch.from_numpy(np.array(each))
        return found

    @override
    def features(self, models: Models, rows: Rows, parts: Indices) -> list[torch.Tensor]:
        near, place = models.at_hand(np.asarray(rows, dtype=np.int64))
        return self.here.features(near, place.tolist(), parts)

    def _whose(self, held: Sequence[Held]) -> np.ndarray:
        self.crew.start()
        return self.crew.place[np.array([own.client for own in held], dtype=np.int64)]

    def _of_samples(self, what: str, held: Sequence[Held]) -> Ask:
        """Ask of each model what it makes of the samples of its own client."""

        def ask(w: int, slots: np.ndarray, own: np.ndarray) -> list[Any]:
            return self.crew.transport.call(w, what, slots, [held[k].samples for k in own.tolist()])

        return ask

    def _scores(self, models: Models, rows: np.ndarray, workers: np.ndarray, ask: Ask) -> Scores:
        answers: list[tuple[np.ndarray, Tested]] = list(self._asked(models, rows, workers, ask))
        classes = max((tested.counts.shape[2] for _, tested in answers), default=1)
        counts, loss = np.zeros((3, len(rows), classes), np.int64), np.full(len(rows), np.nan)
        for own, tested in answers:
            # Without any sample, a worker has seen no classes.
            counts[:, own, : tested.counts.shape[2]] = tested.counts
            loss[own] = tested.loss
        return Scores(counts[0], counts[1], counts[2], loss)

    def _asked(
        self, models: Models, rows: np.ndarray, workers: np.ndarray, ask: Ask
    ) -> Iterator[tuple[np.ndarray, Any]]:
        """Lend each worker the rows that it is to look at, ask it about them, and give what it answers."""
        slots, loan = self.crew.lend(models, rows, workers)
        asked = [(own, ask(w, slots[own], own)) for w, own in by_worker(workers)]
        loan.back()
        for own, promise in asked:
            yield own, self.crew.get(promise)[0]


class SpreadAggregator(Aggregator):
    """An aggregator whose holders are spread over workers: each makes its own of the models that it needs."""

    at_hand = True

    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self._here = AtHand()

    @override
    def delivered(self, models: Models, transfers: Transfers, round: int) -> np.ndarray:
        return self._here.delivered(models, transfers, round)

    @override
    def mix(self, models: Models, weights: sparse.csr_array, round: int) -> None:
        changed, own = changes(weights)
        if not len(changed):
            return
        needed = np.unique(own.indices)
        if not isinstance(models, SpreadModels) or (models.holder[needed] == HERE).any():
            self._here.mix(models, weights, round)
            return
        crew = self.crew
        crew.changes += 1
        # In the order of a worker's rows, each where nobody else has it.
        crew.bring(models, changed, models.holder[changed])
        holder, slot = models.holder[changed], models.slot[changed]
        prepared = []
        for w, some in by_worker(holder):
            some = some[np.argsort(slot[some])]
            theirs = sparse.csr_array(own[some])
            read, place = np.unique(theirs.indices, return_inverse=True)
            prepared.append((w, slot[some], theirs, read.astype(np.int64), place))
        lent = [crew.lend(models, read, np.full(len(read), w)) for w, _, _, read, _ in prepared]
        for (w, to, theirs, _, place), (slots, _) in zip(prepared, lent, strict=True):
            crew.tell(w, "mix", to, theirs.data, slots[place], theirs.indptr)
        for _, loan in lent:
            loan.back()
        if len(models) == crew.meetings.clients:
            receiver = np.repeat(changed, np.diff(own.indptr))
            crew.meetings.note(receiver, own.indices.astype(np.int64))

    @override
    def made(
        self,
        rule: AggregatesAtHolders,
        models: Models,
        gathered: Sequence[Gathered],
        known: KnownToHolders,
    ) -> tuple[np.ndarray, Iterator[Made]]:
        return self._here.made(rule, models, gathered, known)

    @override
    def replace(
        self,
        rule: AggregatesAtHolders,
        models: Models,
        gathered: Sequence[Gathered],
        into: Sequence[int],
        known: KnownToHolders,
    ) -> np.ndarray:
        needed = np.concatenate(
            [np.zeros(0, np.int64), *([*each.rows, each.own] for each in gathered)]
        ).astype(int)
        if not isinstance(models, SpreadModels) or (models.holder[needed] == HERE).all():
            return super().replace(rule, models, gathered, into, known)
        crew = self.crew
        crew.changes += 1
        at = np.array([self._where(models, each) for each in gathered], dtype=np.int64)
        targets = np.asarray(into, dtype=np.int64)
        crew.bring(models, targets, at)
        facts = known.facts if known.facts.declared else replace(known.facts, around=None)
        lent = []
        for w, some in by_worker(at):
            theirs = [gathered[k] for k in some.tolist()]
            rows = np.unique(np.concatenate([np.append(each.rows, each.own) for each in theirs]))
            slots, loan = crew.lend(models, rows, np.full(len(rows), w))
            renumbered = [
                replace(
                    each,
                    own=int(slots[np.searchsorted(rows, each.own)]),
                    rows=slots[np.searchsorted(rows, each.rows)],
                )
                for each in theirs
            ]
            lent.append((w, renumbered, models.slot[targets[some]].tolist(), loan))
        for w, renumbered, slots, loan in lent:
            crew.tell(w, "make", renumbered, slots, facts, known.round)
            loan.back()
        self._note(gathered)
        return np.ones(len(gathered), dtype=bool)

    def _where(self, models: SpreadModels, gathered: Gathered) -> int:
        """The worker that makes it: a client's own, or the one that has most of the models."""
        if gathered.holder >= 0:
            return int(self.crew.place[gathered.holder])
        holder = models.holder[np.append(gathered.rows, gathered.own)]
        there = holder[holder != HERE]
        return int(np.bincount(there).argmax()) if len(there) else 0

    def _note(self, gathered: Sequence[Gathered]) -> None:
        """Who met whom: whoever aggregates, and those who send to the same access point."""
        pairs: list[np.ndarray] = [np.zeros((0, 2), np.int64)]
        for each in gathered:
            clients = each.holders[each.holders >= 0]
            first = each.holder if each.holder >= 0 else (clients[0] if len(clients) else -1)
            if first >= 0:
                pairs.append(np.stack([np.full(len(clients), first), clients], axis=1))
        receiver, sender = np.concatenate(pairs).T
        self.crew.meetings.note(receiver[receiver != sender], sender[receiver != sender])
