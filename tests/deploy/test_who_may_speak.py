"""Whoever is no node of the site gets nothing; whoever is one gets and gives what is its own alone."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import math
import os
import select
import shutil
import socket
import ssl
import stat
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fedroam.deploy import connections, telling
from fedroam.deploy.connections import SITE_SERVICE, channel_options
from fedroam.deploy.messages import Fetch, Hello, Order, Push, Put, Taken, decode, encode, packed, sum_of
from fedroam.deploy.node.process import node_of
from fedroam.deploy.server.hub import Asked, Hub
from fedroam.deploy.site import identity
from fedroam.deploy.site.file import AUTHORITY, FILE, KEY, NODES, Limits, SiteNode, read_site
from fedroam.deploy.site.founding import found_site
from fedroam.deploy.site.identity import Credentials, credentials, enrol, make_authority, renew, revoke
from fedroam.deploy.transfers import ATTENDED, CALLS, Talk
from fedroam.errors import InputError
from fedroam.writing import write_text
from support.messages import one_answer
from support.tiny import tiny
from support.waiting import HANGS, eventually

grpc = pytest.importorskip("grpc")
HELLO = Hello(protocol=1, digest="0" * 64, layout="1" * 64, samples="2" * 64, version="any")
EXPERIMENT = tiny(clients=2, mobility={"kind": "random", "grid": 4, "mobile": 1}, federation="fedavg")
SECRET = np.arange(1000, dtype=np.float32)  # what a client is sent


class Server:
    """A hub without a run, and how anybody calls it."""

    def __init__(self, folder: Path) -> None:
        found_site(
            folder, EXPERIMENT, address="127.0.0.1:1", limits=Limits(chunk=1024, away=0.0, answer=HANGS)
        )
        self.folder, self.site, self.lines = folder, read_site(folder / FILE), [""][:0]
        self.hub = Hub(folder, self.shown("server"), dict.fromkeys((0, 1), HELLO), self.lines.append)
        self.port = self.hub.start("127.0.0.1:0")
        self._channels: list[Any] = []
        self._calls: list[Any] = []

    def shown(self, name: str) -> Credentials:
        return credentials(self.folder, self.site, name)

    def channel(self, own: Credentials, host: str = "") -> Any:
        secure = grpc.ssl_channel_credentials(own.authority, own.key or None, own.certificate or None)
        host = host or self.site.server.host(self.site.name)
        options = [*channel_options(4096), ("grpc.ssl_target_name_override", host),
                   ("grpc.use_local_subchannel_pool", 1)]  # fmt: skip
        self._channels.append(grpc.secure_channel(f"127.0.0.1:{self.port}", secure, options))
        return self._channels[-1]

    def attend(self, channel: Any, hello: Hello = HELLO) -> Any:
        call = channel.unary_stream(f"/{SITE_SERVICE}/attend")(encode(hello), timeout=HANGS)
        self._calls.append(call)  # one that nobody holds any more ends
        return call

    def call(self, channel: Any, method: str, message: bytes) -> bytes:
        return one_answer(channel, SITE_SERVICE, method, message)

    def attended(self) -> None:
        """Wait until client 0 is there."""
        eventually(lambda: 0 not in self.hub.missing(), "client 0 is there")
        self.lines.clear()

    def close(self) -> None:
        for channel in self._channels:
            channel.close()
        self.hub.stop(done=True)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    found = Server(tmp_path / "site")
    yield found
    found.close()


def refused(call: Callable[[], Any]) -> Any:
    """The status with which a call is refused."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value.code()


def spoken(context: ssl.SSLContext, raw: socket.socket) -> bytes:
    """What the server says to a stranger."""
    with context.wrap_socket(raw) as wrapped:
        wrapped.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        said = wrapped.recv(1)
    if not said:
        raise ConnectionError
    return said


def asked() -> Asked:
    """An order that sends `SECRET` and wants one number back."""
    facts = Order(order=f"{'0' * 16}-0", work="mean_features", round=1, rows=1)
    return Asked(facts, packed({"parameters": SECRET}), {"mean": ("float64", (1,))}, lambda answer: None)


