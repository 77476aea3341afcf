"""Models at rest in 16 bits, slow and obvious: float32 models, all rounded by numpy whenever any was written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from typing_extensions import override

from fedroam.experiment import Experiment
from fedroam.federation import AtHand
from fedroam.learning import Models
from fedroam.scene import Scene, prepare
from fedroam.simulation import begin, play_round
from fedroam.state import State


def rounded(models: Models) -> Models:
    """The same models, each parameter rounded to the nearest float16."""
    with np.errstate(over="ignore"):
        values = models.parameters.numpy().astype(np.float16).astype(np.float32)
    models.parameters.copy_(torch.from_numpy(values))
    return models


class _Around:
    """Something else, of which a few methods are other ones."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class _Learner(_Around):
    def train(self, models: Models, jobs: Any) -> Any:
        losses = self.inner.train(models, jobs)
        rounded(models)
        return losses


class _Aggregator(AtHand):
    @override
    def mix(self, models: Models, *given: Any) -> None:
        super().mix(models, *given)
        rounded(models)

    @override
    def replace(self, rule: Any, models: Models, *given: Any) -> np.ndarray:
        answers = super().replace(rule, models, *given)
        rounded(models)
        return answers


class _Federation(_Around):
    def init(self, context: Any, start: Any, learner: Any) -> Any:
        def start_rounded(clients: Sequence[int]) -> Models:
            return rounded(start(clients))

        found = self.inner.init(context, start_rounded, learner)
        return replace(found, models=rounded(found.models))

    def distribute(self, round: Any) -> Any:
        found = self.inner.distribute(round)
        return replace(found, models=rounded(found.models))

    def exchange(self, *given: Any) -> Any:
        found = self.inner.exchange(*given)
        return replace(found, models=rounded(found.models))


def scene_by_hand(experiment: Experiment) -> Scene:
    """The scene of an experiment with models in float32 that are rounded after every step."""
    scene = prepare(experiment.replace(models_at_rest="float32"))
    parts: Any = replace(scene.parts, federation=_Federation(scene.parts.federation))  # type: ignore[arg-type]
    learner: Any = _Learner(scene.learner)
    return replace(scene, parts=parts, learner=learner, aggregator=_Aggregator())


def played(scene: Scene, rounds: int) -> State:
    """The state after so many rounds."""
    try:
        state = begin(scene)
        for _ in range(rounds):
            state, _ = play_round(scene, state)
    finally:
        scene.learner.close()
    return state
