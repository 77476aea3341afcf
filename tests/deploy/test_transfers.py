"""Pieces under way at once: how many turns a transfer takes, how much is under way, and that it arrives whatever
breaks."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

pytest.importorskip("grpc")
pytest.importorskip("cryptography")

import grpc
from typing_extensions import override

from deploy.test_holders import GOSSIP, MOHAWK, Door, refused
from deploy.test_who_may_speak import HELLO, Asking, Server, asked
from fedroam.deploy import transfers
from fedroam.deploy.connections import HOLDER_SERVICE, SITE_SERVICE
from fedroam.deploy.messages import HEADER, Fetch, Gift, Header, Order, Refused, Taken, Wish, decode, encode
from fedroam.deploy.node import neighbours
from fedroam.deploy.node.holding import Holding, packed_sums
from fedroam.deploy.node.neighbours import Errand, Neighbours
from fedroam.deploy.node.process import Node
from fedroam.deploy.server import hub
from fedroam.deploy.site.file import PIECE
from fedroam.deploy.site.identity import Callers, revoke
from fedroam.deploy.transfers import AHEAD, FEWEST, MOST, SMALLEST, Talk, brought, fetched, joined
from fedroam.scene import prepare
from support.far import Far
from support.sites import LocalSite
from support.waiting import HANGS, eventually

MODEL = "e" * 64
WIDE = {"model": {"kind": "mlp", "hidden": [100]}}  # 7,510 numbers: thirty pieces of 1,024 bytes


# --- turns and bytes under way, in closed form ------------------------------------------------------------------------


class Line:
    """A talk over a link of so many bytes in a second and so many seconds for a message and its answer, in a time of
    its own; the other end answers at once. Each request is sent when the one before it is through."""

    def __init__(self, body: bytes, rate: float, turn: float) -> None:
        self.body, self.rate, self.turn = body, rate, turn
        self.now, self.free, self.most = 0.0, 0.0, 0  # most: bytes under way at once
        self.taken = bytearray()
        self.answers: deque[tuple[float, int, bytes]] = deque()

    def ask(self, request: bytes) -> None:
        if b'"size"' in request:
            wish = decode(request, Wish)[0]
            size, reply = wish.size, encode(Header(), self.body[wish.offset : wish.offset + wish.size])
        else:
            gift, piece = decode(request, Gift)
            joined(self.taken, gift.offset, piece, len(self.body))
            size, over = len(piece), len(self.taken) == len(self.body)
            reply = encode(Taken(received=len(self.taken), over=over))
        self.free = max(self.free, self.now) + size / self.rate
        self.answers.append((self.free + self.turn, size, reply))
        self.most = max(self.most, sum(some for _, some, _ in self.answers))

    def answer(self) -> bytes:
        due, _, reply = self.answers.popleft()
        self.now = max(self.now, due)
        return reply


def wish(offset: int, size: int) -> Wish:
    return Wish(round=1, model=MODEL, offset=offset, size=size)


def gift(offset: int) -> Gift:
    return Gift(round=1, model=MODEL, offset=offset)


def carried(line: Any, body: bytes, way: str, chunk: int = 262_144) -> bytes:
    """What comes out where a body is fetched, or brought, over a line."""
    if way == "fetched":
        found = bytearray()
        for _ in fetched(line, wish, found, len(body), chunk):
            pass
        return bytes(found)
    *_, last = brought(line, gift, body, 0, lambda: chunk, lambda size: None)
    assert last.taken.over
    return bytes(line.taken)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], float]], None]:
    """Lets transfers read the time elsewhere."""

    def read(now: Callable[[], float]) -> None:
        monkeypatch.setattr(transfers, "time", SimpleNamespace(monotonic=now))

    return read


@pytest.mark.parametrize("way", ["fetched", "brought"])
@pytest.mark.parametrize("turn", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("rate", [1e5, 1e6, 4e6])
@pytest.mark.parametrize("size", [20_000, 250_000, 2_000_000])
def test_a_transfer_takes_its_bytes_and_few_turns(
    way: str, turn: float, rate: float, size: int, clock: Any
) -> None:
    """One turn is that of the last piece, and another one may pass while the link is not known; on a link of half a
    second some more, until as much is under way as it has room for. A piece a turn would be hundreds."""
    line, chunk = Line(bytes(size), rate, turn), 32_768
    clock(lambda: line.now)
    assert carried(line, line.body, way, chunk) == line.body
    turns = (line.now - size / rate) / turn
    assert 1 - 1e-6 <= turns <= (1 + 1e-6 if size <= chunk else 3 if turn <= 0.1 else 6)
    assert line.most <= max(chunk, AHEAD * rate + chunk)


@pytest.mark.parametrize("way", ["fetched", "brought"])
def test_no_more_is_under_way_than_a_link_carries_in_two_seconds_or_the_most(way: str, clock: Any) -> None:
    slow, under_way = Line(bytes(100_000), 4000.0, 0.3), list[int]()
    honest = slow.ask

    def ask(request: bytes) -> None:
        honest(request)
        under_way.append(sum(some for _, some, _ in slow.answers))

    slow.ask = ask  # type: ignore[method-assign]
    clock(lambda: slow.now)
    carried(slow, slow.body, way, 32_768)
    assert max(under_way) == 32_768  # before anything is known of it
    assert max(under_way[4:]) <= FEWEST * SMALLEST  # and when it is
    assert 0.3 <= slow.now - 100_000 / 4000 <= 2 * 0.3 + 1e-6
    fast = Line(bytes(10_000_000), 1e9, 0.1)
    clock(lambda: fast.now)
    carried(fast, fast.body, way)
    assert MOST - 262_144 <= fast.most <= MOST + 262_144


class Breaking(Line):
    """A line that breaks off as it is told, and whose other end forgets, or was begun anew: 0 nothing, 1 the call
    breaks off, 2 the other end has nothing any more, 3 it never hears of a piece."""

    def __init__(self, body: bytes, faults: list[int]) -> None:
        super().__init__(body, 1e6, 0.01)
        self.faults = deque(faults)

    @override
    def ask(self, request: bytes) -> None:
        fault = self.faults.popleft() if self.faults else 0
        if fault == 1:
            raise ConnectionError
        if fault == 2:
            self.taken.clear()
        if fault == 3 and b'"size"' not in request:
            request = encode(gift(len(self.body)), b"")
        super().ask(request)


@for_all(st.binary(min_size=0, max_size=300), st.integers(1, 40), st.lists(st.integers(0, 3), max_size=30))
def test_it_arrives_whatever_breaks(body: bytes, chunk: int, faults: list[int]) -> None:
    """Begun anew from what had arrived, as both ends tell it."""
    line, sent, found = Breaking(body, faults), 0, bytearray()
    over = False
    while not over:
        line.answers.clear()
        try:
            for taken, _ in brought(line, gift, body, sent, lambda: chunk, lambda size: None):  # type: ignore[arg-type]
                sent, over = taken.received, taken.over
                assert sent <= len(body)
        except ConnectionError:
            continue
    assert bytes(line.taken) == body
    line = Breaking(body, faults)
    while len(found) < len(body):
        line.answers.clear()
        try:
            for _ in fetched(line, wish, found, len(body), chunk):  # type: ignore[arg-type]
                assert bytes(found) == body[: len(found)]
        except ConnectionError:
            continue
    assert bytes(found) == body


@for_all(st.binary(max_size=30), st.integers(0, 40), st.binary(max_size=30), st.integers(0, 40))
def test_a_piece_adds_what_is_not_there_yet(body: bytes, offset: int, piece: bytes, size: int) -> None:
    """Byte by byte, slowly."""
    expected = list(body)
    for k, value in enumerate(piece):
        if offset + k == len(expected):
            expected.append(value)
    found = bytearray(body)
    joined(found, offset, piece, size)
    assert list(found) == (expected if len(expected) <= size else list(body))


def test_more_than_was_wished_for_is_refused() -> None:
    class Generous(Line):
        @override
        def answer(self) -> bytes:
            return encode(Header(), bytes(262_145))

    with pytest.raises(Refused, match="sent a piece of 262145 bytes at 0 of 1000000"):
        carried(Generous(bytes(1_000_000), 1.0, 1.0), bytes(1_000_000), "fetched")


# --- over real connections --------------------------------------------------------------------------------------------


class Counted(Talk):
    """A talk that counts its turns: a request comes one turn after the latest answer that was known when it was
    made."""

    turns: dict[str, list[tuple[int, int]]]  # by method, of each transfer: turns, and messages

    def __init__(self, method: Any, what: str, turns: dict[str, list[tuple[int, int]]]) -> None:
        super().__init__(method)
        self.under_way: deque[int] = deque()
        self.known = self.messages = self.most = 0
        self.what, self.turns = what, turns

    @override
    def ask(self, request: bytes) -> None:
        self.under_way.append(self.known + 1)
        self.most, self.messages = max(self.most, self.known + 1), self.messages + 1
        super().ask(request)

    @override
    def answer(self) -> bytes:
        found = super().answer()
        if self.under_way:
            self.known = max(self.known, self.under_way.popleft())
        return found

    @override
    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self.turns.setdefault(self.what, []).append((self.most, self.messages))


def test_all_four_ways_take_few_turns_on_a_long_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Any
) -> None:
    """From the server and to it, from an access point and to it. No time passes for whoever reckons how fast a link is,
    so that all that is left goes with the second turn."""
    turns: dict[str, list[tuple[int, int]]] = {}
    clock(lambda: 0.0)
    monkeypatch.setattr(
        Node,
        "_talk",
        lambda node, channel, method: Counted(
            channel.stream_stream(f"/{SITE_SERVICE}/{method}"), f"server {method}", turns
        ),
    )
    monkeypatch.setattr(
        Neighbours,
        "_talk",
        lambda own, errand, method: Counted(
            own.channel(errand.end, errand.address).stream_stream(f"/{HOLDER_SERVICE}/{method}"),
            f"holder {method}",
            turns,
        ),
    )
    links: list[Far] = []

    def far(port: int) -> int:
        links.append(Far(port, 0.01))
        return links[-1].port

    experiment = MOHAWK.replace(**WIDE, clients=2, rounds=1, federation={"kind": "mohawk", "k2": 1})
    site = LocalSite.new(tmp_path / "site", experiment, chunk=1024)
    try:
        site.run(tmp_path / "network", link=far)
    finally:
        for link in links:
            link.close()
    assert site.lines == site.heard == []
    assert turns.keys() == {"server fetch", "server put", "holder fetch", "holder put"}
    for what, some in turns.items():
        assert max(messages for _, messages in some) >= 29, what
        assert max(most for most, _ in some) <= 2, what


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Door]:
    found = Door(tmp_path / "site", GOSSIP.replace(**WIDE), "peer-00")
    found.open(1, puts=False)
    found.holding.keep(found.name, found.body, "learnt 0")
    yield found
    found.close()


@pytest.fixture
def station(tmp_path: Path) -> Iterator[Door]:
    found = Door(tmp_path / "stations", MOHAWK.replace(**WIDE), "access-point-00")
    found.open(1, puts=True)
    yield found
    found.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    found = Server(tmp_path / "server")
    yield found
    found.close()


class Caller:
    """A node that calls another one's door through a link that can be cut. begins: where each of its transfers began;
    cuts: after so many answers the link is cut, once each."""

    def __init__(self, door: Door, name: str, *cuts: int) -> None:
        self.link, self.begins, self.cuts = Far(door.port, 0.0), [0][:0], list(cuts)
        own = door.site.node(name)
        assert own is not None
        scene = prepare(door.experiment)
        scene.learner.close()
        self.holding, self.lines = Holding.of(scene, own.number), [""][:0]
        self.own = Neighbours(
            door.shown(name), Callers(door.folder, own.role, self.lines.append), self.holding,
            self.lines.append, threading.Event(),
        )  # fmt: skip
        honest = self.own._talk
        self.own._talk = lambda *what: self._cutting(honest(*what))  # type: ignore[method-assign]
        self.door = door

    def _cutting(self, talk: Talk) -> Talk:
        after = self.cuts.pop(0) if self.cuts else -1
        honest, answer, left = talk.ask, talk.answer, [after]

        def ask(request: bytes) -> None:
            if not talk.messages:  # type: ignore[attr-defined]
                kind = Gift if b'"size"' not in request else Wish
                self.begins.append(decode(request, kind)[0].offset)  # type: ignore[type-var]
            talk.messages += 1  # type: ignore[attr-defined]
            honest(request)

        def answered() -> bytes:
            if left[0] == 0:
                self.link.cut()
            left[0] -= 1
            return answer()

        talk.messages = 0  # type: ignore[attr-defined]
        talk.ask, talk.answer = ask, answered  # type: ignore[method-assign]
        return talk

    def carry(self, *, puts: bool) -> bool:
        """Whether a model has got through."""
        order = Order(order=f"{'0' * 16}-1", work="carry", round=1, rows=1, hosts=["127.0.0.1"])
        arrays = {"end": self.door.node.number, "model": packed_sums([self.door.name])[0], "puts": puts}
        arrays |= {"host": 0, "port": self.link.port}
        answer = self.own.carry(order, {name: np.array([each]) for name, each in arrays.items()})
        return bool(answer["arrived"][0])

    def close(self) -> None:
        self.own.close()
        self.link.close()


@pytest.mark.parametrize("way", ["fetched", "brought"])
def test_a_transfer_that_is_cut_goes_on_where_it_stopped(
    way: str, peer: Door, station: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the midst of a stream, twice: nothing that was acknowledged goes over the line again. No more is under way
    than two pieces: else all of it may be there before the link is cut, and nothing is left to go on with."""
    monkeypatch.setattr(transfers, "AHEAD", 0.0)
    caller = Caller(peer, "peer-01", 5, 7) if way == "fetched" else Caller(station, "client-01", 5, 7)
    try:
        if way == "brought":
            caller.holding.keep(station.name, station.body)
        assert caller.carry(puts=way == "brought")
        assert caller.begins[0] == 0
        # Five and seven pieces, of which the first two have half the size.
        assert caller.begins[1] >= 4 * 1024
        assert caller.begins[2] >= 10 * 1024
        assert caller.begins == sorted(caller.begins)
        there = caller.holding if way == "fetched" else station.holding
        assert there.body(caller.door.name) == caller.door.body
        assert caller.lines == caller.door.lines == []
    finally:
        caller.close()


