"""FedProto against its formulas."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from fedroam.errors import InputError
from fedroam.federation.server.fedproto import Nearest, sums_by_class
from fedroam.models import Network
from support.by_hand import means
from support.learners import CLASSES
from support.servers import AS_IN_USE, Row, Server, close, cross_entropy, descend, same

PART = {"kind": "fedproto", "strength": 0.7}


def drawn_to(game: Server, client: int, prototypes: dict[int, torch.Tensor]) -> Any:
    """Cross-entropy + 0.7 * mean over samples and features of (z - prototype of its class)^2."""
    x, y = game.xy(client)

    def loss(row: Row) -> torch.Tensor:
        z = row.features(x)
        away = [
            ((z[n] - prototypes[int(c)]) ** 2).mean() if int(c) in prototypes else torch.tensor(0.0)
            for n, c in enumerate(y)
        ]
        return cross_entropy(game, client)(row) + 0.7 * torch.stack([a.double() for a in away]).mean()

    return loss


@pytest.mark.parametrize("engine", ["reference", "cpu"])
@pytest.mark.parametrize("weights", ["clients", "samples"])
@pytest.mark.parametrize("collected", ["after", "during"])
def test_three_rounds_by_hand(engine: str, weights: str, collected: str) -> None:
    part = {**PART, "weights": weights, "collected": collected}
    game = Server(part, sizes=(12, 20, 9), engine=engine, equal=False)
    prototypes: dict[int, torch.Tensor] = {}
    half_known = False
    for active in ([0], [0, 2], [1, 2]):
        for i in active:
            mine = set(np.flatnonzero(game.context.class_counts[i]).tolist())
            half_known |= bool(mine & set(prototypes)) and bool(mine - set(prototypes))
        rows = {i: game.models.parameters[i].clone() for i in active}
        first = means(game, rows)  # of two steps with all samples: before the first, before the second
        rows = {
            i: descend(game.layout, row, drawn_to(game, i, prototypes), steps=1) for i, row in rows.items()
        }
        second = means(game, rows)
        rows = {
            i: descend(game.layout, row, drawn_to(game, i, prototypes), steps=1) for i, row in rows.items()
        }
        game.step(active)
        for i, row in rows.items():
            close(game.models.parameters[i], row)
        pairs = means(game, rows)
        if collected == "during":
            pairs = {key: (first[key] + second[key]) / 2 for key in pairs}
        for c in range(CLASSES):
            holders = [i for i in active if (i, c) in pairs]
            counts = [1 if weights == "clients" else int(game.context.class_counts[i, c]) for i in holders]
            if holders:
                total = sum(n * pairs[i, c] for i, n in zip(holders, counts, strict=True))
                prototypes[c] = torch.as_tensor(total / sum(counts))
        assert game.state["known"].tolist() == [c in prototypes for c in range(CLASSES)]
        for c, prototype in prototypes.items():
            close(torch.from_numpy(game.state["prototypes"][c]), prototype)
    assert half_known, "nobody held classes with and without a prototype: the mean was not tested"
    game.learner.close()


def test_a_prototype_that_nobody_active_holds_stays() -> None:
    game = Server(PART, sizes=(12, 5))
    game.step()
    before = game.state["prototypes"].copy()
    lost = (game.context.class_counts[0] > 0) & (game.context.class_counts[1] == 0)
    shared = game.context.class_counts[1] > 0
    assert lost.any()
    game.step([1])
    assert (game.state["known"] == (game.context.class_counts.sum(0) > 0)).all()
    assert np.array_equal(game.state["prototypes"][lost], before[lost])
    assert (game.state["prototypes"][shared] != before[shared]).any(1).all()
    game.learner.close()


def test_without_the_pull_it_trains_as_local_does() -> None:
    rounds = [None, [1], None]
    free = Server({**PART, "strength": 0.0}, equal=False).play(rounds)
    local = Server("local", equal=False).play(rounds)
    assert torch.equal(free.models.parameters, local.models.parameters)
    held = Server(PART, equal=False).play(rounds)
    assert float((held.models.parameters - local.models.parameters).abs().max()) > 1e-3


@pytest.mark.parametrize("engine", ["reference", "cpu"])
@pytest.mark.parametrize("collected", ["after", "during"])
def test_without_the_pull_it_trains_as_local_does_with_batches_and_dropout(
    engine: str, collected: str
) -> None:
    rounds, sizes = [None, [1, 2], [0]], (20, 33, 7)
    part = {**PART, "collected": collected}
    free, held, local = (
        Server(part, sizes, engine=engine, **AS_IN_USE).play(rounds)
        for part in ({**part, "strength": 0.0}, part, "local")
    )
    assert same(free.models.parameters, local.models.parameters, engine)
    assert not same(held.models.parameters, local.models.parameters, engine)


def test_what_is_met_is_added_up_in_one_order_on_an_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same sums as by `index_add_`, which adds in any there; many models at once, too."""
    draws = torch.Generator().manual_seed(5)
    features = torch.randn(3, 9, 4, generator=draws)
    y = torch.randint(0, CLASSES, (3, 9), generator=draws)
    y[:, 1] = y[:, 0]
    sums, met = torch.func.vmap(lambda features, y: sums_by_class(features, y, CLASSES))(features, y)
    for k in range(3):
        torch.testing.assert_close(sums[k], torch.zeros(CLASSES, 4).index_add_(0, y[k], features[k]))
        assert met[k].tolist() == np.bincount(y[k].numpy(), minlength=CLASSES).tolist()

    asked: list[str] = []

    class Noted(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            asked.append(str(func))
            return func(*args, **(kwargs or {}))

    monkeypatch.setattr(torch, "autocast", lambda *given, **named: contextlib.nullcontext())
    network = Nearest(Network(nn.Linear(3, 4), nn.Linear(4, CLASSES)), collects=True)
    for device in ("cpu", "meta"):
        asked.clear()
        with Noted():
            network.to(device).meet(features[0].to(device), y[0].to(device))
        assert any("index_add" in name for name in asked) == (device == "cpu")
    assert asked


def informed(network: nn.Module, prototypes: dict[int, list[float]]) -> Any:
    network = Nearest(network)
    for c, at in prototypes.items():
        network.prototypes[c] = torch.tensor(at)
        network.known[c] = True
    return network.eval()


def identity() -> Network:
    return Network(nn.Identity(), nn.Linear(2, 4))


def test_the_nearest_prototype_answers() -> None:
    network = informed(identity(), {0: [0.0, 0.0], 2: [4.0, 0.0], 3: [0.0, 6.0]})
    logits = network(torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 5.0]]))
    assert logits.argmax(1).tolist() == [0, 2, 3]
    expected = [[-0.5, -19.5, -4.5, -18.5], [-4.5, -23.5, -0.5, -22.5], [-12.5, -21.5, -20.5, -0.5]]
    torch.testing.assert_close(logits, torch.tensor(expected))  # class 1 is 1 behind the farthest


