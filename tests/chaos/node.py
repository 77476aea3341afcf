"""A client's process that misbehaves as it is told: it dies, repeats itself, sends what is wrong, lets strangers in."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import torch
from typing_extensions import override

from chaos.faults import GIVEN, Fault
from fedroam.deploy.connections import HOLDER_SERVICE, SITE_SERVICE, channel_options
from fedroam.deploy.messages import Fetch, Gift, Header, Order, Put, Taken, Wish, decode, encode, sum_of
from fedroam.deploy.node.process import Node, node_of
from fedroam.deploy.site.file import CERTIFICATE, KEY, NODES, SiteNode
from fedroam.deploy.site.identity import Credentials, credentials
from fedroam.deploy.transfers import Talk
from support.messages import one_answer

Arrays = dict[str, np.ndarray]
PATIENCE = 60.0  # seconds for a stranger's call, however busy the machine is
REFUSALS = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.NOT_FOUND,
)


def _no_number(answer: Arrays) -> Arrays:
    broken = answer["0.parameters"].copy()
    broken[3] = np.nan
    return {**answer, "0.parameters": broken}


def _fails(answer: Arrays) -> Arrays:
    raise MemoryError("no memory left")


WRONG: dict[str, Callable[[Arrays], Arrays]] = {
    "no number": _no_number,
    "another shape": lambda a: {**a, "0.parameters": a["0.parameters"][:-1]},
    "another type": lambda a: {**a, "loss": a["loss"].astype(np.float32)},
    "something more": lambda a: {**a, "more": np.zeros(3, np.float32)},
    "far too much": lambda a: {**a, "more": np.zeros(200_000, np.float32)},
    "nothing": _fails,
}


def live(folder: Path, name: str, port: int, faults: Sequence[Fault], trail: Path) -> None:
    """Attend the server behind a port, with these faults; what struck, and what came of it, goes to files below
    `trail`, so that a killed process has told it, too."""
    torch.set_num_threads(1)
    os.fsync = lambda handle: None  # type: ignore[assignment]
    node = node_of(folder, name, lambda line: None)
    node.site = node.site.model_copy(update={"address": f"127.0.0.1:{port}"})
    if node.holding.memory is not None:
        Keeping(node, folder, faults, trail)
    elif faults:
        Acting(node, folder, faults, trail)
    node.run()


class Faulty:
    """A node with faults."""

    def __init__(self, node: Node, folder: Path, faults: Sequence[Fault], trail: Path) -> None:
        self.node, self.folder, self.trail = node, folder, trail
        self.faults = {fault.round: fault for fault in faults}
        self.fault: Fault | None = None

    def due(self, kind: str, way: str = "") -> bool:
        """Whether such a fault is due now, and has not struck yet."""
        fault = self.fault
        return (
            fault is not None
            and fault.kind == kind
            and way in ("", fault.way)
            and not (self.trail / str(fault.number)).exists()
        )

    def strike(self) -> Fault:
        """The fault strikes now."""
        assert self.fault is not None
        (self.trail / str(self.fault.number)).touch()
        return self.fault

    def found(self, what: str) -> None:
        """Something that must not be."""
        assert self.fault is not None
        (self.trail / f"found-{self.fault.number}").write_text(f"{self.fault}: {what}")

    def die(self) -> None:
        self.strike()
        os.kill(os.getpid(), signal.SIGKILL)


def wrong_to(trail: Path, round: int, holder: int, asking: int) -> Path:
    """The file that tells that a holder gave another one something wrong in the place of a model in a round."""
    return trail / f"wrong-{round}-{holder}-{asking}"


class Acting(Faulty):
    """A client's faults in the place of its methods."""

    def __init__(self, node: Node, folder: Path, faults: Sequence[Fault], trail: Path) -> None:
        super().__init__(node, folder, faults, trail)
        self.order = Order(order=f"{'0' * 16}-0", work="train", round=0)
        self.last: list[tuple[Put, bytes]] = []  # the answer of the round before, piece by piece
        self.sent: list[tuple[Put, bytes]] = []
        self.tries = 0
        self.honest = {"do": node._do, "talk": node._talk, "work": node.share.work}
        node._do, node._talk = self.do, self.talk  # type: ignore[method-assign]
        node.share.work = self.work  # type: ignore[method-assign]

    # --- in the place of a node's methods ---------------------------------------------------------------------

    def do(self, channel: Any, order: Order, since: float) -> None:
        if order.order != self.order.order:
            self.order, self.last, self.sent, self.tries = order, self.sent, [], 0
            self.fault = self.faults.get(order.round)
        self.honest["do"](channel, order, since)
        if self.due("duplicate", "an answer"):
            self.strike()
            self.again(channel, self.sent)

    def work(self, order: Order, arrays: Arrays) -> Arrays:
        if self.due("kill", "for good") and self.strike_at(1):
            self.die()
        answer: Arrays = self.honest["work"](order, arrays)
        return WRONG[self.strike().way](answer) if self.due("content") else answer

    def strike_at(self, third: int) -> bool:
        """Whether this is the moment at which it dies: while it fetches, computes, or answers."""
        assert self.fault is not None
        return int(3 * self.fault.amount) == third

    def talk(self, channel: Any, method: str) -> Talk:
        return Between(self, channel, method)

    def answering(self, channel: Any, put: Put, piece: bytes) -> bytes:
        """What is sent in the place of a piece."""
        self.sent.append((put, piece))
        if self.due("kill", "for good") and self.strike_at(2) and put.offset:
            self.die()
        if put.offset:
            return piece
        self.tries += 1
        if self.due("replay") and self.last:
            self.strike()
            self.again(channel, self.last)
        if self.due("delay", "at the node"):
            time.sleep(self.strike().amount)
        if self.due("certificate"):
            self.let_in(self.strike().way, put, piece)
        if self.due("pieces"):
            return piece + b"more" if self.strike().way == "one too long" else piece[: len(piece) // 2]
        if self.fault is not None and self.due("corrupt", "an answer"):
            if self.tries == self.fault.times:
                self.strike()
            return _flipped(piece, self.fault.amount)
        return piece

    def again(self, channel: Any, answer: Sequence[tuple[Put, bytes]]) -> None:
        """Send once more what nobody waits for."""
        with self.honest["talk"](channel, "put") as talk:
            for put, piece in answer:
                talk.ask(encode(put, piece))
            for put, _ in answer:
                if not decode(talk.answer(), Taken)[0].over:
                    self.found(f"an answer of order {put.order} is taken again")

    # --- strangers --------------------------------------------------------------------------------------------

    def let_in(self, way: str, put: Put, piece: bytes) -> None:
        """Somebody without the right to it asks for the client's order, and answers it."""
        if way == "no TLS":
            host, port = self.node.site.address.rsplit(":", 1)
            with (
                contextlib.suppress(OSError),
                socket.create_connection((host, int(port)), timeout=PATIENCE) as raw,
            ):
                raw.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + encode(put, piece))
                if self.order.order.encode() in raw.recv(4096):
                    self.found("a stranger without TLS is answered")
            return
        forged = bytes(len(piece))
        put = put.model_copy(update={"size": len(piece), "sha256": sum_of(forged)})
        calls = {
            "attend": encode(self.node.hello),
            "fetch": encode(Fetch(order=self.order.order, offset=0, size=1)),
            "put": encode(put, forged),
        }
        with stranger(self.node, self.folder, way, self.node.site.server, self.node.site.address) as channel:
            for method, message in calls.items():
                try:
                    if method == "attend":
                        reply = next(
                            channel.unary_stream(f"/{SITE_SERVICE}/attend")(message, timeout=PATIENCE)
                        )
                    else:
                        reply = one_answer(channel, SITE_SERVICE, method, message, PATIENCE)
                except grpc.RpcError as error:
                    if error.code() not in REFUSALS:
                        self.found(f"{way}, {method}: {error.code()}")
                    continue
                # A node of the site is told that nobody waits for its answer.
                if (way, method) != ("another node's", "put") or not decode(reply, Taken)[0].over:
                    self.found(f"{way}: {method} is answered")


