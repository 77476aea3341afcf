"""What becomes of transfers: which get through, when, and what was sent."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from fedroam import native
from fedroam.clock.cells import cells
from fedroam.clock.plan import FIRST, PlannedTransfers
from fedroam.clock.windows import Windows
from fedroam.contacts import Intervals
from fedroam.links import Events, Link, play, transfers_made
from fedroam.links.air import Air, Transfer

MANY = 5_000  # transfers of a run, from which on compiling pays
FEW = 1000  # transfers of a round: up to so many are not worth being cut into groups
AGAIN = 10  # so often, or more, a round is planned in which devices can run empty


def compiled() -> Events | None:
    """The events on shared air as this machine's code; None where nothing is compiled."""
    return native.compiled(transfers_made)


@dataclass(frozen=True)
class Sent:
    """What became of transfers; all float64 [transfers].

    begun: s, when the try that got through, or the last one that broke, began with its set-up; NaN where there was
    none. end: s, when all of it had arrived; infinite where that did not happen. stopped: s, when the last try ended;
    NaN where there was none. arrived: bytes, all tries together. air: s, of sending. tries: how many were begun. each:
    where that was asked, every try, float64 [some tries, 4]: transfer, begun, stopped (s), and what arrived (bytes).
    """

    begun: np.ndarray
    end: np.ndarray
    stopped: np.ndarray
    arrived: np.ndarray
    air: np.ndarray
    tries: np.ndarray
    each: list[np.ndarray] = field(default_factory=list)

    def every(self) -> np.ndarray:
        """Every try, float64 [tries, 4], of those that were asked for."""
        return np.concatenate([np.zeros((0, 4)), *self.each])

    @classmethod
    def nothing(cls, transfers: int) -> Sent:
        """Before anything is sent."""

        def full(value: float) -> np.ndarray:
            return np.full(transfers, value)

        return cls(full(math.nan), full(math.inf), full(math.nan), full(0.0), full(0.0), full(0.0))


def send(
    link: Link,
    plan: PlannedTransfers,
    windows: Windows,
    until: float,
    length: float,
    hearing: Intervals,
    wired: Iterable[int],
    simultaneous: int | None = None,
    *,
    tell_tries: bool = False,
    rounds: int = 1,
) -> Sent:
    """Make the transfers of a round, which goes on until `until` (s, may be infinite); everybody stands from `length`
    (s) on.

    hearing: which nodes hear each other when, in seconds, for a link that is shared. wired: nodes without a radio.
    simultaneous: transfers that one end can have at a time; None: as many as the link says. tell_tries: whether every
    try is asked for. rounds: how many like this one are planned in all; it changes no result.
    """
    most = link.simultaneous if simultaneous is None else simultaneous
    if link.shared or most is not None:
        asked = len(plan) * rounds * (AGAIN if tell_tries else 1)
        if asked >= MANY and (events := compiled()) is not None:
            in_groups = tell_tries or len(plan) > FEW
            found = np.zeros((len(plan), 6))
            found[:, :3] = math.nan, math.inf, math.nan
            each = np.empty((len(windows.transfer) if tell_tries else 0, 4))  # a window is tried once at most
            told = play(
                cells(link, plan, windows, until, length, hearing, wired, most, in_groups=in_groups),
                found,
                each,
                events,
            )
            begun, end, stopped, arrived, air_time, tries = found.T.copy()
            return Sent(begun, end, stopped, arrived, air_time, tries, [each[:told]] if tell_tries else [])
        air = Air(link.shared, most, link.setup, wired)
        return _on_air(link, air, plan, windows, until, length, hearing)
    return _freely(link, plan, windows, until, length)


def _freely(link: Link, plan: PlannedTransfers, windows: Windows, until: float, length: float) -> Sent:
    """Each transfer has the air to itself: all at once, by window, and those that wait for others after them."""
    sent = Sent.nothing(len(plan))
    depth = np.where(plan.after == FIRST, 0, 1)
    waits = depth > 0
    ready = np.where(waits, np.inf, plan.ready)
    for level in (0, 1):
        if level:
            ready[waits] = sent.end[plan.after[waits]] + plan.ready[waits]
        _tried(link, plan, windows, until, length, ready, depth == level, sent)
    return sent


