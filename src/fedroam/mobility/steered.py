"""Steered clients: DAM and DCM fly where the mix of classes differs from the one at hand."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from fedroam.components import Part, field, register
from fedroam.errors import InputError
from fedroam.mobility.atlas import Atlas, cluster_centres, mix_distances
from fedroam.mobility.grid import grid_places, mobile_groups, pick, within
from fedroam.mobility.world import Paths, State, World
from fedroam.randomness import stream

Approach = Literal["nearest", "on_line"]
Knowledge = Literal["oracle", "warm_up", "contacts"]
# (mobile client, where it is, which static clients it knows, a uniform draw) -> destination
Choose = Callable[[int, np.ndarray, np.ndarray, float], np.ndarray]

# One atlas a world: static clients stay where they are, so it is drawn up once and not kept in checkpoints.
_atlases: weakref.WeakKeyDictionary[World, dict[tuple[int, int], Atlas]] = weakref.WeakKeyDictionary()


CENTRES_KEPT = 256  # sets of known clients whose clusters are remembered; others are found anew

# The clusters of those who know the same static clients, likewise.
_centres: weakref.WeakKeyDictionary[World, dict[tuple[Any, ...], np.ndarray]] = weakref.WeakKeyDictionary()


def atlas_of(world: World, grid: int, mobile: int) -> Atlas:
    """The atlas of the static clients: all but the first `mobile`."""
    known = _atlases.setdefault(world, {})
    if (grid, mobile) not in known:
        places, counts = grid_places(world, grid)[mobile:], world.class_counts[mobile:]
        known[grid, mobile] = Atlas.of(places, counts, world.reach, grid)
    return known[grid, mobile]


def choose_by_distance(
    atlas: Atlas, here: np.ndarray, own: np.ndarray, known: np.ndarray, draw: float
) -> np.ndarray:
    """A grid point drawn with probability d(L) / sum of d over all grid points (Reza et al., Eqs. 5 and 6).

    Uniform where all distances are 0. `draw` is uniform in [0, 1).
    """
    distance, elsewhere = mix_distances(atlas, here, own, known)
    covered = float(distance.sum())
    rest = elsewhere * atlas.uncovered
    if covered + rest == 0:
        number = min(int(draw * atlas.grid**2), atlas.grid**2 - 1)
        return np.array([number // atlas.grid + 1, number % atlas.grid + 1], dtype=np.float64)
    target = draw * (covered + rest)
    if target < covered or rest == 0:
        return atlas.points[_fall(distance, target)]
    return atlas.uncovered_point(min(int((target - covered) / elsewhere), atlas.uncovered - 1))


def choose_centre(
    atlas: Atlas,
    centres: np.ndarray,
    here: np.ndarray,
    own: np.ndarray,
    known: np.ndarray,
    draw: float,
) -> np.ndarray:
    """A cluster centre drawn with probability d / sum of d over the centres (Reza et al., Eq. 9; Jahani et al.,
    Eq. 13). Uniform over the centres where all distances are 0.
    """
    distance, _ = mix_distances(atlas, here, own, known)
    # Every centre covers somebody, so it is among the covered points.
    weights = np.array([0.0 if (row := atlas.row(centre)) is None else distance[row] for centre in centres])
    if weights.sum() == 0:
        return pick(centres, draw)
    return np.asarray(centres[_fall(weights, draw * weights.sum())])


def _fall(weights: np.ndarray, target: float) -> int:
    """On which of the weights, laid end to end, `target` falls; never on one of weight 0."""
    edges = np.cumsum(weights)
    at = int(np.searchsorted(edges, target, side="right"))
    return min(at, int(np.flatnonzero(weights)[-1]))


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


def begin(world: World, grid: int, mobile: int, knowledge: Knowledge) -> dict[str, np.ndarray]:
    """The state before round 1: position; destination float64 [mobile, 2] (equal to the place: none); known bool
    [mobile, statics]; seen bool [mobile, grid points], the points once within reach (empty but for "contacts").
    """
    mobile_groups(world, mobile)
    places = grid_places(world, grid)
    atlas = atlas_of(world, grid, mobile)
    state = {
        "position": places,
        "destination": places[:mobile].copy(),
        "known": np.full((mobile, world.clients - mobile), knowledge == "oracle"),
        "seen": np.zeros((mobile, grid * grid if knowledge == "contacts" else 0), dtype=bool),
    }
    return {**state, **_look(atlas, state, world, knowledge)}


def _look(atlas: Atlas, state: State, world: World, knowledge: Knowledge) -> dict[str, np.ndarray]:
    """What the mobile clients know after looking around from where they are."""
    known, seen = state["known"].copy(), state["seen"].copy()
    if knowledge == "oracle":
        return {"known": known, "seen": seen}
    for m in range(len(known)):
        here = state["position"][m]
        known[m] |= np.hypot(*(atlas.places - here).T) <= world.reach
        if knowledge == "contacts":
            view = within(here, world.reach, atlas.grid)
            seen[m, ((view[:, 0] - 1) * atlas.grid + view[:, 1] - 1).astype(np.int64)] = True
    return {"known": known, "seen": seen}


def flight(
    state: State,
    world: World,
    round: int,
    *,
    grid: int,
    max_step: float,
    approach: Approach,
    knowledge: Knowledge,
    warm_up: int,
    choose: Choose,
) -> tuple[dict[str, np.ndarray], Paths]:
    """One round of steered movement: draw a destination where the last one is reached, and fly towards it.

    knowledge = "warm_up": in the first rounds, and until they know somebody, the mobile clients move as in `random`
    (Jahani et al., Sec. IV-A, which does not say how they move meanwhile); they note the static clients they come
    in reach of, then and later. "contacts" (ours): they start knowing nobody but those in reach; a new destination
    is, with the probability that a grid point has not been in reach yet, such a point at random, else chosen by
    what is known. A destination is kept until reached: Reza et al., Eq. 8.
    """
    # Four draws for every client, mobile or not: the draws of one do not depend on how many others fly.
    draws = stream(world.seed, "destinations", round).random((world.clients, 4))
    before, destination = state["position"], state["destination"].copy()
    after, known, seen = before.copy(), state["known"], state["seen"]
    atlas = atlas_of(world, grid, len(destination))
    for m in range(len(destination)):
        if knowledge == "warm_up" and (round <= warm_up or (known.shape[1] and not known[m].any())):
            after[m] = destination[m] = pick(within(before[m], max_step, grid), draws[m, 1])
            continue
        if (destination[m] == before[m]).all():
            unseen = np.flatnonzero(~seen[m])
            if len(unseen) and (draws[m, 2] < len(unseen) / grid**2 or not known[m].any()):
                cell = int(unseen[min(int(draws[m, 3] * len(unseen)), len(unseen) - 1)])
                destination[m] = (cell // grid + 1, cell % grid + 1)
            elif known[m].any() or not known.shape[1]:
                destination[m] = choose(m, before[m], known[m], draws[m, 0])
        after[m] = fly(before[m], destination[m], max_step, grid, approach, draws[m, 1])
    moved = {**state, "position": after, "destination": destination}
    return {**moved, **_look(atlas, moved, world, knowledge)}, Paths.straight(before, after)


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
        return begin(world, self.grid, self.mobile, self.knowledge)

    def step(self, state: State, world: World, round: int) -> tuple[dict[str, np.ndarray], Paths]:
        """See `Mobility.step`."""
        atlas = atlas_of(world, self.grid, self.mobile)

        def choose(m: int, here: np.ndarray, known: np.ndarray, draw: float) -> np.ndarray:
            return choose_by_distance(atlas, here, world.class_counts[m], known, draw)

        return flight(state, world, round, choose=choose, **_options(self))

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
    ties: Literal["coverage", "random"] = field(
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
        state = begin(world, self.grid, self.mobile, self.knowledge)
        if self.mobile and self.mobile == world.clients:
            raise InputError(
                f"mobility.mobile = {self.mobile}: all {world.clients} clients move, and dcm needs static ones to "
                f"fly to; allowed is 0 to {world.clients - 1}"
            )
        return state

    def step(self, state: State, world: World, round: int) -> tuple[dict[str, np.ndarray], Paths]:
        """See `Mobility.step`."""
        atlas = atlas_of(world, self.grid, self.mobile)

        def choose(m: int, here: np.ndarray, known: np.ndarray, draw: float) -> np.ndarray:
            centres = self.clusters(world, known)
            return choose_centre(atlas, centres, here, world.class_counts[m], known, draw)

        return flight(state, world, round, choose=choose, **_options(self))

    def clusters(self, world: World, known: np.ndarray | None = None) -> np.ndarray:
        """The cluster centres for those who know the static clients in `known` (all, if None); [clusters, 2]."""
        known = np.ones(world.clients - self.mobile, dtype=bool) if known is None else known
        cache = _centres.setdefault(world, {})
        key = (self.grid, self.mobile, self.ties, self.centres, known.tobytes())
        if key not in cache:
            if len(cache) >= CENTRES_KEPT:
                cache.clear()
            atlas, draws = atlas_of(world, self.grid, self.mobile), stream(world.seed, "clusters")
            cache[key] = cluster_centres(atlas, known, self.ties, self.centres, draws)
        return cache[key]

    def bounds(self) -> tuple[float, float, float, float]:
        """See `Mobility.bounds`."""
        return (1.0, 1.0, float(self.grid), float(self.grid))

    def groups(self, world: World) -> np.ndarray:
        """See `Mobility.groups`."""
        return mobile_groups(world, self.mobile)


def _options(part: DAM | DCM) -> dict[str, Any]:
    """What both patterns hand to `flight`."""
    return {name: getattr(part, name) for name in ("grid", "max_step", "approach", "knowledge", "warm_up")}
