"""Ditto against its formula."""

from __future__ import annotations

import pytest
import torch

from support.servers import Server, close, cross_entropy, descend


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_personal_models_are_held_to_the_servers(engine: str) -> None:
    """v <- v - lr (grad F(v) + lambda (v - w)), w as handed out; the server learns as in FedAvg."""
    game = Server({"kind": "ditto", "strength": 0.7}, engine=engine)
    server = game.server.double()
    personal = [server, server]
    for active in ([0, 1], [1], [0, 1]):
        begin = server
        for i in active:
            personal[i] = descend(
                game.layout,
                personal[i],
                cross_entropy(game, i),
                lambda v, begin=begin: 0.7 * (v - begin),
            )
        own = [descend(game.layout, begin, cross_entropy(game, i)) for i in active]
        server = sum(share * w for share, w in zip(game.shares(active), own, strict=True))  # type: ignore[assignment]
        given, done = game.step(active)
        assert [(job.client, job.row) for job in given.jobs] == [
            *((i, i) for i in active),
            *((i, 2 + i) for i in active),
        ]
        assert given.traffic.total == done.traffic.total == len(active) * 4 * game.layout.size
        close(game.server, server)
        judged = game.evaluation_models()
        assert list(judged) == ["personal", "global"]
        close(judged["personal"].models.parameters, torch.stack(personal))
        close(judged["global"].models.parameters[0], server)
    game.learner.close()


def test_a_strong_pull_makes_personal_models_the_servers() -> None:
    def apart(strength: float) -> float:
        game = Server({"kind": "ditto", "strength": strength}).play([None] * 4)
        return float((game.models.parameters[2:] - game.server).norm())

    assert apart(1.5) < apart(0.5) < apart(0.0)