class Asking:
    """An order to client 0 that is under way, and its end."""

    def __init__(self, server: Server, hello: Hello = HELLO) -> None:
        self.server, self.channel = server, server.channel(server.shown("client-00"))
        self.stream = server.attend(self.channel)
        self.found: list[Any] = []
        self.thread = threading.Thread(target=self._ask, daemon=True)
        server.attended()
        self.thread.start()
        push = decode(next(self.stream), Push)[0]
        assert push.order is not None
        self.order = push.order.order
        server.lines.clear()

    def _ask(self) -> None:
        self.found.append(self.server.hub.ask({0: asked()})[0])

    def put(self, body: bytes, **changes: Any) -> Taken:
        facts = {"order": self.order, "size": len(body), "sha256": sum_of(body), **changes}
        return decode(self.server.call(self.channel, "put", encode(Put(**facts), body)), Taken)[0]

    @property
    def answer(self) -> Any:
        self.thread.join(HANGS)
        return self.found[0]


def answer(value: float) -> bytes:
    return packed({"mean": np.array([value])})


# --- who ----------------------------------------------------------------------------------------------------------


def test_a_node_in_its_role_is_heard(server: Server) -> None:
    asking = Asking(server)
    reply = server.call(asking.channel, "fetch", encode(Fetch(order=asking.order, offset=0, size=4096)))
    assert SECRET.tobytes()[:100] in reply
    assert asking.put(answer(3.0)).over
    assert asking.answer["mean"].tolist() == [3.0]
    assert server.lines == []


def test_nobody_without_a_certificate_is_heard(server: Server) -> None:
    known = server.shown("client-00")
    assert refused(lambda: next(server.attend(server.channel(replace(known, key=b"", certificate=b""))))) == (
        grpc.StatusCode.UNAVAILABLE  # the handshake fails: no message of ours is ever seen
    )
    for plain in (False, True):  # nor without TLS at all, nor by TLS of another library
        with socket.create_connection(("127.0.0.1", server.port), timeout=HANGS) as raw:
            if plain:
                raw.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(64))
                assert SECRET.tobytes()[:8] not in raw.recv(4096)
            else:
                bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                bare.check_hostname, bare.verify_mode = False, ssl.CERT_NONE
                with pytest.raises((ssl.SSLError, ConnectionError)):
                    spoken(bare, raw)


def test_what_a_node_has_must_be_of_one_authority(server: Server, tmp_path: Path) -> None:
    """Told where the node starts: whoever is called with such a certificate hangs up before anything can be said."""
    own = server.folder / AUTHORITY
    right = own.read_bytes()
    other = tmp_path / "other"
    other.mkdir()
    make_authority(other, server.site.name)
    try:
        for wrong, told in (
            ((other / AUTHORITY).read_bytes(), r"certificate\.pem: is not signed by .*authority\.pem"),
            (b"x", r"authority\.pem: is no certificate"),
            (right[:300], r"authority\.pem: is no certificate"),
        ):
            own.write_bytes(wrong)
            with pytest.raises(InputError, match=told) as caught:
                credentials(server.folder, server.site, "client-00")
            assert "http" not in str(caught.value)
    finally:
        own.write_bytes(right)
    assert credentials(server.folder, server.site, "client-00").authority == right


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "certificate.pem",
            r"certificate\.pem: is no certificate of a node \(wanted is PEM, whole, from -----BEGIN C",
        ),
        ("key.pem", r"key\.pem: is no private key \(wanted is PEM, whole, from -----BEGIN PRIVATE KEY"),
    ],
)
@pytest.mark.parametrize("kept", [0, 100])
def test_a_damaged_file_of_a_node_is_told_in_our_words(
    name: str, told: str, kept: int, server: Server, tmp_path: Path
) -> None:
    shutil.copytree(server.folder, tmp_path / "copy")
    path = tmp_path / "copy" / "nodes" / "client-00" / name
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(InputError, match=told) as caught:
        credentials(tmp_path / "copy", server.site, "client-00")
    assert "http" not in str(caught.value)


