"""What somebody tries who has no certificate, an old one, or a node's: nothing is heard, held up or filled up by it."""

from __future__ import annotations

import concurrent.futures
import datetime
import json
import math
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deploy.test_holders import GOSSIP, MOHAWK, Door, refused
from deploy.test_who_may_speak import Asking, Server, answer
from fedroam.deploy import connections, telling
from fedroam.deploy.connections import HOLDER_SERVICE, SITE_SERVICE
from fedroam.deploy.messages import HEADER, Gift, Header, Put, Refused, Taken, Wish, decode, encode
from fedroam.deploy.node.neighbours import ANEW, Errand, Neighbours
from fedroam.deploy.site import identity
from fedroam.deploy.site.identity import Callers, revoke
from fedroam.deploy.telling import MOST, Told
from fedroam.deploy.transfers import FEWEST
from support.waiting import HANGS

grpc = pytest.importorskip("grpc")
NAMES = ("../../etc/passwd", "/etc/passwd", "a\0b", "x" * 60_000, "\u202e\x1b[31m\n", "..\\..\\windows")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    found = Server(tmp_path_factory.mktemp("server") / "site")
    yield found
    found.close()


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Door]]:
    found = {
        name: Door(tmp_path_factory.mktemp(name) / "site", experiment, name)
        for name, experiment in (("peer-00", GOSSIP), ("access-point-00", MOHAWK))
    }
    yield found
    for door in found.values():
        door.close()


def frame(text: str, body: bytes = b"") -> bytes:
    return len(text.encode()).to_bytes(4, "big") + text.encode() + body


@pytest.mark.parametrize("name", NAMES, ids=["up", "root", "NUL", "long", "control", "windows"])
def test_a_name_in_a_message_names_nothing(server: Server, doors: dict[str, Door], name: str) -> None:
    """No file is looked for, and what is told of it is one short line."""
    told, door = json.dumps(name), doors["peer-00"]
    server.lines.clear()
    door.lines.clear()
    channel, own = server.channel(server.shown("client-00")), door.shown("peer-01")
    for text in (
        f'{{"order": {told}, "offset": 0}}',
        f'{{"round": 1, "model": {told}, "offset": 0}}',
        f'{{"order": "x", {told}: 1}}',
    ):
        for method in ("fetch", "put"):
            code = refused(lambda m=method, t=text: door.call(own, m, frame(t)))  # type: ignore[misc]
            assert code == grpc.StatusCode.INVALID_ARGUMENT
            said = status(lambda m=method, t=text: server.call(channel, m, frame(t)))  # type: ignore[misc]
            # An answer to such an order is one that nobody waits for.
            assert said in ("INVALID_ARGUMENT", "NOT_FOUND", "OK")
            assert said != "OK" or (method == "put" and '"order"' in text)
    assert all(line.isprintable() and len(line) < 400 for line in (*server.lines, *door.lines))


def status(call: Callable[[], object]) -> str:
    """What comes of a call."""
    try:
        call()
    except grpc.RpcError as error:
        return str(error.code().name)
    return "OK"


@pytest.mark.parametrize(
    "text",
    ["[" * 60_000, "{" * 60_000, '{"a":' * 10_000, "1" * 60_000, '{"offset": ' + "9" * 60_000 + "}",
     '{"order": "x", "offset": NaN}', '{"order": "\\ud800"}', "\ufeff{}", '{"order": "x", "order": "y"}',
     '{"order": "x", "offset": -1}', '{"order": "x", "offset": 1e308}', '{"order": "x", "offset": true}'],
    ids=["lists", "braces", "nested", "number", "integer", "NaN", "surrogate", "mark", "twice", "negative", "float",
         "bool"],
)  # fmt: skip
def test_a_header_that_would_hurt_its_reader_is_refused(
    server: Server, doors: dict[str, Door], text: str
) -> None:
    channel = server.channel(server.shown("client-00"))
    assert refused(lambda: server.call(channel, "fetch", frame(text))) == grpc.StatusCode.INVALID_ARGUMENT
    door = doors["peer-00"]
    assert refused(lambda: door.call(door.shown("peer-01"), "fetch", frame(text))) == (
        grpc.StatusCode.INVALID_ARGUMENT
    )


def test_frames_of_any_length_are_refused(server: Server) -> None:
    channel = server.channel(server.shown("client-00"))
    good = encode(Put(order="x"))
    for cut in range(len(good)):
        assert (
            refused(lambda c=cut: server.call(channel, "put", good[:c])) == grpc.StatusCode.INVALID_ARGUMENT
        )  # type: ignore[misc]
    for length in (HEADER + 1, 2**31, 2**32 - 1):
        long = length.to_bytes(4, "big") + bytes(1000)
        assert refused(lambda b=long: server.call(channel, "put", b)) == grpc.StatusCode.INVALID_ARGUMENT  # type: ignore[misc]


