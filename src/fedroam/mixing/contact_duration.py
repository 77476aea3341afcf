"""Weights by how long a contact lasts."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import sparse

from fedroam.components import Part, register
from fedroam.mixing.facts import Fact, Facts
from fedroam.mixing.weights import entries, matrix


@register("mixing", "contact_duration")
class ContactDuration(Part):
    """Everybody in the neighbourhood counts by the time it was within reach: w_ij = T_ij / (1 + sum_k T_ik).

    T_ij is the share of the round in which i and j are within the radio range (0 to 1); the client is with itself all
    the round, T_ii = 1. Where nobody moves this is the plain average. A neighbour that is met in passing, and one that
    comes into range only as the round ends, count for little. This rule is fedroam's own.
    """

    needs: ClassVar[tuple[Fact, ...]] = ("contact_durations",)

    def weights(self, graph: sparse.csr_array, facts: Facts) -> sparse.csr_array:
        """T_ij over the sum of the neighbourhood's."""
        durations = facts.contact_durations
        total = 1.0 + np.asarray(durations.sum(axis=1))
        rows, columns = entries(durations)
        return matrix(rows, columns, durations.data / total[rows], 1.0 / total)
