"""Which access point a device turns to, and which devices an access point takes."""

from __future__ import annotations

from typing import Literal

import numpy as np

from fedroam.access_points import choose_nearest
from fedroam.randomness import stream

Assignment = Literal["rank", "random"]
Ties = Literal["random", "lowest"]


def assigned(clients: int, access_points: int, how: Assignment, seed: int) -> np.ndarray:
    """A fixed access point for each client, int64 [clients]; equal shares, as far as numbers allow.

    `rank`: the first clients to the first access point, and so on (Farcas et al., their code). `random`: shuffled.
    """
    shares = np.arange(clients, dtype=np.int64) * access_points // clients
    return shares if how == "rank" else stream(seed, "assignment").permutation(shares)


def walked(ap: np.ndarray, access_points: int, move: float, seed: int, step: int) -> np.ndarray:
    """A step of everybody on the ring of access points (MACFL; Feng et al. 2022), int64 [clients].

    With probability `move` a device goes to a neighbour, number - 1 or + 1, each as likely as the other.
    """
    draws = stream(seed, "ring of access points", step).random(len(ap))
    shift = np.where(draws < move / 2, -1, np.where(draws < move, 1, 0))
    return (ap + shift) % access_points


def turned(
    ap: np.ndarray,
    present: np.ndarray,
    places: np.ndarray,
    access_points: np.ndarray,
    ties: Ties,
    seed: int,
    step: int,
    ranges: np.ndarray | None = None,
) -> np.ndarray:
    """`ap` (int64 [clients]) with the nearest access point for whoever is present (bool [clients]) and in the range of
    one (ranges: float64 [access points], metres; None: they reach everywhere)."""
    chosen, here = ap.copy(), np.flatnonzero(present)
    draws = stream(seed, "ties of access points", step).random(len(ap))[here] if ties == "random" else None
    found = choose_nearest(places[here], access_points, draws, ranges)
    chosen[here[found >= 0]] = found[found >= 0]
    return chosen


def scores(
    distance: np.ndarray, samples: np.ndarray, age: np.ndarray, weights: tuple[float, float, float]
) -> np.ndarray:
    """How much an access point wants each of the devices that are with it, float64 [devices].

    score = a (1 - d / max d) + b n / max n + c s / max s, with `weights` (a, b, c), the distance d (m), the number n of
    training samples and the number s of rounds since an update of the device was last aggregated, each over its
    maximum among these devices (a maximum of 0 gives 0 for its term; all at distance 0 are equally near).
    """

    def share(values: np.ndarray) -> np.ndarray:
        most = values.max(initial=0)
        return values / most if most > 0 else np.zeros(len(values))

    by_distance, by_data, by_age = weights
    total: np.ndarray = by_distance * (1 - share(distance)) + by_data * share(samples) + by_age * share(age)
    return total


def chosen_few(
    ap: np.ndarray,
    distance: np.ndarray,
    samples: np.ndarray,
    age: np.ndarray,
    weights: tuple[float, float, float],
    most: int,
    draws: np.ndarray,
) -> np.ndarray:
    """Which devices are taken: at each access point the `most` with the highest score, bool [devices].

    All arrays are [devices]. Equal scores are ordered by `draws` (float64), the lower first.
    """
    taken = np.zeros(len(ap), dtype=bool)
    for one in np.unique(ap):
        there = np.flatnonzero(ap == one)
        if len(there) > most:
            found = scores(distance[there], samples[there], age[there], weights)
            there = there[np.lexsort((draws[there], -found))[:most]]
        taken[there] = True
    return taken
