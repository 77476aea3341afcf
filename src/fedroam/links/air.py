"""The air: transfers that share it, wait for a free radio, end or break, event by event."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

# Events of one moment, in order: who can begin and be done in a contact that only touches is not broken by its end.
STEP, READY, FINISH, BREAK = range(4)
OPENS, CLOSES = range(2)  # a contact that goes on at the seam of two rounds opens again before it closes


@dataclass(frozen=True)
class Transfer:
    """A model on its way from one end to another; ends are any whole numbers.

    bytes: what is to arrive. time: s, from when on it may begin. until: s, when the contact closes. rates: bytes/s that
    arrive while it has the air to itself, rates[k] from times[k] (s, rising) to times[k + 1], the last one for ever,
    and the first one before times[0], too.
    """

    sender: int
    receiver: int
    bytes: float
    time: float = 0.0
    until: float = math.inf
    times: Sequence[float] = (0.0,)
    rates: Sequence[float] = (math.inf,)


class Ended(NamedTuple):
    """How a transfer ended.

    number: what `offer` called it. begun: s, when its ends were free for it; NaN where they never were. time: s. bytes:
    what arrived. air_time: s, its shares of the air over time. whole: whether all of it arrived.
    """

    number: int
    begun: float
    time: float
    bytes: float
    air_time: float
    whole: bool


@dataclass
class _Going:
    """A transfer that has begun."""

    transfer: Transfer
    begun: float
    left: float
    ready: bool = False  # past the set-up time
    rate: float = 0.0
    share: float = 0.0  # of the air; 0 while it is not on it
    since: float = 0.0  # when left and air were told last
    air: float = 0.0
    version: int = 0  # of its finish, which changes with rate and share
    near: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))

    def settle(self, time: float) -> None:
        """Send until `time` at the present rate and share."""
        passed = (time - self.since) * self.share
        self.left = max(self.left - passed * self.rate, 0.0)
        self.air += passed
        self.since = time


class Air:
    """Processor sharing of the air, exact between events.

    Transfers share the air while an end of one hears an end of another (`hear`), or they have an end in common. One
    that shares it with d others has 1 / (1 + d) of it, as long as nothing changes. So k transfers that all share with
    one another have 1 / k each; and whoever shares with whom, the shares of transfers that all share with one another
    never add up to more than 1. That much is feasible: in a random order, a transfer comes before all those it shares
    with by just this probability (the bound of Caro and Wei; Alon & Spencer, The probabilistic method, Sec. 6).

    A transfer at rate 0 takes no air. A transfer begins once both ends have fewer than `simultaneous` others, first
    come, first served; those that cannot begin are passed over. It then holds its ends, but no air for `setup` seconds.

    simultaneous: transfers that one end can have at a time, sent and received together; None: any number. shared:
    whether the air is shared at all. wired: ends without a radio (a server): they have no such limit, and what they
    send or receive shares the air at the other end only.
    """

    def __init__(
        self,
        shared: bool = True,
        simultaneous: int | None = None,
        setup: float = 0.0,
        wired: Iterable[int] = (),
    ) -> None:
        self.time = 0.0
        self.shared, self.simultaneous, self.setup, self.wired = shared, simultaneous, setup, frozenset(wired)
        self._offered = 0
        self._waiting: dict[int, Transfer] = {}
        # By end: since when, and number.
        self._queue: defaultdict[int, list[tuple[float, int]]] = defaultdict(list)
        self._going: dict[int, _Going] = {}
        self._busy: defaultdict[int, int] = defaultdict(int)
        self._events: list[tuple[float, int, int, int]] = []
        self._hearing: list[tuple[float, int, int, int]] = []  # time, OPENS or CLOSES, and two ends
        self._heard: defaultdict[int, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
        self._on_air: defaultdict[int, set[int]] = defaultdict(set)  # by end

    # --- what is told ------------------------------------------------------------------------------------------

    def hear(self, i: int, j: int, opening: float, closing: float) -> None:
        """Two ends hear each other from `opening` to `closing`, s, not before the present."""
        if self.shared:
            heapq.heappush(self._hearing, (opening, OPENS, i, j))
            heapq.heappush(self._hearing, (closing, CLOSES, i, j))

    def offer(self, transfer: Transfer) -> int:
        """Number of a transfer, 0, 1, ..., that is to begin as soon as it can, not before the present."""
        number = self._offered
        self._offered += 1
        self._waiting[number] = transfer
        heapq.heappush(self._events, (max(transfer.time, self.time), READY, number, 0))
        if transfer.until < math.inf:
            heapq.heappush(self._events, (max(transfer.until, self.time), BREAK, number, 0))
        return number

    # --- what is asked -----------------------------------------------------------------------------------------

    def advance(self, until: float = math.inf) -> Ended | None:
        """Go on to the next end of a transfer, not beyond `until` (s); None where there is none up to it.

        Afterwards `time` is that end, or `until`, where that is finite.
        """
        while True:
            hearing = self._hearing[0][0] if self._hearing else math.inf
            event = self._events[0][0] if self._events else math.inf
            following = min(hearing, event)
            if following > until or following == math.inf:
                self.time = max(self.time, until) if until < math.inf else self.time
                return None
            self.time = following
            if hearing <= event:
                _, what, i, j = heapq.heappop(self._hearing)
                self._hears(i, j, 1 if what == OPENS else -1)
                continue
            _, kind, number, version = heapq.heappop(self._events)
            ended = self._happens(kind, number, version)
            if ended is not None:
                return ended

    def shares(self) -> dict[int, tuple[float, frozenset[int]]]:
        """Of each transfer that is on the air, its share, and the transfers that it shares with."""
        return {
            number: (going.share, frozenset(going.near))
            for number, going in self._going.items()
            if going.share > 0
        }

    # --- events ------------------------------------------------------------------------------------------------

    def _happens(self, kind: int, number: int, version: int) -> Ended | None:
        going = self._going.get(number)
        if kind == BREAK:
            if number in self._waiting:
                return self._forgotten(number)
            return None if going is None else self._end(number, going, whole=False)
        if kind == READY and number in self._waiting:
            since = (self.time, number)
            for end in self._radios(self._waiting[number]):
                insort(self._queue[end], since)
            self._begin([since])
            return None
        if going is None:
            return None
        if kind == FINISH:
            if version != going.version:
                return None
            going.settle(self.time)
            return self._end(number, going, whole=True)
        going.ready = going.ready or kind == READY
        if going.ready:
            self._at_rate(number, going)
        return None

    def _begin(self, candidates: list[tuple[float, int]]) -> None:
        """Begin those of the waiting transfers whose ends are free, in order."""
        for since in candidates:
            number = since[1]
            transfer = self._waiting[number]
            ends = self._radios(transfer)
            if self.simultaneous is not None and any(self._busy[end] >= self.simultaneous for end in ends):
                continue
            del self._waiting[number]
            for end in ends:
                self._queue[end].remove(since)
                self._busy[end] += 1
            going = _Going(transfer, self.time, transfer.bytes, since=self.time)
            self._going[number] = going
            ready = self.time + self.setup
            heapq.heappush(self._events, (ready, READY, number, 0))
            for step in transfer.times:
                if step > ready:
                    heapq.heappush(self._events, (step, STEP, number, 0))

    def _forgotten(self, number: int) -> Ended:
        """A transfer whose contact closed before it began."""
        transfer = self._waiting.pop(number)
        for end in self._radios(transfer):
            self._queue[end] = [since for since in self._queue[end] if since[1] != number]
        return Ended(number, math.nan, self.time, 0.0, 0.0, False)

    def _end(self, number: int, going: _Going, whole: bool) -> Ended:
        """Let its ends and the air go, and begin what waited for them."""
        going.settle(self.time)
        self._off_air(number, going)
        del self._going[number]
        waiting: set[tuple[float, int]] = set()
        for end in self._radios(going.transfer):
            self._busy[end] -= 1
            waiting.update(self._queue[end])
        self._begin(sorted(waiting))
        size = going.transfer.bytes
        return Ended(number, going.begun, self.time, size if whole else size - going.left, going.air, whole)

    def _radios(self, transfer: Transfer) -> list[int]:
        """Its ends that have a radio, each once."""
        return [end for end in dict.fromkeys((transfer.sender, transfer.receiver)) if end not in self.wired]

    # --- the air -----------------------------------------------------------------------------------------------

    def _at_rate(self, number: int, going: _Going) -> None:
        """Go on at the rate of this moment."""
        transfer = going.transfer
        rate = transfer.rates[max(bisect_right(transfer.times, self.time) - 1, 0)]
        going.settle(self.time)
        going.rate = rate
        if rate == math.inf or going.left == 0:
            going.left = going.rate = 0.0
            self._finish_at(number, going, self.time)
        elif rate > 0 and going.share == 0:
            self._on(number, going)
        elif rate == 0:
            self._off_air(number, going)
            going.version += 1  # no end in sight
        else:
            self._again(number, going)

    def _on(self, number: int, going: _Going) -> None:
        going.share = 1.0
        if self.shared:
            for end in self._radios(going.transfer):
                for other in (end, *self._heard[end]):
                    for neighbour in self._on_air[other]:
                        going.near[neighbour] += 1
                        self._going[neighbour].near[number] += 1
                self._on_air[end].add(number)
            # Its two ends hear each other: what was found at the second end may be itself.
            going.near.pop(number, None)
            for neighbour in going.near:
                self._again(neighbour, self._going[neighbour])
        self._again(number, going)

    def _off_air(self, number: int, going: _Going) -> None:
        if going.share == 0:
            return
        going.share = 0.0
        for end in self._radios(going.transfer):
            self._on_air[end].discard(number)
        for neighbour in going.near:
            other = self._going[neighbour]
            del other.near[number]
            self._again(neighbour, other)
        going.near.clear()

    def _hears(self, i: int, j: int, change: int) -> None:
        """Two ends begin (1) or cease (-1) to hear each other."""
        for end, other in ((i, j), (j, i)):
            self._heard[end][other] += change
            if self._heard[end][other] == 0:
                del self._heard[end][other]
        if self._heard[i].get(j, 0) != (1 if change == 1 else 0):
            return  # told twice, as at the seam of two rounds: nothing changes
        changed: set[int] = set()
        for a in self._on_air[i]:
            for b in self._on_air[j]:
                if a == b:
                    continue
                for one, another in ((a, b), (b, a)):
                    near = self._going[one].near
                    near[another] += change
                    if near[another] == 0:
                        del near[another]
                changed |= {a, b}
        for number in sorted(changed):
            self._again(number, self._going[number])

    def _again(self, number: int, going: _Going) -> None:
        """Tell anew when a transfer on the air will be done."""
        going.settle(self.time)
        going.share = 1.0 / (1 + len(going.near))
        lasts = going.left / (going.rate * going.share) if going.left > 0 else 0.0
        self._finish_at(number, going, self.time + lasts)

    def _finish_at(self, number: int, going: _Going, time: float) -> None:
        going.version += 1
        heapq.heappush(self._events, (time, FINISH, number, going.version))
