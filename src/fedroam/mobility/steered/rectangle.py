"""DAM and DCM in a continuous rectangle: destinations are candidate points, flights are straight."""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedroam.components import Part, field, register
from fedroam.errors import InputError
from fedroam.mobility.grid import mobile_groups
from fedroam.mobility.steered.candidate_coverage import Chart, Drawn, uniform_within
from fedroam.mobility.steered.flights import Choose, Knowledge, begin, flight, remembered_centres
from fedroam.mobility.steered.grid import Ties
from fedroam.mobility.steered.grid_coverage import greedy_cover
from fedroam.mobility.steered.other_targets import Crowd, choose_point
from fedroam.mobility.world import Paths, State, World
from fedroam.randomness import stream

# One chart a world: static clients stay where they are, so it is drawn up once and not kept in checkpoints.
_charts: weakref.WeakKeyDictionary[World, dict[tuple[Any, ...], Chart]] = weakref.WeakKeyDictionary()


def uniform_places(world: World, width: float, height: float) -> np.ndarray:
    """Start places uniform over the rectangle, float64 [clients, 2], m: those of the kind "random_walk", by seed."""
    return stream(world.seed, "places").random((world.clients, 2)) * [width, height]


@dataclass(frozen=True)
class RectangleGround:
    """Flights over the rectangle [0, size], m, with the survey points of a chart: see `Ground`."""

    chart: Chart
    size: np.ndarray
    max_step: float
    seed: int

    @property
    def survey_points(self) -> int:
        """See `Ground`."""
        return len(self.chart.survey)

    def survey_point(self, number: int) -> np.ndarray:
        """See `Ground`."""
        return np.asarray(self.chart.survey[number])

    def view(self, here: np.ndarray) -> np.ndarray:
        """See `Ground`."""
        return np.flatnonzero(np.hypot(*(self.chart.survey - here).T) <= self.chart.reach)

    def near(self, here: np.ndarray) -> np.ndarray:
        """See `Ground`."""
        return self.chart.near(here)

    def wander(self, here: np.ndarray, m: int, round: int, draw: float) -> np.ndarray:
        """See `Ground`: uniform over the points of the rectangle within `max_step`, as "random" on a grid."""
        return uniform_within(here, self.max_step, self.size, stream(self.seed, "wandering", round, m))

    def fly(self, here: np.ndarray, destination: np.ndarray, draw: float) -> np.ndarray:
        """See `Ground`: straight on, `max_step` far or to the destination."""
        way = destination - here
        length = float(np.hypot(*way))
        if length <= self.max_step:
            return destination
        # Rounding must not carry it beyond its destination, and so perhaps out of the rectangle.
        there = here + way * (self.max_step / length)
        return np.clip(there, np.minimum(here, destination), np.maximum(here, destination))


@register(
    "mobility",
    "dam_continuous",
    source="after Reza et al., Sec. IV-B1, Eqs. 4, 5, 6 and 8; candidate points are ours",
)
class DAMContinuous(Part):
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

    width: float = field(500.0, "extent of the world along x (w)", unit="m", gt=0, allow_inf_nan=False)
    height: float = field(500.0, "extent of the world along y (h)", unit="m", gt=0, allow_inf_nan=False)
    points: int = field(
        1000,
        "how many candidate points (without meaning for intersections), and survey points",
        ge=1,
        le=10**6,
    )
    candidates: Drawn = field("halton", "how candidate points are drawn")
    mobile: int = field(5, "how many clients move (the first by index)", unit="clients", ge=0)
    max_step: float = field(math.inf, "longest move in a round (Rm); inf is unconstrained", unit="m", ge=0)
    knowledge: Knowledge = field("oracle", "how the static clients' places and class counts are known")
    warm_up: int = field(20, "rounds of random movement with knowledge = 'warm_up'", unit="rounds", ge=0)

    def start(self, world: World) -> dict[str, np.ndarray]:
        """See `Mobility.start`. Raises InputError where there is no candidate point."""
        mobile_groups(world, self.mobile)
        if self.candidates in ("clients", "intersections"):
            _some_static(world, self.mobile, f"candidates = {self.candidates!r}")
        places = uniform_places(world, self.width, self.height)
        return begin(self.ground(world), places, self.mobile, self.knowledge)

    def step(self, state: State, world: World, round: int) -> tuple[dict[str, np.ndarray], Paths]:
        """See `Mobility.step`."""
        return flight(
            state,
            world,
            round,
            ground=self.ground(world),
            knowledge=self.knowledge,
            warm_up=self.warm_up,
            choose=self.chooser(world),
        )

    def ground(self, world: World) -> RectangleGround:
        """What the mobile clients fly over."""
        return _ground(self, world)

    def chooser(self, world: World, discount: float = 0.0) -> Choose:
        """How a destination is chosen; `discount` (0 to 1) of what others head for: see `Spread`."""
        chart = self.ground(world).chart

        def choose(
            m: int, here: np.ndarray, known: np.ndarray, draw: float, others: np.ndarray
        ) -> np.ndarray:
            rows = np.flatnonzero(chart.allowed(known))
            weights = chart.distances(here, world.class_counts[m], known, rows)
            return choose_point(chart.points[rows], weights, draw, Crowd.of(others, world.reach, discount))

        return choose

    def bounds(self) -> tuple[float, float, float, float]:
        """See `Mobility.bounds`."""
        return (0.0, 0.0, self.width, self.height)

    def groups(self, world: World) -> np.ndarray:
        """See `Mobility.groups`."""
        return mobile_groups(world, self.mobile)


