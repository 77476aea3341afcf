"""The air of `Air` for rounds of many transfers: the same events with the same arithmetic, over arrays.

What stands here is compiled where that can be (see `native.of_python`, which says what may stand in it),
so there are arrays, numbers and one heap instead of objects. Elsewhere it is Python, and gives the same. A transfer has
one entry in the heap, that of what happens to it next, which is changed in place; so nothing in there is out of date.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, NamedTuple

import numpy as np

STEP, READY, FINISH, BREAK = range(4)  # as in `Air`
OVER, WAITING, QUEUED, SET_UP, GOING = range(5)  # what the present try of a transfer is; OVER: there is none
TRY_BITS = 40  # of the number of a try in its group
# Arrays, as they are compiled: of one axis, or so many in a row.
Whole = Annotated[np.ndarray, np.int64, 1]
Pairs = Annotated[np.ndarray, np.int64, 2]
Real = Annotated[np.ndarray, np.float64, 1]
Flags = Annotated[np.ndarray, np.bool_, 1]
Ends = Annotated[np.ndarray, np.float64, 6]
Told = Annotated[np.ndarray, np.float64, 4]


class Cells(NamedTuple):
    """Transfers of a round, cut into groups that have nothing to do with each other, and what `Air` is told of them.

    CSR means: of row k are the entries first[k] to first[k + 1] of what follows. All arrays int64 or float64.

    ends: [transfers, 2], radios, each once, -1 for none. size: bytes. since: s, from when on; NaN for those that wait
    for another. after_first, after: CSR by transfer, who waits for it (ascending); waits: s, so long after its end.
    window_first, opens, closes: CSR by transfer, s; step_first, step_time, step_rate: CSR by window. groups: how many;
    group_first, group: CSR, transfers of each; transfers stand in this order, and are told by these numbers.
    hear_first, hear_time, hear_change, hear_pair: CSR by group, which pair begins (1) and ceases (-1) to hear each
    other when, in order. pair_ends: [pairs, 2], radios. own_first, own: CSR by radio, its transfers; near_first,
    near_end, near_pair: CSR by radio, who may hear it. most: transfers of a radio at a time, 0 for any number. shared:
    whether the air is. setup: s. resumed: whether a broken transfer goes on where it was. until: s.
    """

    ends: Pairs
    size: Real
    since: Real
    after_first: Whole
    after: Whole
    waits: Real
    window_first: Whole
    opens: Real
    closes: Real
    step_first: Whole
    step_time: Real
    step_rate: Real
    groups: int
    group_first: Whole
    group: Whole
    hear_first: Whole
    hear_time: Real
    hear_change: Whole
    hear_pair: Whole
    pair_ends: Pairs
    own_first: Whole
    own: Whole
    near_first: Whole
    near_end: Whole
    near_pair: Whole
    most: int
    shared: bool
    setup: float
    resumed: bool
    until: float


# The present try of a transfer. left, rate, share, since, air, begun: as `Air` keeps them. close: s, when its contact
# closes. queued: s, since when it waits for a radio. state: what it is. number: of the tries of its group. window,
# step: its contact, and the first step of that which is still to come. near: with how many it shares the air. place: in
# the heap, 0 for none.
NUMBERS = ("left", "rate", "share", "since", "air", "begun", "close", "queued")
WHOLE_NUMBERS = ("state", "number", "window", "step", "near", "place")
TRY = np.dtype(
    (np.record, [(name, np.float64) for name in NUMBERS] + [(name, np.int64) for name in WHOLE_NUMBERS])
)
Tries = Annotated[np.ndarray, TRY, 1]


class Kept(NamedTuple):
    """What is kept of all transfers and radios while they are made.

    missing, since: what is still to be sent, bytes, and from when on, s. going: the present tries. heap, when, rank:
    how many transfers something happens to, and then they, in a heap; when (s), and its rank among what happens then.
    heard: how often two radios were told to hear each other. busy: transfers of each radio. on_air, many: those of
    them that are on the air, first in its row of `own`, and how many they are. stale, is_stale: transfers whose share
    or rate has changed now: when they will be done is told once, before time goes on. offers: those to be offered.
    starts: those that may begin, in order. mark, found, touched: for those that are looked for.
    """

    missing: Real
    since: Real
    going: Tries
    heap: Whole
    when: Real
    rank: Whole
    heard: Whole
    busy: Whole
    on_air: Whole
    many: Whole
    stale: Whole
    is_stale: Flags
    offers: Whole
    starts: Whole
    mark: Flags
    found: Whole
    touched: Whole

    @classmethod
    def nothing(cls, c: Cells) -> Kept:
        """Before anything is sent."""
        transfers, radios = len(c.size), len(c.own_first) - 1

        def whole(length: int) -> np.ndarray:
            return np.zeros(length, dtype=np.int64)

        def none(length: int) -> np.ndarray:
            return np.zeros(length, dtype=np.bool_)

        return cls(
            missing=c.size.copy(),
            since=c.since.copy(),
            going=np.zeros(transfers, dtype=TRY),
            heap=whole(transfers + 1),
            when=np.zeros(transfers + 1),
            rank=whole(transfers + 1),
            heard=whole(len(c.pair_ends)),
            busy=whole(radios),
            on_air=whole(len(c.own)),
            many=whole(radios),
            stale=whole(transfers),
            is_stale=none(transfers),
            offers=whole(transfers),
            starts=whole(2 * transfers + 1),
            mark=none(transfers),
            found=whole(transfers),
            touched=whole(transfers),
        )


Events = Callable[[Cells, Kept, np.ndarray, np.ndarray, int], int]


def play(c: Cells, out: np.ndarray, tries: np.ndarray, events: Events | None = None) -> int:
    """Make the transfers; fills `out`, float64 [transfers, 6]: begun, end, stopped, arrived, air, tries, as `Sent`.

    tries: float64 [tries, 4], filled with each of them as far as there is room: transfer, begun, stopped, arrived.
    events: `transfers_made`, compiled. Returns how many tries there were.
    """
    return (events or transfers_made)(c, Kept.nothing(c), out, tries, len(tries))


def transfers_made(c: Cells, kept: Kept, out: Ends, tries: Told, room: int) -> int:
    """Event by event, in one group after the other. room: for so many tries."""
    ends, opens, closes, window_first = c.ends, c.opens, c.closes, c.window_first
    step_first, step_time, step_rate = c.step_first, c.step_time, c.step_rate
    own_first, own, missing, since, going = c.own_first, c.own, kept.missing, kept.since, kept.going
    heap, when, rank, busy, heard = kept.heap, kept.when, kept.rank, kept.busy, kept.heard
    on_air, count, mark, found, touched = kept.on_air, kept.many, kept.mark, kept.found, kept.touched
    stale, is_stale, offers, starts = kept.stale, kept.is_stale, kept.offers, kept.starts
    told = 0

    for group in range(c.groups):
        hearing, hearings = c.hear_first[group], c.hear_first[group + 1]
        now, attempts, offered, changed = 0.0, 0, 0, 0
        heap[0] = 0
        for k in range(c.group_first[group], c.group_first[group + 1]):
            if since[k] < math.inf:  # not NaN
                going[k].window = window_first[k]
                offers[offered] = k
                offered += 1
        while True:
            for s in range(offered):
                k = offers[s]
                w = going[k].window
                while w < window_first[k + 1]:
                    time = max(max(since[k], opens[w]), now)
                    if time <= closes[w]:
                        going[k].state, going[k].number, going[k].close = WAITING, attempts, closes[w]
                        attempts += 1
                        _next(kept, k, time, READY)
                        break
                    w += 1
                going[k].window = w
            offered = 0
            if heap[0] == 0:
                break
            k = heap[1]
            hears = hearing < hearings and c.hear_time[hearing] <= now
            if changed > 0 and not hears and (when[1] > now or rank[1] >= FINISH << TRY_BITS):
                for s in range(changed):
                    is_stale[stale[s]] = False
                    if going[stale[s]].share > 0:
                        _again(c, kept, stale[s], now)
                changed = 0
                k = heap[1]
            time, kind = when[1], rank[1] >> TRY_BITS
            ended, whole, waiting = False, False, 0
            if hearing < hearings and c.hear_time[hearing] <= time:
                now = c.hear_time[hearing]
                if now > c.until:
                    break
                p, change = c.hear_pair[hearing], c.hear_change[hearing]
                hearing += 1
                heard[p] += change
                if heard[p] != (1 if change == 1 else 0):
                    continue  # told twice, as at the seam of two rounds: nothing changes
                i, j, others = c.pair_ends[p, 0], c.pair_ends[p, 1], 0
                for s in range(own_first[i], own_first[i] + count[i]):
                    a = on_air[s]
                    for t in range(own_first[j], own_first[j] + count[j]):
                        b = on_air[t]
                        if a == b:
                            continue
                        for end in range(2):
                            one = a if end == 0 else b
                            if not mark[one]:
                                mark[one] = True
                                touched[others] = one
                                others += 1
                for s in range(others):
                    mark[touched[s]] = False
                for s in range(others):
                    one = touched[s]
                    going[one].near = _sharing(c, kept, one)
                    if not is_stale[one]:
                        is_stale[one], stale[changed] = True, one
                        changed += 1
                continue
            if time > c.until or time == math.inf:
                break
            now, state = time, going[k].state
            on, off = False, False
            if state == WAITING:
                going[k].state, going[k].queued = QUEUED, now
                starts[0], waiting = k, 1
            elif state == QUEUED:
                going[k].state = OVER
                _drop(kept, k)
                going[k].window += 1
                offers[0], offered = k, 1
            elif kind in (FINISH, BREAK):
                ended, whole, off = True, kind == FINISH, True
            else:  # ready, or a step
                going[k].state = GOING
                w, step = going[k].window, going[k].step
                while step < step_first[w + 1] and step_time[step] <= now:
                    step += 1
                going[k].step = step
                fresh = step_rate[max(step - 1, step_first[w])]
                _settle(kept, k, now)
                going[k].rate = fresh
                if fresh == math.inf or going[k].left == 0:
                    going[k].left = going[k].rate = 0.0
                elif fresh == 0:
                    off = True
                else:
                    on = going[k].share == 0
                    if not is_stale[k]:
                        is_stale[k], stale[changed] = True, k
                        changed += 1
                if off and going[k].left > 0:
                    _going(c, kept, k, math.inf)  # no end in sight
                else:
                    # At once, or, where it is stale, until it is told anew.
                    _next(kept, k, now, FINISH)
            if ended:
                _settle(kept, k, now)
            off = off and going[k].share > 0
            if on or off:
                going[k].share = 1.0 if on else 0.0
                going[k].near = 0
                if c.shared:
                    for s in range(2):
                        e = ends[k, s]
                        if e < 0:
                            continue
                        first = own_first[e]
                        last = first + count[e]
                        if on:
                            on_air[last] = k
                            count[e] += 1
                            continue
                        count[e] -= 1
                        t = first
                        while on_air[t] != k:
                            t += 1
                        on_air[t] = on_air[last - 1]
                    others = _sharing(c, kept, k)
                    for s in range(others):
                        one = found[s]
                        going[one].near += 1 if on else -1
                        if not is_stale[one]:
                            is_stale[one], stale[changed] = True, one
                            changed += 1
                    if on:
                        going[k].near = others
            if ended:
                going[k].state = OVER
                _drop(kept, k)
                for s in range(2):
                    e = ends[k, s]
                    if e < 0 or c.most == 0:
                        continue
                    busy[e] -= 1
                    for t in range(own_first[e], own_first[e + 1]):
                        other = own[t]
                        if going[other].state != QUEUED:
                            continue
                        at = waiting  # in the order in which they came
                        while at > 0:
                            one = starts[at - 1]
                            if going[one].queued < going[other].queued or (
                                going[one].queued == going[other].queued
                                and going[one].number <= going[other].number
                            ):
                                break
                            starts[at] = one
                            at -= 1
                        starts[at] = other
                        waiting += 1
                arrived = missing[k] if whole else missing[k] - going[k].left
                own_row = c.group[k]
                out[own_row, 0], out[own_row, 2] = going[k].begun, now
                out[own_row, 3] += arrived
                out[own_row, 4] += going[k].air
                out[own_row, 5] += 1.0
                if told < room:
                    tries[told, 0], tries[told, 1], tries[told, 2] = own_row, going[k].begun, now
                    tries[told, 3] = arrived
                told += 1
            for s in range(waiting):
                other = starts[s]
                if going[other].state != QUEUED:
                    continue  # begun already: both of its radios told of it
                full = False
                for t in range(2):
                    e = ends[other, t]
                    if c.most > 0 and e >= 0 and busy[e] >= c.most:
                        full = True
                if full:
                    if not ended:  # it has just come; those before it are told already
                        _next(kept, other, going[other].close, BREAK)
                    continue
                for t in range(2):
                    e = ends[other, t]
                    if e >= 0:
                        busy[e] += 1
                going[other].state = SET_UP
                going[other].begun = going[other].since = now
                going[other].left = missing[other]
                going[other].rate = going[other].share = going[other].air = 0.0
                going[other].step = step_first[going[other].window]
                ready = now + c.setup
                in_time = ready <= going[other].close
                _next(
                    kept,
                    other,
                    ready if in_time else going[other].close,
                    READY if in_time else BREAK,
                )
            if ended:
                if whole:
                    out[own_row, 1] = now
                    for s in range(c.after_first[k], c.after_first[k + 1]):
                        other = c.after[s]
                        since[other] = now + c.waits[other]
                        if since[other] < math.inf:
                            going[other].window = window_first[other]
                            offers[offered] = other
                            offered += 1
                else:
                    if c.resumed:
                        missing[k] = max(missing[k] - (missing[k] - going[k].left), 0.0)
                    going[k].window += 1
                    offers[0], offered = k, 1
    return told


def _sift(kept: Kept, at: int, k: int, time: float, order: int) -> None:
    """Put a transfer where `at` is free, or as far up or down from there as it belongs."""
    going, heap, when, rank = kept.going, kept.heap, kept.when, kept.rank
    count = heap[0]
    while at > 1:
        up = at >> 1
        if when[up] < time or (when[up] == time and rank[up] < order):
            break
        heap[at], when[at], rank[at] = heap[up], when[up], rank[up]
        going[heap[at]].place = at
        at = up
    while 2 * at <= count:
        below = 2 * at
        if below < count and (
            when[below + 1] < when[below]
            or (when[below + 1] == when[below] and rank[below + 1] < rank[below])
        ):
            below += 1
        if time < when[below] or (time == when[below] and order < rank[below]):
            break
        heap[at], when[at], rank[at] = heap[below], when[below], rank[below]
        going[heap[at]].place = at
        at = below
    heap[at], when[at], rank[at] = k, time, order
    going[k].place = at


def _next(kept: Kept, k: int, time: float, kind: int) -> None:
    """Tell what happens next to a transfer. Of what happens at one time, kinds have their order, and then tries."""
    going, heap = kept.going, kept.heap
    if going[k].place == 0:
        heap[0] += 1
        going[k].place = heap[0]
    _sift(kept, going[k].place, k, time, (kind << TRY_BITS) + going[k].number)


def _drop(kept: Kept, k: int) -> None:
    """Nothing more happens to a transfer."""
    going, heap = kept.going, kept.heap
    at, count = going[k].place, heap[0]
    going[k].place = 0
    heap[0] -= 1
    if at != count:
        _sift(kept, at, heap[count], kept.when[count], kept.rank[count])


def _going(c: Cells, kept: Kept, k: int, finish: float) -> None:
    """Tell what happens next to a transfer that will be done then."""
    going = kept.going
    time, kind = going[k].close, BREAK
    if finish <= time:
        time, kind = finish, FINISH
    step = going[k].step
    if step < c.step_first[going[k].window + 1] and c.step_time[step] <= time:
        time, kind = c.step_time[step], STEP
    _next(kept, k, time, kind)


def _settle(kept: Kept, k: int, now: float) -> None:
    """Send until `now` at the present rate and share."""
    going = kept.going
    passed = (now - going[k].since) * going[k].share
    going[k].left = max(going[k].left - passed * going[k].rate, 0.0)
    going[k].air += passed
    going[k].since = now


def _again(c: Cells, kept: Kept, k: int, now: float) -> None:
    """Tell anew when a transfer on the air will be done."""
    going = kept.going
    _settle(kept, k, now)
    going[k].share = 1.0 / (1 + going[k].near)
    lasts = going[k].left / (going[k].rate * going[k].share) if going[k].left > 0 else 0.0
    _going(c, kept, k, now + lasts)


def _sharing(c: Cells, kept: Kept, k: int) -> int:
    """How many others on the air share it with a transfer; `found` begins with them."""
    near_first, on_air, count, mark, found = c.near_first, kept.on_air, kept.many, kept.mark, kept.found
    others = 0
    for s in range(2):
        e = c.ends[k, s]
        if e < 0:
            continue
        for n in range(near_first[e] - 1, near_first[e + 1]):
            other = e if n < near_first[e] else c.near_end[n]
            if count[other] == 0 or (n >= near_first[e] and kept.heard[c.near_pair[n]] == 0):
                continue
            for t in range(c.own_first[other], c.own_first[other] + count[other]):
                one = on_air[t]
                if one != k and not mark[one]:
                    mark[one] = True
                    found[others] = one
                    others += 1
    for t in range(others):
        mark[found[t]] = False
    return others
