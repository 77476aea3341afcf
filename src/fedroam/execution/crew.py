"""The workers of a run as whoever plays its rounds sees them: where models lie, and how they get elsewhere."""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from fedroam.errors import FedroamError, InputError
from fedroam.execution.agreement import Installed, check_versions, installed, otherwise
from fedroam.execution.placement import Meetings, shares
from fedroam.execution.rows import HERE, Slots, SpreadModels
from fedroam.execution.transport import Transport, WorkersLost
from fedroam.execution.worker import Outfit, WorkerSamples
from fedroam.learning import Models
from fedroam.learning.alike import first_alike
from fedroam.learning.sums import distances, in_order

TRIES = 3  # to give workers what they need
PIECE = 64 * 2**20  # bytes of models that come here at a time


@dataclass(frozen=True)
class HeldSamples:
    """The samples of all clients, as tensors of a task, and whose they are: indices by client."""

    x: torch.Tensor
    y: torch.Tensor
    train: Sequence[np.ndarray]
    further: Sequence[Sequence[np.ndarray]]

    def of(self, clients: np.ndarray, there: np.ndarray) -> WorkerSamples:
        """Those of some clients (int64), for a worker that has samples `there` (int64, each once). The first few are
        always among them: by these an engine finds out how a network may be computed, and all workers must find the
        same."""
        own = [each[i] for each in (self.train, *self.further) for i in clients.tolist()]
        numbers = np.unique(np.concatenate([np.arange(min(FIRST, len(self.y))), *own]).astype(np.int64))
        new = np.setdiff1d(numbers, there, assume_unique=True)
        index = torch.from_numpy(new)
        x = self.x[index]
        x = x.permute(0, 2, 3, 1) if x.dim() == 4 else x
        train = {i: np.searchsorted(numbers, self.train[i]) for i in clients.tolist()}
        return WorkerSamples(numbers, new, x.contiguous().numpy(), self.y[index].numpy(), train)

    @cached_property
    def counts(self) -> np.ndarray:
        """How many each client has, int64 [clients]."""
        each = [[len(own) for own in parts] for parts in (self.train, *self.further)]
        return np.asarray(np.sum(each, axis=0), dtype=np.int64)


FIRST = 4


