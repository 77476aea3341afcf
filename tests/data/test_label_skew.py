"""The table and the chart of who holds what."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy

from fedroam.analysis.figures.holdings import holdings_figure
from fedroam.data import Dataset, Split
from fedroam.data.label_skew import client_table, describe_split, label_entropy, mix_distance
from fedroam.errors import InputError


def world(train: list[list[int]], y: list[int]) -> tuple[Dataset, Split]:
    labels = np.array(y, dtype=np.int64)
    x = np.zeros((len(labels), 2), dtype=np.float32)
    dataset = Dataset("tiny", x, labels, x[:0], labels[:0], ("a", "b", "c"), notes=("a note",))
    parts = tuple(np.array(p, dtype=np.int64) for p in train)
    nobody = tuple(np.zeros(0, np.int64) for _ in train)
    return dataset, Split(parts, nobody, nobody)


def test_a_table_by_hand() -> None:
    dataset, split = world([[0, 1], [2, 3, 4, 5], []], [0, 0, 0, 1, 1, 2, 2, 2])
    table = client_table(dataset, split)
    assert table["train"].tolist() == [2, 4, 0]
    assert table["classes"].tolist() == [1, 3, 0]
    np.testing.assert_allclose(table["entropy_bits"], [0.0, 1.5, 0.0])
    # whole: 3/8, 2/8, 3/8; client 0: 1, 0, 0; client 1: 1/4, 2/4, 1/4
    np.testing.assert_allclose(table["distance"], [5 / 8, 2 / 8, np.nan])
    said = "\n".join(describe_split(dataset, split))
    assert "tiny: 8 training and 0 test samples of 2, 3 classes" in said
    assert "a note" in said
    assert "3 clients hold 6 of the training samples (75.0%)" in said
    assert "1 client(s) hold no training sample" in said
    assert "more than once" not in said


def test_test_samples_of_classes_that_nobody_is_taught_are_told() -> None:
    dataset, split = world([[0, 1], [2]], [0, 0, 1])
    labels = np.array([0, 2, 2, 1], dtype=np.int64)
    tested = replace(dataset, x_test=np.zeros((4, 2), np.float32), y_test=labels)
    assert (dataset.never_taught, tested.never_taught) == ({}, {"c": 2})
    assert (
        "2 of 4 test samples are of classes that no training sample is of ('c'): no model can learn them"
        in describe_split(tested, split)
    )
    assert "no training sample is of" not in "\n".join(describe_split(dataset, split))


def test_a_single_class_is_told() -> None:
    dataset, split = world([[0, 1], [2]], [0, 0, 0])
    told = "all samples are of one class ('0'): every answer is right, so accuracy says nothing"
    assert told not in describe_split(dataset, split)
    assert told in describe_split(replace(dataset, class_names=("0",)), split)


def test_sites_stand_beside_their_clients() -> None:
    dataset, split = world([[0, 1], [2, 3, 4, 5], []], [0, 0, 0, 1, 1, 2, 2, 2])
    table = client_table(dataset, split, ["Bonn", "Ulm, Ulm west", ""])
    assert list(table.columns[:3]) == ["client", "site", "train"]
    assert table["site"].tolist() == ["Bonn", "Ulm, Ulm west", ""]
    assert "site" not in client_table(dataset, split)


def test_shared_samples_are_told() -> None:
    dataset, split = world([[0, 1], [1, 2]], [0, 1, 2])
    assert "2 clients hold 3 of the training samples (100.0%), 1 of them more than once" in describe_split(
        dataset, split
    )


def test_held_out_samples_that_somebody_trains_on_are_told() -> None:
    """Sample 1 is held out by the second, and the first learns it; sample 3 is nobody's to learn."""
    dataset, split = world([[0, 1], [2]], [0, 1, 2, 0, 1])
    out, apart = (np.array([3]), np.array([1])), (np.array([3]), np.array([4]))

    def said(**parts: tuple[np.ndarray, ...]) -> str:
        return "\n".join(describe_split(dataset, replace(split, **parts)))

    assert (
        "1 of 2 held-out samples (validation, own test) are among somebody's training samples, too: they are not unseen"
        in said(test=out)
    )
    assert "2 of 4 held-out samples" in said(validation=out, test=(np.array([2]), np.array([4])))
    assert "held-out samples" not in said() + said(test=apart)


counts_of = st.lists(st.lists(st.integers(0, 50), min_size=4, max_size=4), min_size=1, max_size=6)


@given(counts_of)
def test_entropy_and_distance_against_the_textbook(rows: list[list[int]]) -> None:
    counts = np.array(rows)
    overall = counts.sum(axis=0) + 1
    bits, distance = label_entropy(counts), mix_distance(counts, overall)
    for row, b, d in zip(counts, bits, distance, strict=True):
        if not row.sum():
            assert b == 0
            assert np.isnan(d)
            continue
        assert b == pytest.approx(entropy(row, base=2), abs=1e-12)
        p, q = row / row.sum(), overall / overall.sum()
        assert d == pytest.approx(np.maximum(p - q, 0).sum(), abs=1e-12)  # the other form of total variation


def bubbles(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places and areas as drawn."""
    figure = holdings_figure(counts, [f"c{k}" for k in range(counts.shape[1])])
    drawn = figure.axes[0].collections[0]
    return np.asarray(drawn.get_offsets()), drawn.get_sizes()


def test_areas_are_in_proportion_and_only_what_is_held_is_drawn() -> None:
    counts = np.array([[100, 0], [400, 900], [0, 0]])
    places, areas = bubbles(counts)
    assert places.tolist() == [[0, 0], [1, 0], [1, 1]]
    np.testing.assert_allclose(areas / areas[0], [1, 4, 9])


def test_the_smallest_holding_is_seen_and_many_clients_are_announced() -> None:
    _, areas = bubbles(np.array([[1, 100_000]]))
    assert areas.min() >= 1
    many = holdings_figure(np.ones((1000, 2), int), ["a", "b"], "title")
    assert many.axes[0].get_xlabel() == "client (the first 200 of 1,000)"
    assert len(many.axes[0].collections[0].get_offsets()) == 400
    assert many.axes[0].get_title(loc="left") == "title"


def test_the_legend_shows_round_numbers_at_the_scale_of_the_bubbles() -> None:
    figure = holdings_figure(np.array([[730, 10]]), ["a", "b"])
    _, sizes = bubbles(np.array([[730, 10]]))
    legend = {c.get_label(): c.get_sizes()[0] for c in figure.axes[0].collections[1:]}
    assert list(legend) == ["10", "50", "200", "500"] or list(legend) == ["5", "20", "100", "500"]
    np.testing.assert_allclose(legend["500"] / sizes[0], 500 / 730)


def test_wrong_counts_are_refused() -> None:
    with pytest.raises(InputError, match=r"class counts of shape \(2, 3\), wanted is \[clients, 2 classes\]"):
        holdings_figure(np.ones((2, 3)), ["a", "b"])
    with pytest.raises(InputError, match="nobody holds a sample"):
        holdings_figure(np.zeros((2, 2)), ["a", "b"])
