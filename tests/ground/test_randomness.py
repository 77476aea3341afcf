from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedroam.randomness import key, pair_normals, stream, torch_default_stream, torch_stream

# Runs are promised to repeat. Changing any of these changes every result ever recorded.
GOLDEN_KEYS = {
    (0, "places", 0, 0): 59423148303557227923289980901072471606,
    (0, "moves", 1, 0): 128052350445172374323872539895052713970,
    (7, "batches", 3, 2): 103361241031835484069729030994394070742,
}


def test_golden_keys() -> None:
    assert {coordinates: key(*coordinates) for coordinates in GOLDEN_KEYS} == GOLDEN_KEYS


def test_golden_draws() -> None:
    assert stream(0, "places").integers(1, 19, size=6).tolist() == [10, 9, 18, 2, 5, 13]
    assert stream(1, "moves", 5).random(3).tolist() == [
        0.23805553009292024,
        0.2975548972851072,
        0.5824493400909876,
    ]
    assert torch.rand(3, generator=torch_stream(2, "dropout", 1, 4)).tolist() == [
        0.28752845525741577,
        0.448148250579834,
        0.40906816720962524,
    ]


def test_a_stream_is_decided_by_all_four_coordinates() -> None:
    points = list(itertools.product((0, 1, 2**62 - 1), ("a", "b", "ab", ""), (0, 1, 2), (0, 1, 2)))
    assert len({key(*p) for p in points}) == len(points)
    assert key(1, "x", 2, 3) == key(1, "x", round=2, client=3)
    assert key(1, "x", 2, 3) != key(1, "x", 3, 2)


@given(
    st.integers(0, 2**62 - 1),
    st.text(max_size=20),
    st.integers(0, 10**9),
    st.integers(0, 10**9),
    st.integers(0, 3),
)
def test_a_stream_does_not_depend_on_what_was_drawn_before(
    seed: int, purpose: str, round: int, client: int, others: int
) -> None:
    first = stream(seed, purpose, round, client).random(4)
    for other in range(others):
        stream(seed, "other", round, other).random(100)
    np.testing.assert_array_equal(stream(seed, purpose, round, client).random(4), first)
    assert 0 <= key(seed, purpose, round, client) < 2**128


def test_streams_of_neighbouring_coordinates_are_independent() -> None:
    rows = [
        stream(seed, "x", t, i).random(2000) for seed, t, i in itertools.product((0, 1), (0, 1, 2), (0, 1, 2))
    ]
    correlation = np.corrcoef(rows) - np.eye(len(rows))
    assert np.abs(correlation).max() < 5 / np.sqrt(2000)
    first = np.array([stream(0, "x", t, i).random() for t in range(60) for i in range(60)])
    assert stats.kstest(first, "uniform").pvalue > 1e-3


def test_a_longer_draw_begins_like_a_shorter_one() -> None:
    # so that client i's share of a common draw does not depend on how many clients there are
    np.testing.assert_array_equal(stream(1, "x").random(50)[:7], stream(1, "x").random(7))


def test_torch_streams_repeat() -> None:
    a, b = (torch.randn(5, generator=torch_stream(1, "x", 2, 3)) for _ in range(2))
    assert torch.equal(a, b)
    assert not torch.equal(a, torch.randn(5, generator=torch_stream(1, "x", 2, 4)))


def test_the_lent_default_generator_is_given_back() -> None:
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    with torch_default_stream(1, "x"):
        inside = torch.rand(3)
    assert torch.equal(torch.rand(2), expected)
    with torch_default_stream(1, "x"):
        assert torch.equal(torch.rand(3), inside)
    before = torch.random.get_rng_state()
    with pytest.raises(RuntimeError), torch_default_stream(1, "x"):
        torch.rand(-1)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_numbers_of_pairs_are_blocks_of_philox() -> None:
    """The first word of numpy's own generator at the counter of each pair (which counts before it draws)."""
    a = np.array([0, 1, 3, -5, 2**62, 12_345_678_901])
    b = np.array([0, 2, 1, 7, -1, -(2**63)])
    for seed, purpose in ((0, "pairs"), (9, "shadowing")):
        expected = []
        for i, j in zip(a.tolist(), b.tolist(), strict=True):
            counter = ((i % 2**64) + ((j % 2**64) << 64) - 1) % 2**256
            word = int(np.random.Philox(key=key(seed, purpose), counter=counter).random_raw())
            expected.append(stats.norm.ppf(((word >> 12) + 0.5) * 2.0**-52))
        np.testing.assert_allclose(pair_normals(seed, purpose, a, b), expected, rtol=1e-12)
    assert pair_normals(0, "pairs", a[:0], b[:0]).shape == (0,)
