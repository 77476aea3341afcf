"""Steered movement as it was first written, a client and a place at a time: what the quick way is held against.

It takes from the package where static clients are heard (`CoverageMap`, its points and `covers`) and nothing else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from fedroam.mobility import Paths, State, World, within_reach
from fedroam.mobility.grid import pick, within
from fedroam.mobility.steered.candidates import uniform_within
from fedroam.mobility.steered.coverage import CoverageMap, Flyer, class_mix
from fedroam.mobility.steered.targets import overlap
from fedroam.randomness import stream


def slow_round(part: Any, state: State, world: World, round: int) -> tuple[dict[str, np.ndarray], Paths]:
    """What `part.step` gives, of any steered kind."""
    terrain, n = part.terrain(world), part.mobile
    draws = stream(world.seed, "destinations", round).random((world.clients, 4))
    before, destination = state["position"], state["destination"].copy()
    survey = terrain.survey_points if part.knowledge == "contacts" else 0
    after, known, seen = before.copy(), state["known"], seen_points(state, survey)
    heading = (destination != before[:n]).any(axis=1)
    for m in range(n):
        if part.knowledge == "warm_up" and (round <= part.warm_up or (known.shape[1] and not known[m].any())):
            after[m] = destination[m] = _wander(part, terrain, before[m], m, round, draws[m, 1])
            continue
        if not heading[m]:
            unseen = np.flatnonzero(~seen[m])
            share = len(unseen) / terrain.survey_points
            if len(unseen) and (draws[m, 2] < share or not known[m].any()):
                destination[m] = terrain.survey_point(int(pick(unseen, draws[m, 3])))
                heading[m] = True
            elif known[m].any() or not known.shape[1]:
                others = _others(destination[heading], world.reach, part.avoidance())
                flyer = Flyer(before[m], world.class_counts[m], known[m])
                destination[m] = _targets(part, world, flyer).draw(draws[m, 0], others)
                heading[m] = True
        after[m] = _fly(part, terrain, before[m], destination[m], draws[m, 1])
    known, seen = known.copy(), seen.copy()
    for m in range(n if part.knowledge != "oracle" else 0):
        known[m] |= _in_reach(terrain.coverage, after[m])
        if part.knowledge == "contacts":
            seen[m] |= _view(part, terrain, after[m])
    bits = np.packbits(seen, axis=1, bitorder="little")
    moved = {**state, "position": after, "destination": destination, "known": known, "seen": bits}
    return moved, Paths.straight(before, after)


def seen_points(state: State, survey: int) -> np.ndarray:
    """Which of so many survey points each mobile client has had within reach; bool [mobile, survey points]."""
    return np.unpackbits(state["seen"], axis=1, count=survey, bitorder="little").astype(bool)


def _on_grid(part: Any) -> bool:
    return hasattr(part, "grid")


def _wander(part: Any, terrain: Any, here: np.ndarray, m: int, round: int, draw: float) -> np.ndarray:
    if _on_grid(part):
        return pick(within(here, part.max_step, part.grid), draw)
    return uniform_within(here, part.max_step, terrain.size, stream(terrain.seed, "wandering", round, m))


def _fly(part: Any, terrain: Any, here: np.ndarray, destination: np.ndarray, draw: float) -> np.ndarray:
    way = destination - here
    length = float(np.hypot(*way))
    if length <= part.max_step:
        return destination
    there = here + way * (part.max_step / length)
    if not _on_grid(part):
        return np.asarray(np.clip(there, np.minimum(here, destination), np.maximum(here, destination)))
    goal = destination if part.approach == "nearest" else there
    candidates = within(here, part.max_step, part.grid)
    gap = ((candidates - goal) ** 2).sum(axis=1)
    return pick(candidates[gap <= gap.min() * (1 + 1e-12)], draw)


def _in_reach(coverage: CoverageMap, here: np.ndarray) -> np.ndarray:
    gap = coverage.places - here
    return within_reach(gap[:, 0], gap[:, 1], coverage.reach)


def _view(part: Any, terrain: Any, here: np.ndarray) -> np.ndarray:
    survey = (
        np.array([terrain.survey_point(k) for k in range(terrain.survey_points)])
        if _on_grid(part)
        else terrain.survey
    )
    gap = survey - here
    return within_reach(gap[:, 0], gap[:, 1], terrain.coverage.reach)


def _targets(part: Any, world: World, flyer: Flyer) -> SlowTargets:
    terrain, coverage = part.terrain(world), part.terrain(world).coverage
    heard = flyer.known & _in_reach(coverage, flyer.here)
    here = class_mix(heard @ coverage.counts + flyer.own)
    base = getattr(part, "base", part.kind.removesuffix("_continuous"))
    if base == "dcm":
        centre_draws = stream(world.seed, "clusters")
        seats = terrain.seats() if getattr(part, "centres", "grid") == "clients" else None
        rows = slow_centres(coverage, flyer.known, part.ties == "coverage", centre_draws, seats)
    elif _on_grid(part):
        elsewhere = float(np.linalg.norm(class_mix(flyer.own) - here))
        distances = slow_distances(coverage, flyer, here)
        return SlowGridTargets(coverage.points, distances, terrain.cells, elsewhere, part.grid)
    else:
        rows = np.flatnonzero(np.append(flyer.known, True)[coverage.owners].all(axis=1))
    return SlowTargets(coverage.points[rows], slow_distances(coverage, flyer, here, rows))


def slow_distances(
    coverage: CoverageMap, flyer: Flyer, here: np.ndarray, rows: np.ndarray | None = None
) -> np.ndarray:
    """What `CoverageMap.distances` gives, from the sums of the classes at every point, found for each flyer."""
    covers = coverage.covers if rows is None else coverage.covers[rows]
    mixes = class_mix(covers @ (coverage.counts * flyer.known[:, None]) + flyer.own)
    return np.asarray(np.linalg.norm(mixes - here, axis=1))


def slow_centres(
    coverage: CoverageMap,
    known: np.ndarray,
    most_of_all: bool,
    draws: np.random.Generator,
    seats: np.ndarray | None = None,
) -> np.ndarray:
    """What `CoverageMap.centres` gives, with a look at all points for each centre."""
    covers = sparse.csr_array(coverage.covers * known[None, :])
    if not (allowed := coverage.allowed(known)).all():
        covers = sparse.csr_array(covers * allowed[:, None])
    covers.eliminate_zeros()
    columns = covers.tocsc()
    left = known.copy()
    gain = np.asarray(covers.sum(axis=1)).astype(np.int64)
    of_all = gain.copy()
    chosen: list[int] = []
    while left.any():
        open_to = gain
        if seats is not None and chosen:
            open_to = np.zeros_like(gain)
            open_to[seats[left]] = gain[seats[left]]
        best = np.flatnonzero(open_to == open_to.max())
        if most_of_all:
            best = best[of_all[best] == of_all[best].max()]
        row = int(best[draws.integers(len(best))])
        chosen.append(row)
        covered = covers.indices[covers.indptr[row] : covers.indptr[row + 1]]
        for static in covered[left[covered]]:
            gain[columns.indices[columns.indptr[static] : columns.indptr[static + 1]]] -= 1
        left[covered] = False
    return np.array(chosen, dtype=np.int64)


@dataclass(frozen=True)
class _Others:
    places: np.ndarray
    reach: float
    discount: float

    def unserved(self, points: np.ndarray) -> np.ndarray:
        left = np.ones(len(points))
        for place in self.places:
            gap = np.abs(points - place)
            close = np.flatnonzero((gap <= 2 * self.reach).all(axis=1))
            left[close] *= 1 - self.discount * overlap(np.hypot(*gap[close].T), self.reach)
        return left


def _others(places: np.ndarray, reach: float, discount: float) -> _Others | None:
    if not len(places) or discount == 0 or math.isinf(reach):
        return None
    return _Others(places, reach, discount)


@dataclass(frozen=True)
class SlowTargets:
    """Places and their weights, laid end to end."""

    points: np.ndarray
    weights: np.ndarray

    def draw(self, value: float, others: _Others | None) -> np.ndarray:
        """The place that `value` falls on."""
        if others is not None and (total := (left := self.discounted(others)).total()) > 0:
            return left.at(value * total)
        return self.at(value * total) if (total := self.total()) > 0 else self.uniform(value)

    def total(self) -> float:
        """The sum of all weights."""
        return float(self.weights.sum())

    def discounted(self, others: _Others) -> SlowTargets:
        """The same places, weighing less where others serve their surroundings."""
        weights = self.weights if self.total() > 0 else np.ones(len(self.points))
        return replace(self, weights=weights * others.unserved(self.points))

    def at(self, target: float) -> np.ndarray:
        """The place that `target` falls on."""
        edges = np.cumsum(self.weights)
        at = int(np.searchsorted(edges, target, side="right"))
        return np.asarray(self.points[min(at, int(np.flatnonzero(self.weights)[-1]))])

    def uniform(self, value: float) -> np.ndarray:
        """The place that `value` falls on, all equally likely."""
        return pick(self.points, value)


@dataclass(frozen=True)
class SlowGridTargets(SlowTargets):
    """All points of a grid: those that are listed, and the others, each weighing `elsewhere`."""

    cells: np.ndarray
    elsewhere: float
    grid: int

    def total(self) -> float:
        return super().total() + self.elsewhere * self._unlisted

    def discounted(self, others: _Others) -> SlowGridTargets:
        if self.total() == 0:
            return replace(self, weights=np.ones(len(self.weights)), elsewhere=1.0).discounted(others)
        near = [self._numbers(within(place, 2 * others.reach, self.grid)) for place in others.places]
        joining = np.setdiff1d(np.concatenate(near), self.cells)
        cells = np.append(self.cells, joining)
        points = np.append(self.points, self._points(joining), axis=0)
        weights = np.append(self.weights, np.full(len(joining), self.elsewhere))
        return replace(self, points=points, weights=weights * others.unserved(points), cells=cells)

    def at(self, target: float) -> np.ndarray:
        listed = float(self.weights.sum())
        if target < listed or self.elsewhere * self._unlisted == 0:
            return super().at(target)
        number = min(int((target - listed) / self.elsewhere), self._unlisted - 1)
        before = np.sort(self.cells) - np.arange(len(self.cells))
        return self._points(number + int(np.searchsorted(before, number, side="right")))

    def uniform(self, value: float) -> np.ndarray:
        return self._points(min(int(value * self.grid**2), self.grid**2 - 1))

    @property
    def _unlisted(self) -> int:
        return self.grid**2 - len(self.points)

    def _numbers(self, points: np.ndarray) -> np.ndarray:
        return np.asarray(((points[:, 0] - 1) * self.grid + points[:, 1] - 1).astype(np.int64))

    def _points(self, numbers: int | np.ndarray) -> np.ndarray:
        return np.array([numbers // self.grid + 1, numbers % self.grid + 1], dtype=np.float64).T
