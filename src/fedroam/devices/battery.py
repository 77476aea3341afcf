"""Batteries: what devices have, draw and get, and who is gone until charged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from pydantic import Field, model_validator

from fedroam.checks.answers import (
    as_array,
    checked_number,
    checked_numbers,
    found_as,
    kept_state,
    only_to_read,
    plain_arrays,
    same_again,
)
from fedroam.components import Part, answer_of, field, ours, register
from fedroam.devices.classes import Positive, drawn_class
from fedroam.errors import InputError
from fedroam.randomness import stream

WATT_HOUR = 3600.0  # J
DAY = 24 * 3600.0  # s
ROUNDING = 1e-12  # of a full charge
Metres = Annotated[float, Field(allow_inf_nan=False)]
Place = tuple[Metres, Metres, Annotated[float, Field(ge=0, allow_inf_nan=False)]]  # x, y, radius
Hour = Annotated[float, Field(ge=0, le=24)]
SUMMED = ("charge", "gone", "drawn", "drawn_motion")  # what is told of all devices together
STATE = (*SUMMED, "died")


@dataclass(frozen=True)
class Use:
    """What a round asks of the batteries, step by step; arrays float64 [clients, steps], in each of which all is even.

    begin: s, when the round begins. ends: s, when each step ends, rising, the last one with the round; a step may be of
    no duration, and none goes on beyond a moment of `Battery.edges`. there: which clients are in the world at all, bool
    [clients]. motion, radio: W. training, near: how many pieces of work are under way, and whether a charger is within
    reach, 1 or 0. at_once: J of what the radio takes for something without duration, at the end of its step. dies: s,
    float64 [clients], when each is known to run empty; infinite for others.

    Powers, and not joules, so that what comes after a moment changes no bit of when a battery is empty before it.
    """

    begin: float
    ends: np.ndarray
    there: np.ndarray
    motion: np.ndarray
    radio: np.ndarray
    training: np.ndarray
    near: np.ndarray
    at_once: np.ndarray
    dies: np.ndarray

    def radio_joules(self) -> np.ndarray:
        """What the radio of each client asks for in all, J, float64 [clients]."""
        joules = self.radio * np.diff(self.ends, axis=1, prepend=0.0) + self.at_once
        # In the order of memory, whatever that of the arrays is: sums are rounded as it goes.
        return np.asarray(np.ascontiguousarray(joules).sum(axis=1))

    def and_then(self, radio: np.ndarray) -> Use:
        """With so many further joules of each client's radio (float64 [clients]) as the round ends."""
        at_once = self.at_once.copy(order="K")
        at_once[:, -1] += radio
        return replace(self, at_once=at_once)


@runtime_checkable
class Battery(Protocol):
    """How much energy devices have. Its state is a mapping of plain arrays [clients], empty where nobody runs out:
    `charge` (J), `gone` (bool), and since the start `drawn` and `drawn_motion` (J), and `died` (s, NaN: not yet)."""

    @property
    def charge_radius(self) -> float | None:
        """How near to an access point devices charge, m; None: anywhere."""

    def edges(self, begin: float, seconds: float) -> np.ndarray:
        """When charging begins or ends in a time, both in s since the start: s since the time began, float64."""

    def start(self, seed: int, clients: int) -> dict[str, np.ndarray]:
        """The state before round 1."""

    def step(self, state: Mapping[str, np.ndarray], use: Use) -> dict[str, np.ndarray]:
        """The state after a round."""

    def empty(self, state: Mapping[str, np.ndarray], use: Use) -> np.ndarray:
        """When in a round each runs empty, s since it began, float64 [clients]; infinite for who does not. It follows
        from the client's own steps up to then, and from nothing else."""


@runtime_checkable
class ChargesAtPlaces(Protocol):
    """Batteries that charge at places of their own."""

    def charging_places(self) -> np.ndarray:
        """Where, and how near to it, float64 [places, 3]: x, y and radius, m. Without any: only as `charge_radius`
        says."""


