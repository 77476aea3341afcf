"""What a round under the clock asks of the batteries, step by step, and who runs empty in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fedroam.clock.deaths import Couplings
from fedroam.contacts import contact_intervals
from fedroam.contacts.ragged import rising, stable_order
from fedroam.cost import Paid, Tariff
from fedroam.devices import (
    Battery,
    Motion,
    Use,
    charging_edges,
    charging_ways,
    emptied,
    motion_power,
    power_of,
)
from fedroam.federation import Traffic
from fedroam.mobility import Paths

MOTION, RADIO, TRAINING, CHARGERS = range(4)  # what steps are cut by
SPARE = 1e-6  # of a charge: more than rounding ever takes


@dataclass(frozen=True)
class Supply:
    """Where the energy of a round comes from and goes to.

    state: the batteries before it. begin: s, since the start. paths: everybody's ways, of which those who are present
    are in the world at all. length: s, for which everybody moves; then all stand. access_points: float64 [access
    points, 2], m, at which devices charge, if the battery says that they charge at places. owed: J, float64 [clients],
    what is still to be paid for local work of earlier rounds; None: nothing.
    """

    battery: Battery
    motion: Motion
    tariff: Tariff
    state: Mapping[str, np.ndarray]
    begin: float
    paths: Paths
    length: float
    access_points: np.ndarray
    owed: np.ndarray | None = None
    _told: dict[tuple[str, float], tuple[np.ndarray, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def told(
        self, what: str, seconds: float, find: Callable[[Supply, float], tuple[np.ndarray, ...]]
    ) -> tuple[np.ndarray, ...]:
        """What `find` tells of a round of so many seconds, found once: it is the same in all plans of it."""
        if (what, seconds) not in self._told:
            self._told[what, seconds] = find(self, seconds)
        return self._told[what, seconds]


@dataclass(frozen=True)
class Tries:
    """What is sent, one entry for each time that it is tried; begun, stopped: float64 [tries], s, from when to when."""

    traffic: Traffic
    begun: np.ndarray
    stopped: np.ndarray


@dataclass(frozen=True)
class Doings:
    """What clients do in a round that takes energy.

    trains, trained: float64 [clients], s, when each begins and ends local work; the same for none. work: all local work
    that is paid for. linked: int64 [any, 2], whose times
    depend on each other: nodes that want to send to each other, or hear each other. couplings: tells how and when.
    """

    trains: np.ndarray
    trained: np.ndarray
    work: Paid
    tries: Tries
    linked: np.ndarray
    couplings: Callable[[], Couplings]


def use_of(
    supply: Supply, doings: Doings, seconds: float, dies: np.ndarray, *, at_begin: bool = False
) -> Use:
    """What a round of so many seconds asks of the batteries. dies: s, float64 [clients], when each is known to run
    empty; infinite for others. at_begin: whether each try draws all that it does as it begins, and not evenly.

    What is asked of a client up to a moment follows, bit for bit, from what the client itself has begun by then: it is
    summed up client by client, and in an order that nothing else changes.
    """
    clients, tries = supply.paths.clients, doings.tries
    cost = supply.tariff.cost(tries.traffic)
    worker, for_work = supply.tariff.joules(doings.work, supply.owed)
    trained = np.maximum(doings.trained, doings.trains)
    busy = np.flatnonzero(trained > doings.trains)
    order = rising(tries.begun)
    for node in (tries.traffic.receiver, tries.traffic.sender):
        lowest = int(node.min(initial=0))  # other nodes than clients stand below 0
        order = order[stable_order(node[order] - lowest, int(node.max(initial=0)) - lowest + 1)]
    sent, got = (
        (ends[order], tries.begun[order], tries.stopped[order], joules[order])
        for ends, joules in (
            (tries.traffic.sender, cost.energy_up),
            (tries.traffic.receiver, cost.energy_down),
        )
    )
    paid = (
        worker,
        doings.trains[worker],
        trained[worker],
        for_work,
    )
    who, begin, end, joules = (np.concatenate(each) for each in zip(sent, got, paid, strict=True))
    own = (who >= 0) & (joules > 0)
    tried = np.arange(len(who))[own] < 2 * len(order)
    who, begin, end, joules = who[own].astype(np.int64), begin[own], end[own], joules[own]
    *ways, motion = supply.told("motion", seconds, _motion)
    edges = charging_edges(supply.battery, supply.begin, seconds)
    told = np.flatnonzero(np.isfinite(dies))
    marks = (
        np.concatenate([np.repeat(np.arange(clients), 2 + len(edges)), told]),
        np.concatenate([np.tile(np.concatenate([[0.0, seconds], edges]), clients), dies[told]]),
    )
    steps = _Steps.of(
        clients,
        [
            tuple(ways),
            (who, begin, end),
            (busy, doings.trains[busy], trained[busy]),
            supply.told("chargers", seconds, _near_chargers),
        ],
        marks,
        seconds,
    )
    lasts = end - begin
    even = (lasts > 0) & ~tried if at_begin else lasts > 0
    power = np.divide(joules, lasts, out=np.zeros(len(joules)), where=even)
    return Use(
        supply.begin,
        steps.ends,
        supply.paths.present,
        steps.sums(MOTION, motion),
        steps.sums(RADIO, power),
        steps.inside(TRAINING).astype(np.float64),
        steps.inside(CHARGERS).astype(np.float64),
        steps.at_begin(RADIO, np.where(even, 0.0, joules)),
        dies,
    )


def soonest_deaths(supply: Supply, doings: Doings, seconds: float) -> np.ndarray:
    """Before which moment nobody runs empty who begins what is planned, at the same times, and may be cut short in any
    of it; s, float64 [clients], infinite for who never does.

    That is so where what is sent for a shorter time costs no more, and a battery of which more is asked, or sooner, or
    which gets less, is not empty later.
    """
    use = use_of(supply, doings, seconds, np.full(supply.paths.clients, np.inf), at_begin=True)
    at_once = use.at_once.copy(order="K")
    at_once[:, 0] += SPARE * supply.state["charge"]
    return emptied(supply.battery, supply.state, replace(use, near=np.zeros_like(use.near), at_once=at_once))


def _near_chargers(supply: Supply, seconds: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """From when to when clients are where they charge, clients (int64) and seconds: near an access point, or at a place
    of the battery's own."""
    own_radius, places = charging_ways(supply.battery)
    kinds = [(radius, places[places[:, 2] == radius, :2]) for radius in np.unique(places[:, 2]).tolist()]
    if own_radius is not None or not kinds:
        kinds.append((own_radius, supply.access_points))
    found = [near_intervals(supply.paths, *kind, seconds, supply.length) for kind in kinds]
    who, begin, end = (np.concatenate(each) for each in zip(*found, strict=True))
    return who, begin, end


