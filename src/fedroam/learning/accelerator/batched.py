"""The engine for accelerators: the rows of many clients in one batched pass.

`torch.func` turns the loss of one model on one batch into that of many models, each on its own: products of matrices
become batched ones, convolutions grouped ones. The models of a pass take their steps side by side, clients of like size
together. Data, models and optimiser stay on the device; batches and dropout are those of each client's own streams, so
that it computes what `reference` does, up to rounding. It runs on any device, the CPU included, where `cpu` is faster.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional
from typing_extensions import override

from fedroam.components import Part, field, register
from fedroam.errors import FedroamError
from fedroam.learning.accelerator.layers import in_place
from fedroam.learning.accelerator.recorded_passes import RecordedPass, Recordings, capture_on, room_on
from fedroam.learning.cpu.worker_model import probe
from fedroam.learning.engine import Indices, Job, Learner, Rows, Scores, Task, cases, check_jobs, rate
from fedroam.learning.layout import Entry, Layout
from fedroam.learning.matrix import Models
from fedroam.learning.objective import CrossEntropy, scalar
from fedroam.learning.reference import EVALUATION_BATCH, ReferenceLearner
from fedroam.learning.samples import standard
from fedroam.learning.sums import settled
from fedroam.models import Dropout
from fedroam.randomness import torch_stream

NO_CLASS = -100  # what `cross_entropy` leaves out: fills batches up to a common size
AHEAD = 64  # steps that are planned at once
SPREAD = 2.0  # the largest batch of a pass over its smallest, where batches are filled up
Tensors = dict[str, torch.Tensor]


@register("engine", "batched")
class Batched(Part):
    """Many clients in one batched pass (torch.func), on the device of the data.

    Batches of unlike size are filled up where the loss is the cross-entropy and the network treats samples one by one;
    otherwise only equal ones share a pass. What cannot be batched (draws from torch's global generator, decisions by
    values) is computed as `reference` does.
    """

    samples: int = field(16384, "samples of all models of a pass together, at most", unit="samples", ge=1)
    precision: Literal["float32", "bfloat16"] = field(
        "float32", "of products and convolutions in training; models are float32 in either case"
    )
    recorded: bool = field(
        True,
        "whether passes of the same sizes are recorded and played again, where the device can (CUDA graphs)",
        identity=False,
    )

    def build(self, task: Task) -> BatchedLearner:
        """One network, through which all models are computed."""
        return BatchedLearner(task, self.samples, self.precision, self.recorded)


@dataclass(frozen=True)
class _Draw:
    """A dropout that a training step comes by: what it is asked for, without the dimension of samples."""

    keep: float
    shape: tuple[int, ...]


class _Masks(nn.Module):
    """In place of a dropout: multiplies by the next of the masks that were drawn before, or notes what it is asked."""

    def __init__(self, p: float, channels: bool, lent: _LentMasks) -> None:
        super().__init__()
        self.p, self.channels, self.lent = p, channels, lent

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x` of any shape; with `channels`, [n, channels, ...]."""
        if not self.training or self.p == 0:
            return x
        if self.p == 1:
            return x * 0.0
        if self.lent.masks is not None:
            return x * next(self.lent.masks)
        shape = (x.shape[1], *(1 for _ in x.shape[2:])) if self.channels else x.shape[1:]
        self.lent.asked.append(_Draw(1 - self.p, tuple(shape)))
        return x


class _LentMasks:
    """The masks of the step that is computed; None while it is only noted which are asked for."""

    def __init__(self) -> None:
        self.masks: Iterator[torch.Tensor] | None = None
        self.asked: list[_Draw] = []


class _Loss(nn.Module):
    """The objective as a module, so that `functional_call` can put values into the network that it is given."""

    def __init__(self, module: nn.Module, task: Task) -> None:
        super().__init__()
        self.module, self.objective = module, task.objective

    def forward(self, x: torch.Tensor, y: torch.Tensor, **handed: torch.Tensor) -> torch.Tensor:
        """The mean loss."""
        return scalar(self.objective.loss(self.module, x, y, **handed), self.objective)


@dataclass(frozen=True)
class _Way:
    """How jobs that are handed the same things (`kind`) are computed. draws: the dropouts of a step, in order. idle:
    parameters that get no gradient, which torch.optim.SGD leaves alone. batched: whether they can share a pass.
    """

    kind: tuple[str, ...]
    draws: tuple[_Draw, ...]
    idle: tuple[Entry, ...]
    batched: bool