def test_a_certificate_of_another_authority_is_not_heard(server: Server, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    make_authority(other, server.site.name)
    (own,) = [node for node in server.site.nodes if node.name == "client-00"]
    enrol(other, server.site.name, own, 1.0)
    forged = credentials(other, server.site, "client-00")
    shown = replace(forged, authority=server.shown("client-00").authority)
    assert refused(lambda: next(server.attend(server.channel(shown)))) == grpc.StatusCode.UNAVAILABLE


def test_strangers_take_no_more_connections_than_there_are_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They say nothing, and are not hung up on for it here: those that are too many are, at once."""
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(connections, "HANDSHAKE", int(1000 * HANGS))
    monkeypatch.setattr(connections, "STRANGERS", 16)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
    most, more = connections.CONNECTIONS * 2 + connections.STRANGERS, 10
    try:
        server = Server(tmp_path / "site")
        now = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert now == (min(connections.FILES, before[1]), before[1]), "the system lets it open more files"
        with contextlib.closing(server), contextlib.ExitStack() as strangers:
            waiting = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(most + more)]
            for each in waiting:
                strangers.enter_context(each)
            over = set[socket.socket]()

            def hung_up() -> bool:
                over.update(select.select(waiting, [], [], 0)[0])
                return len(over) >= more

            eventually(hung_up, "those that are too many are hung up on")
            assert len(over) == more
            strangers.close()
            server.attend(server.channel(server.shown("client-00")))
            server.attended()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize(
    ("node", "told"),
    [
        (SiteNode(name="client-99", role="client", client=0, serial="00"), "no node of this site"),
        (SiteNode(name="client-00", role="client", client=0, serial="00"), "not its present one"),
        (SiteNode(name="server", role="client", client=0, serial="00"), "allowed are clients"),
    ],
    ids=["unknown", "an older certificate", "a stolen role"],
)
def test_a_certificate_that_the_site_does_not_list_is_not_heard(
    server: Server, node: SiteNode, told: str, tmp_path: Path
) -> None:
    """Signed by the authority, by whoever has had its key; only what site.toml lists counts."""
    before = (server.folder / FILE).read_bytes()
    (server.folder / NODES / node.name).mkdir(exist_ok=True)
    enrol(server.folder, server.site.name, node, 1.0)
    assert (server.folder / FILE).read_bytes() == before
    home = server.folder / NODES / node.name
    shown = Credentials((home / KEY).read_bytes(), (home / "certificate.pem").read_bytes(),
                        (server.folder / "authority.pem").read_bytes())  # fmt: skip
    channel = server.channel(shown)
    assert refused(lambda: next(server.attend(channel))) == grpc.StatusCode.PERMISSION_DENIED
    for method, message in (
        ("fetch", encode(Fetch(order="x", offset=0, size=1))),
        ("put", encode(Put(order="x"))),
    ):
        call = lambda m=method, b=message: server.call(channel, m, b)  # noqa: E731
        assert refused(call) == grpc.StatusCode.PERMISSION_DENIED
    assert any(told in line for line in server.lines)


def test_a_certificate_of_the_past_is_not_heard(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    own = server.shown("client-00")
    channel, ends = server.channel(own), identity.identity_of(own.certificate).ends

    class Later(datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return ends + datetime.timedelta(seconds=1)

    stream = server.attend(channel)
    server.attended()
    # A connection that was made while it was valid is no way around it.
    monkeypatch.setattr("fedroam.deploy.site.identity.datetime.datetime", Later)
    assert refused(lambda: server.call(channel, "put", encode(Put(order="x")))) == (
        grpc.StatusCode.PERMISSION_DENIED
    )
    assert any("is not valid now" in line for line in server.lines)
    assert server.hub.ask({0: asked()}) == {0: None}
    assert refused(lambda: next(stream)) == grpc.StatusCode.PERMISSION_DENIED


@pytest.mark.parametrize(
    ("days", "later", "told"),
    [
        (365.0, 0, []),
        (365.0, 364, ["its certificate ends at "]),
        (365.0, 334, []),
        (365.0, 336, ["its certificate ends at "]),
        (20.0, 17, []),  # of 21 days, that before it was made among them
        (20.0, 18, ["its certificate ends at "]),
        (20.0, 21, ["its certificate ended at "]),
        (20.0, -3, ["its certificate is valid from "]),
    ],
)
def test_a_node_says_when_its_certificate_ends(
    days: float, later: int, told: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those whom it calls with one that has ended hang up before anything can be said."""
    folder, lines, today = tmp_path / "lab", list[str](), datetime.datetime.now(datetime.UTC)
    found_site(folder, tiny(federation="fedavg", clients=2), address="127.0.0.1:1", days=days)

    class Then(datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return today + datetime.timedelta(days=later)

    monkeypatch.setattr("fedroam.deploy.site.identity.datetime.datetime", Then)
    node_of(folder, "client-00", lines.append).close()
    assert len(lines) == len(told)
    assert all(line.startswith(begin) for line, begin in zip(lines, told, strict=True))
    assert all("renew DIR client-00 makes another" in line for line in lines if "valid from" not in line)


def test_who_is_revoked_while_it_attends_gets_nothing_more(server: Server) -> None:
    channel = server.channel(server.shown("client-00"))
    stream = server.attend(channel)
    server.attended()
    revoke(server.folder, "client-00")
    assert server.hub.ask({0: asked()}) == {0: None}
    assert refused(lambda: next(stream)) == grpc.StatusCode.PERMISSION_DENIED
    assert refused(lambda: next(server.attend(channel))) == grpc.StatusCode.PERMISSION_DENIED
    renew(server.folder, "client-00")  # a new certificate, and all is well; the old one is not
    assert refused(lambda: next(server.attend(channel))) == grpc.StatusCode.PERMISSION_DENIED
    server.attend(server.channel(credentials(server.folder, read_site(server.folder / FILE), "client-00")))
    server.attended()


def test_a_client_speaks_to_the_server_of_its_site_alone(server: Server, tmp_path: Path) -> None:
    """A client's certificate does not do for a server, nor does that of another server."""
    own = server.shown("client-00")
    fake = Hub(server.folder, server.shown("client-01"), dict.fromkeys((0, 1), HELLO), server.lines.append)
    real, server.port = server.port, fake.start("127.0.0.1:0")
    try:
        assert refused(lambda: next(server.attend(server.channel(own)))) == grpc.StatusCode.UNAVAILABLE
    finally:
        server.port = real
        fake.stop(done=True)
    stale = SiteNode(name="server", role="server", serial="abcd")
    channel = server.channel(own, stale.host(server.site.name))
    assert refused(lambda: next(server.attend(channel))) == grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"digest": "9" * 64}, "another experiment"),
        ({"layout": "9" * 64}, "another layout"),
        ({"samples": "9" * 64}, "other samples"),
        ({"protocol": 2}, "speaks protocol 2"),
    ],
)
def test_who_means_something_else_is_refused(server: Server, changes: dict[str, Any], told: str) -> None:
    channel = server.channel(server.shown("client-00"))
    call = server.attend(channel, HELLO.model_copy(update=changes))
    with pytest.raises(grpc.RpcError) as caught:
        next(call)
    assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert told in caught.value.details()


