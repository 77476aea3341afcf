"""Models go from holder to holder, to whom the server allows it; what does not arrive, or does not fit, is left out."""

from __future__ import annotations

import contextlib
import hmac
import re
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from fedroam.components import Part, build
from fedroam.deploy.connections import HOLDER_SERVICE, dialled
from fedroam.deploy.messages import Gift, Header, Order, Ping, Refused, Taken, Wish, decode, encode, named
from fedroam.deploy.node import neighbours
from fedroam.deploy.node.holding import Holding, fact_arrays, facts_of, packed_sums
from fedroam.deploy.node.neighbours import Listener
from fedroam.deploy.node.process import Node
from fedroam.deploy.server.hub import Hub, _host
from fedroam.deploy.server.remote_aggregator import RemoteAggregator
from fedroam.deploy.site.file import FILE, Limits, read_site
from fedroam.deploy.site.founding import found_site
from fedroam.deploy.site.identity import Callers, Credentials, credentials, revoke
from fedroam.errors import FedroamError, InputError
from fedroam.experiment import Experiment
from fedroam.federation import AggregatesAtHolders, Gathered, Round, access_point
from fedroam.learning import Models
from fedroam.mixing import Fact
from fedroam.scene import Scene, prepare
from fedroam.simulation import begin
from support.losing import same_runs, without
from support.messages import one_answer
from support.sites import LocalSite
from support.tiny import tiny
from support.waiting import HANGS

grpc = pytest.importorskip("grpc")
ALL_MEET = {"contacts": {"kind": "radius", "radius": float("inf")}}
EVERY = {"evaluate_every": 1, "test_share": 0.0, "clients": 4, "rounds": 3, "mobility": "static"}
GOSSIP = tiny(**EVERY, **ALL_MEET)
MOHAWK = tiny(**EVERY, federation={"kind": "mohawk", "k2": 2})


