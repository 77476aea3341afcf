"""FedProx against its formula."""

from __future__ import annotations

import pytest

from support.servers import Server, close, cross_entropy, descend


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_clients_are_held_to_what_they_were_given(engine: str) -> None:
    """g + mu (w - w_global), two steps a round, two rounds."""
    game = Server({"kind": "fedprox", "mu": 0.3}, engine=engine)
    server = game.server.double()
    for _ in range(2):
        begin = server
        own = [
            descend(game.layout, begin, cross_entropy(game, i), lambda w, begin=begin: 0.3 * (w - begin))
            for i in (0, 1)
        ]
        server = 12 / 32 * own[0] + 20 / 32 * own[1]
        given, done = game.step()
        close(game.server, server)
        assert given.traffic.total == done.traffic.total == 2 * 4 * game.layout.size
    game.learner.close()


def test_the_pull_shortens_the_way() -> None:
    def way(mu: float) -> float:
        game = Server({"kind": "fedprox", "mu": mu})
        begin = game.server
        return float((game.play([None]).server - begin).norm())

    assert way(1.0) < way(0.1) < way(0.0)


def test_judged_with_the_servers_model() -> None:
    game = Server("fedprox").play([[1]])
    assert list(game.evaluation_models()) == ["global"]
    close(game.evaluation_models()["global"].models.parameters[0], game.server)
