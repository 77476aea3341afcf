"""Steered clients: DAM and DCM fly where the mix of classes differs from the one at hand."""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedroam.components import Part, field, register
from fedroam.errors import InputError
from fedroam.mobility.grid import grid_places, mobile_groups, pick, within
from fedroam.mobility.steered.flights import Choose, Knowledge, begin, fall, flight, remembered_centres
from fedroam.mobility.steered.grid_coverage import Atlas, cluster_centres, mix_distances
from fedroam.mobility.steered.other_targets import Crowd, choose_point
from fedroam.mobility.world import Paths, State, World
from fedroam.randomness import stream

Approach = Literal["nearest", "on_line"]
Ties = Literal["coverage", "random"]

# One atlas a world: static clients stay where they are, so it is drawn up once and not kept in checkpoints.
_atlases: weakref.WeakKeyDictionary[World, dict[tuple[int, int], Atlas]] = weakref.WeakKeyDictionary()


def atlas_of(world: World, grid: int, mobile: int) -> Atlas:
    """The atlas of the static clients: all but the first `mobile`."""
    known = _atlases.setdefault(world, {})
    if (grid, mobile) not in known:
        places, counts = grid_places(world, grid)[mobile:], world.class_counts[mobile:]
        known[grid, mobile] = Atlas.of(places, counts, world.reach, grid)
    return known[grid, mobile]


