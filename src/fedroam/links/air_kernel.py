"""The air of `Air` for rounds of many transfers: the same events with the same arithmetic, compiled.

Numba compiles what stands here, so there are arrays, whole numbers and one heap instead of objects. Without Numba it is
Python, and gives the same. A transfer has one entry in the heap, that of what happens to it next, which is changed in
place; so nothing in there is out of date.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

STEP, READY, FINISH, BREAK = range(4)  # as in `Air`
OVER, WAITING, QUEUED, SET_UP, GOING = range(5)  # what the present try of a transfer is; OVER: there is none
TRY_BITS = 40  # of the number of a try in its group


class Cells(NamedTuple):
    """Transfers of a round, cut into groups that have nothing to do with each other, and what `Air` is told of them.

    CSR means: of row k are the entries first[k] to first[k + 1] of what follows. All arrays int64 or float64.

    ends: [transfers, 2], radios, each once, -1 for none. size: bytes. since: s, from when on; NaN for those that wait
    for another. after_first, after: CSR by transfer, who waits for it (ascending); waits: s, so long after its end.
    window_first, opens, closes: CSR by transfer, s; step_first, step_time, step_rate: CSR by window. group_first,
    group: CSR, transfers of each group; transfers stand in this order, and are told by these numbers. hear_first,
    hear_time, hear_change, hear_pair: CSR by group, which pair begins (1) and ceases (-1) to hear each other when, in
    order. pair_ends: [pairs, 2], radios. own_first, own: CSR by radio, its transfers; near_first, near_end, near_pair:
    CSR by radio, who may hear it. most: transfers of a radio at a time, 0 for any number. shared: whether the air is.
    setup: s. resumed: whether a broken transfer goes on where it was.
    until: s.
    """

    ends: np.ndarray
    size: np.ndarray
    since: np.ndarray
    after_first: np.ndarray
    after: np.ndarray
    waits: np.ndarray
    window_first: np.ndarray
    opens: np.ndarray
    closes: np.ndarray
    step_first: np.ndarray
    step_time: np.ndarray
    step_rate: np.ndarray
    group_first: np.ndarray
    group: np.ndarray
    hear_first: np.ndarray
    hear_time: np.ndarray
    hear_change: np.ndarray
    hear_pair: np.ndarray
    pair_ends: np.ndarray
    own_first: np.ndarray
    own: np.ndarray
    near_first: np.ndarray
    near_end: np.ndarray
    near_pair: np.ndarray
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


@cache
def compiled() -> Callable[[Cells, np.ndarray, np.ndarray], int] | None:
    """`play` as this machine's code; None where there is no Numba, or `FEDROAM_NATIVE=0`. Compiling takes seconds."""
    if os.environ.get("FEDROAM_NATIVE") == "0":
        return None
    try:
        import numba
    except ImportError:
        return None
    names: dict[str, Any] = dict(globals())
    for part in (_sift, _next, _drop, _going, _settle, _again, _sharing, play):
        # Calls count who refers to each array handed over, which takes a third of the time; `_sift` is long enough.
        compiles = numba.njit(
            nogil=True,
            forceinline=part not in (_sift, play),
            error_model="numpy",  # nothing is divided by zero
        )
        names[part.__name__] = compiles(FunctionType(part.__code__, names, part.__name__))
    found: Callable[[Cells, np.ndarray, np.ndarray], int] = names["play"]
    return found


def play(c: Cells, out: np.ndarray, tries: np.ndarray) -> int:
    """Make the transfers; fills `out`, float64 [transfers, 6]: begun, end, stopped, arrived, air, tries, as `Sent`.

    tries: float64 [tries, 4], filled with each of them as far as there is room: transfer, begun, stopped, arrived.
    Returns how many there were.
    """
    ends, opens, closes, window_first = c.ends, c.opens, c.closes, c.window_first
    step_first, step_time, step_rate = c.step_first, c.step_time, c.step_rate
    own_first, own = c.own_first, c.own
    near_first, near_end, near_pair = c.near_first, c.near_end, c.near_pair
    transfers = len(c.size)
    missing, since = c.size.copy(), c.since.copy()
    busy = np.zeros(len(own_first) - 1, dtype=np.int64)
    heard = np.zeros(len(c.pair_ends), dtype=np.int64)  # how often two radios were told to hear each other
    going = np.zeros(transfers, dtype=TRY)
    # How many transfers something happens to, and then they, in a heap; when, and its rank among what happens then.
    heap, rank = np.zeros(transfers + 1, dtype=np.int64), np.zeros(transfers + 1, dtype=np.int64)
    when = np.zeros(transfers + 1)
    on_air = np.zeros(len(own), dtype=np.int64)  # each radio's transfers that are, first in its row of `own`
    count = np.zeros(len(own_first) - 1, dtype=np.int64)  # how many they are
    mark = np.zeros(transfers, dtype=np.bool_)
    found, touched = np.zeros(transfers, dtype=np.int64), np.zeros(transfers, dtype=np.int64)
    # Transfers whose share or rate has changed now: when they will be done is told once, before time goes on.
    stale, is_stale = np.zeros(transfers, dtype=np.int64), np.zeros(transfers, dtype=np.bool_)
    offers = np.zeros(transfers, dtype=np.int64)  # transfers to be offered
    starts = np.zeros(2 * transfers + 1, dtype=np.int64)  # transfers that may begin, in order
    told = 0

    for group in range(len(c.group_first) - 1):
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
                        _next(going, heap, when, rank, k, time, READY)
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
                        _again(going, heap, when, rank, step_time, step_first, stale[s], now)
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
                        for one in (a, b):
                            if not mark[one]:
                                mark[one] = True
                                touched[others] = one
                                others += 1
                for s in range(others):
                    mark[touched[s]] = False
                for s in range(others):
                    one = touched[s]
                    going[one].near = _sharing(
                        ends,
                        own_first,
                        on_air,
                        count,
                        near_first,
                        near_end,
                        near_pair,
                        heard,
                        mark,
                        found,
                        one,
                    )
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
                _drop(going, heap, when, rank, k)
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
                _settle(going, k, now)
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
                    _going(going, heap, when, rank, step_time, step_first, k, math.inf)  # no end in sight
                else:
                    # At once, or, where it is stale, until it is told anew.
                    _next(going, heap, when, rank, k, now, FINISH)
            if ended:
                _settle(going, k, now)
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
                    others = _sharing(
                        ends, own_first, on_air, count, near_first, near_end, near_pair, heard, mark, found, k
                    )
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
                _drop(going, heap, when, rank, k)
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
                if told < len(tries):
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
                        _next(going, heap, when, rank, other, going[other].close, BREAK)
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
                    going,
                    heap,
                    when,
                    rank,
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


