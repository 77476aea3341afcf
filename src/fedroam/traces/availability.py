"""Churn as a log has it: which devices are on when."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

import numpy as np
from pydantic import PrivateAttr, model_validator
from typing_extensions import override

from fedroam.components import field, register
from fedroam.data.sources.places import find_file, stamp
from fedroam.errors import InputError
from fedroam.mobility import State
from fedroam.mobility.activity import Always
from fedroam.randomness import stream
from fedroam.traces.calendar import Calendar
from fedroam.traces.log import Log, read_log
from fedroam.traces.times import Begin, moment

# A file as it is now (place, size, time of modification), and a window: begin, length, interval.
_Key = tuple[str, int, int, str | float | None, float | None, float]
ROUNDING = 1e-7  # share of a round's time that is forgiven, for times that are no whole numbers of seconds


@dataclass(frozen=True, eq=False)
class Window:
    """A part of a log, cut to whole intervals: seconds since its start.

    names: the devices that are on at all, as in the log; total: float64 [devices], how long each is on; device (int64,
    place in `names`), begin and end (float64): [stretches]. slots: number of intervals. start: of the log's clock, s.
    """

    names: tuple[str, ...]
    total: np.ndarray
    device: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    slots: int
    start: float


@dataclass(frozen=True, eq=False)
class Presence:
    """When each client is on: stretches [begin, end) in seconds since the window's start, sorted by `begin`.

    devices: the client's device by name; client: int64 [stretches]; begin, end: float64 [stretches].
    """

    devices: tuple[str, ...]
    client: np.ndarray
    begin: np.ndarray
    end: np.ndarray

    @functools.cached_property
    def latest(self) -> np.ndarray:
        """The latest end so far, float64 [stretches]: everything before the first above t is over by t."""
        return np.maximum.accumulate(self.end)

    def time_on(self, begin: float, end: float) -> np.ndarray:
        """How long each client is on between two times, float64 [clients], seconds."""
        some = slice(np.searchsorted(self.latest, begin, "right"), np.searchsorted(self.begin, end, "left"))
        time = np.minimum(self.end[some], end) - np.maximum(self.begin[some], begin)
        return np.bincount(self.client[some], np.maximum(time, 0.0), minlength=len(self.devices))


@register("activity", "trace")
class Availability(Always):
    """Clients are devices of a log that says who was on when, such as phones that were charging or vehicles on duty.

    The log is a CSV (gzip or not) or Parquet file with the columns `device`, `begin` and `end`, a row for each stretch
    [begin, end) in which a device was on; times are seconds, or ISO 8601 with a zone. Stretches that overlap are
    merged. A client is active in an interval if its device is on for at least `share` of it.

    Round t covers interval t of the log, and the state before round 1 interval 0. So who is on in interval t - 1 trains
    in round t, and who is on in interval t meets others at its end. N whole intervals are enough for N - 1 rounds; a
    last interval that the window cuts short is left out, before the window is repeated, too.

    Client i is the device with the i-th longest time on in the window, or devices are drawn. Where data or a movement
    trace name devices, too, clients are matched by name (see `match`). A client that joins late is away until then,
    whatever the log says.
    """

    file: str = field(..., "the log (relative: from here, or FEDROAM_DATA)")
    interval: float = field(
        3600.0, "time of the log that a round covers", unit="s", gt=0, allow_inf_nan=False
    )
    begin: Begin = field(
        None,
        "where round 0 begins: seconds on the log's clock, or an ISO 8601 time (UTC unless it names a zone); not set: "
        "its first begin",
        unit="s",
    )
    length: float | None = field(
        None, "time of the log to use; not set: to its last end", unit="s", gt=0, allow_inf_nan=False
    )
    share: float = field(0.5, "share of an interval for which an active device is on, at least", gt=0, le=1)
    devices: Literal["longest", "drawn"] = field(
        "longest",
        "which devices: those that are on longest, or drawn with the seed from those that are on at all",
    )
    after_end: Literal["stop", "repeat"] = field(
        "stop", "more rounds than the window has: refused before the first, or it begins again"
    )
    _named: tuple[str, ...] | None = PrivateAttr(default=None)

    def seconds_each(self) -> float | None:
        """The interval."""
        return self.interval

    @model_validator(mode="after")
    def _whole_intervals(self) -> Availability:
        # A day of 24 hours repeated as 23.5 would drift away from the clock, unseen.
        if self.after_end == "repeat" and self.length is not None:
            count = self.length / self.interval
            if abs(count - round(count)) > 1e-9 * count:
                raise ValueError(
                    f"length = {self.length:g} is repeated, so it must be a whole number of intervals of "
                    f"{self.interval:g} s, found {count:g}"
                )
        return self

    @override
    def reads(self) -> dict[str, Path]:
        return {"file": find_file(self.file, None, "activity.file")}

    def rounds(self) -> float:
        """For how many rounds the window is enough, without its repetitions (infinite with them)."""
        return math.inf if self.after_end == "repeat" else self._window().slots - 1

    def calendar(self) -> Calendar | None:
        """From the window's start, where the log has calendar times."""
        if not _read(*stamp(self.reads()["file"])).calendar:
            return None
        return Calendar(self._window().start, self.interval)

    def presence(self, seed: int, clients: int) -> Presence:
        """Which device each client is, and when it is on. Raises InputError where there are too few."""
        self._check_clients(clients)
        return _presence(self._key(), self._seed(seed), clients, self._named)

    def device_names(self, seed: int) -> tuple[str, ...]:
        """All devices that are on in the window by name, those first that would be clients first."""
        window = self._window()
        return tuple(window.names[k] for k in _order(window, self._seed(seed)))

    def of_devices(self, names: tuple[str, ...]) -> Self:
        """The same, but client i is the device called names[i]. All must be on in the window."""
        part = self.model_copy()
        part._named = names
        return part

    def _seed(self, seed: int) -> int | None:
        """The seed where it matters. Who is on longest does not depend on it, and is sorted out once for all."""
        return seed if self.devices == "drawn" else None

    def check_limits(self, clients: int, rounds: int) -> None:
        """Refuse more clients than devices, and more rounds than the window has."""
        self._check_clients(clients)
        most = self.rounds()
        if rounds > most:
            raise InputError(
                f"rounds = {rounds}: {self.file} covers {most} round(s) of {self.interval:g} s in the selected window; "
                "allowed are that many (see activity.interval, activity.begin and activity.length), or any number "
                'with activity.after_end = "repeat"'
            )

    @override
    def start(self, seed: int, clients: int) -> dict[str, np.ndarray]:
        """Who is on in interval 0."""
        return {"active": self._active(seed, clients, 0)}

    @override
    def step(self, state: State, seed: int, clients: int, round: int) -> dict[str, np.ndarray]:
        """Who is on in interval `round`. Raises InputError after the log's end."""
        return {"active": self._active(seed, clients, round)}

    def _active(self, seed: int, clients: int, round: int) -> np.ndarray:
        self.check_limits(clients, round)
        slot = round % self._window().slots
        begin, end = slot * self.interval, (slot + 1) * self.interval
        on = self.presence(seed, clients).time_on(begin, end)
        return np.asarray(
            (on >= self.share * (end - begin) * (1 - ROUNDING)) & self.joined(seed, clients, round)
        )

    def _check_clients(self, clients: int) -> None:
        most = len(self._window().names)
        if clients > most:
            raise InputError(
                f"clients = {clients}: {self.file} has {most} device(s) that are on in the selected window, allowed is "
                f"1 to {most} (see activity.begin and activity.length)"
            )

    def _window(self) -> Window:
        return _window(*self._key())

    def _key(self) -> _Key:
        return *stamp(self.reads()["file"]), self.begin, self.length, self.interval


