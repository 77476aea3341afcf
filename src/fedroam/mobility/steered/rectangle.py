"""Steered movement in a continuous rectangle: destinations are candidate points, flights are straight."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from typing_extensions import override

from fedroam.components import Part, field, register
from fedroam.mobility.grid import MAX_STEP, MOBILE
from fedroam.mobility.random_walk import HEIGHT, WIDTH, uniform_places
from fedroam.mobility.steered.candidates import Drawn, candidate_points, evenly_spread, uniform_within
from fedroam.mobility.steered.coverage import CoverageMap, near_pairs, tree_of
from fedroam.mobility.steered.policy import TIES, Steered, Ties
from fedroam.mobility.steered.sketches.point_sketch import PointTargets
from fedroam.mobility.steered.surveyed import mark
from fedroam.mobility.steered.targets import OtherTargets, Unserved
from fedroam.mobility.steered.unserved import UnservedPoints
from fedroam.mobility.world import World
from fedroam.randomness import stream

if TYPE_CHECKING:
    from scipy.spatial import cKDTree


@dataclass(frozen=True)
class RectangleTerrain:
    """The rectangle [0, size], m, with survey points spread evenly over it (float64 [survey points, 2])."""

    size: np.ndarray
    places: np.ndarray
    coverage: CoverageMap
    survey: np.ndarray
    max_step: float
    seed: int

    @functools.cached_property
    def survey_tree(self) -> cKDTree:
        """The survey points, to ask which are near."""
        return tree_of(self.survey)

    @property
    def survey_points(self) -> int:
        """As many as there are."""
        return len(self.survey)

    def survey_point(self, number: int) -> np.ndarray:
        """The survey point in this row."""
        return np.asarray(self.survey[number])

    def see(self, seen: np.ndarray, places: np.ndarray) -> None:
        """Mark the survey points within radio reach of `places`, float64 [clients, 2], in `seen`."""
        mark(seen, *near_pairs(places, self.survey, self.survey_tree, self.coverage.reach))

    def wander(self, here: np.ndarray, m: int, round: int, draw: float) -> np.ndarray:
        """Uniform over the points of the rectangle within `max_step`, as "random" is on a grid."""
        return uniform_within(here, self.max_step, self.size, stream(self.seed, "wandering", round, m))

    def fly(self, here: np.ndarray, destination: np.ndarray, draws: np.ndarray) -> np.ndarray:
        """Straight on, `max_step` far or to the destination, for each of several clients, or one."""
        way = destination - here
        length = np.hypot(way[..., :1], way[..., 1:])
        far = length > self.max_step
        # Rounding must not carry it beyond its destination, and so perhaps out of the rectangle.
        there = here + way * np.divide(self.max_step, length, out=np.zeros_like(length), where=far)
        on = np.clip(there, np.minimum(here, destination), np.maximum(here, destination))
        return np.where(far, on, destination)

    def unserved(self, others: OtherTargets) -> Unserved | None:
        """What others leave around the candidate points, to be kept while more of them draw."""
        found = UnservedPoints(self.coverage, others.discount)
        found.add(others.places)
        return found


class OverRectangle(Part):
    """The terrain of a steered mobility: a rectangle with candidate points to fly to."""

    width: float = WIDTH
    height: float = HEIGHT
    points: int = field(
        1000,
        "how many candidate points (without meaning for intersections), and survey points",
        ge=1,
        le=10**6,
    )
    candidates: Drawn = field("halton", "how candidate points are drawn")
    mobile: int = MOBILE
    max_step: float = MAX_STEP

    def bounds(self) -> tuple[float, float, float, float]:
        """The corners of the rectangle."""
        return (0.0, 0.0, self.width, self.height)

    def terrain(self, world: World) -> RectangleTerrain:
        """What the mobile clients fly over, found once a world: static clients stay where they are."""
        return world.derived((self, "terrain"), lambda: self._terrain(world))

    def _terrain(self, world: World) -> RectangleTerrain:
        size, draws = np.array([self.width, self.height]), stream(world.seed, "candidates")
        places = uniform_places(world, self.width, self.height)
        static, counts = places[self.mobile :], world.class_counts[self.mobile :]
        survey = evenly_spread(self.points, size, self.candidates, draws)
        points, owners = candidate_points(survey, static, world.reach, size, self.candidates, draws)
        coverage = CoverageMap.of_candidates(static, counts, world.reach, points, owners)
        return RectangleTerrain(size, places, coverage, survey, self.max_step, world.seed)

    def candidates_of(self, world: World, known: np.ndarray) -> np.ndarray:
        """The candidate points, as rows of the coverage, that those know of who know the static clients in `known`."""
        return np.flatnonzero(self.terrain(world).coverage.allowed(known))

    def centres_of(self, world: World, known: np.ndarray, ties: Ties) -> np.ndarray:
        """The cluster centres, as rows of the coverage, for those who know the static clients in `known`."""

        def find() -> np.ndarray:
            return self.terrain(world).coverage.centres(
                known, ties == "coverage", stream(world.seed, "clusters")
            )

        return world.derived((self, "centres", known.tobytes()), find)

    def candidates_need_static(self) -> str:
        """The setting by which there is no candidate point without static clients; "" if there is one."""
        return f"candidates = {self.candidates!r}" if self.candidates in ("clients", "intersections") else ""


class RectangleCentres(Part):
    """The setting of cluster centres among candidate points."""

    ties: Ties = TIES


@register(
    "mobility",
    "dam_continuous",
    source="after Reza et al., Sec. IV-B1, Eqs. 4, 5, 6 and 8; candidate points are ours",
)
class DAMContinuous(PointTargets, Steered, OverRectangle):
    """Distribution-aware mobility in a continuous rectangle: as `dam`, over candidate points instead of a grid.

    The destination is drawn with probability proportional to the distance of the class mixes and kept until
    reached; in a round a mobile client flies straight on, at most `max_step`. Candidates that fill the rectangle
    evenly (halton, jittered) are the grid's counterpart; candidates at the static clients leave empty places out.
    Start places are uniform, by seed the same as those of `random_walk`.

    Candidates: "halton", points of low discrepancy; "jittered", a random point in each of as many equal cells;
    "clients", the static clients' places and random points within reach of them; "intersections", where circles of
    the radio reach around the static clients meet each other or the walls, however many: among these is, for any
    point at all, one that covers at least the same static clients. Whoever does not know a static client does not
    know of the points that come with it. A static client that no point covers has its own place as a candidate.
    """

    def rows(self, world: World, known: np.ndarray) -> np.ndarray:
        """All candidate points."""
        return self.candidates_of(world, known)

    @override
    def needs_static(self) -> str:
        return self.candidates_need_static()


@register(
    "mobility",
    "dcm_continuous",
    source="after Reza et al., Sec. IV-B2, Alg. 1, Eq. 9; candidate points are ours",
)
class DCMContinuous(PointTargets, Steered, RectangleCentres, OverRectangle):
    """Distribution-aware cluster-centre mobility in a continuous rectangle: as `dcm`, over candidate points.

    The clusters are a greedy cover of the static clients by discs of the radio reach around candidate points. With
    candidates = "intersections" the greedy choice is that over all points of the rectangle. For the candidates and
    the flights see `dam_continuous`.
    """

    def rows(self, world: World, known: np.ndarray) -> np.ndarray:
        """The cluster centres."""
        return self.centres_of(world, known, self.ties)

    @override
    def needs_static(self) -> str:
        return self.kind