def choose_by_distance(
    atlas: Atlas,
    here: np.ndarray,
    own: np.ndarray,
    known: np.ndarray,
    draw: float,
    crowd: Crowd | None = None,
) -> np.ndarray:
    """A grid point drawn with probability d(L) / sum of d over all grid points (Reza et al., Eqs. 5 and 6).

    Uniform where all distances are 0. `draw` is uniform in [0, 1). A crowd discounts d(L) by its `fresh`, unless
    it leaves nothing.
    """
    distance, elsewhere = mix_distances(atlas, here, own, known)
    covered = float(distance.sum())
    rest = elsewhere * atlas.uncovered
    if crowd is not None:
        flat = covered + rest == 0  # then all weights are equal
        chosen = _discounted(
            atlas, distance + 1 if flat else distance, 1.0 if flat else elsewhere, draw, crowd
        )
        if chosen is not None:
            return chosen
    if covered + rest == 0:
        number = min(int(draw * atlas.grid**2), atlas.grid**2 - 1)
        return np.array([number // atlas.grid + 1, number % atlas.grid + 1], dtype=np.float64)
    target = draw * (covered + rest)
    if target < covered or rest == 0:
        return atlas.points[fall(distance, target)]
    return atlas.uncovered_point(min(int((target - covered) / elsewhere), atlas.uncovered - 1))


def _discounted(
    atlas: Atlas, distance: np.ndarray, elsewhere: float, draw: float, crowd: Crowd
) -> np.ndarray | None:
    """A grid point by its discounted weight; None where every weight is 0.

    Weights differ only at covered points and within two radio reaches of the crowd; all others weigh `elsewhere`.
    """
    around = atlas.uncovered_around(crowd.places, 2 * crowd.reach)
    points = np.concatenate([atlas.points, around])
    base = np.concatenate([distance, np.full(len(around), elsewhere)])
    weights = base * crowd.fresh(points)
    listed, left = float(weights.sum()), atlas.uncovered - len(around)
    rest = elsewhere * left
    if listed + rest == 0:
        return None
    target = draw * (listed + rest)
    if target < listed or rest == 0:
        return np.asarray(points[fall(weights, target)])
    return atlas.uncovered_beyond(around, min(int((target - listed) / elsewhere), left - 1))


def choose_centre(
    atlas: Atlas,
    centres: np.ndarray,
    here: np.ndarray,
    own: np.ndarray,
    known: np.ndarray,
    draw: float,
    crowd: Crowd | None = None,
) -> np.ndarray:
    """A cluster centre drawn with probability d / sum of d over the centres (Reza et al., Eq. 9; Jahani et al.,
    Eq. 13). Uniform over the centres where all distances are 0. A crowd discounts d as for `choose_by_distance`.
    """
    distance, _ = mix_distances(atlas, here, own, known)
    # Every centre covers somebody, so it is among the covered points.
    weights = np.array([0.0 if (row := atlas.row(centre)) is None else distance[row] for centre in centres])
    return choose_point(centres, weights, draw, crowd)


def fly(
    here: np.ndarray, destination: np.ndarray, max_step: float, grid: int, approach: Approach, draw: float
) -> np.ndarray:
    """Where a client gets to in one round: its destination, or as near to it as `max_step` allows.

    "nearest": the grid point within reach that is nearest to the destination (Reza et al., Eq. 7), ties by
    `draw`, uniform in [0, 1). "on_line": the one nearest to the point `max_step` along the straight way there
    ("along the route", "along that direction": the papers' words, not always the arg min of the equation).
    """
    way = destination - here
    length = float(np.hypot(*way))
    if length <= max_step:
        return destination
    goal = destination if approach == "nearest" else here + way * (max_step / length)
    candidates = within(here, max_step, grid)
    gap = ((candidates - goal) ** 2).sum(axis=1)
    return pick(candidates[gap <= gap.min() * (1 + 1e-12)], draw)


@dataclass(frozen=True)
class GridGround:
    """Flights over grid points, all of which are survey points: see `Ground`."""

    atlas: Atlas
    reach: float
    max_step: float
    approach: Approach

    @property
    def survey_points(self) -> int:
        """See `Ground`."""
        return self.atlas.grid**2

    def survey_point(self, number: int) -> np.ndarray:
        """See `Ground`."""
        return np.array([number // self.atlas.grid + 1, number % self.atlas.grid + 1], dtype=np.float64)

    def view(self, here: np.ndarray) -> np.ndarray:
        """See `Ground`."""
        return self.atlas.numbers(within(here, self.reach, self.atlas.grid))

    def near(self, here: np.ndarray) -> np.ndarray:
        """See `Ground`."""
        return np.asarray(np.hypot(*(self.atlas.places - here).T) <= self.reach)

    def wander(self, here: np.ndarray, m: int, round: int, draw: float) -> np.ndarray:
        """See `Ground`: as the mobility kind "random"."""
        return pick(within(here, self.max_step, self.atlas.grid), draw)

    def fly(self, here: np.ndarray, destination: np.ndarray, draw: float) -> np.ndarray:
        """See `Ground` and the function `fly`."""
        return fly(here, destination, self.max_step, self.atlas.grid, self.approach, draw)


@register(
    "mobility",
    "dam",
    source="Reza et al., Sec. IV-B and IV-B1, Eqs. 4-8; Jahani et al., Sec. IV, Eqs. 9-12, Alg. 4",
)
class DAM(Part):
    """Distribution-aware mobility: mobile clients fly to grid points where the mix of classes differs from here.

    The destination is drawn with probability proportional to the distance of the class mixes and kept until
    reached. The class mix at a point is that of the static clients within radio reach of it and the client itself.
    """

    grid: int = field(18, "grid points along a side; points are 1 m apart", unit="points", ge=1)
    mobile: int = field(5, "how many clients move (the first by index)", unit="clients", ge=0)
    max_step: float = field(math.inf, "longest move in a round (Rm); inf is unconstrained", unit="m", ge=0)
    approach: Approach = field("nearest", "where a flight longer than max_step gets to in a round")
    knowledge: Knowledge = field("oracle", "how the static clients' places and class counts are known")
    warm_up: int = field(20, "rounds of random movement with knowledge = 'warm_up'", unit="rounds", ge=0)

    def start(self, world: World) -> dict[str, np.ndarray]:
        """See `Mobility.start`."""
        mobile_groups(world, self.mobile)
        return begin(self.ground(world), grid_places(world, self.grid), self.mobile, self.knowledge)

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

    def ground(self, world: World) -> GridGround:
        """What the mobile clients fly over."""
        atlas = atlas_of(world, self.grid, self.mobile)
        return GridGround(atlas, world.reach, self.max_step, self.approach)

    def chooser(self, world: World, discount: float = 0.0) -> Choose:
        """How a destination is chosen; `discount` (0 to 1) of what others head for: see `Spread`."""
        atlas = atlas_of(world, self.grid, self.mobile)

        def choose(
            m: int, here: np.ndarray, known: np.ndarray, draw: float, others: np.ndarray
        ) -> np.ndarray:
            crowd = Crowd.of(others, world.reach, discount)
            return choose_by_distance(atlas, here, world.class_counts[m], known, draw, crowd)

        return choose

    def bounds(self) -> tuple[float, float, float, float]:
        """See `Mobility.bounds`."""
        return (1.0, 1.0, float(self.grid), float(self.grid))

    def groups(self, world: World) -> np.ndarray:
        """See `Mobility.groups`."""
        return mobile_groups(world, self.mobile)


@register(
    "mobility",
    "dcm",
    source="Reza et al., Sec. IV-B2, Alg. 1, Eq. 9; Jahani et al., Sec. IV-B2, Alg. 3, Eq. 13",
)
class DCM(Part):
    """Distribution-aware cluster-centre mobility: as DAM, but only centres of the static clients' clusters.

    The clusters are a greedy cover of the static clients by discs of the radio reach.
    """

    grid: int = field(18, "grid points along a side; points are 1 m apart", unit="points", ge=1)
    mobile: int = field(5, "how many clients move (the first by index)", unit="clients", ge=0)
    max_step: float = field(math.inf, "longest move in a round (Rm); inf is unconstrained", unit="m", ge=0)
    approach: Approach = field("nearest", "where a flight longer than max_step gets to in a round")
    ties: Ties = field(
        "coverage",
        "equal centres: the one that covers most of all (Reza et al.), or at random (Jahani et al.)",
    )
    centres: Literal["grid", "clients"] = field(
        "grid",
        "where centres may lie: any grid point (the algorithm), or only at uncovered clients (the text)",
    )
    knowledge: Knowledge = field("oracle", "how the static clients' places and class counts are known")
    warm_up: int = field(20, "rounds of random movement with knowledge = 'warm_up'", unit="rounds", ge=0)

    def start(self, world: World) -> dict[str, np.ndarray]:
        """See `Mobility.start`. Raises InputError where there is no static client: DCM has no destination then."""
        mobile_groups(world, self.mobile)
        state = begin(self.ground(world), grid_places(world, self.grid), self.mobile, self.knowledge)
        if self.mobile and self.mobile == world.clients:
            raise InputError(
                f"mobility.mobile = {self.mobile}: all {world.clients} clients move, and dcm needs static ones to "
                f"fly to; allowed is 0 to {world.clients - 1}"
            )
        return state

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

    def ground(self, world: World) -> GridGround:
        """What the mobile clients fly over."""
        atlas = atlas_of(world, self.grid, self.mobile)
        return GridGround(atlas, world.reach, self.max_step, self.approach)

    def chooser(self, world: World, discount: float = 0.0) -> Choose:
        """How a destination is chosen; `discount` (0 to 1) of what others head for: see `Spread`."""
        atlas = atlas_of(world, self.grid, self.mobile)

        def choose(
            m: int, here: np.ndarray, known: np.ndarray, draw: float, others: np.ndarray
        ) -> np.ndarray:
            crowd = Crowd.of(others, world.reach, discount)
            return choose_centre(
                atlas, self.clusters(world, known), here, world.class_counts[m], known, draw, crowd
            )

        return choose

    def clusters(self, world: World, known: np.ndarray | None = None) -> np.ndarray:
        """The cluster centres for those who know the static clients in `known` (all, if None); [clusters, 2]."""
        known = np.ones(world.clients - self.mobile, dtype=bool) if known is None else known
        atlas, draws = atlas_of(world, self.grid, self.mobile), stream(world.seed, "clusters")
        key = ("grid", self.grid, self.mobile, self.ties, self.centres, known.tobytes())
        return remembered_centres(
            world, key, lambda: cluster_centres(atlas, known, self.ties, self.centres, draws)
        )

    def bounds(self) -> tuple[float, float, float, float]:
        """See `Mobility.bounds`."""
        return (1.0, 1.0, float(self.grid), float(self.grid))

    def groups(self, world: World) -> np.ndarray:
        """See `Mobility.groups`."""
        return mobile_groups(world, self.mobile)
