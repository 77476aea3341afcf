"""Steered flights, on whatever ground: draw a destination, keep it until reached, note who lives along the way."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Literal, Protocol

import numpy as np

from fedroam.mobility.world import Paths, State, World
from fedroam.randomness import stream

Knowledge = Literal["oracle", "warm_up", "contacts"]
# (mobile client, where it is, which static clients it knows, a uniform draw, destinations of the other mobile
# clients [others, 2]) -> destination
Choose = Callable[[int, np.ndarray, np.ndarray, float, np.ndarray], np.ndarray]

CENTRES_KEPT = 256  # sets of known clients whose clusters are remembered; others are found anew

# The clusters of those who know the same static clients: found once, and not kept in checkpoints.
_centres: weakref.WeakKeyDictionary[World, dict[tuple[Any, ...], np.ndarray]] = weakref.WeakKeyDictionary()


class Ground(Protocol):
    """What steered clients fly over: where static clients are in reach, and how far one gets in a round.

    The survey points are those by which an explorer (knowledge = "contacts") knows where it has not been yet.
    """

    @property
    def survey_points(self) -> int:
        """How many survey points there are."""

    def survey_point(self, number: int) -> np.ndarray:
        """The place of a survey point, float64 [2]."""

    def view(self, here: np.ndarray) -> np.ndarray:
        """The numbers of the survey points within reach of `here`, int64."""

    def near(self, here: np.ndarray) -> np.ndarray:
        """Which static clients are within reach of `here`, bool [statics]."""

    def wander(self, here: np.ndarray, m: int, round: int, draw: float) -> np.ndarray:
        """Where mobile client `m` gets to when it moves at random; `draw` is uniform in [0, 1)."""

    def fly(self, here: np.ndarray, destination: np.ndarray, draw: float) -> np.ndarray:
        """Where a client gets to in one round on its way; `draw`, uniform in [0, 1), breaks ties."""


def begin(ground: Ground, places: np.ndarray, mobile: int, knowledge: Knowledge) -> dict[str, np.ndarray]:
    """The state before round 1, the first `mobile` of the clients at `places` (float64 [clients, 2]) being mobile.

    position; destination float64 [mobile, 2] (equal to the place: none); known bool [mobile, statics]; seen bool
    [mobile, survey points], those once within reach (empty but for "contacts").
    """
    state = {
        "position": places,
        "destination": places[:mobile].copy(),
        "known": np.full((mobile, len(places) - mobile), knowledge == "oracle"),
        "seen": np.zeros((mobile, ground.survey_points if knowledge == "contacts" else 0), dtype=bool),
    }
    return {**state, **_look(ground, state, knowledge)}


def _look(ground: Ground, state: State, knowledge: Knowledge) -> dict[str, np.ndarray]:
    """What the mobile clients know after looking around from where they are."""
    known, seen = state["known"].copy(), state["seen"].copy()
    if knowledge == "oracle":
        return {"known": known, "seen": seen}
    for m in range(len(known)):
        here = state["position"][m]
        known[m] |= ground.near(here)
        if knowledge == "contacts":
            seen[m, ground.view(here)] = True
    return {"known": known, "seen": seen}


def flight(
    state: State,
    world: World,
    round: int,
    *,
    ground: Ground,
    knowledge: Knowledge,
    warm_up: int,
    choose: Choose,
) -> tuple[dict[str, np.ndarray], Paths]:
    """One round of steered movement: draw a destination where the last one is reached, and fly towards it.

    knowledge = "warm_up": in the first rounds, and until they know somebody, the mobile clients move at random
    (Jahani et al., Sec. IV-A, which does not say how they move meanwhile); they note the static clients they come
    in reach of, then and later. "contacts" (ours): they start knowing nobody but those in reach; a new destination
    is, with the probability that a survey point has not been in reach yet, such a point at random, else chosen by
    what is known. A destination is kept until reached: Reza et al., Eq. 8.

    Destinations are drawn in the order of the clients' indices. Those that `choose` hears of are of the others that
    are under way, or have drawn anew in this round; who moves at random heads for nowhere.
    """
    # Four draws for every client, mobile or not: the draws of one do not depend on how many others fly.
    draws = stream(world.seed, "destinations", round).random((world.clients, 4))
    before, destination = state["position"], state["destination"].copy()
    after, known, seen = before.copy(), state["known"], state["seen"]
    heading = (destination != before[: len(destination)]).any(axis=1)
    for m in range(len(destination)):
        if knowledge == "warm_up" and (round <= warm_up or (known.shape[1] and not known[m].any())):
            after[m] = destination[m] = ground.wander(before[m], m, round, draws[m, 1])
            continue
        if not heading[m]:
            unseen = np.flatnonzero(~seen[m])
            share = len(unseen) / ground.survey_points
            if len(unseen) and (draws[m, 2] < share or not known[m].any()):
                number = int(unseen[min(int(draws[m, 3] * len(unseen)), len(unseen) - 1)])
                destination[m], heading[m] = ground.survey_point(number), True
            elif known[m].any() or not known.shape[1]:
                # Its own entry is false: it has just arrived.
                destination[m] = choose(m, before[m], known[m], draws[m, 0], destination[heading])
                heading[m] = True
        after[m] = ground.fly(before[m], destination[m], draws[m, 1])
    moved = {**state, "position": after, "destination": destination}
    return {**moved, **_look(ground, moved, knowledge)}, Paths.straight(before, after)


def remembered_centres(world: World, key: tuple[Any, ...], find: Callable[[], np.ndarray]) -> np.ndarray:
    """The cluster centres filed under `key`, found once a world."""
    cache = _centres.setdefault(world, {})
    if key not in cache:
        if len(cache) >= CENTRES_KEPT:
            cache.clear()
        cache[key] = find()
    return cache[key]


def fall(weights: np.ndarray, target: float) -> int:
    """On which of the weights, laid end to end, `target` falls; never on one of weight 0."""
    edges = np.cumsum(weights)
    at = int(np.searchsorted(edges, target, side="right"))
    return min(at, int(np.flatnonzero(weights)[-1]))