@register(
    "mobility",
    "dcm_continuous",
    source="after Reza et al., Sec. IV-B2, Alg. 1, Eq. 9; candidate points are ours",
)
class DCMContinuous(Part):
    """Distribution-aware cluster-centre mobility in a continuous rectangle: as `dcm`, over candidate points.

    The clusters are a greedy cover of the static clients by discs of the radio reach around candidate points. With
    candidates = "intersections" the greedy choice is that over all points of the rectangle. For the candidates and
    the flights see `dam_continuous`.
    """

    width: float = field(500.0, "extent of the world along x (w)", unit="m", gt=0, allow_inf_nan=False)
    height: float = field(500.0, "extent of the world along y (h)", unit="m", gt=0, allow_inf_nan=False)
    points: int = field(
        1000,
        "how many candidate points (without meaning for intersections), and survey points",
        ge=1,
        le=10**6,
    )
    candidates: Drawn = field("halton", "how candidate points are drawn")
    mobile: int = field(5, "how many clients move (the first by index)", unit="clients", ge=0)
    max_step: float = field(math.inf, "longest move in a round (Rm); inf is unconstrained", unit="m", ge=0)
    ties: Ties = field(
        "coverage",
        "equal centres: the one that covers most of all (Reza et al.), or at random (Jahani et al.)",
    )
    knowledge: Knowledge = field("oracle", "how the static clients' places and class counts are known")
    warm_up: int = field(20, "rounds of random movement with knowledge = 'warm_up'", unit="rounds", ge=0)

    def start(self, world: World) -> dict[str, np.ndarray]:
        """See `Mobility.start`. Raises InputError where there is no static client: no destination then."""
        mobile_groups(world, self.mobile)
        _some_static(world, self.mobile, "dcm_continuous")
        places = uniform_places(world, self.width, self.height)
        return begin(self.ground(world), places, self.mobile, self.knowledge)

    def step(self, state: State, world: World, round: int) -> tuple[dict[str, np.ndarray], Paths]:
        """See `Mobility.step`."""
        return flight(
            state,
            world,
            round,
            ground=self.ground(world),
            knowledge=self.knowledge,
            warm_up=self.warm_up,
            choose=self.chooser(world),
        )

    def ground(self, world: World) -> RectangleGround:
        """What the mobile clients fly over."""
        return _ground(self, world)

    def chooser(self, world: World, discount: float = 0.0) -> Choose:
        """How a destination is chosen; `discount` (0 to 1) of what others head for: see `Spread`."""
        chart = self.ground(world).chart

        def choose(
            m: int, here: np.ndarray, known: np.ndarray, draw: float, others: np.ndarray
        ) -> np.ndarray:
            rows = self._rows(world, known)
            weights = chart.distances(here, world.class_counts[m], known, rows)
            return choose_point(chart.points[rows], weights, draw, Crowd.of(others, world.reach, discount))

        return choose

    def clusters(self, world: World, known: np.ndarray | None = None) -> np.ndarray:
        """The cluster centres for those who know the static clients in `known` (all, if None); [clusters, 2], m."""
        known = np.ones(world.clients - self.mobile, dtype=bool) if known is None else known
        return np.asarray(self.ground(world).chart.points[self._rows(world, known)])

    def _rows(self, world: World, known: np.ndarray) -> np.ndarray:
        """The candidate points that are cluster centres, in the order in which they were chosen."""
        chart, draws = self.ground(world).chart, stream(world.seed, "clusters")
        key = (*_key(self), self.ties, known.tobytes())
        return remembered_centres(
            world,
            key,
            lambda: greedy_cover(
                chart.coverage, known, self.ties == "coverage", draws, allowed=chart.allowed(known)
            ),
        )

    def bounds(self) -> tuple[float, float, float, float]:
        """See `Mobility.bounds`."""
        return (0.0, 0.0, self.width, self.height)

    def groups(self, world: World) -> np.ndarray:
        """See `Mobility.groups`."""
        return mobile_groups(world, self.mobile)


def _key(part: DAMContinuous | DCMContinuous) -> tuple[Any, ...]:
    """What the chart of a world depends on."""
    return ("rectangle", part.width, part.height, part.points, part.candidates, part.mobile)


def _ground(part: DAMContinuous | DCMContinuous, world: World) -> RectangleGround:
    charts, key, size = _charts.setdefault(world, {}), _key(part), np.array([part.width, part.height])
    if key not in charts:
        places = uniform_places(world, part.width, part.height)[part.mobile :]
        counts, draws = world.class_counts[part.mobile :], stream(world.seed, "candidates")
        charts[key] = Chart.of(places, counts, world.reach, size, part.candidates, part.points, draws)
    return RectangleGround(charts[key], size, part.max_step, world.seed)


def _some_static(world: World, mobile: int, needs: str) -> None:
    """Raises InputError where all clients move."""
    if mobile and mobile == world.clients:
        raise InputError(
            f"mobility.mobile = {mobile}: all {world.clients} clients move, and {needs} needs static ones to "
            f"fly to; allowed is 0 to {world.clients - 1}"
        )
