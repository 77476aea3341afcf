"""The fast engine against the reference engine on MNIST as the named experiment sets it up, with fewer images."""

import pytest

from fedroam.planning import plan
from fedroam.scene import prepare
from fedroam.simulation import begin, play_round


@pytest.mark.data
def test_twenty_clients_agree_after_five_rounds_of_mnist_random() -> None:
    parameters = {}
    for engine in ("cpu", "reference"):
        settings = [f"engine.kind={engine}", "data.train_samples=4000", "data.test_samples=100"]
        scene = prepare(plan("mnist-random", assignments=settings).runs[0].experiment)
        state = begin(scene)
        start = state.models.parameters.clone()
        for _ in range(5):
            state, *_ = play_round(scene, state)
        scene.learner.close()
        parameters[engine] = state.models.parameters
        assert (parameters[engine] - start).abs().amax(
            dim=1
        ).min() > 1e-2  # every client has learnt something
    assert (parameters["cpu"] - parameters["reference"]).abs().max() < 1e-4
