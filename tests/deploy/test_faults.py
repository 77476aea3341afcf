"""What fails on the way counts as not arrived; all else goes on as if it had never been asked."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fedroam.analysis import variants
from fedroam.analysis.variants import notes_on
from fedroam.deploy.messages import NO_ORDER, Order, Push, Refused
from fedroam.deploy.node import process
from fedroam.deploy.node.process import Node, node_of
from fedroam.deploy.server import hub
from fedroam.deploy.server.hub import Asked, Hub
from fedroam.deploy.server.journal import Journal
from fedroam.deploy.server.serving import serve
from fedroam.deploy.site.file import FILE, read_site
from fedroam.deploy.site.identity import credentials
from fedroam.errors import FedroamError
from fedroam.federation import access_point
from fedroam.recording import open_run
from fedroam.runner import run
from fedroam.terminal.interrupts import Interrupted
from support.cutting import CuttingLink, Gate
from support.losing import same_runs, without
from support.sites import LocalSite, free_port, living
from support.tiny import tiny
from support.waiting import HANGS, eventually

pytest.importorskip("grpc")
Arrays = dict[str, np.ndarray]
EVERY = {"evaluate_every": 1, "test_share": 0.0}


def changing(change: Callable[[Order, Arrays], Arrays]) -> Callable[[Node], object]:
    """A node whose answers are changed before they are sent."""

    def apply(node: Node) -> None:
        honest = node.share.work
        node.share.work = lambda order, arrays: change(order, honest(order, arrays))  # type: ignore[method-assign]

    return apply


def in_round(number: int, wrong: Callable[[Arrays], Arrays]) -> Callable[[Node], object]:
    """A node that sends something else in one round's training."""
    return changing(
        lambda order, answer: wrong(answer) if (order.work, order.round) == ("train", number) else answer
    )


def nan(answer: Arrays) -> Arrays:
    broken = answer["0.parameters"].copy()
    broken[3] = np.nan
    return {**answer, "0.parameters": broken}


def fails(answer: Arrays) -> Arrays:
    raise MemoryError("no memory left")


