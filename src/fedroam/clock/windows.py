"""When in a round a model can be sent, and how fast: contacts in seconds, with the rate of the link over time."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fedroam.contacts import Intervals, Legs, contact_intervals, distance_at, intervals_known
from fedroam.contacts.ragged import distinct, expand
from fedroam.federation import SERVER, access_point
from fedroam.links import Link, everywhere_of, rates_of
from fedroam.links.steps import Steps, rate_steps
from fedroam.mobility import Paths


@dataclass(frozen=True)
class Windows:
    """Times in which transfers can be made; window w belongs to transfer[w] (int64, ascending, then by opening).

    open, close: float64 [windows], s, both inclusive, while everybody moves. stays: bool [windows], whether the two are
    still within reach when everybody stands. steps: the rates meanwhile, a row each; rate: float64 [windows], bytes/s
    that arrive from then on.
    """

    transfer: np.ndarray
    open: np.ndarray
    close: np.ndarray
    stays: np.ndarray
    steps: Steps
    rate: np.ndarray

    def until(self, time: np.ndarray, length: float) -> Windows:
        """The same, but over at a time of each transfer (float64 [transfers], s; infinite: as they were). Everybody
        stands from `length` (s) on."""
        if np.isinf(time).all():
            return self
        over = time[self.transfer]
        cut = np.isfinite(over)
        last = self.steps.first[1:][cut & self.stays]  # standing becomes a step of its own
        steps = Steps(
            self.steps.first + np.append(0, np.cumsum(cut & self.stays)),
            np.insert(self.steps.time, last, length),
            np.insert(self.steps.rate, last, self.rate[cut & self.stays]),
        )
        close = np.minimum(np.where(self.stays, np.inf, self.close), over)
        return Windows(
            self.transfer,
            self.open,
            np.where(cut, close, self.close),
            self.stays & ~cut,
            steps,
            self.rate,
        )

    def some(self, transfers: np.ndarray) -> Windows:
        """Those of all transfers, which stand in another order (int64 [transfers]): the k-th is `transfers[k]`."""
        each = np.arange(len(transfers))
        if len(self.transfer) == len(transfers) and (self.transfer == each).all() and self.steps.one_each:
            steps = Steps(self.steps.first, self.steps.time[transfers], self.steps.rate[transfers])
            own = (column[transfers] for column in (self.open, self.close, self.stays, self.rate))
            opens, closes, stays, rate = own
            return Windows(each, opens, closes, stays, steps, rate)
        first = np.searchsorted(self.transfer, np.arange(len(transfers) + 1))
        which, w = expand(first[transfers], np.diff(first)[transfers])
        _, step = expand(self.steps.first[w], np.diff(self.steps.first)[w])
        steps = Steps(
            np.append(0, np.cumsum(np.diff(self.steps.first)[w])),
            self.steps.time[step],
            self.steps.rate[step],
        )
        return Windows(which, self.open[w], self.close[w], self.stays[w], steps, self.rate[w])


@dataclass(frozen=True)
class Way:
    """How a round goes by: all nodes move on `paths` for `length` seconds, then they stand still.

    Nodes are the clients, then what does not move: access points, and a server, whose place is NaN. further: of these,
    as `Traffic` writes them, int64; the link is asked for them by these names.
    """

    paths: Paths
    length: float
    link: Link
    seed: int
    further: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @cached_property
    def names(self) -> np.ndarray:
        """Each node as `Traffic` writes it, int64 [nodes]."""
        return np.append(np.arange(self.paths.clients - len(self.further)), self.further)

    @cached_property
    def everywhere(self) -> float | None:
        """The rate of the link, bytes/s, if it has one: a look at a protocol takes time, so there is one a round."""
        return everywhere_of(self.link)

    @classmethod
    def of(cls, paths: Paths, places: np.ndarray, length: float, link: Link, seed: int) -> Way:
        """With further nodes that stand at `places`, float64 [further, 2], metres, after the clients."""
        if not len(places):
            return cls(paths, length, link, seed)
        still = Paths.still(places)
        joined = Paths(
            np.concatenate([paths.first, paths.first[-1] + still.first[1:]]),
            np.concatenate([paths.time, still.time]),
            np.concatenate([paths.point, still.point]),
            np.concatenate([paths.present, still.present]),
        )
        further = np.where(np.isnan(places[:, 0]), SERVER, access_point(np.arange(len(places))))
        return cls(joined, length, link, seed, further)

    def windows(
        self,
        pairs: np.ndarray,
        reach: np.ndarray | float,
        *,
        meet: bool = False,
        both_ways: bool = False,
        heard: bool = False,
    ) -> Windows:
        """The windows of transfers from a node to another (int64 [transfers, 2]): while the two are at most `reach` (m)
        apart, one number, or one a transfer.

        meet: all of these may talk by another rule than distance, too. Then a pair that is never within reach has a
        window without duration, at the end of the way. both_ways: of transfers between these pairs, and then of those
        the other way round. heard: the contacts of all present clients at this reach are asked for, too.
        """
        if not isinstance(reach, np.ndarray):
            transfer, contacts = self._within(pairs, float(reach), heard)
        else:
            asked = [np.flatnonzero(reach == one) for one in distinct(reach)]
            parts = [self._within(pairs[some], float(reach[some[0]]), heard) for some in asked]
            nobody = np.zeros(0, np.int64)
            transfer = np.concatenate([nobody, *(some[k] for some, (k, _) in zip(asked, parts, strict=True))])
            contacts = Intervals.joined([found for _, found in parts])
            order = np.lexsort((contacts.open, transfer))
            transfer, contacts = transfer[order], contacts.some(order)
        stays = contacts.close == 1.0
        if meet:
            apart = np.ones(len(pairs), dtype=bool)
            apart[transfer] = False
            if apart.any():
                never, ends = np.flatnonzero(apart), np.ones(int(apart.sum()))
                transfer = np.append(transfer, never)
                contacts = Intervals.joined(
                    [contacts, Intervals(pairs[never, 0], pairs[never, 1], ends, ends)]
                )
                stays = np.append(stays, np.zeros(len(never), dtype=bool))
                order = np.argsort(transfer, kind="stable")
                transfer, contacts, stays = transfer[order], contacts.some(order), stays[order]
        legs = Legs.of(self.paths)
        steps = rate_steps(
            self.link,
            legs,
            contacts,
            self.length,
            self.seed,
            both_ways=both_ways,
            everywhere=self.everywhere,
            names=self.names,
        )
        rate, opens, closes = self._last(legs, contacts, both_ways), contacts.open, contacts.close
        if both_ways:
            transfer = np.concatenate([transfer, transfer + len(pairs)])
            opens, closes, stays = (np.tile(side, 2) for side in (opens, closes, stays))
        return Windows(transfer, opens * self.length, closes * self.length, stays, steps, rate)

    def _last(self, legs: Legs, contacts: Intervals, both_ways: bool) -> np.ndarray:
        """The rates of arrival when contacts close, bytes/s, float64 [contacts], or those of both ways."""
        pairs = [(contacts.i, contacts.j), (contacts.j, contacts.i)][: 2 if both_ways else 1]
        if self.everywhere is not None:
            return np.full(len(pairs) * len(contacts), self.everywhere * (1 - self.link.loss))
        apart = distance_at(legs, contacts.i, contacts.j, contacts.close)
        rates = [rates_of(self.link, apart, self.seed, self.names[np.stack(pair, axis=1)]) for pair in pairs]
        return np.asarray(np.concatenate(rates) * (1 - self.link.loss))

    def _within(self, pairs: np.ndarray, reach: float, heard: bool) -> tuple[np.ndarray, Intervals]:
        """The contacts of transfers, and which transfer each is of, ordered by that and then by opening."""
        nodes = self.paths.clients
        if (heard or intervals_known(self.paths, reach)) and self.paths.present[pairs].all():
            found = contact_intervals(self.paths, reach)
        else:
            found = None
        key = pairs[:, 0] * nodes + pairs[:, 1]
        if found is None and (key[1:] > key[:-1]).all():  # each pair once, and in order
            found = contact_intervals(self.paths, reach, pairs)
        elif found is None:
            unique = distinct(key)
            found = contact_intervals(self.paths, reach, np.stack(np.divmod(unique, nodes), axis=1))
        else:  # of which each pair's lower one stands first
            key = np.minimum(pairs[:, 0], pairs[:, 1]) * nodes + np.maximum(pairs[:, 0], pairs[:, 1])
        known = found.i * nodes + found.j
        first = np.searchsorted(known, key)
        which, entry = expand(first, np.searchsorted(known, key, side="right") - first)
        return which, Intervals(pairs[which, 0], pairs[which, 1], found.open[entry], found.close[entry])