# --- which way models go ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("experiment", "expected"),
    [
        (GOSSIP, {("peer-", "train", 1)}),
        (MOHAWK, {("access-point-", "open", 1), ("access-point-", "open", 3)}),
        (GOSSIP.replace(federation="push_sum"), {("peer-", "train", 1), ("peer-", "say", 1)}),
        (GOSSIP.replace(federation={"kind": "cached", "size": 2}), {("peer-", "train", 1)}),
        (GOSSIP.replace(federation="ad_psgd"), {("peer-", "train", 1)}),
        (GOSSIP.replace(federation="gossip_learning"), {("peer-", "train", 1), ("peer-", "say", 1)}),
        (
            MOHAWK.replace(federation={"kind": "hierarchical_fedasync", "k2": 2}),
            {("access-point-", "open", 1), ("access-point-", "open", 3)},
        ),
        (
            MOHAWK.replace(federation={"kind": "hierarchical_fedbuff", "k2": 2, "size": 2}),
            {("access-point-", "open", 1), ("access-point-", "aggregate", 1), ("access-point-", "open", 3)},
        ),
    ],
    ids=["peers", "access points", "push-sum", "caches", "pairs", "merged one by one", "fedasync", "fedbuff"],
)
def test_the_server_gives_only_what_is_its_own(
    experiment: Experiment,
    expected: set[tuple[str, str, int]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What all begin with, and the cloud's: all else comes from whoever holds it."""
    given: list[tuple[str, str, int]] = []
    honest = Node._arrived

    def arrived(node: Node, channel: Any, order: Order, model: str, *rest: Any) -> bytes:
        if model:
            given.append((node.name.rstrip("0123456789"), order.work, order.round))
        return honest(node, channel, order, model, *rest)

    monkeypatch.setattr(Node, "_arrived", arrived)
    site = LocalSite.new(tmp_path / "site", experiment)
    site.run(tmp_path / "network")
    assert site.lines == site.heard == []
    assert set(given) == expected


# --- what fails on the way ----------------------------------------------------------------------------------------


def serving(round: int, change: Callable[[bytes], bytes], more: int = 0) -> Callable[[Node], object]:
    """A node that gives others something else than its model in one round; more: bytes beyond those wished for."""

    def apply(node: Node) -> None:
        honest = node.holding.piece

        def piece(holder: int, number: int, name: str, offset: int, chunk: int) -> bytes | None:
            found = honest(holder, number, name, 0, 1 << 30)
            if found is None or number != round:
                return honest(holder, number, name, offset, chunk)
            return change(found)[offset : offset + chunk + more]

        node.holding.piece = piece  # type: ignore[method-assign]

    return apply


def with_nan(body: bytes) -> bytes:
    return body[:-4] + np.array([np.nan], np.float32).tobytes()


@pytest.mark.parametrize(
    ("change", "more", "told"),
    [
        (with_nan, 0, "sent another model than that of this round"),
        (lambda body: body[:-400], 0, "sent a piece of 0 bytes"),
        (lambda body: body + bytes(400), 400, "sent a piece of"),
    ],
    ids=["no number", "a shorter one", "a longer one"],
)
def test_a_model_that_does_not_fit_is_a_link_that_is_down(
    change: Callable[[bytes], bytes], more: int, told: str, tmp_path: Path
) -> None:
    site = LocalSite.new(tmp_path / "site", GOSSIP)
    network = site.run(tmp_path / "network", {1: serving(2, change, more)})
    lost = frozenset({(2, 1, 0), (2, 1, 2), (2, 1, 3)})
    down = [
        f"round 2: the model of peer-01 has not reached peer-0{i}: their link counts as down"
        for i in (0, 2, 3)
    ]
    assert sorted(site.lines) == [
        *down,
        *(f"round 3: models of peer-01 reach peer-0{i} again" for i in (0, 2, 3)),
    ]
    assert sorted(line.split(": ")[0] for line in site.heard) == ["peer-00", "peer-02", "peer-03"]
    assert all("round 2: model of peer-01: " in line for line in site.heard)
    assert all(told in line for line in site.heard)
    same_runs(network, without(GOSSIP, tmp_path / "simulated", set(), transfers=lost))


def test_a_model_of_an_old_round_is_a_link_that_is_down(tmp_path: Path) -> None:
    old: list[bytes] = []

    def replay(node: Node) -> None:
        honest = node.holding.piece

        def piece(holder: int, number: int, name: str, offset: int, chunk: int) -> bytes | None:
            if number == 1:
                old[:] = [honest(holder, number, name, 0, 1 << 30) or b""]
            if number in (2, 3):
                return old[0][offset : offset + chunk]
            return honest(holder, number, name, offset, chunk)

        node.holding.piece = piece  # type: ignore[method-assign]

    site = LocalSite.new(tmp_path / "site", GOSSIP)
    network = site.run(tmp_path / "network", {1: replay})
    lost = frozenset((t, 1, i) for t in (2, 3) for i in (0, 2, 3))
    assert len(site.lines) == 3  # told when it goes down, not in every round
    assert all(line.startswith("round 2: ") for line in site.lines)
    same_runs(network, without(GOSSIP, tmp_path / "simulated", set(), transfers=lost))


def test_a_peer_that_dies_in_the_midst_of_a_transfer_is_left_out(tmp_path: Path) -> None:
    def dying(node: Node) -> None:
        honest = node.holding.piece

        def piece(holder: int, number: int, name: str, offset: int, chunk: int) -> bytes | None:
            if number == 2:
                threading.Thread(target=node.stop).start()
                return honest(holder, number, name, 0, 100) if offset == 0 else None
            return honest(holder, number, name, offset, chunk)

        def carry(order: Order, arrays: Any) -> Any:
            if order.round == 2:
                assert node.stopping.wait(HANGS)
                raise SystemExit
            return honest_carry(order, arrays)

        node.holding.piece = piece  # type: ignore[method-assign]
        honest_work = node._work

        def honest_carry(order: Order, arrays: Any) -> Any:
            return honest_work(order, arrays)

        node._work = lambda order, arrays: (  # type: ignore[method-assign]
            carry(order, arrays) if order.work == "carry" else honest_work(order, arrays)
        )

    site = LocalSite.new(tmp_path / "site", GOSSIP, away=0.0)
    network = site.run(tmp_path / "network", {1: dying})
    assert any("peer-01 has gone" in line for line in site.lines)
    ends = frozenset((2, *pair) for i in (0, 2, 3) for pair in ((1, i), (i, 1)))
    gone = {3: np.array([1])}
    same_runs(network, without(GOSSIP, tmp_path / "simulated", {(3, 1)}, gone, transfers=ends))


@pytest.mark.parametrize("wrong", ["no number", "another shape", "nothing"])
def test_an_access_point_whose_answer_does_not_fit_has_aggregated_nothing(wrong: str, tmp_path: Path) -> None:
    scene = prepare(MOHAWK)
    state = begin(scene)
    scene.learner.close()
    ap = int(scene.parts.federation.distribute(_first(scene, state)).state["ap"][0])
    number = int(access_point(ap))

    def apply(node: Node) -> None:
        honest = node.holding.aggregate

        def aggregate(order: Order, arrays: Any) -> dict[str, np.ndarray]:
            found = honest(order, arrays)
            if order.round != 1:
                return found
            if wrong == "nothing":
                raise MemoryError("no memory left")
            values = found["parameters"]
            return {**found, "parameters": values[:-1] if wrong == "another shape" else values * np.nan}

        node.holding.aggregate = aggregate  # type: ignore[method-assign]

    site = LocalSite.new(tmp_path / "site", MOHAWK)
    network = site.run(tmp_path / "network", {number: apply})
    (line,) = site.lines
    assert line.startswith(f"round 1: access-point-0{ap} ")
    assert line.endswith("its answer (aggregate) counts as not arrived")
    assert network.rounds["waiting"].iloc[1] > 0
    same_runs(network, without(MOHAWK, tmp_path / "simulated", set(), silent=frozenset({(1, number)})))


@pytest.mark.parametrize("wrong", ["no number", "another shape", "nothing"])
def test_a_peer_that_says_nothing_that_fits_keeps_its_share(wrong: str, tmp_path: Path) -> None:
    """And gets those of others; who does not tell what it made of them has them all the same."""
    experiment = GOSSIP.replace(federation="push_sum")

    def apply(node: Node) -> None:
        def failing(work: str, round: int) -> None:
            honest = node.holding.say if work == "say" else node.holding.aggregate

            def call(order: Order, arrays: Any) -> dict[str, np.ndarray]:
                found = honest(order, arrays)
                if order.round != round:
                    return found
                if wrong == "nothing":
                    raise MemoryError("no memory left")
                values = found["parameters"]
                return {**found, "parameters": values[:-1] if wrong == "another shape" else values * np.nan}

            setattr(node.holding, work, call)

        failing("say", 2)
        failing("aggregate", 3)

    site = LocalSite.new(tmp_path / "site", experiment)
    network = site.run(tmp_path / "network", {1: apply})
    assert [line.split(": its")[-1] for line in site.lines] == [
        f" answer ({work}) counts as not arrived" for work in ("say", "aggregate")
    ]
    kept = frozenset((2, 1, i) for i in (0, 2, 3))
    same_runs(network, without(experiment, tmp_path / "simulated", set(), transfers=kept))


def _first(scene: Scene, state: Any) -> Any:
    return Round(1, state.models, state.federation, scene.context, state.meeting, scene.learner)


def test_an_update_that_does_not_reach_its_access_point_waits(tmp_path: Path) -> None:
    scene = prepare(MOHAWK)
    scene.learner.close()
    ap = int(scene.parts.federation.distribute(_first(scene, begin(scene))).state["ap"][2])
    number = int(access_point(ap))

    def apply(node: Node) -> None:
        honest = node.holding.take
        node.holding.take = lambda holder, round, *rest: (  # type: ignore[method-assign]
            None if (holder, round) == (2, 1) else honest(holder, round, *rest)
        )

    site = LocalSite.new(tmp_path / "site", MOHAWK)
    network = site.run(tmp_path / "network", {number: apply})
    assert site.lines == [
        f"round 1: the model of client-02 has not reached access-point-0{ap}: their link counts as down",
        f"round 2: models of client-02 reach access-point-0{ap} again",
    ]
    lost = frozenset({(1, 2, number)})
    same_runs(network, without(MOHAWK, tmp_path / "simulated", set(), transfers=lost))


@pytest.mark.parametrize("shown", [0, 255])
def test_who_says_that_it_has_brought_its_model_and_has_not_harms_nobody_else(
    shown: int, tmp_path: Path
) -> None:
    """Its access point goes on to aggregate what it has."""
    scene = prepare(MOHAWK)
    scene.learner.close()
    ap = int(scene.parts.federation.distribute(_first(scene, begin(scene))).state["ap"][2])
    number = int(access_point(ap))

    def apply(node: Node) -> None:
        honest = node._work

        def work(order: Order, arrays: Any) -> dict[str, np.ndarray]:
            if order.work != "carry" or order.round != 1 or not arrays["puts"].any():
                return honest(order, arrays)
            false = {"arrived": np.ones(order.rows, dtype=bool)}
            return {**false, "receipt": np.full((order.rows, 32), shown, np.uint8)}

        node._work = work  # type: ignore[method-assign]

    site = LocalSite.new(tmp_path / "site", MOHAWK)
    network = site.run(tmp_path / "network", {2: apply})
    assert site.lines == [
        f"round 1: client-02 says that access-point-0{ap} has its model, and shows no receipt",
        f"round 1: the model of client-02 has not reached access-point-0{ap}: their link counts as down",
        f"round 2: models of client-02 reach access-point-0{ap} again",
    ]
    lost = frozenset({(1, 2, number)})
    same_runs(network, without(MOHAWK, tmp_path / "simulated", set(), transfers=lost))


def test_a_site_for_another_experiment_s_roles_is_refused(tmp_path: Path) -> None:
    site = LocalSite.new(tmp_path / "site", MOHAWK)
    own = read_site(site.folder / FILE)
    fewer = tuple(node for node in own.nodes if node.access_point != 3)
    own.model_copy(update={"nodes": fewer}).write(site.folder)
    with pytest.raises(InputError, match="has 0 peers and 3 access points, its experiment 0 and 4"):
        site.run(tmp_path / "network")


# --- who gets what ------------------------------------------------------------------------------------------------


class Door:
    """A listening node without a run, and how anybody calls it."""

    def __init__(self, folder: Path, experiment: Experiment, name: str) -> None:
        found_site(
            folder, experiment, address="127.0.0.1:1", limits=Limits(chunk=1024), listening="127.0.0.1:0"
        )
        self.folder, self.site, self.lines = folder, read_site(folder / FILE), [""][:0]
        node = self.site.node(name)
        assert node is not None
        self.node = node
        self.experiment, scene = experiment, prepare(experiment)
        scene.learner.close()
        self.holding = Holding.of(scene, node.number)
        models: Models = scene.start_models([0])
        self.name, self.body = named(models, 0)
        self.listener = Listener(
            credentials(folder, self.site, name), Callers(folder, node.role, self.lines.append), self.holding,
            self.lines.append,
        )  # fmt: skip
        self.port = self.listener.start("127.0.0.1:0")
        self._channels: list[Any] = []

    def open(self, holder: int, *, puts: bool, round: int = 1, secret: str = "") -> None:
        order = Order(order=f"{'0' * 16}-1", work="open", round=round, rows=1, secret=secret)
        self.holding.begin(order)
        self.holding.open(
            order, {"end": np.array([holder]), "model": packed_sums([self.name]), "puts": np.array([puts])}
        )

    def channel(self, name: str) -> Any:
        self._channels.append(dialled(self.site, self.shown(name), self.node, f"127.0.0.1:{self.port}"))
        return self._channels[-1]

    def call(self, own: Credentials, method: str, message: bytes) -> bytes:
        self._channels.append(dialled(self.site, own, self.node, f"127.0.0.1:{self.port}"))
        return one_answer(self._channels[-1], HOLDER_SERVICE, method, message)

    def shown(self, name: str) -> Credentials:
        return credentials(self.folder, self.site, name)

    def fetch(self, name: str, **changes: Any) -> bytes:
        return self.call(
            self.shown(name),
            "fetch",
            encode(Wish(**{"round": 1, "model": self.name, "offset": 0, "size": 1024, **changes})),
        )

    def ping(self, name: str) -> bytes:
        """Asked as nodes ask, which hear the call to its end."""
        with dialled(self.site, self.shown(name), self.node, f"127.0.0.1:{self.port}") as channel:
            ask = channel.unary_unary(f"/{HOLDER_SERVICE}/ping")
            answer: bytes = ask(encode(Ping()), timeout=HANGS)
        return answer

    def put(self, name: str, body: bytes, **changes: Any) -> Taken:
        gift = Gift(**{"round": 1, "model": self.name, "offset": 0, **changes})
        return decode(self.call(self.shown(name), "put", encode(gift, body)), Taken)[0]

    def close(self) -> None:
        for channel in self._channels:
            channel.close()
        self.listener.stop()


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Door]:
    found = Door(tmp_path / "site", GOSSIP, "peer-00")
    found.open(1, puts=False)
    found.holding.keep(found.name, found.body, "learnt 0")
    yield found
    found.close()


@pytest.fixture
def station(tmp_path: Path) -> Iterator[Door]:
    found = Door(tmp_path / "stations", MOHAWK, "access-point-00")
    found.open(1, puts=True)
    yield found
    found.close()


def refused(call: Callable[[], Any]) -> Any:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value.code()


def test_a_peer_gives_its_model_to_whom_the_server_allows_it(peer: Door) -> None:
    assert peer.fetch("peer-01").endswith(peer.body[:1024])
    assert peer.fetch("peer-01", offset=1024).endswith(peer.body[1024:2048])
    assert peer.lines == []


@pytest.mark.parametrize(
    ("name", "changes"),
    [("peer-02", {}), ("peer-01", {"round": 0}), ("peer-01", {"round": 2}), ("peer-01", {"model": "0" * 64})],
    ids=["another peer", "an earlier round", "a later round", "another model"],
)
def test_whoever_is_not_allowed_gets_nothing(peer: Door, name: str, changes: dict[str, Any]) -> None:
    assert refused(lambda: peer.fetch(name, **changes)) == grpc.StatusCode.NOT_FOUND
    assert refused(lambda: peer.put(name, peer.body[:1024], **changes)) == grpc.StatusCode.NOT_FOUND
    assert len(peer.lines) == 2
    assert all(line.startswith(f"refused: {name}") for line in peer.lines)


def test_with_its_round_a_permission_ends(peer: Door) -> None:
    peer.fetch("peer-01")
    peer.open(3, puts=False, round=2)
    assert refused(lambda: peer.fetch("peer-01")) == grpc.StatusCode.NOT_FOUND
    assert refused(lambda: peer.fetch("peer-01", round=2)) == grpc.StatusCode.NOT_FOUND
    assert peer.fetch("peer-03", round=2).endswith(peer.body[:1024]), "its own model outlives the round"


def test_only_the_right_role_speaks_to_a_node(peer: Door, station: Door, tmp_path: Path) -> None:
    """An access point to devices, a peer to peers; the server calls nobody."""
    for own in ("server", "access-point-01"):
        code = refused(lambda own=own: station.put(own, b""))  # type: ignore[misc]
        assert code in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAVAILABLE)
    assert refused(lambda: peer.fetch("server")) in (
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNAVAILABLE,
    )
    # A device of another site, with another authority.
    stranger = peer.shown("peer-01")
    gift = encode(Gift(round=1, model=station.name, offset=0), station.body[:1024])
    assert refused(lambda: station.call(stranger, "put", gift)) == grpc.StatusCode.UNAVAILABLE
    # And one that has this site's authority, whoever may have given it that.
    mixed = Credentials(stranger.key, stranger.certificate, station.shown("client-01").authority)
    assert refused(lambda: station.call(mixed, "put", gift)) == grpc.StatusCode.UNAVAILABLE
    assert station.holding.lacks([station.name])


