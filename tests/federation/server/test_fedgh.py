"""FedGH against its formulas."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from fedroam.errors import InputError
from fedroam.models import Network
from support.by_hand import means, taught, trained
from support.servers import Server, close

SETTINGS = {"kind": "fedgh", "server_lr": 0.3, "server_epochs": 2}


@pytest.mark.parametrize("engine", ["reference", "cpu"])
@pytest.mark.parametrize("batch", [0, 1, 4])
def test_two_rounds_by_hand(engine: str, batch: int) -> None:
    game = Server({**SETTINGS, "server_batch": batch}, engine=engine, equal=False)
    head = game.layout.columns("head")
    for t in (1, 2):
        rows = {i: game.models.parameters[i].clone() for i in (0, 1)}
        server = game.server
        for i, row in rows.items():
            row[head] = server
            rows[i] = trained(game, row, i)
        game.step()
        for i, row in rows.items():
            close(game.models.parameters[i], row)
        pairs = means(game, rows)
        close(game.server, taught(game, server, pairs, lr=0.3, epochs=2, batch=batch, round=t))
    game.learner.close()


def test_the_servers_head_is_nobodys() -> None:
    game = Server(SETTINGS, equal=False)
    head = game.layout.columns("head")
    before = game.server
    for row in game.models.parameters:
        assert not torch.equal(row[head], before)
    given, _ = game.step(active=[1])
    assert [job.client for job in given.jobs] == [1]
    assert not torch.equal(game.server, before)
    assert not torch.equal(game.models.parameters[1, head], game.server)


def test_who_is_away_keeps_everything() -> None:
    game = Server(SETTINGS, sizes=(12, 20, 9), equal=False)
    kept = game.models.parameters[2].clone()
    game.play([[0, 1], [0, 1]])
    assert torch.equal(game.models.parameters[2], kept)


def test_the_head_travels_down_and_class_means_up() -> None:
    game = Server(SETTINGS, sizes=(12, 20, 9))
    given, done = game.step([0, 2])
    assert given.traffic.receiver.tolist() == [0, 2]
    assert given.traffic.bytes.tolist() == [4 * (3 * 10 + 10)] * 2
    held = (game.context.class_counts > 0).sum(1)
    assert done.traffic.sender.tolist() == [0, 2]
    assert done.traffic.bytes.tolist() == [4 * (3 + 1) * held[0], 4 * (3 + 1) * held[2]]


def test_judged_with_the_servers_head_and_with_the_own_one() -> None:
    game = Server(SETTINGS, equal=False).play()
    head, judged = game.layout.columns("head"), game.evaluation_models()
    assert list(judged) == ["global_head", "own_head"]
    for how in judged.values():
        assert how.row.tolist() == [0, 1]
    broadcast, own = judged["global_head"].models.parameters, judged["own_head"].models.parameters
    assert torch.equal(own, game.models.parameters)
    assert torch.equal(broadcast[:, : head.start], own[:, : head.start])
    for row in broadcast:
        assert torch.equal(row[head], game.server)


def test_without_the_servers_training_everybody_begins_with_the_same_head_each_round() -> None:
    game = Server({**SETTINGS, "server_epochs": 0})
    before = game.server
    assert torch.equal(game.play().server, before)


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_renumbered_clients_get_each_others_models(engine: str) -> None:
    order = [2, 0, 1]
    part = {**SETTINGS, "server_batch": 0}
    plain = Server(part, sizes=(12, 20, 9), engine=engine).play()
    other = Server(part, sizes=(12, 20, 9), engine=engine, order=order).play()
    close(other.models.parameters, plain.models.parameters[order])
    close(other.server, plain.server)


def test_running_statistics_of_the_extractor_stay_with_the_client() -> None:
    def normed() -> Network:
        return Network(nn.Sequential(nn.Linear(12, 3), nn.BatchNorm1d(3)), nn.Linear(3, 10))

    game = Server(SETTINGS, network=normed, equal=False)
    game.step()
    kept = game.models.buffers.clone()
    assert not torch.equal(kept[0], kept[1])
    game.step([1])
    assert torch.equal(game.models.buffers[0], kept[0])
    assert np.array_equal(
        game.evaluation_models()["global_head"].models.buffers.numpy(), game.models.buffers.numpy()
    )
    game.learner.close()


def test_a_model_without_a_head_is_refused() -> None:
    with pytest.raises(InputError, match="no parameters under 'head'"):
        Server(SETTINGS, network=lambda: nn.Sequential(nn.Linear(12, 10)))
