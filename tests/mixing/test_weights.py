from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from fedroam.contacts import graph_of
from fedroam.errors import InputError
from fedroam.learning import Entry, Layout, Models, consensus_distance, mix
from fedroam.mixing import Fact, Facts, Surroundings, weights_of
from fedroam.mixing.weights import DataSize, Metropolis
from fedroam.mobility import Paths
from fedroam.randomness import stream
from support.contract import graphs


def facts(*samples: int) -> Facts:
    return Facts(np.array(samples, dtype=np.int64), np.zeros(len(samples)))


def graph(clients: int, *pairs: tuple[int, int]) -> sparse.csr_array:
    return graph_of(np.array(pairs, dtype=np.int64).reshape(-1, 2), clients)


def test_data_size_by_hand() -> None:
    # a path 0 - 1 - 2 holding 1, 3 and 4 samples: client 0 sees 1 + 3, client 1 all 8, client 2 sees 3 + 4
    weights = DataSize().weights(graph(3, (0, 1), (1, 2)), facts(1, 3, 4)).toarray()
    np.testing.assert_allclose(
        weights, [[1 / 4, 3 / 4, 0], [1 / 8, 3 / 8, 4 / 8], [0, 3 / 7, 4 / 7]], rtol=1e-15
    )


def test_data_size_where_nobody_holds_samples() -> None:
    weights = DataSize().weights(graph(4, (0, 1), (2, 3)), facts(0, 0, 0, 5))
    np.testing.assert_array_equal(weights.toarray(), [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1]])
    # client 1 keeps its model though its neighbour's has overflowed: no weight, no influence
    models = rows([[float("inf")], [2.0], [3.0], [4.0]])
    mix(models, weights)
    np.testing.assert_array_equal(models.parameters[1:].numpy(), [[2], [4], [4]])


def test_neighbours_in_any_order_have_their_weights() -> None:
    """A graph of one's own contact rule may list them so."""
    columns, begins = np.array([3, 1, 2, 3, 0, 0, 1, 0]), np.array([0, 3, 5, 6, 8])
    unsorted = sparse.csr_array((np.ones(8, dtype=bool), columns, begins), shape=(4, 4))
    dense = unsorted.toarray()
    assert (dense == dense.T).all()
    same = sparse.csr_array(dense)
    for rule in (DataSize(), Metropolis()):
        one, other = (rule.weights(each, facts(1, 3, 4, 2)) for each in (unsorted, same))
        np.testing.assert_array_equal(one.toarray(), other.toarray())
        assert (np.diff(one.indices)[np.diff(np.repeat(np.arange(4), np.diff(one.indptr))) == 0] > 0).all()


def test_metropolis_on_a_star_by_hand() -> None:
    # centre 0 has degree 4, leaves degree 1: every edge 1 / (1 + 4)
    weights = Metropolis().weights(graph(5, (0, 1), (0, 2), (0, 3), (0, 4)), facts(1, 1, 1, 1, 1)).toarray()
    expected = np.diag([1 / 5, 4 / 5, 4 / 5, 4 / 5, 4 / 5])
    expected[0, 1:] = expected[1:, 0] = 1 / 5
    np.testing.assert_allclose(weights, expected, rtol=1e-15)


def test_metropolis_on_a_path_by_hand() -> None:
    # degrees 1, 2, 2, 1: every edge has an end of degree 2, so 1 / 3
    weights = Metropolis().weights(graph(4, (0, 1), (1, 2), (2, 3)), facts(1, 1, 1, 1)).toarray()
    third = 1 / 3
    np.testing.assert_allclose(
        weights,
        [
            [2 * third, third, 0, 0],
            [third, third, third, 0],
            [0, third, third, third],
            [0, 0, third, 2 * third],
        ],
        rtol=1e-15,
    )


def test_metropolis_uses_the_larger_degree_of_the_two() -> None:
    # a triangle 0-1-2 with a tail 2-3: degrees 2, 2, 3, 1
    weights = Metropolis().weights(graph(4, (0, 1), (1, 2), (0, 2), (2, 3)), facts(1, 1, 1, 1)).toarray()
    assert weights[0, 1] == 1 / 3
    assert weights[0, 2] == weights[1, 2] == weights[2, 3] == 1 / 4
    np.testing.assert_allclose(weights.diagonal(), [5 / 12, 5 / 12, 1 / 4, 3 / 4], rtol=1e-15)