def battery_at_start(battery: Battery, seed: int, clients: int) -> dict[str, np.ndarray]:
    """The state before round 1, as `Battery.start`; that of one's own is held against what it promises.

    Raises InputError where it is something else.
    """
    found = battery.start(seed, clients)
    if ours(battery):
        return found
    held = _held(battery, found, clients, 0, None)
    with answer_of("battery", battery, 0):
        same_again(held, plain_arrays(battery.start(seed, clients), "charge"))
    return held


def battery_after(
    battery: Battery, state: Mapping[str, np.ndarray], use: Use, round: int
) -> dict[str, np.ndarray]:
    """The state after a round, as `Battery.step`; raises as `battery_at_start` does. One's own is handed a state into
    which it cannot write."""
    if ours(battery):
        return battery.step(state, use)
    found = _held(battery, battery.step(only_to_read(state), deepcopy(use)), len(use.there), round, state)
    with answer_of("battery", battery, round):
        if found.keys() != state.keys():
            raise InputError(
                f"step gave {', '.join(sorted(found)) or 'nothing'}, allowed is what the state before it holds: "
                f"{', '.join(sorted(state)) or 'nothing'}"
            )
        for name in ("drawn", "drawn_motion"):
            less = np.flatnonzero(found[name] < state[name]) if found else np.zeros(0, np.int64)
            if len(less):
                k = int(less[0])
                raise InputError(
                    f"{name} of client {k} falls from {state[name][k]:g} to {found[name][k]:g} J; allowed are sums "
                    "since the start"
                )
    return found


def emptied(battery: Battery, state: Mapping[str, np.ndarray], use: Use) -> np.ndarray:
    """When in a round each runs empty, as `Battery.empty`; raises as `battery_at_start` does."""
    if ours(battery):
        return battery.empty(state, use)
    found = battery.empty(only_to_read(state), deepcopy(use))
    with answer_of("battery", battery):
        return checked_numbers("empty", found, len(use.there), "client", infinite=True)


def charging_edges(battery: Battery, begin: float, seconds: float) -> np.ndarray:
    """When charging begins or ends in a time, as `Battery.edges`; raises as `battery_at_start` does."""
    found = battery.edges(begin, seconds)
    if ours(battery):
        return found
    with answer_of("battery", battery):
        edges = as_array(found)
        if edges.ndim != 1 or edges.dtype.kind not in "iuf":
            raise InputError(f"edges gave {found_as(found)}, allowed are seconds, float64 [any number]")
        if not ((edges >= 0) & (edges <= seconds)).all() or (np.diff(edges) < 0).any():
            raise InputError(
                f"edges gave {', '.join(f'{edge:g}' for edge in edges[:5])} of a time of {seconds:g} s, allowed are "
                "rising seconds within it"
            )
        return edges.astype(np.float64)


def charging_ways(battery: Battery) -> tuple[float | None, np.ndarray]:
    """How near to an access point devices charge (m; None: anywhere), and the battery's own places, float64 [places,
    3]; raises as `battery_at_start` does."""
    radius = battery.charge_radius
    places = battery.charging_places() if isinstance(battery, ChargesAtPlaces) else np.zeros((0, 3))
    if ours(battery):
        return radius, places
    with answer_of("battery", battery):
        if radius is not None:
            radius = checked_number("charge_radius", radius, infinite=True)
        found = as_array(places)
        if found.ndim != 2 or found.shape[1] != 3 or found.dtype.kind not in "iuf":
            raise InputError(
                f"charging_places gave {found_as(places)}, allowed is x, y and radius of each, float64 [places, 3]"
            )
        if not np.isfinite(found[:, :2]).all() or not (found[:, 2] >= 0).all():
            raise InputError(
                "charging_places gave what is no place; allowed are numbers, and radii from 0 on"
            )
        return radius, found.astype(np.float64)


