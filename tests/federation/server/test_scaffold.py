"""SCAFFOLD against its formulas."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fedroam.federation.server import scaffold
from fedroam.learning import Job
from fedroam.learning.training import SGD
from fedroam.simulation import begin, play_round
from support.servers import Row, Server, close, cross_entropy, descend
from support.timed import timed_scene


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_controls_correct_the_drift(engine: str) -> None:
    """Alg. 1 with option II, three clients of which two take part in the second round."""
    game = Server({"kind": "scaffold", "server_lr": 0.8}, (12, 20, 7), engine=engine)
    x = game.server.double()
    c, controls = torch.zeros_like(x), [torch.zeros_like(x) for _ in range(3)]
    for active in ([0, 1, 2], [0, 2], [0, 1, 2]):
        change_x, change_c = torch.zeros_like(x), torch.zeros_like(x)
        for i in active:
            own, all_ = controls[i], c
            y = descend(game.layout, x, cross_entropy(game, i), lambda _, a=own, b=all_: b - a)
            new = controls[i] - c + (x - y) / (2 * 0.5)
            change_x += (y - x) / len(active)
            change_c += (new - controls[i]) / 3
            controls[i] = new
        x, c = x + 0.8 * change_x, c + change_c
        given, done = game.step(active)
        close(game.server, x)
        close(torch.from_numpy(game.state["control"]), c)
        close(torch.from_numpy(game.state["controls"]), torch.stack(controls))
        close(c, torch.stack(controls).mean(0))  # all controls begin at 0
        assert given.traffic.total == done.traffic.total == len(active) * 8 * game.layout.size
    game.learner.close()


def test_a_control_is_the_mean_gradient_of_a_clients_steps() -> None:
    """With momentum, each gradient weighs as it does in where the client ends."""
    training = SGD(lr=0.2, momentum=0.6, momentum_state="reset", steps=3)
    game = Server("scaffold", training=training)
    begin = game.server.double()
    game.play([None])
    row, velocity, gradients = begin, torch.zeros_like(begin), []
    for _ in range(3):
        at = row.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(cross_entropy(game, 0)(Row(game.layout, at)), at)
        gradients.append(gradient)
        velocity = 0.6 * velocity + gradient
        row = row - 0.2 * velocity
    weights = [1 + 0.6 + 0.36, 1 + 0.6, 1.0]
    mean = sum(w * g for w, g in zip(weights, gradients, strict=True)) / sum(weights)
    close(torch.from_numpy(game.state["controls"][0]), mean)  # type: ignore[arg-type]


def test_who_takes_no_step_keeps_its_control() -> None:
    training = SGD(lr=0.2, batch_size=15, epochs=1, drop_last=True)  # client 0 holds 12 samples
    game = Server("scaffold", training=training).play()
    assert not game.state["controls"][0].any()
    assert game.state["controls"][1].any()
    assert torch.isfinite(game.server).all()


def test_samples_may_weigh() -> None:
    by_samples = Server({"kind": "scaffold", "average": "samples"}).play([None])
    fedavg = Server("fedavg").play([None])
    assert torch.equal(by_samples.server, fedavg.server)  # controls are 0 in round 1
    assert not torch.equal(Server("scaffold").play([None]).server, fedavg.server)


def test_how_many_columns_are_done_at_a_time_makes_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do they for clients that are away."""
    together = Server({"kind": "scaffold", "correction": 0.7}, (12, 20, 7)).play([None, [0, 2], None])
    monkeypatch.setattr(scaffold, "COLUMNS", 5)
    apart = Server({"kind": "scaffold", "correction": 0.7}, (12, 20, 7)).play([None, [0, 2], None])
    for name in ("control", "controls", "global"):
        np.testing.assert_array_equal(together.state[name], apart.state[name])


@pytest.mark.filterwarnings("error")
def test_numbers_beyond_float32_are_not_warned_of_here() -> None:
    """What is recorded of a model that diverges tells it; a step of 0 has no mean gradient."""
    assert np.isnan(Server("scaffold", training=SGD(lr=1e-50)).play([None]).state["controls"]).any()


@pytest.mark.parametrize("server_lr", [1.0, 0.8])
def test_work_that_is_carried_over_counts_from_what_was_handed_out(server_lr: float) -> None:
    """Alg. 1 with each client's own x and c: those of the round in which it began, and its learning rate of then."""
    scene = timed_scene(
        (1.0, 2.0, 25.0, 14.0),
        federation={"kind": "scaffold", "server_lr": server_lr},
        clock={"kind": "seconds", "length": 10.0, "late": "carried"},
        training={"kind": "sgd", "lr": 0.2, "lr_decay": 0.9, "batch_size": 8, "epochs": 1},
    )
    now, task = begin(scene), scene.context.task
    x, c = now.federation["global"].astype(float), np.zeros(now.federation["global"].shape)
    controls, handed, late = np.zeros((4, len(x))), dict[int, tuple[np.ndarray, np.ndarray, int]](), 0
    for t in range(1, 10):
        for i in {0, 1, 2, 3} - handed.keys():
            handed[i] = (x, c, t)
        now, _ = play_round(scene, now)
        arrived = [i for i in handed if not now.clock["busy"][i]]
        change_x, change_c = np.zeros(len(x)), np.zeros(len(x))
        for i in arrived:
            x_i, c_i, began = handed.pop(i)
            late += began < t
            y = now.models.parameters[i].double().numpy()
            steps = sum(1 for _ in Job(i, i, scene.context.train[i], began).positions(task))
            new = controls[i] - c_i + (x_i - y) / (steps * 0.2 * 0.9 ** (began - 1))
            change_x += (y - x_i) / len(arrived)
            change_c += (new - controls[i]) / 4
            controls[i] = new
        x, c = x + server_lr * change_x, c + change_c
        np.testing.assert_allclose(now.federation["global"], x, rtol=0, atol=1e-5)
        np.testing.assert_allclose(now.federation["controls"], controls, rtol=0, atol=1e-4)
        np.testing.assert_allclose(now.federation["control"], c, rtol=0, atol=1e-4)
    assert late == 3 + 4  # in rounds 3, 6, 9, and 2, 4, 6, 8
