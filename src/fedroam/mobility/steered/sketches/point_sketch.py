"""Point sketches: what some points of a coverage weigh for several flyers at once, but for the last digits."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fedroam.components import Part
from fedroam.mobility.steered.coverage import CoverageMap, Flyer
from fedroam.mobility.steered.policy import Terrain
from fedroam.mobility.steered.sketches.certainty import Laid, rounding
from fedroam.mobility.steered.sketches.distances import FLYERS, Distances, Rounded
from fedroam.mobility.steered.targets import Targets, Unserved
from fedroam.mobility.world import World

_AT_ONCE = 1 << 22  # distances that are held at once: 32 MiB


class ToPoints(Hashable, Protocol):
    """A policy whose targets are points of the coverage, weighed as `CoverageMap.targets` does."""

    def terrain(self, world: World) -> Terrain:
        """What the mobile clients of a world fly over."""

    def rows(self, world: World, known: np.ndarray) -> np.ndarray:
        """The points, as rows of the coverage, for those who know the static clients in `known`; int64 [points]."""


def point_sketches(policy: ToPoints, world: World, flyers: Sequence[Flyer]) -> Iterator[PointSketch | None]:
    """For each flyer, in turn, a sketch of its targets; None for those who do not know everybody."""
    terrain = policy.terrain(world)

    def find() -> _Weighing:
        everybody = np.ones(len(terrain.coverage.places), dtype=bool)
        return _Weighing.of(terrain.coverage, policy.rows(world, everybody))

    knowing = [bool(flyer.known.all()) for flyer in flyers]
    those = [flyer for flyer, knows in zip(flyers, knowing, strict=True) if knows]
    found = world.derived((policy, "sketches"), find).sketches(those) if those else iter(())
    return (next(found) if knows else None for knows in knowing)


class PointTargets(Part):
    """The targets of a steered mobility, given before `Steered` among the bases: the points that its `rows` names,
    weighed by d(L)."""

    def targets(self: ToPoints, world: World, flyer: Flyer) -> Targets:
        """Those points, each with its distance of class mixes."""
        return self.terrain(world).coverage.targets(flyer, self.rows(world, flyer.known))

    def sketches(self: ToPoints, world: World, flyers: Sequence[Flyer]) -> Iterator[PointSketch | None]:
        """One for each who knows everybody."""
        return point_sketches(self, world, flyers)


@dataclass(frozen=True)
class PointSketch:
    """What some points weigh for a flyer.

    points: float64 [points, 2], m; rows: of them in the coverage, int64 [points].
    """

    points: np.ndarray
    rows: np.ndarray
    weights: Rounded

    def draw(self, value: float, kept: Unserved | None) -> np.ndarray | None:
        """The point that `Targets.draw` gives, float64 [2]; None where the sketch does not decide it.

        value: uniform in [0, 1); kept: what is left by others that discount a target.
        """
        # Where others leave nothing at all, they are disregarded.
        avoiding = kept is not None and not kept.taken(self.rows).all()
        shares, others = (kept.at(self.rows), kept.others) if kept is not None and avoiding else (None, 0)
        laid = Laid.of(self.weights.values, shares)
        # Where all weigh nothing, or are left nothing, the total is less than the doubt.
        doubt = self.weights.doubt(shares) + rounding(laid.total, len(self.rows) + others)
        at = laid.falls_on(value * laid.total, doubt)
        return None if at is None else np.asarray(self.points[at])


@dataclass(frozen=True)
class _Weighing:
    """How points are weighed for those who know everybody."""

    points: np.ndarray
    rows: np.ndarray
    coverage: CoverageMap
    distances: Distances

    @classmethod
    def of(cls, coverage: CoverageMap, rows: np.ndarray) -> _Weighing:
        return cls(coverage.points[rows], rows, coverage, Distances(coverage.sums[coverage.faces.of[rows]]))

    def sketches(self, flyers: Sequence[Flyer]) -> Iterator[PointSketch]:
        size = max(1, min(FLYERS, _AT_ONCE // max(len(self.rows), 1)))
        for batch in (flyers[first : first + size] for first in range(0, len(flyers), size)):
            here = np.array([self.coverage.mix_here(flyer) for flyer in batch])
            for weights in self.distances.of(np.array([flyer.own for flyer in batch]), here):
                yield PointSketch(self.points, self.rows, weights)
