"""What movement is made of: the facts a pattern may know, and the paths it gives."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from fedroam.checks.answers import as_array, found_as, plain_arrays
from fedroam.errors import InputError

State = Mapping[str, np.ndarray]
Found = TypeVar("Found")

FARTHEST = 1e9  # m: sides of a world; places are then told to better than a micrometre, and no area overflows
# How far a path may end, or begin, from where its client is, as a share of that place: roundings.
PLACES = 1e-6
DERIVED_KEPT = 256  # results that a world keeps; others are found anew


@dataclass(frozen=True, eq=False)
class World:
    """The facts of a run that a mobility pattern may use.

    class_counts: int64 [clients, classes], training samples of each client by class (steered patterns fly by
    them). reach: radio range in metres (infinite where everybody hears everybody). rounds: how many will be played
    (0: not known), for patterns that end. devices: the device that each client is, by name, where the data, the trace
    and the log that know devices by name were matched; else None.
    """

    seed: int
    clients: int
    class_counts: np.ndarray
    reach: float
    rounds: int = 0
    devices: tuple[str, ...] | None = None
    _derived: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    def derived(self, key: Hashable, find: Callable[[], Found]) -> Found:
        """What `find` gives, which must follow from these facts and the settings in `key` alone; found once.

        For what is wanted in every round and takes long to find, such as who is heard where. It is kept with the
        world, not in a state or checkpoint; of more than 256 results the one longest unused is dropped.
        """
        found: Found = self._derived.pop(key) if key in self._derived else find()
        self._derived[key] = found
        if len(self._derived) > DERIVED_KEPT:
            del self._derived[next(iter(self._derived))]
        return found


@dataclass(frozen=True)
class Paths:
    """Where everybody is during one round: piecewise-linear paths over the round's time 0 to 1.

    Client i owns the points first[i] to first[i + 1]; first: int64 [clients + 1], time: float64 [points] rising
    from 0 to 1 within a client, point: float64 [points, 2] in metres, present: bool [clients] (a client that is
    away has a path without meaning).
    """

    first: np.ndarray
    time: np.ndarray
    point: np.ndarray
    present: np.ndarray
    _derived: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    _whole: list[Paths] = field(default_factory=list, init=False, repr=False, compare=False)

    def among(self, present: np.ndarray) -> Paths:
        """The same ways where these are present, bool [clients].

        Where they are most of those who are present here, they know of them (`whole`): what is between two holds
        whoever else is there.
        """
        if np.array_equal(present, self.present):
            return self
        found = replace(self, present=present)
        if not (present & ~self.present).any() and 2 * present.sum() >= self.present.sum():
            found._whole.append(self.whole or self)
        return found

    def only_to_read(self) -> Paths:
        """These, from now on in arrays into which nobody can write: others of the round see them, too."""
        for array in (self.first, self.time, self.point, self.present):
            array.flags.writeable = False
        return self

    def copied(self) -> Paths:
        """The same ways in arrays of their own."""
        return Paths(self.first.copy(), self.time.copy(), self.point.copy(), self.present.copy())

    @property
    def whole(self) -> Paths | None:
        """The ways of more who are present, of which these are a part; None where that is not known."""
        return self._whole[0] if self._whole else None

    def derived(self, key: Hashable, find: Callable[[], Found]) -> Found:
        """What `find` gives, which must follow from these paths and what `key` says alone; found once.

        For what several ask of one round. It goes with the paths, and is in no checkpoint.
        """
        found: Found = self._derived[key] if key in self._derived else find()
        self._derived[key] = found
        return found

    def knows(self, key: Hashable) -> bool:
        """Whether this was found already."""
        return key in self._derived

    @classmethod
    def straight(cls, start: np.ndarray, end: np.ndarray, present: np.ndarray | None = None) -> Paths:
        """Everybody moves from start to end (float64 [clients, 2]) at constant speed."""
        clients = len(start)
        time = np.zeros(2 * clients)
        time[1::2] = 1.0
        return cls(
            first=np.arange(clients + 1, dtype=np.int64) * 2,
            time=time,
            point=np.concatenate([start, end], axis=1).reshape(-1, 2),
            present=np.ones(clients, dtype=bool) if present is None else present,
        )

    @classmethod
    def still(cls, position: np.ndarray, present: np.ndarray | None = None) -> Paths:
        """Everybody stays at position (float64 [clients, 2]) all the round."""
        return cls.straight(position, position, present)

    @property
    def clients(self) -> int:
        """Number of clients."""
        return len(self.first) - 1

    @property
    def straight_ways(self) -> bool:
        """Whether everybody takes one straight way, from the first point to the second."""
        return self.derived("straight ways", lambda: bool((self.first[1:] - self.first[:-1] == 2).all()))

    @property
    def start(self) -> np.ndarray:
        """Places at the beginning of the round, float64 [clients, 2]."""
        return np.asarray(self.point[self.first[:-1]])

    @property
    def end(self) -> np.ndarray:
        """Places at the end of the round, float64 [clients, 2]."""
        return np.asarray(self.point.take(self.first[1:] - 1, axis=0))

    def at(self, moment: float) -> np.ndarray:
        """Places at a moment of the round (0 to 1), float64 [clients, 2], metres."""
        passed = np.add.reduceat(self.time <= moment, self.first[:-1], dtype=np.int64)
        before = self.first[:-1] + np.maximum(passed, 1) - 1
        after = np.minimum(before + 1, self.first[1:] - 1)
        span = self.time[after] - self.time[before]
        share = np.divide(moment - self.time[before], span, out=np.zeros(self.clients), where=span > 0)
        with np.errstate(invalid="ignore"):  # clients who are away may be nowhere
            return np.asarray(self.point[before] + share[:, None] * (self.point[after] - self.point[before]))

    @property
    def length(self) -> np.ndarray:
        """Way travelled by each client in the round, float64 [clients], metres."""
        return self.derived("length", self._length)

    def _length(self) -> np.ndarray:
        if self.straight_ways:
            return np.asarray(np.hypot(*(self.point[1::2] - self.point[::2]).T))
        steps = np.hypot(*np.diff(self.point, axis=0).T)
        steps[self.first[1:-1] - 1] = 0.0  # from one client's last point to the next one's first: no way
        return np.add.reduceat(np.append(steps, 0.0), self.first[:-1])


@runtime_checkable
class Mobility(Protocol):
    """A mobility pattern. Its state is a mapping of plain arrays and holds at least `position` [clients, 2]."""

    def start(self, world: World) -> dict[str, np.ndarray]:
        """The state before round 1."""

    def step(self, state: State, world: World, round: int) -> tuple[dict[str, np.ndarray], Paths]:
        """The state after `round` (1, 2, ...) and the way everybody took; draws from the round's stream only."""

    def bounds(self) -> tuple[float, float, float, float]:
        """x and y of the world's lower left corner, then of its upper right one, metres."""

    def groups(self, world: World) -> np.ndarray:
        """The name of each client's group (static, mobile, ...), str [clients]."""


