"""Transfers that take as long as a radio says: rates by hand, a queue in closed form, and the same run."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("grpc")
pytest.importorskip("cryptography")

from fedroam.analysis.agreement import round_times
from fedroam.deploy.messages import Order, array_bytes
from fedroam.deploy.node.process import Node
from fedroam.deploy.pacing import SMALLEST, Pace, Rates
from fedroam.deploy.server.hub import Asked, Hub
from fedroam.deploy.server.remote import RemoteLearner
from fedroam.deploy.server.remote_aggregator import RemoteAggregator
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.federation import SERVER, access_point
from fedroam.learning import Job
from fedroam.runner import run
from fedroam.scene import prepare
from support.losing import same_runs
from support.sites import LocalSite
from support.tiny import tiny

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


def test_under_a_clock_models_are_as_fast_as_the_link() -> None:
    """A setup, then the bytes, of which a quarter is sent again."""
    clock = {"kind": "seconds", "length": 1.0}
    own = rates(clock=clock, link={"kind": "fixed", "throughput": 0.8, "setup": 0.5, "loss": 0.25})
    size = 4 * 650  # of the softmax regression on digits
    found = own(np.array([0]), np.array([1]), np.array([3.0]))
    assert size / found == pytest.approx([0.5 + size / (100_000 * 0.75)])
    far = {"kind": "lte_wifi", "lte_near": 200.0, "lte_far": 400.0}
    own = rates(clock=clock, link=far, federation={"kind": "mohawk", "k2": 2})
    device, there = np.zeros(2, np.int64), np.full(2, access_point(0))
    assert own(device, there, np.array([50.0, 300.0])) / MBPS == pytest.approx([1000.0, 12.0])


@pytest.mark.parametrize("impaired", [False, True])
def test_a_network_of_delay_and_loss_has_the_rate_of_the_link_itself(impaired: bool) -> None:
    """By hand: 0.5 s and 2,600 bytes at 75,000 a second; a network that has both by itself is told the 100,000."""
    told: list[float] = []

    class Told:
        @property
        def impaired(self) -> bool:
            return impaired

        def shape(self, sender: np.ndarray, receiver: np.ndarray, rate: np.ndarray) -> None:
            told.extend(rate.tolist())

    link = {"kind": "fixed", "throughput": 0.8, "setup": 0.5, "loss": 0.25}
    own = replace(rates(clock={"kind": "seconds", "length": 1.0}, link=link), network=Told())
    own.shape(np.array([0]), np.array([1]), np.array([3.0]))
    assert told == pytest.approx([100_000.0 if impaired else 2600 / (0.5 + 2600 / 75_000)])


def test_training_takes_what_a_device_takes() -> None:
    settings = {"clock": {"kind": "seconds"}, "compute": {"kind": "flops", "speeds": [1e-6]}}
    scene = prepare(tiny(clients=3, federation="fedavg", **settings))
    scene.learner.close()
    own, timing = Rates.of(scene), scene.timing
    assert timing is not None
    job = Job(1, 1, scene.context.train[1], 1)
    # Two steps of batches of eight, at 1,000 operations a second.
    assert own.work([job], 1) == pytest.approx(2 * 8 * timing.flops / 1000)
    assert rates().work([job], 1) is None


def test_nodes_that_are_asked_together_are_as_fast_as_by_themselves() -> None:
    """Two devices that download for 1 and 3 s, train for 5 and 1 s, and send for 1 s each, with everybody waiting for
    everybody after each of the three: the round is over after max(1 + 5 + 1, 3 + 1 + 1) = 7 s, not 3 + 5 + 1."""
    first, second = Pace(), Pace()
    for own in (first, second):
        own.set(7, 1000.0)
        own.begin(1, 0.0)
    assert (first.done(1.0), second.done(3.0)) == (0.0, 0.0)
    trained = max(3.0 + first.done(3.0, 5.0), 3.0 + second.done(3.0, 1.0))
    assert trained == 6.0
    assert (first.wait(7, 1000, trained), second.wait(7, 1000, trained)) == (1.0, 0.0)
    # Who computes longer than it is to take is ready when it is ready.
    assert first.done(9.0, 0.5) == 0.0
    assert first.wait(8, 1000, 9.0) == 0.0
    # In the next round everybody begins anew.
    second.begin(1, 20.0)
    assert second.since == 4.0
    second.begin(2, 20.0)
    assert second.wait(7, 500, 20.0) == 0.5


def test_who_is_asked_late_was_ready_when_the_round_began() -> None:
    """A device downloads for 2 s and trains for 5 s, and leaves; another has come back, and brings what it has had for
    longer, in 2 s. It is asked for that when all have trained, at 7 s: by then it would have been through, so the round
    takes 7 s, and not 9 s."""
    trains, returns = Pace(), Pace()
    trains.begin(1, 100.0)
    trains.done(102.0)
    assert 102.0 + trains.done(102.0, 5.0) == 107.0
    returns.set(7, 1000.0)
    returns.begin(1, 107.0 - 7.0)  # the server says that the round began 7 s ago
    assert returns.wait(7, 2000, 107.0) == 0.0
    # What it is asked for next is of the same round, whatever that is said to have begun.
    returns.begin(1, 107.0)
    assert returns.since == 100.0


def test_a_node_is_told_how_long_ago_its_round_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices come and go: who has come back brings an update of before, and is asked for that as its first work in the
    round, when the others have trained. It hears that the round began before that."""
    began: dict[int, float] = {}  # by round
    trained: dict[int, float] = {}  # by round: when the first one had
    firsts: dict[tuple[str, int], tuple[str, float, float]] = {}  # by node and round: work, when, since when
    begin_round, done, do = Hub.begin_round, Pace.done, Node._do

    def noted_round(hub: Hub, round: int) -> None:
        begin_round(hub, round)
        began[round] = hub.round_began

    def noted_done(pace: Pace, now: float, seconds: float = 0.0) -> float:
        if seconds:
            trained.setdefault(pace.round, now)
        done(pace, now, seconds)
        return 0.0

    def noted_do(node: Node, channel: Any, order: Order, since: float) -> None:
        firsts.setdefault((node.name, order.round), (order.work, time.monotonic(), since))
        do(node, channel, order, since)

    monkeypatch.setattr(RemoteAggregator, "ahead", False)  # nobody is asked for anything while others train
    monkeypatch.setattr(Hub, "begin_round", noted_round)
    monkeypatch.setattr(Pace, "done", noted_done)
    monkeypatch.setattr(Pace, "wait", lambda pace, end, size, now: 0.0)
    monkeypatch.setattr(Pace, "passing", lambda pace, size, rate, now: 0.0)
    monkeypatch.setattr(Node, "_do", noted_do)
    experiment = tiny(
        clients=4,
        rounds=6,
        test_share=0.0,
        mobility="static",
        activity={"kind": "rate", "rate": 0.5},
        federation={"kind": "mohawk", "k2": 6},
        clock={"kind": "seconds", "length": 0.05, "wait": "all"},
        compute={"kind": "flops", "speeds": [1e-3]},
        link={"kind": "fixed", "throughput": 2.0},
    )
    site = LocalSite.new(tmp_path / "site", experiment, paced=True)
    site.run(tmp_path / "network", paced=True)
    assert site.lines == site.heard == []
    rounds = [first for first in firsts if first[1] in began]
    assert all(firsts[first][2] >= began[first[1]] - 1e-6 for first in rounds)
    late = [
        (first, *firsts[first][1:])
        for first in rounds
        if firsts[first][0] == "carry" and firsts[first][1] > trained.get(first[1], math.inf)
    ]
    assert late
    for (_, t), arrived, since in late:
        assert arrived - since >= trained[t] - began[t] - 1e-6


