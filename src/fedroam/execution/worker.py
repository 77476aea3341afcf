"""A worker of a run: it keeps models and samples of its clients, and computes what it is told with them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from scipy import sparse

from fedroam.components import Part
from fedroam.errors import FedroamError
from fedroam.execution.agreement import Installed, installed
from fedroam.execution.loading import load_parts
from fedroam.federation import AggregatesAtHolders, FederationContext, Gathered, KnownToHolders
from fedroam.learning import Anchor, Engine, Job, Learner, Models, Task, to_tensors
from fedroam.learning.capacity import with_capacity
from fedroam.learning.cpu.workers import shared_workers
from fedroam.learning.exchange import mix_rows
from fedroam.learning.sums import column_sums, distances
from fedroam.mixing import Facts

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Outfit:
    """What every worker needs of a run, besides samples.

    task: without samples. context: without samples, too, and without its task. threads: by which its engine computes,
    and what is done to all models together. test: samples that all share and their classes, as arrays hold them.
    """

    task: Task
    context: FederationContext
    rule: object
    engine: Part
    threads: int
    momentum: bool
    test: tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class WorkerSamples:
    """The samples that a worker holds from now on.

    numbers: theirs in the run, int64, rising. new: those of them (int64, rising) that it lacks, which x and y are, as
    arrays hold them. train: the training samples of each of its clients, int64, places among `numbers`.
    """

    numbers: np.ndarray
    new: np.ndarray
    x: np.ndarray
    y: np.ndarray
    train: Mapping[int, np.ndarray]

    def complete(self, before: WorkerSamples | None) -> WorkerSamples:
        """With all samples, where it had those of `before`: in the order of their numbers, as if all were new."""
        if before is None or len(self.new) == len(self.numbers):
            return self
        old = np.isin(self.numbers, self.new, assume_unique=True, invert=True)
        there = np.searchsorted(before.numbers, self.numbers[old])
        found = []
        for given, had in ((self.x, before.x), (self.y, before.y)):
            whole = np.empty((len(self.numbers), *given.shape[1:]), dtype=given.dtype)
            whole[~old], whole[old] = given, had[there]
            found.append(whole)
        return WorkerSamples(self.numbers, self.numbers, found[0], found[1], self.train)


@dataclass
class Work:
    """Jobs for one worker. Arrays [jobs], but: tensors, what objectives are handed, each once.

    samples: of those that do not train on all of a client's training samples. pull, and target, shift, given and each:
    places among the tensors; -1, and absent, for none.
    """

    client: np.ndarray
    slot: np.ndarray
    round: np.ndarray
    samples: dict[int, np.ndarray] = field(default_factory=dict)
    pull: dict[int, tuple[float, int, int]] = field(default_factory=dict)
    given: dict[int, dict[str, int]] = field(default_factory=dict)
    each: dict[int, dict[str, int]] = field(default_factory=dict)
    tensors: list[np.ndarray] = field(default_factory=list)


@dataclass(frozen=True)
class Tested:
    """How models did: as `Scores`, counts in one array [3, rows, classes]."""

    counts: np.ndarray
    loss: np.ndarray


class Worker:
    """One of those that a run is spread over. Called by one at a time.

    Rows of its matrix are named by whoever asks (`Crew`); their values mean something once they have been written.
    """

    def __init__(self, sources: Sequence[tuple[str, str]] = (), modules: Sequence[str] = ()) -> None:
        load_parts(sources, modules)
        torch.set_num_threads(1)
        self._outfit: Outfit | None = None
        self._samples: WorkerSamples | None = None
        self._learner: Learner | None = None
        self._models: Models | None = None
        self._test: tuple[torch.Tensor, torch.Tensor] | None = None

    def here(self) -> int:
        """That it is there: its process."""
        return os.getpid()

    def node(self) -> str:
        """The node of the cluster that it is on."""
        import ray

        return str(ray.get_runtime_context().get_node_id())

    def installed(self) -> Installed:
        """What is installed where it is."""
        return installed()

    def begin(self, outfit: Outfit) -> None:
        """Get ready for a run; nothing of an earlier one stays."""
        self.end()
        self._outfit = outfit
        # They would be as many as torch has threads, which is one.
        shared_workers().resize(outfit.threads)
        self._test = to_tensors(*outfit.test, torch.device("cpu"))

    def end(self) -> None:
        """Give up everything."""
        if self._learner is not None:
            self._learner.close()
        self._learner = self._models = self._samples = self._outfit = None

    def hold(self, samples: WorkerSamples) -> None:
        """From now on these are its clients' samples; what it had of them since it began, it is not sent again."""
        outfit = self._known
        if self._learner is not None:
            self._learner.close()
            self._learner = None  # and with it a copy of the samples that it had
        samples = samples.complete(self._samples)
        x, y = to_tensors(samples.x, samples.y, torch.device("cpu"))
        engine = outfit.engine
        if "workers" in type(engine).model_fields:
            engine = engine.model_copy(update={"workers": outfit.threads})
        assert isinstance(engine, Engine)  # the registry has seen to it
        self._samples = samples
        self._learner = engine.build(replace(outfit.task, x=x, y=y))

    # --- models -----------------------------------------------------------------------------------------------

    def take(
        self,
        sources: np.ndarray,
        targets: np.ndarray,
        still: np.ndarray,
        brought: Sequence[tuple[np.ndarray, np.ndarray]],
        *values: np.ndarray,
    ) -> None:
        """Copy rows `sources` to rows `targets`, and of each of `values` (as `give` gives them) rows brought[k][0] to
        rows brought[k][1]; then the momentum of rows `still` becomes zero. All int64."""
        most = max([int(each.max(initial=-1)) for each in (targets, still, *(to for _, to in brought))])
        models = self._room(most + 1)
        matrices = [
            models.parameters,
            models.buffers,
            *([] if models.momentum is None else [models.momentum]),
        ]
        for matrix in matrices:
            array = matrix.numpy()
            for source, target in zip(sources.tolist(), targets.tolist(), strict=True):
                array[target] = array[source]
        ends = np.cumsum([matrix.shape[1] for matrix in matrices])
        for (places, to), array in zip(brought, values, strict=True):
            for matrix, part in zip(matrices, np.split(array, ends, axis=1), strict=False):
                if part.shape[1] == matrix.shape[1]:  # without momentum, where it is not needed
                    matrix.numpy()[to] = part[places]
        if models.momentum is not None:
            models.momentum.numpy()[still] = 0.0

    def give(
        self, wanted: Sequence[tuple[np.ndarray, slice]], momentum: bool
    ) -> np.ndarray | list[np.ndarray]:
        """Of each of these, the rows (int64) and columns: parameters, buffers and, if asked for, momentum, side by
        side; a single one is not a list."""
        models = self._there
        matrices = [models.parameters, models.buffers]
        if momentum and models.momentum is not None:
            matrices.append(models.momentum)
        found = []
        for rows, columns in wanted:
            parts, begin = [], 0
            for matrix in matrices:
                width = matrix.shape[1]
                some = slice(max(columns.start - begin, 0), min(max(columns.stop - begin, 0), width))
                parts.append(matrix.numpy()[rows, some])
                begin += width
            found.append(np.concatenate(parts, axis=1))
        return found[0] if len(found) == 1 else found

    def _room(self, rows: int) -> Models:
        """The models, with room for so many."""
        outfit, models = self._known, self._models
        if models is None:
            models = Models.empty(outfit.task.layout, 1, momentum=outfit.momentum)
        if rows > len(models):
            models = with_capacity(models, rows, max(2 * rows, outfit.context.clients))
        self._models = models
        return models

    # --- what is made of them ---------------------------------------------------------------------------------

    def train(self, work: Work) -> np.ndarray:
        """Train each job's row in place; losses, float64 [jobs]."""
        tensors = [torch.from_numpy(np.array(each)) for each in work.tensors]

        def some(names: Mapping[str, int] | None) -> dict[str, torch.Tensor]:
            return {name: tensors[k] for name, k in (names or {}).items()}

        jobs = []
        for k, (client, slot, round) in enumerate(
            zip(work.client.tolist(), work.slot.tolist(), work.round.tolist(), strict=True)
        ):
            anchor = None
            if k in work.pull:
                pull, target, shift = work.pull[k]
                anchor = Anchor(
                    pull, tensors[target] if target >= 0 else None, tensors[shift] if shift >= 0 else None
                )
            given, each = some(work.given.get(k)), some(work.each.get(k))
            job = Job(client, slot, self._own(client, work.samples.get(k)), round, anchor)
            if given:
                job.given = given
            if each:
                job.each = each
            jobs.append(job)
        return self._ready.train(self._there, jobs)

    def mix(self, changed: np.ndarray, weights: np.ndarray, slots: np.ndarray, first: np.ndarray) -> None:
        """Rows `changed` (int64, rising) become weighted sums of rows `slots`, as CSR tells them: weights and slots
        [entries], first [changed + 1]."""
        models = self._there
        matrix = sparse.csr_array((weights, slots, first), shape=(len(changed), len(models)))
        mix_rows(models, matrix, changed)

    def make(self, gathered: Sequence[Gathered], into: Sequence[int], facts: Facts, round: int) -> None:
        """Put into rows `into` what holders make of the models in theirs."""
        models, rule, outfit = self._there, self._known.rule, self._known
        assert isinstance(rule, AggregatesAtHolders)
        known = KnownToHolders(replace(outfit.context, task=self._ready.task), facts, round)
        made = [rule.made(models, each, known) for each in gathered]
        for row, found in zip(into, made, strict=True):
            models.write(row, found.parameters, found.buffers)

    def test(self, slots: np.ndarray, parts: Sequence[np.ndarray] | None) -> Tested:
        """How rows do on the samples that all share: all of them, or for the k-th row parts[k]; one set for all rows
        may be given once."""
        assert self._test is not None
        if parts is not None and len(parts) == 1:
            parts = [parts[0]] * len(slots)
        found = self._ready.evaluate(self._there, slots.tolist(), *self._test, parts)
        return Tested(np.stack([found.hits, found.answers, found.actual]), found.loss)

    def judge(self, slots: np.ndarray, samples: Sequence[np.ndarray]) -> Tested:
        """How rows do on samples of clients, each on its own."""
        task, learner = self._ready.task, self._ready
        parts = [self._local(own) for own in samples]
        found = learner.evaluate(self._there, slots.tolist(), task.x, task.y, parts)
        return Tested(np.stack([found.hits, found.answers, found.actual]), found.loss)

    def features(self, slots: np.ndarray, samples: Sequence[np.ndarray]) -> list[np.ndarray]:
        """What the extractors of rows make of samples of clients."""
        parts = [self._local(own) for own in samples]
        return [each.numpy() for each in self._ready.features(self._there, slots.tolist(), parts)]

    def sums(self, order: np.ndarray, *pieces: np.ndarray) -> np.ndarray:
        """Sum of the rows of all pieces in this order (int64), for some columns: float64."""
        rows = np.concatenate(pieces)[order]
        return column_sums(torch.from_numpy(rows)).numpy()

    def distances(self, slots: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Parts of the squared distances of rows' parameters from a mean."""
        rows = self._there.parameters[torch.from_numpy(slots)]
        return distances(rows, torch.from_numpy(np.array(mean)))

    # --- what it has ------------------------------------------------------------------------------------------

    @property
    def _known(self) -> Outfit:
        if self._outfit is None:
            raise FedroamError("a worker is asked before it was told what for")
        return self._outfit

    @property
    def _there(self) -> Models:
        return self._room(1)

    @property
    def _ready(self) -> Learner:
        if self._learner is None:
            raise FedroamError("a worker is asked about samples that it was not given")
        return self._learner

    def _own(self, client: int, samples: np.ndarray | None) -> np.ndarray:
        assert self._samples is not None
        return self._samples.train[client] if samples is None else self._local(samples)

    def _local(self, samples: np.ndarray) -> np.ndarray:
        """Samples by their places here."""
        assert self._samples is not None
        return np.searchsorted(self._samples.numbers, samples)