@runtime_checkable
class KnowsPlaces(Protocol):
    """A mobility pattern whose world has points of interest, and a projection for further ones."""

    def points_of_interest(self) -> np.ndarray:
        """Places that people visit, each once, float64 [places, 2], metres."""

    def to_metres(self, lat: np.ndarray, lon: np.ndarray) -> np.ndarray:
        """WGS84 degrees (float64 [points] each) as places of this world, float64 [points, 2], metres.

        Raises InputError where the world has no projection.
        """


@runtime_checkable
class Advises(Protocol):
    """A mobility pattern that knows settings that are allowed and seldom meant."""

    def advice(self, clients: int, rounds: int, seed: int) -> str:
        """What speaks against the settings for so many clients and rounds, a sentence; empty where nothing does."""


@runtime_checkable
class KnowsSeconds(Protocol):
    """A mobility pattern or an activity whose rounds have a length of their own."""

    def seconds_each(self) -> float | None:
        """How much time a round covers, s; None: as much as anybody says."""


def checked(state: Mapping[str, Any], world: World) -> dict[str, np.ndarray]:
    """`state` as plain arrays. Raises InputError where a pattern gave no mapping, forgot `position` or gave it another
    shape, puts a client that is present at a place that is no number, or keeps what is none.
    """
    arrays = plain_arrays(state, "position")
    found = arrays["position"].shape if "position" in arrays else None
    if found != (world.clients, 2):
        raise InputError(f"its state needs position [{world.clients}, 2], found {found}")
    present = np.asarray(arrays.get("present", np.ones(world.clients)), dtype=bool)
    if present.shape != (world.clients,):
        raise InputError(
            f"present of its state is {list(present.shape)}, allowed is one a client, [{world.clients}]"
        )
    _refuse_no_numbers(arrays["position"], np.arange(world.clients), present)
    return arrays


def checked_paths(paths: Paths, world: World) -> Paths:
    """`paths` as they are. Raises TypeError where they are of another number of clients, and InputError where they lead
    one that is present over a place that is no number.
    """
    if paths.clients != world.clients or len(paths.present) != world.clients:
        raise TypeError(
            f"a mobility pattern gives the paths of {world.clients} clients, found {paths.clients}"
        )
    if not np.isfinite(paths.point).all():
        owner = np.repeat(np.arange(paths.clients), np.diff(paths.first))
        _refuse_no_numbers(paths.point, owner, paths.present)
    return paths