def test_who_gets_its_model_from_the_server_trains_when_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training counts from when the model has come, not from when it was asked for."""
    arrived: dict[str, float] = {}
    ready: list[bool] = []
    fetch, work = Node._arrived, Node._work

    def noted_fetch(node: Node, channel: Any, order: Order, model: str, size: int, told: str) -> bytes:
        body = fetch(node, channel, order, model, size, told)
        arrived[node.name] = time.monotonic()
        return body

    def noted_work(node: Node, order: Order, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        if order.work == "train":
            ready.append(node.holding.pace.since >= arrived[node.name])
        return work(node, order, arrays)

    monkeypatch.setattr(Node, "_arrived", noted_fetch)
    monkeypatch.setattr(Node, "_work", noted_work)
    experiment = tiny(
        clients=2,
        rounds=2,
        test_share=0.0,
        federation="fedavg",
        clock={"kind": "seconds", "length": 0.05, "wait": "all"},
        link={"kind": "fixed", "throughput": 2.0},
    )
    site = LocalSite.new(tmp_path / "site", experiment, paced=True)
    site.run(tmp_path / "network", paced=True)
    assert site.lines == site.heard == []
    assert ready == [True] * 4


def test_what_is_there_already_takes_as_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that is alone with its access point fetches in round 2 what it has learnt itself: nothing is sent, but
    the time is that of two models to it, and two from it. No time passes: it is added up."""
    waited = {"wait": 0.0, "passing": 0.0}

    def wait(pace: Pace, end: int, size: int, now: float) -> float:
        waited["wait"] += size / pace._rates.get(end, math.inf)
        return 0.0

    def passing(pace: Pace, size: int, rate: float, now: float) -> float:
        waited["passing"] += size / rate
        return 0.0

    monkeypatch.setattr(Pace, "wait", wait)
    monkeypatch.setattr(Pace, "passing", passing)
    experiment = tiny(
        clients=1,
        rounds=2,
        test_share=0.0,
        mobility="static",
        federation={"kind": "mohawk", "k2": 2},
        access_points={"kind": "grid", "columns": 1, "rows": 1},
        clock={"kind": "seconds", "length": 0.2},
        link={"kind": "fixed", "throughput": 0.8},
    )
    site = LocalSite.new(tmp_path / "site", experiment, paced=True, chunk=1024)
    site.run(tmp_path / "network", paced=True)
    assert site.lines == site.heard == []
    size = next(iter(site.nodes.values())).holding.size
    assert waited == pytest.approx({"wait": 3 * size / 100_000, "passing": size / 100_000})