class Crew:
    """Workers, the models that they hold, and the clients whose samples they hold.

    place: int64 [clients], the worker of each client. there: the samples that each worker has, int64, rising. told: how
    many rows of models went which way, samples went to workers, clients changed places, and workers were replaced, by
    name. life: how often everything was begun anew. changes: how often models were changed.
    """

    def __init__(self, transport: Transport, outfit: Outfit, held: HeldSamples) -> None:
        self.transport, self.outfit, self.held = transport, outfit, held
        self.meetings = Meetings(outfit.context.clients)
        self.place = np.zeros(outfit.context.clients, np.int64)
        self.there: list[np.ndarray] = []
        self.slots: list[Slots] = []
        self.told: Counter[str] = Counter()
        self.life = self.changes = 0
        self._unanswered: list[Any] = []
        self._warned: set[str] = set()

    def start(self) -> None:
        """Reach the workers and give them what they need, if that has not been done."""
        if self.slots:
            return
        self.transport.start()
        self.place = shares(np.arange(len(self.place)), self._load(), self.transport.count)
        self._equip()

    def renew(self) -> None:
        """Replace workers that are gone; no models are anywhere afterwards."""
        self.life += 1
        self.told["renewals"] += 1
        self._unanswered = []
        self.transport.renew()
        self._equip()

    def _equip(self) -> None:
        """Give all workers what they need, also where some are lost meanwhile. Raises InputError where one is on a
        machine with other versions than this one."""
        workers = range(self.transport.count)
        for left in reversed(range(TRIES)):
            self.slots = [Slots() for _ in workers]
            self.there = [np.zeros(0, np.int64) for _ in workers]
            try:
                self._compare(workers)
                done = [each for w in workers for each in self.transport.call(w, "begin", self.outfit)]
                done += self._hand_out(workers)
                self.get(done)
                return
            except WorkersLost:
                if not left:
                    raise
                self.transport.renew()

    def _compare(self, workers: Sequence[int]) -> None:
        """Refuse workers of other versions, and warn, once of each machine, of those that may compute otherwise."""
        here = installed()
        asked = [each for w in workers for each in self.transport.call(w, "installed")]
        try:
            there: list[Installed] = self.get(asked)
        except (WorkersLost, InputError):
            raise
        except FedroamError as error:  # they know of no such question
            raise InputError(
                f"a machine of the cluster does not tell what is installed there ({error}), as other versions of "
                f"fedroam than {here.versions['fedroam']} do; allowed are the same versions on all machines"
            ) from None
        for each in there:
            check_versions(here.versions, each.versions, each.node)
        found = {node: what for node, what in otherwise(here, there).items() if node not in self._warned}
        self._warned |= found.keys()
        if found:
            told = "; ".join(f"node {node} has {what}" for node, what in sorted(found.items()))
            warnings.warn(
                f"the numbers of this run may have other last digits than those of one machine: {told}",
                stacklevel=2,
            )

    def _hand_out(self, workers: Sequence[int]) -> list[Any]:
        """Give workers the samples of their clients that they do not have."""
        done = []
        for w in workers:
            samples = self.held.of(np.flatnonzero(self.place == w), self.there[w])
            self.there[w] = samples.numbers
            self._count("samples sent from here", len(samples.new))
            done += self.transport.call(w, "hold", samples)
        return done

    def _load(self) -> np.ndarray:
        return np.asarray(np.maximum(self.outfit.context.samples, 1), dtype=np.float64)

    def settle(self, rounds_left: int) -> None:
        """Have clients change places where that is worth it (see `Meetings.better`).

        Workers that clients leave are told nothing: what they have is given up when others come, or of use should the
        same come back.
        """
        layout = self.outfit.task.layout
        # Samples that the new worker has already, because other clients hold them, too, are charged all the same; their
        # numbers, of which a worker is told all, are not.
        samples = self.held.counts * (self.held.x[:1].numel() / (layout.size + layout.buffer_size))
        model = 1.0 + self.outfit.momentum  # which is as wide, and goes along
        found = self.meetings.better(
            self.place, self._load(), samples + model, self.transport.count, rounds_left
        )
        if found is None:
            return
        changed = np.flatnonzero(found != self.place)
        self.place = found
        self.told["clients that changed places"] += len(changed)
        self.get(self._hand_out(np.unique(found[changed]).tolist()))

    # --- what is asked of them --------------------------------------------------------------------------------

    def tell(self, worker: int, method: str, *given: Any) -> None:
        """Let a worker do something that gives nothing; that it was done is made sure of by the next `get`."""
        self._unanswered += self.transport.call(worker, method, *given)

    def get(self, promised: Sequence[Any]) -> list[Any]:
        """What workers promised, made of what they had been told to do before. Raises as `Transport.get` does."""
        first, self._unanswered = self._unanswered, []
        return self.transport.get([*first, *promised])[len(first) :]

    # --- which rows are used ----------------------------------------------------------------------------------

    def use(self, holder: np.ndarray, slot: np.ndarray) -> None:
        """Rows of workers are used once more."""
        for w, own in by_worker(holder):
            if w != HERE:
                self.slots[w].use(slot[own])

    def drop(self, holder: np.ndarray, slot: np.ndarray) -> None:
        """Rows of workers are used once less."""
        for w, own in by_worker(holder):
            if w != HERE:
                self.slots[w].drop(slot[own])

    # --- how they get elsewhere -------------------------------------------------------------------------------

    def bring(self, models: SpreadModels, rows: np.ndarray, workers: np.ndarray) -> None:
        """Have rows (int64, each once) lie with these workers, where nobody else uses the same."""
        shared = np.zeros(len(rows), dtype=bool)
        for w, own in by_worker(models.holder[rows]):
            if w != HERE:
                shared[own] = self.slots[w].uses[models.slot[rows[own]]] > 1
        moving = (models.holder[rows] != workers) | shared
        some, to = rows[moving], workers[moving]
        targets = self._take(to)
        self._carry(models, some, to, targets, momentum=models.keeps)
        models.moved(some, to, targets)
        # Those that stayed may be still as well: what lies there is older.
        if models.keeps and models.still[rows].any():
            resting = rows[models.still[rows]]
            for w, own in by_worker(models.holder[resting]):
                nothing = np.zeros(0, np.int64)
                self.tell(w, "take", nothing, nothing, models.slot[resting[own]], [])
            models.still[resting] = False

    def lend(self, models: Models, rows: np.ndarray, workers: np.ndarray) -> tuple[np.ndarray, Loan]:
        """Have rows (int64) lie with these workers, to be read; their slots, and what is to be given back."""
        slots = np.zeros(len(rows), np.int64)
        there = np.zeros(len(rows), dtype=bool)
        if isinstance(models, SpreadModels):
            there = models.holder[rows] == workers
            slots[there] = models.slot[rows[there]]
        # Each row goes to a worker once.
        pairs = np.stack([rows[~there], workers[~there]], axis=1).reshape(-1, 2)
        distinct, place = np.unique(pairs, axis=0, return_inverse=True)
        targets = self._take(distinct[:, 1])
        self._carry(models, distinct[:, 0], distinct[:, 1], targets, momentum=False)
        slots[~there] = targets[place.reshape(-1)]
        return slots, Loan(self, distinct[:, 1], targets)

    def fetch(self, models: SpreadModels, rows: np.ndarray, to: Models, targets: np.ndarray) -> None:
        """Copy rows of models into rows `targets` of models that are here."""
        matrices = _matrices(to, to.momentum is not None)
        ends = np.cumsum([matrix.shape[1] for matrix in matrices])
        holder = models.holder[rows]
        for w, own in by_worker(holder):
            if w == HERE:
                assert models.here is not None
                source = torch.from_numpy(models.slot[rows[own]])
                for matrix, there in zip(
                    matrices, _matrices(models.here, to.momentum is not None), strict=True
                ):
                    matrix[torch.from_numpy(targets[own])] = there[source]
                continue
            for some in np.array_split(own, -(-len(own) * 4 * int(ends[-1]) // PIECE)):
                distinct, place = np.unique(models.slot[rows[some]], return_inverse=True)
                self._count("rows brought here", len(distinct))
                (found,) = self.get(self._give(w, [(distinct, slice(0, int(ends[-1])))], True))
                for matrix, part in zip(matrices, np.split(found, ends, axis=1), strict=False):
                    matrix.numpy()[targets[some]] = part[place]

    def store(self, models: Models, rows: np.ndarray, holder: np.ndarray, slot: np.ndarray) -> None:
        """Write what lies with workers into rows of models that are here."""
        made = SpreadModels(
            self,
            models.layout,
            holder,
            slot,
            np.zeros(len(rows), dtype=bool),
            None,
            models.momentum is not None,
        )
        self.fetch(made, np.arange(len(rows)), models, rows)

    def _take(self, workers: np.ndarray) -> np.ndarray:
        found = np.zeros(len(workers), np.int64)
        for w, own in by_worker(workers):
            found[own] = self.slots[w].take(len(own))
        return found

    def _count(self, what: str, number: int) -> None:
        self.told[what] += number

    def _give(self, worker: int, wanted: list[tuple[np.ndarray, slice]], momentum: bool) -> list[Any]:
        return self.transport.call(worker, "give", wanted, momentum, returns=len(wanted))

    def _carry(
        self, models: Models, rows: np.ndarray, to: np.ndarray, targets: np.ndarray, momentum: bool
    ) -> None:
        """Copy rows of models (int64) to rows `targets` of workers `to`, which mean nothing yet."""
        if not len(rows):
            return
        holder, slot = np.full(len(rows), HERE), rows
        here: Models | None = models
        if isinstance(models, SpreadModels):
            holder, slot, here = models.holder[rows], models.slot[rows], models.here
        width = models.layout.size * (1 + momentum) + models.layout.buffer_size
        brought: dict[int, list[tuple[np.ndarray, np.ndarray]]] = defaultdict(list)
        values: dict[int, list[Any]] = defaultdict(list)
        for source, own in by_worker(holder):
            wanted, receivers = [], []
            for w, some in by_worker(to[own]):
                mine = own[some]
                if source == w:
                    continue
                distinct, place = np.unique(slot[mine], return_inverse=True)
                if source == HERE:
                    assert here is not None
                    distinct, place = _different(here, distinct, place)
                    values[w].append(_values(here, distinct, momentum))
                    self._count("rows sent from here", len(distinct))
                else:
                    wanted.append((distinct, slice(0, width)))
                    receivers.append(w)
                    self._count("rows between workers", len(distinct))
                brought[w].append((place, targets[mine]))
            if wanted:
                for w, value in zip(receivers, self._give(source, wanted, momentum), strict=True):
                    values[w].append(value)
        nothing = np.zeros(0, np.int64)
        for w, own in by_worker(to):
            copied = own[holder[own] == w]
            self.tell(w, "take", slot[copied], targets[copied], nothing, brought[w], *values[w])

    # --- what is found of all ---------------------------------------------------------------------------------

    def column_sums(self, models: SpreadModels) -> torch.Tensor:
        """Sum of the rows' parameters and buffers in row order, float64: each worker adds up some of the columns."""
        width, workers = models.layout.size + models.layout.buffer_size, self.transport.count
        pieces = max(workers, -(-len(models) * width * 4 // (4 * PIECE)))
        bounds = np.linspace(0, width, pieces + 1).astype(int)
        groups = list(by_worker(models.holder))
        order = np.argsort(np.concatenate([own for _, own in groups]), kind="stable")
        found: list[Any] = []
        for first in range(0, pieces, workers):  # so many at a time as there are workers
            some = [slice(*bounds[k : k + 2]) for k in range(first, min(first + workers, pieces))]
            given: list[list[Any]] = []
            for w, own in groups:
                if w == HERE:
                    assert models.here is not None
                    whole = _values(models.here, models.slot[own], momentum=False)
                    given.append([whole[:, columns] for columns in some])
                else:
                    given.append(self._give(w, [(models.slot[own], columns) for columns in some], False))
            for w in range(len(some)):
                found += self.transport.call(w, "sums", order, *(each[w] for each in given))
            self.get(found[-1:])  # or all pieces would lie about at once
        self._count("rows summed up", len(models))
        return torch.from_numpy(np.concatenate(self.get(found)))

    def consensus_distance(self, models: SpreadModels) -> float:
        """As the function of this name."""
        mean = (models.column_sums() / len(models))[: models.layout.size]
        parts: list[np.ndarray] = [np.zeros(0)] * len(models)
        promised = []
        for w, own in by_worker(models.holder):
            if w == HERE:
                assert models.here is not None
                rows = models.here.parameters[torch.from_numpy(models.slot[own])]
                for i, part in zip(own.tolist(), distances(rows, mean), strict=True):
                    parts[i] = part
            else:
                promised.append((own, self.transport.call(w, "distances", models.slot[own], mean.numpy())))
        for own, (promise,) in promised:
            for i, part in zip(own.tolist(), self.get([promise])[0], strict=True):
                parts[i] = part
        return in_order(np.stack(parts))


@dataclass
class Loan:
    """Rows that workers were lent."""

    crew: Crew
    holder: np.ndarray
    slot: np.ndarray

    def back(self) -> None:
        """Nobody needs them any more."""
        self.crew.drop(self.holder, self.slot)


def by_worker(workers: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """The places (int64) of each worker among these, workers in order."""
    order = np.argsort(workers, kind="stable")
    names, begins = np.unique(workers[order], return_index=True)
    return list(zip(names.tolist(), np.split(order, begins[1:]), strict=True)) if len(names) else []


def _matrices(models: Models, momentum: bool) -> list[torch.Tensor]:
    found = [models.parameters, models.buffers]
    if momentum:
        assert models.momentum is not None
        found.append(models.momentum)
    return found


def _values(models: Models, rows: np.ndarray, momentum: bool) -> np.ndarray:
    """Rows of models that are here, as `Worker.give` gives them."""
    return np.concatenate([matrix.numpy()[rows] for matrix in _matrices(models, momentum)], axis=1)


def _different(models: Models, rows: np.ndarray, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of rows those that differ, bit for bit, and where each of `place` is among them: what all clients were given is
    sent once."""
    kept, found = np.unique(first_alike(models, rows, momentum=True), return_inverse=True)
    return rows[kept], found[place]