# --- what ---------------------------------------------------------------------------------------------------------


def test_an_order_is_its_addressee_s_alone(server: Server) -> None:
    asking = Asking(server)
    other = server.channel(server.shown("client-01"))
    fetch = encode(Fetch(order=asking.order, offset=0, size=4096))
    assert refused(lambda: server.call(other, "fetch", fetch)) == grpc.StatusCode.NOT_FOUND
    forged = answer(666.0)
    put = encode(Put(order=asking.order, size=len(forged), sha256=sum_of(forged)), forged)
    assert decode(server.call(other, "put", put), Taken)[0].over
    assert asking.put(answer(1.0)).over
    assert asking.answer["mean"].tolist() == [1.0]
    assert len([line for line in server.lines if "nobody waits for" in line]) == 1


def test_the_same_answer_again_and_an_old_one_count_for_nothing(server: Server) -> None:
    asking = Asking(server)
    asking.put(answer(1.0))
    assert asking.answer["mean"].tolist() == [1.0]
    assert asking.put(answer(2.0)).over
    ended: list[Any] = []
    thread = threading.Thread(target=lambda: ended.append(server.hub.ask({0: asked()})[0]), daemon=True)
    thread.start()
    push = decode(next(asking.stream), Push)[0]
    assert push.order is not None
    assert push.order.order != asking.order
    assert asking.put(answer(3.0)).over  # of the order before
    assert asking.put(answer(4.0), order=push.order.order).over
    thread.join(HANGS)
    assert ended[0]["mean"].tolist() == [4.0]
    assert sum("nobody waits for" in line for line in server.lines) == 1  # told once, however often it comes


