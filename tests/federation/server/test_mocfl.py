"""MoCFL against its formulas, step by step."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedroam.errors import FedroamError, InputError
from fedroam.federation.server.mocfl import kernel, median_distance
from fedroam.runner import run
from support.by_hand import Pairs, means, shares, taught, trained, validation_loss, weights_of
from support.servers import AS_IN_USE, Server, close
from support.tiny import tiny

PART: dict[str, Any] = {
    "kind": "mocfl",
    "neighbours": 3,
    "server_lr": 0.3,
    "server_epochs": 2,
    "server_batch": 0,
}
SIZES = (20, 32, 26)
ROUNDS = ([0, 1], [0, 1, 2], [1, 2], [0, 1, 2])


def server(part: Any = PART, engine: str = "reference", **settings: Any) -> Server:
    return Server(part, sizes=SIZES, validation=8, engine=engine, **{"equal": False, **settings})


def median(numbers: list[float]) -> float:
    """The middle one, or the mean of the two in the middle."""
    ordered, n = sorted(numbers), len(numbers)
    return (ordered[(n - 1) // 2] + ordered[n // 2]) / 2


class ByHand:
    """The method once more, by plain loops in float64."""

    def __init__(self, game: Server, **options: Any) -> None:
        self.game, self.options = game, {**PART, **options}
        self.rows = {i: game.models.parameters[i].double().clone() for i in range(3)}
        self.server, self.affinity, self.there = game.server.double(), np.eye(3), set[int]()
        self.loss_before: dict[int, float] = {}
        self.history: Pairs = {}
        self.round, self.replaced, self.mmd = 0, [], []  # type: ignore[var-annotated]

    def step(self, active: list[int]) -> None:
        self.round += 1
        game, head = self.game, self.game.layout.columns("head")
        new = {i: self.blended(i) for i in active}
        for i, row in new.items():
            if self.options.get("head") != "own":
                row[head] = self.server
            self.loss_before[i] = validation_loss(game, row, i)
            self.rows[i] = trained(game, row, i)
        self.there |= set(active)
        fresh = means(game, {i: self.rows[i] for i in active})
        self.mmd = []
        pairs = {(i, c): self.represented(i, c, fresh) for i, c in fresh}
        self.history |= fresh
        o = self.options
        if o.get("head") == "own":
            return
        settings = {"lr": o["server_lr"], "epochs": o["server_epochs"], "batch": o["server_batch"]}
        self.server = taught(game, self.server, pairs, round=self.round, **settings)

    def blended(self, i: int) -> torch.Tensor:
        """Steps 1 to 5."""
        game, rows, extractor = self.game, self.rows, self.game.layout.columns("extractor")
        others = sorted(self.there - {i})
        row = rows[i].clone()
        losses, distances = [], []
        for j in others:
            candidate = rows[i].clone()
            candidate[extractor] = rows[j][extractor]
            losses.append(validation_loss(game, candidate, i))
            distances.append(math.sqrt(float(((rows[j] - rows[i])[extractor] ** 2).sum())))
        reference = validation_loss(game, rows[i], i)
        if self.options.get("reference") == "previous":
            reference = self.loss_before.get(i, reference)
        weights = weights_of(reference, losses, distances, 0.0)
        parts = shares(weights)
        for j, w, s in zip(others, weights, parts, strict=True):
            kind = self.options.get("affinity", "signed")
            self.affinity[i, j] += {"signed": w, "clipped": max(w, 0.0), "normalised": s}[kind]
            row[extractor] += s * (rows[j] - rows[i])[extractor]
        self.replaced.append(any(parts))
        return row

    def represented(self, i: int, c: int, fresh: Pairs) -> torch.Tensor:
        """Steps 7 and 8."""
        kind = self.options.get("history", "far_counts_less")
        if kind == "none" or (i, c) not in self.history:
            return fresh[i, c]
        own = [vector for (client, _), vector in fresh.items() if client == i]
        apart = [float((a - b).norm()) for k, a in enumerate(own) for b in own[:k]]
        width = self.options.get("bandwidth") or (median(apart) if apart else 1.0)
        old = self.history[i, c]
        m = 1 - math.exp(-float(((fresh[i, c] - old) ** 2).sum()) / (2 * width**2))
        self.mmd.append(m)
        m = m if kind == "far_counts_less" else 1 - m
        return (1 - m) * fresh[i, c] + m * old


OPTIONS: list[dict[str, Any]] = [
    {},
    {"reference": "previous", "affinity": "clipped", "history": "far_counts_more"},
    {"affinity": "normalised", "history": "none", "server_batch": 4},
    {"bandwidth": 0.4, "server_epochs": 1},
    {"head": "own", "history": "none"},
]


@pytest.mark.parametrize("engine", ["reference", "cpu"])
@pytest.mark.parametrize("options", OPTIONS)
def test_four_rounds_by_hand(engine: str, options: dict[str, Any]) -> None:
    """Client 2 comes later; client 0 pauses, and its extractor is there meanwhile; then it finds its history."""
    game = server({**PART, **options}, engine)
    hand = ByHand(game, **options)
    for active in ROUNDS:
        hand.replaced = []
        hand.step(active)
        _, done = game.step(active)
        np.testing.assert_allclose(game.state["affinity"], hand.affinity, rtol=1e-3, atol=1e-4)
        for i in range(3):
            close(game.models.parameters[i], hand.rows[i])
        close(game.server, hand.server)
        assert done.facts["replaced"] == pytest.approx(np.mean(hand.replaced))
        if hand.mmd and options.get("history") != "none":
            assert done.facts["mmd"] == pytest.approx(np.mean(hand.mmd), rel=1e-3)
            assert np.mean(hand.mmd) > 0.01, "nothing drifted: nothing was tested"
        else:
            assert math.isnan(done.facts["mmd"])
    assert any(hand.replaced), "no extractor was replaced: nothing was tested"
    game.learner.close()


@pytest.mark.parametrize("made", [{}, AS_IN_USE])
@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_without_its_steps_it_is_fedgh(engine: str, made: dict[str, Any]) -> None:
    """Bit for bit; each of the two additions alone makes a difference."""
    settings = {"server_lr": 0.3, "server_epochs": 2, "server_batch": 5}
    base = server({"kind": "fedgh", **settings}, engine, **made).play(ROUNDS)

    def played(neighbours: int, history: str) -> Server:
        part = {"kind": "mocfl", "neighbours": neighbours, "history": history, **settings}
        return server(part, engine, **made).play(ROUNDS)

    bare = played(0, "none")
    assert torch.equal(bare.models.parameters, base.models.parameters)
    assert torch.equal(bare.server, base.server)
    assert sorted(bare.state) == sorted(base.state)
    for neighbours, history in ((3, "none"), (0, "far_counts_less")):
        assert not torch.equal(played(neighbours, history).server, base.server)


def test_without_neighbours_it_sends_what_fedgh_sends_and_needs_no_validation() -> None:
    games = [Server(part, sizes=SIZES) for part in ({**PART, "neighbours": 0}, "fedgh")]
    sent = [
        [(g.traffic.bytes.tolist(), d.traffic.bytes.tolist()) for g, d in [game.step()]] for game in games
    ]
    assert sent[0] == sent[1]


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_with_its_own_head_and_no_neighbours_each_client_learns_alone(engine: str) -> None:
    """Bit for bit; nothing is sent, and whatever history says, no class means are made."""
    alone = server({**PART, "neighbours": 0, "head": "own"}, engine).play(ROUNDS)
    base = server("local", engine).play(ROUNDS)
    assert torch.equal(alone.models.parameters, base.models.parameters)
    judged = alone.part.evaluation_models(alone.models, alone.state, alone.context)
    assert list(judged) == ["own_head"]
    assert judged["own_head"].models is alone.models
    fresh = server({**PART, "neighbours": 0, "head": "own"}, engine)
    given, done = fresh.step()
    assert len(given.traffic.bytes) == len(done.traffic.bytes) == 0
    fresh.learner.close()


def test_what_travels() -> None:
    own = server({**PART, "neighbours": 1, "head": "own"})
    own.step([0, 1])
    given, done = own.step([2])
    assert given.traffic.bytes.tolist() == [4 * (12 * 3 + 3)]
    assert done.traffic.bytes.tolist() == [4 * (12 * 3 + 3) + 4]
    own.learner.close()
    game = server({**PART, "neighbours": 1})
    extractor, head, held = 4 * (12 * 3 + 3), 4 * (3 * 10 + 10), (game.context.class_counts > 0).sum(1)
    pairs = held * 4 * (3 + 1)
    given, done = game.step([0, 1])
    assert given.traffic.bytes.tolist() == [head, head]
    assert done.traffic.bytes.tolist() == [extractor + pairs[0], extractor + pairs[1]]
    given, done = game.step([2])
    assert given.traffic.bytes.tolist() == [head + extractor]
    assert done.traffic.bytes.tolist() == [extractor + 4 + pairs[2]]
    game.learner.close()


def test_the_kernel_by_numbers() -> None:
    a, b = np.array([[0.0, 0.0], [1.0, 1.0]]), np.array([[3.0, 4.0], [1.0, 1.0]])
    assert kernel(a, b, 5.0).tolist() == [pytest.approx(math.exp(-0.5)), 1.0]
    assert 1 - kernel(a, b, 5.0)[0] == pytest.approx(0.393469, abs=1e-6)


def test_the_width_is_the_median_distance() -> None:
    assert median_distance(np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])) == pytest.approx(math.sqrt(18))
    assert median_distance(np.array([[0.0, 0.0], [3.0, 4.0]])) == 5.0
    assert median_distance(np.array([[3.0, 4.0]])) == 1.0
    assert median_distance(np.zeros((0, 2))) == 1.0
    assert median_distance(np.ones((4, 2))) == 1.0


def test_one_classs_divergence_is_not_constant() -> None:
    """With the width from the two points themselves it would always be 1 - exp(-1/2)."""
    found = [
        1 - float(kernel(np.zeros(2), np.full(2, d), median_distance(np.full((1, 2), d)))) for d in (0.1, 1)
    ]
    assert found == [pytest.approx(1 - math.exp(-0.01)), pytest.approx(1 - math.exp(-1))]


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_renumbered_clients_get_each_others_models(engine: str) -> None:
    order = [2, 0, 1]
    plain = server(engine=engine, equal=True).play([None] * 3)
    other = server(engine=engine, equal=True, order=order).play([None] * 3)
    close(other.models.parameters, plain.models.parameters[order])
    close(other.server, plain.server)
    expected = plain.state["affinity"][np.ix_(order, order)]
    np.testing.assert_allclose(other.state["affinity"], expected, rtol=1e-3, atol=1e-4)
    assert np.count_nonzero(expected) == 9


def test_engines_agree_on_a_network_with_dropout() -> None:
    slow, fast = (
        server(engine=engine, network="cnn1d", shape=(14,)).play([None] * 3)
        for engine in ("reference", "cpu")
    )
    assert float((slow.models.parameters - fast.models.parameters).abs().max()) < 2e-4
    close(slow.server, fast.server)
    assert np.count_nonzero(slow.state["affinity"]) == 9


def test_few_candidates_at_a_time_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from fedroam.federation.server import mocfl

    whole = server().play([None] * 3)
    monkeypatch.setattr(mocfl, "CANDIDATES", 2 * whole.models.bytes_each)
    pieces = server().play([None] * 3)
    assert torch.equal(whole.models.parameters, pieces.models.parameters)


def test_what_it_needs_is_said() -> None:
    with pytest.raises(InputError, match=r"'mocfl': .* set validation_share, e\.g\. 0\.2"):
        Server(PART, sizes=SIZES)
    with pytest.raises(InputError, match="no parameters under 'extractor'"):
        server(network="softmax_regression")


def test_the_run_folder_keeps_the_affinities_and_resumes_them(tmp_path: Path) -> None:
    own = {"model": {"kind": "mlp", "hidden": (6,)}, "validation_share": 0.2, "start_models": "independent"}
    experiment = tiny(federation="mocfl", **own)
    whole = run(experiment, tmp_path / "whole").matrices
    assert list(whole.columns) == ["round", "name", "i", "j", "value"]
    assert sorted(set(whole["round"])) == [0, 2, 4]
    assert set(whole["name"]) == {"affinity"}
    first = whole[whole["round"] == 0]
    assert first[["i", "j", "value"]].to_numpy().tolist() == [[i, i, 1.0] for i in range(5)]
    assert len(whole[whole["round"] == 4]) == 25

    def stop(round: int, *_: Any) -> None:
        if round == 3:
            raise FedroamError("stopped")

    with pytest.raises(FedroamError, match="stopped"):
        run(experiment, tmp_path / "resumed", observer=stop)
    assert run(experiment, tmp_path / "resumed").matrices.equals(whole)
    assert run(tiny(), tmp_path / "without").matrices.empty
    assert not (tmp_path / "without" / "matrices.parquet").exists()
