"""Transfers that share the air, laid out for the compiled kernel: groups that have nothing to do with each other."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from fedroam.clock.plan import FIRST, PlannedTransfers
from fedroam.clock.windows import Windows
from fedroam.contacts import Intervals
from fedroam.contacts.ragged import rising, stable_order
from fedroam.links import Cells, Link

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
        group_first=group_first,
        group=group,
        hear_first=hear_first,
        hear_time=time[order],
        hear_change=change[order],
        hear_pair=told[order],
        pair_ends=pair_ends,
        own_first=own_first,
        own=has[own] % len(plan) if len(plan) else has,
        near_first=near_first,
        near_end=pair_ends[:, ::-1].T.reshape(-1)[near],
        near_pair=near % max(len(keys), 1),
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
    of = np.maximum(ends[:, 0], ends[:, 1])  # a radio of each
    alone = np.flatnonzero(of == NONE)
    of[alone] = radios + np.arange(len(alone))
    pairs = np.flatnonzero(np.minimum(ends[:, 0], ends[:, 1]) != NONE)
    waits = np.flatnonzero(after != FIRST)
    one = np.concatenate([ends[pairs, 0], of[waits], hearing.i])
    other = np.concatenate([ends[pairs, 1], of[after[waits]], hearing.j])
    nodes = radios + len(alone)
    order = stable_order(one, nodes)
    first = np.append(0, np.cumsum(np.bincount(one, minlength=nodes)))
    edges = sparse.csr_array((np.ones(len(one)), other[order], first), shape=(nodes, nodes))
    found, label = csgraph.connected_components(edges, directed=False)
    first_of = np.full(found, len(of))
    first_of[label[of[::-1]]] = np.arange(len(of))[::-1]
    groups = int((first_of < len(of)).sum())
    place = np.full(found, NONE)
    place[np.argsort(first_of)[:groups]] = np.arange(groups)
    return place[label[:radios]], place[label[of]], groups


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
