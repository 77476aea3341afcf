"""Bounds: formulas, the bound from products, and where the printed ones do not hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from fedroam.analysis.connectivity.bounds import (
    corollary_1,
    descent,
    lemma_3,
    log_lambda,
    product_bound,
    theorem_1,
)
from fedroam.analysis.connectivity.spectral import mixing_parameter, mixing_parameters
from fedroam.randomness import stream
from support.contact_graphs import graph, random_graph, weights_of


def test_formulas_on_numbers_worked_by_hand() -> None:
    # N = 2, B = 1: lambda = 1 - 1/4, so C^2 N^2 lambda^2 = 16 * 4 * 9/16 = 36.
    assert math.exp(log_lambda(2, 1)) == pytest.approx(0.75)
    assert corollary_1(2, 1) == pytest.approx(36)
    # (1 + 4)(4) 0.1^2 * 3 * (1 + 36) for p = 1/2, eta = 0.1, tauhat = 3
    assert lemma_3(0.5, 0.1, 3.0, 2, 1) == pytest.approx(0.6 * 37)
    # L = 2, eta = 0.1: 1 / (2 eta (1 - 2 L eta)) = 1 / 0.12; (L eta / N)(2 L eta + 1) = 0.1 * 1.4
    want = (5 / 10 + 0.01 * 4 / 2 + 0.14 * 0.6 * 37) / 0.12
    assert theorem_1(0.5, 0.1, 2.0, 4.0, 3.0, 2, 1, 0.5) == pytest.approx(want)
    assert descent(0.1, 2.0, 4.0, 2, 0.5, 0.6 * 37, delta=0.3) == pytest.approx(want + 0.3 / 0.6)


def test_lambda_by_log1p_where_floats_round_it_to_one() -> None:
    assert (1 - 20.0**-20) == 1.0
    assert log_lambda(20, 1) == pytest.approx(-(20.0**-20), rel=1e-12)
    assert log_lambda(3, 4) == pytest.approx(-(3.0**-12) / 4, rel=1e-5)
    assert log_lambda(20, 300) == 0.0  # 20^-6000 is below the smallest float
    assert corollary_1(20, 300) == 6400.0


def test_bounds_are_infinite_where_they_say_nothing() -> None:
    assert lemma_3(0.0, 0.1, 1.0, 5, 3) == math.inf
    assert lemma_3(-0.2, 0.1, 1.0, 5, 3) == math.inf
    assert theorem_1(0.0, 0.1, 1.0, 0.0, 1.0, 5, 3, 1.0) == math.inf
    assert (
        theorem_1(0.5, 0.5, 1.0, 0.0, 1.0, 5, 1, 1.0) == math.inf
    )  # eta = 1 / (2 L): strictly below is needed
    assert theorem_1(0.5, 0.6, 1.0, 0.0, 1.0, 5, 1, 1.0) == math.inf
    assert math.isfinite(theorem_1(0.5, 0.49, 1.0, 0.0, 1.0, 5, 1, 1.0))


@given(st.integers(2, 7), st.integers(1, 6), st.integers(0, 10_000))
def test_corollary_1_is_never_below_the_products_and_never_says_anything(n: int, b: int, seed: int) -> None:
    draws = stream(seed, "corollary")
    product = np.eye(n)
    for _ in range(b):
        product = weights_of("metropolis", random_graph(draws, n, 0.5)).toarray() @ product
    norm = float(((product - 1 / n) ** 2).sum())
    assert norm <= n - 1 + 1e-12
    assert n - 1 < corollary_1(n, b)
    assert norm < corollary_1(n, b)


# --- the convex problem ---


@given(st.integers(0, 10_000), st.sampled_from(["metropolis", "plain", "data_size"]))
def test_the_bound_from_products_holds_for_all_row_stochastic_weights(seed: int, kind: str) -> None:
    """Any graphs, connected or not, any gradients, any start; and it equals the sum of Lemma 1's norms."""
    draws, n, rounds, eta = stream(seed, "bound"), 5, 12, 0.3
    weights = [weights_of(kind, random_graph(draws, n, 0.25), draws.integers(1, 9, n)) for _ in range(rounds)]
    x, off = draws.standard_normal((n, 3)), np.eye(n) - 1 / n
    start, measured, norms, gradients = ((off @ x) ** 2).sum(), [], [], []
    for w in weights:
        g = draws.standard_normal((n, 3)) * draws.random()
        gradients.append(g)
        norms.append(np.linalg.norm(off @ g))
        x = w @ (x - eta * g)
        measured.append(((off @ x) ** 2).sum())
    bound = product_bound(weights, np.array(norms), eta, float(start))
    assert bound[0] == pytest.approx(start)
    assert (np.array(measured) <= bound[1:] * (1 + 1e-9) + 1e-12).all()
    product, total = np.eye(n), 0.0
    for k in range(rounds - 1, -1, -1):
        product = product @ weights[k].toarray()
        total += eta * np.linalg.norm(off @ product, 2) * norms[k]
    total += np.linalg.norm(off @ product, 2) * math.sqrt(start)
    assert bound[-1] <= total**2 * (1 + 1e-9)


