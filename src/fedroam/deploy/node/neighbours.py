"""Models from node to node: how one listens to those that may call it, and how one calls others."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fedroam.deploy.connections import (
    HOLDER_SERVICE,
    dialled,
    listening_options,
    not_open,
    server_credentials,
)
from fedroam.deploy.loop import Loop
from fedroam.deploy.messages import Gift, Header, Order, Ping, Refused, Taken, Wish, encode, sum_of
from fedroam.deploy.node.holding import TRIES, Holding, packed_sums, sums
from fedroam.deploy.site.file import FILE, SiteNode
from fedroam.deploy.site.identity import Callers, Credentials
from fedroam.deploy.transfers import CALLS, Door, Talk, brought, fetched, given
from fedroam.errors import MissingExtraError

try:
    import grpc
    import grpc.aio
except ImportError:
    raise MissingExtraError("learning over a network", "deploy") from None

import numpy as np

EVERYWHERE = "[::]:0"
PAUSE = 0.1  # seconds between two tries to reach others
QUESTIONS = 16  # open ones of a node, which may ask at each address at which a door was found
PINGS, REFILL = 200, 100  # that a node may send at once, and in a second
AT_ONCE = 8  # other nodes with which a node has transfers at a time
NO_RECEIPT = "0" * 64
ANEW = 10  # times that a model is brought anew from an earlier byte, after which it is given up
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
        self._own, self._callers, self._holding, self._asked = own, callers, holding, Door(callers, tell)
        self._server: Any = None
        self._loop = Loop("door")
        self._pinged: dict[
            int, tuple[float, float]
        ] = {}  # by node: how many it may send, and when that was so

    def start(self, address: str) -> int:
        """Listen at host:port (port 0: a free one; nothing: everywhere); the port. Raises InputError where that cannot
        be, FedroamError where it cannot be now."""
        return self._loop.now(self._start(address))

    def stop(self) -> None:
        """Close the door."""
        self._loop.stop(self._stop)

    # --- within the loop --------------------------------------------------------------------------------------

    async def _start(self, address: str) -> int:
        server: Any = grpc.aio.server(
            options=listening_options(len(self._callers.site.nodes), self._chunk),
            # One node's calls and questions leave room for four calls of each other one.
            maximum_concurrent_rpcs=4 * len(self._callers.site.nodes) + CALLS + QUESTIONS,
        )
        methods = {
            "fetch": grpc.stream_stream_rpc_method_handler(self._fetch),
            "put": grpc.stream_stream_rpc_method_handler(self._put),
            "ping": grpc.stream_stream_rpc_method_handler(self._ping),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(HOLDER_SERVICE, methods),))
        try:
            port: int = server.add_secure_port(address or EVERYWHERE, server_credentials(self._own))
        except RuntimeError as error:
            raise not_open(address, f"cannot be listened at ({error})") from None
        await server.start()
        self._server = server
        return port

    async def _stop(self) -> None:
        if self._server is not None:
            await self._server.stop(grace=1.0)

    @property
    def _chunk(self) -> int:
        return self._callers.site.limits.chunk

    async def _fetch(self, requests: Any, context: Any) -> None:
        await self._asked.answer(context, self._give)

    async def _put(self, requests: Any, context: Any) -> None:
        await self._asked.answer(context, self._take)

    async def _ping(self, requests: Any, context: Any) -> None:
        await self._asked.answer(context, self._here, "questions", QUESTIONS)

    async def _give(self, request: bytes, context: Any) -> AsyncGenerator[bytes]:
        """The answers to a wish."""
        node, wish, _ = await self._asked.read(request, Wish, context)
        number, pace = node.number, self._holding.pace

        async def piece(offset: int, size: int) -> bytes:
            await self._asked.known(context)
            found = self._holding.piece(number, wish.round, wish.model, offset, size)
            if found is None:
                await self._refuse(
                    node, f"asks for model {wish.model[:12]}, which it may not have now", context
                )
                raise AssertionError
            return found

        def hold(size: int) -> float:
            return pace.wait(number, size, time.monotonic())

        async for each in given(wish.offset, wish.size, lambda: pace.piece(number, self._chunk), piece, hold):
            yield each

    async def _take(self, request: bytes, context: Any) -> AsyncGenerator[bytes]:
        """The answer to a piece of a model."""
        node, gift, piece = await self._asked.read(request, Gift, context)
        what = node.number, gift.round, gift.model, gift.offset, bytes(piece)
        last = gift.offset + len(piece) >= self._holding.size  # which is kept on the disk, if it is taken
        taken = await asyncio.to_thread(self._holding.take, *what) if last else self._holding.take(*what)
        if taken is None:
            await self._refuse(node, f"brings model {gift.model[:12]}, for which nobody waits", context)
            raise AssertionError
        shown = self._holding.receipt(node.number, gift.model) if taken[1] else ""
        yield encode(Taken(received=taken[0], over=taken[1], receipt=shown))

    async def _here(self, request: bytes, context: Any) -> AsyncGenerator[bytes]:
        """The answer to whether anybody is there."""
        node, _, _ = await self._asked.read(request, Ping, context)
        if not self._may_ping(node.number, time.monotonic()):
            self._asked.told.once(f"refused: {node.name} asks more than {REFILL} times a second")
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many questions")
            raise AssertionError
        yield encode(Header())

    def _may_ping(self, number: int, now: float) -> bool:
        left, since = self._pinged.get(number, (float(PINGS), now))
        left = min(float(PINGS), left + REFILL * (now - since))
        self._pinged[number] = (left - 1 if left >= 1 else left), now
        return left >= 1

    async def _refuse(self, node: SiteNode, what: str, context: Any) -> None:
        self._asked.told.once(f"refused: {node.name} {what}")
        await context.abort(grpc.StatusCode.NOT_FOUND, "no such model for you now")


@dataclass(eq=False)
class Errand:
    """A model on its way between this node and another: who that is, where it listens, which model, and whether it is
    brought there or fetched, and how fast it goes, bytes/s. body: what has come of it, or how far it has got; done:
    whether it has got through. receipt: of who got it (see `messages.receipt`)."""

    end: int
    address: str
    model: str
    puts: bool
    rate: float = math.inf
    body: bytearray = field(default_factory=bytearray)
    sent: int = 0
    damaged: int = 0
    begun_anew: int = 0
    spent: float = 0.0
    done: bool = False
    receipt: str = ""

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
    _channels: dict[tuple[int, str, str], Any] = field(default_factory=dict)

    def carry(self, order: Order, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Fetch and bring the models of an order; whether each has got through, bool `arrived` [models], and what those
        who were brought one gave for it, uint8 `receipt` [models, 32].

        Those with different nodes go on at once, as the links to them are different ones. A transfer that broke goes on
        where it stopped. Whoever cannot be reached for as long as a node may be away is left, and so is whoever takes
        more than its share of the time that the order has.
        """
        self.holding.paced(order, arrays)
        columns = (arrays[name].tolist() for name in ("end", "host", "port", "puts"))
        rates = arrays["rate"].tolist() if order.paced else [math.inf] * order.rows
        errands = [
            Errand(end, self.found.get(end, f"{order.hosts[host]}:{port}"), model, puts, rate)
            for end, host, port, puts, model, rate in zip(*columns, sums(arrays["model"]), rates, strict=True)
        ]
        limits = self.callers.site_now().limits
        share = limits.answer / (len(errands) + 1)
        by_end: dict[int, list[Errand]] = {}
        for errand in errands:
            by_end.setdefault(errand.end, []).append(errand)
        self.keep_only({end: {each.address for each in some} for end, some in by_end.items()})
        if by_end:
            with_one = partial(self._carry, round=order.round, away=limits.away, share=share)
            with ThreadPoolExecutor(min(len(by_end), AT_ONCE), "carry") as pool:
                list(pool.map(with_one, by_end.values()))  # raises what any of them does
        return {
            "arrived": np.array([errand.done for errand in errands], dtype=bool),
            "receipt": packed_sums(errand.receipt or NO_RECEIPT for errand in errands),
        }

    def _carry(self, errands: Sequence[Errand], round: int, away: float, share: float) -> None:
        """Do what is to be done with one other node. away, share: seconds without progress, and for each."""
        pending, end = list(errands), time.monotonic() + away
        while pending and not self.stopping.is_set():
            for errand in list(pending):
                before, began = errand.moved, time.monotonic()
                try:
                    (self._bring if errand.puts else self._fetch)(errand, round, began + share - errand.spent)
                    errand.done = True
                except grpc.RpcError as error:
                    if error.code() not in FINAL:
                        continue
                    self._failed(errand, round, error.details())
                except Refused as error:
                    self._failed(errand, round, str(error))
                finally:
                    errand.spent += time.monotonic() - began
                    if errand.moved != before:
                        end = time.monotonic() + away
                pending.remove(errand)
            if pending and (time.monotonic() >= end or self.stopping.wait(PAUSE)):
                break
        for errand in pending:
            self._failed(errand, round, "cannot be reached")

    def _fetch(self, errand: Errand, round: int, end: float) -> None:
        if not self.holding.lacks([errand.model]):  # as when an access point has averaged nobody else's
            pace = self.holding.pace
            self.stopping.wait(pace.passing(self.holding.size, errand.rate, time.monotonic()))
            return

        def wish(offset: int, size: int) -> Wish:
            return Wish(round=round, model=errand.model, offset=offset, size=size)

        while True:
            with self._talk(errand, "fetch") as talk:
                for _ in fetched(talk, wish, errand.body, self.holding.size, self._chunk):
                    self._go_on(errand, end)
            if sum_of(bytes(errand.body)) == errand.model:
                break
            errand.damaged, errand.body = errand.damaged + 1, bytearray()
            if errand.damaged >= TRIES:
                raise Refused(f"sent another model than that of this round, {TRIES} times")
        self.holding.keep(errand.model, bytes(errand.body))

    def _bring(self, errand: Errand, round: int, end: float) -> None:
        body, pace = self.holding.body(errand.model), self.holding.pace

        def gift(offset: int) -> Gift:
            return Gift(round=round, model=errand.model, offset=offset)

        def chunk() -> int:
            return pace.piece(errand.end, self._chunk)

        def hold(size: int) -> None:
            self.stopping.wait(pace.wait(errand.end, size, time.monotonic()))

        while True:
            with self._talk(errand, "put") as talk:
                for taken, all_sent in brought(talk, gift, body, errand.sent, chunk, hold):
                    if taken.received > len(body):
                        break
                    errand.sent = taken.received
                    errand.receipt = taken.receipt
                    if taken.over or self.stopping.is_set():
                        if not all_sent:  # it is there already
                            self.stopping.wait(pace.passing(len(body), errand.rate, time.monotonic()))
                        return
                    self._go_on(errand, end)
            # Who is begun anew, or got what is damaged, takes it from the start; not for ever.
            errand.begun_anew += 1
            if taken.received > len(body) or errand.begun_anew > ANEW:
                raise Refused(f"says that it has {taken.received} of {len(body)} bytes")

    def _go_on(self, errand: Errand, end: float) -> None:
        """Raise `Refused` where a transfer takes too long, or the other end has been revoked meanwhile."""
        if time.monotonic() > end:
            raise Refused("takes too long")
        self._node(errand.end)

    @property
    def _chunk(self) -> int:
        return self.callers.site.limits.chunk

    def _talk(self, errand: Errand, method: str) -> Talk:
        return Talk(self.channel(errand.end, errand.address).stream_stream(f"/{HOLDER_SERVICE}/{method}"))

    def channel(self, end: int, address: str) -> Any:
        """The connection to a node that listens there. Raises `Refused` where the site has none, or no longer."""
        site, node = self.callers.site, self._node(end)
        key = end, address, node.host(site.name)
        if key not in self._channels:
            self._channels[key] = dialled(site, self.own, node, address)
        return self._channels[key]

    def keep_only(self, addresses: Mapping[int, Collection[str]]) -> None:
        """End the connections to these nodes, by number, that lead elsewhere than to these addresses, or to a
        certificate that they had before: anybody on the local network may tell of addresses, of as many as there are.
        """
        site = self.callers.site
        for key in list(self._channels):
            end, address, host = key
            node = site.holders.get(end)
            if end in addresses and (
                address not in addresses[end] or node is None or host != node.host(site.name)
            ):
                self._channels.pop(key).close()

    def _node(self, end: int) -> SiteNode:
        node = self.callers.site.holders.get(end)
        if node is None or node.revoked:
            raise Refused("is no node of the site, or no longer")
        if not node.serial:
            raise Refused(f"has no certificate in the {FILE} that is here")
        return node

    def _failed(self, errand: Errand, round: int, why: object) -> None:
        node = self.callers.site.holders.get(errand.end)
        way = "to" if errand.puts else "of"
        self.tell(f"round {round}: model {way} {node.name if node else errand.end}: {why}")

    def close(self) -> None:
        """End all connections."""
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()
