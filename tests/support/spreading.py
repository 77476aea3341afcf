"""Workers of a spread run in this process: the same protocol as a cluster, at once and without one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from typing_extensions import override

from fedroam.execution import Spreading
from fedroam.execution.crew import Crew
from fedroam.execution.kinds import spread
from fedroam.execution.transport import Transport, WorkersLost
from fedroam.execution.worker import Worker
from fedroam.experiment import Experiment
from fedroam.scene import Scene, prepare


class InProcess(Transport):
    """Workers that do at once what they are told; what they give cannot be written into, as with a cluster.

    dies: numbers of calls, counted from the start, at which the worker that is called is gone. calls: what was called,
    by worker and method.
    """

    def __init__(self, count: int, dies: Sequence[int] = ()) -> None:
        self._count, self.dies = count, set(dies)
        self.workers: list[Worker | None] = []
        self.calls: list[tuple[int, str]] = []

    @property
    @override
    def count(self) -> int:
        return self._count

    @property
    @override
    def notes(self) -> tuple[str, ...]:
        return (f"execution: {self._count} workers in this process",)

    @override
    def start(self) -> None:
        self.workers = [Worker() for _ in range(self._count)]

    @override
    def call(self, worker: int, method: str, *given: Any, returns: int = 1) -> list[Any]:
        self.calls.append((worker, method))
        if len(self.calls) in self.dies:
            self.workers[worker] = None
        there, wrong = self.workers[worker], [each for each in given if isinstance(each, Exception)]
        if there is None or wrong:
            return [wrong[0] if wrong else WorkersLost("a worker is lost")] * returns
        try:
            found = getattr(there, method)(*given)
        except Exception as error:
            return [error] * returns
        found = found if returns > 1 else [found]
        assert len(found) == returns
        for each in found:
            if isinstance(each, np.ndarray):
                each.setflags(write=False)
        return list(found)

    @override
    def get(self, promised: Sequence[Any]) -> list[Any]:
        for each in promised:
            if isinstance(each, Exception):
                raise each
        return list(promised)

    @override
    def renew(self) -> None:
        self.workers = [Worker() if each is None else each for each in self.workers]

    @override
    def close(self) -> None:
        for each in self.workers:
            if each is not None:
                each.end()


def spread_out(experiment: Experiment, transport: Transport, threads: int = 1) -> Scene:
    """The scene of an experiment whose clients are spread over workers that are reached so; threads: of each."""
    scene, parts = prepare(experiment), experiment.parts
    own = experiment.evaluate_on == "own"
    run = Spreading(
        scene.context,
        scene.parts.federation,
        experiment.engine,
        tuple(parts.values()),
        scene.learner,
        scene.split.test,
        None if own else (scene.test_x, scene.test_y),
    )
    found = spread(run, transport, threads)
    return replace(scene, learner=found.learner, aggregator=found.aggregator, spread=found)


def crew_of(scene: Scene) -> Crew:
    """The workers of a scene that is spread."""
    assert scene.spread is not None
    return scene.spread.crew
