"""Batteries: what devices have, draw and get, and who is gone until charged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from pydantic import model_validator

from fedroam.components import Part, field, register
from fedroam.randomness import stream

WATT_HOUR = 3600.0  # J
DAY = 24 * 3600.0  # s
SUMMED = ("charge", "gone", "drawn", "drawn_motion")  # what is told of all devices together


@dataclass(frozen=True)
class Use:
    """What a round asks of the batteries, arrays float64 [clients].

    begin, seconds: s, when it begins and how long it lasts. there: which clients are in the world at all, bool.
    motion, radio: J. training: s. near: share of the round within reach of a charger.
    """

    begin: float
    seconds: float
    there: np.ndarray
    motion: np.ndarray
    radio: np.ndarray
    training: np.ndarray
    near: np.ndarray


@runtime_checkable
class Battery(Protocol):
    """How much energy devices have. Its state is a mapping of plain arrays [clients], empty where nobody runs out:
    `charge` (J), `gone` (bool), and since the start `drawn` and `drawn_motion` (J), and `died` (s, NaN: not yet)."""

    @property
    def charge_radius(self) -> float | None:
        """How near to an access point devices charge, m; None: anywhere."""

    def start(self, seed: int, clients: int) -> dict[str, np.ndarray]:
        """The state before round 1."""

    def step(self, state: Mapping[str, np.ndarray], use: Use) -> dict[str, np.ndarray]:
        """The state after a round."""


@register("battery", "none")
class Mains(Part):
    """Nobody runs out of energy."""

    charge_radius: ClassVar[float | None] = None

    def start(self, seed: int, clients: int) -> dict[str, np.ndarray]:
        """Nothing to keep."""
        return {}

    def step(self, state: Mapping[str, np.ndarray], use: Use) -> dict[str, np.ndarray]:
        """Nothing to keep."""
        return {}


@register("battery", "battery")
class Limited(Part):
    """Every device has a battery, and is gone from when it is empty until it is charged to a level.

    In a round a device draws `idle` all the time, `training` besides while it trains, what `[radio]` charges for what
    it sends, receives and computes, and what `[motion]` takes for its way. It gets `charger` while it is charged: daily
    from `charge_from` to `charge_until`, near an access point if `charge_radius` says so. Within a round, drawing and
    charging are spread evenly: so who runs empty in it does that at a moment between, plays the round to its end on
    what is left, and is away from the next round on. Who is gone draws nothing, charges, goes on along its way, and is
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

    @model_validator(mode="after")
    def _in_order(self) -> Limited:
        if self.start_lowest is not None and self.start_lowest > self.start_charge:
            raise ValueError(
                f"start_lowest = {self.start_lowest:g} is above start_charge = {self.start_charge:g}"
            )
        return self

    def start(self, seed: int, clients: int) -> dict[str, np.ndarray]:
        """Full, or as the two shares say; an empty one is gone from the start."""
        share = np.full(clients, self.start_charge)
        if self.start_lowest is not None:
            drawn = stream(seed, "battery").random(clients)
            share = self.start_lowest + drawn * (self.start_charge - self.start_lowest)
        return {
            "charge": share * self.capacity * WATT_HOUR,
            "gone": share == 0,
            "drawn": np.zeros(clients),
            "drawn_motion": np.zeros(clients),
            "died": np.where(share == 0, 0.0, np.nan),
        }

    def step(self, state: Mapping[str, np.ndarray], use: Use) -> dict[str, np.ndarray]:
        """Charge after the round, and who is gone then."""
        full, before, gone = self.capacity * WATT_HOUR, state["charge"], state["gone"]
        on = use.there & ~gone
        moving = np.where(on, use.motion, 0.0)
        idle = np.where(on, self.idle * use.seconds, 0.0)
        drawn = moving + idle + np.where(on, self.training * use.training + use.radio, 0.0)
        got = np.where(use.there, use.near * self.charger * self.charging(use.begin, use.seconds), 0.0)
        after = np.minimum(before + got - drawn, full)
        empty = on & (after <= 0)
        share = np.divide(before, drawn - got, out=np.ones(len(before)), where=empty & (drawn > got))
        met = np.divide(before + got, drawn, out=np.ones(len(before)), where=empty & (drawn > 0))
        after = np.maximum(after, 0.0)
        return {
            "charge": after,
            "gone": np.where(gone, after < self.restart * full, empty),
            "drawn": state["drawn"] + met * drawn,
            "drawn_motion": state["drawn_motion"] + met * moving,
            "died": np.where(empty & np.isnan(state["died"]), use.begin + share * use.seconds, state["died"]),
        }

    def charging(self, begin: float, seconds: float) -> float:
        """Seconds of the time from `begin` on (s since the start) that lie in the hours of charging."""
        opens, closes = 3600.0 * self.charge_from, 3600.0 * self.charge_until
        if closes < opens:
            closes += DAY
        first = begin + 3600.0 * self.day_start

        def until(time: float) -> float:
            """Charging time from the first day's opening to a time of the clock."""
            days = np.floor((time - opens) / DAY)
            return float(days * (closes - opens) + min(time - opens - days * DAY, closes - opens))

        return until(first + seconds) - until(first)