def test_the_bound_from_products_is_reached_and_stays_one_where_few_products_are_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two clients that drift apart and never meet: the bound is the distance itself."""
    apart = [weights_of("metropolis", graph(2))] * 20
    bound = product_bound(apart, np.full(20, math.sqrt(2)), 0.1)
    assert bound == pytest.approx([2 * (0.1 * t) ** 2 for t in range(21)])
    draws = stream(7, "few")
    weights = [weights_of("metropolis", random_graph(draws, 6, 0.3)) for _ in range(60)]
    exact = product_bound(weights, np.ones(60), 0.1)
    monkeypatch.setattr("fedroam.analysis.connectivity.bounds._NORMS", 100)
    rough = product_bound(weights, np.ones(60), 0.1)
    assert (rough >= exact * (1 - 1e-9)).all()
    assert rough[-1] == pytest.approx(exact[-1], rel=1e-6)


def test_reading_p_as_that_of_a_window_is_false_here() -> None:
    """f = +x and -x, and they meet every 21st round: 8.0 against a bound of 7.68."""
    eta, rounds = 0.1, 63
    alone, met = weights_of("metropolis", graph(2)), weights_of("metropolis", graph(2, (0, 1)))
    weights = [met if t % 21 == 20 else alone for t in range(rounds)]
    x, measured = np.zeros(2), [0.0]
    for w in weights:
        x = w @ (x - eta * np.array([1.0, -1.0]))
        measured.append(float(((x - x.mean()) ** 2).sum()))
    assert max(measured) == pytest.approx(8.0)
    p = min(mixing_parameter(weights[k : k + 21]) for k in range(0, rounds, 21))
    assert p == pytest.approx(1.0)
    tau = 2.0  # each gradient is 1 from their mean, 0
    unproven = lemma_3(p, eta, tau, 2, 21)
    assert unproven == pytest.approx(7.68)
    assert unproven < max(measured)
    assert lemma_3(float(mixing_parameters(weights).min()), eta, tau, 2, 21) == math.inf
    tight = product_bound(weights, np.full(rounds, math.sqrt(tau)), eta)
    assert tight == pytest.approx(measured, abs=1e-9)


# --- real convex runs ---


@given(st.integers(0, 10_000))
def test_printed_bounds_hold_for_quadratics_whose_every_round_is_connected(seed: int) -> None:
    """f_i = x'Hx/2 - c'x with H of rank 1 or 2, learning rates up to the limit; L, x*, tau_i by linear algebra."""
    draws = stream(seed, "quadratics")
    n, d, rounds = int(draws.integers(2, 7)), 3, int(draws.integers(1, 30))
    weights: list[sparse.csr_array] = []
    while len(weights) < rounds:
        one = weights_of("metropolis", random_graph(draws, n, draws.uniform(0.4, 1.0)))
        weights += [one] if mixing_parameter([one]) > 0 else []
    roots = draws.standard_normal((n, d, 2))
    hessians, slopes = roots @ roots.transpose(0, 2, 1) + 0.01 * np.eye(d), 3 * draws.standard_normal((n, d))
    smoothness = max(np.linalg.eigvalsh(one)[-1] for one in hessians)
    eta = draws.uniform(0.05, 0.99) / (2 * smoothness)

    def value(x: np.ndarray) -> float:
        return float(np.mean([x @ h @ x / 2 - c @ x for h, c in zip(hessians, slopes, strict=True)]))

    best = np.linalg.solve(hessians.sum(axis=0), slopes.sum(axis=0))
    x = np.tile(3 * draws.standard_normal(d), (n, 1))
    way, tau, consensus, gaps = ((x[0] - best) ** 2).sum(), np.zeros(n), [0.0], [value(x[0]) - value(best)]
    for w in weights:
        gradient = np.einsum("ijk,ik->ij", hessians, x) - slopes
        tau = np.maximum(tau, ((gradient - gradient.mean(axis=0)) ** 2).sum(axis=1))
        x = w @ (x - eta * gradient)
        consensus.append(((x - x.mean(axis=0)) ** 2).sum())
        gaps.append(value(x.mean(axis=0)) - value(best))
    p, total = float(mixing_parameters(weights).min()), float(tau.sum())
    assert max(consensus) <= lemma_3(p, eta, total, n, 1)
    # Without the second term of A0, which Corollary 1 stands for, the bound is a good deal closer, and still one.
    assert max(consensus) <= (1 + 2 / p) * (2 / p) * eta**2 * total * (1 - p) / p * (1 + 1e-9) + 1e-12
    for t in range(rounds + 1):
        mean = np.mean(gaps[: t + 1])
        assert mean <= theorem_1(p, eta, smoothness, 0.0, total, n, 1, way / (t + 1)) * (1 + 1e-9)
        closer = descent(eta, smoothness, 0.0, n, way / (t + 1), float(np.mean(consensus[: t + 1])))
        assert mean <= closer * (1 + 1e-9)