@given(graphs(), st.integers(0, 1000))
def test_both_rules_are_those_of_the_papers_written_out(contacts: sparse.csr_array, seed: int) -> None:
    n, dense = contacts.shape[0], contacts.toarray()
    samples = stream(seed, "test samples").integers(1, 100, n)
    by_size, metropolis = np.zeros((n, n)), np.zeros((n, n))
    for i in range(n):
        neighbours = np.flatnonzero(dense[i])
        total = samples[i] + samples[neighbours].sum()
        for j in (*neighbours, i):
            by_size[i, j] = samples[j] / total
        for j in neighbours:
            metropolis[i, j] = 1 / (1 + max(dense[i].sum(), dense[j].sum()))
        metropolis[i, i] = 1 - metropolis[i].sum()
    np.testing.assert_allclose(DataSize().weights(contacts, facts(*samples)).toarray(), by_size, atol=1e-15)
    np.testing.assert_allclose(
        Metropolis().weights(contacts, facts(*samples)).toarray(), metropolis, atol=1e-15
    )


def rows(values: list[list[float]], buffers: list[list[float]] | None = None) -> Models:
    parameters = torch.tensor(values, dtype=torch.float32)
    extra = torch.tensor(buffers if buffers else [[]] * len(values), dtype=torch.float32)

    def entry(width: int) -> tuple[Entry, ...]:
        return (Entry("w", (width,), 0, width),) if width else ()

    layout = Layout(entry(parameters.shape[1]), entry(extra.shape[1]))
    return Models(layout, parameters, extra, parameters.clone())


def test_an_exchange_by_hand() -> None:
    models = rows([[1.0, 10.0], [3.0, 30.0], [5.0, 50.0]], buffers=[[0.0], [1.0], [2.0]])
    weights = sparse.csr_array(np.array([[0.5, 0.5, 0], [0.25, 0.5, 0.25], [0, 0, 1.0]]))
    mix(models, weights)
    assert models.parameters.tolist() == [[2.0, 20.0], [3.0, 30.0], [5.0, 50.0]]
    assert models.buffers.tolist() == [[0.5], [1.0], [2.0]]
    assert models.momentum is not None
    assert models.momentum.tolist() == [[1.0, 10.0], [3.0, 30.0], [5.0, 50.0]]  # momentum stays at home


@given(graphs(), st.integers(0, 1000))
def test_an_exchange_is_a_matrix_product(contacts: sparse.csr_array, seed: int) -> None:
    n = contacts.shape[0]
    values = stream(seed, "test rows").standard_normal((n, 7))
    for rule in (DataSize(), Metropolis()):
        weights = rule.weights(contacts, facts(*range(1, n + 1)))
        models = rows(values.tolist())
        mix(models, weights)
        np.testing.assert_allclose(
            models.parameters.numpy(), weights.toarray() @ values.astype(np.float32), rtol=1e-5, atol=1e-6
        )


@given(graphs())
def test_metropolis_keeps_the_mean_and_never_raises_the_consensus_distance(
    contacts: sparse.csr_array,
) -> None:
    n = contacts.shape[0]
    values = stream(n, "test rows").standard_normal((n, 5))
    models = rows(values.tolist())
    before = consensus_distance(models.parameters)
    mix(models, Metropolis().weights(contacts, facts(*[1] * n)))
    np.testing.assert_allclose(models.parameters.numpy().mean(0), values.mean(0), atol=1e-6)
    assert consensus_distance(models.parameters) <= before * (1 + 1e-6) + 1e-9


def test_consensus_distance_by_hand() -> None:
    # Jahani et al., Lemma 3: ||X - Xbar||_F^2. Mean (3, 0): squares 4 + 1, 0 + 4, 4 + 1 ... added up.
    x = torch.tensor([[1.0, 1.0], [3.0, -2.0], [5.0, 1.0]])
    assert consensus_distance(x) == pytest.approx((4 + 1) + (0 + 4) + (4 + 1))
    assert consensus_distance(x[:1]) == 0.0
    values = stream(1, "test rows").standard_normal((9, 400)).astype(np.float32)
    wide = values.astype(np.float64)
    assert consensus_distance(torch.from_numpy(values)) == pytest.approx(
        np.linalg.norm(wide - wide.mean(0)) ** 2, rel=1e-12
    )


class Given:
    """A rule of a user's, which gives what it was made with."""

    def __init__(self, found: Any) -> None:
        self.found = found

    def weights(self, graph: sparse.csr_array, facts: Facts) -> Any:
        return self.found