def test_a_compressed_bomb_is_not_unpacked(server: Server, doors: dict[str, Door]) -> None:
    """60 MB of nothing are 60 kB on the wire: sizes are held against what comes out."""
    bomb = encode(Put(order="x"), bytes(60_000_000))
    channel = server.channel(server.shown("client-00"))
    call = channel.unary_unary(f"/{SITE_SERVICE}/put")
    options: dict[str, Any] = {"timeout": HANGS, "compression": grpc.Compression.Gzip}

    def unlimited(port: int, shown: Any, host: str) -> Any:
        secure = grpc.ssl_channel_credentials(shown.authority, shown.key, shown.certificate)
        return grpc.secure_channel(
            f"127.0.0.1:{port}", secure,
            [("grpc.ssl_target_name_override", host), ("grpc.max_send_message_length", -1),
             ("grpc.use_local_subchannel_pool", 1)],
        )  # fmt: skip

    before = _peak()
    door = doors["peer-00"]
    with unlimited(
        server.port, server.shown("client-00"), server.site.server.host(server.site.name)
    ) as channel:
        call = channel.unary_unary(f"/{SITE_SERVICE}/put")
        assert refused(lambda: call(bomb, **options)) == grpc.StatusCode.RESOURCE_EXHAUSTED
    with unlimited(door.port, door.shown("peer-01"), door.node.host(door.site.name)) as channel:
        other = channel.unary_unary(f"/{HOLDER_SERVICE}/put")
        assert refused(lambda: other(bomb, **options)) == grpc.StatusCode.RESOURCE_EXHAUSTED
    # This process packs it, too: twice the bomb at the most, and nothing like a third copy for each receiver.
    assert _peak() - before < 3 * len(bomb)


def _peak() -> int:
    """The most memory that this process has had, bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.fixture
def impatient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server that waits a second for a certificate."""
    with monkeypatch.context() as patch:
        patch.setattr(connections, "HANDSHAKE", 1000)
        found = Server(tmp_path / "impatient")
    yield found
    found.close()


def test_thousands_of_half_open_connections_hold_nobody_up(impatient: Server) -> None:
    """Nor one that sends its first bytes slowly: whoever shows no certificate in time is hung up on."""
    server = impatient
    raw = [socket.create_connection(("127.0.0.1", server.port), timeout=HANGS) for _ in range(400)]
    try:
        for k, each in enumerate(raw):
            if k % 2:
                each.sendall(b"\x16\x03\x01")  # the begin of a TLS record
        asking = Asking(server)
        assert asking.put(answer(3.0)).over
        assert asking.answer["mean"].tolist() == [3.0]
        for each in raw:  # hung up on: a read ends
            try:
                while each.recv(4096):
                    pass
            except ConnectionError:
                pass
    finally:
        for each in raw:
            each.close()
        asking.stream.cancel()


def test_a_log_is_not_filled_by_calling(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telling, "WINDOW", math.inf)  # however long all of it takes
    server.hub._door.told = Told(server.lines.append)
    server.lines.clear()
    channel = server.channel(server.shown("client-01"))
    for k in range(3 * MOST):
        refused(lambda k=k: server.call(channel, "put", frame(f'{{"order": "x", "key-{k}": 1}}')))  # type: ignore[misc]
    assert len(server.lines) <= MOST + 1
    assert server.lines[-1].startswith(f"more than {MOST} lines")
    revoke(server.folder, "client-01")
    server.hub._door.told = Told(server.lines.append)
    server.lines.clear()
    for _ in range(50):
        assert refused(lambda: server.call(channel, "put", b"")) == grpc.StatusCode.PERMISSION_DENIED
    assert server.lines == ["refused: the certificate of client-01 is revoked"]


def test_told_lines_come_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    told, now = Told(lines.append), [time.monotonic()]
    monkeypatch.setattr("fedroam.deploy.telling.time.monotonic", lambda: now[0])
    told.once("a")
    told.once("a")
    now[0] += 61
    told.once("a")
    assert lines == ["a", "a"]


