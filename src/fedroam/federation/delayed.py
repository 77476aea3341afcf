"""Hierarchical federation in which updates may come late: the staler, the less they count."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch
from typing_extensions import override

from fedroam.components import field, register
from fedroam.federation.asynchronous.rules import STALENESS, polynomial
from fedroam.federation.hierarchical import Hierarchical
from fedroam.federation.hierarchy_state import HierarchyState
from fedroam.federation.holders import Gathered, KnownToHolders, Made
from fedroam.federation.protocol import Round
from fedroam.learning import Models


@register(
    "federation",
    "delayed_mohawk",
    source="Farcas et al., Alg. 1, Eq. 5, with the staleness of Xie, Koyejo, Gupta 2019, arXiv:1903.03934, Alg. 1",
)
class DelayedMohawk(Hierarchical):
    """MOHAWK whose access points take updates whenever they come, the less the staler they are.

    In MOHAWK an update that is late waits until its device is back, counts as if it were fresh, and is lost with the
    next global aggregation. Here it waits on. When it comes, k rounds after it was trained, the access point first
    mixes it with its own present model y, as FedAsync's server does: x <- (1 - s) y + s x with s = (1 + k)^-exponent.
    Then it is aggregated like the others (Eq. 5). A fresh update (k = 0) is left as it is; so with none that is late
    this is MOHAWK. The combination is ours.

    It adds the column `staleness`: the mean of k over the updates that were aggregated in a round.
    """

    own_columns: ClassVar[tuple[str, ...]] = (STALENESS,)

    exponent: float = field(
        0.5, "how fast weights fall with staleness; 0: not at all", ge=0, allow_inf_nan=False
    )

    @override
    def _taken(
        self, round: Round, hierarchy: HierarchyState, devices: np.ndarray, known: KnownToHolders
    ) -> tuple[np.ndarray, dict[str, float]]:
        taken, found = super()._taken(round, hierarchy, devices, known)
        stale = round.number - hierarchy.trained[taken]
        return taken, {**found, STALENESS: float(stale.mean()) if len(stale) else np.nan}

    @override
    def _gathered(
        self, hierarchy: HierarchyState, known: KnownToHolders, ap: int, devices: np.ndarray
    ) -> Gathered:
        found = super()._gathered(hierarchy, known, ap, devices)
        return replace(found, told={STALENESS: known.round - hierarchy.trained[devices]})

    @override
    def _at_access_point(self, models: Models, gathered: Gathered, known: KnownToHolders) -> Made:
        weights = [polynomial(stale, self.exponent) for stale in gathered.told[STALENESS].tolist()]
        if any(weight != 1.0 for weight in weights):
            index = torch.from_numpy(np.append(gathered.own, gathered.rows)).to(models.device)
            models = models.rows(index).widened()
            gathered = replace(gathered, own=0, rows=np.arange(1, 1 + len(weights)))
            for row, weight in enumerate(weights, 1):
                if weight != 1.0:
                    for matrix in (models.parameters, models.buffers):
                        matrix[row] = torch.lerp(matrix[0], matrix[row], weight)
        return super()._at_access_point(models, gathered, known)

    @override
    def gives_up(self, round: int) -> bool:
        return not self.carry_over
