"""Random waypoints in a rectangle, from the first round on as after a long time."""

from __future__ import annotations

import numpy as np
from pydantic import model_validator

from fedroam.components import Part, field, register
from fedroam.mobility.random_walk import HEIGHT, MOST_CROSSINGS, WIDTH
from fedroam.mobility.world import Paths, State, World
from fedroam.randomness import stream


@register(
    "mobility",
    "random_waypoint",
    source="Johnson & Maltz, Mobile Computing 1996; steady state: Navidi & Camp, IEEE TMC 3(1), 2004",
)
class RandomWaypoint(Part):
    """Everybody goes straight to a place drawn uniformly, at a speed drawn for the way, rests there, and goes on.

    Speeds are uniform from `min_speed` to `max_speed`; a lowest speed of 0 is refused, since ways at next to none would
    last for ever (Yoon, Liu & Noble, INFOCOM 2003). The model has no warm-up: clients start as they are after a long
    time, more of them in the middle, on longer and slower ways than a new one is, and some at rest.

    Who goes where, and how fast between the two speeds, depends on the seed, the client and the number of its way
    alone: with twice the speeds and half the rest, the same ways take half the time.
    """

    width: float = WIDTH
    height: float = HEIGHT
    min_speed: float = field(10.0, "lowest speed", unit="m/round", gt=0, allow_inf_nan=False)
    max_speed: float = field(50.0, "highest speed", unit="m/round", gt=0, allow_inf_nan=False)
    pause: float = field(0.0, "rest at each place", unit="rounds", ge=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _speeds_fit(self) -> RandomWaypoint:
        if self.min_speed > self.max_speed:
            raise ValueError(
                f"min_speed = {self.min_speed:g} is above max_speed = {self.max_speed:g}: allowed is up to it"
            )
        side = min(self.width, self.height)
        if self.max_speed > MOST_CROSSINGS * side:
            raise ValueError(
                f"the fastest cross a world {side:g} m wide {self.max_speed / side:g} times a round "
                f"({self.max_speed:g} m): allowed are up to {MOST_CROSSINGS} times"
            )
        return self

    def start(self, world: World) -> dict[str, np.ndarray]:
        """Places, goals and speeds of the steady state, as Navidi & Camp draw them.

        `position`, `goal` (m), `speed` (m/round), `rest` (rounds that are left of it), all float64; `way`, int64, the
        number of the present one.
        """
        begin, goal = self._ways(world)
        draws = stream(world.seed, "waypoint start").random((world.clients, 6))
        travelling = mean_way(self.width, self.height) * self._mean_slowness()
        resting = draws[:, 0] * (self.pause + travelling) < self.pause
        following, speed = self._goals(world, np.zeros(world.clients, dtype=np.int64))
        on_the_way = begin + draws[:, 1:2] * (goal - begin)
        # Slow ways last longer: on the way, a speed v has a density as 1/v.
        moving = self.min_speed * (self.max_speed / self.min_speed) ** draws[:, 2]
        anywhere = draws[:, 3:5] * [self.width, self.height]
        return {
            "position": np.where(resting[:, None], anywhere, on_the_way),
            "goal": np.where(resting[:, None], following, goal),
            "speed": np.where(resting, speed, moving),
            "rest": np.where(resting, draws[:, 5] * self.pause, 0.0),
            "way": np.ones(world.clients, dtype=np.int64),
        }

    def step(self, state: State, world: World, round: int) -> tuple[dict[str, np.ndarray], Paths]:
        """Everybody rests and walks on, by as many places as the round has time for."""
        after = {name: array.copy() for name, array in state.items()}
        left, on = np.ones(world.clients), np.arange(world.clients)
        owners, times, points = [on], [np.zeros(world.clients)], [state["position"]]
        while len(on):
            waits = np.minimum(after["rest"][on], left[on])
            after["rest"][on] -= waits
            left[on] -= waits
            stood = on[waits > 0]
            here, goal = after["position"][on], after["goal"][on]
            needed = np.hypot(*(goal - here).T) / after["speed"][on]
            there = needed <= left[on]
            share = np.divide(left[on], needed, out=np.ones(len(on)), where=~there)
            owners.append(stood)
            times.append(1 - left[stood])
            points.append(after["position"][stood])
            after["position"][on] = np.where(there[:, None], goal, here + share[:, None] * (goal - here))
            left[on] = np.where(there, left[on] - needed, 0.0)
            on = on[there]  # the others' round is over on their way
            after["goal"][on], after["speed"][on] = self._goals(world, after["way"][on], on)
            after["rest"][on] = self.pause
            after["way"][on] += 1
            owners.append(on)
            times.append(1 - left[on])
            points.append(after["position"][on])
            on = on[left[on] > 0]
        return after, _paths(owners, times, points, after["position"])

    def bounds(self) -> tuple[float, float, float, float]:
        """The corners of the rectangle."""
        return (0.0, 0.0, self.width, self.height)

    def groups(self, world: World) -> np.ndarray:
        """All are `mobile`."""
        return np.full(world.clients, "mobile")

    def _speeds(self, draws: np.ndarray) -> np.ndarray:
        return np.asarray(self.min_speed + draws * (self.max_speed - self.min_speed))

    def _mean_slowness(self) -> float:
        """The mean of 1 / speed over new ways, rounds/m."""
        low, high = self.min_speed, self.max_speed
        return float(np.log(high / low) / (high - low)) if high > low else 1 / low

    def _ways(self, world: World) -> tuple[np.ndarray, np.ndarray]:
        """Begin and goal of the way that somebody is on at a moment: of uniform pairs, by their distance."""
        size = np.array([self.width, self.height])
        found, lacking, attempt = np.empty((world.clients, 4)), np.ones(world.clients, dtype=bool), 0
        while lacking.any():
            draws = stream(world.seed, "waypoint ways", attempt).random((world.clients, 5))
            apart = np.hypot(*((draws[:, :2] - draws[:, 2:4]) * size).T)
            taken = lacking & (draws[:, 4] * np.hypot(*size) < apart)
            found[taken] = draws[taken, :4]
            lacking &= ~taken
            attempt += 1
        return found[:, :2] * size, found[:, 2:] * size

    def _goals(
        self, world: World, way: np.ndarray, who: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Goals and speeds of some clients' ways of these numbers (int64; `who`, ascending: default all)."""
        own = np.arange(world.clients) if who is None else who
        found = np.empty((len(own), 3))
        for number in np.unique(way):  # a stream for each number of a way, and a row of it for each client
            some = np.flatnonzero(way == number)
            draws = stream(world.seed, "waypoints", int(number)).random((int(own[some[-1]]) + 1, 3))
            found[some] = draws[own[some]]
        return found[:, :2] * [self.width, self.height], self._speeds(found[:, 2])


def mean_way(width: float, height: float) -> float:
    """The mean distance of two uniform points of a rectangle, m (Ghosh, Bull. Calcutta Math. Soc. 43, 1951)."""
    a, b, d = width, height, float(np.hypot(width, height))
    ends = a**3 / b**2 + b**3 / a**2 + d * (3 - a**2 / b**2 - b**2 / a**2)
    return float(ends + 2.5 * (b**2 / a * np.log((a + d) / b) + a**2 / b * np.log((b + d) / a))) / 15


def _paths(
    owners: list[np.ndarray], times: list[np.ndarray], points: list[np.ndarray], end: np.ndarray
) -> Paths:
    """Paths by corners, in the order in which each client comes to them; corners at the round's end are its end."""
    clients = len(end)
    owner = np.concatenate([*owners, np.arange(clients)])
    time = np.concatenate([*times, np.ones(clients)])
    point = np.concatenate([*points, end])
    order = np.argsort(owner, kind="stable")
    owner, time, point = owner[order], time[order], point[order]
    again = np.append(False, (np.diff(owner) == 0) & (np.diff(time) <= 0))  # no time has passed since
    last = np.append(np.diff(owner) != 0, True)
    kept = ((time < 1) & ~again) | last
    first = np.concatenate([[0], np.cumsum(np.bincount(owner[kept], minlength=clients))])
    return Paths(first.astype(np.int64), time[kept], point[kept], np.ones(clients, dtype=bool))
