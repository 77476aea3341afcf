"""What a round under the clock asks of the batteries, step by step, and who runs empty in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from fedroam.contacts import contact_intervals
from fedroam.cost import Tariff
from fedroam.devices import Battery, ChargesAtPlaces, Motion, Use, motion_power
from fedroam.federation import Traffic
from fedroam.learning import Job
from fedroam.mobility import Paths

MOTION, RADIO, TRAINING = range(3)


@dataclass(frozen=True)
class Supply:
    """Where the energy of a round comes from and goes to.

    state: the batteries before it. begin: s, since the start. paths: everybody's ways, of which those who are present
    are in the world at all. length: s, for which everybody moves; then all stand. access_points: float64 [access
    points, 2], m, at which devices charge, if the battery says that they charge at places.
    """

    battery: Battery
    motion: Motion
    tariff: Tariff
    state: Mapping[str, np.ndarray]
    begin: float
    paths: Paths
    length: float
    access_points: np.ndarray


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
    that is paid for, and the share of each piece that is done, float64 [jobs]. linked: int64 [any, 2], whose times
    depend on each other: nodes that want to send to each other, or hear each other.
    """

    trains: np.ndarray
    trained: np.ndarray
    work: tuple[Sequence[Job], np.ndarray]
    tries: Tries
    linked: np.ndarray


def use_of(supply: Supply, doings: Doings, seconds: float, dies: np.ndarray) -> Use:
    """What a round of so many seconds asks of the batteries. dies: s, float64 [clients], when each is known to run
    empty; infinite for others."""
    paths, tariff, clients = supply.paths, supply.tariff, supply.paths.clients
    who, begin, end, much, what = _motion(supply, seconds)
    tries = doings.tries
    cost = tariff.radio.cost(tries.traffic, tariff.distances)
    for ends, joules in (
        (tries.traffic.sender, cost.energy_up),
        (tries.traffic.receiver, cost.energy_down),
    ):
        own = np.flatnonzero((ends >= 0) & (joules > 0))
        who.append(ends[own].astype(np.int64))
        begin.append(tries.begun[own])
        end.append(tries.stopped[own])
        much.append(joules[own])
        what.append(np.full(len(own), RADIO))
    worker, passes = tariff.passes.of(doings.work[0])
    paid = tariff.radio.training(worker, passes) * doings.work[1]
    busy = np.flatnonzero(doings.trained > doings.trains)
    lasts = (doings.trained - doings.trains)[busy]
    for own, joules, kind in ((worker, paid, RADIO), (busy, lasts, TRAINING)):
        who.append(own)
        begin.append(doings.trains[own])
        end.append(np.maximum(doings.trained, doings.trains)[own])
        much.append(joules)
        what.append(np.full(len(own), kind))
    near = _near_chargers(supply, seconds)
    edges = supply.battery.edges(supply.begin, seconds)
    told = np.flatnonzero(np.isfinite(dies))
    marks = (
        np.concatenate([np.repeat(np.arange(clients), 2 + len(edges)), told]),
        np.concatenate([np.tile(np.concatenate([[0.0, seconds], edges]), clients), dies[told]]),
    )
    steps = _Steps.of(
        clients, [(np.concatenate(who), np.concatenate(begin), np.concatenate(end)), near], marks, seconds
    )
    kinds, amount = np.concatenate(what), np.concatenate(much)
    motion, radio, training = (
        steps.padded(steps.spread(0, np.where(kinds == each, amount, 0.0)))
        for each in (MOTION, RADIO, TRAINING)
    )
    inside = steps.padded((steps.covered(1) > 0).astype(np.float64))
    ends = steps.padded(steps.end, seconds)
    return Use(supply.begin, ends, paths.present, motion, radio, training, inside, dies)


def first_to_die(supply: Supply, use: Use, linked: np.ndarray, dies: np.ndarray) -> np.ndarray:
    """When those run empty of whom that is certain, s, float64 [clients]; infinite for all others, and for those of
    whom it is known (dies: finite).

    Who runs empty changes what others send from then on. So of those whose times depend on each other (`linked`) only
    the first is certain.
    """
    empty = np.where(np.isfinite(dies), np.inf, supply.battery.empty(supply.state, use))
    if np.isinf(empty).all():
        return empty
    clients = len(empty)
    nodes = max(clients, int(linked.max(initial=-1)) + 1)
    edges = sparse.coo_array((np.ones(len(linked), dtype=bool), tuple(linked.T)), shape=(nodes, nodes))
    group = csgraph.connected_components(edges.tocsr(), directed=False)[1][:clients]
    earliest = np.full(int(group.max()) + 1, np.inf)
    np.minimum.at(earliest, group, empty)
    return np.where(empty == earliest[group], empty, np.inf)


