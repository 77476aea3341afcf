"""When in a round a model can be sent, and how fast: contacts in seconds, with the rate of the link over time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedroam.contacts import Intervals, Legs, contact_intervals
from fedroam.links import Link
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


@dataclass(frozen=True)
class Way:
    """How a round goes by: all nodes move on `paths` for `length` seconds, then they stand still.

    Nodes are the clients, then what does not move: access points, and a server, whose place is NaN.
    """

    paths: Paths
    length: float
    link: Link
    seed: int

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
        return cls(joined, length, link, seed)

    def windows(self, pairs: np.ndarray, reach: np.ndarray | float, *, meet: bool = False) -> Windows:
        """The windows of transfers between nodes (int64 [transfers, 2]): while the two are at most `reach` (m) apart,
        one number, or one a transfer.

        meet: all of these may talk by another rule than distance, too. Then a pair that is never within reach has a
        window without duration, at the end of the way.
        """
        reach, parts = np.broadcast_to(np.asarray(reach, dtype=np.float64), len(pairs)), []
        for one in np.unique(reach):
            asked = np.flatnonzero(reach == one)
            parts.append(self._within(pairs, asked, float(one)))
        transfer = np.concatenate([which for which, _ in parts]) if parts else np.zeros(0, np.int64)
        contacts = _joined([found for _, found in parts])
        stays = contacts.close == 1.0
        if meet:
            never = np.setdiff1d(np.arange(len(pairs)), transfer)
            ends = np.ones(len(never))
            transfer = np.append(transfer, never)
            contacts = _joined([contacts, Intervals(pairs[never, 0], pairs[never, 1], ends, ends)])
            stays = np.append(stays, np.zeros(len(never), dtype=bool))
        order = np.lexsort((contacts.open, transfer))
        transfer, contacts, stays = transfer[order], contacts.some(order), stays[order]
        legs = Legs(self.paths)
        steps = rate_steps(self.link, legs, contacts, self.length, self.seed)
        both = np.stack([contacts.i, contacts.j], axis=1)
        last = legs.place(contacts.i, contacts.close) - legs.place(contacts.j, contacts.close)
        rate = self.link.rate(np.hypot(last[:, 0], last[:, 1]), self.seed, both) * (1 - self.link.loss)
        return Windows(
            transfer, contacts.open * self.length, contacts.close * self.length, stays, steps, rate
        )

    def _within(self, pairs: np.ndarray, asked: np.ndarray, reach: float) -> tuple[np.ndarray, Intervals]:
        """The contacts of the transfers `asked`, and which transfer each is of."""
        nodes = self.paths.clients
        key = pairs[asked, 0] * nodes + pairs[asked, 1]
        unique, place = np.unique(key, return_inverse=True)
        found = contact_intervals(self.paths, reach, np.stack(np.divmod(unique, nodes), axis=1))
        count = np.bincount(np.searchsorted(unique, found.i * nodes + found.j), minlength=len(unique))
        first = np.cumsum(count) - count
        which = np.repeat(np.arange(len(asked)), count[place])
        entry = first[place][which] + _counted(count[place])
        return asked[which], found.some(entry)


def _counted(count: np.ndarray) -> np.ndarray:
    """0 .. count[k] - 1 for each k, one after the other."""
    return np.asarray(np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count))


def _joined(parts: list[Intervals]) -> Intervals:
    if not parts:
        return Intervals(*(np.zeros(0, np.int64) for _ in range(2)), *(np.zeros(0) for _ in range(2)))
    return Intervals(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in ("i", "j", "open", "close"))
    )