class Between(Talk):
    """What a client and the server say to each other in a transfer, as its fault wants it."""

    def __init__(self, acting: Acting, channel: Any, method: str) -> None:
        super().__init__(channel.stream_stream(f"/{SITE_SERVICE}/{method}"))
        self.acting, self.channel, self.fetches = acting, channel, method == "fetch"
        self.again: deque[bool] = deque()  # of the answers to come: whether it is one to a piece sent twice

    @override
    def ask(self, request: bytes) -> None:
        if not self.fetches:
            put, piece = decode(request, Put)
            if not put.failed:
                request = encode(put, self.acting.answering(self.channel, put, bytes(piece)))
                if self.acting.due("duplicate", "pieces"):
                    super().ask(request)
                    self.again.append(False)
                    super().ask(request)
                    self.again.append(True)
                    return
        super().ask(request)
        self.again.append(False)

    @override
    def answer(self) -> bytes:
        while self.again.popleft():  # what was told of it the first time has been told already
            super().answer()
        reply, acting = super().answer(), self.acting
        if self.fetches:
            if acting.due("kill", "for good") and acting.strike_at(0):
                acting.die()
            if acting.due("corrupt", "an order"):
                piece = decode(reply, Header)[1]
                reply = encode(Header(), _flipped(bytes(piece), acting.strike().amount))
        elif acting.due("duplicate", "pieces") and decode(reply, Taken)[0].over:
            acting.strike()
            if not decode(super().answer(), Taken)[0].over:
                acting.found("a piece that was sent twice is taken again")
        return reply


