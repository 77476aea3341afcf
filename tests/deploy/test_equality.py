"""A run on a network is the simulated one: the same parameters bit for bit, participants and bytes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedroam.deploy.messages import Order
from fedroam.deploy.node.process import Node
from fedroam.deploy.server.remote import RemoteLearner
from fedroam.deploy.server.remote_aggregator import Ahead
from fedroam.deploy.site.file import FILE, read_site
from fedroam.learning import Job, Models
from fedroam.runner import run
from support.sites import LocalSite, same_states
from support.tiny import same_tables, tiny
from support.waiting import HANGS

pytest.importorskip("grpc")
pytest.importorskip("cryptography")

OWN = {"evaluate_on": "own", "test_share": 0.3, "validation_share": 0.2}
OURS = {"engine": {"kind": "cpu", "workers": 1}, "model": {"kind": "mlp", "hidden": [6]}}
CASES: dict[str, dict[str, Any]] = {
    "fedavg": {"federation": "fedavg"},
    "convolutions": {
        "federation": "fedavg",
        **OURS,
        "model": "conv5",
        "clients": 3,
        "rounds": 2,
        "data": {"kind": "digits", "test_share": 0.1},
    },
    "momentum at home": {"federation": "local", **OURS},
    "own samples": {"federation": "ditto", **OWN},
    "churn": {"federation": "fedprox", "activity": {"kind": "rate", "rate": 0.6}},
    "mocfl": {"federation": {"kind": "mocfl", "neighbours": 2}, **OURS, **OWN, "clients": 4},
    "fedproto": {"federation": "fedproto", **OURS, "clients": 4},
    "moon": {"federation": "moon", **OURS, "clients": 3, "rounds": 3},
    "fedavgdbe": {"federation": "fedavgdbe", **OURS, "clients": 3, "rounds": 3},
    "scaffold": {"federation": "scaffold", "training": {"kind": "sgd", "lr": 0.1, "steps": 2}},
    "gossip": {"federation": "decentralized"},
    "gossip by a rule of speed": {
        "federation": {"kind": "decentralized", "order": "mix_then_move"},
        "mixing": "mobility_aware",
    },
    "gossip steered by classes": {
        "federation": "decentralized",
        "mobility": {"kind": "dam", "grid": 4, "mobile": 3},
    },
    "gossip steered by differences": {
        "federation": "decentralized",
        "mobility": {"kind": "dcm", "grid": 4, "mobile": 3},
    },
    "gossip by a robust rule": {"federation": "decentralized", "aggregation": "trimmed_mean"},
    "gossip among liars": {
        "federation": "decentralized",
        "attack": {"kind": "sign_flip", "clients": (1, 3), "scale": 2.0},
    },
    "push-sum among liars": {
        "federation": "push_sum",
        "activity": {"kind": "rate", "rate": 0.7},
        "attack": {"kind": "sign_flip", "clients": (1, 3), "scale": 2.0},
    },
    "epidemic": {"federation": {"kind": "epidemic", "fanout": 2}},
    "caches, away now and then": {
        "federation": {"kind": "cached", "size": 3, "tau_max": 2},
        "activity": {"kind": "rate", "rate": 0.7},
        "rounds": 6,
    },
    "models of an age among liars": {
        "federation": {"kind": "gossip_learning", "partner": "last"},
        "activity": {"kind": "rate", "rate": 0.7},
        "attack": {"kind": "sign_flip", "clients": (1, 3), "scale": 2.0},
    },
    "models that are trained before they are merged": {
        "federation": {"kind": "gossip_learning", "create": "update_merge"},
        "activity": {"kind": "rate", "rate": 0.7},
        "attack": {"kind": "sign_flip", "clients": (1, 3), "scale": 2.0},
        "rounds": 6,
    },
    "pairs among liars": {
        "federation": {"kind": "ad_psgd", "order": "mix_then_move"},
        "attack": {"kind": "sign_flip", "clients": (1, 3), "scale": 2.0},
    },
    "gossip by way of the server": {"federation": "decentralized", "relayed": True},
    "mohawk": {"federation": {"kind": "mohawk", "k2": 2}},
    "mohawk, away now and then": {
        "federation": {"kind": "mohawk", "k2": 3, "judge": "access_point"},
        "activity": {"kind": "rate", "rate": 0.5},
    },
    "mohawk by way of the server": {"federation": {"kind": "mohawk", "k2": 2}, "relayed": True},
    "mohawk among liars": {
        "federation": {"kind": "mohawk", "k2": 2},
        "activity": {"kind": "rate", "rate": 0.7},
        "attack": {"kind": "sign_flip", "clients": (1, 3), "scale": 2.0},
    },
    "hierfavg": {"federation": {"kind": "hierfavg", "k2": 2}, "aggregation": "median"},
    "macfl": {"federation": {"kind": "macfl", "k2": 2}},
    "late updates": {
        "federation": {"kind": "delayed_mohawk", "k2": 3},
        "activity": {"kind": "rate", "rate": 0.5},
        "rounds": 7,
    },
    "access points that gather": {
        "federation": {"kind": "hierarchical_fedbuff", "k2": 3, "size": 2},
        "activity": {"kind": "rate", "rate": 0.5},
        "rounds": 7,
    },
    "access points that mix at once": {
        "federation": {"kind": "hierarchical_fedasync", "k2": 3},
        "activity": {"kind": "rate", "rate": 0.5},
        "rounds": 7,
    },
    "lies": {"federation": "fedavg", "attack": {"kind": "label_flip", "share": 0.3}},
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_on_a_network_is_the_simulated_one(case: str, tmp_path: Path) -> None:
    settings = dict(CASES[case])
    relayed = settings.pop("relayed", False)
    experiment = tiny(**{"clients": 4, "rounds": 3, "evaluate_every": 1, "test_share": 0.0, **settings})
    simulated = run(experiment, tmp_path / "simulated")
    site = LocalSite.new(tmp_path / "site", experiment, relayed=relayed)
    network = site.run(tmp_path / "network")
    assert site.lines == site.heard == []
    assert site.ended == dict.fromkeys(site.nodes)
    same_states(network, simulated)
    tables: list[dict[str, pd.DataFrame]] = []
    for each in (network, simulated):
        found = {name: each.table(name) for name in ("rounds", "clients", "positions", "contacts")}
        if experiment.evaluate_on == "own":  # losses of float32, added up client by client
            np.testing.assert_allclose(
                found["rounds"].pop("loss_mean_model"), simulated.rounds["loss_mean_model"], rtol=1e-6
            )
        tables.append(found)
    same_tables(*tables)


def test_what_was_trained_before_is_brought_while_others_train(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody begins to train here until those who have nothing to train have brought what they had."""
    ahead: list[Ahead] = []
    brought: list[int] = []
    begin, train = Ahead.__init__, RemoteLearner.train

    def noted(self: Ahead, *given: Any) -> None:
        begin(self, *given)
        ahead.append(self)

    def waiting(self: RemoteLearner, models: Models, jobs: Sequence[Job]) -> np.ndarray:
        arrived = ahead.pop().arrived()  # once they have ended
        assert all(arrived.values())
        brought.extend([self.round] * bool(arrived))
        return train(self, models, jobs)

    monkeypatch.setattr(Ahead, "__init__", noted)
    monkeypatch.setattr(RemoteLearner, "train", waiting)
    experiment = tiny(**CASES["late updates"], evaluate_every=1, test_share=0.0)
    simulated = run(experiment, tmp_path / "simulated")
    site = LocalSite.new(tmp_path / "site", experiment)
    network = site.run(tmp_path / "network")
    assert site.lines == site.heard == []
    same_states(network, simulated)
    assert brought
    returned = simulated.rounds.set_index("round")["total_returned"].diff()
    assert brought == returned[returned > 0].index.tolist()  # a round each in which somebody returns