def _held(
    battery: Battery, found: Any, clients: int, round: int, before: Mapping[str, np.ndarray] | None
) -> dict[str, np.ndarray]:
    """The state that a battery of one's own gave, as it is to be; before: that before the round, if there was one."""
    with answer_of("battery", battery, round):
        arrays = plain_arrays(found, "charge")
        if not arrays:
            return arrays
        lacking = [name for name in STATE if name not in arrays]
        if lacking:
            raise InputError(
                f"its state lacks {', '.join(lacking)}; allowed are {', '.join(STATE)} and others, or none"
            )
        for name, array in arrays.items():
            if array.shape != (clients,):
                raise InputError(
                    f"{name} of its state is of shape {list(array.shape)}, allowed is one a client [{clients}]"
                )
        for name in ("charge", "drawn", "drawn_motion"):
            arrays[name] = checked_numbers(f"{name} of its state", arrays[name], clients, "client")
        gone, died = arrays["gone"], arrays["died"]
        if not np.isin(gone, (0, 1)).all():
            raise InputError("gone of its state holds others than truth values, or 0 and 1")
        if died.dtype.kind != "f" or (died < 0).any() or np.isinf(died).any():
            raise InputError("died of its state holds others than seconds from 0 on, or NaN (not yet)")
        return kept_state(arrays, before, gone=bool, died=np.float64)


@register("battery", "none")
class Mains(Part):
    """Nobody runs out of energy."""

    charge_radius: ClassVar[float | None] = None

    def start(self, seed: int, clients: int) -> dict[str, np.ndarray]:
        """Nothing to keep."""
        return {}

    def edges(self, begin: float, seconds: float) -> np.ndarray:
        """Never."""
        return np.zeros(0)

    def step(self, state: Mapping[str, np.ndarray], use: Use) -> dict[str, np.ndarray]:
        """Nothing to keep."""
        return {}

    def empty(self, state: Mapping[str, np.ndarray], use: Use) -> np.ndarray:
        """Never."""
        return np.full(len(use.there), np.inf)