WRONG: Mapping[str, tuple[Callable[[Arrays], Arrays], str]] = {
    "no number": (nan, "no numbers"),
    "another shape": (lambda a: {**a, "0.parameters": a["0.parameters"][:-1]}, "expected float32"),
    "another type": (lambda a: {**a, "loss": a["loss"].astype(np.float32)}, "expected float64"),
    "something more": (lambda a: {**a, "more": np.zeros(3, np.float32)}, "not expected"),
    "far too much": (lambda a: {**a, "more": np.zeros(200_000, np.float32)}, "bytes, allowed are"),
    "nothing": (fails, "could not do its work"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_answer_counts_as_not_arrived(kind: str, tmp_path: Path) -> None:
    wrong, told = WRONG[kind]
    experiment = tiny(**EVERY, federation="fedavg", clients=3, rounds=3)
    site = LocalSite.new(tmp_path / "site", experiment)
    network = site.run(tmp_path / "network", {1: in_round(2, wrong)})
    (line,) = site.lines
    assert told in line
    assert line.startswith("round 2: client-01")
    same_runs(network, without(experiment, tmp_path / "simulated", {(2, 1)}))
    # And it does make a difference.
    whole = run(experiment, tmp_path / "whole")
    assert not whole.rounds["accuracy"].equals(network.rounds["accuracy"])
    assert network.rounds["active"].tolist() == [0, 3, 2, 3]


@pytest.mark.parametrize(
    "federation", ["fedavg", "scaffold", "decentralized", {"kind": "mohawk", "k2": 2}], ids=str
)
def test_what_fails_in_any_kind_of_federation_is_left_out(federation: Any, tmp_path: Path) -> None:
    experiment = tiny(**EVERY, federation=federation, clients=4)
    site = LocalSite.new(tmp_path / "site", experiment)
    network = site.run(tmp_path / "network", {0: in_round(1, nan), 2: in_round(3, nan)})
    assert len(site.lines) == 2
    same_runs(network, without(experiment, tmp_path / "simulated", {(1, 0), (3, 2)}))


@pytest.mark.parametrize("federation", ["decentralized", "push_sum", "epidemic", "fedavg"])
def test_work_that_does_not_arrive_is_wasted(federation: str, tmp_path: Path) -> None:
    """Once, in its round, and no more than that: what a peer learnt before, and it goes on with, is not."""
    radio = {"kind": "lte_wifi", "training_energy": 0.25}
    experiment = tiny(**EVERY, federation=federation, clients=4, radio=radio)
    site = LocalSite.new(tmp_path / "site", experiment)
    network = site.run(tmp_path / "network", {0: in_round(2, nan), 2: in_round(3, nan)})
    last = network.clients[network.clients["round"] == experiment.rounds].set_index("client")
    a_round = last["energy_training"] / experiment.rounds
    assert (a_round > 0).all()
    received = last["energy"] - last["energy_training"] if federation == "fedavg" else 0.0 * a_round
    for client, wasted in last["energy_wasted"].items():
        if client in (0, 2):  # one of three models that came down was for nothing, too
            assert wasted >= a_round[client] - 1e-12
            assert wasted <= a_round[client] + received[client] + 1e-12
        else:
            assert wasted == 0


def broken_from(round: int) -> Callable[[Node], object]:
    """A node whose training fails in a round and in all after it, as by a model that has a mistake."""

    def change(order: Order, answer: Arrays) -> Arrays:
        if order.work == "train" and order.round >= round:
            raise ValueError("my bug")
        return answer

    return changing(change)


BUG = r"ValueError: my bug \(test_faults\.py, line \d+\)"


@pytest.mark.parametrize(
    ("federation", "relayed", "name"),
    [
        ("fedavg", False, "client"),
        ("decentralized", False, "peer"),
        ("decentralized", True, "client"),
        ({"kind": "mohawk", "k2": 2}, False, "client"),
    ],
    ids=str,
)
def test_where_the_work_of_all_fails_the_run_does_and_is_gone_on_with(
    federation: Any, relayed: bool, name: str, tmp_path: Path
) -> None:
    experiment = tiny(**EVERY, federation=federation, clients=3, mobility="static")
    site, out = LocalSite.new(tmp_path / "site", experiment, relayed=relayed), tmp_path / "network"
    others = "nor could any other of the 3 nodes that were asked"
    why = rf"round 3: {name}-00 could not do its work \(train\): {BUG}; {others}"
    with pytest.raises(FedroamError, match=f"^{why}$"):
        site.run(out, dict.fromkeys(range(3), broken_from(3)))
    status = open_run(out).status
    assert (status["state"], status["round"]) == ("failed", 2)
    assert re.fullmatch(f"FedroamError: {why}", status["reason"])
    site.lines.clear()
    network = site.run(out)
    assert [line for line in site.lines if "not arrived" in line] == []
    same_runs(network, run(experiment, tmp_path / "simulated"))


def test_the_only_client_that_is_there_ends_the_run_by_its_error(tmp_path: Path) -> None:
    experiment = tiny(**EVERY, federation="fedavg", clients=1, mobility="static")
    site = LocalSite.new(tmp_path / "site", experiment)
    with pytest.raises(FedroamError, match=rf"round 1: client-00 .*{BUG}; and no other node was asked$"):
        site.run(tmp_path / "network", {0: broken_from(1)})


@pytest.mark.parametrize("broken", [1, 4])
def test_one_node_that_fails_ends_no_run_in_which_others_are_asked_later(broken: int, tmp_path: Path) -> None:
    """One of four trains in each round: until another one has failed, too, it may be this one's own data or machine."""
    one = {"kind": "rate", "rate": 0.25}
    experiment = tiny(**EVERY, federation="fedavg", clients=4, rounds=8, mobility="static", activity=one)
    site = LocalSite.new(tmp_path / "site", experiment)
    active = experiment.activity.start(experiment.seed, 4)["active"]
    first = int(np.flatnonzero(active)[0])  # who trains in round 1
    if broken == 1:
        assert site.run(tmp_path / "network", {first: broken_from(1)}).done
        assert any(f"client-0{first} could not do its work" in line for line in site.lines)
    else:
        with pytest.raises(FedroamError, match=rf"{BUG}; and no other node was asked$"):
            site.run(tmp_path / "network", dict.fromkeys(range(4), broken_from(1)))
        assert len({line.split()[2] for line in site.lines if "could not do its work" in line}) == 2


def test_where_some_are_silent_and_the_others_fail_the_run_goes_on_and_tells_why(tmp_path: Path) -> None:
    experiment = tiny(**EVERY, federation="fedavg", clients=2, rounds=2, mobility="static")
    site = LocalSite.new(tmp_path / "site", experiment)
    network = site.run(
        tmp_path / "network",
        {
            0: broken_from(1),
            1: changing(lambda order, answer: nan(answer) if order.work == "train" else answer),
        },
    )
    assert network.done
    assert network.rounds["active"].tolist() == [0, 0, 0]
    (note,) = [note for note in notes_on(variants([network])) if "counted" in note]
    assert (
        "nobody's training was counted in any evaluated round (2 of them), though clients were asked: round 1: client-0"
        in note
    )
    assert "could not do its work (ValueError: my bug" in note or "no numbers" in note


def test_nodes_that_refuse_an_order_end_no_run(tmp_path: Path) -> None:
    """As those that were all begun anew in the midst of a round, and no longer have what they kept for it."""

    def refuse(order: Order, answer: Arrays) -> Arrays:
        if (order.work, order.round) == ("train", 1):
            raise Refused("it no longer has 'features 0'")
        return answer

    experiment = tiny(**EVERY, federation="fedavg", clients=2, rounds=2, mobility="static")
    site = LocalSite.new(tmp_path / "site", experiment)
    network = site.run(tmp_path / "network", dict.fromkeys(range(2), changing(refuse)))
    assert network.rounds["active"].tolist() == [0, 0, 2]


def test_a_node_that_vanishes_in_its_work_is_left_out_from_then_on(tmp_path: Path) -> None:
    experiment = tiny(**EVERY, federation="fedavg", clients=3, rounds=3)

    def vanish(node: Node) -> None:
        honest = node.share.work

        def work(order: Order, arrays: Arrays) -> Arrays:
            if order.round == 2:
                node.stop()
                raise SystemExit
            return honest(order, arrays)

        node.share.work = work  # type: ignore[method-assign]

    site = LocalSite.new(tmp_path / "site", experiment, away=0.0)
    network = site.run(tmp_path / "network", {1: vanish})
    assert [line for line in site.lines if "has gone" in line]
    assert network.rounds["active"].tolist() == [0, 3, 2, 2]
    contacts = network.table("positions")
    assert contacts.query("client == 1")["present"].tolist()[:2] == [True, True]
    assert not contacts.query("client == 1")["present"].iloc[-1]


def vanish_in_round_2(node: Node) -> None:
    assert node.share is not None
    honest = node.share.work

    def work(order: Order, arrays: Arrays) -> Arrays:
        if order.round == 2:
            node.stop()
            raise SystemExit
        return honest(order, arrays)

    node.share.work = work  # type: ignore[method-assign]


def test_whom_a_round_waits_for_is_told_and_that_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "NOTICED", 0.0)
    experiment = tiny(**EVERY, federation="fedavg", clients=2, rounds=3, mobility="static")
    site = LocalSite.new(tmp_path / "site", experiment, away=HANGS)
    gone = "round 2: client-01 has gone: waits for it"
    over = threading.Event()

    def return_when_missed() -> None:
        while not over.wait(0.02):
            if any(line.startswith(gone) for line in site.lines):
                site.start(1)
                return

    watching = threading.Thread(target=return_when_missed)
    watching.start()
    try:
        network = site.run(tmp_path / "network", {1: vanish_in_round_2})
    finally:
        over.set()
        watching.join()
    first, second = site.lines
    assert first.startswith(gone)
    assert first.endswith("s at most")
    assert second == "round 2: client-01 is back"
    same_runs(network, run(experiment, tmp_path / "simulated"))


ALL_GONE = f"round 3: no client is there: waits for one, {HANGS:g} s at most"


def test_rounds_wait_where_all_have_gone(tmp_path: Path) -> None:
    """As when the network of a server is down for a while: the rounds are not played with nobody."""
    experiment = tiny(**EVERY, federation="fedavg", clients=2, rounds=4, mobility="static")
    site, again = LocalSite.new(tmp_path / "site", experiment, away=0.0), threading.Event()

    def still() -> None:
        if ALL_GONE in site.lines and not again.is_set():
            again.set()
            for client in range(2):
                site.start(client)

    network = site.run(tmp_path / "network", {0: vanish_in_round_2, 1: vanish_in_round_2}, still=still)
    assert again.is_set()
    assert network.rounds["active"].tolist()[:3] == [0, 2, 0]
    assert network.rounds["active"].tolist()[3] > 0


def test_ctrl_c_ends_the_waiting_for_those_who_have_gone(tmp_path: Path) -> None:
    experiment = tiny(**EVERY, federation="fedavg", clients=2, rounds=9, mobility="static")
    site = LocalSite.new(tmp_path / "site", experiment, away=0.0)
    pressed: list[str] = []

    def still() -> None:
        if ALL_GONE in site.lines and not pressed:
            pressed.append("Ctrl-C")
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        site.run(tmp_path / "network", {0: vanish_in_round_2, 1: vanish_in_round_2}, still=still)
    assert pressed
    assert open_run(tmp_path / "network").status["round"] == 3


def test_a_node_says_that_it_finds_no_server_and_that_it_has_found_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedroam.deploy.node.process.MISSED", 0.0)
    experiment = tiny(**EVERY, federation="fedavg", clients=2, rounds=2)
    site, port = LocalSite.new(tmp_path / "site", experiment), free_port()
    site.at(port)
    with living(site):
        for client in range(2):
            site.start(client)
        eventually(lambda: len(site.heard) == 2, "both nodes miss the server")
        assert all("takes it in (no server there" in line for line in site.heard)
        serve(
            site.folder,
            tmp_path / "network",
            address=f"127.0.0.1:{port}",
            tell=site.lines.append,
            patience=HANGS,
        )
    assert sorted(site.heard[2:]) == [
        f"client-0{client}: the server has answered again" for client in range(2)
    ]


def test_a_server_that_was_stopped_goes_on_with_the_same_nodes(tmp_path: Path) -> None:
    """Another process of it: what had arrived at the first is not asked for again, and nothing is lost."""
    experiment = tiny(**EVERY, federation="scaffold", clients=3, rounds=4)
    site, stopped = LocalSite.new(tmp_path / "site", experiment), threading.Event()

    def stop(round: int, rounds: int, measurement: object) -> None:
        if round == 2 and not stopped.is_set():
            stopped.set()
            raise Interrupted("killed")

    with pytest.raises(Interrupted):
        site.run(tmp_path / "network", observer=stop)
    network = site.run(tmp_path / "network")
    # A checkpoint holds round 1, and not round 2.
    assert site.lines == ["rounds 2 to 2: 3 answers arrived before the run was broken off"]
    same_runs(network, run(experiment, tmp_path / "simulated"))


def test_nodes_of_a_run_that_is_done_are_told_so_after_a_kill(tmp_path: Path) -> None:
    """The server was killed between its last checkpoint and the end of its calls: what had arrived lies there still."""
    experiment = tiny(**EVERY, federation="fedavg", clients=2, rounds=2)
    site, out = LocalSite.new(tmp_path / "site", experiment), tmp_path / "network"
    before = site.run(out)
    site.lines.clear()
    left = Journal(out, experiment.digest, site.lines.append)
    left.keep(1, 2, "a" * 64, b"an update")
    left.close(done=False)
    after = site.run(out)
    assert site.lines == ["the run is done, and its nodes may not know: waits for them, to tell them"]
    assert all(node._done for node in site.nodes.values())
    assert site.ended == {0: None, 1: None}
    assert not list(out.glob("arrived*"))
    same_runs(after, before)
    site.lines.clear()
    assert site.run(out).done
    assert not site.lines, "once"


def test_the_run_begins_without_those_who_do_not_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Hub.wait

    def wait(own: Hub, patience: float, still: Callable[[], None] = lambda: None) -> bool:
        eventually(lambda: own.missing() == [1], "the two others are there")
        return honest(own, 0.1, still)

    monkeypatch.setattr(Hub, "wait", wait)
    experiment = tiny(**EVERY, federation="fedavg", clients=3, rounds=2)
    site = LocalSite.new(tmp_path / "site", experiment)
    network = site.run(tmp_path / "network", clients=[0, 2])
    assert site.lines == ["1 of 3 nodes have not come: the run begins without them"]
    assert network.rounds["active"].tolist() == [0, 2, 2]


def test_where_nobody_comes_there_is_no_run(tmp_path: Path) -> None:
    site = LocalSite.new(tmp_path / "site", tiny(**EVERY, federation="fedavg", clients=3, rounds=2))
    with pytest.raises(
        FedroamError, match=r"none of the 3 nodes has come within 0\.5 s, and nobody would learn"
    ):
        site.run(tmp_path / "network", clients=[], patience=0.5)


@pytest.mark.parametrize("seed", range(3))
def test_links_that_fail_change_nothing(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut or damaged anywhere, in the handshake or in the midst of a model: transfers go on, and nothing is lost."""
    monkeypatch.setattr(hub, "NOTICED", HANGS)  # however long it takes until a cut one is back
    experiment = tiny(**EVERY, federation="fedavg", clients=2, rounds=3, mobility="static")
    links: list[CuttingLink] = []

    def link(port: int) -> int:
        links.append(CuttingLink(port, seed, faults=12, most=12_000))
        return links[0].port

    site = LocalSite.new(tmp_path / "site", experiment, chunk=1024, away=HANGS)
    try:
        network = site.run(tmp_path / "network", link=link)
    finally:
        links[0].close()
    assert links[0].done > 5
    assert site.lines == []
    same_runs(network, run(experiment, tmp_path / "simulated"))


def test_a_run_that_a_simulation_finishes_says_so(tmp_path: Path) -> None:
    experiment = tiny(**EVERY, federation="fedavg", clients=2, rounds=5, checkpoint_every=2)
    site = LocalSite.new(tmp_path / "site", experiment)

    def stop(round: int, rounds: int, measurement: object) -> None:
        if round == 3:  # of which there is no checkpoint
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        site.run(tmp_path / "network", observer=stop)
    assert open_run(tmp_path / "network").where == "network"
    mixed = run(experiment, tmp_path / "network", existing="resume")
    assert mixed.where == "network to round 2, then simulation"
    simulated = run(experiment, tmp_path / "simulated")
    same_runs(mixed, simulated)
    found = variants([mixed, simulated])
    assert [group.label for group in found] == ["network to round 2, then simulation", "simulation"]


def test_a_line_of_a_peer_that_has_gone_is_told_once_a_round(tmp_path: Path) -> None:
    """It is asked to open its door as often as models begin to go while others train."""
    experiment = tiny(**EVERY, federation="decentralized", clients=2)
    site = LocalSite.new(tmp_path / "site", experiment, away=0.0)
    own = read_site(site.folder / FILE)
    there = Hub(site.folder, credentials(site.folder, own, "server"), {}, site.lines.append)
    try:
        for number in (1, 2):
            there.begin_round(number)
            for _ in range(3):
                order = Order(order=NO_ORDER, work="open", round=number)
                assert there.ask({1: Asked(order, b"", {}, lambda arrays: None)}) == {1: None}
    finally:
        there.stop(done=True)
    assert site.lines == [
        f"round {number}: peer-01 has gone: its answer (open) counts as not arrived" for number in (1, 2)
    ]


def test_a_node_that_nobody_asks_for_long_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection breaks for a moment, long after the last thing that it was asked."""
    later = [0.0]
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + later[0])
    monkeypatch.setattr(process, "time", clock)
    attends, heard = Node._attend, threading.Event()

    def attend(own: Node, channel: Any) -> Iterator[Push]:
        for push in attends(own, channel):
            yield push
            heard.set()

    monkeypatch.setattr(Node, "_attend", attend)
    experiment = tiny(**EVERY, federation="fedavg", clients=2)
    site = LocalSite.new(tmp_path / "site", experiment, away=0.0)
    own = read_site(site.folder / FILE)
    first = node_of(site.folder, "client-00", site.lines.append)
    first.close()
    there = Hub(
        site.folder,
        credentials(site.folder, own, "server"),
        dict.fromkeys((0, 1), first.hello),
        site.lines.append,
    )
    gate = Gate(there.start("127.0.0.1:0"))
    site.at(gate.port)
    try:
        with living(site):
            site.start(0)
            eventually(lambda: 0 not in there.missing(), "it is there")
            eventually(heard.is_set, "and knows it")
            later[0] = 2 * own.limits.retry
            gate.shut()
            eventually(lambda: 0 in there.missing(), "it is gone")
            gate.open()
            eventually(lambda: 0 not in there.missing() or site.ended, "it is back, or has given up")
            assert not site.ended
    finally:
        gate.close()
        there.stop(done=True)


@pytest.mark.parametrize("federation", ["fedavg", "decentralized", {"kind": "mohawk", "k2": 2}], ids=str)
def test_a_network_that_splits_and_heals(federation: Any, tmp_path: Path) -> None:
    """Two of four are on the other side in rounds 3 and 4, in which the cloud aggregates, and then back."""
    far, rounds = [2, 3], 6
    experiment = tiny(**EVERY, federation=federation, clients=4, rounds=rounds, mobility="static")
    site, gates, hubs = LocalSite.new(tmp_path / "site", experiment, away=0.0), list[Gate](), list[Hub]()

    def link(port: int) -> int:
        gates.append(Gate(port))
        return port

    def beyond(node: Node) -> None:
        node.site = node.site.model_copy(update={"address": f"127.0.0.1:{gates[0].port}"})

    def observe(round: int, rounds: int, measurement: object) -> None:
        if round == 2:
            gates[0].shut()
            eventually(lambda: hubs[0].missing() == far, "they are gone")
        if round == 4:
            gates[0].open()
            eventually(lambda: not hubs[0].missing(), "they are back")

    try:
        network = site.run(
            tmp_path / "network", dict.fromkeys(far, beyond), link=link, observer=observe, serving=hubs.append
        )
    finally:
        gates[0].close()
    # In round 3 they are still asked to learn; of access points they get no model to begin with.
    models = frozenset((3, int(access_point(a)), client) for a in range(4) for client in far)
    lost = {(3, client) for client in far} if isinstance(federation, str) else set()
    away = dict.fromkeys((3, 4), np.array(far))
    simulated = without(experiment, tmp_path / "simulated", lost, away, transfers=models)
    same_runs(network, simulated)
    assert [line for line in site.lines if "client-02" in line or "peer-02" in line]
    present = network.positions.pivot(index="round", columns="client", values="present")
    assert present[3].tolist() == [True, True, True, False, False, True, True]
    assert network.rounds["active"].tolist()[-1] == 4