def test_who_has_trained_brings_it_while_others_train(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last client does not begin to train here until access points have what all others have trained."""
    experiment = tiny(federation={"kind": "mohawk", "k2": 2}, clients=4, rounds=2, test_share=0.0)
    arrived: dict[int, set[int]] = {1: set(), 2: set()}  # whose updates, by round
    changed = threading.Condition()

    def noting(node: Node) -> None:
        take = node.holding.take

        def noted(holder: int, round: int, *given: Any) -> tuple[int, bool] | None:
            found = take(holder, round, *given)
            with changed:
                if found is not None and found[1]:
                    arrived[round].add(holder)
                changed.notify_all()
            return found

        monkeypatch.setattr(node.holding, "take", noted)

    def waiting(node: Node) -> None:
        work = node._work

        def waited(order: Order, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            with changed:
                if order.work == "train":
                    assert changed.wait_for(lambda: arrived[order.round] == {0, 1, 2}, HANGS)
            return work(order, arrays)

        monkeypatch.setattr(node, "_work", waited)

    simulated = run(experiment, tmp_path / "simulated")
    site = LocalSite.new(tmp_path / "site", experiment)
    points = [number for number in read_site(site.folder / FILE).holders if number < 0]
    network = site.run(tmp_path / "network", {3: waiting, **dict.fromkeys(points, noting)})
    assert site.lines == site.heard == []
    same_states(network, simulated)
    assert arrived == {1: {0, 1, 2, 3}, 2: {0, 1, 2, 3}}


def test_peers_exchange_while_others_train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last peer does not begin to train here until the others have each other's models."""
    experiment = tiny(
        clients=4,
        rounds=2,
        test_share=0.0,
        mobility="static",
        contacts={"kind": "radius", "radius": float("inf")},
    )
    arrived: dict[int, set[tuple[int, int]]] = {1: set(), 2: set()}  # from whom, and at whom, by round
    changed = threading.Condition()
    others = {(i, j) for i in range(3) for j in range(3) if i != j}

    def noting(node: Node) -> None:
        work = node._work

        def noted(order: Order, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            last = node.name == "peer-03"
            with changed:
                if last and order.work == "train":
                    assert changed.wait_for(lambda: others <= arrived[order.round], HANGS)
            found = work(order, arrays)
            if order.work == "carry":
                with changed:
                    there = arrays["end"][found["arrived"]].tolist()
                    arrived[order.round] |= {(end, int(node.name[-2:])) for end in there}
                    changed.notify_all()
            return found

        monkeypatch.setattr(node, "_work", noted)

    simulated = run(experiment, tmp_path / "simulated")
    site = LocalSite.new(tmp_path / "site", experiment)
    network = site.run(tmp_path / "network", dict.fromkeys(range(4), noting))
    assert site.lines == site.heard == []
    same_states(network, simulated)
    every = {(i, j) for i in range(4) for j in range(4) if i != j}
    assert arrived == {1: every, 2: every}
