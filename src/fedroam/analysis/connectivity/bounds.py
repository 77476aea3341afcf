"""The bounds of Jahani et al. on consensus and on the optimisation error, and tighter ones from measured products.

Notation: N clients, X [clients, parameters], an exchange is X <- W X (see `spectral`), J = 11^T / N. Round t = 0, 1,
... is X(t + 1) = W(t) (X(t) - eta G(t)), where G are the clients' gradients. Consensus distance: ||X - J X||_F^2.

**As printed.** `lemma_3` and `theorem_1` need one mixing parameter p for all rounds (Assumption 3); where any round is
disconnected p is 0 and both are infinite. Lemma 3 holds wherever p > 0 and all start equal, without its second term:
with q^2 = 1 - p a round gives d(t + 1) <= q (d(t) + eta sqrt(tauhat)) for d = ||X - J X||_F, so d <= eta sqrt(tauhat)
q / (1 - q), whose square is at most eta^2 tauhat 4 (1 - p) / p^2, and that is below the printed bound. Reading p as
that of the product of a window of B rounds, as one step of the printed proof does, is NOT proven and can be false.

**From measured products.** Lemma 1 is X(t) = P(0, t) X(0) - eta sum_k P(k, t) G(k) with P(k, t) = W(t - 1) ... W(k).
Rows of every P sum to 1, so (I - J) P = (I - J) P (I - J): what the clients have in common drops out. Hence, with
rho(k, t) = ||(I - J) P(k, t)||_2 and ||A B||_F <= ||A||_2 ||B||_F,

    ||X(t) - J X(t)||_F <= rho(0, t) ||X(0) - J X(0)||_F + eta sum_{k < t} rho(k, t) ||G(k) - J G(k)||_F.

It assumes nothing of the graphs, holds for every row-stochastic W, and is finite for every finite t, connected or not.
(For doubly stochastic W, rho(k, t) = ||P(k, t) - J||_2.) Put into Lemma 2 instead of Lemma 3 it bounds the error:

    mean of f(xbar(t)) - f* over t = 0 .. T <= 1 / (2 eta (1 - 2 L eta)) ( ||xbar(0) - x||^2 / (T + 1)
        + eta^2 sigmabar^2 / N + (L eta / N) (2 L eta + 1) mean_t ||X(t) - J X(t)||_F^2 ) + delta / (1 - 2 L eta).

Here x may be any point and delta = f(x) - inf f; the paper has the minimiser and delta = 0. Its Lemma 2 goes through
with ||grad f(xbar)||^2 <= 2 L (f(xbar) - inf f), which costs 4 L eta^2 delta more in each round. So the bound makes
sense where no minimiser exists, too. Doubly stochastic W are needed here, which keep the mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fedroam.analysis.connectivity.spectral import MixingMatrix, deviations

C = 4.0  # Corollary 1
_NORMS = 40_000  # matrix norms that a bound from products may cost
_STACK = 512


def log_lambda(clients: int, window: int) -> float:
    """ln of lambda = (1 - 1 / N^(N B))^(1 / B) (Corollary 1), by log1p: lambda itself rounds to 1 for N B > 12 or so.

    Where even 1 / N^(N B) underflows the logarithm is -0.0: no power of lambda that anybody takes differs from 1.
    """
    if clients == 1:
        return -math.inf
    return math.log1p(-math.exp(-clients * window * math.log(clients))) / window


def corollary_1(clients: int, window: int) -> float:
    """C^2 N^2 lambda^(2 B), the bound on ||P - J||_F^2 of the product P of B rounds, C = 4.

    It says nothing: for doubly stochastic P the left side is at most N - 1, and this is 16 N^2 but for rounding
    wherever N B is more than a few.
    """
    return C**2 * clients**2 * math.exp(2 * window * log_lambda(clients, window))


def lemma_3(p: float, eta: float, tau: float, clients: int, window: int) -> float:
    """(1 + 2/p) (2/p) eta^2 tauhat ((1 - p) / p + C^2 N^2 lambda^(2 B)), the bound on the consensus distance.

    p: mixing parameter common to all rounds; tau: tauhat, the sum over clients of tau_i; window: B. Infinite unless
    p > 0.
    """
    if not p > 0:
        return math.inf
    return (1 + 2 / p) * (2 / p) * eta**2 * tau * ((1 - p) / p + corollary_1(clients, window))


def descent(
    eta: float,
    smoothness: float,
    variance: float,
    clients: int,
    start: float,
    consensus: float,
    delta: float = 0.0,
    uncertainty: float = 0.0,
) -> float:
    """The bound on the mean of f(xbar(t)) - f* over T + 1 rounds, from Lemma 2.

    start: ||xbar(0) - x||^2 / (T + 1); variance: mean over clients of sigma_i^2; consensus: (a bound on) the mean over
    rounds of the consensus distance; delta: f(x) - f*; uncertainty: f* - inf f, at most, where f* is only the lowest
    value that is known. Infinite unless eta < 1 / (2 L), strictly.
    """
    rest = 1 - 2 * smoothness * eta
    if not rest > 0 or not math.isfinite(start + consensus):
        return math.inf
    apart = smoothness * eta / clients * (2 * smoothness * eta + 1) * consensus
    late = delta + 2 * smoothness * eta * (delta + uncertainty) / rest
    return (start + eta**2 * variance / clients + apart) / (2 * eta * rest) + late


def theorem_1(
    p: float,
    eta: float,
    smoothness: float,
    variance: float,
    tau: float,
    clients: int,
    window: int,
    start: float,
) -> float:
    """Theorem 1: `descent` with Lemma 3 for the consensus distance, (L eta^3 / N) (2 L eta + 1) A0.

    Arguments as there. Infinite where p is not above 0, or eta not below 1 / (2 L): at equality it is 1 / 0.
    """
    return descent(eta, smoothness, variance, clients, start, lemma_3(p, eta, tau, clients, window))


def product_bound(
    weights: Sequence[MixingMatrix], gradients: np.ndarray, eta: float, start: float = 0.0
) -> np.ndarray:
    """The bound on the consensus distance ||X(t) - J X(t)||_F^2 from measured products, float64 [rounds + 1].

    weights: W(0), W(1), ...; gradients: ||G(k) - J G(k)||_F of each round; start: ||X(0) - J X(0)||_F^2.
    Where all products are too many to take the norms of, they are taken for rounds evenly spread, and in between
    the bound is carried on by d(t + 1) <= ||(I - J) W(t)||_2 (d(t) + eta ||G(t) - J G(t)||_F), which is looser.
    """
    rounds, first = len(weights), math.sqrt(start)
    bound = np.zeros(rounds + 1)
    bound[0] = first
    matrices = [one.toarray() for one in weights]
    single = _stacked(matrices)
    # All rounds, or evenly spread ones whose number of products is bearable.
    step = max(1, math.ceil(rounds * (rounds + 1) / 2 / _NORMS))
    exact = set(range(rounds, 0, -step))
    for t in range(1, rounds + 1):
        bound[t] = single[t - 1] * (bound[t - 1] + eta * gradients[t - 1])
        if t in exact and t > 1:
            bound[t] = min(bound[t], _from_products(matrices[:t], gradients[:t], eta, first))
    return np.asarray(bound**2)


def _from_products(matrices: list[np.ndarray], gradients: np.ndarray, eta: float, first: float) -> float:
    """rho(0, t) d(0) + eta sum_k rho(k, t) gradients[k] for t = the number of matrices.

    From the last round backwards; once rho is negligible, all earlier rounds are given sqrt(N) rho, which is not
    smaller than their own: rho(j, t) <= rho(k, t) rho(j, k) for j < k, and rows that sum to 1 have rho <= sqrt(N).
    """
    clients = len(matrices[0])
    product, total, rho, k = np.eye(clients), 0.0, 1.0, len(matrices)
    while k > 0:
        held: list[np.ndarray] = []
        begin = k
        while k > 0 and len(held) < _STACK // 8:
            k -= 1
            product = product @ matrices[k]
            held.append(product)
        norms = deviations(np.stack(held))
        total += eta * float(norms @ gradients[k:begin][::-1])
        rho = float(norms[-1])
        if rho < 1e-9:
            return total + rho * math.sqrt(clients) * (first + eta * float(gradients[:k].sum()))
    return total + rho * first


def _stacked(matrices: list[np.ndarray]) -> np.ndarray:
    """||(I - J) W||_2 of each matrix."""
    found = [deviations(np.stack(matrices[k : k + _STACK])) for k in range(0, len(matrices), _STACK)]
    return np.concatenate(found) if found else np.zeros(0)
