"""What each client does when in a round: the intervals behind the totals of time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fedroam.clock.plan import PlannedTransfers
from fedroam.clock.sending import Sent

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
    ) -> pd.DataFrame:
        """The timetable of the first `clients` clients in a round that begins at `begin` (s since the start): columns
        `round`, `client`, `state` (of `STATES`), `begin` and `end` (s since the start). What no row covers is waiting.

        before, after: what is kept of the batteries, if anything. Who was gone when the round began is dead in it,
        charged or not, and so is who runs empty in it from then on; in a round in which a battery got energy, its
        device charges whenever it lives and neither trains nor sends.
        """
        gone, charging = _gone(before), _charging(before, after)
        order = np.argsort(self.who, kind="stable")
        first = np.searchsorted(self.who[order], np.arange(clients + 1))
        found: list[tuple[int, str, float, float]] = []
        for i in range(min(clients, len(self.trains))):
            sends = self.sends[order[first[i] : first[i + 1]]].tolist()
            trains = self.trains[i].tolist()
            sending = ((low, high, "sending") for low, high in _without(_joined(sends), trains))
            busy = sorted(one for one in [(*trains, "training"), *sending] if one[1] > one[0])
            if (dies := 0.0 if i in gone else float(self.dies[i])) < self.seconds:
                busy.append((dies, self.seconds, "dead"))
            if i in charging or not self.present[i]:
                rest = "charging" if i in charging else "away"
                busy = sorted([*busy, *((low, high, rest) for low, high in _between(busy, self.seconds))])
            found += [(i, state, low, high) for low, high, state in busy]
        who, states, low, high = zip(*found, strict=True) if found else ((),) * 4
        return pd.DataFrame(
            {
                "round": np.full(len(found), round, np.int32),
                "client": np.array(who, np.int32),
                "state": pd.Series(states, dtype="str"),
                "begin": begin + np.array(low, np.float64),
                "end": begin + np.array(high, np.float64),
            }
        )


def _gone(before: Mapping[str, np.ndarray]) -> set[int]:
    """Who was gone when the round began."""
    return set(np.flatnonzero(before["gone"]).tolist()) if before else set()


def _charging(before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray]) -> set[int]:
    """Whose battery got energy: more is in it than before and what was drawn tell, beyond rounding."""
    if not before:
        return set()
    got = after["charge"] - before["charge"] + (after["drawn"] - before["drawn"])
    return set(np.flatnonzero(got > 1e-9 * np.maximum(before["charge"], 1.0)).tolist())


def _joined(intervals: list[list[float]]) -> list[tuple[float, float]]:
    """Intervals as few that do not overlap, in order."""
    found: list[tuple[float, float]] = []
    for low, high in sorted(intervals):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return found


def _without(intervals: list[tuple[float, float]], hole: list[float]) -> Iterator[tuple[float, float]]:
    """What lies of intervals before a hole, and after it."""
    begin, end = hole
    for low, high in intervals:
        if end <= begin:
            yield low, high
            continue
        yield low, min(high, begin)
        yield max(low, end), high


def _between(busy: list[tuple[float, float, str]], until: float) -> Iterator[tuple[float, float]]:
    """The gaps between intervals in order that do not overlap, from 0 until `until`; none without duration."""
    at = 0.0
    for low, high, _ in busy:
        if low > at:
            yield at, low
        at = max(at, high)
    if until > at:
        yield at, until
