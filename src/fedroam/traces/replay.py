"""Movement as a trace has it: devices come, move and go."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Literal, Self

import numpy as np
from pydantic import PrivateAttr, model_validator
from typing_extensions import override

from fedroam.components import Part, field, register
from fedroam.data.sources.places import find_file, stamp
from fedroam.errors import InputError
from fedroam.mobility import Paths, State, World
from fedroam.randomness import stream
from fedroam.traces.calendar import Calendar
from fedroam.traces.geography import to_metres
from fedroam.traces.selection import Selection, select
from fedroam.traces.times import Begin, moment
from fedroam.traces.trace import Trace, read_trace

ROUNDING = 1e-7  # s by which times may differ that are one moment: a trace's are sums, and no whole seconds


@register("mobility", "trace", source="Farcas et al., Sec. 4.1 (one fix of each device and hour)")
class Replay(Part):
    """Clients are devices of a trace: present where it says so, away otherwise.

    Client i is the device with the i-th most fixes in the selection; devices may also be drawn, be the first that
    arrive, or be ordered by name. The devices with the most fixes are often those that never leave; among drawn ones,
    arrivals and departures are as frequent as in the trace. Where data or an availability log name devices, too,
    clients are matched by name (setting `match`).

    With `mode = "first_fix"` round t covers interval t of the trace, and the state before round 1 interval 0: a device
    is present in an interval in which it has a fix, at the first of them; with `dwell` also in those that begin less
    than `dwell` after its last fix, at that fix. A device that was present in the round before moves straight from
    there.

    With `mode = "interpolate"`, for dense fixes, round t covers the time from t - 1 to t intervals after the start: a
    device is present where its place at the end is known, on a fix or between two that are at most `max_gap` apart, and
    moves through all its fixes of the round. At the ends of the selected time the fixes beside it count, too.

    A present interval is reported with probability `report_share`, independently; otherwise the device counts as away.
    That holds for intervals without a fix (a fix is a report), or for `all`. `fedroam trace import` makes the file.
    """

    file: str = field(..., "the trace (relative: from here, or FEDROAM_DATA)")
    mode: Literal["first_fix", "interpolate"] = field(
        "first_fix", "a device's place: its first fix of the interval, or interpolated between fixes"
    )
    interval: float = field(
        3600.0, "time of the trace that a round covers", unit="s", gt=0, allow_inf_nan=False
    )
    begin: Begin = field(
        None,
        "where round 0 begins: seconds since the trace's epoch, or an ISO 8601 time (UTC unless it names a zone); "
        "not set: its first fix",
        unit="s",
    )
    length: float | None = field(
        None, "time of the trace to use; not set: to its end", unit="s", gt=0, allow_inf_nan=False
    )
    box: float = field(math.inf, "side of the square around the median fix that is used", unit="m", gt=0)
    dwell: float = field(
        0.0, "how long a device stays at a place after a fix there (first_fix)", unit="s", ge=0
    )
    max_gap: float = field(
        math.inf, "longest time between fixes that is interpolated (interpolate)", unit="s", gt=0
    )
    report_share: float = field(1.0, "probability that a present interval is reported", gt=0, le=1)
    reported: Literal["without_fix", "all"] = field(
        "without_fix", "which present intervals report_share holds for: those without a fix, or all"
    )
    devices: Literal["most_fixes", "drawn", "arrival", "names"] = field(
        "most_fixes",
        "which devices: those with the most fixes, drawn with the seed from all that have one, the first to arrive, or "
        "the first by name",
        later=True,
    )
    _named: tuple[str, ...] | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _of_its_mode(self) -> Replay:
        foreign, given = ("max_gap", self.max_gap) if self.mode == "first_fix" else ("dwell", self.dwell)
        if given != type(self).model_fields[foreign].default:
            raise ValueError(f'{foreign} has no meaning with mode = "{self.mode}": leave one of the two out')
        return self

    def path(self) -> Path:
        """The trace's file. Raises InputError where there is none."""
        return find_file(self.file, None, "mobility.file")

    @override
    def reads(self) -> dict[str, Path]:
        return {"file": self.path()}

    def selection(self) -> Selection:
        """All devices of the selection, read once per process. Raises InputError where nothing is left."""
        return _selected(*stamp(self.path()), self.begin, self.length, self.box, self.mode == "interpolate")

    def _trace(self) -> Trace:
        return _read(*stamp(self.path()))

    def rounds(self) -> int:
        """How many rounds the selection covers."""
        intervals = self.selection().length / self.interval
        if self.mode == "interpolate" or self.length is None:  # the last fix opens an interval of its own
            return math.floor(intervals + ROUNDING)
        return math.ceil(intervals - ROUNDING) - 1

    def seconds_each(self) -> float | None:
        """The interval, where fixes are interpolated; an interval's first fix says nothing of speeds."""
        return self.interval if self.mode == "interpolate" else None

    def calendar(self) -> Calendar | None:
        """From the selection's start, where the trace has calendar times."""
        if self._trace().facts["epoch"] is None:
            return None
        return Calendar(self.selection().start, self.interval)

    def device_names(self, seed: int) -> tuple[str, ...]:
        """All devices of the selection by name, those first that would be clients first."""
        return _picked(self.selection(), *self._rule(seed)).names

    def of_devices(self, names: tuple[str, ...]) -> Self:
        """The same, but client i is the device called names[i]. All must be in the selection."""
        part = self.model_copy()
        part._named = names
        return part

    def _rule(self, seed: int) -> tuple[str, int]:
        """How devices are ordered, and the seed where that matters: what the choice is kept by."""
        return self.devices, seed if self.devices == "drawn" else 0

    def availability(self, clients: int, round: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Who is present (bool [clients]) and where (float64 [clients, 2], metres) at the end of a round from 0.

        Before reporting is drawn. The place of a client that is away has no meaning.
        """
        chosen = self._clients(clients, seed)
        if self.mode == "interpolate":
            return _known(_around(chosen), round * self.interval, self.max_gap)
        return _seen(chosen, *self._span(round), self.dwell)

    def _span(self, round: int) -> tuple[float, float]:
        """The time that a round covers, seconds since the selection's start (round 0 of interpolation: a moment)."""
        slot = round - 1 if self.mode == "interpolate" else round
        return max(slot, 0) * self.interval, (slot + 1) * self.interval

    def start(self, world: World) -> dict[str, np.ndarray]:
        """Where and who is there in interval 0. The state holds `position` (m) and `present` (bool [clients])."""
        self._check(world, 0)
        here, place = self.availability(world.clients, 0, world.seed)
        here = here & self._reports(world, 0)
        chosen = self._clients(world.clients, world.seed)
        return {
            "position": np.where(here[:, None], place, chosen.point[chosen.first[:-1]]),
            "present": here,
        }

    def step(self, state: State, world: World, round: int) -> tuple[dict[str, np.ndarray], Paths]:
        """The move to the places of interval `round`. Raises InputError after the trace's end."""
        self._check(world, round)
        known, place = self.availability(world.clients, round, world.seed)
        here = known & self._reports(world, round)
        stayed = here & state["present"].astype(bool)
        position = np.where(here[:, None], place, state["position"])
        start = np.where(stayed[:, None], state["position"], position)
        if self.mode == "interpolate":
            chosen = _around(self._clients(world.clients, world.seed))
            paths = _way(chosen, self._span(round), here, stayed, start, position, self.max_gap)
        else:
            paths = Paths.straight(start, position, here)
        return {**state, "position": position, "present": here}, paths

    def advice(self, clients: int, rounds: int, seed: int) -> str:
        """The sentence on clients without a fix in the time that the run covers; empty unless they are the most."""
        chosen = self._clients(clients, seed)
        covered = self._span(rounds)[1]
        late = int((chosen.time[chosen.first[:-1]] >= covered).sum())
        if 2 * late <= clients:
            return ""
        return (
            f"{late} of {clients} clients come only after the {covered:g} s of {self.file} that {rounds} round(s) "
            f"cover, and are away all the time; mobility.length = {covered:g} chooses among those that are there, "
            "mobility.begin begins later"
        )

    def bounds(self) -> tuple[float, float, float, float]:
        """The corners of all selected fixes, and of those between which places are interpolated."""
        chosen = self.selection()
        return (chosen if self.mode == "first_fix" else _around(chosen)).bounds

    def groups(self, world: World) -> np.ndarray:
        """All clients are `device`."""
        self._check(world, world.rounds)
        return np.full(world.clients, "device")

    def points_of_interest(self) -> np.ndarray:
        """Those of the trace within the bounds of the selected fixes."""
        return points_of_interest(self._trace(), self.selection())

    def to_metres(self, lat: np.ndarray, lon: np.ndarray) -> np.ndarray:
        """Projected as the trace was."""
        projection = self._trace().facts["projection"]
        if projection is None:
            raise InputError(
                f"{self.file}: a trace in metres without projection; wanted are places in x and y"
            )
        return to_metres(projection, lat, lon)

    def _reports(self, world: World, round: int) -> np.ndarray:
        """Whose presence in a round is reported, bool [clients]."""
        if self.report_share == 1:
            return np.ones(world.clients, dtype=bool)
        told = stream(world.seed, "reports", round).random(world.clients) < self.report_share
        if self.reported == "all":
            return told
        chosen = self._clients(world.clients, world.seed)
        return np.asarray(told | _has_fix(chosen, *self._span(round))[0])

    def _clients(self, clients: int, seed: int) -> Selection:
        """The devices that are clients. Raises InputError where there are fewer."""
        chosen = self.selection()
        if clients > chosen.devices:
            raise InputError(
                f"clients = {clients}: {self.file} has {chosen.devices} device(s) in the selected window and box, "
                f"allowed is 1 to {chosen.devices}"
            )
        return _picked(chosen, *self._rule(seed), clients, self._named)

    def _check(self, world: World, round: int) -> None:
        self._clients(world.clients, world.seed)
        most = self.rounds()
        if round > most:
            raise InputError(
                f"rounds = {round}: {self.file} covers {most} round(s) of {self.interval:g} s in the selected "
                "window; allowed are that many (see mobility.interval, mobility.begin and mobility.length)"
            )


@functools.lru_cache(maxsize=2)
def _read(path: str, size: int, changed: int) -> Trace:
    """A trace, read once per process for an unchanged file."""
    return read_trace(path)


@functools.lru_cache(maxsize=4)
def _selected(
    path: str,
    size: int,
    changed: int,
    begin: str | float | None,
    length: float | None,
    box: float,
    around: bool,
) -> Selection:
    trace = _read(path, size, changed)
    if isinstance(begin, str):
        if trace.epoch is None:
            raise InputError(
                f"mobility.begin = {begin!r}: {path} has a clock of its own, allowed are seconds "
                f"from {trace.time.min():g} to {trace.time.max():g}"
            )
        begin = moment(begin)
    try:
        return select(trace, begin, length, box, around=around)
    except InputError as error:
        raise InputError(f"{path}: {error} (see mobility.begin, mobility.length and mobility.box)") from None


@functools.lru_cache(maxsize=4)
def _picked(
    chosen: Selection,
    rule: str,
    seed: int,
    clients: int | None = None,
    named: tuple[str, ...] | None = None,
) -> Selection:
    """The first `clients` devices (None: all) in the order of `Replay.devices`, or those that are named."""
    if named is not None:
        place = {name: k for k, name in enumerate(chosen.names)}
        return chosen.only(np.array([place[name] for name in named[:clients]], dtype=np.int64))
    if rule == "drawn":
        order = stream(seed, "devices of a trace").permutation(chosen.devices)
    elif rule == "arrival":
        order = np.argsort(chosen.time[chosen.first[:-1]], kind="stable")
    elif rule == "names":
        order = np.array(sorted(range(chosen.devices), key=chosen.names.__getitem__), np.int64)
    elif clients in (None, chosen.devices):
        return chosen
    else:
        order = np.arange(chosen.devices)
    return chosen.only(order[:clients])


def _around(chosen: Selection) -> Selection:
    """The same, with the fixes beside the window."""
    assert chosen.around is not None
    return chosen.around


@functools.lru_cache(maxsize=2)
def _runs(chosen: Selection, max_gap: float) -> np.ndarray:
    return chosen.runs(max_gap + ROUNDING)


def _has_fix(chosen: Selection, begin: float, end: float) -> tuple[np.ndarray, np.ndarray]:
    """Whether each client has a fix in [begin, end), and its first fix at begin or later (as `Selection.seek`)."""
    at = chosen.seek(begin - ROUNDING)
    return (at < chosen.first[1:]) & (chosen.time[np.minimum(at, len(chosen.time) - 1)] < end - ROUNDING), at


def _seen(chosen: Selection, begin: float, end: float, dwell: float) -> tuple[np.ndarray, np.ndarray]:
    """Who has a fix in [begin, end), or one before with `dwell` not over at begin; and where."""
    fresh, at = _has_fix(chosen, begin, end)
    before = np.maximum(at - 1, chosen.first[:-1])
    stays = ~fresh & (at > chosen.first[:-1]) & (chosen.time[before] + dwell > begin + ROUNDING)
    return fresh | stays, chosen.point[np.where(fresh, at, before)]


def _known(chosen: Selection, moment: float, max_gap: float) -> tuple[np.ndarray, np.ndarray]:
    """Whose place is known at a moment, on a fix or between two at most `max_gap` apart; and where."""
    after = chosen.seek(moment - ROUNDING)
    has_after, has_before = after < chosen.first[1:], after > chosen.first[:-1]
    after = np.minimum(after, chosen.first[1:] - 1)
    before = np.where(has_before, after - has_after, after)
    on_fix = has_after & (chosen.time[after] <= moment + ROUNDING)
    gap = chosen.time[after] - chosen.time[before]
    between = has_after & has_before & (gap <= max_gap + ROUNDING)
    share = np.divide(moment - chosen.time[before], gap, out=np.zeros(len(gap)), where=between & ~on_fix)
    a, b = chosen.point[before], chosen.point[after]
    return on_fix | between, np.where(on_fix[:, None], b, a + share[:, None] * (b - a))


def _way(
    chosen: Selection,
    times: tuple[float, float],
    here: np.ndarray,
    stayed: np.ndarray,
    start: np.ndarray,
    end: np.ndarray,
    max_gap: float,
) -> Paths:
    """Paths through all fixes between two times (s), for clients that are known at the second (`here`).

    Those who `stayed` begin at `start`. The others begin where they were at the first time if it is known and no gap
    lies between, or else wait at the first fix after the last gap. float64 [clients, 2] for `start` and `end`.
    """
    begin, finish = times
    last = len(chosen.time) - 1
    low, high = chosen.seek(begin + ROUNDING), chosen.seek(finish - ROUNDING)
    onto = (high < chosen.first[1:]) & (chosen.time[np.minimum(high, last)] <= finish + ROUNDING)
    run = _runs(chosen, max_gap)[np.clip(np.where(onto, high, high - 1), 0, last)]
    new = here & ~stayed
    late = new & (chosen.time[run] > begin + ROUNDING)
    low = np.where(late, run, low)
    earlier = _known(chosen, begin, max_gap)[1]
    start = np.where(new[:, None], np.where(late[:, None], chosen.point[run], earlier), start)
    inner = np.where(here, np.maximum(high - low, 0), 0)
    first = np.concatenate([[0], np.cumsum(inner + 2)]).astype(np.int64)
    time, point = np.empty(first[-1]), np.empty((first[-1], 2))
    middle = np.ones(first[-1], dtype=bool)
    middle[first[:-1]] = middle[first[1:] - 1] = False
    owner = np.repeat(np.arange(len(inner)), inner)
    fix = np.arange(len(owner)) - np.repeat(np.cumsum(inner) - inner, inner) + low[owner]
    time[first[:-1]], time[first[1:] - 1] = 0.0, 1.0
    point[first[:-1]], point[first[1:] - 1] = start, end
    time[middle] = np.clip((chosen.time[fix] - begin) / (finish - begin), 0.0, 1.0)
    point[middle] = chosen.point[fix]
    return Paths(first, time, point, here)


def points_of_interest(trace: Trace, chosen: Selection) -> np.ndarray:
    """The venues of a trace that lie within the bounds of the selected fixes, float64 [venues, 2], metres.

    Each stands where its first fix in the trace has it, and whether it is visited in the selected time does not
    matter. Where the trace names no venues: every distinct place of a selected fix, ordered by x and y.
    """
    if trace.venue is None:
        return np.unique(chosen.point, axis=0)
    point = trace.point[np.unique(trace.venue, return_index=True)[1]]
    x0, y0, x1, y1 = chosen.bounds
    low, high = np.array([x0, y0]), np.array([x1, y1])
    return point[((point >= low) & (point <= high)).all(axis=1)]
