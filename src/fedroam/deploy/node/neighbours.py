"""Models from node to node: how one listens to those that may call it, and how one calls others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from fedroam.deploy.connections import HOLDER_SERVICE, channel_options, dialled, server_credentials
from fedroam.deploy.messages import Gift, Header, Order, Refused, Taken, Wish, decode, encode, sum_of
from fedroam.deploy.node.holding import TRIES, Holding, sums
from fedroam.deploy.site.file import Node
from fedroam.deploy.site.identity import Callers, Credentials
from fedroam.errors import InputError, MissingExtraError

try:
    import grpc
except ImportError:
    raise MissingExtraError("learning over a network", "deploy") from None

import numpy as np

EVERYWHERE = "[::]:0"
THREADS = 4  # that serve others
CALL = 30.0  # seconds that a single message may take
PAUSE = 0.1  # seconds between two tries to reach others
TOLD = 100  # lines after which those told are forgotten
# A holder that says so says it for good.
FINAL = (
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
)


class Listener:
    """A node's door: whoever may gives and gets the models that the server has allowed it, and nobody anything else."""

    def __init__(
        self, own: Credentials, callers: Callers, holding: Holding, tell: Callable[[str], None]
    ) -> None:
        self._own, self._callers, self._holding, self._tell = own, callers, holding, tell
        self._told: set[str] = set()
        self._server: Any = None

    def start(self, address: str) -> int:
        """Listen at host:port (port 0: a free one; nothing: everywhere); the port. Raises InputError where that cannot
        be."""
        own, chunk = self._own, self._callers.site.limits.chunk
        self._server = grpc.server(
            ThreadPoolExecutor(THREADS, "door"),
            options=[*channel_options(chunk), ("grpc.max_concurrent_streams", 8)],
            maximum_concurrent_rpcs=4 * len(self._callers.site.nodes) + 16,
        )
        methods = {
            "fetch": grpc.unary_unary_rpc_method_handler(self._fetch),
            "put": grpc.unary_unary_rpc_method_handler(self._put),
        }
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(HOLDER_SERVICE, methods),)
        )
        try:
            port: int = self._server.add_secure_port(address or EVERYWHERE, server_credentials(own))
        except RuntimeError as error:
            raise InputError(f"address {address!r}: cannot be listened at ({error})") from None
        self._server.start()
        return port

    def stop(self) -> None:
        """Close the door."""
        if self._server is not None:
            self._server.stop(grace=1.0).wait()

    def _fetch(self, request: bytes, context: Any) -> bytes:
        node, wish, _ = self._read(request, Wish, context)
        chunk = self._callers.site.limits.chunk
        piece = self._holding.piece(node.number, wish.round, wish.model, wish.offset, chunk)
        if piece is None:
            self._refuse(node, f"asks for model {wish.model[:12]}, which it may not have now", context)
        return encode(Header(), piece or b"")

    def _put(self, request: bytes, context: Any) -> bytes:
        node, gift, piece = self._read(request, Gift, context)
        taken = self._holding.take(node.number, gift.round, gift.model, gift.offset, bytes(piece))
        if taken is None:
            self._refuse(node, f"brings model {gift.model[:12]}, for which nobody waits", context)
            raise AssertionError
        return encode(Taken(received=taken[0], over=taken[1]))

    def _read(self, request: bytes, kind: type[Any], context: Any) -> tuple[Node, Any, memoryview]:
        problem = self._callers.problem(context)
        if problem is not None:
            self._once(f"refused: {problem}")
            context.abort(grpc.StatusCode.PERMISSION_DENIED, problem)
        node = self._callers.node(context)
        try:
            return node, *decode(request, kind)
        except Refused as error:
            self._once(f"{node.name}: {error}")
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            raise AssertionError from None

    def _refuse(self, node: Node, what: str, context: Any) -> None:
        self._once(f"refused: {node.name} {what}")
        context.abort(grpc.StatusCode.NOT_FOUND, "no such model for you now")

    def _once(self, line: str) -> None:
        if line not in self._told:
            if len(self._told) > TOLD:
                self._told.clear()
            self._told.add(line)
            self._tell(line)


