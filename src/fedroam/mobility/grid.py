"""Clients on the points of a square grid: nobody moves, or some move at random."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np
from typing_extensions import override

from fedroam.components import Part, field, register
from fedroam.errors import InputError
from fedroam.mobility.distance import within_reach
from fedroam.mobility.world import Paths, State, World
from fedroam.randomness import stream

# Settings that several patterns have.
GRID = field(18, "grid points along a side; points are 1 m apart", unit="points", ge=1, le=5000)
MOBILE = field(5, "how many clients move (the first by index)", unit="clients", ge=0)
MAX_STEP = field(math.inf, "longest move in a round (Rm); inf is unconstrained", unit="m", ge=0)

LIMIT = 1 << 18  # columns looked at in one go: bounds the memory, changes no result

REZA = "Reza et al., Sec. IV (grid) and IV-A, Eq. 3; Jahani et al., Sec. II-A and II-C, Eq. 3"


def grid_places(world: World, grid: int) -> np.ndarray:
    """Start places drawn uniformly from the grid points {1..G}^2 (two clients may share one), float64 [clients, 2].

    They depend on the seed alone, so that every pattern starts from the same places.
    """
    return stream(world.seed, "places").integers(1, grid + 1, size=(world.clients, 2)).astype(np.float64)


def within(here: np.ndarray, reach: float, grid: int) -> np.ndarray:
    """Grid points at most `reach` (Euclidean) from the grid point `here`, itself included; float64 [points, 2].

    Ordered by x, then y.
    """
    span = int(min(reach, grid))
    xs = np.arange(max(1, int(here[0]) - span), min(grid, int(here[0]) + span) + 1)
    ys = np.arange(max(1, int(here[1]) - span), min(grid, int(here[1]) + span) + 1)
    # Distances, not their squares: reach = sqrt(13) includes a point at (2, 3), but 13 > sqrt(13) ** 2 in floats.
    inside = within_reach(xs[:, None] - here[0], ys[None, :] - here[1], reach)
    i, j = np.nonzero(inside)
    return np.stack([xs[i], ys[j]], axis=1).astype(np.float64)


def drawn_within(here: np.ndarray, reach: float, grid: int, draws: np.ndarray) -> np.ndarray:
    """For each grid point here[k] (float64 [points, 2]) that of `within` it on which draws[k], in [0, 1), falls: what
    `pick` gives, without laying the points out."""
    if reach >= math.hypot(grid - 1, grid - 1):  # every point is, wherever one stands
        return points_at(np.minimum((draws * grid**2).astype(np.int64), grid**2 - 1), grid)
    span = int(min(reach, grid - 1))
    height, found = _heights(reach, span), np.empty(here.shape)
    at_once = max(1, LIMIT // len(height))
    for part in (slice(first, first + at_once) for first in range(0, len(here), at_once)):
        x, y = here[part].astype(np.int64).T[:, :, None]
        columns = x + np.arange(-span, span + 1)
        lowest, highest = np.maximum(1, y - height), np.minimum(grid, y + height)
        inside = (columns >= 1) & (columns <= grid)
        passed = np.where(inside, highest - lowest + 1, 0).cumsum(
            axis=1
        )  # points up to the end of each column
        points = passed[:, -1]
        chosen = np.minimum((draws[part] * points).astype(np.int64), points - 1)
        at = np.arange(len(points)), (passed <= chosen[:, None]).sum(axis=1)
        found[part, 0] = columns[at]
        found[part, 1] = highest[at] + 1 + chosen - passed[at]
    return found


@functools.lru_cache(maxsize=16)
def _heights(reach: float, span: int) -> np.ndarray:
    """How far up and down points within reach go in the columns from `span` left to `span` right; int64."""
    steps = np.arange(-span, span + 1)[:, None]
    most = np.sqrt(np.maximum(0.0, min(reach, 1e6) ** 2 - steps**2))  # no grid is a million points wide
    near = np.floor(most) + np.arange(-1, 3)  # rounded: the distance itself decides, as in `within`
    reached = np.where(within_reach(steps, near, reach) & (near >= 0), near, 0)
    return np.asarray(reached.max(axis=1), dtype=np.int64)


def numbers_of(points: np.ndarray, grid: int) -> np.ndarray:
    """The numbers of grid points among all of them, ordered by x, then y; int64 [points]."""
    return np.asarray(((points[:, 0] - 1) * grid + points[:, 1] - 1).astype(np.int64))


def points_at(numbers: int | np.ndarray, grid: int) -> np.ndarray:
    """The grid points of given numbers, float64 [2] or [points, 2]."""
    return np.array([numbers // grid + 1, numbers % grid + 1], dtype=np.float64).T


def disc(reach: float, grid: int) -> np.ndarray:
    """The offsets of grid points at most `reach` from one of them, itself included, as `within` orders them.

    int64 [offsets, 2]; none is longer than the grid.
    """
    span = int(min(reach, grid - 1))
    around = np.arange(-span, span + 1)
    dx, dy = (offset.ravel() for offset in np.meshgrid(around, around, indexing="ij"))
    inside = within_reach(dx, dy, reach)
    return np.stack([dx[inside], dy[inside]], axis=1)


def check_mobile(mobile: int, clients: int) -> None:
    """Raise InputError where more clients would move than there are."""
    if mobile > clients:
        raise InputError(f"mobility.mobile = {mobile}: only {clients} clients; allowed is 0 to {clients}")


def mobile_groups(world: World, mobile: int) -> np.ndarray:
    """`mobile` for the first clients by index, `static` for the rest (places are random anyway)."""
    check_mobile(mobile, world.clients)
    return np.array(["mobile"] * mobile + ["static"] * (world.clients - mobile))


@register("mobility", "static", source=REZA)
class Static(Part):
    """Nobody moves: places are drawn once, uniformly from the grid points."""

    grid: int = GRID

    def start(self, world: World) -> dict[str, np.ndarray]:
        """Everybody at a place of its own draw."""
        return {"position": grid_places(world, self.grid)}

    def step(self, state: State, world: World, round: int) -> tuple[dict[str, np.ndarray], Paths]:
        """Nothing changes."""
        return dict(state), Paths.still(state["position"])

    def bounds(self) -> tuple[float, float, float, float]:
        """The first grid point and the last."""
        return (1.0, 1.0, float(self.grid), float(self.grid))

    def groups(self, world: World) -> np.ndarray:
        """Everybody is `static`."""
        return mobile_groups(world, 0)


@register("mobility", "random", source=REZA)
class Random(Part):
    """The mobile clients jump, each round, to a grid point drawn uniformly from those within `max_step`.

    The present point is one of them: a mobile client may stay.
    """

    grid: int = GRID
    mobile: int = MOBILE
    max_step: float = MAX_STEP

    @override
    def check_clients(self, clients: int) -> None:
        check_mobile(self.mobile, clients)

    def start(self, world: World) -> dict[str, np.ndarray]:
        """The same start places as those of `static`. Raises InputError where more clients move than there are."""
        self.check_clients(world.clients)
        return {"position": grid_places(world, self.grid)}

    def step(self, state: State, world: World, round: int) -> tuple[dict[str, np.ndarray], Paths]:
        """One jump of every mobile client, straight to its new place."""
        # One draw for every client, moving or not: a client's walk does not depend on how many others move.
        draws = stream(world.seed, "moves", round).random(world.clients)
        before = state["position"]
        after = before.copy()
        after[: self.mobile] = drawn_within(
            before[: self.mobile], self.max_step, self.grid, draws[: self.mobile]
        )
        return {**state, "position": after}, Paths.straight(before, after)

    def bounds(self) -> tuple[float, float, float, float]:
        """The first grid point and the last."""
        return (1.0, 1.0, float(self.grid), float(self.grid))

    def groups(self, world: World) -> np.ndarray:
        """`mobile` for the first by index, `static` for the rest."""
        return mobile_groups(world, self.mobile)


def pick(candidates: np.ndarray | Sequence[np.ndarray], draw: float) -> np.ndarray:
    """The candidate that a uniform draw in [0, 1) falls on, all equally likely."""
    return np.asarray(candidates[min(int(draw * len(candidates)), len(candidates) - 1)])
