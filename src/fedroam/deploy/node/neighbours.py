"""Models from node to node: how one listens to those that may call it, and how one calls others."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from fedroam.deploy.connections import HOLDER_SERVICE, channel_options, dialled, server_credentials
from fedroam.deploy.messages import Gift, Header, Order, Ping, Refused, Taken, Wish, decode, encode, sum_of
from fedroam.deploy.node.holding import TRIES, Holding, sums
from fedroam.deploy.site.file import FILE, SiteNode
from fedroam.deploy.site.identity import Callers, Credentials
from fedroam.deploy.telling import Told
from fedroam.errors import InputError, MissingExtraError

try:
    import grpc
except ImportError:
    raise MissingExtraError("learning over a network", "deploy") from None

import numpy as np

EVERYWHERE = "[::]:0"
THREADS = 64  # that serve others at most, as many as are needed: one is taken up by each slow link
CALL = 30.0  # seconds that a single message may take
PAUSE = 0.1  # seconds between two tries to reach others
PINGS, REFILL = 200, 100  # that a node may send at once, and in a second
TRIFLES = 10  # answers by which a transfer gets no further, after which it is given up
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
        self._own, self._callers, self._holding, self._told = own, callers, holding, Told(tell)
        self._server: Any = None
        self._closing = threading.Event()
        self._pinged: dict[
            int, tuple[float, float]
        ] = {}  # by node: how many it may send, and when that was so
        self._lock = threading.Lock()

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
            "ping": grpc.unary_unary_rpc_method_handler(self._ping),
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
        self._closing.set()
        if self._server is not None:
            self._server.stop(grace=1.0).wait()

    def _fetch(self, request: bytes, context: Any) -> bytes:
        node, wish, _ = self._read(request, Wish, context)
        pace = self._holding.pace
        size = pace.piece(node.number, self._callers.site.limits.chunk)
        piece = self._holding.piece(node.number, wish.round, wish.model, wish.offset, size)
        if piece is None:
            self._refuse(node, f"asks for model {wish.model[:12]}, which it may not have now", context)
            raise AssertionError
        self._closing.wait(pace.wait(node.number, len(piece), time.monotonic()))
        return encode(Header(), piece)

    def _put(self, request: bytes, context: Any) -> bytes:
        node, gift, piece = self._read(request, Gift, context)
        taken = self._holding.take(node.number, gift.round, gift.model, gift.offset, bytes(piece))
        if taken is None:
            self._refuse(node, f"brings model {gift.model[:12]}, for which nobody waits", context)
            raise AssertionError
        return encode(Taken(received=taken[0], over=taken[1]))

    def _ping(self, request: bytes, context: Any) -> bytes:
        node, _, _ = self._read(request, Ping, context)
        if not self._may_ping(node.number, time.monotonic()):
            self._told.once(f"refused: {node.name} asks more than {REFILL} times a second")
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many questions")
            raise AssertionError
        return encode(Header())

    def _may_ping(self, number: int, now: float) -> bool:
        with self._lock:
            left, since = self._pinged.get(number, (float(PINGS), now))
            left = min(float(PINGS), left + REFILL * (now - since))
            self._pinged[number] = (left - 1 if left >= 1 else left), now
            return left >= 1

    def _read(self, request: bytes, kind: type[Any], context: Any) -> tuple[SiteNode, Any, memoryview]:
        problem = self._callers.problem(context)
        if problem is not None:
            self._told.once(f"refused: {problem}")
            context.abort(grpc.StatusCode.PERMISSION_DENIED, problem)
        node = self._callers.node(context)
        try:
            return node, *decode(request, kind)
        except Refused as error:
            self._told.once(f"{node.name}: {error}")
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            raise AssertionError from None

    def _refuse(self, node: SiteNode, what: str, context: Any) -> None:
        self._told.once(f"refused: {node.name} {what}")
        context.abort(grpc.StatusCode.NOT_FOUND, "no such model for you now")


@dataclass
class Errand:
    """A model on its way between this node and another: who that is, where it listens, which model, and whether it is
    brought there or fetched, and how fast it goes, bytes/s. body: what has come of it, or how far it has got."""

    end: int
    address: str
    model: str
    puts: bool
    rate: float = math.inf
    body: bytearray = field(default_factory=bytearray)
    sent: int = 0
    damaged: int = 0
    trifles: int = 0
    spent: float = 0.0

    @property
    def moved(self) -> int:
        """Bytes that have got through."""
        return self.sent if self.puts else len(self.body)


@dataclass
class Neighbours:
    """A node's calls to others that listen. found: where they were found by the node itself, host:port."""

    own: Credentials
    callers: Callers
    holding: Holding
    tell: Callable[[str], None]
    stopping: threading.Event
    found: dict[int, str] = field(default_factory=dict)
    _channels: dict[tuple[str, str], Any] = field(default_factory=dict)

    def carry(self, order: Order, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Fetch and bring the models of an order; whether each has got through, bool `arrived` [models].

        A transfer that broke goes on where it stopped. Whoever cannot be reached for as long as a node may be away is
        left, and so is whoever takes more than its share of the time that the order has.
        """
        self.holding.paced(order, arrays)
        columns = (arrays[name].tolist() for name in ("end", "host", "port", "puts"))
        rates = arrays["rate"].tolist() if order.paced else [math.inf] * order.rows
        errands = [
            Errand(end, self.found.get(end, f"{order.hosts[host]}:{port}"), model, puts, rate)
            for end, host, port, puts, model, rate in zip(*columns, sums(arrays["model"]), rates, strict=True)
        ]
        limits = self.callers.site_now().limits
        away, share = limits.away, limits.answer / (len(errands) + 1)
        done, pending, end = (
            np.zeros(len(errands), dtype=bool),
            dict(enumerate(errands)),
            time.monotonic() + away,
        )
        while pending and not self.stopping.is_set():
            for k, errand in list(pending.items()):
                before, began = errand.moved, time.monotonic()
                try:
                    (self._bring if errand.puts else self._fetch)(
                        errand, order.round, began + share - errand.spent
                    )
                    done[k] = True
                except grpc.RpcError as error:
                    if error.code() not in FINAL:
                        continue
                    self._failed(errand, order.round, error.details())
                except Refused as error:
                    self._failed(errand, order.round, str(error))
                finally:
                    errand.spent += time.monotonic() - began
                    if errand.moved != before:
                        end = time.monotonic() + away
                del pending[k]
            if pending and (time.monotonic() >= end or self.stopping.wait(PAUSE)):
                break
        for errand in pending.values():
            self._failed(errand, order.round, "cannot be reached")
        return {"arrived": done}

    def _fetch(self, errand: Errand, round: int, end: float) -> None:
        if not self.holding.lacks([errand.model]):  # as when an access point has averaged nobody else's
            pace = self.holding.pace
            self.stopping.wait(pace.passing(self.holding.size, errand.rate, time.monotonic()))
            return
        size, body = self.holding.size, errand.body
        while len(body) < size:
            wish = Wish(round=round, model=errand.model, offset=len(body))
            piece = self._call(errand, "fetch", wish, b"", Header)[1]
            if not len(piece) or len(body) + len(piece) > size:
                raise Refused(f"sent a piece of {len(piece)} bytes at {len(body)} of {size}")
            body += piece
            if time.monotonic() > end:
                raise Refused("takes too long")
        if sum_of(bytes(body)) != errand.model:
            errand.damaged, errand.body = errand.damaged + 1, bytearray()
            if errand.damaged >= TRIES:
                raise Refused(f"sent another model than that of this round, {TRIES} times")
            self._fetch(errand, round, end)
            return
        self.holding.keep(errand.model, bytes(body))

    def _bring(self, errand: Errand, round: int, end: float) -> None:
        body, chunk, pace = self.holding.body(errand.model), self.callers.site.limits.chunk, self.holding.pace
        while True:
            gift = Gift(round=round, model=errand.model, offset=errand.sent)
            piece = memoryview(body)[errand.sent : errand.sent + pace.piece(errand.end, chunk)]
            self.stopping.wait(pace.wait(errand.end, len(piece), time.monotonic()))
            taken: Taken = self._call(errand, "put", gift, piece, Taken)[0]
            # Who is begun anew, or got what is damaged, takes it from the start; not for ever.
            errand.trifles += taken.received <= errand.sent
            if taken.received > len(body) or errand.trifles > TRIFLES:
                raise Refused(f"says that it has {taken.received} of {len(body)} bytes")
            unsent = len(body) - errand.sent - len(piece)
            errand.sent = taken.received
            if taken.over or self.stopping.is_set():
                if unsent:  # it is there already
                    self.stopping.wait(pace.passing(len(body), errand.rate, time.monotonic()))
                return
            if time.monotonic() > end:
                raise Refused("takes too long")

    def _call(
        self, errand: Errand, method: str, header: Header, body: bytes | memoryview, kind: type[Any]
    ) -> tuple[Any, memoryview]:
        call = self.channel(errand.end, errand.address).unary_unary(f"/{HOLDER_SERVICE}/{method}")
        return decode(call(encode(header, body), timeout=CALL), kind)

    def channel(self, end: int, address: str) -> Any:
        """The connection to a node that listens there. Raises `Refused` where the site has none, or no longer."""
        site = self.callers.site
        node = site.holders.get(end)
        if node is None or node.revoked:
            raise Refused("is no node of the site, or no longer")
        if not node.serial:
            raise Refused(f"has no certificate in the {FILE} that is here")
        key = address, node.host(site.name)
        if key not in self._channels:
            self._channels[key] = dialled(site, self.own, node, address)
        return self._channels[key]

    def _failed(self, errand: Errand, round: int, why: object) -> None:
        node = self.callers.site.holders.get(errand.end)
        way = "to" if errand.puts else "of"
        self.tell(f"round {round}: model {way} {node.name if node else errand.end}: {why}")

    def close(self) -> None:
        """End all connections."""
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()
