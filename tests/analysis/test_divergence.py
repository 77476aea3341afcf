"""What is told of runs that broke down, against courses made by hand."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedroam.analysis.divergence import breakdown, fell_back


def course(*values: float, every: int = 20) -> pd.Series:
    return pd.Series(values, index=[k * every for k in range(len(values))])


def test_a_run_that_diverged_and_recovered() -> None:
    assert breakdown(course(0.1, 0.9, 0.7, 0.95), 40) == (
        "diverged at round 40 (a loss was no number, or far above guessing): accuracy 90.0\u00a0% at "
        "best before, 95.0\u00a0% at the end; it counts in every mean"
    )


def test_a_run_that_diverged_and_never_learnt_again() -> None:
    assert breakdown(course(0.1, 0.9, 0.5, 0.098), 40) == (
        "diverged at round 40 (a loss was no number, or far above guessing) and fell back to "
        "guessing: accuracy 90.0\u00a0% at best before, 9.8\u00a0% at the end; it counts in every mean"
    )


def test_a_run_that_fell_back_without_losses_that_explode() -> None:
    assert breakdown(course(0.1, 0.6, 0.1), None) == (
        "fell back to guessing: accuracy 60.0\u00a0% at best, 10.0\u00a0% at the end; it counts in every mean"
    )


def test_what_is_not_known_is_not_told() -> None:
    assert breakdown(None, None) == ""
    assert breakdown(None, 7) == (
        "diverged at round 7 (a loss was no number, or far above guessing); it counts in every mean"
    )
    assert breakdown(course(0.1, 0.2), 0).endswith("far above guessing); it counts in every mean")


def test_how_a_run_ended_is_told_where_that_alone_is_known() -> None:
    assert breakdown(None, 7, 0.098) == (
        "diverged at round 7 (a loss was no number, or far above guessing): accuracy 9.8\u00a0% at the end; it counts "
        "in every mean"
    )
    assert breakdown(None, None, 0.098) == ""
    assert breakdown(course(0.1, 0.9, 0.7), 40, 0.098).endswith(
        "70.0\u00a0% at the end; it counts in every mean"
    )


@pytest.mark.parametrize(
    ("values", "fell"),
    [
        ((0.1, 0.9, 0.17), True),  # 0.07 of 0.8 left
        ((0.1, 0.9, 0.19), False),  # 0.09
        ((0.1, 0.29, 0.1), False),  # was never far above
        ((0.1, 0.31, 0.1), True),
        ((0.5, 0.9, 0.52), True),  # of two classes
        ((0.1, 0.05, 0.02), False),
        ((0.1, math.nan, 0.1), False),
        ((0.1, 0.9, math.nan), False),
        ((), False),
    ],
)
def test_who_fell_back_to_guessing(values: tuple[float, ...], fell: bool) -> None:
    assert fell_back(course(*values)) == fell


def test_a_course_that_lacks_round_0_tells_nothing_of_guessing() -> None:
    assert not fell_back(course(0.1, 0.9, 0.1).drop(0))


@given(st.lists(st.floats(0, 1), min_size=2, max_size=20))
def test_who_ends_at_its_best_never_fell(values: list[float]) -> None:
    assert not fell_back(course(*values, max(values)))
