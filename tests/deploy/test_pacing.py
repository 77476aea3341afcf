"""Transfers that take as long as a radio says: rates by hand, a queue in closed form, and the same run."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("grpc")
pytest.importorskip("cryptography")

from fedroam.deploy.pacing import SMALLEST, Pace, Rates
from fedroam.experiment import Experiment
from fedroam.federation import SERVER, access_point
from fedroam.runner import run
from fedroam.scene import prepare
from support.losing import same_runs
from support.sites import LocalSite
from support.tiny import tiny

pytestmark = pytest.mark.usefixtures("quick_disk")
MBPS = 1e6 / 8


def rates(**settings: Any) -> Rates:
    scene = prepare(tiny(clients=3, **settings))
    scene.learner.close()
    return Rates.of(scene)


def test_models_are_as_fast_as_the_radio_charges_for() -> None:
    """Farcas et al., Table 2 and Eq. 2, between 200 and 400 m, by hand."""
    radio = {"kind": "lte_wifi", "distance_mean": 300.0, "distance_std": 100.0}
    own = rates(federation={"kind": "mohawk", "k2": 2}, radio=radio)
    device, there = np.zeros(4, np.int64), np.full(4, access_point(0))
    distance = np.array([50.0, 200.0, 250.0, 900.0])
    assert own(device, there, distance) / MBPS == pytest.approx([1000.0, 17.0, 14.5, 7.0])
    assert own(there, device, distance) / MBPS == pytest.approx([1000.0, 36.0, 30.0, 12.0])
    server, nowhere = np.full(1, SERVER), np.array([np.nan])
    assert own(device[:1], server, nowhere) / MBPS == pytest.approx([12.0])
    assert own(server, device[:1], nowhere) / MBPS == pytest.approx([24.0])
    assert own(device[:1], device[:1] + 1, np.array([3.0])) / MBPS == pytest.approx([250.0])


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(1, 10_000)), min_size=1, max_size=20))
def test_a_link_carries_one_piece_after_the_other(pieces: list[tuple[float, int]]) -> None:
    own = Pace()
    own.set(7, 1000.0)
    now = done = 0.0
    for passed, size in pieces:
        now += passed
        done = max(done, now) + size / 1000.0  # a queue with one server
        assert own.wait(7, size, now) == pytest.approx(done - now)
        assert own.wait(8, size, now) == 0.0  # another link: nothing is known of its rate
    assert own.piece(7, 5000) == SMALLEST
    assert own.piece(8, 5000) == 5000


PACED: dict[str, tuple[Experiment, dict[str, int]]] = {
    # Each of so many models of a round goes one way over a link, and nothing else does.
    "gossip": (
        tiny(
            clients=3,
            rounds=2,
            evaluate_every=1,
            test_share=0.0,
            mobility="static",
            contacts={"kind": "radius", "radius": math.inf},
        ),
        {"peer": 6},
    ),
    "mohawk": (
        tiny(
            clients=3,
            rounds=2,
            evaluate_every=1,
            test_share=0.0,
            mobility="static",
            federation={"kind": "mohawk", "k2": 2},
            access_points={
                "kind": "grid",
                "columns": 1,
                "rows": 1,
            },  # nobody gets back what it alone has learnt
        ),
        {"access": 3, "client": 3},
    ),
    "fedavg": (
        tiny(
            clients=3,
            rounds=2,
            evaluate_every=1,
            test_share=0.0,
            mobility="static",
            federation="fedavg",
            training={"kind": "sgd", "lr": 0.1},
        ),
        {"client": 3},
    ),
}


@pytest.mark.parametrize("case", PACED)
def test_paced_nodes_learn_the_same_and_wait_for_each_model(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No time passes: what senders would have waited is added up."""
    experiment, sent = PACED[case]
    waited: dict[int, float] = {}

    def wait(pace: Pace, end: int, size: int, now: float) -> float:
        waited[id(pace)] = waited.get(id(pace), 0.0) + size / pace._rates.get(end, math.inf)
        return 0.0

    monkeypatch.setattr(Pace, "wait", wait)
    names = ("lte_up_min", "lte_up_max", "lte_down_min", "lte_down_max", "wifi_up", "wifi_down", "d2d_max")
    radio = {"kind": "lte_wifi", **dict.fromkeys(names, 0.8)}  # 100,000 bytes/s, whatever the link
    site = LocalSite.new(tmp_path / "site", experiment.replace(radio=radio), chunk=1024)
    ran = site.run(tmp_path / "network", paced=True)
    assert site.lines == site.heard == []
    same_runs(ran, run(experiment.replace(radio=radio), tmp_path / "simulated"))
    size = next(iter(site.nodes.values())).holding.size
    for role, models in sent.items():
        nodes = [node for node in site.nodes.values() if node.name.startswith(role)]
        found = sum(waited.get(id(node.holding.pace), 0.0) for node in nodes)
        own = 2 * models * (size / 100_000)
        # An answer brings the loss along, and names of its arrays.
        assert own <= found <= own + 2 * models * (600 / 100_000)
