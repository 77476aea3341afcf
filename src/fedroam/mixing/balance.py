"""BALANCE: only models that are like the own one count."""

from __future__ import annotations

import math

import numpy as np

from fedroam.components import Part, field, register
from fedroam.mixing.aggregation import Received, distances, mean
from fedroam.mixing.facts import Facts


@register(
    "aggregation",
    "balance",
    source="Fang et al., CCS 2024, Byzantine-Robust Decentralized FL, Alg. 1 (BALANCE)",
)
class Balance(Part):
    """The own model, and the plain average of those received that are near enough to it.

    w_i <- alpha w_i + (1 - alpha) (1 / |S_i|) sum_{j in S_i} w_j, where S_i holds the models received from others with
    ||w_i - w_j|| <= gamma exp(-kappa t / T) ||w_i|| in round t of T. Where S_i is empty the own model stays. No weights
    are used. The paper's rule is for clients; at a server or access point the own model is the one that was handed out.
    """

    gamma: float = field(0.3, "distance that is accepted at the start, as a share of the own norm", gt=0)
    kappa: float = field(1.0, "how fast the accepted distance falls: exp(-kappa) of it at the end", ge=0)
    alpha: float = field(0.5, "weight of the own model", ge=0, le=1)

    def aggregate(self, received: Received, facts: Facts) -> np.ndarray:
        """alpha w_i + (1 - alpha) times the average of those accepted."""
        own = received.own
        others = received.models[received.holders != received.holder]
        norm = distances(own[None], np.zeros_like(own))[0]
        limit = self.gamma * math.exp(-self.kappa * received.round / max(received.rounds, 1)) * norm
        accepted = others[distances(others, own) <= limit]
        if not len(accepted):
            return own.copy()
        both = np.stack([own, mean(accepted)])
        return mean(both, np.array([self.alpha, 1 - self.alpha]))
