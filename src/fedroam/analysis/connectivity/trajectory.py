"""A convex run beside its bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedroam.analysis.connectivity.bounds import corollary_1, descent, lemma_3, product_bound, theorem_1
from fedroam.analysis.connectivity.contact_statistics import ContactSequence
from fedroam.analysis.connectivity.convex import Optimum, SoftmaxProblem
from fedroam.analysis.connectivity.spectral import (
    MixingMatrix,
    mixing_parameters,
    window_distances,
    window_parameters,
)


@dataclass(frozen=True)
class Trajectory:
    """What a convex run did. Arrays over t = 0 .. T have T + 1 entries, over rounds T.

    weights: W(t) of each round; consensus: ||X(t) - J X(t)||_F^2; values: f(xbar(t)); gradients: ||G(t) - J G(t)||_F
    of each round; tau: tau_i, the largest ||g_i - gbar||^2 of the run, float64 [clients], and tau_limits, a bound
    that holds wherever the models are; sigma: sigma_i^2, 0 for the full batch, else the largest of the run at the
    client's own model (an estimate: Assumption 2 asks for every point); smoothness: L_i [clients]; first: xbar(0).
    """

    eta: float
    problem: SoftmaxProblem
    contacts: ContactSequence
    consensus: np.ndarray
    values: np.ndarray
    gradients: np.ndarray
    tau: np.ndarray
    tau_limits: np.ndarray
    sigma: np.ndarray
    smoothness: np.ndarray
    first: np.ndarray

    @property
    def weights(self) -> tuple[MixingMatrix, ...]:
        """W(t) of each round."""
        assert self.contacts.weights is not None
        return self.contacts.weights

    @property
    def clients(self) -> int:
        """N."""
        return self.contacts.clients

    @cached_property
    def optimum(self) -> Optimum:
        """The minimum of f."""
        return self.problem.optimum(self.first)

    @cached_property
    def largest(self) -> float:
        """L, the largest L_i."""
        return float(self.smoothness.max())

    @cached_property
    def p(self) -> float:
        """The mixing parameter common to all rounds: the smallest."""
        return float(mixing_parameters(self.weights).min())

    @cached_property
    def window(self) -> int | None:
        """The smallest B (None: none)."""
        return self.contacts.smallest_window().length

    @cached_property
    def window_p(self) -> float:
        """The smallest p of the products of the aligned windows of B rounds; 0 without a B."""
        return 0.0 if self.window is None else float(window_parameters(self.weights, self.window).min())

    @cached_property
    def products(self) -> np.ndarray:
        """||P - J||_F^2 of the product of each aligned window of B rounds, to be held against Corollary 1."""
        return window_distances(self.weights, self.window or len(self.weights))

    def corollary(self) -> float:
        """Corollary 1's bound on `products`."""
        return corollary_1(self.clients, self.window or len(self.weights))

    def _p_and_b(self, window: bool) -> tuple[float, int]:
        """p and B as the bounds as printed take them; window: p read as that of a window of B rounds."""
        if window:
            return self.window_p, self.window or 1
        return self.p, 1 if self.p > 0 else self.window or 1

    def consensus_bound(self, *, window: bool = False) -> float:
        """Lemma 3; window: with p read as that of a window of B rounds, which is not proven."""
        p, b = self._p_and_b(window)
        return lemma_3(p, self.eta, float(self.tau.sum()), self.clients, b)

    @cached_property
    def tight_consensus(self) -> np.ndarray:
        """The bound on the consensus distance from measured products and gradients, float64 [T + 1]."""
        return product_bound(self.weights, self.gradients, self.eta, float(self.consensus[0]))

    @cached_property
    def gap(self) -> np.ndarray:
        """The mean over t = 0 .. T of f(xbar(t)) - inf f, for each T, float64 [T + 1]."""
        return _running(self.values - self.optimum.infimum)

    def gap_bound(self, *, window: bool = False) -> np.ndarray:
        """Theorem 1 for each T, float64 [T + 1]; infinite as well where f has no minimiser.

        window: with p read as that of a window of B rounds, which is not proven.
        """
        p, b = self._p_and_b(window)
        facts = self.eta, self.largest, float(self.sigma.mean()), float(self.tau.sum()), self.clients
        start = self._from_start(self.optimum.point) if self.optimum.attained else math.inf
        return np.array([theorem_1(p, *facts, b, start / (t + 1)) for t in range(len(self.values))])

    def _from_start(self, point: np.ndarray) -> float:
        """||xbar(0) - x||^2."""
        offset = self.first - point
        return float(offset @ offset)

    @cached_property
    def tight_gap(self) -> np.ndarray:
        """The bound on `gap` from measured products, for each T, float64 [T + 1].

        Its comparison point is the best one for the whole run, the minimiser of f(x) + ||x - xbar(0)||^2 /
        (2 eta (T + 1)), or the minimiser of f where that is better.
        """
        consensus, rounds = _running(self.tight_consensus), len(self.values)
        facts = self.eta, self.largest, float(self.sigma.mean()), self.clients
        best = np.full(rounds, np.inf)
        for point in (self.problem.proximal(self.first, 1 / (2 * self.eta * rounds)), self.optimum.point):
            start, delta = self._from_start(point), self.problem.value(point) - self.optimum.infimum
            rest = delta, self.optimum.uncertainty
            every = [descent(*facts, start / (t + 1), float(c), *rest) for t, c in enumerate(consensus)]
            best = np.minimum(best, every)
        return best

    def lines(self) -> list[tuple[str, float, str]]:
        """What was measured and what bounds it, as rows for a reader: name, value, remark.

        Values at the end of the run; a consensus distance as the largest of the run, which Lemma 3 bounds.
        """
        disconnected = int((self.contacts.components > 1).sum())
        reason, unproven = "", "the same: B = 1"
        if disconnected:
            reason = f"{disconnected} of {len(self.weights)} rounds are disconnected, so p = 0"
            unproven = "not proven: p is that of a window of B rounds"
        step = "" if self.eta < 0.5 / self.largest else "eta is not below 1 / (2 L): Theorem 1 does not apply"
        minimum = ""
        if not self.optimum.attained:
            way = ", f falls to 0" if self.optimum.infimum == 0 else " in part, f falls towards it"
            minimum = f"no minimiser: the samples can be separated{way} for ever"
        if self.optimum.uncertainty:
            minimum = (
                f"the lowest value found: the search stopped at a gradient of {self.optimum.gradient:.1g}"
            )
        many = "estimated: largest of the run" if self.sigma.any() else "full batch"
        return [
            ("clients N", float(self.clients), ""),
            ("learning rate eta", self.eta, step),
            ("smoothness L", self.largest, "largest of the clients"),
            ("1 / (2 L)", 0.5 / self.largest, ""),
            ("variance, mean of sigma_i^2", float(self.sigma.mean()), many),
            ("heterogeneity, sum of tau_i", float(self.tau.sum()), "largest of the run"),
            ("heterogeneity, limit for any models", float(self.tau_limits.sum()), ""),
            ("mixing parameter p of all rounds", self.p, reason),
            ("smallest B", math.nan if self.window is None else float(self.window), ""),
            ("mixing parameter of the windows of B rounds", self.window_p, ""),
            ("f*", self.optimum.infimum, minimum),
            ("consensus distance, largest measured", float(self.consensus.max()), ""),
            ("  from measured products, largest", float(self.tight_consensus.max()), ""),
            ("  Lemma 3", self.consensus_bound(), reason),
            ("  Lemma 3 with p = window", self.consensus_bound(window=True), unproven),
            ("mean of f(mean model) - f*, measured", float(self.gap[-1]), ""),
            ("  from measured products", float(self.tight_gap[-1]), step),
            ("  Theorem 1", float(self.gap_bound()[-1]), step or reason or minimum),
            (
                "  Theorem 1 with p = window",
                float(self.gap_bound(window=True)[-1]),
                step or minimum or unproven,
            ),
            ("largest ||product - J||_F^2 of a window, measured", float(self.products.max()), ""),
            (
                "  Corollary 1",
                self.corollary(),
                f"vacuous: no product has more than N - 1 = {self.clients - 1}",
            ),
        ]


def _running(values: np.ndarray) -> np.ndarray:
    """The mean of the first 1, 2, ... values."""
    return np.asarray(np.cumsum(values) / np.arange(1, len(values) + 1))