def test_an_expired_certificate_and_a_skewed_clock(
    doors: dict[str, Door], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that is a day behind takes a certificate of now, too; what has run out is out at doors as well."""
    door = doors["access-point-00"]
    own = door.shown("client-01")
    begins, ends = (getattr(identity.identity_of(own.certificate), name) for name in ("begins", "ends"))
    door.open(1, puts=True)
    gift = encode(Gift(round=1, model=door.name, offset=0), door.body[:1024])

    def at(moment: datetime.datetime) -> None:
        class Now(datetime.datetime):
            @classmethod
            def now(cls, tz: Any = None) -> Any:
                return moment

        monkeypatch.setattr("fedroam.deploy.site.identity.datetime.datetime", Now)

    at(begins + datetime.timedelta(seconds=1))
    assert decode(door.call(own, "put", gift), Taken)[0].received == 1024
    for moment in (begins - datetime.timedelta(seconds=1), ends + datetime.timedelta(seconds=1)):
        at(moment)
        assert refused(lambda: door.call(own, "put", gift)) == grpc.StatusCode.PERMISSION_DENIED
    assert any("is not valid now" in line for line in door.lines)


def test_a_permission_is_no_token(doors: dict[str, Door]) -> None:
    """What was allowed to one node in one round is good for nobody else, and never again: not in a later round with
    the same number of another session either."""
    door = doors["access-point-00"]
    door.open(1, puts=True, round=4)
    gift = encode(Gift(round=4, model=door.name, offset=0), door.body[:1024])
    assert decode(door.call(door.shown("client-01"), "put", gift), Taken)[0].received == 1024
    assert refused(lambda: door.call(door.shown("client-02"), "put", gift)) == grpc.StatusCode.NOT_FOUND
    wish = encode(Wish(round=4, model=door.name, offset=0, size=1))
    assert refused(lambda: door.call(door.shown("client-01"), "fetch", wish)) == grpc.StatusCode.NOT_FOUND
    door.open(2, puts=True, round=5)
    assert refused(lambda: door.call(door.shown("client-01"), "put", gift)) == grpc.StatusCode.NOT_FOUND


def test_a_stolen_role_cannot_serve(doors: dict[str, Door]) -> None:
    """A client's certificate at an access point's place: devices do not speak to it, whatever it says."""
    door = doors["access-point-00"]
    thief = door.shown("client-03")
    fake = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
    port = fake.add_secure_port("127.0.0.1:0", connections.server_credentials(thief))
    fake.start()
    try:
        with connections.dialled(
            door.site, door.shown("client-01"), door.node, f"127.0.0.1:{port}"
        ) as channel:
            call = channel.unary_unary(f"/{HOLDER_SERVICE}/put")
            assert refused(lambda: call(b"", timeout=HANGS)) == grpc.StatusCode.UNAVAILABLE
        # Nor does it call itself a client at another site's door.
        other = replace(thief, authority=doors["peer-00"].shown("peer-01").authority)
        peer = doors["peer-00"]
        assert refused(lambda: peer.call(other, "put", b"")) == grpc.StatusCode.UNAVAILABLE
    finally:
        fake.stop(None)


@pytest.fixture
def caller(doors: dict[str, Door]) -> Iterator[Neighbours]:
    door = doors["access-point-00"]
    door.holding.keep(door.name, door.body)
    found = Neighbours(
        door.shown("client-01"), Callers(door.folder, "client", door.lines.append), door.holding,
        door.lines.append, threading.Event(),
    )  # fmt: skip
    yield found
    found.close()


class Said:
    """A call whose answers are made up."""

    def __init__(self, answer: Callable[[], bytes]) -> None:
        self.asked = 0
        self.answer = answer

    def __enter__(self) -> Said:
        return self

    def __exit__(self, *error: object) -> None: ...

    def ask(self, request: bytes) -> None:
        self.asked += 1


@pytest.mark.parametrize(
    ("said", "told"),
    [(0, "says that it has 0 of"), (10**9, "says that it has 1000000000 of")],
    ids=["nothing, for ever", "more than there is"],
)
def test_whoever_takes_nothing_is_left(
    doors: dict[str, Door], caller: Neighbours, said: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Said] = []

    def talk(*arguments: Any) -> Said:
        calls.append(Said(lambda: encode(Taken(received=said))))
        assert len(calls) < 1000, "it goes on for ever"
        return calls[-1]

    monkeypatch.setattr(caller, "_talk", talk)
    with pytest.raises(Refused, match=told):
        caller._bring(
            Errand(-2, "127.0.0.1:1", doors["access-point-00"].name, True), 1, time.monotonic() + HANGS
        )
    assert len(calls) <= ANEW + 1
    assert all(each.asked <= FEWEST for each in calls), "no more is sent to whoever takes nothing"


def test_whoever_gives_a_byte_at_a_time_has_its_time(
    doors: dict[str, Door], caller: Neighbours, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("fedroam.deploy.node.neighbours.time.monotonic", lambda: now[0])

    def reply() -> bytes:
        now[0] += 29.0  # just within what one message may take
        return encode(Header(), b"x")

    monkeypatch.setattr(caller, "_talk", lambda *arguments: Said(reply))
    with pytest.raises(Refused, match="takes too long"):
        caller._fetch(Errand(-2, "127.0.0.1:1", "e" * 64, False), 1, 600.0)
    assert 600 < now[0] < 700
