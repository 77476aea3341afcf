"""What steered movement is: draw a destination by a policy, keep it until reached, note who lives along the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, Protocol

import numpy as np
from typing_extensions import override

from fedroam.components import Part, field
from fedroam.errors import InputError
from fedroam.mobility.grid import check_mobile, mobile_groups, pick
from fedroam.mobility.steered.coverage import CoverageMap, Flyer
from fedroam.mobility.steered.surveyed import as_bits, how_many, nothing_seen, unseen
from fedroam.mobility.steered.targets import OtherTargets, Targets, Unserved
from fedroam.mobility.world import Paths, State, World
from fedroam.randomness import stream

Knowledge = Literal["oracle", "warm_up", "contacts"]
Ties = Literal["coverage", "random"]

TIES = field(
    "coverage", "equal centres: the one that covers most of all (Reza et al.), or at random (Jahani et al.)"
)


class Terrain(Protocol):
    """What steered clients fly over in a world: who stands where, and how far one gets in a round.

    The survey points are those by which an explorer (knowledge = "contacts") knows where it has not been yet.
    """

    @property
    def places(self) -> np.ndarray:
        """Start places of all clients, float64 [clients, 2], m."""

    @property
    def coverage(self) -> CoverageMap:
        """Where the static clients are within reach."""

    @property
    def survey_points(self) -> int:
        """How many survey points there are."""

    def survey_point(self, number: int) -> np.ndarray:
        """The place of a survey point, float64 [2]."""

    def see(self, seen: np.ndarray, places: np.ndarray) -> None:
        """Mark the survey points within reach of each of `places`, float64 [clients, 2], in `seen`.

        seen: a bit for each client and survey point, as `surveyed` has them.
        """

    def wander(self, here: np.ndarray, m: int, round: int, draw: float) -> np.ndarray:
        """Where mobile client `m` gets to when it moves at random; `draw` is uniform in [0, 1)."""

    def fly(self, here: np.ndarray, destination: np.ndarray, draws: np.ndarray) -> np.ndarray:
        """Where clients get to in one round, float64 [clients, 2]; draws, uniform in [0, 1), break ties."""

    def unserved(self, others: OtherTargets) -> Unserved | None:
        """What others leave to serve, to be kept while more of them draw; None where that is not kept."""


class Draws(Protocol):
    """What knows most draws from some targets: see `Targets.draw`."""

    def draw(self, value: float, kept: Unserved | None) -> np.ndarray | None:
        """The place that `value` falls on, float64 [2], given what others leave; None where that takes the targets
        themselves.
        """


class Policy(Protocol):
    """What makes a steered mobility: `Steered`, a base that gives it a terrain, and targets of its own."""

    @property
    def mobile(self) -> int:
        """How many clients move."""

    def check_clients(self, clients: int) -> None:
        """Refuse more mobile clients than there are, or all of them where static ones are needed."""

    @property
    def knowledge(self) -> Knowledge:
        """How the static clients become known."""

    @property
    def warm_up(self) -> int:
        """Rounds of random movement with knowledge = "warm_up"."""

    def terrain(self, world: World) -> Terrain:
        """What the mobile clients of a world fly over."""

    def targets(self, world: World, flyer: Flyer) -> Targets:
        """The places that a mobile client may fly to next, and how much each weighs."""

    def sketches(self, world: World, flyers: Sequence[Flyer]) -> Iterator[Draws | None]:
        """For each of these clients, in turn, what may know the draw from its targets sooner than they are weighed."""

    def avoidance(self) -> float:
        """How much a target loses that another mobile client serves wholly: 0 nothing, 1 all."""

    def needs_static(self) -> str:
        """What of it cannot do without static clients to fly to; "" if nothing."""


class Steered(Part):
    """The rounds of every steered mobility, and what its clients know.

    A kind is put together from this, a base for its terrain (`OverGrid`, `OverRectangle`), and its own `targets`.
    The fields of a part stand in the order of its bases from the last to the first, so this base comes first.
    """

    knowledge: Knowledge = field("oracle", "how the static clients' places and class counts are known")
    warm_up: int = field(20, "rounds of random movement with knowledge = 'warm_up'", unit="rounds", ge=0)

    @override
    def check_clients(self: Policy, clients: int) -> None:
        check_mobile(self.mobile, clients)
        if (needs := self.needs_static()) and self.mobile and self.mobile == clients:
            raise InputError(
                f"mobility.mobile = {self.mobile}: all {clients} clients move, and {needs} needs static ones "
                f"to fly to; allowed is 0 to {clients - 1}"
            )

    def start(self: Policy, world: World) -> dict[str, np.ndarray]:
        """All at their start places, the first `mobile` of them ready to fly.

        position; destination float64 [mobile, 2] (equal to the place: none); known bool [mobile, statics]; seen
        uint8 [mobile, survey points / 8], a bit for each point once within reach (empty but for "contacts"). Raises
        InputError where more clients move than there are, or where static ones are needed and all move.
        """
        self.check_clients(world.clients)
        terrain = self.terrain(world)
        explored = terrain.survey_points if self.knowledge == "contacts" else 0
        state = {
            "position": terrain.places.copy(),
            "destination": terrain.places[: self.mobile].copy(),
            "known": np.full((self.mobile, world.clients - self.mobile), self.knowledge == "oracle"),
            "seen": nothing_seen(self.mobile, explored),
        }
        _look(terrain, state, self.knowledge)
        return state

    def step(self: Policy, state: State, world: World, round: int) -> tuple[dict[str, np.ndarray], Paths]:
        """Draw a destination where the last one is reached, and fly towards it: see `steer`."""
        return steer(self, state, world, round)

    def groups(self: Policy, world: World) -> np.ndarray:
        """`mobile` for the first by index, `static` for the rest."""
        return mobile_groups(world, self.mobile)

    def sketches(self, world: World, flyers: Sequence[Flyer]) -> Iterator[Draws | None]:
        """None for each: its targets are weighed."""
        return iter([None] * len(flyers))

    def avoidance(self) -> float:
        """0: each flies for itself."""
        return 0.0

    def needs_static(self) -> str:
        """Nothing: it can do without static clients."""
        return ""


def steer(policy: Policy, state: State, world: World, round: int) -> tuple[dict[str, np.ndarray], Paths]:
    """One round of steered movement: the state at its end, and the ways of all.

    knowledge = "warm_up": in the first rounds, and until they know somebody, the mobile clients move at random
    (Jahani et al., Sec. IV-A, which does not say how they move meanwhile); they note the static clients they come
    in reach of, then and later. "contacts" (ours): they start knowing nobody but those in reach; a new destination
    is, with the probability that a survey point has not been in reach yet, such a point at random, else chosen by
    what is known. A destination is kept until reached: Reza et al., Eq. 8.

    Destinations are drawn in the order of the clients' indices. The others that may discount a target are those
    under way, or who have drawn anew in this round; who moves at random heads for nowhere.
    """
    terrain, mobile = policy.terrain(world), policy.mobile
    # Four draws for every client, mobile or not: the draws of one do not depend on how many others fly.
    draws = stream(world.seed, "destinations", round).random((world.clients, 4))[:mobile]
    before, destination = state["position"], state["destination"].copy()
    here, after, known = before[:mobile], before.copy(), state["known"]
    knows = known.any(axis=1)
    lost = ~knows & (known.shape[1] > 0)
    wandering = np.full(mobile, policy.knowledge == "warm_up") & ((round <= policy.warm_up) | lost)
    for m in np.flatnonzero(wandering).tolist():
        after[m] = destination[m] = terrain.wander(before[m], m, round, draws[m, 1])
    _choose(policy, world, state, destination, np.flatnonzero(~wandering), draws)
    flying = np.flatnonzero(~wandering)
    after[flying] = terrain.fly(here[flying], destination[flying], draws[flying, 1])
    moved = {**state, "position": after, "destination": destination}
    if policy.knowledge != "oracle":
        moved |= {"known": known.copy(), "seen": as_bits(state["seen"]).copy()}
        _look(terrain, moved, policy.knowledge)
    return moved, Paths.straight(before, after)


def _choose(
    policy: Policy,
    world: World,
    state: State,
    destination: np.ndarray,
    steered: np.ndarray,
    draws: np.ndarray,
) -> None:
    """New destinations, written into `destination`, for those of the clients `steered` that have reached theirs."""
    terrain, position, known, seen = (
        policy.terrain(world),
        state["position"],
        state["known"],
        as_bits(state["seen"]),
    )
    heading = (state["destination"] != position[: len(destination)]).any(axis=1)
    arrived = steered[~heading[steered]]
    survey = terrain.survey_points if policy.knowledge == "contacts" else 0
    left = np.zeros(len(arrived), dtype=np.int64)
    if survey:
        left = survey - np.array([how_many(seen[m]) for m in arrived], dtype=np.int64)
    knows = known[arrived].any(axis=1)
    exploring = (left > 0) & ((draws[arrived, 2] < left / terrain.survey_points) | ~knows)
    choosing = ~exploring & (knows | (known.shape[1] == 0))
    places, own = position[arrived[choosing]], world.class_counts[arrived[choosing]]
    mixes = terrain.coverage.mixes_at(places, own, known[arrived[choosing]])
    flyers = {
        m: Flyer(position[m], world.class_counts[m], known[m], mix)
        for m, mix in zip(arrived[choosing].tolist(), mixes, strict=True)
    }
    sketches = policy.sketches(world, list(flyers.values()))
    avoidance = policy.avoidance()
    kept: Unserved | None = None

    def others() -> OtherTargets | None:
        if avoidance == 0:
            return None
        # Of whoever draws the entry is false: it has just arrived.
        return OtherTargets.of(destination[heading], world.reach, avoidance)

    for m in arrived[exploring | choosing].tolist():
        if m not in flyers:
            destination[m] = terrain.survey_point(int(pick(unseen(seen[m], survey), draws[m, 3])))
        else:
            avoided = others() if kept is None else None
            if avoided is not None:
                kept = terrain.unserved(avoided)
            found = None
            if (sketch := next(sketches)) is not None and (avoided is None or kept is not None):
                found = sketch.draw(draws[m, 0], kept)
            if found is None:
                if (avoided := others()) is not None:
                    avoided = replace(avoided, kept=kept)
                found = policy.targets(world, flyers[m]).draw(draws[m, 0], avoided)
            destination[m] = found
        heading[m] = True
        if kept is not None:
            kept.add(destination[m : m + 1])


def _look(terrain: Terrain, state: State, knowledge: Knowledge) -> None:
    """Note, in the arrays of `state`, what the mobile clients know after looking around from where they are."""
    known, seen = state["known"], state["seen"]
    here = state["position"][: len(known)]
    if knowledge != "oracle":
        known[terrain.coverage.heard(here)] = True
    if knowledge == "contacts":
        terrain.see(seen, here)
