"""MOON against its formula."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from fedroam.errors import InputError
from support.servers import Row, Server, close, cross_entropy, descend


def contrasted(game: Server, client: int, server: torch.Tensor, previous: torch.Tensor) -> object:
    """The client's loss, with the contrastive term written as it is printed (Eq. 3)."""
    x, y = game.xy(client)
    z_global = Row(game.layout, server).features(x)
    z_previous = Row(game.layout, previous).features(x)

    def loss(row: Row) -> torch.Tensor:
        z = row.features(x)
        near = torch.exp(functional.cosine_similarity(z, z_global) / 0.4)
        far = torch.exp(functional.cosine_similarity(z, z_previous) / 0.4)
        term = -torch.log(near / (near + far)).mean()
        return functional.cross_entropy(row.logits(z), y) + 2.0 * term

    return loss


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_features_are_contrasted(engine: str) -> None:
    game = Server({"kind": "moon", "mu": 2.0, "temperature": 0.4}, engine=engine)
    server = game.server.double()
    previous = [server, server]
    for active in ([0, 1], [1], [0, 1]):  # client 0's previous model is then two rounds old
        for i in active:
            loss = contrasted(game, i, server, previous[i])
            previous[i] = descend(game.layout, server, loss)  # type: ignore[arg-type]
        server = sum(s * previous[i] for s, i in zip(game.shares(active), active, strict=True))  # type: ignore[assignment]
        given, done = game.step(active)
        close(game.server, server)
        assert given.traffic.total == done.traffic.total == len(active) * 4 * game.layout.size
    game.learner.close()


def test_there_is_nothing_to_contrast_in_the_first_round() -> None:
    """Both fixed models are the start model: the term is log 2 and pulls nowhere."""
    game = Server("moon").play([None])
    expected = [descend(game.layout, Server("fedavg").server, cross_entropy(game, i)) for i in (0, 1)]
    close(game.server, 12 / 32 * expected[0] + 20 / 32 * expected[1])


def test_fixed_models_are_asked_once_a_round_without_dropout() -> None:
    """The features handed to a job are those of the extractor in evaluation mode."""
    game = Server("moon", network="cnn1d", shape=(14,))
    for _ in range(2):
        before = game.models.parameters.clone()
        given, _ = game.step()
        network = game.problem.task.network().eval()
        for job in given.jobs:
            x = game.problem.task.x[torch.from_numpy(job.samples)]
            start = torch.zeros(game.layout.size)
            start[:] = before[job.row]
            game.layout.read(network, start, torch.zeros(0))
            with torch.no_grad():
                expected = network.extractor(x)  # type: ignore[operator]
            torch.testing.assert_close(job.each["z_previous"], expected)
    game.learner.close()


def test_a_model_without_extractor_is_refused() -> None:
    with pytest.raises(InputError, match="no submodule extractor and no head"):
        Server("moon", network=lambda: nn.Sequential(nn.Linear(12, 10)))