# Clients 0 and 1 meet; 2 is alone.
RIGHT = [[0.5, 0.5, 0.0], [0.25, 0.75, 0.0], [0.0, 0.0, 1.0]]


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (None, "weights gave NoneType, allowed is a csr_array [3, 3]"),
        (np.eye(4), "weights gave an array [4, 4], allowed is a csr_array [3, 3]"),
        (np.array([["a"] * 3] * 3), "its weights are <U1, allowed are float64"),
        (
            np.full((3, 3), 1 / 3),
            "client 0 gives the model of client 2 the weight 0.333333, and the two do not meet",
        ),
        ([[0.5, 0.6, 0], *RIGHT[1:]], "the weights of client 0 sum to 1.1, allowed are rows that sum to 1"),
        (
            [RIGHT[0], [-0.5, 1.5, 0], RIGHT[2]],
            "client 1 gives the model of client 0 the weight -0.5, allowed are",
        ),
        (
            [RIGHT[0], [np.nan, 1, 0], RIGHT[2]],
            "client 1 gives the model of client 0 the weight nan, allowed are",
        ),
        (
            [RIGHT[0], [np.inf, 0, 0], RIGHT[2]],
            "client 1 gives the model of client 0 the weight inf, allowed are",
        ),
        ([*RIGHT[:2], [0, 0, 0]], "the weights of client 2 sum to 0, allowed are rows that sum to 1"),
    ],
)
def test_what_a_rule_of_ones_own_gives_is_held_against_what_it_promises(found: Any, told: str) -> None:
    found = np.array(found, dtype=float) if isinstance(found, list) else found
    given = found if found is None or found.dtype.kind == "U" else sparse.csr_array(found)
    with pytest.raises(InputError) as raised:
        weights_of(Given(given), graph(3, (0, 1)), facts(1, 1, 1), 7)
    assert f"mixing kind 'Given', round 7: {told}" in str(raised.value)


def test_a_damaged_array_is_told_and_not_read() -> None:
    """scipy would read beyond its values."""
    damaged = sparse.csr_array(np.array(RIGHT))
    damaged.indptr[1] = 50
    with pytest.raises(InputError, match="mixing kind 'Given', round 7: weights gave a damaged csr_array: "):
        weights_of(Given(damaged), graph(3, (0, 1)), facts(1, 1, 1), 7)


class WritesInPlace:
    """Neighbourhood averages by a common idiom, which changes the graph; and all facts besides."""

    needs: ClassVar[tuple[Fact, ...]] = ("paths", "class_counts")

    def weights(self, graph: sparse.csr_array, facts: Facts) -> Any:
        graph.setdiag(True)
        found = graph.astype(float)
        written = (facts.samples, facts.speed, facts.class_counts)
        for array in (*written, facts.paths.point, facts.paths.present, facts.paths.length):
            array[:] = 0
        return sparse.csr_array(sparse.diags_array(1 / found.sum(axis=1)) @ found)


def test_a_rule_of_ones_own_may_write_into_what_it_is_given_and_changes_nothing_else() -> None:
    places = np.array([[0.0, 0.0], [3.0, 4.0], [9.0, 9.0]])
    paths, met, counts = (
        Paths.straight(places, places + 1.0),
        graph(3, (0, 1)),
        np.ones((3, 2), dtype=np.int64),
    )
    known = Facts.of(WritesInPlace(), np.array([1, 2, 3]), Surroundings(paths, met, 5.0, counts))
    found = weights_of(WritesInPlace(), met, known)
    np.testing.assert_array_equal(found.toarray(), [[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]])
    assert not met.diagonal().any(), "nobody meets itself"
    assert known.samples.tolist() == [1, 2, 3]
    np.testing.assert_allclose(known.speed, np.sqrt(2))
    np.testing.assert_array_equal(paths.end, places + 1.0)
    np.testing.assert_allclose(paths.length, np.sqrt(2))
    assert paths.present.all()
    assert (counts == 1).all()


@pytest.mark.parametrize("form", [np.array, sparse.coo_array, sparse.csc_array, sparse.csr_array])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_a_rule_of_ones_own_may_give_its_weights_in_any_form(form: Any, kind: type) -> None:
    found = weights_of(Given(form(np.array(RIGHT, dtype=kind))), graph(3, (0, 1)), facts(1, 1, 1))
    assert isinstance(found, sparse.csr_array)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found.toarray(), RIGHT)
    assert len(found.data) == 5, "no zeros among the entries"
