"""What each client does when in a round: the intervals behind the totals of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedroam.clock.plan import PlannedTransfers
from fedroam.clock.sending import Sent
from fedroam.contacts.ragged import rising, stable_order

# What a client can be at in a timetable; where it is at none of these, it waits.
STATES = ("training", "sending", "charging", "dead", "away")


@dataclass(frozen=True)
class Spans:
    """What clients are at in a round of `seconds`, times in s from its begin.

    trains: float64 [clients, 2], from and to, without duration for none. present: bool [clients]. who: int64 [parts],
    a client that has a part in a transfer; sends: float64 [parts, 2], from and to. dies: float64 [clients], when each
    runs empty; infinite for who does not.
    """

    seconds: float
    trains: np.ndarray
    present: np.ndarray
    who: np.ndarray
    sends: np.ndarray
    dies: np.ndarray

    @classmethod
    def of(
        cls,
        seconds: float,
        training: tuple[np.ndarray, np.ndarray],
        present: np.ndarray,
        plan: PlannedTransfers,
        sent: Sent,
        dies: np.ndarray,
    ) -> Spans:
        """What follows from a plan of transfers and what became of it; of a transfer that was tried several times, the
        last try counts. training: from and to, float64 [clients] each."""
        tried = np.flatnonzero(sent.tries > 0)
        low, high = np.minimum(sent.begun[tried], seconds), np.minimum(sent.stopped[tried], seconds)
        begin, end = (np.clip(side, 0.0, np.minimum(seconds, dies)) for side in training)
        return cls(
            seconds,
            np.stack([begin, np.maximum(begin, end)], axis=1),
            present,
            np.concatenate([plan.sender[tried], plan.receiver[tried]]),
            np.tile(np.stack([low, np.maximum(low, high)], axis=1), (2, 1)),
            dies,
        )

    def rows(
        self,
        round: int,
        clients: int,
        begin: float,
        before: Mapping[str, np.ndarray],
        after: Mapping[str, np.ndarray],
    ) -> dict[str, np.ndarray]:
        """The timetable of the first `clients` clients in a round that begins at `begin` (s since the start): columns
        `round`, `client`, `state` (of `STATES`), `begin` and `end` (s since the start). What no row covers is waiting.

        before, after: what is kept of the batteries, if anything. Who was gone when the round began is dead in it,
        charged or not, and so is who runs empty in it from then on; in a round in which a battery got energy, its
        device charges whenever it lives and neither trains nor sends.
        """
        clients = min(clients, len(self.trains))
        trains, dies = self.trains[:clients], self.dies[:clients].copy()
        sends = _without(_joined(*self._sends_of(clients)), trains)
        worked = np.flatnonzero(trains[:, 1] > trains[:, 0])
        training = _Rows(worked, trains[worked, 0], trains[worked, 1], np.full(len(worked), _TRAINING))
        if before:
            dies[before["gone"][:clients]] = 0.0
        died = np.flatnonzero(dies < self.seconds)
        dead = _Rows(died, dies[died], np.full(len(died), self.seconds), np.full(len(died), _DEAD))
        charging = _charging(before, after)[:clients] if before else np.zeros(clients, dtype=bool)
        rests = np.flatnonzero(charging | ~self.present[:clients])
        found = _Rows.joined([sends, training, dead])
        gaps = found.gaps(rests, np.where(charging[rests], _CHARGING, _AWAY), self.seconds)
        # Dead is told last, but where all of the round is told, which is in order.
        last = np.append(found.state == _DEAD, np.zeros(len(gaps.who), dtype=bool))
        found = _Rows.joined([found, gaps])
        last &= ~np.isin(found.who, rests)
        found = found.some(np.lexsort((found.state, found.high, found.low, last, found.who)))
        return {
            "round": np.full(len(found.who), round, np.int32),
            "client": found.who.astype(np.int32),
            "state": _NAMES[found.state],
            "begin": begin + found.low,
            "end": begin + found.high,
        }

    def _sends_of(self, clients: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Who of the first clients sends from when to when, by client and then by time."""
        own = np.flatnonzero(self.who < clients)
        own = own[rising(self.sends[own, 0])]
        own = own[stable_order(self.who[own], clients)]
        return self.who[own], self.sends[own, 0], self.sends[own, 1]