def _near_chargers(supply: Supply, seconds: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """From when to when clients are where they charge, clients (int64) and seconds: near an access point, or at a place
    of the battery's own."""
    battery = supply.battery
    places = battery.charging_places() if isinstance(battery, ChargesAtPlaces) else np.zeros((0, 3))
    kinds = [(radius, places[places[:, 2] == radius, :2]) for radius in np.unique(places[:, 2]).tolist()]
    if battery.charge_radius is not None or not kinds:
        kinds.append((battery.charge_radius, supply.access_points))
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


def _motion(supply: Supply, seconds: float) -> tuple[list[np.ndarray], ...]:
    """Of each leg of each way, and of standing after it: client, from when to when, joules, and that it is motion."""
    paths, length, clients = supply.paths, supply.length, supply.paths.clients
    power, lasts = motion_power(supply.motion, paths, length)
    legs = np.diff(paths.first) - 1
    who = np.repeat(np.arange(clients), legs)
    first = np.ones(len(paths.time), dtype=bool)
    first[paths.first[1:] - 1] = False  # the point in which each leg begins
    begin = paths.time[first] * length
    stand = supply.motion.power(np.zeros(clients)) * max(seconds - length, 0.0)
    far = np.full(clients, max(seconds, length))
    who = np.concatenate([who, np.arange(clients)])
    much = np.concatenate([power * lasts, stand])
    ends = (np.concatenate([begin, np.full(clients, length)]), np.concatenate([begin + lasts, far]))
    draws = np.flatnonzero(much > 0)
    return ([who[draws]], [ends[0][draws]], [ends[1][draws]], [much[draws]], [np.full(len(draws), MOTION)])


@dataclass(frozen=True)
class _Steps:
    """A round cut where anything of a client begins or ends, client by client; flat arrays [steps].

    client: int64, ascending. start, end: s. after: for each group of intervals and each side of them, the first step
    after that moment, int64.
    """

    clients: int
    client: np.ndarray
    start: np.ndarray
    end: np.ndarray
    after: list[tuple[np.ndarray, np.ndarray]]

    @classmethod
    def of(
        cls,
        clients: int,
        groups: list[tuple[np.ndarray, np.ndarray, np.ndarray]],
        marks: tuple[np.ndarray, np.ndarray],
        seconds: float,
    ) -> _Steps:
        """groups: intervals (client, from, to). marks: further moments (client, s)."""
        who, when = [marks[0]], [np.clip(marks[1], 0.0, seconds)]
        for client, begin, end in groups:
            who += [client, client]
            when += [np.clip(begin, 0.0, seconds), np.clip(end, 0.0, seconds)]
        client, time = np.concatenate(who), np.concatenate(when)
        order = np.lexsort((time, client))
        client, time = client[order], time[order]
        fresh = np.ones(len(client), dtype=bool)
        fresh[1:] = (client[1:] != client[:-1]) | (time[1:] != time[:-1])
        last = np.append(np.flatnonzero(fresh)[1:], len(client))  # after the last step of each moment
        place = np.empty(len(order), dtype=np.int64)
        place[order] = last[np.cumsum(fresh) - 1]
        begins = np.append(True, client[1:] != client[:-1])
        start = np.where(begins, 0.0, np.roll(time, 1))
        sides = np.split(place, np.cumsum([len(side) for side in who]))[1:-1]
        return cls(clients, client, start, time, list(zip(sides[::2], sides[1::2], strict=True)))

    def spread(self, group: int, much: np.ndarray) -> np.ndarray:
        """So much of each interval, spread evenly over it, [steps]; what takes no time falls to a step of no time."""
        low, high = self.after[group]
        lasts = self.end[high - 1] - self.end[low - 1]
        power = np.divide(much, lasts, out=np.zeros(len(much)), where=lasts > 0)
        change = np.zeros(len(self.client) + 1)
        np.add.at(change, low, power)
        np.add.at(change, high, -power)
        inside = self._any(low, high, much > 0)
        found = np.asarray(np.where(inside, np.cumsum(change)[:-1], 0.0) * (self.end - self.start))
        at_once = np.flatnonzero(lasts <= 0)
        np.add.at(found, high[at_once] - 1, much[at_once])
        return found

    def covered(self, group: int) -> np.ndarray:
        """How many intervals each step lies in, int64 [steps]."""
        low, high = self.after[group]
        change = np.zeros(len(self.client) + 1, dtype=np.int64)
        np.add.at(change, low, 1)
        np.add.at(change, high, -1)
        return np.asarray(np.cumsum(change)[:-1])

    def _any(self, low: np.ndarray, high: np.ndarray, some: np.ndarray) -> np.ndarray:
        """Which steps lie in any of these intervals: elsewhere a power is nothing, without rounding."""
        change = np.zeros(len(self.client) + 1, dtype=np.int64)
        np.add.at(change, low[some], 1)
        np.add.at(change, high[some], -1)
        return np.asarray(np.cumsum(change)[:-1] > 0)

    def padded(self, values: np.ndarray, rest: float = 0.0) -> np.ndarray:
        """As a row for each client, float64 [clients, steps of who has most]; `rest` behind those of who has fewer."""
        count = np.bincount(self.client, minlength=self.clients)
        first = np.cumsum(count) - count
        found = np.full((self.clients, int(count.max(initial=0))), rest)
        found[self.client, np.arange(len(self.client)) - first[self.client]] = values
        return found