class Keeping(Faulty):
    """A peer's or an access point's faults in the place of its methods."""

    def __init__(self, node: Node, folder: Path, faults: Sequence[Fault], trail: Path) -> None:
        super().__init__(node, folder, faults, trail)
        holding = node.holding
        self.honest = {"piece": holding.piece, "take": holding.take, "aggregate": holding.aggregate}
        self.old: dict[int, bytes] = {}  # a model that it gave, by round
        self.older = b""  # one of these, of an earlier round and another one than that asked for
        self.giving = ""  # what it gives in this round in the place of its model
        self.short = 0  # the round in which its pieces are shorter than those that were wished for
        self.choosing = threading.Lock()  # several ask at once: all of them get what is wrong
        holding.piece, holding.take = self.piece, self.take  # type: ignore[method-assign]
        holding.aggregate = self.aggregate  # type: ignore[method-assign]
        self.begin = holding.begin
        holding.begin = self.begun  # type: ignore[method-assign]

    def begun(self, order: Order) -> None:
        if self.fault is None or self.fault.round != order.round:
            self.fault, self.giving = self.faults.get(order.round), ""
        self.begin(order)

    def piece(self, holder: int, round: int, name: str, offset: int, chunk: int) -> bytes | None:
        found: bytes | None = self.honest["piece"](holder, round, name, offset, chunk)
        if found is None:
            return None
        if self.due("duplicate") and found != self.honest["piece"](
            holder, self.strike().round, name, offset, chunk
        ):
            self.found("a piece is another when it is asked for again")
        body = self.node.holding.body(name)
        with self.choosing:
            self.older = next((old for t, old in self.old.items() if t < round and old != body), b"")
            self.old[round] = body
            for way in GIVEN:
                if (self.due("content", way) or self.due("replay", way)) and (
                    way != "a model of an old round" or self.older
                ):
                    self.strike()
                    self.giving = way
        if self.due("pieces"):
            self.strike()
            self.short = round
        if self.short == round:
            return found[: 1 + len(found) // 3]
        if not self.giving:
            return found
        wrong_to(self.trail, round, self.node.holding.number, holder).touch()
        longer = 100 if self.giving == "pieces that are too long" else 0
        return self.wrong(body)[offset : offset + chunk + longer]

    def wrong(self, body: bytes) -> bytes:
        """What it gives in the place of a model."""
        if self.giving == "pieces that are too long":
            return body + bytes(100)
        if self.giving == "a shorter model":
            return body[:-400]
        if self.giving == "a model that is no number":
            return body[:-4] + np.array([np.nan], np.float32).tobytes()
        return self.older

    def take(self, holder: int, round: int, name: str, offset: int, piece: bytes) -> Any:
        found = self.honest["take"](holder, round, name, offset, piece)
        if found is not None and self.due("duplicate"):
            again = self.honest["take"](holder, self.strike().round, name, offset, piece)
            if again != found:
                self.found(f"a piece that was sent twice is told {again}, before {found}")
        return found

    def aggregate(self, order: Order, arrays: Arrays) -> Arrays:
        if self.due("certificate"):
            self.let_in(self.strike().way, order)
        if self.fault is not None and self.due("kill", "in its work") and self.fault.amount < 0.5:
            self.die()
        found: Arrays = self.honest["aggregate"](order, arrays)
        if self.due("kill", "in its work"):
            self.die()
        if self.due("content", "no aggregate"):
            self.strike()
            raise MemoryError("no memory left")
        if self.due("content", "an aggregate that is no number"):
            self.strike()
            return {**found, "parameters": found["parameters"] * np.nan}
        return found

    def let_in(self, way: str, order: Order) -> None:
        """Somebody without the right to it asks for a model, and brings one."""
        own = next(node for node in self.node.site.nodes if node.name == self.node.name)
        port, model = self.node.hello.port, order.models[0]
        if way == "no TLS":
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as raw,
            ):
                raw.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(64))
                if self.node.holding.body(model)[-64:] in raw.recv(65_536):
                    self.found("a stranger without TLS is answered")
            return
        if way == "another node's":  # a node of the site, but with no such permission
            model = "0" * 64
        calls = {
            "fetch": encode(Wish(round=order.round, model=model, offset=0, size=1)),
            "put": encode(Gift(round=order.round, model=model, offset=0), bytes(64)),
        }
        with stranger(self.node, self.folder, way, own, f"127.0.0.1:{port}") as channel:
            for method, message in calls.items():
                try:
                    one_answer(channel, HOLDER_SERVICE, method, message, PATIENCE)
                except grpc.RpcError as error:
                    if error.code() not in REFUSALS:
                        self.found(f"{way}, {method}: {error.code()}")
                    continue
                self.found(f"{way}: {method} is answered")


