"""Targets: places that may be flown to, drawn by weight, and discounted by what others will serve anyway."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from fedroam.mobility.grid import pick
from fedroam.mobility.steered.sketches.certainty import Laid, rounding


def overlap(apart: np.ndarray, reach: float) -> np.ndarray:
    """Share of a disc of radius `reach` (m) that a second one covers, their centres `apart` (float64, m).

    The lens of two equal circles over the disc: (2 / pi) (arccos h - h sqrt(1 - h^2)) with h = apart / (2 reach),
    and 0 where they are 2 reach apart or more. Reach 0: 1 at the very place, 0 elsewhere; infinite reach: 1.
    """
    if math.isinf(reach):
        return np.ones(apart.shape)
    if reach == 0:
        return np.asarray((apart == 0).astype(np.float64))
    half = np.minimum(apart / (2 * reach), 1.0)
    return np.asarray((np.arccos(half) - half * np.sqrt(1 - half**2)) / (np.pi / 2))


class Unserved(Protocol):
    """What others leave to serve around the points of a coverage, kept while they draw, one after the other.

    The same products as `OtherTargets.unserved`, but of factors in another order: the last digits differ.
    """

    @property
    def others(self) -> int:
        """How many there are."""

    def add(self, places: np.ndarray) -> None:
        """Note that others head for `places`, float64 [places, 2]."""

    def at(self, rows: np.ndarray) -> np.ndarray:
        """The shares left around these points of the coverage, float64 [rows]."""

    def taken(self, rows: np.ndarray) -> np.ndarray:
        """Whether some other leaves nothing at all to serve around the point, bool [rows]."""


@dataclass(frozen=True)
class OtherTargets:
    """The places that other mobile clients head for, and how much these discount a target.

    places: float64 [others, 2], at least one; reach: the radio range, finite, m; discount: in (0, 1], 1 is full;
    kept: the same, kept for the points of the coverage, where there is such a thing.
    """

    places: np.ndarray
    reach: float
    discount: float
    kept: Unserved | None = None

    @classmethod
    def of(
        cls, places: np.ndarray, reach: float, discount: float, kept: Unserved | None = None
    ) -> OtherTargets | None:
        """None where no target is discounted more than another: nobody else flies, or everybody hears everybody."""
        if not len(places) or discount == 0 or math.isinf(reach):
            return None
        return cls(places, reach, discount, kept)

    def unserved(self, points: np.ndarray) -> np.ndarray:
        """The share of each target's surroundings left to serve, float64 [points], in [0, 1].

        The product over the others k of 1 - discount overlap(|L - D_k|): see the mobility kind "spread".
        """
        left = np.ones(len(points))
        for place in self.places:
            gap = np.abs(points - place)
            close = np.flatnonzero((gap <= 2 * self.reach).all(axis=1))  # whoever is farther loses nothing
            left[close] *= 1 - self.discount * overlap(np.hypot(*gap[close].T), self.reach)
        return left


@dataclass(frozen=True)
class Targets:
    """Places that may be flown to: points, float64 [points, 2], m, and their weights, float64 [points].

    rows: where they lie among the points of a coverage, int64 [points]; None where they are others.
    """

    points: np.ndarray
    weights: np.ndarray
    rows: np.ndarray | None = field(default=None, kw_only=True)

    def draw(self, value: float, others: OtherTargets | None = None) -> np.ndarray:
        """The place that `value`, uniform in [0, 1), falls on: by the weights, discounted for others.

        Where all weights are 0 they count as equal; where the others leave nothing at all, they are disregarded.
        """
        if others is None:
            return self.at(value * total) if (total := self.total()) > 0 else self.uniform(value)
        if (found := self._for_certain(value, others)) is not None:
            return found
        left = self.discounted(others)
        return left.at(value * total) if (total := left.total()) > 0 else self.draw(value)

    def total(self) -> float:
        """The sum of all weights."""
        return float(self.weights.sum())

    def discounted(self, others: OtherTargets) -> Targets:
        """The same places, weighing less where others serve their surroundings; equal weights where all are 0."""
        return replace(self, weights=self._base() * others.unserved(self.points))

    def at(self, target: float) -> np.ndarray:
        """The place that `target`, from 0 to the total, falls on where the weights are laid end to end."""
        return np.asarray(self.points[falls_on(self.weights, target)])

    def uniform(self, value: float) -> np.ndarray:
        """The place that `value` falls on, all equally likely."""
        return pick(self.points, value)

    def _base(self) -> np.ndarray:
        return self.weights if self.total() > 0 else np.ones(len(self.points))

    def _for_certain(self, value: float, others: OtherTargets) -> np.ndarray | None:
        """What `draw` gives, by what is kept of the others; None where that does not decide it."""
        if self.rows is None or others.kept is None:
            return None
        base = self._base()
        if others.kept.taken(self.rows)[base > 0].all():
            return self.draw(value)
        laid = Laid.of(base * others.kept.at(self.rows))
        doubt = rounding(laid.total, len(base) + len(others.places))
        at = laid.falls_on(value * laid.total, doubt)
        return None if at is None else np.asarray(self.points[at])


def falls_on(weights: np.ndarray, target: float) -> int:
    """The index of the weight that `target` falls on, all laid end to end; never one of weight 0."""
    edges = np.cumsum(weights)
    at = int(np.searchsorted(edges, target, side="right"))
    return min(at, int(np.flatnonzero(weights)[-1]))