@dataclass
class Errand:
    """A model on its way between this node and another: who that is, where it listens, which model, and whether it is
    brought there or fetched. body: what has come of it, or how far it has got."""

    end: int
    address: str
    model: str
    puts: bool
    body: bytearray = field(default_factory=bytearray)
    sent: int = 0
    damaged: int = 0

    @property
    def moved(self) -> int:
        """Bytes that have got through."""
        return self.sent if self.puts else len(self.body)


@dataclass
class Neighbours:
    """A node's calls to others that listen."""

    own: Credentials
    callers: Callers
    holding: Holding
    tell: Callable[[str], None]
    stopping: threading.Event
    _channels: dict[tuple[str, str], Any] = field(default_factory=dict)

    def carry(self, order: Order, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Fetch and bring the models of an order; whether each has got through, bool `arrived` [models].

        A transfer that broke goes on where it stopped. Whoever cannot be reached for as long as a node may be away is
        left.
        """
        columns = (arrays[name].tolist() for name in ("end", "host", "port", "puts"))
        errands = [
            Errand(end, f"{order.hosts[host]}:{port}", model, puts)
            for end, host, port, puts, model in zip(*columns, sums(arrays["model"]), strict=True)
        ]
        away = self.callers.site_now().limits.away
        done, pending, end = (
            np.zeros(len(errands), dtype=bool),
            dict(enumerate(errands)),
            time.monotonic() + away,
        )
        while pending and not self.stopping.is_set():
            for k, errand in list(pending.items()):
                before = errand.moved
                try:
                    self._bring(errand, order.round) if errand.puts else self._fetch(errand, order.round)
                    done[k] = True
                except grpc.RpcError as error:
                    if error.code() not in FINAL:
                        continue
                    self._failed(errand, order.round, error.details())
                except Refused as error:
                    self._failed(errand, order.round, str(error))
                finally:
                    if errand.moved != before:
                        end = time.monotonic() + away
                del pending[k]
            if pending and (time.monotonic() >= end or self.stopping.wait(PAUSE)):
                break
        for errand in pending.values():
            self._failed(errand, order.round, "cannot be reached")
        return {"arrived": done}

    def _fetch(self, errand: Errand, round: int) -> None:
        if not self.holding.lacks([errand.model]):  # since before it was broken off
            return
        size, body = self.holding.size, errand.body
        while len(body) < size:
            wish = Wish(round=round, model=errand.model, offset=len(body))
            piece = self._call(errand, "fetch", wish, b"", Header)[1]
            if not len(piece) or len(body) + len(piece) > size:
                raise Refused(f"sent a piece of {len(piece)} bytes at {len(body)} of {size}")
            body += piece
        if sum_of(bytes(body)) != errand.model:
            errand.damaged, errand.body = errand.damaged + 1, bytearray()
            if errand.damaged >= TRIES:
                raise Refused(f"sent another model than that of this round, {TRIES} times")
            self._fetch(errand, round)
            return
        self.holding.keep(errand.model, bytes(body))

    def _bring(self, errand: Errand, round: int) -> None:
        body, chunk = self.holding.body(errand.model), self.callers.site.limits.chunk
        while True:
            gift = Gift(round=round, model=errand.model, offset=errand.sent)
            piece = memoryview(body)[errand.sent : errand.sent + chunk]
            taken: Taken = self._call(errand, "put", gift, piece, Taken)[0]
            errand.sent = taken.received
            if taken.over or self.stopping.is_set():
                return

    def _call(
        self, errand: Errand, method: str, header: Header, body: bytes | memoryview, kind: type[Any]
    ) -> tuple[Any, memoryview]:
        site = self.callers.site
        node = site.holders.get(errand.end)
        if node is None or node.revoked:
            raise Refused("is no node of the site, or no longer")
        key = errand.address, node.host(site.name)
        if key not in self._channels:
            self._channels[key] = dialled(site, self.own, node, errand.address)
        reply = self._channels[key].unary_unary(f"/{HOLDER_SERVICE}/{method}")(
            encode(header, body), timeout=CALL
        )
        return decode(reply, kind)

    def _failed(self, errand: Errand, round: int, why: object) -> None:
        node = self.callers.site.holders.get(errand.end)
        way = "to" if errand.puts else "of"
        self.tell(f"round {round}: model {way} {node.name if node else errand.end}: {why}")

    def close(self) -> None:
        """End all connections."""
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()