# What a row can tell, in the order of the names.
_NAMES = np.array(sorted(STATES))
_AWAY, _CHARGING, _DEAD, _SENDING, _TRAINING = range(len(STATES))


@dataclass(frozen=True)
class _Rows:
    """Rows of a timetable, arrays [rows]: client, from and to (s), and which of `_NAMES` each is."""

    who: np.ndarray
    low: np.ndarray
    high: np.ndarray
    state: np.ndarray

    @classmethod
    def joined(cls, parts: Sequence[_Rows]) -> _Rows:
        """Those of all parts, one after the other."""
        return cls(
            *(np.concatenate(each) for each in zip(*(vars(part).values() for part in parts), strict=True))
        )

    def some(self, which: np.ndarray) -> _Rows:
        """These rows, in this order."""
        return _Rows(*(each[which] for each in vars(self).values()))

    def gaps(self, clients: np.ndarray, state: np.ndarray, until: float) -> _Rows:
        """Where some clients (int64, rising) have no row of these from 0 until a moment (s), called these states; none
        without duration. Who is dead is so until then."""
        order, key = rising(self.low), 2 * self.who + (self.state == _DEAD)
        order = order[stable_order(key[order], int(key.max(initial=0)) + 1)]
        who, low, latest = self.who[order], self.low[order], _latest(self.who[order], self.high[order])
        begins = np.append(True, who[1:] != who[:-1])[: len(who)]
        at = np.where(begins, 0.0, np.append(0.0, latest)[: len(who)])
        place = np.searchsorted(clients, who)
        own = (np.append(clients, -1)[place] == who) & (low > at)
        end = np.searchsorted(who, clients, side="right")
        some = end > np.searchsorted(who, clients)
        since = np.where(some, np.append(latest, 0.0)[end - 1], 0.0)
        rest = since < until
        return _Rows(
            np.concatenate([who[own], clients[rest]]),
            np.concatenate([at[own], since[rest]]),
            np.concatenate([low[own], np.full(int(rest.sum()), until)]),
            np.concatenate([state[place[own]], state[rest]]),
        )


def _charging(before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray]) -> np.ndarray:
    """Whose battery got energy, bool [clients]: more is in it than before and what was drawn tell, beyond rounding."""
    got = after["charge"] - before["charge"] + (after["drawn"] - before["drawn"])
    return np.asarray(got > 1e-9 * np.maximum(before["charge"], 1.0))


def _latest(who: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The highest so far of the same client, which stand together in rising order: exactly, so by ranks."""
    order = np.argsort(high)
    rank = np.empty(len(high), dtype=np.int64)
    rank[order] = np.arange(len(high))
    latest = np.maximum.accumulate(who * len(high) + rank) - who * len(high)
    return np.asarray(high[order[latest]])


def _joined(who: np.ndarray, low: np.ndarray, high: np.ndarray) -> _Rows:
    """Intervals, ordered by client and time, as few that do not overlap."""
    latest = _latest(who, high)
    fresh = np.ones(len(who), dtype=bool)
    fresh[1:] = (who[1:] != who[:-1]) | (low[1:] > latest[:-1])
    last = np.append(fresh[1:], True)[: len(who)]
    return _Rows(who[fresh], low[fresh], latest[last], np.full(int(fresh.sum()), _SENDING))


def _without(rows: _Rows, holes: np.ndarray) -> _Rows:
    """What lies of rows before each client's hole (float64 [clients, 2]), and after it; nothing without duration."""
    begin, end = holes[rows.who].T
    none = end <= begin
    early = replace(rows, high=np.where(none, rows.high, np.minimum(rows.high, begin)))
    late = replace(rows, low=np.where(none, rows.high, np.maximum(rows.low, end)))
    both = _Rows.joined([early, late])
    return both.some(both.high > both.low)
