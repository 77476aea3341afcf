"""ClippedGossip: an average in which nobody pulls further than a radius."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import field_validator

from fedroam.components import Part, field, register
from fedroam.mixing.aggregation import Received, distances
from fedroam.mixing.facts import Facts


@register(
    "aggregation",
    "clipped_gossip",
    source="He, Karimireddy, Jaggi, arXiv:2202.01545 (2022): x_i <- sum_j W_ij (x_i + CLIP(x_j - x_i, tau_i))",
)
class ClippedGossip(Part):
    """The weighted average of the models, each drawn towards the own one until it is at most tau away.

    x_i <- x_i + sum_j W_ij min(1, tau_i / ||x_j - x_i||) (x_j - x_i), with the weights of the mixing rule (the paper's
    are Metropolis weights). At a server or access point the own model is the one that was handed out: centred clipping.

    tau = "auto" takes the paper's radius, tau_i^2 = (1 / delta) sum_{j honest} W_ij ||x_j - x_i||^2, where delta is the
    weight that attackers may have. Who is honest is not known, so the farthest models, as many as have the weight delta
    together at most, are left out of the sum; with delta = 0 nothing is clipped.
    """

    tau: float | Literal["auto"] = field("auto", 'clipping radius (distance of models), or "auto"')
    delta: float = field(0.2, 'with tau = "auto": weight that attackers may have together', ge=0, lt=0.5)

    @field_validator("tau", mode="before")
    @classmethod
    def _tau(cls, value: Any) -> Any:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if (number and 0 < value < np.inf) or value == "auto":
            return value
        raise ValueError('allowed is a number above 0, or "auto"')

    def aggregate(self, received: Received, facts: Facts) -> np.ndarray:
        """x_i + sum_j W_ij CLIP(x_j - x_i, tau_i)."""
        away = distances(received.models, received.own)
        tau = self.radius(away, received.weights) if self.tau == "auto" else float(self.tau)
        total = received.own.astype(np.float64)
        for model, gap, weight in zip(received.models, away, received.weights, strict=True):
            if np.isfinite(gap):  # what has no distance has no direction either
                pull = weight * min(1.0, tau / gap) if gap > 0 else 0.0
                total += pull * np.subtract(model, received.own, dtype=np.float64)
        return total.astype(np.float32)

    def radius(self, away: np.ndarray, weights: np.ndarray) -> float:
        """tau_i, from the distances and weights of the models (float64 [models])."""
        if self.delta == 0:
            return np.inf
        order = np.argsort(-np.where(np.isfinite(away), away, np.inf), kind="stable")
        trusted = order[np.cumsum(weights[order]) > self.delta + 1e-12]
        return float(np.sqrt((weights[trusted] * away[trusted] ** 2).sum() / self.delta))
