"""Transfers of which several pieces are under way at once, so that a long way takes its time once, not once a piece.

A transfer, or what is left of one that broke off, is one call: requests go out on it, and answers come back in their
order. Who fetches wishes for so many bytes from one on, and gets them in one piece or several; who brings sends pieces,
and hears how much has arrived. In both, who asks decides how much is under way: what gets through in two seconds, by
what has got through so far. So a fast link is not idle while an answer is on its long way, and a slow one has no more
to carry than it can in that time.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, NamedTuple, Self

from fedroam.deploy.messages import H, Header, Refused, Taken, decode, encode
from fedroam.deploy.site.file import SiteNode
from fedroam.deploy.site.identity import Callers
from fedroam.deploy.telling import Told
from fedroam.errors import MissingExtraError

try:
    import grpc
    import grpc.aio
except ImportError:
    raise MissingExtraError("learning over a network", "deploy") from None

CALL = 30.0  # seconds that a single message may take
CALLS = 8  # open calls of a caller: it makes one, and one more for each that broke without a word
ATTENDED = 2  # calls by which a node attends: the later one takes the place of the earlier one
AHEAD = 2.0  # seconds of a link for which there is something under way
FIRST = 32_768  # bytes of a piece at most before anything is known of the link
SMALLEST = 4096  # bytes of a piece at least, so that headers stay few
FEWEST = 2  # pieces under way at least: one goes while the answer to the other comes
MOST = 2 * 1024 * 1024  # bytes under way at most, on whatever link

# --- who asks ---------------------------------------------------------------------------------------------------------


class Talk:
    """A call on which requests go out and answers come back in their order; it begins with the first request.

    method: the call of a channel, of a stream of requests and one of answers. patience: seconds for which an answer is
    waited for before the call is cancelled. Used by one thread.
    """

    def __init__(self, method: Any, patience: float = CALL) -> None:
        self._method, self._patience = method, patience
        self._requests: SimpleQueue[bytes | None] = SimpleQueue()
        self._call: Any = None
        self._due = math.inf  # when the answer that is waited for must be there, s
        self._over = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._requests.put(None)  # else gRPC's thread waits for the next one for ever
        if self._call is not None:
            self._call.cancel()

    def ask(self, request: bytes) -> None:
        """Send a request."""
        if self._call is None:
            self._call = self._method(iter(self._requests.get, None))
            threading.Thread(target=self._watch, name="watch", daemon=True).start()
        self._requests.put(request)

    def answer(self) -> bytes:
        """The next answer. Raises grpc.RpcError where the call has broken off, or is refused."""
        self._due = time.monotonic() + self._patience
        try:
            found: bytes = next(self._call)
        except StopIteration:
            raise Refused("has ended a transfer before its time") from None
        finally:
            self._due = math.inf
        return found

    def _watch(self) -> None:
        """Cancel the call when an answer is overdue: gRPC itself would wait for it as long as the call lasts."""
        while not self._over.wait(max(0.0, min(self._due - time.monotonic(), self._patience))):
            if time.monotonic() >= self._due:
                self._call.cancel()
                return


@dataclass
class Flow:
    """How much of a transfer may be under way, in pieces of how many bytes. chunk: bytes of a piece at most, and under
    way before anything is known of the link; passed: bytes that have got through since the transfer began."""

    chunk: int
    passed: int = 0
    began: float = field(default_factory=lambda: time.monotonic())

    @property
    def _rate(self) -> float:
        """Bytes in a second."""
        return self.passed / max(time.monotonic() - self.began, 1e-3)

    @property
    def piece(self) -> int:
        """Bytes of the next piece: a few are under way in `AHEAD`, so that answers come often."""
        if not self.passed:
            return min(-(-self.chunk // FEWEST), FIRST)
        return min(self.chunk, max(SMALLEST, int(self._rate * AHEAD / 8)))

    @property
    def room(self) -> int:
        """Bytes that may be under way."""
        wanted = min(int(self._rate * AHEAD), MOST) if self.passed else self.chunk
        return max(FEWEST * self.piece, wanted)


def fetched(
    talk: Talk, wish: Callable[[int, int], Header], body: bytearray, size: int, chunk: int
) -> Iterator[None]:
    """Fetch what a body of `size` bytes lacks, piece by piece, each of which is appended before the next step.

    wish: the request for so many bytes (second) from one on (first). Raises `Refused` where a piece is none of those
    that were wished for, and what `Talk.answer` does.
    """
    flow, wished = Flow(chunk), len(body)
    while len(body) < size:
        while wished < size and (wished == len(body) or wished - len(body) < flow.room):
            some = min(flow.piece, size - wished)
            talk.ask(encode(wish(wished, some)))
            wished += some
        piece = decode(talk.answer(), Header)[1]
        if not len(piece) or len(body) + len(piece) > wished:
            raise Refused(f"sent a piece of {len(piece)} bytes at {len(body)} of {size}")
        body += piece
        flow.passed += len(piece)
        yield


class Step(NamedTuple):
    """What has been taken of what is brought, and whether all of it was sent by then."""

    taken: Taken
    all_sent: bool


def brought(
    talk: Talk,
    gift: Callable[[int], Header],
    body: bytes,
    begin: int,
    chunk: Callable[[], int],
    hold: Callable[[int], object],
) -> Iterator[Step]:
    """Bring what is missing of a body, from the byte `begin` on, piece by piece; what is taken, answer by answer.

    It ends with the answer that no more is wanted, or with one by which pieces under way do not join on to what has
    arrived: then it is to be begun anew from there. gift: the request with a piece that begins at a byte. chunk: how
    many bytes a piece has at most now; hold: waits until so many more may be sent. Raises what `Talk.answer` does.
    """
    flow, under_way, offset, arrived = Flow(chunk()), deque[int](), begin, begin
    while True:
        while not under_way or (offset < len(body) and offset - arrived < flow.room):
            flow.chunk = chunk()
            piece = memoryview(body)[offset : offset + flow.piece]
            hold(len(piece))
            talk.ask(encode(gift(offset), piece))
            offset += len(piece)
            under_way.append(offset)
        taken: Taken = decode(talk.answer(), Taken)[0]
        end = under_way.popleft()
        yield Step(taken, end == len(body))
        if taken.over or taken.received < end or end == len(body):
            return
        flow.passed += taken.received - arrived
        # Who goes on with a transfer that broke off may have more of it than it could say then.
        arrived, offset = taken.received, max(offset, taken.received)


# --- who is asked -----------------------------------------------------------------------------------------------------


class Door:
    """What is asked of whoever calls, at the server and at nodes that listen alike. told: of whom is refused."""

    def __init__(self, callers: Callers, tell: Callable[[str], None]) -> None:
        self.callers, self.told = callers, Told(tell)
        self._open = Counter[tuple[int, str]]()  # of each caller, by kind

    async def known(self, context: Any) -> SiteNode:
        """The node that calls. Anybody else's call ends here."""
        problem = self.callers.problem(context)
        if problem is not None:
            self.told.once(f"refused: {problem}")
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, problem)
        return self.callers.node(context)

    async def read(self, request: bytes, kind: type[H], context: Any) -> tuple[SiteNode, H, memoryview]:
        """The node that calls, and the header and the body of its message, which is of this kind; else its call ends
        here."""
        node = await self.known(context)
        try:
            return node, *decode(request, kind)
        except Refused as error:
            self.told.once(f"{node.name}: {error}")
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            raise AssertionError from None  # `abort` has raised

    async def answer(
        self,
        context: Any,
        replies: Callable[[bytes, Any], AsyncGenerator[bytes]],
        kind: str = "calls",
        most: int = CALLS,
    ) -> None:
        """Answer what comes on a call, one request after the other, until its caller has no more.

        replies: the answers to a request, given the context of the call. No request is read before the one before it is
        answered, and no answer made before the one before it is under way. Who neither sends nor takes anything for as
        long as a message may take is hung up on, and who has so many calls of a kind open (`most`) gets no more:
        however many one caller makes, on however many connections, there are calls left for all others. Calls with a
        single request come here, too: gRPC itself would wait for that, of whomever and for ever, before it asks us.
        """
        caller = await self.known(context)
        own = caller.number, kind
        if self._open[own] >= most:
            self.told.once(f"refused: {caller.name} has {most} {kind} open and makes more")
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{most} {kind} are open already")
        self._open[own] += 1
        try:
            await _answered(context, replies)
        finally:
            self._open[own] -= 1


