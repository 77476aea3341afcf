"""Steered movement on a grid: DAM and DCM fly where the mix of classes differs from the one at hand."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from typing_extensions import override

from fedroam.components import Part, field, register
from fedroam.mobility.grid import (
    GRID,
    LIMIT,
    MAX_STEP,
    MOBILE,
    disc,
    grid_places,
    numbers_of,
    pick,
    points_at,
    within,
)
from fedroam.mobility.steered.coverage import CoverageMap, Flyer, class_mix
from fedroam.mobility.steered.policy import TIES, Steered, Ties
from fedroam.mobility.steered.sketches.distances import FLYERS
from fedroam.mobility.steered.sketches.grid_sketch import Listed, Sketch
from fedroam.mobility.steered.sketches.point_sketch import PointTargets
from fedroam.mobility.steered.surveyed import mark
from fedroam.mobility.steered.targets import OtherTargets, Targets, Unserved
from fedroam.mobility.steered.unserved import MOST_CELLS, UnservedGrid
from fedroam.mobility.world import World
from fedroam.randomness import stream

Approach = Literal["nearest", "on_line"]
Centres = Literal["grid", "clients"]

FEW = 4096  # points of a coverage that are weighed exactly, as that is quick


@dataclass(frozen=True)
class GridTargets(Targets):
    """All points of a grid: those that are listed with their weights, and all others, each weighing `elsewhere`.

    cells: the numbers of the listed points, int64 [points]; grid: points along a side.
    """

    cells: np.ndarray
    elsewhere: float
    grid: int

    @override
    def total(self) -> float:
        return super().total() + self.elsewhere * self._unlisted

    @override
    def discounted(self, others: OtherTargets) -> GridTargets:
        if self.total() == 0:
            return replace(self, weights=np.ones(len(self.weights)), elsewhere=1.0).discounted(others)
        # Only points within two radio reaches of the others lose anything: these join the list.
        kept = UnservedGrid.of(self.grid, self.cells, others)
        near = kept.all_near() if kept else np.unique(self._near(others))
        joining = np.setdiff1d(near, self.cells, assume_unique=True)
        cells = np.append(self.cells, joining)
        points = np.append(self.points, points_at(joining, self.grid), axis=0)
        weights = np.append(self.weights, np.full(len(joining), self.elsewhere))
        weights *= kept.at_cells(cells) if kept else others.unserved(points)
        return replace(self, points=points, weights=weights, cells=cells)

    @override
    def at(self, target: float) -> np.ndarray:
        listed = float(self.weights.sum())
        if target < listed or self.elsewhere * self._unlisted == 0:
            return super().at(target)
        number = min(int((target - listed) / self.elsewhere), self._unlisted - 1)
        # Before the k-th of the listed points lie as many others as its number less k.
        before = np.sort(self.cells) - np.arange(len(self.cells))
        return points_at(number + int(np.searchsorted(before, number, side="right")), self.grid)

    @override
    def uniform(self, value: float) -> np.ndarray:
        return points_at(min(int(value * self.grid**2), self.grid**2 - 1), self.grid)

    def _near(self, others: OtherTargets) -> np.ndarray:
        near = [numbers_of(within(place, 2 * others.reach, self.grid), self.grid) for place in others.places]
        return np.concatenate(near)

    @property
    def _unlisted(self) -> int:
        return self.grid**2 - len(self.points)


@dataclass(frozen=True)
class GridTerrain:
    """A grid, all points of which are survey points.

    cells: the numbers of the points of the coverage, rising; int64 [points].
    """

    grid: int
    places: np.ndarray
    coverage: CoverageMap
    cells: np.ndarray
    max_step: float
    approach: Approach

    @classmethod
    def of(
        cls, grid: int, places: np.ndarray, coverage: CoverageMap, max_step: float, approach: Approach
    ) -> GridTerrain:
        """The terrain of clients that start at `places`, with the coverage of the static ones."""
        return cls(grid, places, coverage, numbers_of(coverage.points, grid), max_step, approach)

    @property
    def survey_points(self) -> int:
        """All points of the grid."""
        return self.grid**2

    def survey_point(self, number: int) -> np.ndarray:
        """The point of this number, by x, then y."""
        return points_at(number, self.grid)

    def see(self, seen: np.ndarray, places: np.ndarray) -> None:
        """Mark the points within radio reach of `places`, float64 [clients, 2], in `seen`."""
        for part in self._parts(len(places), len(self._in_reach)):
            x, y = (places[part].astype(np.int64)[:, None] + self._in_reach).transpose(2, 0, 1)
            there = (x >= 1) & (x <= self.grid) & (y >= 1) & (y <= self.grid)
            clients = np.broadcast_to(np.arange(len(places))[part, None], there.shape)
            mark(seen, clients[there], ((x - 1) * self.grid + y - 1)[there])

    def wander(self, here: np.ndarray, m: int, round: int, draw: float) -> np.ndarray:
        """Any point within `max_step`, as the mobility kind "random" does."""
        return pick(within(here, self.max_step, self.grid), draw)

    def fly(self, here: np.ndarray, destination: np.ndarray, draws: np.ndarray) -> np.ndarray:
        """The destination, or as near to it as `max_step` allows, for each of several clients, or one.

        "nearest": the grid point within reach that is nearest to the destination (Reza et al., Eq. 7), ties by
        the draw. "on_line": the one nearest to the point `max_step` along the straight way there ("along the route",
        "along that direction": the papers' words, not always the arg min of the equation).
        """
        way = destination - here
        length = np.asarray(np.hypot(way[..., 0], way[..., 1]))
        after, far = destination.copy(), np.asarray(length > self.max_step)
        if not far.any():
            return after
        goal = destination[far]
        if self.approach == "on_line":
            goal = here[far] + way[far] * (self.max_step / length[far])[:, None]
        after[far] = self._nearest(here[far], goal, np.asarray(draws)[far])
        return after

    def _nearest(self, here: np.ndarray, goal: np.ndarray, draws: np.ndarray) -> np.ndarray:
        """Of the grid points within `max_step` of each `here` the one nearest to its goal; float64 [clients, 2]."""
        found = np.empty(here.shape)
        for part in self._parts(len(here), len(self._in_step)):
            x, y = (here[part, None] + self._in_step).transpose(2, 0, 1)
            gap = (x - goal[part, None, 0]) ** 2 + (y - goal[part, None, 1]) ** 2
            gap[(x < 1) | (x > self.grid) | (y < 1) | (y > self.grid)] = np.inf
            nearest = gap <= gap.min(axis=1, keepdims=True) * (1 + 1e-12)
            passed = nearest.cumsum(axis=1)
            ties = passed[:, -1]
            chosen = np.minimum((draws[part] * ties).astype(np.int64), ties - 1)
            at = np.arange(len(ties)), (passed > chosen[:, None]).argmax(axis=1)
            found[part, 0], found[part, 1] = x[at], y[at]
        return found

    @functools.cached_property
    def _in_reach(self) -> np.ndarray:
        return disc(self.coverage.reach, self.grid)

    @functools.cached_property
    def _in_step(self) -> np.ndarray:
        return disc(self.max_step, self.grid)

    @staticmethod
    def _parts(clients: int, each: int) -> Iterator[slice]:
        """So many clients in parts that look at few enough points in one go."""
        size = max(1, LIMIT // each)
        return (slice(first, first + size) for first in range(0, clients, size))

    def unserved(self, others: OtherTargets) -> Unserved | None:
        """What others leave around the points of the coverage, to be kept while more of them draw."""
        return UnservedGrid.of(self.grid, self.cells, others)

    def sketches(self, flyers: Sequence[Flyer]) -> Iterator[Sketch | None]:
        """What the points of `everywhere` weigh for each flyer, but for the last digits."""
        if len(self.cells) < FEW or self.grid**2 > MOST_CELLS:
            yield from (None for _ in flyers)
            return
        holding = [bool(flyer.own.any()) for flyer in flyers]
        found = self._sketches([flyer for flyer, holds in zip(flyers, holding, strict=True) if holds])
        yield from (next(found) if holds else None for holds in holding)

    def _sketches(self, flyers: Sequence[Flyer]) -> Iterator[Sketch]:
        remaining = self._listed.remaining()
        for flock in (flyers[first : first + FLYERS] for first in range(0, len(flyers), FLYERS)):
            here = np.array([self.coverage.mix_here(flyer) for flyer in flock])
            yield from self._listed.sketches(flock, here, remaining)

    @functools.cached_property
    def _listed(self) -> Listed:
        return Listed(self.coverage, self.cells, self.grid)

    def everywhere(self, flyer: Flyer) -> GridTargets:
        """All grid points L, weighed by d(L): Reza et al., Eqs. 5 and 6."""
        here = self.coverage.mix_here(flyer)
        elsewhere = float(np.linalg.norm(class_mix(flyer.own) - here))  # where nobody is heard
        distances = self.coverage.distances(flyer, here)
        return GridTargets(self.coverage.points, distances, self.cells, elsewhere, self.grid)

    def seats(self) -> np.ndarray:
        """The row of each static client's own place among the points of the coverage, int64 [statics]."""
        return np.searchsorted(self.cells, numbers_of(self.coverage.places, self.grid))


class OverGrid(Part):
    """The terrain of a steered mobility: the points of a square grid."""

    grid: int = GRID
    mobile: int = MOBILE
    max_step: float = MAX_STEP
    approach: Approach = field("nearest", "where a flight longer than max_step gets to in a round")

    def bounds(self) -> tuple[float, float, float, float]:
        """The first grid point and the last."""
        return (1.0, 1.0, float(self.grid), float(self.grid))

    def terrain(self, world: World) -> GridTerrain:
        """What the mobile clients fly over, found once a world: static clients stay where they are."""
        return world.derived((self, "terrain"), lambda: self._terrain(world))

    def _terrain(self, world: World) -> GridTerrain:
        places, counts = grid_places(world, self.grid), world.class_counts[self.mobile :]
        coverage = CoverageMap.of_grid(places[self.mobile :], counts, world.reach, self.grid)
        return GridTerrain.of(self.grid, places, coverage, self.max_step, self.approach)

    def centres_of(self, world: World, known: np.ndarray, ties: Ties, centres: Centres) -> np.ndarray:
        """The cluster centres, as rows of the coverage, for those who know the static clients in `known`.

        A greedy cover of them (Reza et al., Alg. 1; Jahani et al., Alg. 3). centres = "grid": any grid point;
        "clients": all but the first only where a known client not yet covered is (the text of both papers).
        """

        def find() -> np.ndarray:
            terrain, draws = self.terrain(world), stream(world.seed, "clusters")
            seats = terrain.seats() if centres == "clients" else None
            return terrain.coverage.centres(known, ties == "coverage", draws, seats)

        return world.derived((self, "centres", known.tobytes()), find)


class GridCentres(Part):
    """The settings of cluster centres on a grid."""

    ties: Ties = TIES
    centres: Centres = field(
        "grid",
        "where centres may lie: any grid point (the algorithm), or all but the first only at uncovered clients (the "
        "text)",
    )


@register(
    "mobility",
    "dam",
    source="Reza et al., Sec. IV-B and IV-B1, Eqs. 4-8; Jahani et al., Sec. IV, Eqs. 9-12, Alg. 4",
)
class DAM(Steered, OverGrid):
    """Distribution-aware mobility: mobile clients fly to grid points where the mix of classes differs from here.

    The destination is drawn with probability proportional to the distance of the class mixes and kept until
    reached. The class mix at a point is that of the static clients within radio reach of it and the client itself.
    """

    def targets(self, world: World, flyer: Flyer) -> Targets:
        """All grid points."""
        return self.terrain(world).everywhere(flyer)

    @override
    def sketches(self, world: World, flyers: Sequence[Flyer]) -> Iterator[Sketch | None]:
        return self.terrain(world).sketches(flyers)


@register(
    "mobility",
    "dcm",
    source="Reza et al., Sec. IV-B2, Alg. 1, Eq. 9; Jahani et al., Sec. IV-B2, Alg. 3, Eq. 13",
)
class DCM(PointTargets, Steered, GridCentres, OverGrid):
    """Distribution-aware cluster-centre mobility: as DAM, but only centres of the static clients' clusters.

    The clusters are a greedy cover of the static clients by discs of the radio reach.
    """

    def rows(self, world: World, known: np.ndarray) -> np.ndarray:
        """The cluster centres: Reza et al., Eq. 9; Jahani et al., Eq. 13."""
        return self.centres_of(world, known, self.ties, self.centres)

    @override
    def needs_static(self) -> str:
        return self.kind
