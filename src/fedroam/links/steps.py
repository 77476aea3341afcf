"""The rate of a link over a contact, as steps in time, and transfers that share the air with nobody."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedroam.contacts import Intervals, Legs, distance_at
from fedroam.links.link import Link, rates_of

PARTS = 16  # of a contact, in each of which the rate is one number
AT_ONCE = 1 << 16  # contacts looked at in one go: bounds the memory, changes no result


@dataclass(frozen=True)
class Steps:
    """Rates that change in steps: row k owns the steps first[k] to first[k + 1].

    first: int64 [rows + 1]. time: float64 [steps], s, rising within a row. rate: float64 [steps], bytes/s from then on,
    that of the last step for ever, and that of the first one before, too.
    """

    first: np.ndarray
    time: np.ndarray
    rate: np.ndarray

    @property
    def one_each(self) -> bool:
        """Whether every row has one step."""
        rows = len(self.first) - 1
        return len(self.time) == rows and bool((self.first == np.arange(rows + 1)).all())

    def of(self, row: int) -> tuple[list[float], list[float]]:
        """Times and rates of a row, as a `Transfer` takes them."""
        own = slice(int(self.first[row]), int(self.first[row + 1]))
        return self.time[own].tolist(), self.rate[own].tolist()

    def alone(
        self, size: np.ndarray | float, start: np.ndarray, until: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """What becomes of a transfer in each row that has the air to itself: its end, s, and the bytes that arrived.

        size: bytes. start, until: float64 [rows], s: sending begins at `start` and breaks off at `until`, if not all of
        it has arrived. Both results float64 [rows]; all of it arrived where the bytes are `size`.
        """
        rows = len(self.first) - 1
        row = np.repeat(np.arange(rows), np.diff(self.first))
        size = np.broadcast_to(np.asarray(size, dtype=np.float64), rows)
        begin = np.where(np.arange(len(row)) == self.first[row], -np.inf, self.time)
        end = np.append(begin[1:], np.inf)
        end[self.first[1:] - 1] = np.inf
        begin, end = np.maximum(begin, start[row]), np.minimum(end, until[row])
        lasts = np.maximum(end - begin, 0.0)
        at_once = np.isinf(self.rate) & (begin <= until[row]) & (end >= begin)
        with np.errstate(invalid="ignore"):  # an infinite rate for no time
            sent = np.where(at_once, size[row], np.where(lasts > 0, self.rate * lasts, 0.0))
        before, steps = np.zeros(len(sent)), np.diff(self.first)
        for nth in range(1, int(steps.max(initial=0))):  # row by row: what others sent rounds nothing
            own = self.first[:-1][steps > nth] + nth
            before[own] = before[own - 1] + sent[own - 1]
        done = (before + sent >= size[row]) & (at_once | (lasts > 0) | (size[row] == 0))
        finish, arrived = np.maximum(until, start), np.zeros(rows)
        np.add.at(arrived, row, sent)
        arrived = np.minimum(arrived, size)
        k = np.flatnonzero(done)
        _, head = np.unique(row[k], return_index=True)
        k = k[head]
        with np.errstate(divide="ignore", invalid="ignore"):
            more = np.where(at_once[k], 0.0, (size[row[k]] - before[k]) / self.rate[k])
        finish[row[k]] = begin[k] + np.where(np.isfinite(more), np.maximum(more, 0.0), 0.0)
        arrived[row[k]] = size[row[k]]
        return finish, arrived


def rate_steps(
    link: Link,
    legs: Legs,
    contacts: Intervals,
    length: float,
    seed: int,
    parts: int = PARTS,
    *,
    both_ways: bool = False,
    everywhere: float | None = None,
    names: np.ndarray | None = None,
) -> Steps:
    """The rate of arrival over each contact of a round of `length` seconds, a row each; times from the round's begin.

    The bytes that arrive in a second are rate (1 - loss). A contact is cut into `parts` of one duration, and the rate
    in each is its mean by Simpson's rule, so that the bytes of a whole contact are exact to fourth order. Parts of one
    rate are one step. A link whose rate knows no distance gives one step.

    both_ways: a row for each contact from i to j, and then one for each from j to i. everywhere: bytes/s, of a link of
    one rate, which then is not asked. names: of each end of contacts, as `Link.rate` takes it, int64 [ends]; None:
    its own number.
    """
    ways = 2 if both_ways else 1
    if everywhere is not None:
        rows = ways * len(contacts)
        rate = np.full(rows, everywhere * (1 - link.loss))
        return Steps(np.arange(rows + 1, dtype=np.int64), np.tile(contacts.open * length, ways), rate)
    found: list[list[np.ndarray]] = [[] for _ in range(ways)]
    for k in range(0, len(contacts), AT_ONCE):
        some = contacts.some(np.arange(k, min(k + AT_ONCE, len(contacts))))
        grid = np.linspace(0.0, 1.0, 2 * parts + 1)
        time = some.open[:, None] + grid * (some.close - some.open)[:, None]
        i, j = (np.repeat(ends, len(grid)) for ends in (some.i, some.j))
        apart = distance_at(legs, i, j, time.reshape(-1))
        for own, pair in zip(found, ((i, j), (j, i)), strict=False):
            named = np.stack(pair, axis=1) if names is None else names[np.stack(pair, axis=1)]
            rate = rates_of(link, apart, seed, named).reshape(time.shape)
            ends, middle = (rate[:, :-1:2] + rate[:, 2::2]) / 2, rate[:, 1::2]
            # Where all three are equal the mean is they, without rounding (and infinity is not subtracted from itself).
            own.append(np.where(ends == middle, middle, ends / 3 + middle * (2 / 3)))
    if not len(contacts):
        return Steps(np.zeros(1, dtype=np.int64), np.zeros(0), np.zeros(0))
    mean = np.concatenate([part for own in found for part in own]) * (1 - link.loss)
    begin = (
        contacts.open[:, None] + np.arange(parts) / parts * (contacts.close - contacts.open)[:, None]
    ) * length
    new = np.ones(mean.shape, dtype=bool)
    new[:, 1:] = mean[:, 1:] != mean[:, :-1]
    first = np.concatenate([[0], np.cumsum(new.sum(axis=1))]).astype(np.int64)
    return Steps(first, np.tile(begin, (ways, 1))[new], mean[new])
