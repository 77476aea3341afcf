"""Transfers that share the air, laid out for the compiled kernel: groups that have nothing to do with each other."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fedroam import native
from fedroam.clock.plan import FIRST, PlannedTransfers
from fedroam.clock.windows import Windows
from fedroam.contacts import Intervals
from fedroam.contacts.ragged import rising, stable_order
from fedroam.links import Cells, Link
from fedroam.links.air_kernel import Pairs, Whole

NONE = -1


def cells(
    link: Link,
    plan: PlannedTransfers,
    windows: Windows,
    until: float,
    length: float,
    hearing: Intervals,
    wired: Iterable[int],
    most: int | None,
    *,
    in_groups: bool = True,
) -> Cells:
    """The transfers of a round, as `send` is handed them. most: of a radio at a time; None: any number. in_groups:
    whether they are cut into groups, or are one; it changes the order in which tries are told, and nothing else.

    Two transfers are of one group where they have a radio in common, one waits for the other, or radios of theirs hear
    each other at any time of the round, by way of others, too. What happens in a group concerns no other.
    """
    ends = np.stack([plan.sender, plan.receiver], axis=1)
    for node in wired:
        ends[ends == node] = NONE
    radios = int(max(ends.max(initial=0), hearing.i.max(initial=0), hearing.j.max(initial=0))) + 1
    after, follows = plan.after, np.flatnonzero(plan.after != FIRST)
    pair_key = np.minimum(hearing.i, hearing.j) * radios + np.maximum(hearing.i, hearing.j)
    if (pair_key[1:] < pair_key[:-1]).any():
        hears = np.argsort(pair_key, kind="stable")
        hearing, pair_key = hearing.some(hears), pair_key[hears]
    fresh = np.append(True, pair_key[1:] != pair_key[:-1])[: len(pair_key)]
    keys, pair = pair_key[fresh], np.cumsum(fresh) - 1
    pair_ends = np.stack(np.divmod(keys, radios), axis=1)
    time = np.concatenate([hearing.open, hearing.close])
    change = np.repeat([1, -1], len(hearing))
    told = np.concatenate([pair, pair])
    if not in_groups:
        group, group_first = np.arange(len(plan)), np.array([0, len(plan)])
        order = np.argsort(time, kind="stable")
        hear_first = np.array([0, len(order)])
    else:
        place, of, groups = _groups(ends, plan.after, hearing, radios)
        group_first, group = _rows(of, groups)
        # Transfers stand group by group from here on, so that what a group needs lies together.
        ends, windows, after = ends[group], windows.some(group), np.full(len(plan), FIRST)
        stands = np.empty(len(plan), dtype=np.int64)
        stands[group] = np.arange(len(plan))
        after[stands[follows]] = stands[plan.after[follows]]
        follows = np.flatnonzero(after != FIRST)
        place = np.tile(place[hearing.i], 2)
        known = np.flatnonzero(place != NONE)
        # What begins stands before what ceases, pair by pair: so it stays in a group where times are equal.
        known = known[rising(time[known])]
        order = known[stable_order(place[known], groups)]
        hear_first = np.append(0, np.cumsum(np.bincount(place[order], minlength=groups)))

    both = np.concatenate([ends[:, 0], ends[:, 1]])
    has = np.flatnonzero(both != NONE)
    own_first, own = _rows(both[has], radios)
    near_first, near = _rows(pair_ends.T.reshape(-1), radios)
    after_first, waiting = _rows(after[follows], len(plan))
    step_first, step_time, step_rate = _steps(windows, length)
    return Cells(
        ends=ends,
        size=plan.size[group].astype(np.float64),
        since=np.where(after == FIRST, plan.ready[group], np.nan),
        after_first=after_first,
        after=follows[waiting],
        waits=plan.ready[group],
        window_first=np.append(0, np.cumsum(np.bincount(windows.transfer, minlength=len(plan)))),
        opens=windows.open,
        closes=np.where(windows.stays, until, np.minimum(windows.close, until)),
        step_first=step_first,
        step_time=step_time,
        step_rate=step_rate,
        groups=len(group_first) - 1,
        group_first=group_first,
        group=group,
        hear_first=hear_first,
        hear_time=time[order],
        hear_change=change[order],
        hear_pair=told[order],
        pair_ends=pair_ends,
        own_first=own_first,
        own=has[own] - np.where(has[own] >= len(plan), len(plan), 0),
        near_first=near_first,
        near_end=pair_ends[:, ::-1].T.reshape(-1)[near],
        near_pair=near - np.where(near >= len(keys), len(keys), 0),
        most=most or 0,
        shared=link.shared,
        setup=link.setup,
        resumed=link.broken != "lost",
        until=until,
    )


def _groups(
    ends: np.ndarray, after: np.ndarray, hearing: Intervals, radios: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """The groups of radios (-1 for none) and of transfers, both int64, in the order of their first transfers; and how
    many there are."""
    transfers = len(ends)
    parent, name = np.empty(radios + transfers, dtype=np.int64), np.full(radios + transfers, NONE)
    find, one, other = (
        native.compiled(grouped) or grouped,
        np.ascontiguousarray(hearing.i),
        np.ascontiguousarray(hearing.j),
    )
    groups = find(ends, after, one, other, transfers, len(hearing), radios, parent, name)
    return name[:radios], name[radios:], groups


def grouped(
    ends: Pairs,
    after: Whole,
    one: Whole,
    other: Whole,
    transfers: int,
    hearings: int,
    radios: int,
    parent: Whole,
    name: Whole,
) -> int:
    """How many groups there are; fills `name`, -1 [radios + transfers], with the group of each radio and transfer.

    one, other: [hearings], radios that hear each other. parent: [radios + transfers], of each another of its group, or
    itself, the root. Compiled where that can be.
    """
    for node in range(radios + transfers):
        parent[node] = node
    for k in range(transfers):
        for s in range(2):
            if ends[k, s] != NONE:
                _tie(parent, radios + k, ends[k, s])
        if after[k] != FIRST:
            _tie(parent, radios + k, radios + after[k])
    for k in range(hearings):
        _tie(parent, one[k], other[k])
    groups = 0
    for k in range(transfers):  # in the order of their first transfers
        root = _root(parent, radios + k)
        if name[root] == NONE:
            name[root] = groups
            groups += 1
        name[radios + k] = name[root]
    for node in range(radios):
        name[node] = name[_root(parent, node)]
    return groups


def _tie(parent: Whole, one: int, other: int) -> None:
    """Make one group of two."""
    parent[_root(parent, one)] = _root(parent, other)


def _root(parent: Whole, node: int) -> int:
    """The root of a node's group; on the way to it, others come nearer."""
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


def _rows(row: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Entries by their rows, as CSR: where each row begins, and the entries of all, ascending in each."""
    return np.append(0, np.cumsum(np.bincount(row, minlength=rows))), stable_order(row, rows)


def _steps(windows: Windows, length: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The steps of each window, as CSR, with that of standing still after the others where the two stay in reach."""
    steps, stays = windows.steps, windows.stays
    count = np.diff(steps.first)
    first = np.append(0, np.cumsum(count + stays))
    last = first[1:][stays] - 1
    moving = np.ones(int(first[-1]), dtype=bool)
    moving[last] = False
    time, rate = np.full(len(moving), length), np.empty(len(moving))
    time[moving], rate[moving], rate[last] = steps.time, steps.rate, windows.rate[stays]
    return first, time, rate