@register("battery", "battery")
class Limited(Part):
    """Every device has a battery, and is gone from when it is empty until it is charged to a level.

    In a round a device draws `idle` all the time, `training` besides while it trains, what `[radio]` charges for what
    it sends, receives and computes, and what `[motion]` takes for its way. It gets `charger` while it is charged: daily
    from `charge_from` to `charge_until`, or in the hours of its class of devices; anywhere, or near an access point if
    `charge_radius` says so, or at `places`. Each power is even while it is on; what the radio takes for a transfer is
    spread over the time that it is sent. Who runs empty does that at the moment when the charge is 0: what it trained
    then is lost, and what it sent or received breaks. Who is gone draws nothing, charges, goes on along its way, and is
    back in the round after its charge has reached `restart`.

    The defaults are ours, of the order of a phone's.
    """

    capacity: float = field(15.0, "capacity", unit="Wh", gt=0, allow_inf_nan=False)
    start_charge: float = field(1.0, "charge in the beginning, as a share of the capacity", ge=0, le=1)
    start_lowest: float | None = field(
        None, "if set, each begins with a share drawn evenly from here to start_charge", ge=0, le=1
    )
    idle: float = field(0.3, "power of a device that is on", unit="W", ge=0, allow_inf_nan=False)
    training: float = field(3.0, "further power while it trains", unit="W", ge=0, allow_inf_nan=False)
    charger: float = field(0.0, "power while charging", unit="W", ge=0, allow_inf_nan=False)
    charge_from: float = field(0.0, "time of day from which on devices are charged", unit="h", ge=0, le=24)
    charge_until: float = field(
        24.0, "time of day until which they are; below charge_from: on the next day", unit="h", ge=0, le=24
    )
    charge_radius: float | None = field(
        None, "devices charge within this distance of an access point; not set: anywhere", unit="m", ge=0
    )
    day_start: float = field(0.0, "time of day at which the run begins", unit="h", ge=0, le=24)
    restart: float = field(0.2, "charge at which a device comes back, as a share of the capacity", gt=0, le=1)
    places: tuple[Place, ...] = field(
        (),
        "where devices charge, each as [x, y, radius], beside access points that charge_radius tells of; empty: "
        "as charge_radius says",
        unit="m",
        later=True,
    )
    hours: tuple[tuple[Hour, Hour], ...] = field(
        (),
        "times of day from which and until which devices of each class are charged, in the place of charge_from and "
        "charge_until",
        unit="h",
        later=True,
    )
    shares: tuple[Positive, ...] | None = field(
        None,
        "share of the devices in each class of hours, by their sum; not set: all alike. The same as those of compute "
        "are of the same devices",
        later=True,
    )

    @model_validator(mode="after")
    def _an_hour_each(self) -> Limited:
        if self.hours and (self.charge_from, self.charge_until) != (0.0, 24.0):
            raise ValueError(
                f"charge_from = {self.charge_from:g}, charge_until = {self.charge_until:g}: they are for all devices; "
                "with hours, allowed is neither"
            )
        if self.shares is not None and len(self.shares) != len(self.hours):
            raise ValueError(
                f"shares = {list(self.shares)}: allowed is one for each of the {len(self.hours)} hours"
            )
        return self

    @model_validator(mode="after")
    def _in_order(self) -> Limited:
        if self.start_lowest is not None and self.start_lowest > self.start_charge:
            raise ValueError(
                f"start_lowest = {self.start_lowest:g} is above start_charge = {self.start_charge:g}"
            )
        return self

    def start(self, seed: int, clients: int) -> dict[str, np.ndarray]:
        """Full, or as the two shares say; an empty one is gone from the start. Where there are hours of classes, with
        the `class` of each device."""
        share = np.full(clients, self.start_charge)
        if self.start_lowest is not None:
            drawn = stream(seed, "battery").random(clients)
            share = self.start_lowest + drawn * (self.start_charge - self.start_lowest)
        found = {
            "charge": share * self.capacity * WATT_HOUR,
            "gone": share == 0,
            "drawn": np.zeros(clients),
            "drawn_motion": np.zeros(clients),
            "died": np.where(share == 0, 0.0, np.nan),
        }
        if self.hours:
            shares = np.ones(len(self.hours)) if self.shares is None else np.array(self.shares)
            found["class"] = drawn_class(seed, np.arange(clients), shares)
        return found

    def step(self, state: Mapping[str, np.ndarray], use: Use) -> dict[str, np.ndarray]:
        """Charge after the round, and who is gone then."""
        full, gone = self.capacity * WATT_HOUR, state["gone"]
        after, drawn, moving, died = self._played(state, use)
        empty = np.isfinite(died)
        return {
            "charge": after,
            "gone": np.where(gone, after < self.restart * full, empty),
            "drawn": state["drawn"] + drawn,
            "drawn_motion": state["drawn_motion"] + moving,
            "died": np.where(empty & np.isnan(state["died"]), use.begin + died, state["died"]),
            **({"class": state["class"]} if self.hours else {}),
        }

    def empty(self, state: Mapping[str, np.ndarray], use: Use) -> np.ndarray:
        """When the charge is 0."""
        return self._played(state, use)[3]

    def _played(
        self, state: Mapping[str, np.ndarray], use: Use
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Charge after the round, what was drawn and what of it for moving, J, and when the charge was 0, s since the
        round began; float64 [clients] each."""
        full, charge = self.capacity * WATT_HOUR, state["charge"].copy()
        lives_on, known = use.there & ~state["gone"], np.isfinite(use.dies)
        died, start = np.full(len(charge), np.inf), np.zeros(len(charge))
        drawn, moving = np.zeros(len(charge)), np.zeros(len(charge))
        opens = self._opens(use, state.get("class"))
        for k in range(use.ends.shape[1]):
            # Of most devices nothing begins or ends in most steps; a step of no duration changes nothing but the first.
            some = np.flatnonzero((use.ends[:, k] > start) | (use.at_once[:, k] != 0)) if k else None
            own: slice | np.ndarray = slice(None) if some is None or 2 * len(some) > len(charge) else some
            begin, end, alive, ends_known = start[own], use.ends[own, k], lives_on[own], known[own]
            before, there, dies = charge[own], use.there[own], use.dies[own]
            motion = np.where(alive, use.motion[own, k], 0.0)
            lasts = end - begin
            power = motion + np.where(
                alive, self.idle + self.training * use.training[own, k] + use.radio[own, k], 0.0
            )
            gets = np.where(there, use.near[own, k] * self.charger * opens(begin, own), 0.0)
            at_once = np.where(alive, use.at_once[own, k], 0.0)
            asked = power * lasts + at_once
            net = power - gets
            left = np.minimum(before - net * lasts, full) - at_once
            # Of what is known to end its charge the moment is known; sums of many steps meet 0 up to rounding.
            natural = alive & ~ends_known & (left <= ROUNDING * full)
            # How long it lives in this step: what is asked at once is asked at its end.
            lives = np.divide(before, net, out=lasts.copy(), where=natural & (net * lasts > before))
            told = alive & ends_known & (end >= dies)
            empties = natural | told
            had = power * lives + np.minimum(before - net * lives, full)
            drawn[own] += np.where(natural, had, asked) + np.where(told, left, 0.0)
            moving[own] += motion * np.where(natural, lives, lasts)
            died[own] = np.where(natural, np.minimum(begin + lives, end), np.where(told, dies, died[own]))
            rest = np.where(natural, gets * (lasts - lives), 0.0)
            charge[own] = np.minimum(np.where(empties, rest, left), full)
            lives_on[own], start[own] = alive & ~empties, end
        return np.maximum(charge, 0.0), drawn, moving, died

    def _opens(
        self, use: Use, classes: np.ndarray | None
    ) -> Callable[[np.ndarray, slice | np.ndarray], np.ndarray]:
        """Tells of steps of some clients that begin at these moments (float64 [some], s since the round began) whether
        each is in the hours of charging, 1 or 0; float64 [some]."""
        seconds = float(use.ends.max(initial=0.0))
        edges = np.concatenate([[0.0], self.edges(use.begin, seconds), [seconds]])
        lasts, each = np.diff(edges), np.arange(len(self._hours()))
        # Between two edges all is open or all is closed: more or less than half, without rounding.
        part = [self.charging(use.begin + edges[:-1], lasts, np.full(len(lasts), one)) for one in each]
        is_open = (np.stack(part) > lasts / 2).astype(np.float64)
        own = np.zeros(len(use.ends), dtype=np.int64) if classes is None else classes

        def opens(start: np.ndarray, some: slice | np.ndarray) -> np.ndarray:
            if len(lasts) == 1:
                return np.asarray(is_open[own[some], 0])
            return np.asarray(is_open[own[some], np.searchsorted(edges[1:-1], start, side="right")])

        return opens

    def charging_places(self) -> np.ndarray:
        """`places`."""
        return np.array(self.places, dtype=np.float64).reshape(-1, 3)

    def charging(
        self, begin: np.ndarray | float, seconds: np.ndarray | float, classes: np.ndarray | None = None
    ) -> np.ndarray:
        """Seconds of the time from `begin` on (s since the start) that lie in the hours of charging: those of all, or
        of these classes (int64, one for each time)."""
        opens, closes = 3600.0 * (self._hours().T[:, 0] if classes is None else self._hours()[classes].T)
        closes = np.where(closes < opens, closes + DAY, closes)
        first = begin + 3600.0 * self.day_start

        def until(time: np.ndarray | float) -> np.ndarray:
            """Charging time from the first day's opening to a time of the clock."""
            days = np.floor((time - opens) / DAY)
            return np.asarray(days * (closes - opens) + np.minimum(time - opens - days * DAY, closes - opens))

        return np.asarray(until(first + seconds) - until(first))

    def edges(self, begin: float, seconds: float) -> np.ndarray:
        """When charging begins or ends in a time (s since the start), s since that began; float64."""
        first = begin + 3600.0 * self.day_start
        days = np.arange(np.floor(first / DAY) - 1, np.floor((first + seconds) / DAY) + 1) * DAY
        found = np.concatenate([days + 3600.0 * hour for hour in self._hours().flat]) - first
        return np.unique(found[(found > 0) & (found < seconds)])

    def _hours(self) -> np.ndarray:
        """Times of day from which and until which devices of each class are charged, h, float64 [classes, 2]."""
        return np.array(self.hours or ((self.charge_from, self.charge_until),))
