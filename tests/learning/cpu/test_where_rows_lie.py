"""Where in memory a row lies changes no bit: alone at a node, or among all of a simulation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fedroam as fr
from fedroam.learning import Job, Models
from fedroam.scene import prepare

ROWS = 5  # of so many floats that they begin at several places of a cache line


@pytest.mark.parametrize("model", ["softmax_regression", "mlp", "lenet_gn"])
def test_a_row_learns_and_is_judged_alike_wherever_it_lies(model: str) -> None:
    """Also where the last batch has one sample, and where one sample is judged: products with vectors."""
    hidden = {"hidden": [32]} if model == "mlp" else {}
    scene = prepare(
        fr.Experiment(
            clients=4,
            mobility="static",
            model={"kind": model, **hidden},
            engine={"kind": "cpu", "workers": 1},
            training={"kind": "sgd", "lr": 0.1, "batch_size": 8},
        )
    )
    with_lines = {(4 * scene.task.layout.size * row) % 64 for row in range(ROWS)}
    assert len(with_lines) > 2
    start = scene.start_models([0])
    few = [np.arange(40 * k, 40 * k + 17) for k in range(3)]
    learner = scene.learner
    learner.open()
    try:
        found: list[list[torch.Tensor]] = []
        for row in range(ROWS):
            parameters = start.parameters.repeat(ROWS, 1)
            buffers = start.buffers.repeat(ROWS, 1)
            trained, losses = [], []
            for k, samples in enumerate(few):
                models = Models(start.layout, parameters.clone(), buffers.clone(), None)
                losses.append(float(learner.train(models, [Job(k, row, samples, 1)])[0]))
                trained.append(models.parameters[row])
                one = np.arange(k, k + 1)
                judged = learner.evaluate(models, [row], scene.test_x, scene.test_y, [one])
                losses.append(float(judged.loss[0]))
            found.append([*trained, torch.tensor(losses)])
    finally:
        learner.close()
    for row in range(1, ROWS):
        for one, other in zip(found[0], found[row], strict=True):
            assert one.equal(other), row
