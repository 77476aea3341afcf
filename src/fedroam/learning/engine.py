"""What an engine is asked: train these rows on these samples, and evaluate those."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Protocol, overload, runtime_checkable

import numpy as np
import torch
from torch import nn
from typing_extensions import override

from fedroam.errors import FedroamError
from fedroam.learning.alike import first_alike
from fedroam.learning.held import ClassMeans, Held, class_means
from fedroam.learning.layout import Layout
from fedroam.learning.matrix import Models
from fedroam.learning.objective import Objective
from fedroam.learning.training import DecaysLearningRate, Training
from fedroam.models import as_batch, own_dropout
from fedroam.randomness import stream, torch_default_stream


@dataclass(frozen=True)
class Task:
    """What all models of a run have in common.

    network: makes a network of the run's architecture (its values do not matter). x, y: every training sample,
    as `as_batch` tensors float32 [samples, ...] and int64 [samples], held once and shared.
    """

    network: Callable[[], nn.Module]
    layout: Layout
    x: torch.Tensor
    y: torch.Tensor
    training: Training
    objective: Objective
    seed: int


@dataclass(frozen=True)
class Anchor:
    """What local training is held to: every gradient g becomes g + pull * (x - target) + shift.

    pull: a proximal term's factor (FedProx, Ditto). target, shift: float32 [parameters]; None is left out.
    """

    pull: float = 0.0
    target: torch.Tensor | None = None
    shift: torch.Tensor | None = None

    def add(self, gradient: torch.Tensor, row: torch.Tensor) -> None:
        """Add the terms to a gradient (float32 [parameters]) taken at `row`, in place."""
        if self.pull:
            gradient.add_(row, alpha=self.pull)
            if self.target is not None:
                gradient.sub_(self.target, alpha=self.pull)
        if self.shift is not None:
            gradient.add_(self.shift)


NOTHING: Mapping[str, torch.Tensor] = {}  # one for all jobs: nobody may change it, nor a job


# There is one a client and round: a frozen class, or one with dictionaries of its own, takes ten times as long to make.
@dataclass(slots=True)
class Job:
    """The local work of one client in one round: which row it trains, on which samples (indices into the task's).

    anchor: terms added to every gradient. given: tensors that the objective is handed by name. each: the same, with
    one row a sample of the job, of which it is handed the batch's.
    """

    client: int
    row: int
    samples: np.ndarray
    round: int
    anchor: Anchor | None = None
    given: Mapping[str, torch.Tensor] = field(default_factory=lambda: NOTHING)
    each: Mapping[str, torch.Tensor] = field(default_factory=lambda: NOTHING)

    @property
    def plain(self) -> bool:
        """Whether there is nothing to it but the task's own objective."""
        return self.anchor is None and not self.given and not self.each

    def positions(self, task: Task) -> Iterator[np.ndarray]:
        """The job's batches as positions in `samples`, one optimiser step each."""
        draws = stream(task.seed, "batches", self.round, self.client)
        yield from task.training.batches(len(self.samples), draws)

    def batches(self, task: Task) -> Iterator[np.ndarray]:
        """The job's batches as indices into the task's samples, one optimiser step each."""
        for positions in self.positions(task):
            yield self.samples[positions]

    def handed(self, positions: torch.Tensor) -> dict[str, torch.Tensor]:
        """What the objective is handed for a batch (int64 positions in `samples`)."""
        picked = {name: values.index_select(0, positions) for name, values in self.each.items()}
        return {**self.given, **picked}


class Jobs(Sequence[Job]):
    """Plain jobs of which only columns are kept: each is made when it is asked for, as often as it is.

    For who plans a round of many devices and trains none. client, row: int64 [jobs]. samples: by client, of all of
    them; held: int64 [clients], how many each has.
    """

    def __init__(
        self, client: np.ndarray, row: np.ndarray, samples: Sequence[np.ndarray], held: np.ndarray, round: int
    ) -> None:
        self.client, self.row, self.samples, self.held, self.round = client, row, samples, held, round

    def __len__(self) -> int:
        return len(self.client)

    @overload
    def __getitem__(self, which: int) -> Job: ...
    @overload
    def __getitem__(self, which: slice) -> Jobs: ...
    @override
    def __getitem__(self, which: int | slice) -> Job | Jobs:
        if isinstance(which, slice):
            return self.some(which)
        client = int(self.client[which])
        return Job(client, int(self.row[which]), self.samples[client], self.round)

    def some(self, which: np.ndarray | slice) -> Jobs:
        """Those of an index, slice or mask, in its order."""
        return Jobs(self.client[which], self.row[which], self.samples, self.held, self.round)


def check_jobs(jobs: Sequence[Job], task: Task, rows: int, known: dict[int, np.ndarray]) -> None:
    """Raise FedroamError for a job that kernels cannot compute: they read what they are told, wherever it lies.

    rows: of the models. known: by client the samples that were looked at before, to which these are added; most methods
    hand out the same arrays in every round.
    """
    if isinstance(jobs, Jobs):
        return

    def wrong(job: Job, what: str) -> FedroamError:
        return FedroamError(f"client {job.client}, round {job.round}: {what}")

    taken: set[int] = set()
    for job in jobs:
        if not 0 <= job.row < rows or job.row in taken:
            why = "two jobs train it" if job.row in taken else f"allowed are 0 to {rows - 1}"
            raise wrong(job, f"row {job.row} of the models: {why}")
        taken.add(job.row)
        samples = job.samples
        if known.get(job.client) is samples:
            continue
        most = len(task.y) - 1
        if not isinstance(samples, np.ndarray) or samples.dtype != np.int64 or samples.ndim != 1:
            found = type(samples).__name__
            if isinstance(samples, np.ndarray):
                found = f"{samples.dtype} {list(samples.shape)}"
            raise wrong(job, f"samples are {found}; allowed are int64 [samples], from 0 to {most}")
        if len(samples) and (samples.min() < 0 or samples.max() > most):
            found = f"{samples.min()} to {samples.max()}"
            raise wrong(job, f"training samples from {found}; allowed are 0 to {most}")
        known[job.client] = samples


def clients_of(jobs: Sequence[Job]) -> np.ndarray:
    """The client of each job, int64 [jobs]."""
    if isinstance(jobs, Jobs):
        return jobs.client
    return np.array([job.client for job in jobs], dtype=np.int64)


def held_of(jobs: Sequence[Job]) -> np.ndarray:
    """How many samples each job has, int64 [jobs]."""
    if isinstance(jobs, Jobs):
        return np.asarray(jobs.held[jobs.client])
    return np.array([len(job.samples) for job in jobs], dtype=np.int64)


def some_of(jobs: Sequence[Job], which: np.ndarray) -> Sequence[Job]:
    """Those of a mask (bool [jobs])."""
    if which.all():
        return jobs
    return jobs.some(which) if isinstance(jobs, Jobs) else list(compress(jobs, which))


@dataclass(frozen=True)
class Cases:
    """Evaluations of rows, the same ones once: of equal rows (all values, bit for bit) on the same samples.

    rows: the row of each case; parts: its test samples (indices), None where all rows are evaluated on all; of: for
    each row that was asked the number of its case, int64.
    """

    rows: list[int]
    parts: list[np.ndarray] | None
    of: np.ndarray


def cases(models: Models, rows: Rows, parts: Indices | None) -> Cases:
    """What there is to evaluate of these rows, in the order in which it is first asked."""
    chosen, found = list(rows), list[int]()  # found: where in `rows` each case was first asked
    of, seen = np.empty(len(chosen), np.int64), dict[tuple[int, bytes], int]()
    samples = [b""] * len(chosen) if parts is None else _contents(list(parts))
    for k, asked in enumerate(zip(first_alike(models, chosen).tolist(), samples, strict=True)):
        of[k] = case = seen.setdefault(asked, len(found))
        if case == len(found):
            found.append(k)
    return Cases([chosen[k] for k in found], None if parts is None else [parts[k] for k in found], of)


def _contents(arrays: list[np.ndarray]) -> list[bytes]:
    """What each holds. Where many stand for one and the same, as a test set that all share, it is written out once."""
    once = {id(array): array for array in arrays}
    written = {name: array.tobytes() for name, array in once.items()}
    return [written[id(array)] for array in arrays]


@dataclass(frozen=True)
class Scores:
    """How models did on test samples, one entry a row.

    hits, answers, actual: int64 [rows, classes], correct answers, all answers and samples of each class. loss: mean
    loss, float64 [rows], NaN for a row without test samples.
    """

    hits: np.ndarray
    answers: np.ndarray
    actual: np.ndarray
    loss: np.ndarray

    def of(self, case_of: np.ndarray) -> Scores:
        """The scores of rows, of whose cases these are."""
        return Scores(self.hits[case_of], self.answers[case_of], self.actual[case_of], self.loss[case_of])

    @property
    def correct(self) -> np.ndarray:
        """Correct answers, int64 [rows]."""
        return np.asarray(self.hits.sum(1), dtype=np.int64)

    @property
    def samples(self) -> np.ndarray:
        """Test samples, int64 [rows]."""
        return np.asarray(self.actual.sum(1), dtype=np.int64)

    @property
    def accuracy(self) -> np.ndarray:
        """Share of correct answers, float64 [rows]; NaN where there was no sample."""
        with np.errstate(invalid="ignore"):
            return self.correct / self.samples.astype(np.float64)

    @property
    def balanced_accuracy(self) -> np.ndarray:
        """Mean over the classes in a row's test samples of the share answered correctly, float64 [rows]."""
        there = self.actual > 0
        recall = np.divide(self.hits, self.actual, out=np.zeros(self.hits.shape), where=there)
        with np.errstate(invalid="ignore"):
            return np.asarray(recall.sum(1) / there.sum(1))

    @property
    def macro_f1(self) -> np.ndarray:
        """Mean of 2 hits / (answers + samples) over the classes sampled or answered, float64 [rows]."""
        both = self.answers + self.actual
        f1 = np.divide(2 * self.hits, both, out=np.zeros(self.hits.shape), where=both > 0)
        with np.errstate(invalid="ignore"):
            return np.asarray(f1.sum(1) / (both > 0).sum(1))

    @property
    def pooled(self) -> Scores:
        """All rows' samples taken together, as one row."""
        seen = self.samples > 0
        loss = np.average(self.loss[seen], weights=self.samples[seen]) if seen.any() else np.nan
        hits, answers, actual = (values.sum(0)[None] for values in (self.hits, self.answers, self.actual))
        return Scores(hits, answers, actual, np.array([loss]))

    def chosen(self, rows: np.ndarray) -> Scores:
        """The scores of some rows (int64, or bool [rows])."""
        return Scores(self.hits[rows], self.answers[rows], self.actual[rows], self.loss[rows])

    def only(self, rows: np.ndarray, count: int) -> Scores:
        """These scores at places `rows` among `count`; the others have no samples."""
        counts = np.zeros((3, count, self.hits.shape[1]), np.int64)
        counts[:, rows] = self.hits, self.answers, self.actual
        loss = np.full(count, np.nan)
        loss[rows] = self.loss
        return Scores(counts[0], counts[1], counts[2], loss)


Rows = Sequence[int]  # of a matrix of models
Indices = Sequence[np.ndarray]  # for each of several rows, which samples it is asked about, int64


def tally(outputs: torch.Tensor, y: torch.Tensor) -> np.ndarray:
    """Hits, answers and samples of each class, int64 [3, classes], of logits [n, classes] for classes y."""
    classes, answer = outputs.shape[1], outputs.argmax(1)
    kinds = (y[answer == y], answer, y)
    return np.stack([torch.bincount(kind, minlength=classes).cpu().numpy() for kind in kinds])


class Learner(Protocol):
    """An engine at work on one task. Results must not depend on the number of workers.

    What concerns samples that a client holds (`train`, `judge`, `judge_together`, `represent`, `class_means` and
    `mean_features`) is asked of clients, which may be elsewhere: an engine, which has all samples at hand, computes
    for all of them, by `evaluate` and `features`.

    task: what it works on. notes: which engine it is, and what is worth telling of how it computes (kept in the run
    folder).
    """

    task: Task
    notes: tuple[str, ...]

    def train(self, models: Models, jobs: Sequence[Job]) -> np.ndarray:
        """Train each job's row in place; mean training loss of each job (float64 [jobs], NaN for no samples)."""

    def evaluate(
        self, models: Models, rows: Rows, x: torch.Tensor, y: torch.Tensor, parts: Indices | None = None
    ) -> Scores:
        """Evaluate rows on samples x, y: all of them, or for the k-th row those with indices parts[k]."""

    def features(self, models: Models, rows: Rows, parts: Indices) -> list[torch.Tensor]:
        """What the extractor of the k-th row makes of the task's samples parts[k]: float32 [samples, features].

        In evaluation mode (nothing dropped, nothing drawn). Raises InputError where the network declares no extractor.
        """

    def close(self) -> None:
        """Give back workers and memory."""

    def use_cores(self, count: int) -> None:
        """Compute with so many threads (0: one a core) from now on, whatever the settings say; an engine without
        threads takes no notice. What other runs of a sweep leave idle is given to those that are left."""
        return

    # --- where it is not this process that computes -----------------------------------------------------------

    def open(self) -> None:
        """Get ready to compute, once a run is about to begin. Raises InputError where that cannot be."""
        return

    def renew(self) -> None:
        """Replace workers that are lost: all models are lost with them. Raises FedroamError where that cannot be."""
        return

    def told(self) -> dict[str, int]:
        """What travelled so far, by name; nothing where nothing does."""
        return {}

    # --- asked of clients -------------------------------------------------------------------------------------

    def begin_round(self, number: int) -> None:
        """A round begins (1, 2, ...): whoever was lost is asked again."""
        return

    def expect(self, loads: np.ndarray | None) -> None:
        """What each client will have got before it trains, and will send then, from and to a server or access point in
        this round: bytes by the run's own account, float64 [clients, 2]; None where nothing takes time, or clients send
        to each other. For who has it take as long."""
        return

    def unreachable(self) -> np.ndarray:
        """Clients (int64, ascending) that nothing can be asked of now: none where all of them are computed here."""
        return np.zeros(0, dtype=np.int64)

    def lost(self) -> np.ndarray:
        """Clients (int64, ascending) that were asked something in this round and did not answer: none where all of
        them are computed here. Their rows are as they were handed out."""
        return np.zeros(0, dtype=np.int64)

    def why_lost(self) -> str:
        """Why the first training that was asked for has not arrived, in one line, as long as none has: nothing where
        all clients are computed here."""
        return ""

    def judge(self, models: Models, rows: Rows, held: Sequence[Held]) -> Scores:
        """Evaluate the k-th row on the samples held[k]; who is lost has no samples."""
        task = self.task
        return self.evaluate(models, rows, task.x, task.y, [own.samples for own in held])

    def judge_together(self, models: Models, row: int, held: Sequence[Held]) -> Scores:
        """Evaluate one row on the samples of all of these clients, taken together: the scores of one row."""
        task = self.task
        return self.evaluate(models, [row], task.x, task.y, [np.concatenate([own.samples for own in held])])

    def represent(self, models: Models, rows: Rows, held: Sequence[Held]) -> list[torch.Tensor]:
        """Features of the samples held[k] by the k-th row, float32 [samples, features], for `Job.each` of this round.

        Their values may stay with the clients: then these are tensors of the device `meta`.
        """
        return self.features(models, rows, [own.samples for own in held])

    def class_means(self, models: Models, rows: Rows, held: Sequence[Held], classes: int) -> ClassMeans:
        """Mean features of each class among the samples held[k] by the k-th row; who is lost holds no class."""
        labels = self.task.y.cpu().numpy()
        return class_means(self.represent(models, rows, held), [labels[own.samples] for own in held], classes)

    def mean_features(self, models: Models, rows: Rows, held: Sequence[Held]) -> np.ndarray:
        """Mean features of the samples held[k] by the k-th row, float64 [k, features]; NaN for who is lost."""
        found = self.represent(models, rows, held)
        return np.stack([some.cpu().numpy().mean(0, dtype=np.float64) for some in found])


class Evaluates:
    """What learners share that leave evaluation to another one, `here`."""

    here: Learner

    def evaluate(
        self, models: Models, rows: Rows, x: torch.Tensor, y: torch.Tensor, parts: Indices | None = None
    ) -> Scores:
        """As `here` does."""
        return self.here.evaluate(models, rows, x, y, parts)

    def features(self, models: Models, rows: Rows, parts: Indices) -> list[torch.Tensor]:
        """As `here` does."""
        return self.here.features(models, rows, parts)

    def close(self) -> None:
        """Give back its workers and memory."""
        self.here.close()


@runtime_checkable
class Engine(Protocol):
    """A way to compute local training."""

    def build(self, task: Task) -> Learner:
        """Set to work on a task."""


def rate(training: Training, round: int) -> float:
    """The learning rate in a round (1, 2, ...)."""
    decay = training.lr_decay if isinstance(training, DecaysLearningRate) else 1.0
    return training.lr * decay ** (round - 1)


def make_network(build: Callable[[], nn.Module], seed: int, client: int = 0) -> nn.Module:
    """A network with initial values from its own stream; torch's dropout replaced by one with streams."""
    with torch_default_stream(seed, "start model", client=client):
        return own_dropout(build())


def start_models(
    build: Callable[[], nn.Module],
    layout: Layout,
    clients: int | Sequence[int],
    seed: int,
    *,
    equal: bool,
    momentum: bool,
    device: torch.device | str = "cpu",
    half: bool = False,
) -> Models:
    """The start models of these clients (or of as many), one row each: all equal, or each drawn from its own stream.

    half: they are held in 16 bits.
    """
    clients = range(clients) if isinstance(clients, int) else clients
    # Of many large models, to clear what is written anyway takes as long as to write it.
    models = Models.empty(layout, len(clients), momentum=momentum, device=device, half=half, cleared=False)
    for row, client in enumerate(clients[:1] if equal else clients):
        own = 0 if equal else client
        layout.write(make_network(build, seed, own), models.parameters[row], models.buffers[row])
    if equal and len(models) > 1:
        models.parameters[1:] = models.parameters[0]
        models.buffers[1:] = models.buffers[0]
    return models


def to_tensors(x: np.ndarray, y: np.ndarray, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Samples and classes as networks see them, on `device`; on the CPU they share the arrays' memory."""
    return as_batch(torch.from_numpy(x).to(device)), torch.from_numpy(y).to(device)