def test_a_device_that_is_revoked_gives_and_gets_nothing(station: Door) -> None:
    assert station.put("client-01", station.body[:1024]).received == 1024
    revoke(station.folder, "client-01")
    assert refused(lambda: station.put("client-01", station.body[1024:2048], offset=1024)) == (
        grpc.StatusCode.PERMISSION_DENIED
    )
    assert any("is revoked" in line for line in station.lines)


def test_a_question_is_answered_to_whom_it_may_and_says_nothing(
    peer: Door, station: Door, tmp_path: Path
) -> None:
    """No more than that it is there; and not even that to a stranger, a wrong role, or who is revoked."""
    assert station.ping("client-00") == encode(Header())
    assert peer.ping("peer-03") == encode(Header())
    for door, name in ((station, "access-point-01"), (station, "server"), (peer, "server")):
        assert refused(lambda d=door, n=name: d.ping(n)) in (  # type: ignore[misc]
            grpc.StatusCode.PERMISSION_DENIED,
            grpc.StatusCode.UNAVAILABLE,
        )
    stranger = peer.shown("peer-01")
    mixed = Credentials(stranger.key, stranger.certificate, station.shown("client-01").authority)
    nobody = Credentials(b"", b"", station.shown("client-01").authority)
    for own in (stranger, mixed, nobody):
        assert refused(lambda o=own: station.call(o, "ping", encode(Ping()))) == (  # type: ignore[misc]
            grpc.StatusCode.UNAVAILABLE
        )
    revoke(station.folder, "client-00")
    assert refused(lambda: station.ping("client-00")) == grpc.StatusCode.PERMISSION_DENIED


