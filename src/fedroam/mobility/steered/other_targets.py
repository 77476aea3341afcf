"""What the destinations of others are worth avoiding: how much of a place's surroundings they will serve anyway."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedroam.mobility.steered.flights import fall


def overlap(apart: np.ndarray, reach: float) -> np.ndarray:
    """Share of a disc of radius `reach` (m) that a second one covers, their centres `apart` (float64, m).

    The lens of two equal circles over the disc: (2 / pi) (arccos h - h sqrt(1 - h^2)) with h = apart / (2 reach),
    and 0 where they are 2 reach apart or more. Reach 0: 1 at the very place, 0 elsewhere; infinite reach: 1.
    """
    if math.isinf(reach):
        return np.ones(apart.shape)
    if reach == 0:
        return (apart == 0).astype(np.float64)
    half = np.minimum(apart / (2 * reach), 1.0)
    return np.asarray((np.arccos(half) - half * np.sqrt(1 - half**2)) / (np.pi / 2))


@dataclass(frozen=True)
class Crowd:
    """The places that other mobile clients head for, and how much these discount a target.

    places: float64 [others, 2], at least one; reach: the radio range, finite, m; discount: in (0, 1], 1 is full.
    """

    places: np.ndarray
    reach: float
    discount: float

    @classmethod
    def of(cls, places: np.ndarray, reach: float, discount: float) -> Crowd | None:
        """None where no target is discounted more than another: nobody else flies, or everybody hears everybody."""
        if not len(places) or discount == 0 or math.isinf(reach):
            return None
        return cls(places, reach, discount)

    def fresh(self, points: np.ndarray) -> np.ndarray:
        """The share of each target's surroundings left to serve, float64 [points], in [0, 1].

        The product over the others k of 1 - discount overlap(|L - D_k|): see the mobility kind "spread".
        """
        left = np.ones(len(points))
        for place in self.places:
            gap = np.abs(points - place)
            close = np.flatnonzero((gap <= 2 * self.reach).all(axis=1))  # whoever is farther loses nothing
            left[close] *= 1 - self.discount * overlap(np.hypot(*gap[close].T), self.reach)
        return left


def choose_point(points: np.ndarray, weights: np.ndarray, draw: float, crowd: Crowd | None) -> np.ndarray:
    """One of `points` (float64 [points, 2]), drawn by `weights` (float64 [points]), discounted for a crowd.

    Where all weights are 0 they count as equal; where a crowd leaves nothing at all, it is disregarded. `draw` is
    uniform in [0, 1).
    """
    if not weights.any():
        weights = np.ones(len(points))
    if crowd is not None and (left := weights * crowd.fresh(points)).any():
        weights = left
    return np.asarray(points[fall(weights, draw * weights.sum())])
