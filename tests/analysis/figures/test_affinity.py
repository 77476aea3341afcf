"""The affinity matrix drawn beside the similarity of class mixes."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedroam.analysis import variants
from fedroam.analysis.figures.affinity import (
    affinity_figure,
    agreement,
    class_similarity,
    matrix_of,
    rounds_shown,
)
from fedroam.analysis.figures.catalogue import all_figures
from fedroam.recording import open_run, write_table
from support.made_runs import made_run


def table(rounds: dict[int, np.ndarray], name: str = "affinity") -> pd.DataFrame:
    rows = []
    for round, matrix in rounds.items():
        i, j = np.nonzero(matrix)
        rows.append(pd.DataFrame({"round": round, "name": name, "i": i, "j": j, "value": matrix[i, j]}))
    return pd.concat(rows, ignore_index=True)


def test_similarity_is_the_cosine_of_counts() -> None:
    found = class_similarity(np.array([[3, 4], [6, 8], [4, -3], [1, 0], [0, 0]]))
    assert found[0, :4] == pytest.approx([1.0, 1.0, 0.0, 0.6])
    assert np.isnan(found[4]).all()


def test_agreement_is_within_rows() -> None:
    similarity = np.array([[1, 0.9, 0.5, 0.1], [0.9, 1, 0.4, 0.2], [0.5, 0.4, 1, 0.3], [0.1, 0.2, 0.3, 1.0]])
    same = np.array([[1, -1.0, -2, -3], [70, 1, 60, 50], [0, 0, 1, 5], [2, 2, 2, 1]])
    assert agreement(same, similarity) == pytest.approx(1.0)  # rows 2 and 3 say nothing
    other = same.copy()
    other[1] = [50, 1, 60, 70]
    assert agreement(other, similarity) == pytest.approx(0.0)
    swapped = same.copy()
    swapped[1] = [60, 1, 70, 50]  # ranks 2 3 1 against 3 2 1: 1 - 6 * 2 / 24 = 0.5
    assert agreement(swapped, similarity) == pytest.approx(0.75)
    assert math.isnan(agreement(np.eye(4), similarity))


def test_rounds_shown_are_first_middle_and_last() -> None:
    full = np.ones((3, 3))
    assert rounds_shown(table({0: np.eye(3), 5: full, 10: full, 15: full, 20: full, 25: full})) == [5, 15, 25]
    assert rounds_shown(table({0: np.eye(3), 5: full, 10: full})) == [5, 10]
    assert rounds_shown(table({0: np.eye(3)})) == []
    assert rounds_shown(table({5: full}, "other")) == []


def test_panels_hold_the_numbers_in_a_common_order() -> None:
    counts = np.array([[9, 1], [0, 8], [8, 1], [1, 9]])
    affinity = np.arange(1.0, 17.0).reshape(4, 4) - 6.5
    affinity[0, 3] = 0
    figure = affinity_figure(table({0: np.eye(4), 4: affinity, 8: 2 * affinity}), counts)
    assert figure is not None
    panels = [ax for ax in figure.axes if ax.images]
    assert [ax.get_title().partition(",")[0] for ax in panels] == [
        "Affinity",
        "Affinity",
        "Cosine of class counts",
    ]
    order = [int(label.get_text()) for label in panels[0].get_xticklabels()]
    assert sorted(order) == [0, 1, 2, 3]
    assert {frozenset(order[:2]), frozenset(order[2:])} == {frozenset({0, 2}), frozenset({1, 3})}
    shown = panels[1].images[0].get_array()
    for a, i in enumerate(order):
        for b, j in enumerate(order):
            hidden = i == j or (i, j) == (0, 3)
            assert np.ma.is_masked(shown[a, b]) == hidden
            assert hidden or shown[a, b] == 2 * affinity[i, j]
    similar = panels[2].images[0].get_array()
    np.testing.assert_allclose(similar, class_similarity(counts)[np.ix_(order, order)])
    low, high = panels[1].images[0].get_clim()
    assert low == -high


def test_nothing_is_drawn_without_affinities() -> None:
    assert affinity_figure(table({0: np.eye(2)}), np.ones((2, 2), int)) is None


def test_a_report_has_the_figure_where_it_was_recorded(tmp_path: Path) -> None:
    plain = made_run(tmp_path, "plain", 0, [0.1, 0.2])
    assert "affinity" not in [drawn.name for drawn in all_figures(variants([plain]))]
    run = made_run(tmp_path, "weighed", 0, [0.1, 0.2])
    full = np.eye(4) + 0.5
    write_table(run.folder / "matrices.parquet", table({0: np.eye(4), 10: full}))
    assert (matrix_of(open_run(run.folder).matrices, "affinity", 10, 4) == full).all()
    drawn = {drawn.name: drawn for drawn in all_figures(variants([plain, open_run(run.folder)]))}
    assert "weighed, seed 0" in drawn["affinity"].caption
