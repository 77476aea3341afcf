"""The engines on MNIST as the named experiment sets it up, with fewer images."""

from __future__ import annotations

import pytest

from fedroam.planning import plan
from fedroam.scene import Scene, prepare
from fedroam.simulation import begin, play_round
from support.learners import Problem, check_steps
from support.rounding import UNIT, tolerance


def mnist_random(samples: int, *more: str) -> Scene:
    settings = [f"data.train_samples={samples}", "data.test_samples=100", *more]
    return prepare(plan("mnist-random", assignments=settings).runs[0].experiment)


@pytest.mark.data
def test_twenty_clients_agree_after_five_rounds_of_a_smooth_network() -> None:
    """They move, meet, mix and train, as full batches."""
    parameters = {}
    for engine in ("cpu", "reference"):
        scene = mnist_random(4000, "model.kind=softmax_regression", f"engine.kind={engine}")
        state = begin(scene)
        start, task = state.models.parameters.clone(), scene.learner.task
        for _ in range(5):
            state, *_ = play_round(scene, state)
        scene.learner.close()
        parameters[engine] = state.models.parameters
        moved = (parameters[engine] - start).norm(dim=1)
        assert moved.min() > 1e-2  # every client has learnt something
    apart = (parameters["cpu"] - parameters["reference"]).norm(dim=1)
    share = tolerance(task.network(), task.x[:200])
    assert (apart <= 2 * (share * moved + 5 * UNIT * parameters["reference"].norm(dim=1))).all()


@pytest.mark.data
def test_every_step_of_the_papers_network_is_the_true_one() -> None:
    scene = mnist_random(800)
    task = scene.learner.task
    scene.learner.close()
    assert task.training.batch_size == 0
    check_steps(Problem(task, list(scene.split.train), task.network), "cpu", "reference", rounds=1)