@dataclass(frozen=True)
class _State:
    """What a step changes, by row: parameters, buffers, momentum (None where there is none) and sums of losses."""

    parameters: torch.Tensor
    buffers: torch.Tensor
    momentum: torch.Tensor | None
    total: torch.Tensor

    def of(self, rows: torch.Tensor) -> _State:
        """Some rows."""
        momentum = None if self.momentum is None else self.momentum[rows]
        return _State(self.parameters[rows], self.buffers[rows], momentum, self.total[rows])

    def copied(self) -> _State:
        """With values of its own."""
        momentum = None if self.momentum is None else self.momentum.clone()
        return _State(self.parameters.clone(), self.buffers.clone(), momentum, self.total.clone())

    def put(self, rows: torch.Tensor, other: _State) -> _State:
        """With some rows of another one."""
        momentum = self.momentum
        if momentum is not None and other.momentum is not None:
            momentum = momentum.index_copy(0, rows, other.momentum)
        return _State(
            self.parameters.index_copy(0, rows, other.parameters),
            self.buffers.index_copy(0, rows, other.buffers),
            momentum,
            self.total.index_copy(0, rows, other.total),
        )


@dataclass(frozen=True)
class _Batch:
    """A step of some jobs. index, classes: int64 [jobs, n], filled up to a common n. weights: int64 [jobs], how many of
    them are real; lengths: the same, here. places: int64 [jobs, n] of `_Beside.each`, None where nobody is handed any.
    """

    index: torch.Tensor
    classes: torch.Tensor
    weights: torch.Tensor
    lengths: list[int]
    places: torch.Tensor | None


@dataclass(frozen=True)
class _Plan:
    """Steps of some jobs, side by side. lengths, weights: int64 [jobs, steps], here and on the device, of their
    batches, 0 where there is none. index, classes, places (see `_Batch`): int64 [jobs, steps, n] on the device, filled
    up to the largest n.
    """

    lengths: np.ndarray
    weights: torch.Tensor
    index: torch.Tensor
    classes: torch.Tensor
    places: torch.Tensor | None

    def step(self, step: int, jobs: Sequence[int]) -> _Batch:
        """Of some jobs, which have a batch in this step."""
        lengths = self.lengths[jobs, step].tolist()
        most = max(lengths)
        index, classes = self.index[:, step, :most], self.classes[:, step, :most]
        weights, places = self.weights[:, step], None if self.places is None else self.places[:, step, :most]
        if len(jobs) < len(self.lengths):
            rows = torch.tensor(jobs, device=index.device)
            index, classes, weights = index[rows], classes[rows], weights[rows]
            places = None if places is None else places[rows]
        # Of like strides, however many steps are planned: a recording is of inputs that lie as these do.
        index, classes, weights = (standard(each) for each in (index, classes, weights))
        return _Batch(index, classes, weights, lengths, places)


@dataclass(frozen=True)
class _Anchors:
    """What holds which jobs of a pass, those that are held alike together: rows (int64; None: all), by how much, and
    the target; and rows with what shifts the gradient of each, float32 [rows, parameters].
    """

    pulled: Sequence[tuple[torch.Tensor | None, float, torch.Tensor | None]]
    shifted: Sequence[tuple[torch.Tensor | None, torch.Tensor]]

    @classmethod
    def of(cls, jobs: Sequence[Job], device: torch.device) -> _Anchors:
        """Those of jobs, each a row of the pass."""
        alike: dict[tuple[float, int], tuple[list[int], torch.Tensor | None]] = {}
        shifts: dict[int, torch.Tensor] = {}
        for k, anchor in enumerate(job.anchor for job in jobs):
            if anchor is not None and anchor.pull:
                alike.setdefault((anchor.pull, id(anchor.target)), ([], anchor.target))[0].append(k)
            if anchor is not None and anchor.shift is not None:
                shifts[k] = anchor.shift

        def rows(some: Sequence[int]) -> torch.Tensor | None:
            return None if len(some) == len(jobs) else torch.tensor(some, device=device)

        pulled = [(rows(some), pull, target) for (pull, _), (some, target) in alike.items()]
        return cls(pulled, [(rows(list(shifts)), torch.stack(list(shifts.values())))] if shifts else [])

    def __bool__(self) -> bool:
        return bool(self.pulled or self.shifted)

    def hold(self, gradient: torch.Tensor, parameters: torch.Tensor) -> None:
        """Add the terms (see `Anchor.add`) to the gradients of all jobs, float32 [jobs, parameters]."""
        for rows, pull, target in self.pulled:
            held = gradient if rows is None else gradient[rows]
            held.add_(parameters if rows is None else parameters[rows], alpha=pull)
            if target is not None:
                held.sub_(target, alpha=pull)
            if rows is not None:
                gradient.index_copy_(0, rows, held)
        for rows, shift in self.shifted:
            if rows is None:
                gradient.add_(shift)
            else:
                gradient.index_copy_(0, rows, gradient[rows].add_(shift))


