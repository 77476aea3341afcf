"""A run on a network is the simulated one: the same parameters bit for bit, participants and bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedroam.runner import run
from support.sites import LocalSite, same_states
from support.tiny import same_tables, tiny

pytest.importorskip("grpc")
pytestmark = pytest.mark.usefixtures("quick_disk")
pytest.importorskip("cryptography")

OWN = {"evaluate_on": "own", "test_share": 0.3, "validation_share": 0.2}
OURS = {"engine": {"kind": "cpu", "workers": 1}, "model": {"kind": "mlp", "hidden": [6]}}
CASES: dict[str, dict[str, Any]] = {
    "fedavg": {"federation": "fedavg"},
    "convolutions": {"federation": "fedavg", **OURS, "model": "conv5", "clients": 3, "rounds": 2},
    "momentum at home": {"federation": "local", **OURS},
    "own samples": {"federation": "ditto", **OWN},
    "churn": {"federation": "fedprox", "activity": {"kind": "rate", "rate": 0.6}},
    "mocfl": {"federation": {"kind": "mocfl", "neighbours": 2}, **OURS, **OWN, "clients": 4},
    "fedproto": {"federation": "fedproto", **OURS, "clients": 4},
    "moon": {"federation": "moon", **OURS, "clients": 3, "rounds": 3},
    "fedavgdbe": {"federation": "fedavgdbe", **OURS, "clients": 3, "rounds": 3},
    "scaffold": {"federation": "scaffold", "training": {"kind": "sgd", "lr": 0.1, "steps": 2}},
    "gossip": {"federation": "decentralized"},
    "mohawk": {"federation": {"kind": "mohawk", "k2": 2}},
    "lies": {"federation": "fedavg", "attack": {"kind": "label_flip", "share": 0.3}},
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_on_a_network_is_the_simulated_one(case: str, tmp_path: Path) -> None:
    experiment = tiny(**{"evaluate_every": 1, "test_share": 0.0, **CASES[case]})
    simulated = run(experiment, tmp_path / "simulated")
    site = LocalSite.new(tmp_path / "site", experiment)
    network = site.run(tmp_path / "network")
    assert site.lines == []
    assert site.ended == dict.fromkeys(range(experiment.clients))
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
