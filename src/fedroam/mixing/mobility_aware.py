"""Averages over those met: plain, and leaning towards the fast ones."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import field_validator
from scipy import sparse

from fedroam.components import Part, field, register
from fedroam.mixing.facts import Facts
from fedroam.mixing.weights import entries, matrix


@register("mixing", "plain", source="de Heredia, Sec. 5.3: W_ij = 1 / N; Lian et al., NIPS 2017 (D-PSGD)")
class PlainAverage(Part):
    """Everybody in the neighbourhood counts the same, the client itself included: w_ij = 1 / |M_i|."""

    def weights(self, graph: sparse.csr_array, facts: Facts) -> sparse.csr_array:
        """1 / |M_i| for everybody in M_i."""
        own = _plain(graph)
        rows, columns = entries(graph)
        return matrix(rows, columns, own[rows], own)


@register("mixing", "mobility_aware", source="de Heredia, Sec. 5.4: W_ij = 1/N + alpha (X_ij - 1/N)")
class MobilityAware(Part):
    """Everybody in the neighbourhood counts the more the faster it moved in this round.

    w_ij = (1 - alpha) / |M_i| + alpha X_ij, with X_ij = s_j / (sum of s over M_i) and M_i the client itself and
    those it meets. 0 is the plain average, 1 the shares of speed; a neighbourhood that stands still as a whole is
    averaged plainly. The speed of a client is its way in the round.

    alpha = "auto" lets each client choose, in each round, from what those it meets can tell it: their speeds s_j
    and how many clients they met, c_j = |M_j|. Speed is only a sign of the thing that makes a model worth more,
    having met more others. So the client takes the point between the plain average u and the speed shares X that
    comes closest (least squares) to the shares of contacts C_ij = c_j / (sum of c over M_i):

        alpha_i = <X_i - u_i, C_i - u_i> / |X_i - u_i|^2, cut to 0 .. 1

    It is 0 where the fast ones met no more than the slow ones, 1 where contacts grow in proportion to speed, 0 by
    definition where all speeds are equal (then it does not matter), and does not depend on the unit of speed. Of
    two clients it leans to the faster one only if that one met more. No feedback from training enters.

    This rule is fedroam's own. The study of de Heredia's paper (docs/results/heredia.md) does not show that it beats
    plain averaging or fixed values. Counts of one round are noisy, and the cut at 0 turns some of the noise into lean.
    And the more alike the speeds, the less any alpha moves the weights.
    """

    alpha: float | Literal["auto"] = field(
        0.4, 'how far the weights lean towards the fast ones: 0 (plain) to 1 (shares of speed), or "auto"'
    )

    @field_validator("alpha", mode="before")
    @classmethod
    def _alpha(cls, value: Any) -> Any:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if (number and 0 <= value <= 1) or value == "auto":
            return value
        raise ValueError('allowed is a number from 0 to 1, or "auto"')

    def weights(self, graph: sparse.csr_array, facts: Facts) -> sparse.csr_array:
        """(1 - alpha_i) / |M_i| + alpha_i X_ij."""
        alpha = self.alphas(graph, facts)
        rows, columns = entries(graph)
        plain = _plain(graph)
        values, own = _shares(graph, facts.speed)
        # In this form both ends are exact: alpha 0 gives the plain weights, 1 the shares, to the last bit.
        values = (1 - alpha[rows]) * plain[rows] + alpha[rows] * values
        # Who is alone and away may stand nowhere, and has no share of a speed that is no number.
        own = np.where(alpha > 0, (1 - alpha) * plain + alpha * own, plain)
        return matrix(rows, columns, values, own)

    def alphas(self, graph: sparse.csr_array, facts: Facts) -> np.ndarray:
        """The alpha of each client in this round, float64 [clients]; 0 where nobody in its neighbourhood moved."""
        plain, rows = _plain(graph), entries(graph)[0]
        if self.alpha == "auto":
            (speeds, own_speed), (contacts, own_contacts) = (
                (values - plain[rows], own - plain)
                for values, own in (_shares(graph, facts.speed), _shares(graph, 1.0 / plain))
            )
            along = np.bincount(rows, speeds * contacts, minlength=len(plain)) + own_speed * own_contacts
            square = np.bincount(rows, speeds * speeds, minlength=len(plain)) + own_speed * own_speed
            alpha = np.clip(np.divide(along, square, out=np.zeros(len(plain)), where=square > 0), 0.0, 1.0)
        else:
            alpha = np.full(len(plain), float(self.alpha))
        return np.where(_total(graph, facts.speed) > 0, alpha, 0.0)


def _plain(graph: sparse.csr_array) -> np.ndarray:
    """1 / |M_i|, the client itself counted."""
    return 1.0 / (1.0 + np.diff(graph.indptr))


def _total(graph: sparse.csr_array, amount: np.ndarray) -> np.ndarray:
    """The sum of an amount over each client and those it meets."""
    return np.asarray(amount + graph.astype(np.float64) @ amount)


def _shares(graph: sparse.csr_array, amount: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each neighbour's share of its neighbourhood's sum, one for each entry of the graph, and each client's own.

    Zero for a neighbourhood whose sum is zero.
    """
    rows, columns = entries(graph)
    amount = np.asarray(amount, dtype=np.float64)
    total = _total(graph, amount)
    total[total == 0] = 1.0
    return amount[columns] / total[rows], amount / total