@dataclass(frozen=True)
class _Beside:
    """What the jobs of a pass bring beside samples, put together once: what objectives are handed, and anchors.

    given: of each job, [jobs, ...]. each: of each sample of all jobs of the plan, one job after the other.
    """

    given: Tensors
    each: Tensors
    anchors: _Anchors

    @classmethod
    def of(cls, jobs: Sequence[Job], device: torch.device) -> _Beside:
        """Of jobs that are handed the same things by name."""
        given = {name: torch.stack([job.given[name] for job in jobs]) for name in jobs[0].given}
        each = {name: torch.cat([job.each[name] for job in jobs]) for name in jobs[0].each}
        return cls(given, each, _Anchors.of(jobs, device))

    def some(self, jobs: Sequence[Job], rows: torch.Tensor) -> _Beside:
        """Of some of these jobs, which are at these rows (int64)."""
        given = {name: values[rows] for name, values in self.given.items()}
        return _Beside(given, self.each, _Anchors.of(jobs, rows.device))

    def handed(self, places: torch.Tensor | None) -> Tensors:
        """What the objectives are handed for batches at these places, each [jobs, ...] or [jobs, n, ...]."""
        if places is None:
            return self.given
        picked = {
            name: values.index_select(0, places.flatten()).unflatten(0, places.shape)
            for name, values in self.each.items()
        }
        return self.given | picked