def test_who_is_revoked_and_asks_nothing_keeps_nobody_out(station: Door) -> None:
    """It is told that it may not speak before it has sent a question."""
    revoke(station.folder, "client-01")
    over, call = threading.Event(), station.channel("client-01").stream_stream(f"/{HOLDER_SERVICE}/ping")
    try:
        for _ in range(8):
            silent = call(iter(lambda: over.wait(HANGS) and None, None), timeout=HANGS)
            assert refused(lambda: next(silent)) == grpc.StatusCode.PERMISSION_DENIED  # noqa: B023
    finally:
        over.set()
    assert len(station.lines) == 1, "told once"


def test_who_asks_without_end_is_not_answered_for_a_while_and_others_are(
    station: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "PINGS", 3)
    monkeypatch.setattr(neighbours, "REFILL", 1e-9)
    for _ in range(3):
        station.ping("client-01")
    for _ in range(5):
        assert refused(lambda: station.ping("client-01")) == grpc.StatusCode.RESOURCE_EXHAUSTED
    station.ping("client-02")
    assert [line for line in station.lines if "client-01" in line] == station.lines
    assert len(station.lines) == 1, "told once"
    monkeypatch.setattr(neighbours, "REFILL", 1e9)
    station.ping("client-01")


def test_an_access_point_takes_what_it_waits_for_and_nothing_else(station: Door) -> None:
    pieces = [(at, station.body[at : at + 1024]) for at in range(0, len(station.body), 1024)]
    for at, piece in pieces:
        taken = station.put("client-01", piece, offset=at)
        again = station.put("client-01", piece, offset=at)  # the same piece twice counts once
        assert again.received == taken.received == min(at + 1024, len(station.body))
    assert taken.over
    assert not station.holding.lacks([station.name])
    assert refused(lambda: station.put("client-02", pieces[0][1])) == grpc.StatusCode.NOT_FOUND
    long = station.body + bytes(10_000)
    assert refused(lambda: station.put("client-01", long * 40)) == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_who_has_brought_all_of_a_model_gets_a_receipt_that_is_its_own(station: Door) -> None:
    secret, last = "7" * 64, len(station.body) // 1024 * 1024
    station.open(1, puts=True, secret=secret)
    station.open(2, puts=True, secret=secret)
    found = [
        station.put(name, station.body[at : at + 1024], offset=at)
        for name in ("client-01", "client-02")
        for at in range(0, len(station.body), 1024)
    ]
    assert [taken.receipt != "" for taken in found] == [taken.over for taken in found]
    for number, taken in ((1, found[last // 1024]), (2, found[-1])):
        what = f"{number} {station.name}".encode()
        assert taken.receipt == hmac.new(bytes.fromhex(secret), what, "sha256").hexdigest()
    station.open(1, puts=True, round=2)
    assert station.holding.receipt(1, station.name) == "", "the secret goes with its round"


def test_a_damaged_model_is_taken_again_two_times(station: Door) -> None:
    wrong = bytes(len(station.body))

    def bring(body: bytes) -> Taken:
        for at in range(0, len(body), 1024):
            found = station.put("client-01", body[at : at + 1024], offset=at)
        return found

    assert bring(wrong) == Taken()
    assert bring(wrong) == Taken()
    assert bring(station.body).over
    station.open(1, puts=True, round=2)
    gift = {"round": 2}
    for _ in range(3):
        for at in range(0, len(wrong), 1024):
            station.put("client-01", wrong[at : at + 1024], offset=at, **gift)
    assert refused(lambda: station.put("client-01", wrong[:1024], **gift)) == grpc.StatusCode.NOT_FOUND


def test_frames_that_are_none_are_refused(peer: Door) -> None:
    own = peer.shown("peer-01")
    good = encode(Wish(round=1, model=peer.name, offset=0, size=1))
    for frame in (b"", b"\0", good[:-1], b"\xff\xff\xff\xff", b"\0\0\0\2[]"):
        for method in ("fetch", "put", "ping"):
            code = refused(lambda m=method, f=frame: peer.call(own, m, f))  # type: ignore[misc]
            assert code == grpc.StatusCode.INVALID_ARGUMENT, (method, frame)
    assert refused(lambda: peer.call(own, "attend", good)) == grpc.StatusCode.UNIMPLEMENTED


def test_a_node_listens_everywhere_unless_its_site_says_where(peer: Door) -> None:
    taken = Listener(
        peer.shown("peer-02"),
        Callers(peer.folder, "peer", peer.lines.append),
        peer.holding,
        peer.lines.append,
    )
    try:
        told = f"address '127.0.0.1:{peer.port}': port {peer.port} is in use by another process; choose another port"
        with pytest.raises(InputError, match=told):
            taken.start(f"127.0.0.1:{peer.port}")
        nobodys = ["192.0.2.1:0"]  # for documentation (RFC 5737), as the other (RFC 3849)
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET6):  # a system may be without
            nobodys.append("[2001:db8::1]:0")
        for address in nobodys:
            with pytest.raises(FedroamError, match="does not have it, or not yet") as caught:
                taken.start(address)
            assert not isinstance(caught.value, InputError), "exit code 1: a unit tries again"
    finally:
        taken.stop()
    door = Listener(
        peer.shown("peer-00"),
        Callers(peer.folder, "peer", peer.lines.append),
        peer.holding,
        peer.lines.append,
    )
    peer.port = door.start("")
    try:
        assert peer.fetch("peer-01").endswith(peer.body[:1024])
    finally:
        door.stop()


@pytest.mark.parametrize(
    ("said", "host"), [("ipv4:192.168.1.7:5", "192.168.1.7"), ("ipv6:%5Bfe80::1%5D:50061", "[fe80::1]")]
)
def test_a_node_without_an_address_is_found_where_it_calls_from(said: str, host: str) -> None:
    assert _host(said) == host


@pytest.mark.parametrize(
    ("stated", "found"),
    [
        ("", ("192.0.2.20", 40_000)),
        ("192.0.2.7:0", ("192.0.2.7", 40_000)),
        ("192.0.2.7:50070", ("192.0.2.7", 50_070)),
        *((f"{host}:50070", ("192.0.2.20", 50_070)) for host in ("0.0.0.0", "[::]", "*")),
        ("0.0.0.0:0", ("192.0.2.20", 40_000)),
    ],
)
def test_who_listens_everywhere_is_found_where_it_calls_from(
    stated: str, found: tuple[str, int], tmp_path: Path
) -> None:
    """At the port that the site says, if it says one."""
    folder = tmp_path / "site"
    site = found_site(folder, GOSSIP, address="127.0.0.1:1")
    site = site.changed(site.named("peer-00").model_copy(update={"address": stated}))
    site.write(folder)
    there = Hub(folder, credentials(folder, site, "server"), {}, [""][:0].append)
    there._places[0].host, there._places[0].port = "192.0.2.20", 40_000
    try:
        assert there.found(0) == found
    finally:
        there.stop(done=True)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "access_point = 1\n",
            "access_point = 0\n",
            "access points of the experiment are not 0, 1, ..., each once",
        ),
        ("access_point = 1\n", "client = 4\n", "access points of the experiment are not"),
        ('role = "client"', 'role = "peer"', "allowed are clients or peers, not both"),
        ('address = "127.0.0.1:0"', 'address = "somewhere"', "nodes.1.address = 'somewhere'"),
        (
            'address = "127.0.0.1:0"',
            'address = "127.0.0.1:65536"',
            "allowed is HOST:PORT, with a port of 65535 at most",
        ),
        (
            "access_point = 1\n",
            "acces_point = 1\n",
            "unknown key 'acces_point': allowed are access_point, address, ",
        ),
        ("[limits]\n", "[limits]\nawya = 3\n", "limits.awya: unknown key 'awya': allowed are answer, away, "),
        ("access_point = 1\n", 'access_point = 1\nbssid = ["B8:27"]\n', "bssid.0 = 'B8:27'"),
        ("client = 0\n", 'client = 0\nbssid = ["b8:27:eb:00:00:01"]\n', "only access points have a bssid"),
        (
            "access_point = 0\n",
            'access_point = 0\nmeter = { kind = "rapl" }\n',
            "only clients and peers have a meter",
        ),
    ],
)
def test_roles_that_do_not_fit_are_refused(station: Door, old: str, new: str, told: str) -> None:
    path = station.folder / FILE
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=re.escape(told)):
        read_site(path)


