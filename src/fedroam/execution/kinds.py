"""Where a run is computed, as parts of an experiment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
import torch

from fedroam.components import Part, field, register
from fedroam.errors import InputError
from fedroam.execution.address import LOCAL
from fedroam.execution.cluster import RayTransport
from fedroam.execution.crew import Crew, HeldSamples
from fedroam.execution.learner import SpreadAggregator, SpreadLearner
from fedroam.execution.loading import sources_of
from fedroam.execution.rows import SpreadModels
from fedroam.execution.transport import Transport
from fedroam.execution.worker import Outfit
from fedroam.federation import Aggregator, FederationContext
from fedroam.learning import Learner, Models
from fedroam.learning.cpu.workers import MOST_WORKERS


@dataclass(frozen=True)
class Spreading:
    """A run that is about to be spread over workers.

    rule: its federation. parts: all its parts. here: an engine of this process. tested: each client's own test samples.
    test: the samples that all share as tensors, and their classes; None where each client is tested on its own.
    """

    context: FederationContext
    rule: object
    engine: Part
    parts: Sequence[Part]
    here: Learner
    tested: Sequence[np.ndarray]
    test: tuple[torch.Tensor, torch.Tensor] | None


@dataclass(frozen=True)
class SpreadComputation:
    """A run that is spread: who learns and who aggregates for it, and where its models lie."""

    crew: Crew
    learner: Learner
    aggregator: Aggregator

    def models(self, models: Models, rows: np.ndarray) -> Models:
        """Rows (int64, with repeats) of models that are here, to go where they are computed."""
        return SpreadModels.of(self.crew, models, rows)


@runtime_checkable
class Execution(Protocol):
    """A place where the clients of a run are computed. It must not change a bit of any result."""

    def spread(self, run: Spreading) -> SpreadComputation | None:
        """Spread a run; None where its clients are computed by the engine here. Nothing is started yet."""


@register("execution", "process")
class Process(Part):
    """All clients are computed in this process, by as many threads as the engine has workers."""

    def spread(self, run: Spreading) -> SpreadComputation | None:
        """Nothing to spread."""
        return None


@register("execution", "ray")
class Ray(Part):
    """The clients of the run are spread over workers of a Ray cluster, which keep their samples and models.

    Models go from worker to worker where clients of two workers meet, and here only where a federation asks for all of
    them, as a server does. Who meets is placed together. A worker that is lost is replaced, and the run goes on from
    its last checkpoint. Results are those of one machine, bit for bit, where all machines have the same processors.
    """

    address: str = field(
        LOCAL, "of the cluster: local (one of this machine, for this run), auto, or HOST:PORT", identity=False
    )
    workers: int = field(
        0, "how many, 0 is as many as the cluster has room for", identity=False, ge=0, le=MOST_WORKERS
    )
    cpus: int = field(1, "cores of each worker", identity=False, ge=1, le=1024)

    def spread(self, run: Spreading) -> SpreadComputation | None:
        """Over workers of Ray's. Raises InputError where models are not on the CPU."""
        device = run.context.task.x.device
        if device.type != "cpu":
            raise InputError(f"execution.kind = 'ray': models are on {device}; allowed is device = 'cpu'")
        sources, modules = sources_of(run.parts)
        transport = RayTransport(self.address, self.workers, self.cpus, sources, modules)
        return spread(run, transport, self.cpus)


def spread(run: Spreading, transport: Transport, threads: int) -> SpreadComputation:
    """Spread a run over workers that are reached so; threads: of each of them."""
    task, context = run.context.task, run.context
    nothing = replace(task, x=task.x[:0], y=task.y[:0])
    test = (nothing.x, nothing.y) if run.test is None else run.test
    images = test[0].permute(0, 2, 3, 1) if test[0].dim() == 4 else test[0]
    outfit = Outfit(
        nothing,
        replace(context, task=nothing, train=(), validation=()),
        run.rule,
        run.engine,
        threads,
        task.training.keeps_momentum(),
        (images.contiguous().numpy(), test[1].numpy()),
    )
    held = HeldSamples(task.x, task.y, context.train, (context.validation, run.tested))
    crew = Crew(transport, outfit, held)
    learner = SpreadLearner(crew, run.here, None if run.test is None else run.test[0], context.rounds)
    return SpreadComputation(crew, learner, SpreadAggregator(crew))
