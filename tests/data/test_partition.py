"""Who holds what: every rule against its promise, closed forms and a slow reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedroam.data import Dataset, cut, split_of
from fedroam.data.dirichlet import ClientDirichlet, Dirichlet
from fedroam.data.partition import IID, ByColumn
from fedroam.data.shards import Classes, Shards
from fedroam.errors import InputError
from fedroam.randomness import stream


def labelled(labels: Any, classes: int | None = None, **columns: Any) -> Dataset:
    """A data set of which only the labels and columns matter."""
    y = np.asarray(labels, dtype=np.int64)
    x = np.zeros((len(y), 1), dtype=np.float32)
    names = tuple(f"c{k}" for k in range(classes or int(y.max()) + 1))
    return Dataset("labels", x, y, x[:0], y[:0], names, {k: np.asarray(v) for k, v in columns.items()})


BALANCED = labelled(np.repeat(np.arange(10), 60)[stream(0, "mix").permutation(600)])
label_lists = st.lists(st.integers(0, 5), min_size=24, max_size=120)


def counts(dataset: Dataset, parts: list[np.ndarray]) -> np.ndarray:
    return np.stack([np.bincount(dataset.y_train[p], minlength=dataset.classes) for p in parts])


def check_complete(dataset: Dataset, parts: list[np.ndarray]) -> None:
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(dataset.y_train)))
    assert all((np.diff(p) > 0).all() for p in parts)


# --- iid and dirichlet ------------------------------------------------------------------------------------------


@given(label_lists, st.integers(1, 12))
def test_iid_shares_are_equal_and_complete(labels: list[int], clients: int) -> None:
    dataset = labelled(labels)
    parts = IID().split(dataset, clients, stream(1, "p"))
    check_complete(dataset, parts)
    assert np.ptp([len(p) for p in parts]) <= 1


@given(label_lists, st.integers(1, 6), st.floats(0.3, 50), st.integers(0, 2))
def test_dirichlet_is_complete_and_keeps_the_minimum(
    labels: list[int], clients: int, alpha: float, fewest: int
) -> None:
    dataset = labelled(labels, 6)
    parts = Dirichlet(alpha=alpha, min_samples=fewest).split(dataset, clients, stream(1, "p"))
    check_complete(dataset, parts)
    assert min(len(p) for p in parts) >= fewest


def test_dirichlet_shares_are_the_proportions_drawn() -> None:
    parts = Dirichlet(alpha=0.5, min_samples=0).split(BALANCED, 7, stream(4, "p"))
    shares = stream(4, "p").dirichlet(np.full(7, 0.5), size=10)
    assert np.abs(counts(BALANCED, parts).T - 60 * shares).max() <= 1


def test_dirichlet_has_the_mean_and_the_spread_of_its_law() -> None:
    """A share of Dirichlet(alpha, ..., alpha) over n clients: mean 1/n, variance (n - 1) / (n^2 (n alpha + 1))."""
    n, alpha = 5, 0.3
    rule = Dirichlet(alpha=alpha, min_samples=0)
    shares = np.stack([counts(BALANCED, rule.split(BALANCED, n, stream(s, "p"))) for s in range(300)]) / 60
    assert abs(shares.mean() - 1 / n) < 1e-12
    assert abs(shares.var() / ((n - 1) / (n * n * (n * alpha + 1))) - 1) < 0.05


def test_dirichlet_redraws_and_gives_up_in_the_open() -> None:
    alone = Dirichlet(alpha=0.05, min_samples=1, max_tries=1)
    failed = 0
    for seed in range(60):
        try:
            alone.split(BALANCED, 20, stream(seed, "p"))
        except InputError:
            failed += 1
            parts = Dirichlet(alpha=0.05).split(BALANCED, 20, stream(seed, "p"))
            assert min(len(p) for p in parts) >= 1
    assert failed > 20
    with pytest.raises(InputError) as error:
        Dirichlet(alpha=0.01, min_samples=20, max_tries=3).split(BALANCED, 20, stream(0, "p"))
    assert (
        "no Dirichlet(0.01) draw out of 3 gave every one of 20 clients 20 sample(s) (best: 0): raise"
        in str(error.value)
    )


def test_dirichlet_leaves_a_client_empty_as_often_as_the_independent_trial_found() -> None:
    """At alpha 0.05 and 20 clients about 54 % of the draws of 3,000 images leave somebody with nothing."""
    dataset = labelled(np.arange(3000) % 10)
    rule = Dirichlet(alpha=0.05, min_samples=0)
    empty = [min(len(p) for p in rule.split(dataset, 20, stream(s, "p"))) == 0 for s in range(400)]
    assert abs(np.mean(empty) - 0.54) < 0.08


# --- per-client dirichlet ---------------------------------------------------------------------------------------

SHARING = ("none", "clients", "replacement")


@given(label_lists, st.integers(1, 6), st.floats(0.01, 100), st.sampled_from(SHARING), st.integers(0, 3))
def test_client_dirichlet_gives_everybody_the_same_number(
    labels: list[int], clients: int, alpha: float, sharing: Any, seed: int
) -> None:
    dataset = labelled(labels, 6)
    size = len(labels) // clients
    rule = ClientDirichlet(alpha=alpha, samples_per_client=size, sharing=sharing)
    parts = rule.split(dataset, clients, stream(seed, "p"))
    assert [len(p) for p in parts] == [size] * clients
    if sharing != "replacement":
        assert all(len(np.unique(p)) == size for p in parts)
    if sharing == "none":
        assert len(np.unique(np.concatenate(parts))) == size * clients


def test_client_dirichlet_counts_are_cut_and_the_rest_goes_to_one_class() -> None:
    """As in MOHAWK: whole numbers of the mix, what is left over to one class."""
    rule = ClientDirichlet(alpha=1.0, samples_per_client=500, sharing="replacement")
    parts = rule.split(BALANCED, 30, stream(2, "p"))
    draws = stream(2, "p")
    for c in range(10):
        draws.permutation(np.flatnonzero(BALANCED.y_train == c))
    mixes = draws.dirichlet(np.ones(10), size=30)
    for mix, held in zip(mixes, counts(BALANCED, parts), strict=True):
        rest = held - np.floor(mix * 500)
        assert (rest >= 0).all()
        assert np.count_nonzero(rest) <= 1
        assert rest.sum() < 10
    assert len(np.unique(parts[0])) < 500  # 600 images, drawn with replacement


def test_client_dirichlet_alpha_decides_how_even_the_mix_is() -> None:
    even = ClientDirichlet(alpha=1e4, samples_per_client=50).split(BALANCED, 4, stream(1, "p"))
    # floor(5 - little) is 4: up to ten left over go to one class
    assert (np.sort(counts(BALANCED, even), axis=1)[:, :9] >= 4).all()
    single = ClientDirichlet(alpha=1e-3, samples_per_client=50).split(BALANCED, 4, stream(1, "p"))
    assert (counts(BALANCED, single).max(axis=1) >= 45).all()


def test_client_dirichlet_without_sharing_can_deal_everything_out() -> None:
    parts = ClientDirichlet(alpha=0.01, samples_per_client=60).split(BALANCED, 10, stream(3, "p"))
    check_complete(BALANCED, parts)


def test_client_dirichlet_errors_say_what_to_change() -> None:
    with pytest.raises(InputError) as error:
        ClientDirichlet(samples_per_client=61).split(BALANCED, 10, stream(0, "p"))
    assert str(error.value) == (
        "partition: 10 client(s) with 61 sample(s) each need 610, data 'labels' has 600 training samples: "
        "use at most 9 client(s), or lower partition.samples_per_client, or let clients share samples "
        '(partition.sharing = "clients")'
    )
    with pytest.raises(InputError, match=r"has 600 training samples: lower partition.samples_per_client$"):
        ClientDirichlet(samples_per_client=601, sharing="clients").split(BALANCED, 10, stream(0, "p"))
    drawn = ClientDirichlet(samples_per_client=601, sharing="replacement").split(BALANCED, 1, stream(0, "p"))
    assert len(drawn[0]) == 601


# --- shards -----------------------------------------------------------------------------------------------------


@given(label_lists, st.integers(1, 6), st.integers(1, 4))
def test_shards_are_complete_runs_of_the_sorted_samples(labels: list[int], clients: int, k: int) -> None:
    dataset = labelled(labels)
    parts = Shards(shards_per_client=k).split(dataset, clients, stream(1, "p"))
    check_complete(dataset, parts)
    rank = np.argsort(np.argsort(dataset.y_train, kind="stable"))
    for part in parts:
        places = np.sort(rank[part])
        assert (np.diff(places) > 1).sum() <= k - 1  # at most k separate runs


def test_four_chunks_of_260_for_48_clients() -> None:
    dataset = labelled(np.arange(50_000) % 10)
    parts = Shards(shards_per_client=4, shard_size=260).split(dataset, 48, stream(1, "p"))
    assert [len(p) for p in parts] == [1040] * 48
    assert len(np.unique(np.concatenate(parts))) == 48 * 1040
    order = np.argsort(dataset.y_train, kind="stable")
    chunks = {tuple(sorted(order[k * 260 : k * 260 + 260])) for k in range(192)}
    rank = np.argsort(order)
    for part in parts:
        for chunk in np.split(part[np.argsort(rank[part])], 4):
            assert tuple(sorted(chunk)) in chunks
    assert (counts(dataset, parts) > 0).sum(axis=1).max() <= 8


def test_shards_that_nobody_needs_stay_undealt_at_random() -> None:
    rule = Shards(shards_per_client=1, shard_size=50)
    dealt = [set(np.concatenate(rule.split(BALANCED, 3, stream(s, "p")))) for s in range(2)]
    assert [len(d) for d in dealt] == [150, 150]
    assert dealt[0] != dealt[1]


def test_shards_errors_say_what_to_change() -> None:
    with pytest.raises(
        InputError, match=r"need 640, data 'labels' has 600 .* lower partition.shards_per_client or partition"
    ):
        Shards(shards_per_client=4, shard_size=16).split(BALANCED, 10, stream(0, "p"))
    with pytest.raises(InputError, match=r"need 700, .* lower partition.shards_per_client or clients$"):
        Shards(shards_per_client=70).split(BALANCED, 10, stream(0, "p"))


# --- k classes a client -----------------------------------------------------------------------------------------


@given(st.integers(1, 12), st.integers(1, 6), st.integers(0, 5))
def test_classes_gives_everybody_exactly_k_and_every_class_as_many_holders(
    clients: int, k: int, seed: int
) -> None:
    dataset = labelled(np.arange(240) % 6)
    parts = Classes(classes_per_client=k).split(dataset, clients, stream(seed, "p"))
    held = counts(dataset, parts)
    assert ((held > 0).sum(axis=1) == k).all()
    assert np.ptp((held > 0).sum(axis=0)) <= 1
    assert len(np.unique(np.concatenate(parts))) == sum(len(p) for p in parts)
    for c in range(6):
        mine = held[held[:, c] > 0, c]
        assert len(mine) == 0 or (mine.sum() == 40 and np.ptp(mine) <= 1)
    if clients * k >= 6:
        check_complete(dataset, parts)


def test_classes_leaves_out_what_the_data_lacks() -> None:
    dataset = labelled([0, 0, 2, 2, 5, 5], 9)
    held = counts(dataset, Classes(classes_per_client=1).split(dataset, 3, stream(0, "p")))
    assert sorted(map(tuple, held[:, [0, 2, 5]])) == [(0, 0, 2), (0, 2, 0), (2, 0, 0)]


def test_classes_errors_say_what_to_change() -> None:
    with pytest.raises(
        InputError,
        match=r"partition.classes_per_client = 11: data 'labels' has 10 classes, allowed is 1 to 10",
    ):
        Classes(classes_per_client=11).split(BALANCED, 4, stream(0, "p"))
    rare = labelled([0] * 50 + [1] * 3)
    with pytest.raises(
        InputError, match=r"class 'c1' has 3 training samples for 5 holders: lower partition.classes_per"
    ):
        Classes(classes_per_client=2).split(rare, 5, stream(0, "p"))


# --- by column --------------------------------------------------------------------------------------------------


@given(
    st.lists(st.sampled_from(["ann", "bob", "cy", "dee", "eve"]), min_size=5, max_size=60),
    st.integers(1, 5),
    st.booleans(),
)
def test_column_keeps_groups_together(writers: list[str], clients: int, balanced: bool) -> None:
    dataset = labelled(np.zeros(len(writers)), writer=writers)
    rule = ByColumn(deal="balanced" if balanced else "random")
    groups = len(set(writers))
    if groups < clients:
        with pytest.raises(
            InputError, match=rf"column 'writer' has {groups} distinct values for {clients} clients: use at m"
        ):
            rule.split(dataset, clients, stream(0, "p"))
        return
    parts = rule.split(dataset, clients, stream(0, "p"))
    check_complete(dataset, parts)
    held = [set(dataset.columns["writer"][p]) for p in parts]
    assert sum(len(h) for h in held) == groups
    assert min(len(h) for h in held) >= 1
    if not balanced:
        assert np.ptp([len(h) for h in held]) <= 1


def test_balanced_dealing_by_hand() -> None:
    dataset = labelled(np.zeros(20), station=[0] * 8 + [1] * 5 + [2] * 4 + [3] * 3)
    parts = ByColumn(column="station", deal="balanced").split(dataset, 2, stream(0, "p"))
    assert sorted(len(p) for p in parts) == [9, 11]  # 8 + 3 against 5 + 4


def test_column_errors_say_what_to_change() -> None:
    with pytest.raises(InputError, match=r"data 'labels' has no columns to go by: use another partition"):
        ByColumn().split(BALANCED, 2, stream(0, "p"))
    two = labelled([0, 1], writer=["a", "b"], station=[1, 2])
    with pytest.raises(
        InputError, match=r"partition.column: not set, and data 'labels' has several: writer, station"
    ):
        ByColumn().split(two, 2, stream(0, "p"))
    with pytest.raises(
        InputError, match=r"unknown partition.column of data 'labels' 'writter': .* did you mean 'writer'"
    ):
        ByColumn(column="writter").split(two, 2, stream(0, "p"))


# --- all --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule", [IID(), Dirichlet(), ClientDirichlet(), Shards(), Classes(), ByColumn(column="w")]
)
def test_the_stream_alone_decides(rule: Any) -> None:
    dataset = labelled(BALANCED.y_train, w=np.arange(600) % 40)
    one, same, other = (rule.split(dataset, 8, stream(s, "p")) for s in (0, 0, 1))
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert any(not np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    assert all(part.dtype == np.int64 for part in one)


def test_shares_are_cut_four_to_one_to_one() -> None:
    """Nothing twice, nothing lost, and small shares train before they validate or test."""
    sizes = (60, 33, 3, 2, 1, 0)
    parts = [np.arange(100 * k, 100 * k + size) for k, size in enumerate(sizes)]
    draws = [stream(0, "cut", client=k) for k in range(len(sizes))]
    split = cut(parts, 1 / 6, 1 / 6, draws)
    for k, part in enumerate(parts):
        dealt = np.concatenate([split.train[k], split.validation[k], split.test[k]])
        assert np.array_equal(np.sort(dealt), part)
    assert [len(own) for own in split.train] == [40, 21, 1, 2, 1, 0]
    assert [len(own) for own in split.validation] == [10, 6, 1, 0, 0, 0]
    assert [len(own) for own in split.test] == [10, 6, 1, 0, 0, 0]
    assert split.test[0].max() > 12, "not the first ones"
    again = cut(parts[:1], 1 / 6, 1 / 6, [stream(0, "cut", client=0)])  # whoever else is there
    assert np.array_equal(again.test[0], split.test[0])
    assert all(np.array_equal(*pair) for pair in zip(cut(parts, 0.0, 0.0, draws).train, parts, strict=True))


class Given:
    """A partition that deals what it is told."""

    def __init__(self, parts: Any) -> None:
        self.parts = parts

    def split(self, dataset: Dataset, clients: int, stream: np.random.Generator) -> Any:
        return self.parts


SIX = labelled([0, 1, 0, 1, 0, 1])


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        (None, "split gave NoneType, allowed is a list of indices for each of 2 clients"),
        (
            np.array(3),
            "split gave ndarray of shape [], int64, allowed is a list of indices for each of 2 clients",
        ),
        ({0: [1], 1: [2]}, "split gave dict, allowed is a list of indices for each of 2 clients"),
        (
            [np.array([0])],
            "split gave indices for 1 client(s), allowed is a list of indices for each of 2 clients",
        ),
        (
            np.array([0, 1, 2]),
            "split gave indices for 3 client(s), allowed is a list of indices for each of 2 clients",
        ),
        ([np.array([0]), np.array([3, 6])], "split gave client 1 sample 6; allowed are numbers from 0 to 5"),
        (
            [np.array([0]), np.array([1, -1])],
            "split gave client 1 sample -1; allowed are numbers from 0 to 5",
        ),
        (
            [np.arange(6) < 2, np.arange(6) > 1],
            "split gave client 0 ndarray of shape [6], bool; allowed are whole",
        ),
        (
            [np.array([0.0]), np.array([1.0])],
            "split gave client 0 ndarray of shape [1], float64; allowed are whole",
        ),
        (
            [np.array([0]), np.array([[1], [2]])],
            "split gave client 1 ndarray of shape [2, 1], int64; allowed are",
        ),
        (
            [np.array([0]), [[1], [2, 3]]],
            "split gave client 1 list; allowed are whole numbers, int64 [any number]",
        ),
        ([3, 4], "split gave client 0 int of shape [], int64; allowed are whole numbers"),
        (
            [np.array([2**63], dtype=np.uint64), []],
            "split gave client 0 sample 9223372036854775808; allowed are numbers from 0 to 5",
        ),
    ],
)
def test_what_a_partition_of_ones_own_deals_is_held_against_what_it_promises(parts: Any, told: str) -> None:
    with pytest.raises(InputError) as raised:
        split_of(Given(parts), SIX, 2, stream(0, "x"))
    assert str(raised.value).startswith(f"partition kind 'Given': {told}")


@pytest.mark.parametrize(
    "parts",
    [
        ([0, 2], []),
        [np.array([0, 2], dtype=np.int32), np.array([])],
        [np.array([0, 2], dtype=np.uint8), np.zeros(0, dtype=bool)],
        [np.arange(6)[:4:2], np.zeros(0, dtype=np.int64)],
    ],
)
def test_whole_numbers_of_any_kind_may_be_dealt(parts: Any) -> None:
    found = split_of(Given(parts), SIX, 2, stream(0, "x"))
    assert [part.tolist() for part in found] == [[0, 2], []]
    assert all(part.dtype == np.int64 for part in found)


def test_a_sample_may_be_held_twice_as_by_draws_with_replacement() -> None:
    assert split_of(Given([[3, 3, 1]]), SIX, 1, stream(0, "x"))[0].tolist() == [3, 3, 1]