@pytest.mark.parametrize(
    ("body", "changes", "told"),
    [
        (packed({"mean": np.array([1.0, 2.0])}), {}, "expected float64 [1]"),
        (packed({"mean": np.array([1], np.int64)}), {}, "is int64 [1]"),
        (packed({"other": np.array([1.0])}), {}, "array 'mean' is missing"),
        (packed({"mean": np.array([1.0]), "../../etc/passwd": np.zeros(1)}), {}, "is not expected"),
        (b"\xff" * 100, {}, "no safetensors"),
        (b"", {"size": 2**30}, "bytes, allowed are"),
        (b"", {"failed": "out of memory\n\x1b[31m"}, "could not do its work"),
    ],
    ids=["shape", "type", "name", "a path", "noise", "a gigabyte", "failed"],
)
def test_an_answer_that_is_none_counts_as_not_arrived(
    server: Server, body: bytes, changes: dict[str, Any], told: str
) -> None:
    asking = Asking(server)
    assert asking.put(body, **changes).over
    assert asking.answer is None
    (line,) = server.lines
    assert told in line
    assert "client-00" in line
    assert "counts as not arrived" in line
    assert line.isprintable()


def test_a_damaged_answer_is_asked_for_again_three_times(server: Server) -> None:
    asking, body = Asking(server), answer(1.0)
    for tries in (1, 2):
        assert asking.put(body, sha256="f" * 64) == Taken(), tries
    assert asking.put(body).over
    assert asking.answer["mean"].tolist() == [1.0]
    asking = Asking(server)
    for _ in range(3):
        asking.put(body, sha256="f" * 64)
    assert asking.answer is None


def test_a_transfer_goes_on_where_it_broke_off(server: Server) -> None:
    asking, body = Asking(server), answer(1.0)
    half = len(body) // 2
    facts = {"size": len(body), "sha256": sum_of(body)}
    assert asking.put(body[:half], **facts).received == half
    assert asking.put(body[half + 1 :], offset=half + 1, **facts).received == half  # told where to go on
    assert asking.put(body[: half - 1], **facts).received == half  # what is there already counts once
    assert asking.put(body[half - 1 :], offset=half - 1, **facts).over
    assert asking.answer["mean"].tolist() == [1.0]


def test_frames_that_are_none_are_refused(server: Server) -> None:
    channel = server.channel(server.shown("client-00"))
    long = encode(Put(order="x"), bytes(1024 * 1024))
    assert refused(lambda: server.call(channel, "put", long)) == grpc.StatusCode.RESOURCE_EXHAUSTED
    good = encode(Put(order="x"))
    for frame in (b"", b"\0", good[:-1], b"\xff\xff\xff\xff", b"\0\0\0\2[]", b"\0\0\0\1{"):
        for method in ("fetch", "put"):
            call = lambda m=method, f=frame: server.call(channel, m, f)  # noqa: E731
            assert refused(call) == grpc.StatusCode.INVALID_ARGUMENT, (method, frame)
    call = lambda: server.call(channel, "shell", good)  # noqa: E731
    assert refused(call) == grpc.StatusCode.UNIMPLEMENTED


def test_a_second_process_takes_the_place_of_the_first(server: Server) -> None:
    first = server.attend(server.channel(server.shown("client-00")))
    server.attended()
    server.attend(server.channel(server.shown("client-00")))
    assert decode(next(first), Push)[0].over == "replaced"
    assert 0 not in server.hub.missing()