def near_intervals(
    paths: Paths, radius: float | None, places: np.ndarray, seconds: float, length: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """From when to when clients are within `radius` (m; None: always) of a place: clients (int64), and seconds."""
    clients, count = paths.clients, len(places)
    if radius is None:
        return np.arange(clients), np.zeros(clients), np.full(clients, seconds)
    if not count:
        return np.zeros(0, np.int64), np.zeros(0), np.zeros(0)
    still = Paths.still(places)
    both = Paths(
        np.concatenate([paths.first, paths.first[-1] + still.first[1:]]),
        np.concatenate([paths.time, still.time]),
        np.concatenate([paths.point, still.point]),
        np.concatenate([paths.present, still.present]),
    )
    here = np.flatnonzero(paths.present)
    pairs = np.stack([np.repeat(here, count), np.tile(np.arange(count) + clients, len(here))], axis=1)
    found = contact_intervals(both, radius, pairs)
    close = np.where(found.close == 1.0, max(seconds, length), found.close * length)
    return found.i.astype(np.int64), found.open * length, np.minimum(close, seconds)


def _motion(supply: Supply, seconds: float) -> tuple[np.ndarray, ...]:
    """Of each leg of each way, and of standing after it: client, from when to when, and W."""
    paths, length, clients = supply.paths, supply.length, supply.paths.clients
    power, _ = motion_power(supply.motion, paths, length)
    who = np.repeat(np.arange(clients), np.diff(paths.first) - 1)
    first = np.ones(len(paths.time), dtype=bool)
    first[paths.first[1:] - 1] = False  # the point in which each leg begins
    begin = paths.time[first] * length
    last = np.ones(len(paths.time), dtype=bool)
    last[paths.first[:-1]] = False
    end = paths.time[last] * length
    parts = (
        np.concatenate([who, np.arange(clients)]),
        np.concatenate([begin, np.full(clients, length)]),
        np.concatenate([end, np.full(clients, max(seconds, length))]),
        np.concatenate([power, power_of(supply.motion, np.zeros(clients))]),
    )
    draws = np.flatnonzero((parts[3] > 0) & (parts[2] > parts[1]))
    return tuple(part[draws] for part in parts)


@dataclass(frozen=True)
class _Steps:
    """A round cut where anything of a client begins or ends: a row of steps for each client.

    ends: float64 [clients, steps], s, when each ends; the round's end behind a client's own. sides: for each group of
    intervals, after which step of its client each begins and ends, int64, as places in [1 + steps, clients], flat.
    """

    ends: np.ndarray
    sides: list[tuple[np.ndarray, np.ndarray]]

    @classmethod
    def of(
        cls,
        clients: int,
        groups: Sequence[tuple[np.ndarray, ...]],
        marks: tuple[np.ndarray, np.ndarray],
        seconds: float,
    ) -> _Steps:
        """groups: intervals (client, from, to). marks: further moments (client, s)."""
        who, when = [marks[0]], [marks[1]]
        for client, begin, end in groups:
            who += [client, client]
            when += [begin, end]
        client, time = np.concatenate(who), np.clip(np.concatenate(when), 0.0, seconds)
        # Most of it begins or ends with the round: what lies between is put in order.
        between = np.flatnonzero((time > 0) & (time < seconds))
        order = between[rising(time[between])]
        order = order[stable_order(client[order], clients)]
        own, moment = client[order], time[order]
        fresh = np.ones(len(own), dtype=bool)
        fresh[1:] = (own[1:] != own[:-1]) | (moment[1:] != moment[:-1])
        count = np.bincount(own[fresh], minlength=clients)
        width = int(count.max(initial=0)) + 2
        step = np.cumsum(fresh) - (np.cumsum(count) - count)[own]
        # In memory step by step, as sums run over steps.
        ends = np.full((width, clients), seconds)
        ends[0] = 0.0
        ends[step[fresh], own[fresh]] = moment[fresh]
        place = np.where(time > 0, (count + 2)[client], 1) * clients + client
        place[order] = (step + 1) * clients + own
        sides = np.split(place, np.cumsum([len(side) for side in who]))[1:-1]
        return cls(ends.T, list(zip(sides[::2], sides[1::2], strict=True)))

    def sums(self, group: int, power: np.ndarray) -> np.ndarray:
        """What the intervals that each step lies in come to together, float64 [clients, steps]. power: of each."""
        low, high = self.sides[group]
        some = power > 0  # elsewhere it is nothing, without rounding
        if not some.any():
            return np.zeros(self.ends.shape[::-1]).T
        inside = self._inside(low[some], high[some])
        change = self._at(low, power) - self._at(high, power)
        return np.where(inside, np.cumsum(change, axis=0)[:-1], 0.0).T

    def inside(self, group: int) -> np.ndarray:
        """Whether each step lies in any of the intervals, bool [clients, steps]."""
        return self._inside(*self.sides[group]).T

    def at_begin(self, group: int, amount: np.ndarray) -> np.ndarray:
        """The amounts of intervals, in the step at whose end each interval begins, float64 [clients, steps]."""
        return self._at(self.sides[group][0], amount)[1:].T

    def _inside(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Whether each step lies in any interval with these sides, bool [steps, clients]."""
        clients, steps = self.ends.shape
        if not len(low):
            return np.zeros((steps, clients), dtype=bool)
        change = np.bincount(low, minlength=clients * (1 + steps))
        change -= np.bincount(high, minlength=clients * (1 + steps))
        return np.asarray(np.cumsum(change.reshape(1 + steps, clients), axis=0)[:-1] > 0)

    def _at(self, side: np.ndarray, amount: np.ndarray) -> np.ndarray:
        """Amounts summed up at these places, in their order, float64 [1 + steps, clients]."""
        clients, steps = self.ends.shape
        found = np.bincount(side, amount, minlength=clients * (1 + steps)).astype(np.float64, copy=False)
        return found.reshape(1 + steps, clients)