@pytest.mark.parametrize(
    "case", ["a head, then class means", "extractors of others and a head, then much more"]
)
def test_all_that_a_method_sends_takes_its_time(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many orders and answers it takes, and whatever else they carry: by hand, at 25,000 bytes a second. An
    extractor has 64 x 16 + 16 values and a head 16 x 10 + 10, of four bytes."""
    paced: dict[tuple[int, int], tuple[float, float]] = {}
    pace = RemoteLearner._pace

    def noted(learner: RemoteLearner, asked: Asked, rates: Rates, client: int) -> None:
        pace(learner, asked, rates, client)
        assert asked.rate is not None
        assert asked.order.rate is not None
        answer = array_bytes(asked.expected)
        paced[learner.round, client] = len(asked.body) / asked.rate, answer / asked.order.rate

    monkeypatch.setattr(RemoteLearner, "_pace", noted)
    monkeypatch.setattr(Pace, "wait", lambda pace, end, size, now: 0.0)
    monkeypatch.setattr(Pace, "passing", lambda pace, size, rate, now: 0.0)
    alone = case == "a head, then class means"
    experiment = tiny(
        clients=3,
        rounds=2,
        validation_share=0.0 if alone else 0.2,
        test_share=0.0,
        partition="iid",
        model={"kind": "mlp", "hidden": [16]},
        federation="fedgh" if alone else {"kind": "mocfl", "neighbours": 2},
        clock={"kind": "seconds", "length": 0.05, "wait": "all"},
        link={"kind": "fixed", "throughput": 0.2},
    )
    scene = prepare(experiment)
    scene.learner.close()
    held = (scene.context.class_counts > 0).sum(1)
    site = LocalSite.new(tmp_path / "site", experiment, paced=True)
    same_runs(site.run(tmp_path / "network", paced=True), run(experiment, tmp_path / "simulated"))
    assert site.lines == site.heard == []
    extractor, head, means = 4 * 1040, 4 * 170, held * 4 * 17
    assert sorted(paced) == [(t, i) for t in (1, 2) for i in range(3)]
    for (t, i), seconds in paced.items():
        if alone:
            assert seconds == pytest.approx((head / 25_000, means[i] / 25_000))
        else:  # in the first round nobody has uploaded anything that others could be sent
            got = (2 * extractor if t == 2 else 0) + head
            sent = extractor + means[i] + (2 * 4 if t == 2 else 0)
            assert seconds == pytest.approx((got / 25_000, sent / 25_000))


def test_time_passes_for_what_is_not_sent() -> None:
    own = Pace()
    assert own.passing(500, 1000.0, 7.0) == 0.5
    own.begin(1, 7.0)
    assert own.passing(500, 1000.0, 7.25) == 0.25
    assert own.passing(500, math.inf, 9.0) == 0.0


CLOCKED: dict[str, dict[str, Any]] = {
    "mohawk": {"federation": {"kind": "mohawk", "k2": 2}, "clock": {"wait": "all"}},
    "mohawk, some late": {
        "federation": {"kind": "mohawk", "k2": 2},
        "compute": {"kind": "flops", "speeds": [1.0, 1e-5]},
    },
    "fedavg": {"federation": "fedavg", "clock": {"wait": "all"}},
    "fedavg, some late": {"federation": "fedavg", "compute": {"kind": "flops", "speeds": [1.0, 1e-5]}},
    "gossip": {"contacts": {"kind": "closest_approach", "radius": 1.5}},
}


@pytest.mark.parametrize("case", CLOCKED)
def test_a_network_under_a_clock_is_the_simulation(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits here for what is to take time, but a round has its length."""
    monkeypatch.setattr(Pace, "wait", lambda pace, end, size, now: 0.0)
    monkeypatch.setattr(Pace, "passing", lambda pace, size, rate, now: 0.0)
    monkeypatch.setattr(Pace, "done", lambda pace, now, seconds=0.0: 0.0)
    settings = dict(CLOCKED[case])
    clock = {"kind": "seconds", "length": 0.05, **settings.pop("clock", {})}
    experiment = tiny(
        rounds=3, evaluate_every=1, clock=clock, link={"kind": "fixed", "throughput": 2.0}, **settings
    )
    site = LocalSite.new(tmp_path / "site", experiment, paced=True)
    network = site.run(tmp_path / "network", paced=True)
    assert site.lines == site.heard == []
    simulated = run(experiment, tmp_path / "simulated")
    same_runs(network, simulated)
    late = simulated.rounds["late"]
    assert (late.max() > 0) == ("late" in case)
    found = round_times(network, simulated)
    assert found is not None
    assert found.index.tolist() == [1, 2, 3]
    assert (found["network"] >= 0.05).all()
    assert {"train", "simulated"} <= set(found)
    assert (found["train"] < found["network"]).all()


def test_what_nodes_cannot_follow_is_refused(tmp_path: Path) -> None:
    clock = {"kind": "seconds", "length": 1.0}
    link = {"kind": "fixed"}
    for settings, said in (
        ({"clock": {**clock, "late": "carried"}, "federation": "fedavg"}, "clock.late = 'carried'"),
        ({"clock": clock, "link": {**link, "broken": "resumed"}}, "link.broken = 'resumed'"),
        ({"clock": clock, "battery": "battery"}, "battery.kind = 'battery'"),
        ({"clock": clock, "compute": {"kind": "flops", "counts": "all"}}, "compute.counts = 'all'"),
    ):
        with pytest.raises(InputError, match=f"{said}: on a network that is paced, allowed is"):
            LocalSite.new(tmp_path / "site", tiny(**settings), paced=True)
    with pytest.raises(InputError, match="allowed is 'rounds', or fedroam emulate --paced"):
        LocalSite.new(tmp_path / "site", tiny(clock=clock))


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
