"""Krum and Multi-Krum: the models that lie closest to most others."""

from __future__ import annotations

import math

import numpy as np

from fedroam.components import Part, field, register
from fedroam.mixing.aggregation import Received, distances, mean
from fedroam.mixing.facts import Facts

ATTACKERS = "share of the models that may be an attacker's: f = ceil(attackers m), cut to (m - 3) // 2"


@register("aggregation", "krum", source="Blanchard et al., NIPS 2017, Sec. 3 (Krum)")
class Krum(Part):
    """The model with the smallest score: the sum of squared distances to its m - f - 2 nearest others, of m models.

    The paper gives f as a number and asks for 2 f + 2 < m. Neighbourhoods change in size, so f is a share here, rounded
    up, and as many as m allows. A model with values that are no numbers is an attacker's, and counts among the f. Of
    fewer than three others none can be told from the rest: whoever aggregates keeps its own. Of equal scores the lowest
    number of a client or access point wins, as in the paper. Weights are not used.
    """

    attackers: float = field(0.2, ATTACKERS, ge=0, lt=0.5)

    def aggregate(self, received: Received, facts: Facts) -> np.ndarray:
        """The model with the smallest score."""
        ranked, _ = ranking(received, self.attackers)
        return np.array(received.models[ranked[0]]) if len(ranked) else received.own.copy()


@register("aggregation", "multi_krum", source="Blanchard et al., NIPS 2017, Sec. 4 (Multi-Krum)")
class MultiKrum(Part):
    """The plain average of the m - f models with the smallest scores of Krum.

    The paper leaves the number of models open, from 1 (Krum) to m - f; `keep` sets another. Models with values that are
    no numbers are among the f, and are left out also where they are more. Fewer than three others: whoever aggregates
    keeps its own. Weights are not used.
    """

    attackers: float = field(0.2, ATTACKERS, ge=0, lt=0.5)
    keep: int | None = field(None, "models that are averaged, at most m - f; not set: m - f", ge=1)

    def aggregate(self, received: Received, facts: Facts) -> np.ndarray:
        """The average of those with the smallest scores."""
        ranked, f = ranking(received, self.attackers)
        if not len(ranked):
            return received.own.copy()
        kept = len(ranked) - f if self.keep is None else min(self.keep, len(ranked) - f)
        return mean(received.models[np.sort(ranked[:kept])])


def assumed(share: float, models: int) -> int:
    """f, the attackers reckoned with among as many models (3 or more)."""
    return min(math.ceil(share * models - 1e-9), (models - 3) // 2)


def ranking(received: Received, attackers: float) -> tuple[np.ndarray, int]:
    """Those of the models that may be an honest client's, from the smallest score on, int64; and how many of these may
    yet be an attacker's. Equal scores by the number of the holder. None, where no model can be told from the others."""
    numbers = np.flatnonzero(np.isfinite(received.models).all(axis=1))
    if len(numbers) < 3:
        return numbers[:0], 0
    m = len(received.models)
    f = max(assumed(attackers, m) - (m - len(numbers)), 0)
    order = np.lexsort((np.abs(received.holders[numbers]), scores(received.models[numbers], f)))
    return numbers[order], f


def scores(models: np.ndarray, f: int) -> np.ndarray:
    """The sum of squared distances from each model to its m - f - 2 nearest others, at least one; float64 [m]."""
    square = np.stack([distances(models, model) ** 2 for model in models])
    np.fill_diagonal(square, 0.0)
    near = max(len(models) - f - 2, 1)
    return np.asarray(np.sort(square, axis=1)[:, 1 : 1 + near].sum(axis=1))