def stranger(node: Node, folder: Path, way: str, end: SiteNode, address: str) -> Any:
    """A channel of somebody else to a node of the site (end)."""
    own, site = node.own, node.site
    (role,) = {each.role for each in site.nodes if each.name == node.name}
    others = {
        "none": lambda: replace(own, key=b"", certificate=b""),
        "another authority's": lambda: _shown(folder / "other", node.name, own.authority),
        "an old one": lambda: _shown(folder / "old", node.name, own.authority),
        "another role's": lambda: credentials(folder, site, "server"),
        "another node's": lambda: credentials(
            folder, site, next(n.name for n in site.nodes if n.role == role and n.name != node.name)
        ),
    }
    shown = others[way]()
    secure = grpc.ssl_channel_credentials(shown.authority, shown.key or None, shown.certificate or None)
    options = [
        *channel_options(site.limits.chunk),
        ("grpc.ssl_target_name_override", end.host(site.name)),
        ("grpc.use_local_subchannel_pool", 1),
    ]
    return grpc.secure_channel(address, secure, options)


def _shown(folder: Path, name: str, authority: bytes) -> Credentials:
    home = folder / NODES / name
    return Credentials((home / KEY).read_bytes(), (home / CERTIFICATE).read_bytes(), authority)


def _flipped(piece: bytes, amount: float) -> bytes:
    """A piece with one bit turned."""
    changed = bytearray(piece)
    changed[int(amount * len(piece))] ^= 1 << int(8 * amount)
    return bytes(changed)