def test_no_handle_is_left_after_thousands_of_messages(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a call each, and on one call."""
    monkeypatch.setattr(telling, "WINDOW", math.inf)  # however long all of it takes
    channel = server.channel(server.shown("client-00"))
    message = encode(Put(order="x"))
    server.call(channel, "put", message)
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0  # noqa: PTH208
    threads = threading.active_count()
    for _ in range(100):
        server.call(channel, "put", message)
    with Talk(channel.stream_stream(f"/{SITE_SERVICE}/put")) as talk:
        for k in range(10_000):
            talk.ask(message)
            if k >= 8:  # under way at once
                assert decode(talk.answer(), Taken)[0].over
    eventually(lambda: threading.active_count() <= threads, "the threads of all calls have ended")
    for _ in range(50):
        other = server.channel(server.shown("client-01"))
        server.call(other, "put", message)
        other.close()
    if before:
        eventually(lambda: len(os.listdir("/proc/self/fd")) <= before + 4, "handles are closed")  # noqa: PTH208
    assert len(server.lines) <= 2


def test_who_makes_many_calls_keeps_nobody_from_making_theirs(server: Server) -> None:
    message = encode(Put(order="x"))
    own = [server.channel(server.shown("client-00")) for _ in range(2)]  # a connection has room for eight
    calls = [channel.stream_stream(f"/{SITE_SERVICE}/put") for channel in own]

    def one_more() -> None:
        with Talk(calls[1]) as talk:
            talk.ask(message)
            assert decode(talk.answer(), Taken)[0].over

    with contextlib.ExitStack() as open_calls:
        for _ in range(CALLS):
            talk = open_calls.enter_context(Talk(calls[0]))
            talk.ask(message)
            assert decode(talk.answer(), Taken)[0].over
        server.lines.clear()
        for _ in range(3):
            with pytest.raises(grpc.RpcError) as error:
                one_more()
            assert error.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        server.call(server.channel(server.shown("client-01")), "put", message)
    told = [line for line in server.lines if "client-00" in line]
    assert told == [f"refused: client-00 has {CALLS} calls open and makes more"]

    def again() -> bool:
        try:
            one_more()
        except grpc.RpcError:
            return False
        return True

    eventually(again, "calls that ended make room for others")


def test_who_attends_and_says_nothing_keeps_nobody_out(server: Server) -> None:
    """Before it has sent a request: who may not speak is told so, and who may gets two such calls."""
    own, over = server.channel(server.shown("client-00")), threading.Event()
    revoke(server.folder, "client-01")
    revoked = server.channel(server.shown("client-01"))

    def silent(channel: Any) -> Any:
        call = channel.stream_stream(f"/{SITE_SERVICE}/attend")
        return call(iter(lambda: over.wait(HANGS) and None, None), timeout=HANGS)

    try:
        for call in [silent(revoked) for _ in range(8)]:
            assert refused(lambda: next(call)) == grpc.StatusCode.PERMISSION_DENIED  # noqa: B023
        calls = [silent(own) for _ in range(ATTENDED + 1)]
        eventually(lambda: not all(call.is_active() for call in calls), "one is too many")
        (last,) = (call for call in calls if not call.is_active())
        assert last.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        server.call(own, "put", encode(Put(order="x")))
    finally:
        over.set()
    assert server.lines[0].endswith("the certificate of client-01 is revoked")
    assert server.lines[1] == f"refused: client-00 has {ATTENDED} calls to attend open and makes more"


def test_who_says_another_version_each_time_fills_no_log(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor writes into it what is no text."""
    monkeypatch.setattr(telling, "MOST", 3)
    monkeypatch.setattr(telling, "WINDOW", math.inf)
    channel = server.channel(server.shown("client-00"))
    for k in range(6):
        hello = HELLO.model_copy(update={"version": f"\x1b[31m{k}".ljust(80, "x")})
        call = server.attend(channel, hello)
        call.initial_metadata()
        call.cancel()
        eventually(lambda: 0 in server.hub.missing(), "it is gone")
    assert len(server.lines) == 4, "three, and that others are left out"
    assert server.lines[0].startswith("client-00: computes with ")
    assert all(line.isprintable() and "x" * 60 not in line for line in server.lines)


# --- files --------------------------------------------------------------------------------------------------------


def test_a_site_that_cannot_be_read_anew_is_told_once_and_tried_again(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, path, reads, now = [""][:0], server.folder / FILE, [0], [0.0]
    own = identity.Callers(server.folder, "server", lines.append)
    honest, good = identity.read_site, path.read_text()

    def counting(path: Path) -> Any:
        reads[0] += 1
        return honest(path)

    monkeypatch.setattr(identity, "read_site", counting)
    monkeypatch.setattr(identity, "time", SimpleNamespace(monotonic=lambda: now[0]))
    for times, broken in enumerate((good[:200], good[:100]), start=1):
        write_text(path, broken)
        for _ in range(50):
            assert own.site_now() == server.site
        assert reads[0] == len(lines) == times
    now[0] = 2 * identity.AGAIN  # it might be readable by now, as where a disk had been away
    own.site_now()
    assert (reads[0], len(lines)) == (3, 2)
    path.unlink()
    own.site_now()
    assert (reads[0], len(lines)) == (4, 3)
    write_text(path, good)
    revoke(server.folder, "client-01")
    assert own.site_now().named("client-01").revoked
    assert (reads[0], len(lines)) == (5, 3)


@pytest.mark.parametrize("when", ["before", "meanwhile", "not enrolled"])
def test_a_node_that_may_not_come_is_not_waited_for(server: Server, when: str) -> None:
    server.attend(server.channel(server.shown("client-00")))
    server.attended()
    own = server.site.named("client-01")
    if when == "before":
        revoke(server.folder, own.name)
    elif when == "not enrolled":
        server.site.changed(own.model_copy(update={"serial": ""})).write(server.folder)
    meanwhile = (lambda: revoke(server.folder, own.name)) if when == "meanwhile" else (lambda: None)
    assert not server.hub.wait(10 * HANGS, meanwhile)
    told = ["not waited for, as revoked or without a certificate: client-01"]
    assert server.lines == (told if when != "meanwhile" else [])


def test_a_node_that_comes_while_it_is_looked_who_may_is_not_barred(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = server.hub.callers.site_now

    def and_then() -> Any:
        for place in server.hub._places.values():
            place.pushes = place.pushes or asyncio.Queue()
        return honest()

    monkeypatch.setattr(server.hub.callers, "site_now", and_then)
    assert server.hub.wait(HANGS)
    assert server.lines == []


def test_where_nobody_may_come_yet_all_are_waited_for(server: Server) -> None:
    """They may be about to enrol."""
    for name in ("client-00", "client-01"):
        revoke(server.folder, name)
    calls = [0]

    def still() -> None:
        calls[0] += 1
        if calls[0] == 2:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        server.hub.wait(HANGS, still)
    assert server.lines == []


def test_who_is_revoked_while_a_site_is_read_is_out(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = identity.read_site

    def and_then(path: Path) -> Any:
        found = honest(path)
        monkeypatch.setattr(identity, "read_site", honest)
        revoke(server.folder, "client-01")
        return found

    monkeypatch.setattr(identity, "read_site", and_then)
    assert identity.Callers(server.folder, "server", [""][:0].append).site_now().named("client-01").revoked


def test_keys_are_for_their_owner_alone(server: Server) -> None:
    keys = [*server.folder.rglob("*.key"), *server.folder.rglob(KEY)]
    assert len(keys) == 4
    assert {stat.S_IMODE(key.stat().st_mode) for key in keys} == {0o600}
    assert len({key.read_bytes() for key in keys}) == 4


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('role = "client"', 'role = "king"', "nodes.1.role = 'king'"),
        ('name = "client-00"', 'name = "../server"', "nodes.1.name"),
        ("client = 1", "client = 0", "each once"),
        ("chunk = 1024", "chunk = 0", "limits.chunk = 0"),
        ("format = 1", "format = 2", "format = 2"),
        ("format = 1", "format = 1\nmore = 1", "unknown key 'more': allowed are address, digest, "),
        ("format = 1", "format = [", "cannot be read"),
    ],
)
def test_a_site_that_is_none_is_refused(server: Server, old: str, new: str, told: str) -> None:
    path = server.folder / FILE
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(InputError) as caught:
        read_site(path)
    assert told in str(caught.value)
    assert str(path) in str(caught.value)