def test_with_several_others_at_once_and_with_each_one_after_the_other(
    peer: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three models: of one peer two, of another one, and neither peer's first is there before both have begun. What
    fails is that one alone."""
    caller, both, seen = Caller(peer, "peer-01"), threading.Barrier(2), [(0, "")][:0]
    names = [f"{k:064x}" for k in range(3)]

    def fetch(self: Neighbours, errand: Errand, round: int, end: float) -> None:
        if errand.model != names[2]:
            both.wait(HANGS)
        seen.append((errand.end, errand.model))
        if errand.model == names[1]:
            raise Refused("sent another model")

    monkeypatch.setattr(Neighbours, "_fetch", fetch)
    order = Order(order=f"{'0' * 16}-1", work="carry", round=1, rows=3, hosts=["127.0.0.1"])
    zeros = np.zeros(3, np.int64)
    arrays = {"end": np.array([0, 2, 0]), "model": packed_sums(names), "puts": zeros > 0}
    try:
        answer = caller.own.carry(order, {**arrays, "host": zeros, "port": zeros + 1})
    finally:
        caller.close()
    assert answer["arrived"].tolist() == [True, False, True]
    assert [model for end, model in seen if end == 0] == [names[0], names[2]]
    assert caller.lines == ["round 1: model of peer-02: sent another model"]


def test_what_a_server_sends_goes_on_where_it_was_cut(server: Server) -> None:
    asking, found = Asking(server), bytearray()
    link, real = Far(server.port, 0.0), server.port

    def wanted(offset: int, size: int) -> Fetch:
        return Fetch(order=asking.order, offset=offset, size=size)

    def channel() -> Any:
        server.port = link.port
        try:
            return server.channel(server.shown("client-00"))
        finally:
            server.port = real

    try:
        size, begun = len(asked().body), list[int]()
        for cut in (True, False):
            begun.append(len(found))
            with (
                contextlib.suppress(grpc.RpcError),
                Talk(channel().stream_stream(f"/{SITE_SERVICE}/fetch")) as talk,
            ):
                for _ in fetched(talk, wanted, found, size, 1024):
                    if cut and len(found) == 2048:
                        link.cut()
        assert begun[0] == 0
        assert begun[1] >= 2048
        assert bytes(found) == asked().body
    finally:
        link.close()


@pytest.mark.parametrize("where", ["server", "holder"])
def test_whoever_reads_nothing_makes_the_sender_hold_little(
    where: str,
    peer: Door,
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It wishes without end. What is made for it is what the connection has room for, and one piece more."""
    made, honest = Counter[str](), transfers.given

    async def given(*arguments: Any) -> AsyncIterator[bytes]:
        async for each in honest(*arguments):
            made["bytes"] += len(each)
            yield each

    monkeypatch.setattr(hub, "given", given)
    monkeypatch.setattr(neighbours, "given", given)
    over = threading.Event()
    asking = Asking(server)
    if where == "server":
        message = encode(Fetch(order=asking.order, offset=0, size=PIECE))
        call = asking.channel.stream_stream(f"/{SITE_SERVICE}/fetch")
    else:
        message = encode(Wish(round=1, model=peer.name, offset=0, size=PIECE))
        channel = peer.channel("peer-01")
        call = channel.stream_stream(f"/{HOLDER_SERVICE}/fetch")
    begun = call(iter(lambda: None if over.is_set() else message, None))
    try:
        eventually(lambda: made["bytes"] > MOST / 2, "it is sent what it does not read")
        before = -1
        while before != made["bytes"]:  # until nothing more is made in the time of some questions and answers
            before = made["bytes"]
            for _ in range(20):
                peer.ping("peer-02")
        assert made["bytes"] < MOST + 2 * HEADER + 300_000
    finally:
        over.set()
        begun.cancel()
        for _ in range(20):
            peer.ping("peer-02")
    assert not caplog.records, "whoever goes in the midst of a transfer is no failure of ours"


@pytest.mark.parametrize("where", ["server", "holder"])
def test_whoever_is_revoked_in_the_midst_of_a_transfer_gets_and_gives_no_more(
    where: str, station: Door, peer: Door, server: Server
) -> None:
    asking = Asking(server)
    wish = encode(Wish(round=1, model=peer.name, offset=0, size=1))
    gift = encode(Gift(round=1, model=station.name, offset=0), station.body[:100])
    talks: list[tuple[Any, str, str, bytes, Any, str]]
    if where == "server":
        fetch = encode(Fetch(order=asking.order, offset=0, size=1))
        talks = [(asking.channel, SITE_SERVICE, "fetch", fetch, server, "client-00")]
    else:
        talks = [
            (door.channel(name), HOLDER_SERVICE, method, message, door, name)
            for door, name, method, message in (
                (peer, "peer-01", "fetch", wish),
                (station, "client-01", "put", gift),
            )
        ]
    for channel, service, method, message, there, name in talks:
        with Talk(channel.stream_stream(f"/{service}/{method}")) as talk:
            talk.ask(message)
            talk.answer()
            revoke(there.folder, name)

            def again(talk: Talk = talk, message: bytes = message) -> None:
                talk.ask(message)
                talk.answer()

            assert refused(again) == grpc.StatusCode.PERMISSION_DENIED
            assert any("is revoked" in line for line in there.lines)


@pytest.mark.parametrize("where", ["server", "holder"])
def test_whoever_says_nothing_is_hung_up_on(
    where: str, peer: Door, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfers, "CALL", 0.05)
    over = threading.Event()
    if where == "server":
        channel, service, more = server.channel(server.shown("client-00")), SITE_SERVICE, "attend"
    else:
        channel, service, more = peer.channel("peer-01"), HOLDER_SERVICE, "ping"
    try:
        for method in ("fetch", "put", more):
            call = channel.stream_stream(f"/{service}/{method}")(
                iter(lambda: over.wait(HANGS) and None, None), timeout=HANGS
            )
            assert refused(lambda: next(call)) == grpc.StatusCode.DEADLINE_EXCEEDED  # noqa: B023
            assert "nothing was sent or taken" in call.details()
    finally:
        over.set()
        channel.close()


def test_an_answer_that_does_not_come_is_not_waited_for(server: Server) -> None:
    """A call of the server that never answers a message: `attend` says nothing until there is an order."""
    channel = server.channel(server.shown("client-00"))
    with Talk(channel.stream_stream(f"/{SITE_SERVICE}/attend"), patience=0.1) as talk:
        talk.ask(encode(HELLO))
        assert refused(talk.answer) == grpc.StatusCode.CANCELLED
    eventually(
        lambda: all(thread.name != "watch" for thread in threading.enumerate()), "nobody watches any more"
    )
