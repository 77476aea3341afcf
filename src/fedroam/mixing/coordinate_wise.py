"""Rules that look at each coordinate alone: median and trimmed mean."""

from __future__ import annotations

import math

import numpy as np

from fedroam.components import Part, field, register
from fedroam.mixing.aggregation import Received, mean
from fedroam.mixing.facts import Facts


@register("aggregation", "median", source="Yin et al., ICML 2018, Def. 1 (coordinate-wise median)")
class Median(Part):
    """The median of each coordinate over the models; of an even number, the mean of the middle two.

    Weights are not used. With the own model and a single neighbour it is the average of the two.
    """

    def aggregate(self, received: Received, facts: Facts) -> np.ndarray:
        """The coordinate-wise median."""
        ordered, m = np.sort(received.models, axis=0), len(received.models)  # what is no number comes last
        return mean(ordered[[(m - 1) // 2, m // 2]])


@register(
    "aggregation", "trimmed_mean", source="Yin et al., ICML 2018, Def. 2 (coordinate-wise trimmed mean)"
)
class TrimmedMean(Part):
    """The mean of each coordinate without its b largest and b smallest values, b = ceil(beta m) of m models.

    The paper asks that beta be at least the share of attackers, and takes beta m as whole. In a neighbourhood it
    seldom is, so b is rounded up, as less would let an attacker through, and is at most (m - 1) // 2, so that a value
    is left. Weights are not used.
    """

    beta: float = field(0.2, "share of the values cut off at each end", ge=0, lt=0.5)

    def aggregate(self, received: Received, facts: Facts) -> np.ndarray:
        """The mean of what is left of each coordinate."""
        models, m = received.models, len(received.models)
        cut = min(math.ceil(self.beta * m - 1e-9), (m - 1) // 2)  # 0.2 of 5 is 1, whatever 0.2 is in binary
        return mean(np.sort(models, axis=0)[cut : m - cut])