def _tried(
    link: Link,
    plan: PlannedTransfers,
    windows: Windows,
    until: float,
    length: float,
    ready: np.ndarray,
    asked: np.ndarray,
    sent: Sent,
) -> None:
    """Make those transfers that are asked (bool [transfers]), a window of each after the other."""
    mine = windows.transfer
    number = np.arange(len(mine)) - np.searchsorted(mine, mine)
    left = plan.size.copy()
    for turn in range(int(number.max(initial=-1)) + 1):
        close = np.where(windows.stays, until, np.minimum(windows.close, until))
        opens = np.maximum(windows.open, ready[mine])
        tried = (
            (number == turn) & asked[mine] & np.isfinite(opens) & (opens <= close) & np.isinf(sent.end[mine])
        )
        if not tried.any():
            continue
        # While everybody moves ...
        start = np.where(tried, opens + link.setup, 0.0)
        finish, arrived = windows.steps.alone(
            left[mine], start, np.where(tried, np.minimum(windows.close, until), -1.0)
        )
        done = tried & (arrived >= left[mine]) & (start <= np.minimum(windows.close, until))
        end = np.where(done, finish, np.inf)
        # ... and then.
        w = np.flatnonzero(tried & ~done & windows.stays & (windows.rate > 0))
        begin = np.maximum(start[w], length)
        missing = left[mine[w]] - arrived[w]
        with np.errstate(invalid="ignore"):
            finish = begin + np.where(np.isinf(windows.rate[w]), 0.0, missing / windows.rate[w])
        through = finish <= until
        end[w[through]] = finish[through]
        arrived[w[through]] = left[mine[w[through]]]
        cut = w[~through]
        if len(cut):
            lasts = np.maximum(until - np.maximum(start[cut], length), 0.0)
            more = np.multiply(windows.rate[cut], lasts, out=np.zeros(len(cut)), where=lasts > 0)
            arrived[cut] += np.minimum(more, left[mine[cut]] - arrived[cut])
        w = np.flatnonzero(tried)
        k = mine[w]
        sent.begun[k], sent.end[k] = opens[w], end[w]
        sent.stopped[k] = np.where(np.isfinite(end[w]), end[w], close[w])
        sent.arrived[k] += arrived[w]
        sent.air[k] += np.maximum(np.minimum(sent.stopped[k], until) - start[w], 0.0)
        sent.tries[k] += 1
        sent.each.append(np.stack([k, sent.begun[k], sent.stopped[k], arrived[w]], axis=1))
        if link.broken != "lost":
            left[k] = np.maximum(left[k] - arrived[w], 0.0)


def _on_air(
    link: Link,
    air: Air,
    plan: PlannedTransfers,
    windows: Windows,
    until: float,
    length: float,
    hearing: Intervals,
) -> Sent:
    """Transfers share the air, or wait for a free radio: event by event."""
    sent = Sent.nothing(len(plan))
    for i, j, opening, closing in zip(
        hearing.i.tolist(), hearing.j.tolist(), hearing.open.tolist(), hearing.close.tolist(), strict=True
    ):
        air.hear(i, j, opening, closing)
    first = np.searchsorted(windows.transfer, np.arange(len(plan) + 1)).tolist()
    following: defaultdict[int, list[int]] = defaultdict(list)
    for k, before in enumerate(plan.after.tolist()):
        if before != FIRST:
            following[before].append(k)
    left, trying, since = plan.size.copy(), {}, plan.ready.copy()

    def offer(k: int, w: int, now: float) -> None:
        """Try window w of transfer k, or the next one that is not over."""
        while w < first[k + 1]:
            close = until if windows.stays[w] else min(float(windows.close[w]), until)
            time = max(float(since[k]), float(windows.open[w]), now)
            if time <= close:
                times, rates = windows.steps.of(w)
                if windows.stays[w]:
                    times, rates = [*times, length], [*rates, float(windows.rate[w])]
                transfer = Transfer(
                    int(plan.sender[k]), int(plan.receiver[k]), float(left[k]), time, close, times, rates
                )
                trying[air.offer(transfer)] = (k, w)
                return
            w += 1

    for k in range(len(plan)):
        if plan.after[k] == FIRST and np.isfinite(plan.ready[k]):
            offer(k, first[k], 0.0)
    while (ended := air.advance(until)) is not None:
        k, w = trying.pop(ended.number)
        if not math.isnan(ended.begun):
            sent.begun[k], sent.stopped[k] = ended.begun, ended.time
            sent.arrived[k] += ended.bytes
            sent.air[k] += ended.air_time
            sent.tries[k] += 1
            sent.each.append(np.array([[k, ended.begun, ended.time, ended.bytes]]))
        if ended.whole:
            sent.end[k] = ended.time
            for other in following[k]:
                since[other] = ended.time + plan.ready[other]
                if np.isfinite(since[other]):
                    offer(other, first[other], ended.time)
            continue
        if link.broken != "lost":
            left[k] = max(left[k] - ended.bytes, 0.0)
        offer(k, w + 1, ended.time)
    return sent