def _sift(
    going: Any, heap: np.ndarray, when: np.ndarray, rank: np.ndarray, at: int, k: int, time: float, order: int
) -> None:
    """Put a transfer where `at` is free, or as far up or down from there as it belongs."""
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


def _next(
    going: Any, heap: np.ndarray, when: np.ndarray, rank: np.ndarray, k: int, time: float, kind: int
) -> None:
    """Tell what happens next to a transfer. Of what happens at one time, kinds have their order, and then tries."""
    if going[k].place == 0:
        heap[0] += 1
        going[k].place = heap[0]
    _sift(going, heap, when, rank, going[k].place, k, time, (kind << TRY_BITS) + going[k].number)


def _drop(going: Any, heap: np.ndarray, when: np.ndarray, rank: np.ndarray, k: int) -> None:
    """Nothing more happens to a transfer."""
    at, count = going[k].place, heap[0]
    going[k].place = 0
    heap[0] -= 1
    if at != count:
        _sift(going, heap, when, rank, at, heap[count], when[count], rank[count])


def _going(
    going: Any,
    heap: np.ndarray,
    when: np.ndarray,
    rank: np.ndarray,
    step_time: np.ndarray,
    step_first: np.ndarray,
    k: int,
    finish: float,
) -> None:
    """Tell what happens next to a transfer that will be done then."""
    time, kind = going[k].close, BREAK
    if finish <= time:
        time, kind = finish, FINISH
    step = going[k].step
    if step < step_first[going[k].window + 1] and step_time[step] <= time:
        time, kind = step_time[step], STEP
    _next(going, heap, when, rank, k, time, kind)


def _settle(going: Any, k: int, now: float) -> None:
    """Send until `now` at the present rate and share."""
    passed = (now - going[k].since) * going[k].share
    going[k].left = max(going[k].left - passed * going[k].rate, 0.0)
    going[k].air += passed
    going[k].since = now


def _again(
    going: Any,
    heap: np.ndarray,
    when: np.ndarray,
    rank: np.ndarray,
    step_time: np.ndarray,
    step_first: np.ndarray,
    k: int,
    now: float,
) -> None:
    """Tell anew when a transfer on the air will be done."""
    _settle(going, k, now)
    going[k].share = 1.0 / (1 + going[k].near)
    lasts = going[k].left / (going[k].rate * going[k].share) if going[k].left > 0 else 0.0
    _going(going, heap, when, rank, step_time, step_first, k, now + lasts)


def _sharing(
    ends: np.ndarray,
    own_first: np.ndarray,
    on_air: np.ndarray,
    count: np.ndarray,
    near_first: np.ndarray,
    near_end: np.ndarray,
    near_pair: np.ndarray,
    heard: np.ndarray,
    mark: np.ndarray,
    found: np.ndarray,
    k: int,
) -> int:
    """How many others on the air share it with a transfer; `found` begins with them."""
    others = 0
    for s in range(2):
        e = ends[k, s]
        if e < 0:
            continue
        for n in range(near_first[e] - 1, near_first[e + 1]):
            other = e if n < near_first[e] else near_end[n]
            if count[other] == 0 or (n >= near_first[e] and heard[near_pair[n]] == 0):
                continue
            for t in range(own_first[other], own_first[other] + count[other]):
                one = on_air[t]
                if one != k and not mark[one]:
                    mark[one] = True
                    found[others] = one
                    others += 1
    for t in range(others):
        mark[found[t]] = False
    return others
