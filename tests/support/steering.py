"""Worlds, terrains and walks of steered movement, for its tests."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from fedroam.mobility import Mobility, State, World
from fedroam.mobility.steered.coverage import CoverageMap
from fedroam.mobility.steered.grid import DCM, GridTerrain
from fedroam.mobility.steered.rectangle import DCMContinuous
from fedroam.randomness import stream


def world(seed: int, clients: int = 12, reach: float = 3.0, classes: int = 10) -> World:
    """Clients that hold random numbers of samples of each class."""
    counts = stream(seed, "test counts").integers(0, 50, size=(clients, classes))
    return World(seed, clients, counts, reach)


def grid_terrain(
    places: np.ndarray,
    counts: np.ndarray,
    reach: float,
    grid: int,
    *,
    max_step: float = math.inf,
    approach: str = "nearest",
) -> GridTerrain:
    """A grid over which clients fly, with static ones at `places` only."""
    coverage = CoverageMap.of_grid(places, counts, reach, grid)
    return GridTerrain.of(grid, places, coverage, max_step, approach)


def row(coverage: CoverageMap, point: np.ndarray | tuple[float, float]) -> int | None:
    """The row of a point of the coverage, or None."""
    found = np.flatnonzero((coverage.points == np.asarray(point)).all(axis=1))
    return int(found[0]) if len(found) else None


def centres(part: DCM | DCMContinuous, world: World, known: np.ndarray | None = None) -> np.ndarray:
    """The cluster centres for those who know the static clients in `known` (all, if None); [clusters, 2], m."""
    known = np.ones(world.clients - part.mobile, dtype=bool) if known is None else known
    choice = (part.ties, part.centres) if isinstance(part, DCM) else (part.ties,)
    return part.terrain(world).coverage.points[part.centres_of(world, known, *choice)]


def walk(part: Mobility, world: World, rounds: int = 25) -> Iterator[State]:
    """The states of a pattern from before round 1 on."""
    state = part.start(world)
    yield state
    for t in range(1, rounds + 1):
        state, _ = part.step(state, world, t)
        yield state