async def _answered(context: Any, replies: Callable[[bytes, Any], AsyncGenerator[bytes]]) -> None:
    try:
        while True:
            async with asyncio.timeout(CALL):
                request = await context.read()
            if request is grpc.aio.EOF:
                return
            async with contextlib.aclosing(replies(request, context)) as own:
                async for reply in own:
                    async with asyncio.timeout(CALL):
                        await context.write(reply)
    except TimeoutError:
        await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, f"nothing was sent or taken for {CALL:g} s")
    except (
        grpc.aio.InternalError
    ):  # the caller has gone: to gRPC that is a failure of ours, unless told otherwise
        raise asyncio.CancelledError from None


async def given(
    offset: int,
    size: int,
    most: Callable[[], int],
    piece: Callable[[int, int], Awaitable[bytes | memoryview]],
    hold: Callable[[int], float],
) -> AsyncGenerator[bytes]:
    """The answers to a wish for so many bytes (`size`) from one on: pieces, at least one, which may be empty.

    most: bytes of the next piece at most. piece: so many bytes at most (second) from one on (first), or it ends the
    call. hold: seconds until a link has carried so many more.
    """
    end = offset + size
    while True:
        found = await piece(offset, min(end - offset, most()))
        await asyncio.sleep(hold(len(found)))
        yield encode(Header(), found)
        offset += len(found)
        if not len(found) or offset >= end:
            return


def joined(body: bytearray, offset: int, piece: bytes | memoryview, size: int) -> None:
    """Append what a piece that begins at a byte adds to a body, if it joins on, and the body stays within `size`."""
    more = piece[len(body) - offset :] if offset <= len(body) else b""
    if len(body) + len(more) <= size:
        body += more