def own_paths(paths: Any, world: World) -> Paths:
    """The paths that a pattern of one's own gave, in arrays of their own, of the types that `Paths` promises. Raises
    InputError where their times or shapes are no paths."""
    if not isinstance(paths, Paths):
        raise InputError(f"step gave {type(paths).__name__} for paths, allowed is a fedroam.mobility.Paths")
    first, time, point, present = (
        as_array(each) for each in (paths.first, paths.time, paths.point, paths.present)
    )
    rising = first.ndim == 1 and first.dtype.kind in "iu" and len(first) > 0 and (np.diff(first) >= 2).all()
    if not rising or first[0] != 0 or time.shape != (first[-1],) or point.shape != (first[-1], 2):
        raise InputError(
            f"its paths have first {found_as(first)}, time {found_as(time)} and point {found_as(point)}; allowed are "
            "first, int64 [clients + 1], from 0 on by 2 or more, and as many times and points as the last of it says"
        )
    if present.shape != (len(first) - 1,) or not np.isin(present, (0, 1)).all():
        raise InputError(
            f"present of its paths is {found_as(present)}, allowed are truth values, bool [{len(first) - 1}]"
        )
    begins, ends = first[:-1], first[1:] - 1
    steps = np.delete(np.diff(time), ends[:-1])
    if not ((time[begins] == 0).all() and (time[ends] == 1).all() and (steps >= 0).all()):
        raise InputError(
            "times of its paths do not rise from 0 to 1 for each client, as the round's time does"
        )
    return Paths(
        np.array(first, dtype=np.int64),
        np.array(time, dtype=np.float64),
        np.array(point, dtype=np.float64, order="C"),
        np.array(present, dtype=bool),
    )


def checked_step(found: Any, world: World) -> tuple[dict[str, np.ndarray], Paths]:
    """What a pattern's step gave: the state and the paths, each as it is to be. Raises, beside what `checked` and
    `checked_paths` do, InputError where it is no pair, or a path of one that is present does not end at its place.
    """
    if not isinstance(found, tuple) or len(found) != 2:
        raise InputError(
            f"step gave {type(found).__name__}, expected are two: the state after the round and the paths in it"
        )
    state, paths = checked(found[0], world), checked_paths(found[1], world)
    _refuse_apart(state, paths, paths.end, "after the round, and its path ends")
    return state, paths


def checked_beginning(before: State, paths: Paths) -> None:
    """Raise InputError where a path of one that was present before the round does not begin where it was."""
    _refuse_apart(before, paths, paths.start, "before the round, and its path begins")


def checked_within(paths: Paths, bounds: Any) -> None:
    """Raise InputError where somebody who is present is outside of the bounds that the pattern gives."""
    low, high = np.reshape(checked_bounds(bounds), (2, 2))
    out = (paths.point < low - PLACES * (1 + np.abs(low))) | (
        paths.point > high + PLACES * (1 + np.abs(high))
    )
    if not out.any():
        return
    owner = np.repeat(np.arange(paths.clients), np.diff(paths.first))
    wrong = np.flatnonzero(out.any(axis=1) & paths.present[owner])
    if len(wrong):
        k = int(wrong[0])
        raise InputError(
            f"client {owner[k]} comes to ({paths.point[k][0]:g}, {paths.point[k][1]:g}); allowed by its bounds are x "
            f"from {low[0]:g} to {high[0]:g} and y from {low[1]:g} to {high[1]:g}"
        )


def checked_groups(groups: Any, world: World) -> np.ndarray:
    """The names of groups that a pattern gives. Raises InputError where they are not one for each client."""
    found = np.asarray(groups)
    if found.shape != (world.clients,):
        raise InputError(
            f"groups gave names of shape {found.shape}, expected is one for each of {world.clients} clients"
        )
    return found


def checked_bounds(bounds: Any) -> tuple[float, float, float, float]:
    """The bounds that a pattern gives. Raises InputError where they are not x0, y0, x1, y1, the first ones smaller."""
    found = np.asarray(bounds)
    if (
        found.shape != (4,)
        or found.dtype.kind not in "biuf"
        or not np.isfinite(found).all()
        or not (found[:2] <= found[2:]).all()
    ):
        raise InputError(f"bounds gave {bounds!r}, expected are x0, y0, x1, y1 with x0 <= x1 and y0 <= y1, m")
    x0, y0, x1, y1 = found.tolist()
    return x0, y0, x1, y1


def _refuse_apart(state: State, paths: Paths, reached: np.ndarray, when: str) -> None:
    """reached: float64 [clients, 2], m, where the paths have those who must be where the state has them: whoever is
    present in both."""
    there = np.asarray(state.get("present", np.ones(paths.clients)), dtype=bool) & paths.present
    place, found = state["position"][there], reached[there]
    apart = np.abs(place - found) > PLACES * (1 + np.abs(place))
    if apart.any():
        k = int(np.flatnonzero(apart.any(axis=1))[0])
        raise InputError(
            f"client {np.flatnonzero(there)[k]} is at ({place[k][0]:g}, {place[k][1]:g}) {when} at ({found[k][0]:g}, "
            f"{found[k][1]:g}): allowed is the same place"
        )


def _refuse_no_numbers(places: np.ndarray, owner: np.ndarray, present: np.ndarray) -> None:
    """places: float64 [places, 2], each of a client (owner, int64 [places]); present: bool [clients]."""
    if np.isfinite(places).all():
        return
    wrong = np.flatnonzero(~np.isfinite(places).all(axis=1) & present[owner])
    if len(wrong):
        x, y = places[wrong[0]]
        raise InputError(f"client {owner[wrong[0]]} is at ({x}, {y}), allowed are finite numbers, m")