# --- what a rule may know -----------------------------------------------------------------------------------------


class Curious(Part):
    """A rule that declares all facts."""

    needs: ClassVar[tuple[Fact, ...]] = ("paths", "contact_durations", "radius", "class_counts")


def test_a_rule_at_a_holder_knows_what_it_declares() -> None:
    scene = prepare(tiny(mobility={"kind": "random", "grid": 4, "mobile": 5}, clients=6))
    scene.learner.close()
    meeting = begin(scene).meeting
    plain = scene.context.facts(scene.parts.aggregation, meeting)
    assert fact_arrays(plain).keys() == {"samples", "speed"}
    facts = scene.context.facts(Curious(), meeting)
    there = facts_of(Curious(), fact_arrays(facts))
    np.testing.assert_array_equal(there.samples, facts.samples)
    np.testing.assert_array_equal(there.speed, facts.speed)
    assert there.contact_durations.nnz
    np.testing.assert_array_equal(there.contact_durations.toarray(), facts.contact_durations.toarray())
    np.testing.assert_array_equal(there.class_counts, facts.class_counts)
    assert there.radius == facts.radius == 1.5
    np.testing.assert_array_equal(there.paths.point, facts.paths.point)


# --- what a node is asked to make ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "told"),
    [([1 << 40], f"a model of {1 << 40} bytes, allowed are "), ([], "1 models and the sizes of 0")],
)
def test_a_model_of_a_wrong_size_is_not_fetched(
    sizes: list[int], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Node._fetch

    def fetch(node: Node, channel: Any, order: Order) -> Any:
        if (node.name, order.round) == ("peer-01", 1) and order.models:
            order = order.model_copy(update={"sizes": sizes})
        return honest(node, channel, order)

    monkeypatch.setattr(Node, "_fetch", fetch)
    site = LocalSite.new(tmp_path / "site", GOSSIP.replace(rounds=1))
    site.run(tmp_path / "network")
    (line,) = site.heard
    assert line.startswith(f"peer-01: round 1: train: Refused: {told}")


def test_orders_that_a_node_cannot_follow_are_refused(peer: Door, tmp_path: Path) -> None:
    """To say something where models themselves travel; without a model; with one that is not here, or is none; with
    what it should keep, and does not."""
    none = {"end": np.zeros(0, np.int64), "model": np.zeros((0, 32), np.uint8)}

    def told(holding: Holding, work: str, **facts: Any) -> str:
        order = Order.model_validate({"order": f"{'0' * 16}-1", "work": work, "round": 1, **facts})
        with pytest.raises(Refused) as caught:
            (holding.say if work == "say" else holding.aggregate)(order, none)
        return str(caught.value)

    assert told(peer.holding, "say", models=[peer.name]) == "an order to say where nobody does"
    door = Door(tmp_path / "pushing", GOSSIP.replace(federation="push_sum"), "peer-00")
    try:
        door.holding.keep(door.name, door.body)
        door.holding.keep("1" * 64, b"no model")
        keeps = {"keeps": {"numerators": {"kind": "float64", "shape": [3]}}}
        assert told(door.holding, "say") == "an order to say without a model"
        assert (
            told(door.holding, "aggregate", models=[door.name], **keeps)
            == "an order to aggregate without a model"
        )
        assert told(door.holding, "say", models=["0" * 64]) == f"model {'0' * 12} is not here"
        assert told(door.holding, "say", models=["1" * 64]).startswith("a body that is no safetensors")
        assert told(door.holding, "say", models=[door.name, door.name], **keeps).startswith("array ")
        assert "array 'buffers' is" in told(door.holding, "aggregate", models=[door.name]), (
            "a model, not a message"
        )
    finally:
        door.close()


def test_an_order_names_no_more_models_than_its_header_holds() -> None:
    """A peer that has more in its cache ends the run, with a line that says so."""
    scene = prepare(GOSSIP)
    scene.learner.close()
    models, none = scene.start_models([0]), np.zeros(0, np.int64)
    hub: Any = SimpleNamespace(name=lambda number: f"peer-0{number}")
    rule = build("federation", "cached")
    assert isinstance(rule, AggregatesAtHolders)
    own = RemoteAggregator(hub, rule, scene.context)
    many = models.rows(torch.zeros(512, dtype=torch.int64))
    gathered = Gathered(0, 0, none, none, None, beside=many)
    with pytest.raises(FedroamError, match="round 7: peer-00 needs 513 models to aggregate, allowed are 512"):
        own.made(rule, models, [gathered], scene.context.known(begin(scene).meeting, 7))