@functools.lru_cache(maxsize=2)
def _read(path: str, size: int, changed: int) -> Log:
    """A log, read once per process for an unchanged file."""
    return read_log(path)


@functools.lru_cache(maxsize=4)
def _window(
    path: str, size: int, changed: int, begin: str | float | None, length: float | None, interval: float
) -> Window:
    log = _read(path, size, changed)
    earliest, latest = float(log.begin.min()), float(log.end.max())
    if isinstance(begin, str):
        if not log.calendar:
            raise InputError(
                f"activity.begin = {begin!r}: {path} has a clock of its own, allowed are seconds from {earliest:.15g} "
                f"to {latest:.15g}"
            )
        begin = moment(begin)
    start = earliest if begin is None else begin
    length = latest - start if length is None else length
    if 0 < length < interval * (1 - 1e-9):
        raise InputError(
            f"activity.interval = {interval:g}: the selected window of {path} is {length:g} s long, allowed is that "
            "or less (see activity.begin and activity.length)"
        )
    slots = math.floor(min(length / interval + 1e-9, 2.0**53))  # 24 hours less a rounding error are 24 hours
    span = max(slots, 0) * interval
    first, last = np.clip(log.begin - start, 0.0, span), np.clip(log.end - start, 0.0, span)
    some = last > first
    if not some.any():
        raise InputError(
            f"{path}: nobody is on in the selected window, which begins at {start:.15g} s; the log covers "
            f"{earliest:.15g} s to {latest:.15g} s (see activity.begin, activity.length and activity.interval)"
        )
    found, device = np.unique(log.device[some], return_inverse=True)
    first, last = first[some], last[some]
    names = tuple(log.names[k] for k in found)
    return Window(names, np.bincount(device, last - first), device, first, last, slots, start)


def _order(window: Window, seed: int | None) -> np.ndarray:
    """The devices as they become clients: those on longest (equals as in the log's order), or drawn with a seed."""
    if seed is None:
        return np.argsort(-window.total, kind="stable")
    return stream(seed, "availability").permutation(len(window.names))


@functools.lru_cache(maxsize=4)
def _presence(key: _Key, seed: int | None, clients: int, named: tuple[str, ...] | None) -> Presence:
    """When the first devices of the order are on, or those that are named."""
    window = _window(*key)
    if named is None:
        order = _order(window, seed)[:clients]
    else:
        place = {name: k for k, name in enumerate(window.names)}
        order = np.array([place[name] for name in named[:clients]], dtype=np.int64)
    client = np.full(len(window.names), -1)
    client[order] = np.arange(clients)
    rows = np.flatnonzero(client[window.device] >= 0)
    rows = rows[np.argsort(window.begin[rows], kind="stable")]
    names = tuple(window.names[k] for k in order)
    return Presence(names, client[window.device[rows]], window.begin[rows], window.end[rows])