class BatchedLearner(Learner):
    """The batched engine at work."""

    def __init__(self, task: Task, samples: int, precision: str, recorded: bool) -> None:
        self.task, self.samples = task, samples
        self.device = task.x.device
        self.slow = ReferenceLearner(task)
        self._known: dict[int, np.ndarray] = {}
        here = replace(task, x=task.x[:4].cpu(), y=task.y[:4].cpu())
        self.foreign = probe(here).foreign
        # Whether batches may be filled up: what is filled in must change nothing.
        undropped = replace(here, network=lambda: _undropped(here.network()))
        self.fills = type(task.objective) is CrossEntropy and not self.foreign and probe(undropped).apart
        self.lent = _LentMasks()
        self.module = _batchable(task.network().to(self.device), self.lent)
        self.loss = _Loss(self.module, task).train()
        self.types = {name: buffer.dtype for name, buffer in self.module.named_buffers()}
        self.autocast = precision == "bfloat16"
        record = capture_on(self.device) if recorded else None
        self.recordings = Recordings(record, room=room_on(self.device))
        self._ways: dict[tuple[str, ...], _Way] = {}
        self._passes: dict[tuple[tuple[str, ...], tuple[str, ...], bool], RecordedPass] = {}
        self._outputs_each: int | None = None  # of the network; 0 where it cannot be judged in batched passes
        notes = ["engine: batched"]
        if self.device.type not in ("cpu", "cuda"):
            notes.append(f"on {self.device.type}: not yet measured")
        if self.foreign:
            notes.append("the network draws from torch's global generator: clients are trained one by one")
        self.notes = tuple(notes)

    # --- training -----------------------------------------------------------------------------------------------

    @override
    def train(self, models: Models, jobs: Sequence[Job]) -> np.ndarray:
        if self.foreign:
            return self.slow.train(models, jobs)
        with settled(), _current(self.device):
            return self._train(models, jobs)

    def _train(self, models: Models, jobs: Sequence[Job]) -> np.ndarray:
        check_jobs(jobs, self.task, len(models), self._known)
        self.recordings.begin()
        losses = np.full(len(jobs), np.nan)
        alike: dict[tuple[str, ...], list[int]] = {}
        sizes: dict[int, int] = {}  # of each job's first batch
        coming: dict[int, Iterator[np.ndarray]] = {}  # its batches
        for k, job in enumerate(jobs):
            batches = job.positions(self.task)
            first = next(batches, None)
            if first is None:
                continue
            coming[k] = itertools.chain((first,), batches)
            kind = (*sorted(job.given), *(f"each {name}" for name in sorted(job.each)))
            if kind not in self._ways:
                self._ways[kind] = self._way(kind, models, job, first)
            alike.setdefault(kind, []).append(k)
            sizes[k] = len(first)
        for kind, some in alike.items():
            way = self._ways[kind]
            if not way.batched:
                losses[some] = self.slow.train(models, [jobs[k] for k in some])
                continue
            for group in self._groups(jobs, {k: sizes[k] for k in some}):
                own = [coming[k] for k in group]
                with self._memory():
                    losses[group] = self._together(models, [jobs[k] for k in group], own, way)
        return losses

    def _groups(self, jobs: Sequence[Job], sizes: Mapping[int, int]) -> Iterator[list[int]]:
        """Jobs of like size that fit a pass, the largest first. sizes: of the first batch of those in question."""
        group: list[int] = []
        for k in sorted(sizes, key=lambda k: (-sizes[k], -len(jobs[k].samples), k)):
            most = sizes[group[0]] if group else sizes[k]
            full = group and (len(group) + 1) * most > self.samples
            if full or (group and (most > SPREAD * sizes[k] if self.fills else most != sizes[k])):
                yield group
                group = []
            group.append(k)
        if group:
            yield group

    def _way(self, kind: tuple[str, ...], models: Models, job: Job, positions: np.ndarray) -> _Way:
        """Find out by one step of a job, whose results are thrown away."""
        layout = models.layout
        layout.read(self.module, models.parameters[job.row], models.buffers[job.row])
        self.lent.masks, self.lent.asked = None, []
        x, y, handed = self._batch(job, positions)
        wanted = {name: p for name, p in self.module.named_parameters() if p.requires_grad}
        try:
            loss = self.loss(x, y, **handed)
            found = torch.autograd.grad(loss, list(wanted.values()), allow_unused=True)
        except NotImplementedError:
            # The objective asks for gradients of gradients, which our layers do not have.
            return _Way(kind, (), (), False)
        draws = tuple(self.lent.asked)
        moved = {name for name, gradient in zip(wanted, found, strict=True) if gradient is not None}
        way = _Way(kind, draws, tuple(entry for entry in layout.parameters if entry.name not in moved), True)
        twice = models.rows(torch.tensor([job.row] * 2, device=self.device)).widened()
        both = [replace(job, row=0), replace(job, row=1)]
        try:
            beside = _Beside.of(both, self.device)
            plan = self._plan(both, [[positions]] * 2)
            rates, streams = twice.parameters.new_zeros(2, 1), [self._stream(job)] * 2
            total = torch.zeros(2, dtype=torch.float64, device=self.device)
            state = _State(twice.parameters, twice.buffers, self._momentum_of(twice), total)
            self._stepped(layout, state, beside, plan.step(0, [0, 1]), rates, streams, way)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:  # torch.func cannot follow it
            return replace(way, batched=False)
        finally:
            self.lent.masks = None
        return way

    def _stream(self, job: Job) -> torch.Generator:
        return torch_stream(self.task.seed, "dropout", job.round, job.client, device=self.device)

    def _batch(self, job: Job, positions: np.ndarray) -> tuple[torch.Tensor, torch.Tensor, Tensors]:
        """A batch of a job, and what its objective is handed."""
        index = torch.from_numpy(job.samples[positions]).to(self.device)
        handed = job.handed(torch.from_numpy(positions).to(self.device))
        return self.task.x[index].contiguous(), self.task.y[index], handed

    def _together(
        self, models: Models, jobs: Sequence[Job], coming: Sequence[Iterator[np.ndarray]], way: _Way
    ) -> np.ndarray:
        """Train these jobs side by side, step by step, on their batches; mean loss of each."""
        training, layout = self.task.training, models.layout
        index = torch.tensor([job.row for job in jobs], device=self.device)
        own = models.rows(index).widened()
        streams = [self._stream(job) for job in jobs] if way.draws else []
        by_round = {round: rate(training, round) for round in {job.round for job in jobs}}
        rates = torch.tensor([[by_round[job.round]] for job in jobs], device=self.device)
        # Sums of losses stay on the device, which nobody waits for before the end.
        total, seen = torch.zeros(len(jobs), dtype=torch.float64, device=self.device), np.zeros(len(jobs))
        state, borrowed = _State(own.parameters, own.buffers, self._momentum_of(own), total), False
        beside = everything = _Beside.of(jobs, self.device)
        present = list(range(len(jobs)))
        while any(batches := [list(itertools.islice(each, AHEAD)) for each in coming]):
            plan = self._plan(jobs, batches)
            seen += plan.lengths.sum(1)
            for step, some in self._passes_of(plan.lengths):
                everybody = len(some) == len(jobs)
                now = None if everybody else torch.tensor(some, device=self.device)
                if some != present:
                    present = some
                    beside = everything if now is None else everything.some([jobs[k] for k in some], now)
                if now is not None and borrowed:  # the coming pass writes where it lies
                    state, borrowed = state.copied(), False
                there = state if now is None else state.of(now)
                those = rates if now is None else rates[now]
                batch, chosen = plan.step(step, some), [streams[k] for k in some] if streams else []
                after = self._stepped(layout, there, beside, batch, those, chosen, way)
                state, borrowed = (after, True) if now is None else (state.put(now, after), False)
        models.parameters[index], models.buffers[index] = state.parameters, state.buffers
        if models.momentum is not None:
            assert state.momentum is not None  # the training keeps it
            models.momentum[index] = state.momentum
        return np.asarray(state.total.cpu().numpy() / seen)

    def _momentum_of(self, own: Models) -> torch.Tensor | None:
        """What rows begin a round with: None without momentum, and zeros where it is not kept between rounds."""
        if own.momentum is None and self.task.training.momentum:
            return torch.zeros_like(own.parameters)
        return own.momentum

    def _passes_of(self, lengths: np.ndarray) -> Iterator[tuple[int, list[int]]]:
        """Steps, and of each the jobs whose batches can be computed in one pass. lengths: int64 [jobs, steps]."""
        for step in range(lengths.shape[1]):
            sizes = lengths[:, step]
            if self.fills:
                yield step, np.flatnonzero(sizes).tolist()
                continue
            for size in np.unique(sizes[sizes > 0])[::-1]:
                yield step, np.flatnonzero(sizes == size).tolist()

    def _plan(self, jobs: Sequence[Job], batches: Sequence[Sequence[np.ndarray]]) -> _Plan:
        """The next steps of these jobs, in one transfer to the device."""
        steps = max(len(own) for own in batches)
        lengths = np.zeros((len(jobs), steps), dtype=np.int64)
        for sizes, own in zip(lengths, batches, strict=True):
            sizes[: len(own)] = [len(batch) for batch in own]
        begins = np.cumsum([0, *(len(job.samples) for job in jobs[:-1])])
        places = np.zeros((*lengths.shape, int(lengths.max())), dtype=np.int64)
        real = np.arange(places.shape[2]) < lengths[:, :, None]
        flat = np.concatenate([batch for own in batches for batch in own])
        places[real] = flat + np.repeat(begins, lengths.sum(1))
        # What fills a batch up is its own first sample, without a class: of another one, which the model may not bear
        # (0 times an overflow is no number), the client knows nothing.
        places = np.where(real, places, places[:, :, :1])
        index = torch.from_numpy(np.concatenate([job.samples for job in jobs])[places]).to(self.device)
        weights = torch.from_numpy(lengths).to(self.device)
        there = torch.arange(places.shape[2], device=self.device) < weights[:, :, None]
        classes = torch.where(there, self.task.y[index], NO_CLASS)
        picked = any(job.each for job in jobs)
        return _Plan(
            lengths, weights, index, classes, torch.from_numpy(places).to(self.device) if picked else None
        )

    def _stepped(
        self,
        layout: Layout,
        state: _State,
        beside: _Beside,
        batch: _Batch,
        rates: torch.Tensor,
        streams: Sequence[torch.Generator],
        way: _Way,
    ) -> _State:
        """What a step makes of rows, each on its own batch, at these rates (float32 [rows, 1]). It is overwritten by
        the next call, whatever that is for.
        """
        most = batch.index.shape[1]
        handed = beside.handed(batch.places)
        masks = [
            torch.stack([_mask(draw, n, most, g) for n, g in zip(batch.lengths, streams, strict=True)])
            for draw in way.draws
        ]
        names, anchored = tuple(handed), bool(beside.anchors)
        compute = partial(self._gradients if anchored else self._step, layout, way, names)
        if (way.kind, names, anchored) not in self._passes:
            self._passes[way.kind, names, anchored] = RecordedPass(compute, self.recordings)
        momentum = state.momentum
        if momentum is None:
            momentum = state.parameters.new_empty(0)
        found = self._passes[way.kind, names, anchored](
            *(state.parameters, state.buffers, momentum, state.total),
            *(batch.index, batch.classes, batch.weights, rates, *handed.values(), *masks),
        )
        if anchored:
            gradient, loss, buffers = found
            beside.anchors.hold(gradient, state.parameters)
            given = state.parameters, buffers, momentum, state.total, batch.weights, rates
            found = self._moved(way, given, gradient, loss)
        parameters, buffers, momentum, total = found
        return _State(parameters, buffers, None if state.momentum is None else momentum, total)

    @contextlib.contextmanager
    def _memory(self) -> Iterator[None]:
        """Says what helps where a pass of many models runs out of memory."""
        try:
            yield
        except torch.OutOfMemoryError as error:
            raise FedroamError(
                f"{self.device} is out of memory for models computed in one pass: "
                f"set engine.samples below {self.samples} ({error})"
            ) from error

    def _samples(self, index: torch.Tensor) -> torch.Tensor:
        """The samples of an index of the task's (int64 [rows, n]), [rows, n, ...], as they lie in memory."""
        x = self.task.x
        if x.ndim != 4 or not x.is_contiguous(memory_format=torch.channels_last):
            return x.index_select(0, index.flatten()).view(*index.shape, *x.shape[1:])
        lines = x.permute(0, 2, 3, 1)
        chosen = lines.flatten(1).index_select(0, index.flatten())
        return chosen.view(*index.shape, *lines.shape[1:]).permute(0, 1, 4, 2, 3)

    # What follows can be recorded: nothing in it waits for the device.

    def _step(
        self, layout: Layout, way: _Way, names: Sequence[str], given: Sequence[torch.Tensor]
    ) -> tuple[torch.Tensor, ...]:
        """Rows of parameters, of buffers and of momentum after a step, and the sums of losses times batch sizes; of
        these four, indices of samples, classes, batch sizes, rates, what objectives are handed by `names`, and masks.
        """
        gradient, loss, buffers = self._gradients(layout, way, names, given)
        parameters, _, momentum, total, _, _, weights, rates, *_ = given
        return self._moved(way, (parameters, buffers, momentum, total, weights, rates), gradient, loss)

    def _moved(
        self, way: _Way, given: Sequence[torch.Tensor], gradient: torch.Tensor, loss: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """The step of torch.optim.SGD along these gradients."""
        parameters, buffers, momentum, total, weights, rates = given
        training = self.task.training
        if training.weight_decay:
            gradient = gradient.add(parameters, alpha=training.weight_decay)
        kept = momentum
        if training.momentum:
            gradient = momentum = gradient.add(kept, alpha=training.momentum)
        moved = torch.addcmul(parameters, gradient, rates, value=-1.0)
        for entry in way.idle:  # also of a momentum that jobs of another kind have left
            columns = slice(entry.offset, entry.offset + entry.size)
            moved[:, columns] = parameters[:, columns]
            if training.momentum:
                momentum[:, columns] = kept[:, columns]
        return moved, buffers, momentum, total + loss.double() * weights

    def _gradients(
        self, layout: Layout, way: _Way, names: Sequence[str], given: Sequence[torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Gradients (float32 [rows, parameters]), mean losses and the buffers afterwards, of what `_step` is given."""
        rows, kept, _, _, index, y, _, _, *rest = given
        parameters = {entry.name: _views(entry, rows) for entry in layout.parameters}
        buffers = {entry.name: _views(entry, kept).to(self.types[entry.name]) for entry in layout.buffers}
        handed, masks = dict(zip(names, rest, strict=False)), rest[len(names) :]
        found, (loss, after) = vmap(grad(self._loss_of, has_aux=True))(
            parameters, buffers, self._samples(index), y, handed, masks
        )
        gradient = torch.zeros_like(rows)
        for entry in layout.parameters:
            _views(entry, gradient).copy_(found[entry.name])
        kept = torch.clone(kept)
        for entry in layout.buffers:
            columns = slice(entry.offset, entry.offset + entry.size)
            kept[:, columns] = after[entry.name].reshape(len(rows), -1).float()
        return gradient, loss, kept

    def _loss_of(
        self,
        parameters: Tensors,
        buffers: Tensors,
        x: torch.Tensor,
        y: torch.Tensor,
        handed: Tensors,
        masks: list[torch.Tensor],
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, Tensors]]:
        """The loss of one model on one batch; beside it the loss again, and the buffers that it leaves."""
        after = {name: buffer.clone() for name, buffer in buffers.items()}  # training overwrites them
        values = {f"module.{name}": value for name, value in (parameters | after).items()}
        self.lent.masks = iter(masks)
        # Without a cache of weights in 16 bits, which a recording would not fill again.
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.autocast, cache_enabled=False):
            loss = functional_call(self.loss, values, (x, y), handed)
        return loss, (loss.detach(), after)

    # --- evaluation ---------------------------------------------------------------------------------------------

    @torch.no_grad()
    @override
    def evaluate(
        self, models: Models, rows: Rows, x: torch.Tensor, y: torch.Tensor, parts: Indices | None = None
    ) -> Scores:
        with settled(), _current(self.device):
            return self._evaluate(models, rows, x, y, parts)

    def _evaluate(
        self, models: Models, rows: Rows, x: torch.Tensor, y: torch.Tensor, parts: Indices | None
    ) -> Scores:
        classes = self._classes(models, rows, x)
        if not classes:
            return self.slow.evaluate(models, rows, x, y, parts)
        asked = cases(models, rows, parts)
        blocks = list(_blocks(len(asked.rows), len(y), asked.parts))
        counts = torch.zeros((3, len(asked.rows), classes + 1), dtype=torch.int64, device=self.device)
        losses: list[torch.Tensor] = []
        blocks.sort(key=lambda block: -len(block[1]))  # stable: like sizes side by side
        begin = 0
        while begin < len(blocks):
            most = len(blocks[begin][1])
            some = blocks[begin : begin + max(1, self.samples // most)]
            begin += len(some)
            with self._memory():
                self._judge(models, asked.rows, some, (x, y), (counts, losses))
        hits, answers, actual = counts[:, :, :classes].cpu().numpy()
        samples, total = actual.sum(1), np.zeros(len(asked.rows))
        # In the order of the blocks: an accelerator adds to the same place in any.
        if blocks:
            np.add.at(total, [k for k, _ in blocks], torch.cat(losses).cpu().numpy())
        mean = np.divide(total, samples, out=np.full(len(total), np.nan), where=samples > 0)
        return Scores(hits, answers, actual, mean).of(asked.of)

    def _judge(
        self,
        models: Models,
        rows: Rows,
        blocks: Sequence[tuple[int, np.ndarray]],
        samples: tuple[torch.Tensor, torch.Tensor],
        found: tuple[torch.Tensor, list[torch.Tensor]],
    ) -> None:
        """Add up counts (int64 [3, rows, classes + 1]) over these blocks, and list their losses (float64 [blocks])."""
        (x, y), (counts, losses), most = samples, found, len(blocks[0][1])
        # Filled up by samples of the row's own.
        filled = [_filled(torch.from_numpy(part), most, int(part[0])) for _, part in blocks]
        index = torch.stack(filled).to(self.device)
        real = torch.tensor([len(part) for _, part in blocks], device=self.device)
        there = torch.arange(most, device=self.device) < real[:, None]
        k = torch.tensor([k for k, _ in blocks], device=self.device)
        own = models.rows(torch.tensor([rows[k] for k, _ in blocks], device=self.device))
        outputs = self._outputs(own, x[index.flatten()].unflatten(0, index.shape))
        true, answer = y[index], outputs.argmax(-1)
        loss = functional.cross_entropy(outputs.flatten(0, 1), true.flatten(), reduction="none")
        losses.append(torch.where(there, loss.view(index.shape).double(), 0.0).sum(1))
        none = counts.shape[2] - 1
        for kind, classes in enumerate((torch.where(answer == true, true, none), answer, true)):
            own_counts = torch.zeros((len(blocks), none + 1), dtype=torch.int64, device=self.device)
            own_counts.scatter_add_(1, torch.where(there, classes, none), there.long())
            counts[kind].index_add_(0, k, own_counts)

    def _outputs(self, models: Models, x: torch.Tensor) -> torch.Tensor:
        """Outputs of each row on its own samples, [rows, n, classes]."""

        def outputs(parameters: Tensors, buffers: Tensors, x: torch.Tensor) -> Any:
            return functional_call(self.module, parameters | buffers, (x,))

        layout = models.layout
        parameters = {entry.name: _views(entry, models.parameters) for entry in layout.parameters}
        buffers = {
            entry.name: _views(entry, models.buffers).to(self.types[entry.name]) for entry in layout.buffers
        }
        self.module.eval()
        try:
            found: torch.Tensor = vmap(outputs)(parameters, buffers, x)
        finally:
            self.module.train()
        return found

    def _classes(self, models: Models, rows: Rows, x: torch.Tensor) -> int:
        """How many outputs there are; 0 where there is nothing to judge, or no batched pass can."""
        if not len(rows) or not len(x):
            return 0
        if self._outputs_each is None:
            one = models.rows(torch.tensor([rows[0]], device=self.device))
            try:
                self._outputs_each = int(self._outputs(one, x[None, :1].contiguous()).shape[-1])
            except torch.OutOfMemoryError:
                raise
            except RuntimeError:  # it decides by values
                self._outputs_each = 0
        return self._outputs_each

    @override
    def features(self, models: Models, rows: Rows, parts: Indices) -> list[torch.Tensor]:
        return self.slow.features(models, rows, parts)

    @override
    def close(self) -> None:
        self._passes.clear()
        self.recordings.stop()
        self.slow.close()


@contextlib.contextmanager
def _current(device: torch.device) -> Iterator[None]:
    """Within it kernels of ours, too, are launched on this device: on the current one, wherever the values lie."""
    with torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext():
        yield


def _batchable(module: nn.Module, lent: _LentMasks) -> nn.Module:
    """With layers that take their masks from `lent` in the places of dropouts, and those of ours, in place."""

    def masked(layer: nn.Module) -> nn.Module | None:
        if not isinstance(layer, Dropout):
            return None
        return _Masks(layer.p, layer.channels, lent).train(layer.training)

    return in_place(module, masked, (_Masks,))


def _undropped(module: nn.Module) -> nn.Module:
    """With dropouts that drop nothing, in place; returns the module."""
    for layer in module.modules():
        if isinstance(layer, Dropout):
            layer.p = 0.0
    return module


def _views(entry: Entry, matrix: torch.Tensor) -> torch.Tensor:
    """The tensor of every row, [rows, *shape]: a view. 4-D weights lie channels-last in a row."""
    flat = matrix[:, entry.offset : entry.offset + entry.size]
    if len(entry.shape) == 4:
        out, channels, height, width = entry.shape
        return flat.view(-1, out, height, width, channels).permute(0, 1, 4, 2, 3)
    return flat.view(-1, *entry.shape)


def _filled(values: torch.Tensor, length: int, value: float) -> torch.Tensor:
    """With so many entries, those that are added of this value."""
    if len(values) == length:
        return values
    return torch.cat([values, values.new_full((length - len(values), *values.shape[1:]), value)])


def _mask(draw: _Draw, samples: int, most: int, generator: torch.Generator) -> torch.Tensor:
    """The next mask of a stream, [most, *shape], with nothing for samples that are filled in."""
    mask = torch.empty((samples, *draw.shape), device=generator.device)
    return _filled(mask.bernoulli_(draw.keep, generator=generator).mul_(1 / draw.keep), most, 0.0)


def _blocks(rows: int, samples: int, parts: Indices | None) -> Iterator[tuple[int, np.ndarray]]:
    """Which samples (int64) which of the rows is judged on, in pieces."""
    for k in range(rows):
        own = np.arange(samples) if parts is None else parts[k]
        for begin in range(0, len(own), EVALUATION_BATCH):
            yield k, own[begin : begin + EVALUATION_BATCH]
