"""FedFomo against its formulas, and the affinity matrix."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fedroam.errors import InputError
from fedroam.federation.server.affinity import (
    as_uploaded,
    blend,
    distances_to,
    first_order_weights,
    nearest,
    shares_of,
)
from fedroam.federation.server.loop import ServerRound
from fedroam.learning.training import SGD
from fedroam.models import Network
from fedroam.randomness import stream
from fedroam.simulation import begin, play_round
from support.by_hand import shares, trained, validation_loss, weights_of
from support.servers import AS_IN_USE, Server, close
from support.timed import Told, timed_scene

PART = {"kind": "fedfomo", "models": 3, "explore": 0.0}
ALONE = {**PART, "models": 1, "none_better": "trained"}
SIZES = (20, 32, 26)


def server(engine: str = "reference", part: object = PART, **settings: object) -> Server:
    return Server(part, sizes=SIZES, validation=8, engine=engine, equal=False, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", ["reference", "cpu"])
@pytest.mark.parametrize(
    ("reference", "none_better"),
    [("previous", "reference"), ("previous", "trained"), ("present", "reference")],
)
def test_four_rounds_by_hand(engine: str, reference: str, none_better: str) -> None:
    """Also who is away: client 2 is not there in round 2, but its model is; client 0 returns after a pause."""
    game = server(engine, {**PART, "reference": reference, "none_better": none_better})
    rows = {i: game.models.parameters[i].double().clone() for i in range(3)}
    before, affinity, there, moved = dict(rows), np.eye(3), set[int](), 0
    for active in ([0, 1], [0, 1, 2], [1, 2], [0, 1, 2]):
        new = {}
        for i in active:
            base = before[i] if reference == "previous" else rows[i]
            others = sorted(there | {i})
            losses = [validation_loss(game, rows[j], i) for j in others]
            distances = [float((rows[j] - base).norm()) for j in others]
            weights = weights_of(validation_loss(game, base, i), losses, distances, 1e-5)
            for j, w in zip(others, weights, strict=True):
                affinity[i, j] += w
            parts = shares(weights)
            new[i] = base if none_better == "reference" else rows[i]
            if any(parts):
                new[i] = base + sum(s * (rows[j] - base) for j, s in zip(others, parts, strict=True))
                moved += any(s for j, s in zip(others, parts, strict=True) if j != i)
        for i in active:
            before[i] = new[i]
            rows[i] = trained(game, new[i], i)
            there.add(i)
        game.step(active)
        np.testing.assert_allclose(game.state["affinity"], affinity, rtol=1e-3, atol=1e-4)
        for i in range(3):
            close(game.models.parameters[i], rows[i])
    assert moved >= 3, "nobody took anything from others: nothing was tested"
    game.learner.close()


def test_with_its_own_model_alone_it_is_local() -> None:
    rounds = [None, [1], None, [0, 2]]
    alone = server(part=ALONE).play(rounds)
    local = server(part="local").play(rounds)
    assert torch.equal(alone.models.parameters, local.models.parameters)
    assert not torch.equal(server().play(rounds).models.parameters, local.models.parameters)


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_with_its_own_model_alone_it_is_local_with_batches_and_dropout(engine: str) -> None:
    rounds = [None, [1, 2], [0], None]
    alone, all_of_them, local = (
        server(engine, part, **AS_IN_USE).play(rounds) for part in (ALONE, PART, "local")
    )
    assert torch.equal(alone.models.parameters, local.models.parameters)
    assert not torch.equal(all_of_them.models.parameters, local.models.parameters)


def test_a_training_that_did_not_help_is_undone() -> None:
    """At a rate at which every step does harm, the client trains from where it began, every time."""
    harmful = SGD(lr=40.0, steps=2)
    back, on = (
        server(part={**PART, "models": 1, "none_better": how}, training=harmful)
        for how in ("reference", "trained")
    )
    start = back.models.parameters.clone()
    for game in (back, on):
        game.step()
    once = back.models.parameters.clone()
    close(on.models.parameters, once)
    for i in range(3):
        assert validation_loss(back, once[i].double(), i) > validation_loss(back, start[i].double(), i)
    for game in (back, on):
        game.step()
    close(back.models.parameters, once)
    assert not torch.equal(back.models.parameters, on.models.parameters)
    back.learner.close()
    on.learner.close()


@pytest.mark.parametrize(("models", "received"), [(2, 1), (3, 2), (9, 2), (0, 2)])
def test_models_travel(models: int, received: int) -> None:
    game = server(part={**PART, "models": models})
    each = 4 * game.layout.size
    given, done = game.step([0, 1])
    assert given.traffic.total == 0
    assert done.traffic.bytes.tolist() == [each, each]
    given, done = game.step([2])
    assert given.traffic.bytes.tolist() == [min(received, 2) * each]
    assert done.traffic.bytes.tolist() == [each + 4 * min(received, 2)]
    given, _ = game.step()
    assert given.traffic.bytes.tolist() == [received * each] * 3
    game.learner.close()


def test_without_validation_samples_it_is_refused() -> None:
    with pytest.raises(InputError, match=r"'fedfomo': .* set validation_share, e\.g\. 0\.2"):
        Server(PART, sizes=SIZES)


def test_a_client_without_validation_samples_keeps_its_model() -> None:
    game = server()
    object.__setattr__(
        game.context, "validation", (game.context.validation[0][:0], *game.context.validation[1:])
    )
    for _ in range(2):
        game.step()
    kept = trained(game, game.models.parameters[0], 0)
    game.step()
    close(game.models.parameters[0], kept)
    assert game.state["affinity"][0].tolist() == [1.0, 0.0, 0.0]
    assert game.state["affinity"][1, 0] != 0
    game.learner.close()


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_renumbered_clients_get_each_others_models(engine: str) -> None:
    order = [2, 0, 1]
    plain = Server(PART, sizes=SIZES, validation=8, engine=engine).play([None] * 3)
    other = Server(PART, sizes=SIZES, validation=8, engine=engine, order=order).play([None] * 3)
    close(other.models.parameters, plain.models.parameters[order])
    np.testing.assert_allclose(
        other.state["affinity"], plain.state["affinity"][np.ix_(order, order)], rtol=1e-3, atol=1e-4
    )


def test_engines_agree_on_a_network_with_dropout() -> None:
    slow, fast = (
        Server(PART, sizes=SIZES, validation=8, network="cnn1d", shape=(14,), engine=engine).play([None] * 3)
        for engine in ("reference", "cpu")
    )
    assert float((slow.models.parameters - fast.models.parameters).abs().max()) < 2e-4
    assert np.count_nonzero(slow.state["affinity"]) == 9


# --- the pieces ---------------------------------------------------------------------------------------------------


def test_the_nearest_by_affinity() -> None:
    row = np.array([9.0, 0.5, -1.0, 2.0, 0.5, 0.0])
    available = np.array([1, 2, 3, 4, 5])
    for k in range(20):
        draws = stream(3, "test", k)
        assert nearest(row, available, 3, draws).tolist() == [1, 3, 4]
        assert nearest(row, available, 9, draws).tolist() == [1, 2, 3, 4, 5]
        assert nearest(row, available[:0], 3, draws).tolist() == []
        assert nearest(row, available, 0, draws).tolist() == []


def test_ties_are_broken_evenly() -> None:
    row = np.array([1.0, 0.0, 0.0, 0.0])
    found = [int(nearest(row, np.array([1, 2, 3]), 1, stream(3, "test", k))[0]) for k in range(600)]
    counts = np.bincount(found, minlength=4)
    assert counts[0] == 0
    assert (abs(counts[1:] - 200) < 50).all()  # four standard deviations


def test_exploring_takes_others_as_well() -> None:
    row = np.arange(10.0)
    drawn = [nearest(row, np.arange(10), 4, stream(3, "test", k), 0.3).tolist() for k in range(500)]
    assert all(len(set(some)) == 4 for some in drawn)
    new = np.mean([len(set(some) - {6, 7, 8, 9}) for some in drawn])
    # d of 4 places are drawn with the binomial's probability, each new with probability 6 / (6 + d).
    expected = sum(math.comb(4, d) * 0.3**d * 0.7 ** (4 - d) * d * 6 / (6 + d) for d in range(5))
    assert abs(new - expected) < 0.15
    always = np.concatenate([nearest(row, np.arange(10), 4, stream(3, "test", k), 1.0) for k in range(500)])
    assert (abs(np.bincount(always) - 200) < 50).all()


def test_first_order_weights() -> None:
    losses, distances = (
        np.array([1.0, 3.0, 2.0, np.nan, np.inf, 0.5]),
        np.array([2.0, 0.5, 1.0, 1.0, 1.0, 0.0]),
    )
    weights = first_order_weights(2.0, losses, distances)
    assert weights.tolist() == [0.5, -2.0, 0.0, 0.0, 0.0, 0.0]
    assert first_order_weights(2.0, losses, distances, 2.0).tolist() == [0.25, -0.4, 0.0, 0.0, 0.0, 0.0]
    assert not first_order_weights(np.nan, losses, distances).any()


def test_shares_are_the_positive_parts() -> None:
    assert shares_of(np.array([3.0, -2.0, 1.0])).tolist() == [0.75, 0.0, 0.25]
    assert shares_of(np.array([-3.0, 0.0])).tolist() == [0.0, 0.0]
    assert shares_of(np.zeros(0)).tolist() == []


def test_blends_and_distances() -> None:
    base, others = torch.tensor([1.0, 2.0]), torch.tensor([[4.0, 6.0], [1.0, 0.0]])
    assert distances_to(base, others).tolist() == [5.0, 2.0]
    assert blend(base, others, np.array([0.25, 0.75])).tolist() == [1.75, 1.5]
    assert torch.equal(blend(base, others, np.zeros(2)), base)


def test_an_undone_training_leaves_no_trace_in_buffers() -> None:
    """Steps that are far too long: every training is undone, and the next one begins where the last one did."""

    def network() -> Network:
        return Network(nn.Sequential(nn.Linear(12, 3), nn.BatchNorm1d(3)), nn.Linear(3, 10))

    game = server(part={**PART, "models": 1}, network=network, training=SGD(lr=50.0, steps=2))
    begun, undone = (
        {i: (game.models.parameters[i].clone(), game.models.buffers[i].clone()) for i in range(3)},
        0,
    )
    for _ in range(4):
        trained_buffers = game.models.buffers.clone()
        game.step([0, 1, 2])
        now, buffers = (torch.from_numpy(game.state[name]) for name in ("before", "buffers_before"))
        for i, (parameters, before) in begun.items():
            if torch.equal(now[i], parameters) and game.round > 1:
                assert torch.equal(buffers[i], before)
                assert not torch.equal(buffers[i], trained_buffers[i])
                undone += 1
            begun[i] = now[i].clone(), buffers[i].clone()
    assert undone > 3


@pytest.mark.parametrize("late", ["dropped", "carried"])
@pytest.mark.parametrize("kind", ["fedfomo", "mocfl"])
def test_what_has_not_arrived_is_not_handed_on(kind: str, late: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a clock others get what a client has uploaded last, not what it trains, or could not send in time."""
    fast = timed_scene(
        (1.0,) * 4,
        federation=kind,
        model={"kind": "mlp", "hidden": [8]},
        clock={"kind": "seconds", "length": 10.0, "late": late},
        training={"kind": "sgd", "lr": 0.2, "batch_size": 8, "epochs": 1},
        validation_share=0.2,
    )
    assert fast.timing is not None
    slow = replace(fast, timing=replace(fast.timing, compute=Told(told=(1.0, 25.0, 2.0, 14.0))))
    uploads, compared, method = dict[int, torch.Tensor](), 0, type(fast.parts.federation)

    def aggregate(self: object, round: ServerRound) -> None:
        aggregated(self, round)
        uploads.update({i: round.models.parameters[i].clone() for i in round.clients.tolist()})

    def broadcast(self: object, round: ServerRound) -> None:
        nonlocal compared
        served, rows = as_uploaded(round)
        for i, upload in uploads.items():
            assert torch.equal(served.parameters[rows[i]], upload)
            compared += not torch.equal(round.models.parameters[i], upload)
        handed_out(self, round)

    aggregated, handed_out = method.aggregate, method.broadcast
    monkeypatch.setattr(method, "aggregate", aggregate)
    monkeypatch.setattr(method, "broadcast", broadcast)
    now = begin(fast)
    for t in range(1, 10):
        now, _ = play_round(fast if t < 3 else slow, now)
    assert compared > 3