def test_the_head_answers_in_training_and_without_prototypes() -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    network = informed(identity(), {})
    assert torch.equal(network(x), network.head(x))
    network = informed(identity(), {1: [1.0, 2.0]})
    assert torch.equal(network.train()(x), network.head(x))
    assert network.eval()(x).argmax(1).tolist() == [1, 1]


@pytest.mark.parametrize("candidates", ["known", "held"])
@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_judged_by_prototypes_and_by_the_own_head(engine: str, candidates: str) -> None:
    game = Server({**PART, "candidates": candidates}, sizes=(30, 4), engine=engine, equal=False)
    before = game.evaluation_models()
    assert torch.equal(before["prototypes"].models.buffers, before["own_head"].models.buffers)
    for _ in range(3):
        game.step()
    judged, task = game.evaluation_models(), game.problem.task
    assert list(judged) == ["prototypes", "own_head"]
    found = {
        name: game.learner.evaluate(how.models, how.row.tolist(), task.x, task.y).correct
        for name, how in judged.items()
    }
    everything = np.flatnonzero(game.state["known"])
    held = [np.flatnonzero(counts) for counts in game.context.class_counts]
    assert len(held[1]) < len(everything), "nothing is left out"
    for i in (0, 1):
        known = everything if candidates == "known" else held[i]
        prototypes = torch.from_numpy(game.state["prototypes"][known]).double()
        row = Row(game.layout, game.models.parameters[i].double())
        z = row.features(task.x.double())
        answer = known[torch.cdist(z, prototypes).argmin(1).numpy()]
        assert found["prototypes"][i] == (answer == task.y.numpy()).sum()
        assert found["own_head"][i] == int((row.logits(z).argmax(1) == task.y).sum())
    game.learner.close()


def test_only_prototypes_travel() -> None:
    game = Server(PART, sizes=(12, 5, 9))
    held = game.context.class_counts > 0
    each = 4 * (3 + 1)
    given, done = game.step([0, 1])
    assert given.traffic.total == 0
    assert done.traffic.bytes.tolist() == [each * held[0].sum(), each * held[1].sum()]
    given, done = game.step([2])
    assert given.traffic.bytes.tolist() == [each * (held[0] | held[1]).sum()]
    assert done.traffic.bytes.tolist() == [each * held[2].sum()]
    game.learner.close()


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_renumbered_clients_get_each_others_models(engine: str) -> None:
    order = [2, 0, 1]
    plain = Server(PART, sizes=(12, 20, 9), engine=engine).play()
    other = Server(PART, sizes=(12, 20, 9), engine=engine, order=order).play()
    close(other.models.parameters, plain.models.parameters[order])
    close(torch.from_numpy(other.state["prototypes"]), torch.from_numpy(plain.state["prototypes"]))


def test_engines_agree_on_a_network_with_dropout() -> None:
    found = [
        Server(PART, sizes=(12, 20), network="cnn1d", shape=(14,), engine=engine).play()
        for engine in ("reference", "cpu")
    ]
    slow, fast = (game.models.parameters for game in found)
    assert float((slow - fast).abs().max()) < 2e-5


def test_a_model_without_a_head_is_refused() -> None:
    with pytest.raises(InputError, match="no submodule extractor and no head"):
        Nearest(nn.Sequential(nn.Linear(12, 10)))
    with pytest.raises(InputError, match="head has no linear layer"):
        Nearest(Network(nn.Linear(12, 10), nn.BatchNorm1d(10)))


def test_the_pull_is_a_mean_over_samples() -> None:
    game = Server(PART)
    objective: Any = game.problem.task.objective
    module: Any = game.problem.task.network()
    x, y = game.problem.task.x[:8], game.problem.task.y[:8]
    handed = {"prototypes": torch.ones(CLASSES, 3), "known": torch.arange(CLASSES) % 2 == 0}
    pieces = [objective.loss(module, x[k : k + 4], y[k : k + 4], **handed) for k in (0, 4)]
    torch.testing.assert_close(objective.loss(module, x, y, **handed), sum(pieces) / 2)
    with torch.no_grad():
        assert functional.cross_entropy(module(x), y) < objective.loss(module, x, y, **handed)
    game.learner.close()
