"""Who runs empty in a round, as many in one plan of it as are certain."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from fedroam.clock.plan import FIRST, PlannedTransfers
from fedroam.clock.sending import Sent
from fedroam.clock.windows import Windows
from fedroam.contacts import Intervals
from fedroam.links import Link

ENOUGH = 2  # plans, for which no slices are looked for
SHARES = 2  # slices are tried with all the deaths that are known, with a half of them, a quarter, ...


@dataclass(frozen=True)
class Couplings:
    """What ties nodes together in a round, as it is planned; nodes are clients, then access points.

    ends: int64 [tries, 2], the nodes of every try, -1 for one that has nothing to do with others; begun, stopped:
    float64 [tries], s. between: int64 [couplings, 2], nodes that may disturb each other beyond the transfers between
    them; opens, closes: float64 [couplings], s, from when to when; over: float64 [couplings], s, when the transfers are
    done for which they may, infinite for never. There are couplings only where air is shared, or radios are limited.
    """

    ends: np.ndarray
    begun: np.ndarray
    stopped: np.ndarray
    between: np.ndarray
    opens: np.ndarray
    closes: np.ndarray
    over: np.ndarray

    @classmethod
    def of(
        cls,
        link: Link,
        plan: PlannedTransfers,
        windows: Windows,
        sent: Sent,
        hearing: Intervals,
        *,
        clients: int,
        wired: Iterable[int] = (),
        simultaneous: int | None = None,
    ) -> Couplings:
        """Those of a plan and what became of it; all as `send` was handed it, with every try told."""
        most = link.simultaneous if simultaneous is None else simultaneous
        nodes = np.stack([plan.sender, plan.receiver], axis=1)
        for node in wired:
            nodes[nodes == node] = -1
        tries = sent.every()
        k = tries[:, 0].astype(np.int64)
        nobody, none = np.zeros((0, 2), np.int64), np.zeros(0)
        if not link.shared and most is None:
            alone = np.where(nodes < clients, nodes, -1)  # an access point has as many radios as it needs
            return cls(alone[k], tries[:, 1], tries[:, 2], nobody, none, none, none)
        ready = np.where(plan.after == FIRST, plan.ready, 0.0)
        own = windows.transfer
        opens = np.maximum(windows.open, ready[own])
        closes = np.where(windows.stays, np.inf, windows.close)
        some = opens <= closes
        own, opens, closes = own[some], opens[some], closes[some]
        between, over = nodes[own], sent.end[own]
        if len(hearing):
            # Who hears whom matters while both have something to send or receive.
            count = int(max(nodes.max(initial=0), hearing.i.max(initial=0), hearing.j.max(initial=0))) + 2
            first, last, quiet = np.full(count, np.inf), np.full(count, -np.inf), np.full(count, -np.inf)
            for end in between.T:  # the last entry is that of nobody
                np.minimum.at(first, end, opens)
                np.maximum.at(last, end, closes)
                np.maximum.at(quiet, end, over)
            i, j = hearing.i, hearing.j
            begins = np.maximum(hearing.open, np.maximum(first[i], first[j]))
            ends = np.minimum(hearing.close, np.minimum(last[i], last[j]))
            near = begins <= ends
            between = np.concatenate([between, np.stack([i, j], axis=1)[near]])
            opens, closes = np.append(opens, begins[near]), np.append(closes, ends[near])
            over = np.append(over, np.minimum(quiet[i], quiet[j])[near])
        return cls(nodes[k], tries[:, 1], tries[:, 2], between, opens, closes, over)


@dataclass(frozen=True)
class Slice:
    """Deaths up to a moment (`until`, s), and the groups of clients that have nothing to do with each other until
    another one (`horizon`, s): group, int64 [clients]. mortal: who may die by then at all, whoever else does, bool
    [nodes]. dies: float64 [clients], s, the deaths that are known when it begins.

    Who runs empty does no more, which may change when others send, and so whether and when they run empty. So deaths
    are certain one by one: the first of those whose times depend on each other, then, in the plan with that one, the
    next. Within a slice the first of each group is certain at once, for the same deaths in the same plans, bit for bit:

    - What is asked of a battery up to a moment follows from what its client has begun by then, each try drawing evenly
      from its begin to its end (`use_of`). So it may differ from what the plan says from the begin of a client's first
      try on that goes on otherwise, or is not in the plan (`_Moments.asked`). Who dies by `until` is whoever does so in
      the plan, or whose battery may be asked otherwise; but nobody before the moment by which it would be empty if each
      try drew all it does at its begin, and no charger were there (`dies`).
    - A try goes on otherwise if an end of it may have died. Where air is shared or radios are limited, so it does if
      anything around an end of it may do so (`disturbed`): that passes between two nodes from when on they may disturb
      each other, unless they are done with that. Where they are not, a transfer follows from when its own two ends die,
      which only makes it end sooner.
    - All that is found from below, for whatever deaths by `until`, in whatever order. So these follow from tries that
      were begun by then at nodes that are mortal. None of these goes on beyond `horizon`. That is so in the plan by
      choice of it, and is looked after in every plan that follows (`holds`): if one outlasts it, the slice is begun
      anew without a horizon.
    - Until then, changes pass between nodes by such tries and couplings, and groups are what these connect. So what
      happens in a group up to the horizon, and with it when somebody in it runs empty up to `until`, is the same
      whether those of other groups have died already or not.
    - One by one, deaths up to `until` come before all later ones. One that is found later, and is earlier, is found
      by the next slice.

    In a slice that is whole (`Slice.whole`), times depend on each other where anything can be sent or heard at all.
    """

    until: float
    horizon: float
    group: np.ndarray
    mortal: np.ndarray
    dies: np.ndarray

    @classmethod
    def whole(cls, linked: np.ndarray, dies: np.ndarray, until: float = np.inf) -> Slice:
        """Without a horizon. linked: int64 [any, 2], nodes that want to send to each other, or hear each other."""
        nodes = max(len(dies), int(linked.max(initial=-1)) + 1)
        return cls(until, np.inf, _groups(linked, nodes)[: len(dies)], np.ones(nodes, dtype=bool), dies)

    @classmethod
    def up_to(
        cls, until: float, couplings: Couplings, empty: np.ndarray, soonest: np.ndarray, dies: np.ndarray
    ) -> Slice:
        """The one of the deaths in a plan up to a moment. empty: s, float64 [clients], when each runs empty in it.
        soonest: s, float64 [clients], before which none does, whoever else dies."""
        moments = _Moments.of(until, couplings, empty, soonest)
        mortal = moments.dies <= until
        own = (couplings.begun <= until) & mortal[couplings.ends].any(axis=1)
        horizon = float(couplings.stopped[own].max(initial=until))
        if len(couplings.between):  # in other plans a try may begin later, and take as long
            lasts = couplings.stopped[own] - couplings.begun[own]
            horizon = max(horizon, until + float(lasts.max(initial=0.0)))
        differs = np.minimum(moments.dies, moments.disturbed)
        first = differs[couplings.ends]
        some = own & (couplings.stopped >= first.min(axis=1)) & (first.max(axis=1) <= horizon)
        ties = couplings.ends[some]
        if len(couplings.between):
            first = differs[couplings.between]
            passes = np.minimum(couplings.closes, couplings.over) >= first.min(axis=1)
            some = passes & (couplings.opens <= horizon) & (first.max(axis=1) <= horizon)
            ties = np.concatenate([ties, couplings.between[some]])
        return cls(until, horizon, _groups(ties, len(mortal))[: len(dies)], mortal, dies)

    @classmethod
    def best(
        cls,
        linked: np.ndarray,
        told: Callable[[], tuple[Couplings, np.ndarray]] | None,
        empty: np.ndarray,
        dies: np.ndarray,
    ) -> Slice:
        """That in which most deaths are certain for each plan that it takes, as far as this plan tells. told: tells the
        couplings and the soonest deaths; without, the whole one."""
        found = cls.whole(linked, dies)
        times = np.sort(empty[np.isfinite(empty)])
        gain, count = found.gain(empty), len(times)
        if told is None or count <= ENOUGH * gain:
            return found
        couplings, soonest = told()
        while count > gain:
            other = cls.up_to(float(times[count - 1]), couplings, empty, soonest, dies)
            if other.gain(empty) > gain:
                found, gain = other, other.gain(empty)
            count //= SHARES
        return found

    def over(self, empty: np.ndarray) -> bool:
        """Whether nobody runs empty in it any more; one that is whole can always end."""
        return np.isinf(self.until) or not bool((empty <= self.until).any())

    def gain(self, empty: np.ndarray) -> float:
        """Deaths for each plan: how many there are, and how many in the group that has most."""
        some = self.group[empty <= self.until]
        return len(some) / int(np.bincount(some).max(initial=1))

    def first(self, empty: np.ndarray) -> np.ndarray:
        """Of those who run empty (float64 [clients], s, infinite for who does not), when those do of whom that is
        certain; infinite for others."""
        some = np.where(empty <= self.until, empty, np.inf)
        earliest = np.full(len(some), np.inf)
        np.minimum.at(earliest, self.group, some)
        return np.where(some == earliest[self.group], some, np.inf)

    def holds(self, couplings: Callable[[], Couplings], empty: np.ndarray) -> bool:
        """Whether in this plan, too, only the mortal run empty, and nothing that matters goes on beyond the horizon."""
        if np.isinf(self.horizon):
            return True
        told = couplings()
        late = (told.begun <= self.until) & (told.stopped > self.horizon)
        return not (
            self.mortal[told.ends[late]].any() or (empty[~self.mortal[: len(empty)]] <= self.until).any()
        )


@dataclass(frozen=True)
class _Moments:
    """From when on anything of a node may differ from a plan, as `Slice` says; float64 [nodes + 1], s, the last one
    that of nobody, infinite where nothing does.

    dies: when it may die at the soonest. disturbed: when others may change what it sends or receives.
    """

    dies: np.ndarray
    disturbed: np.ndarray

    @classmethod
    def of(cls, until: float, couplings: Couplings, empty: np.ndarray, soonest: np.ndarray) -> _Moments:
        """From below: until nothing comes sooner any more."""
        most = max(
            len(empty), int(couplings.ends.max(initial=-1)) + 1, int(couplings.between.max(initial=-1)) + 1
        )
        planned, least = np.full(most + 1, np.inf), np.full(most + 1, np.inf)
        planned[: len(empty)], least[: len(empty)] = np.where(empty <= until, empty, np.inf), soonest
        dies, disturbed, asked = planned, np.full(most + 1, np.inf), np.full(most + 1, np.inf)
        early = couplings.begun <= until
        ends, begun, stopped = couplings.ends[early], couplings.begun[early], couplings.stopped[early]
        lasts = np.minimum(couplings.closes, couplings.over)
        while True:
            before = dies, disturbed
            differs, disturbed, asked = np.minimum(dies, disturbed), disturbed.copy(), asked.copy()
            for end, other in ((0, 1), (1, 0)):
                node, since = couplings.between[:, end], differs[couplings.between[:, other]]
                some = np.flatnonzero(since <= lasts)
                np.minimum.at(disturbed, node[some], np.maximum(since, couplings.opens)[some])
                node = ends[:, end]
                some = np.flatnonzero(np.minimum(differs[ends[:, other]], disturbed[node]) <= stopped)
                np.minimum.at(asked, node[some], begun[some])
            disturbed[-1] = asked[-1] = np.inf
            asked = np.minimum(asked, disturbed)
            dies = np.minimum(planned, np.maximum(asked, least))
            dies[dies > until] = np.inf
            if np.array_equal(dies, before[0]) and np.array_equal(disturbed, before[1]):
                return cls(dies, disturbed)


def _groups(ties: np.ndarray, nodes: int) -> np.ndarray:
    """The groups of nodes that are tied together, int64 [nodes]."""
    from scipy.sparse import csgraph

    edges = sparse.coo_array((np.ones(len(ties), dtype=bool), tuple(ties.T)), shape=(nodes, nodes))
    return np.asarray(csgraph.connected_components(edges.tocsr(), directed=False)[1])
