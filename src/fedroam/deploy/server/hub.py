"""The server's side of the network: who attends, what each is asked, and what of the answers is taken.

Nodes dial; the server dials nobody. A node attends by a call that lasts as long as the process: orders come down by
it, and its end tells that the node is gone. Arrays of an order are fetched, and answers are put, in pieces of which
several are under way, and which are taken up where a broken transfer stopped. Each order is answered once: what comes
for another one, or again, is left aside.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
import threading
import time
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future, as_completed
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

from fedroam.deploy.connections import (
    LET_IN,
    SITE_SERVICE,
    everywhere,
    listening_options,
    not_open,
    server_credentials,
    unreachable,
)
from fedroam.deploy.loop import Loop
from fedroam.deploy.messages import (
    Expected,
    Fetch,
    Hello,
    Order,
    Push,
    Put,
    Refused,
    Taken,
    digest_of,
    encode,
    most,
    sum_of,
    unpacked,
)
from fedroam.deploy.pacing import Pace
from fedroam.deploy.server.journal import Journal
from fedroam.deploy.site.file import Site, SiteNode
from fedroam.deploy.site.identity import Callers, Credentials
from fedroam.deploy.transfers import ATTENDED, Door, given, joined
from fedroam.errors import FedroamError, MissingExtraError, one_line

try:
    import grpc
    import grpc.aio
except ImportError:
    raise MissingExtraError("learning over a network", "deploy") from None

import numpy as np

T = TypeVar("T")
Answer = dict[str, np.ndarray]  # arrays, by name

LOOK = 1.0  # seconds between two looks at whether waiting is vain
# Seconds that a node has been gone when it is told: connections break, and are there again at once.
NOTICED = 5.0
NAMED = 5  # nodes in a line about several
TRIES = 3  # of an answer whose check sum does not match


@dataclass
class Asked:
    """An order on its way, and what has come of its answer.

    expected: the arrays of an answer. check: raises `Refused` where their values cannot be. models: by SHA-256, for a
    node that lacks them. about: what the journal knows it by, where that is not all of it; kept: whether the journal
    has its answer at all. rate: bytes in a second at which its arrays are sent, None for as fast as can be. lost: why
    there is no answer, where that is known; broke: the error in which the node's own work has ended, if it has.
    """

    order: Order
    body: bytes
    expected: Expected
    check: Callable[[Mapping[str, np.ndarray]], None]
    models: Mapping[str, bytes] = field(default_factory=dict)
    about: str = ""
    kept: bool = True
    rate: float | None = None
    lost: str = ""
    broke: str = ""
    answer: asyncio.Future[Answer | None] | None = None
    received: bytearray = field(default_factory=bytearray)
    promised: tuple[int, str] = (0, "")  # size and SHA-256 of the answer that is arriving
    tries: int = 0
    taking: bool = False

    @property
    def digest(self) -> str:
        """By which, with node and round, its answer is known again."""
        return self.about or digest_of(self.order)


@dataclass
class Place:
    """The server's view of one node: its number, the call by which it attends (None: gone), when it left (seconds of
    the loop's clock, minus infinity where it never came, or may not come), its order. host: where it calls from; port:
    where it listens. turn: whoever has it asks the node for something, one after the other."""

    node: str
    number: int
    host: str = ""
    port: int = 0
    pushes: asyncio.Queue[Push] | None = None
    left: float = -float("inf")
    asked: Asked | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class Hub:
    """The service that the nodes of a site dial.

    Nodes go by the number of the holder that each is (`Node.number`). hellos: how each must introduce itself. tell: is
    told, a line each, what went wrong on the way. journal: of what arrives; without one a process that is killed loses
    what no checkpoint holds. hurry: set from outside, it ends the waiting for clients that have gone. round_began: when
    the round began (s, monotonic); spent: seconds that nodes have been waited for in it, by kind of work.
    """

    def __init__(
        self,
        folder: Path,
        credentials: Credentials,
        hellos: Mapping[int, Hello],
        tell: Callable[[str], None],
        journal: Journal | None = None,
    ) -> None:
        self._journal = journal
        self.hellos = hellos
        self.tell, self._credentials = tell, credentials
        self.callers = Callers(folder, "server", tell)
        self._door = Door(self.callers, tell)
        self._places = {i: Place(node.name, i) for i, node in self._site.holders.items()}
        self._session = secrets.token_hex(8)  # orders of an earlier process are not this one's
        self._numbered = 0
        self._serving = Loop("hub")
        self._loop = self._serving.events
        self._server: Any = None
        self._arrivals = asyncio.Event()
        self._pace = Pace()
        self._round = 0
        self._patience: float = 0.0
        self._still: Callable[[], None] = lambda: None
        self._lost: set[str] = set()  # what was told in this round of answers that count as not arrived
        self.hurry = threading.Event()
        self.round_began = time.monotonic()
        self.spent: dict[str, float] = defaultdict(float)

    @property
    def _site(self) -> Site:
        return self.callers.site

    # --- for the thread that plays rounds ---------------------------------------------------------------------

    def start(self, address: str) -> int:
        """Serve at host:port (port 0: a free one); the port. Raises InputError where that cannot be, FedroamError
        where it cannot be now."""
        return self._serving.now(self._start(address))

    def wait(self, patience: float, still: Callable[[], None] = lambda: None) -> bool:
        """Wait until all nodes attend that may, for so many seconds at most; whether all nodes do. `still()` is called
        now and then, and may raise what makes waiting vain. Whenever all clients have gone it is waited for one
        likewise."""
        self._patience, self._still = patience, still
        missing = self.missing()  # once: whoever comes meanwhile is neither waited for nor barred
        if barred := sorted(set(missing) - set(self._may_come(missing))):
            names = ", ".join(self.name(i) for i in barred[:NAMED]) + (", ..." if len(barred) > NAMED else "")
            self.tell(f"not waited for, as revoked or without a certificate: {names}")
        end = time.monotonic() + patience
        while self._awaited() and (left := end - time.monotonic()) > 0:
            still()
            self._serving.now(self._arrival(min(left, LOOK)))
        return not self.missing()

    def missing(self) -> list[int]:
        """The nodes that do not attend now."""
        return [i for i, place in sorted(self._places.items()) if place.pushes is None]

    def _awaited(self) -> list[int]:
        """The nodes that do not attend now, and may come."""
        return self._may_come(self.missing())

    def _may_come(self, nodes: Sequence[int]) -> list[int]:
        """Those of them that may come, as the site says now; all where nobody may, as before any has enrolled."""
        holders = self.callers.site_now().holders.items()
        may = {i for i, node in holders if node.serial and not node.revoked}
        return [i for i in nodes if i in may or not may]

    def begin_round(self, round: int) -> None:
        """What checkpoints hold need not be kept any more; from then on the round is timed.

        Where all clients that have ever come are gone, it waits for one: without a network, as when a switch is off,
        rounds would be over in no time, and nothing learnt in them.
        """
        self._lost = set()
        if self._journal is not None:
            self._journal.begin_round(round)
        if self._deserted():
            self.tell(f"round {round}: no client is there: waits for one, {self._patience:g} s at most")
            end = time.monotonic() + self._patience
            while self._deserted() and not self.hurry.is_set() and (left := end - time.monotonic()) > 0:
                self._still()
                self._serving.now(self._arrival(min(left, LOOK)))
        self._round, self.round_began, self.spent = round, time.monotonic(), defaultdict(float)

    def _deserted(self) -> bool:
        """Whether clients have come, and all have been gone for longer than they may be away."""
        left = [place.left for i, place in self._places.items() if i >= 0 and place.pushes is None]
        clients, since = sum(i >= 0 for i in self._places), self._loop.time() - self._site.limits.away
        return len(left) == clients and -float("inf") < max(left) <= since

    def away(self, round: int) -> np.ndarray:
        """The nodes (int64) that have not attended for longer than they may be away, when the round began."""
        since = self._loop.time() - self._site.limits.away
        found = np.array([i for i in self.missing() if self._places[i].left <= since], np.int64)
        return found if self._journal is None else self._journal.away(round, found)

    def ask(self, asked: Mapping[int, Asked]) -> dict[int, Answer | None]:
        """Ask nodes, all at once, and wait for each one's answer; None where none is taken."""
        return self._serving.now(self.answers(asked))

    def asking(self, asked: Mapping[int, Asked]) -> Iterator[tuple[int, Answer | None]]:
        """Ask nodes, all at once; each one's answer as it comes."""
        began = time.monotonic()
        found = {self.beside(self._ask(self._places[i], each)): i for i, each in asked.items()}
        for each in as_completed(found):
            yield found[each], each.result()
        self._waited(asked, began)

    def beside(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin something that asks nodes, while the round goes on; what will come of it."""
        return self._serving.begin(work)

    async def answers(self, asked: Mapping[int, Asked], *, aside: bool = False) -> dict[int, Answer | None]:
        """As `ask`, within the loop. aside: the round goes on meanwhile, so that this takes none of its time."""
        began = time.monotonic()
        found = await asyncio.gather(*(self._ask(self._places[i], each) for i, each in asked.items()))
        if not aside:
            self._waited(asked, began)
        return dict(zip(asked, found, strict=True))

    def _waited(self, asked: Mapping[int, Asked], began: float) -> None:
        """The round has waited since then (s, monotonic) for answers."""
        for work in {each.order.work for each in asked.values()}:
            self.spent[work] += time.monotonic() - began

    def open_again(self, round: int) -> None:
        """A round ends the run before anything of it has counted: whoever goes on with the run asks anew for what was
        lost in it."""
        if self._journal is not None:
            self._journal.open_again(round)

    def attending(self) -> list[int]:
        """The clients that attend now."""
        return [i for i, place in sorted(self._places.items()) if i >= 0 and place.pushes is not None]

    def standing(self) -> Counter[str]:
        """How many nodes are away, idle, or at work of which kind."""
        return Counter(
            "away" if place.pushes is None else "idle" if place.asked is None else place.asked.order.work
            for place in self._places.values()
        )

    def name(self, number: int) -> str:
        """What a node is called."""
        return self._places[number].node

    def listening(self) -> frozenset[int]:
        """The nodes that others call."""
        return frozenset(number for number, node in self._site.holders.items() if node.listens)

    def secret(self, number: int, round: int) -> str:
        """What the server shares with a node in a round (hex): the same for each process of the server, and known to
        nobody who has not its key."""
        what = f"receipts of {self.hellos[number].digest}, node {number}, round {round}"
        return hmac.new(self._credentials.key, what.encode(), "sha256").hexdigest()

    def found(self, number: int) -> tuple[str, int]:
        """Host and port where others find a node that listens; port 0 where it has not said so. Who listens everywhere
        is found where it calls from."""
        place, stated = self._places[number], self._site.holders[number].address
        host, _, port = stated.rpartition(":")
        return place.host if everywhere(host) else host, int(port or 0) or place.port

    def stop(self, *, done: bool) -> None:
        """End all calls; done: the nodes may go home."""
        self._serving.stop(partial(self._stop, done))
        if self._journal is not None:
            self._journal.close(done=done)

    # --- within the loop --------------------------------------------------------------------------------------

    async def _start(self, address: str) -> int:
        own = self._credentials
        methods = {
            "attend": grpc.stream_stream_rpc_method_handler(self._attend),
            "fetch": grpc.stream_stream_rpc_method_handler(self._fetch),
            "put": grpc.stream_stream_rpc_method_handler(self._put),
        }
        self._server = grpc.aio.server(
            options=listening_options(len(self._places), self._site.limits.chunk),
            maximum_concurrent_rpcs=4 * len(self._places) + 16,
        )
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SITE_SERVICE, methods),))
        try:
            port: int = self._server.add_secure_port(address, server_credentials(own))
        except RuntimeError as error:
            otherwise = f"; --address 0.0.0.0:{address.rpartition(':')[2]} listens at all that it has"
            raise not_open(address, f"cannot be served at ({error})", otherwise) from None
        await self._server.start()
        host = address.rpartition(":")[0]
        if here := unreachable(host.strip("[]")):
            self.tell(
                f"{host} is {here} on this machine, where no other finds it: --address 0.0.0.0:{port} listens for all"
            )
        return port

    async def _stop(self, done: bool) -> None:
        for place in self._places.values():
            if place.pushes is not None:
                place.pushes.put_nowait(Push(over="done" if done else ""))
        if self._server is not None:
            await self._server.stop(grace=1.0)

    async def _arrival(self, patience: float) -> None:
        """Wait until anybody comes."""
        self._arrivals.clear()
        if self.missing():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._arrivals.wait(), patience)

    async def _ask(self, place: Place, asked: Asked) -> Answer | None:
        """The answer of a node, once it has answered whoever asked before; None where none is taken."""
        async with place.turn:
            return await self._ask_in_turn(place, asked)

    async def _ask_in_turn(self, place: Place, asked: Asked) -> Answer | None:
        limits, now = self._site.limits, self._loop.time
        facts = {
            "order": self._name(),
            "size": len(asked.body),
            "sha256": sum_of(asked.body),
            "sizes": [len(asked.models[name]) for name in asked.order.models],
        }
        asked.order = asked.order.model_copy(update=facts)
        known, answer = self._known_before(place, asked)
        if known:
            return answer
        asked.answer = self._loop.create_future()
        place.asked, end = asked, now() + limits.answer + asked.order.lasts
        missed = False  # as was told
        try:
            if place.pushes is not None:
                place.pushes.put_nowait(self._pushed(asked.order))
            while not asked.answer.done():
                gone = place.pushes is None
                until = min(end, place.left + limits.away) if gone else end
                if now() >= until:
                    why = "has gone" if gone else f"has not answered within {limits.answer:g} s"
                    self._lose(place, asked, why)
                    break
                was, missed = missed, gone and now() >= place.left + NOTICED
                if missed and not was:
                    left = f"{until - now():.3g} s at most"
                    self.tell(f"round {asked.order.round}: {place.node} has gone: waits for it, {left}")
                elif was and not missed:
                    self.tell(f"round {asked.order.round}: {place.node} is back")
                elif gone and not missed:
                    until = min(until, place.left + NOTICED)
                place.changed.clear()
                waking = asyncio.ensure_future(place.changed.wait())
                either: set[asyncio.Future[Any]] = {asked.answer, waking}
                await asyncio.wait(either, timeout=until - now(), return_when=asyncio.FIRST_COMPLETED)
                waking.cancel()
            found = asked.answer.result()
            if found is None and self._journal is not None and asked.kept:
                await asyncio.to_thread(self._journal.lose, place.number, asked.order.round, asked.digest)
            return found
        finally:
            place.asked = None

    def _pushed(self, order: Order) -> Push:
        """An order as a node is told of it: one that is asked late in a round, and for the first time, was ready when
        the round began."""
        ago = time.monotonic() - self.round_began if order.round == self._round else 0.0
        return Push(order=order, ago=ago)

    def _name(self) -> str:
        """What the next order is called."""
        if self._journal is not None:
            return self._journal.order()
        self._numbered += 1
        return f"{self._session}-{self._numbered}"

    def _known_before(self, place: Place, asked: Asked) -> tuple[bool, Answer | None]:
        """Whether an earlier process of the server knew what became of an order, and its answer."""
        if self._journal is None or not asked.kept:
            return False, None
        known, body = self._journal.found(place.number, asked.order.round, asked.digest)
        if body is None:
            return known, None
        try:
            arrays = unpacked(body, asked.expected)
            asked.check(arrays)
        except Refused:  # of a version that asked for something else
            return False, None
        return True, arrays

    def _lose(self, place: Place, asked: Asked, why: str) -> None:
        """An order gets no answer."""
        assert asked.answer is not None
        if not asked.answer.done():
            what = asked.order.work.replace("_", " ")
            line = f"round {asked.order.round}: {place.node} {why}: its answer ({what}) counts as not arrived"
            # A peer is asked the same several times in a round, as models go to and fro while others train.
            if line not in self._lost:
                self._lost.add(line)
                self.tell(line)
            asked.lost = why
            asked.answer.set_result(None)

    # --- the calls of nodes -----------------------------------------------------------------------------------

    async def _attend(self, requests: Any, context: Any) -> None:
        await self._door.answer(context, self._push, "calls to attend", ATTENDED)

    async def _push(self, request: bytes, context: Any) -> AsyncGenerator[bytes]:
        """What a node that attends is told."""
        node, hello, _ = await self._door.read(request, Hello, context)
        wanted = self.hellos[node.number]
        told, ours = hello.model_dump(), wanted.model_dump()
        for what in ("protocol", "digest", "layout", "samples"):
            if told[what] != ours[what]:
                said = _DIFFERS[what].format(theirs=hello.protocol, ours=wanted.protocol)
                self._door.told.once(f"{node.name}: refused: {said}")
                await context.abort(grpc.StatusCode.FAILED_PRECONDITION, said)
        if hello.version != wanted.version:
            theirs = one_line(hello.version)[:60]
            self._door.told.once(
                f"{node.name}: computes with {theirs}, the server with {wanted.version}: numbers may "
                "differ in their last digits"
            )
        await context.send_initial_metadata((LET_IN,))
        place, own = self._places[node.number], asyncio.Queue[Push]()
        place.host, place.port = _host(context.peer()), hello.port
        if place.pushes is not None:
            self._door.told.once(f"{node.name}: a second process attends; it takes the place of the first")
            place.pushes.put_nowait(Push(over="replaced"))
        place.pushes, place.left = own, 0.0
        if place.asked is not None:
            own.put_nowait(self._pushed(place.asked.order))
        self._arrivals.set()
        place.changed.set()
        try:
            while True:
                push = await own.get()
                if self.callers.problem(context) is not None:  # revoked, or its time is up
                    place.left = -float("inf")
                    await self._door.known(context)
                yield encode(push)
                if push.order is None:
                    return
        finally:
            if place.pushes is own:
                place.pushes = None
                place.left = min(place.left, 0.0) or self._loop.time()
                place.changed.set()

    async def _fetch(self, requests: Any, context: Any) -> None:
        await self._door.answer(context, self._give)

    async def _put(self, requests: Any, context: Any) -> None:
        await self._door.answer(context, self._take)

    async def _give(self, request: bytes, context: Any) -> AsyncGenerator[bytes]:
        """The answers to a wish."""
        node, wish, _ = await self._door.read(request, Fetch, context)
        asked = await self._order(node, wish.order, context)
        if asked.rate is not None:
            self._pace.set(node.number, asked.rate)
        chunk = self._site.limits.chunk

        def most() -> int:
            return chunk if asked.rate is None else self._pace.piece(node.number, chunk)

        async def piece(offset: int, size: int) -> memoryview:
            await self._door.known(context)
            found = await self._order(node, wish.order, context)
            body = found.models.get(wish.model) if wish.model else found.body
            if body is None:
                await context.abort(grpc.StatusCode.NOT_FOUND, "no such model goes with this order")
                raise AssertionError  # `abort` has raised
            return memoryview(body)[offset : offset + size]

        def hold(size: int) -> float:
            return 0.0 if asked.rate is None else self._pace.wait(node.number, size, self._loop.time())

        async for each in given(wish.offset, wish.size, most, piece, hold):
            yield each

    async def _take(self, request: bytes, context: Any) -> AsyncGenerator[bytes]:
        """The answer to a piece of an answer."""
        yield encode(await self._taken(*await self._door.read(request, Put, context)))

    async def _taken(self, node: SiteNode, put: Put, piece: memoryview) -> Taken:
        asked, place = self._asked(node, put.order), self._places[node.number]
        if asked is None or asked.taking:
            if not put.offset:  # what was under way behind its first piece needs no line
                self._door.told.once(f"{node.name}: an answer that nobody waits for is left aside")
            return Taken(over=True)
        if put.failed:
            failed = one_line(put.failed)
            asked.broke = failed if put.broke else ""
            self._lose(place, asked, f"could not do its work ({failed})")
            return Taken(over=True)
        limit = most(asked.expected)
        if put.size > limit:
            self._lose(place, asked, f"sends {put.size} bytes, allowed are {limit}")
            return Taken(over=True)
        if asked.promised != (put.size, put.sha256):
            asked.promised, asked.received = (put.size, put.sha256), bytearray()
        joined(asked.received, put.offset, piece, put.size)
        if len(asked.received) < put.size:
            return Taken(received=len(asked.received))
        # Whatever becomes of this call: the answer is here.
        return await asyncio.shield(asyncio.ensure_future(self._judge(place, asked)))

    async def _judge(self, place: Place, asked: Asked) -> Taken:
        """An answer has arrived in full."""
        asked.taking = True
        body, promised = bytes(asked.received), asked.promised[1]
        try:
            if await asyncio.to_thread(sum_of, body) != promised:
                asked.tries += 1
                asked.received = bytearray()
                if asked.tries < TRIES:
                    self.tell(f"{place.node}: an answer arrived damaged; it is asked for again")
                    asked.taking = False
                    return Taken()
                raise Refused(f"sent what its check sum does not fit, {TRIES} times")
            arrays = await asyncio.to_thread(unpacked, body, asked.expected)
            asked.check(arrays)
        except Refused as error:
            self._lose(place, asked, f"sent {error}")
            return Taken(over=True)
        assert asked.answer is not None
        try:  # before it is acknowledged: whoever sent it lets go of it then
            if self._journal is not None and asked.kept:
                await asyncio.to_thread(
                    self._journal.keep, place.number, asked.order.round, asked.digest, body
                )
        except FedroamError as error:
            if not asked.answer.done():
                asked.answer.set_exception(error)
            return Taken(over=True)
        if not asked.answer.done():
            asked.answer.set_result(arrays)
        return Taken(received=len(body), over=True)

    def _asked(self, node: SiteNode, order: str) -> Asked | None:
        """The order that a node is working on, if it has this name: nobody sees or answers another's."""
        asked = self._places[node.number].asked
        if asked is None or asked.order.order != order or (asked.answer is not None and asked.answer.done()):
            return None
        return asked

    async def _order(self, node: SiteNode, order: str, context: Any) -> Asked:
        """The same. The call of whoever names another one ends here."""
        asked = self._asked(node, order)
        if asked is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "this order is over")
            raise AssertionError  # `abort` has raised
        return asked


def _host(peer: str) -> str:
    """The address of the other end of a call, which gRPC names as ipv4:1.2.3.4:5 or ipv6:[::1]:5, with escapes."""
    return unquote(peer).partition(":")[2].rpartition(":")[0]


_DIFFERS = {
    "protocol": "it speaks protocol {theirs}, the server {ours}",
    "digest": "it has another experiment",
    "layout": "its network has another layout",
    "samples": "it holds other samples than the experiment deals to it",
}
