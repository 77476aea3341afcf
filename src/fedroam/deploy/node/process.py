"""The process of a client, a peer or an access point: it attends the server, and does what it is asked to do with its
own samples, and with models."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedroam.data.cache import forget
from fedroam.deploy.connections import LET_IN, SITE_SERVICE, dialled
from fedroam.deploy.messages import (
    Fetch,
    Hello,
    Order,
    Push,
    Put,
    Refused,
    Work,
    decode,
    digest_of,
    encode,
    most,
    packed,
    session_of,
    sum_of,
    unpacked,
)
from fedroam.deploy.node.holding import Holding
from fedroam.deploy.node.looking import Search, listener, look
from fedroam.deploy.node.memory import FILE as MEMORY
from fedroam.deploy.node.memory import Memory
from fedroam.deploy.node.neighbours import EVERYWHERE, Listener, Neighbours
from fedroam.deploy.node.share import NO_SAMPLES, Share, hello_of
from fedroam.deploy.site.experiment import experiment_of
from fedroam.deploy.site.file import FILE, NODES, Site, SiteNode, read_site
from fedroam.deploy.site.identity import Callers, Credentials, credentials, validity
from fedroam.deploy.transfers import Talk, brought, fetched
from fedroam.devices.meters import What
from fedroam.errors import FedroamError, InputError, MissingExtraError, one_line, own_line
from fedroam.federation import SERVER
from fedroam.scene import Scene, prepare

try:
    import grpc
except ImportError:
    raise MissingExtraError("learning over a network", "deploy") from None

import numpy as np

SHORT, LONG = 0.1, 5.0  # seconds between two tries to reach the server: the first ones, and at most
MISSED = 10.0  # seconds without a server after which a node says so, once
FINAL = (
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.INVALID_ARGUMENT,
)


_DOING: dict[Work, What] = {"train": "training", "carry": "communication"}


@dataclass
class Node:
    """A client, peer or access point of a site.

    share: its samples; None at an access point. holding: its models. hello: how it introduces itself. tell: is told, a
    line each, what happens. during: logs what it does in a round, while it does it. stopping: set from outside, it ends
    the node. answer: that of the last order, by what was asked, kept until the server has it; sent: by order, how much
    of it the server has; arriving: what has come of the arrays of an order, or of one of its models. find: where the
    server may be, beside what the site says. search: where others may be, for a site that looks for them; announce:
    tells the local network of a door, while it is open.
    """

    site: Site
    name: str
    own: Credentials
    callers: Callers
    share: Share | None
    holding: Holding
    hello: Hello
    tell: Callable[[str], None]
    during: Callable[[What, int], AbstractContextManager[None]] = lambda what, round: contextlib.nullcontext()
    stopping: threading.Event = field(default_factory=threading.Event)
    answer: tuple[str, bytes] = ("", b"")
    sent: tuple[str, int] = ("", 0)
    arriving: tuple[tuple[str, str], bytearray] = field(default_factory=lambda: (("", ""), bytearray()))
    neighbours: Neighbours | None = None
    find: Callable[[], Sequence[str]] = tuple
    search: Search = lambda nodes: {}
    announce: Callable[[str, int], AbstractContextManager[None]] = lambda address, port: (
        contextlib.nullcontext()
    )
    _channel: Any = None
    _done: bool = False
    _tries: int = 0

    def run(self) -> None:
        """Attend until the server says that all is done. Raises FedroamError where it refuses, or cannot be found for
        as long as the site's limits say, InputError where the node cannot listen."""
        node = self.site.node(self.name)
        assert node is not None  # whose credentials these are
        door = Listener(self.own, self.callers, self.holding, self.tell)
        self.neighbours = Neighbours(self.own, self.callers, self.holding, self.tell, self.stopping)
        with contextlib.ExitStack() as open_door:
            open_door.callback(self.neighbours.close)
            open_door.callback(door.stop)
            if node.listens:
                port = self._listen(door, node.address)
                self.hello = self.hello.model_copy(update={"port": port})
                open_door.enter_context(self.announce(node.address or EVERYWHERE, port))
            self._live()

    def on_the_network(self, interfaces: Sequence[str] | None = None, patience: float | None = None) -> None:
        """From now on look for others on the local network, by these addresses of this machine (default: all), and tell
        it of the node's own door. patience: seconds that others have to answer (default: `discovery.PATIENCE`)."""
        from fedroam.deploy.discovery import PATIENCE, announced, heard

        wait = PATIENCE if patience is None else patience

        def search(nodes: Sequence[SiteNode]) -> dict[int, Sequence[str]]:
            found = heard(self.callers.site_now(), nodes, interfaces, wait)
            return {node.number: some for node, some in zip(nodes, found, strict=True)}

        def announce(address: str, port: int) -> AbstractContextManager[None]:
            return announced(self.site, address, port, self.tell, interfaces, self.site.node(self.name))

        self.search, self.announce = search, announce

    def _listen(self, door: Listener, address: str) -> int:
        """Open the door: where an earlier process did, so that others find the node again; the port."""
        memory, port = self.holding.memory, 0
        before = memory.said.get("port", "") if memory is not None else ""
        if before and (not address or address.endswith(":0")):
            with contextlib.suppress(InputError):  # somebody else may have it by now
                port = door.start(f"{(address or EVERYWHERE).rpartition(':')[0]}:{before}")
        port = port or door.start(address)
        if memory is not None:
            memory.say("port", str(port))
        return port

    def _live(self) -> None:
        last, pause, missed = time.monotonic(), SHORT, False
        while not self.stopping.is_set():
            let_in = False
            try:
                with self._connected() as channel:
                    for push in self._attend(channel):
                        if missed:
                            self.tell("the server has answered again")
                        last, pause, missed, let_in = time.monotonic(), SHORT, False, True
                        if push.over:
                            if push.over == "replaced":
                                raise FedroamError(f"{self.name}: another process attends in its place")
                            self._done = True
                            return
                        if push.order is not None:
                            self._do(channel, push.order, time.monotonic() - push.ago)
                            last = time.monotonic()
            except grpc.RpcError as error:
                if self.stopping.is_set():
                    return
                if error.code() in FINAL:
                    raise FedroamError(f"the server refuses {self.name}: {error.details()}") from None
                if let_in:  # until now it was there, however long it has asked for nothing
                    last = time.monotonic()
                if time.monotonic() - last > self.site.limits.retry:
                    raise FedroamError(
                        f"no server at {self.site.address} for {self.site.limits.retry:g} s: {error.details()}"
                    ) from None
                if not missed and time.monotonic() - last > MISSED:
                    missed = True
                    self.tell(
                        one_line(
                            f"nobody at {self.site.address} takes it in (no server there, or one of "
                            f"another site); looks on, for {self.site.limits.retry:g} s in all: {error.details()}"
                        )
                    )
            self._tries += 1
            self.stopping.wait(pause)
            pause = min(2 * pause, LONG)

    def close(self) -> None:
        """Give back workers and memory."""
        if self.share is not None:
            self.share.close()
        if self.holding.memory is not None:
            self.holding.memory.close(done=self._done)

    def stop(self) -> None:
        """End the node, from another thread."""
        self.stopping.set()
        if self._channel is not None:
            self._channel.close()

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Any]:
        """A channel to the server."""
        server = self.site.server
        if server.revoked:
            raise FedroamError(f"{server.name}: the server's certificate is revoked")
        with dialled(self.site, self.own, server, self._address()) as channel:
            self._channel = channel
            yield channel

    def _address(self) -> str:
        """Where to look for the server this time: what the site says, and at every other try what was found, in turn.

        Nobody who tells of addresses that are wrong keeps a node from the one that its site says.
        """
        turn, other = divmod(self._tries, 2)
        found = self.find() if other else ()
        return found[turn % len(found)] if found else self.site.address

    def _attend(self, channel: Any) -> Iterator[Push]:
        """What the server pushes; first an empty push of our own, once it has let the node in."""
        call = channel.unary_stream(f"/{SITE_SERVICE}/attend")(encode(self.hello))
        try:
            if LET_IN in call.initial_metadata():
                yield Push()
            for message in call:
                yield self._read(message, Push)
        finally:
            call.cancel()

    def _read(self, message: bytes, kind: type[Any]) -> Any:
        try:
            return decode(message, kind)[0]
        except Refused as error:
            raise FedroamError(f"the server sent {error}") from None

    def _do(self, channel: Any, order: Order, since: float) -> None:
        """Fetch, compute and answer; an answer that was computed before a connection broke, or the server was killed,
        is sent again. since: when the round began, s, monotonic."""
        self.holding.pace.begin(order.round, since)
        asked = f"{session_of(order)} {digest_of(order)}"
        if self.answer[0] != asked:
            try:
                with self.during("communication", order.round):
                    arrays = self._fetch(channel, order)
                    if any(not job.model for job in order.jobs):  # it has come with the order
                        self.holding.pace.done(time.monotonic())
                with self.during(_DOING.get(order.work, "other"), order.round):
                    answer = packed(self._work(order, arrays))
                    # Others get models of who listens while it gets theirs: that does not keep it from sending.
                    if order.work == "train" or (order.work == "carry" and self.holding.memory is None):
                        self.stopping.wait(self.holding.pace.done(time.monotonic(), order.lasts))
                self.answer = (asked, answer)
            except grpc.RpcError as error:
                if error.code() == grpc.StatusCode.NOT_FOUND:  # over, while it was under way
                    return
                raise
            except Exception as error:
                said = one_line(f"{type(error).__name__}: {error}{own_line(error)}")[:500]
                self.tell(f"round {order.round}: {order.work}: {said}")
                with self._talk(channel, "put") as talk:
                    broke = not isinstance(error, Refused)
                    talk.ask(encode(Put(order=order.order, failed=said, broke=broke)))
                    talk.answer()
                return
        with self.during("communication", order.round):
            self._put(channel, order)

    def _work(self, order: Order, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Do what an order asks, with samples or with models; the arrays of the answer."""
        if order.work == "open":
            return self.holding.open(order, arrays)
        if order.work == "say":
            return self.holding.say(order, arrays)
        if order.work == "aggregate":
            return self.holding.aggregate(order, arrays)
        if order.work in ("carry", "look"):
            assert self.neighbours is not None
            if order.work == "look":
                return look(self.neighbours, order, arrays, self.search)
            return self.neighbours.carry(order, arrays)
        if self.share is None:
            raise Refused(f"{order.work} at {self.name}, which holds no samples")
        for k, job in enumerate(order.jobs):
            if job.model:
                arrays |= {f"{k}.{name}": array for name, array in self.holding.arrays(job.model).items()}
        found = self.share.work(order, arrays)
        for k, job in enumerate(order.jobs):
            if job.model:
                body = packed({name: found[f"{k}.{name}"] for name in ("parameters", "buffers")})
                self.holding.keep(sum_of(body), body, f"learnt {k}")
        return found

    def _fetch(self, channel: Any, order: Order) -> dict[str, np.ndarray]:
        """The arrays of an order, and those of its models that the node lacks."""
        self.holding.begin(order)
        if order.work in ("open", "carry", "say", "aggregate", "look"):
            expected = self.holding.expected(order)
        elif self.share is None:
            raise Refused(f"{order.work} at {self.name}, which holds no samples")
        else:
            expected = self.share.expected(order)
        if len(order.sizes) != len(order.models):
            raise Refused(f"{len(order.models)} models and the sizes of {len(order.sizes)}")
        sizes = dict(zip(order.models, order.sizes, strict=True))
        for model in self.holding.lacks(order.models):
            if sizes[model] > self.holding.largest:
                raise Refused(f"a model of {sizes[model]} bytes, allowed are {self.holding.largest}")
            body = self._arrived(channel, order, model, sizes[model], model)
            self.holding.keep(model, body, "given")
        limit = most(expected)
        if order.size > limit:
            raise Refused(f"an order of {order.size} bytes, allowed are {limit}")
        return unpacked(self._arrived(channel, order, "", order.size, order.sha256), expected)

    def _arrived(self, channel: Any, order: Order, model: str, size: int, told: str) -> bytes:
        """A transfer from the server; one that broke goes on where it stopped."""
        if self.arriving[0] != (order.order, model):
            self.arriving = ((order.order, model), bytearray())
        body = self.arriving[1]

        def wish(offset: int, some: int) -> Fetch:
            return Fetch(order=order.order, offset=offset, size=some, model=model)

        with self._talk(channel, "fetch") as talk:
            for _ in fetched(talk, wish, body, size, self.site.limits.chunk):
                pass
        self.arriving = (("", ""), bytearray())
        if sum_of(bytes(body)) != told:
            raise Refused("arrays that their check sum does not fit")
        return bytes(body)

    def _put(self, channel: Any, order: Order) -> None:
        body, pace = self.answer[1], self.holding.pace
        told = sum_of(body)
        pace.set(SERVER, order.rate or math.inf)
        if self.sent[0] != order.order:
            self.sent = (order.order, 0)

        def put(offset: int) -> Put:
            return Put(order=order.order, offset=offset, size=len(body), sha256=told)

        def chunk() -> int:
            return pace.piece(SERVER, self.site.limits.chunk)

        def hold(size: int) -> None:
            self.stopping.wait(pace.wait(SERVER, size, time.monotonic()))

        while True:
            with self._talk(channel, "put") as talk:
                try:
                    for taken, _ in brought(talk, put, body, self.sent[1], chunk, hold):
                        self.sent = (order.order, min(taken.received, len(body)))
                        if taken.over or self.stopping.is_set():
                            return
                except Refused as error:
                    raise FedroamError(f"the server sent {error}") from None

    def _talk(self, channel: Any, method: str) -> Talk:
        return Talk(channel.stream_stream(f"/{SITE_SERVICE}/{method}"))


def node_of(folder: Path, name: str, tell: Callable[[str], None], use: Sequence[str] = ()) -> Node:
    """The node of a name, its samples dealt; use: files with the user's own parts.

    Raises InputError where the site has no such node, or it is the server.
    """
    site, _ = _known(folder, name)
    scene = prepare(experiment_of(folder, site, use))
    scene.learner.close()
    found = node_in(scene, folder, name, tell)
    del scene
    forget()  # what others hold
    return found


def node_in(scene: Scene, folder: Path, name: str, tell: Callable[[str], None]) -> Node:
    """The node of a name, given what the experiment deals to all, of which it keeps its own share.

    Raises InputError where the site has no such node, or it is the server.
    """
    site, own = _known(folder, name)
    node = site.node(name)
    assert node is not None  # `_known` has seen to it
    ends = validity(own, name)
    if ends is not None:
        tell(ends)
    holding = Holding.of(scene, node.number)
    share = None if node.client is None else Share.of(scene, node.client)
    if node.listens:
        owner = f"{name} of site {site.name} in run {site.digest}"
        memory = Memory(folder / NODES / name / MEMORY, owner, tell)
        holding.remember(memory)
        if holding.grants:
            tell(f"round {holding.round}: goes on where an earlier process of it was broken off")
    hello = hello_of(scene.experiment, holding.layout, NO_SAMPLES) if share is None else share.hello
    found = Node(site, name, own, Callers(folder, node.role, tell), share, holding, hello, tell)
    if site.movement.by == "discovery":
        found.on_the_network()
    radios = any(each.bssid for each in site.nodes)
    if site.movement.by == "signal" and radios and share is not None and listener() is None:
        tell("there is no iw here (apt install iw), so that no radio of an access point is heard")
    return found


def _known(folder: Path, name: str) -> tuple[Site, Credentials]:
    """The site, and what a node other than the server shows and trusts. Raises InputError."""
    site = read_site(folder / FILE)
    own = credentials(folder, site, name)
    if name == site.server.name:
        raise InputError(
            f"{name}: is the server of the site: fedroam deploy --site {folder / FILE} starts it"
        )
    return site, own
