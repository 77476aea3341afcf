"""Mixing parameters and spectral gaps against definitions, closed forms and dense solvers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedroam.analysis.connectivity.spectral import (
    connects,
    deviations,
    doubly_stochastic,
    mixing_parameter,
    mixing_parameters,
    spectral_gap,
    spectral_gaps,
    window_parameters,
)
from fedroam.contacts import graph_of
from fedroam.randomness import stream
from support.contact_graphs import graph, random_graph, weights_of

TEN = 10


@pytest.mark.parametrize("share", [0.1, 0.3, 0.8])
def test_metropolis_weights_are_symmetric_and_doubly_stochastic(share: float) -> None:
    for k in range(20):
        w = weights_of("metropolis", random_graph(stream(k, "graph"), 3 + 5 * k, share))
        assert abs(w - w.T).max() == 0
        assert doubly_stochastic(w)
        assert np.abs(w.sum(axis=0) - 1).max() <= 1e-12
    assert not doubly_stochastic(weights_of("plain", graph(3, (0, 1), (1, 2))))


@pytest.mark.parametrize("kind", ["metropolis", "plain", "data_size"])
@given(st.integers(0, 10_000), st.integers(2, 9), st.floats(0.15, 0.9))
def test_p_equals_the_definition(kind: str, seed: int, clients: int, share: float) -> None:
    """No random matrix is brought less close than 1 - p says, and the singular vector exactly so far."""
    draws = stream(seed, "matrices")
    w = weights_of(kind, random_graph(draws, clients, share), draws.integers(1, 50, clients))
    p = mixing_parameter([w])

    def left(m: np.ndarray) -> float:
        """||W M - Mbar||^2 / ||M - Mbar||^2 for models as rows."""
        mean = m.mean(axis=0)
        return float(((w @ m - mean) ** 2).sum() / ((m - mean) ** 2).sum())

    assert max(left(draws.standard_normal((clients, 3))) for _ in range(20)) <= 1 - p + 1e-9
    m = draws.standard_normal((clients, 1))
    mean_off = np.eye(clients) - 1 / clients
    square = mean_off @ w.T.toarray() @ w.toarray() @ mean_off
    for _ in range(300):  # power iteration: a search among matrices for the one left farthest
        m = square @ m
        m /= max(np.linalg.norm(m), 1e-300)
    vector = np.linalg.eigh(square)[1][:, -1:]
    if p < 1 - 1e-9:
        assert left(vector) == pytest.approx(1 - p, abs=1e-9)
        assert left(m) <= 1 - p + 1e-9
        assert left(m) >= (1 - p) - 0.05 * max(1, 1 - p)
    if kind == "metropolis":
        values = np.sort(np.linalg.eigvalsh(w.T.toarray() @ w.toarray()))
        assert p == pytest.approx(1 - values[-2], abs=1e-12)  # the paper's 1 - lambda_2(W^T W)


def test_p_may_be_negative_where_columns_do_not_sum_to_one() -> None:
    many = graph(13, *((0, i) for i in range(1, 13)))  # all take half of the centre's model
    assert mixing_parameter([weights_of("plain", many)]) < -1
    star = graph(5, (0, 1), (0, 2), (0, 3), (0, 4))
    assert mixing_parameter([weights_of("metropolis", star)]) == pytest.approx(0.36)  # 1 - (4/5)^2
    # The norm in the printed proof would have to be below 1 - p = 0.64 in square, and is 1.92.
    w = weights_of("metropolis", star).toarray()
    assert ((w - 1 / 5) ** 2).sum() == pytest.approx(1.92)


@given(st.integers(0, 10_000))
def test_a_window_of_metropolis_weights_has_p_above_zero_if_and_only_if_it_connects(seed: int) -> None:
    draws = stream(seed, "window")
    chain = [weights_of("metropolis", random_graph(draws, 6, 0.12)) for _ in range(int(draws.integers(1, 8)))]
    assert (mixing_parameter(chain) > 0) == connects(chain)
    product = np.linalg.multi_dot([np.eye(6), *(w.toarray() for w in reversed(chain)), np.eye(6)])
    assert mixing_parameter(chain) == pytest.approx(1 - deviations(product) ** 2, abs=1e-12)


@pytest.mark.parametrize("kind", ["metropolis", "plain"])
def test_sparse_solvers_agree_with_dense_ones(kind: str) -> None:
    draws = stream(3, "large")
    chain = [weights_of(kind, random_graph(draws, 120, 0.05)) for _ in range(3)]
    assert connects(chain[:1])
    for some in (chain[:1], chain):
        assert mixing_parameter(some, dense=False) == pytest.approx(
            mixing_parameter(some, dense=True), abs=1e-9
        )
    assert spectral_gap(chain[0], dense=False) == pytest.approx(spectral_gap(chain[0], dense=True), abs=1e-9)
    assert mixing_parameters(chain) == pytest.approx([mixing_parameter([w]) for w in chain], abs=1e-12)
    assert spectral_gaps(chain) == pytest.approx([spectral_gap(w) for w in chain], abs=1e-12)
    if kind == "metropolis":
        assert spectral_gap(chain[0]) == pytest.approx(
            1 - np.sqrt(1 - mixing_parameter(chain[:1])), abs=1e-12
        )
    halves = weights_of(kind, graph(300, *((i, i + 1) for i in range(298))))  # the last one is alone
    assert mixing_parameter([halves]) == 0 if kind == "metropolis" else mixing_parameter([halves]) <= 0
    assert spectral_gap(halves) == 0


@pytest.mark.parametrize("kind", ["metropolis", "plain"])
@pytest.mark.parametrize("clients", [5, 257, 512])
def test_where_everybody_hears_everybody_one_exchange_is_enough(kind: str, clients: int) -> None:
    """Nothing is left then, neither for dense matrices nor for the iterative solvers of large networks."""
    every = weights_of(kind, graph_of(np.stack(np.triu_indices(clients, k=1), axis=1), clients))
    for chain in ([every], [every, every]):
        assert mixing_parameter(chain) == pytest.approx(1.0, abs=1e-12)
    assert spectral_gap(every) == pytest.approx(1.0, abs=1e-7)


@pytest.mark.parametrize("kind", ["metropolis", "plain", "data_size"])
@given(st.integers(0, 10_000), st.integers(2, 4))
def test_p_of_a_window_equals_the_definition_of_its_exchanges_one_after_another(
    kind: str, seed: int, rounds: int
) -> None:
    draws = stream(seed, "chain")
    clients = int(draws.integers(3, 8))
    chain = [
        weights_of(kind, random_graph(draws, clients, 0.4), draws.integers(1, 50, clients))
        for _ in range(rounds)
    ]
    p, off = mixing_parameter(chain), np.eye(clients) - 1 / clients

    def left(m: np.ndarray) -> float:
        mean, after = m.mean(axis=0), m
        for w in chain:
            after = w @ after
        return float(((after - mean) ** 2).sum() / ((m - mean) ** 2).sum())

    assert max(left(draws.standard_normal((clients, 3))) for _ in range(20)) <= 1 - p + 1e-9
    # The farthest: what the exchanges, in this order, make of each client's deviation, and its singular vector.
    columns = off
    for w in chain:
        columns = w @ columns
    farthest = np.linalg.svd(columns)[2][:1].T
    if p < 1 - 1e-9:
        assert left(farthest) == pytest.approx(1 - p, abs=1e-9)


@pytest.mark.parametrize("dense", [True, False])
def test_a_long_path_mixes_as_slowly_as_its_closed_form(dense: bool) -> None:
    """All weights of contacts are 1/3; eigenvalues are 1 - (2/3)(1 - cos(k pi / n))."""
    path = weights_of("metropolis", graph(300, *((i, i + 1) for i in range(299))))
    gap = 2 / 3 * (1 - np.cos(np.pi / 300))
    assert spectral_gap(path, dense=dense) == pytest.approx(gap, rel=1e-7)
    assert mixing_parameter([path], dense=dense) == pytest.approx(1 - (1 - gap) ** 2, rel=1e-7)


def test_window_parameters_are_those_of_products() -> None:
    draws = stream(5, "windows")
    weights = [weights_of("metropolis", random_graph(draws, 5, 0.3)) for _ in range(7)]
    found = window_parameters(weights, 3, keep_last=True)
    assert found.tolist() == [mixing_parameter(w) for w in (weights[:3], weights[3:6], weights[6:])]
    assert len(window_parameters(weights, 3)) == 2
