"""What parts of one's own answer, held against what they promise."""

from __future__ import annotations

import numpy as np
import pytest

from fedroam.checks.answers import checked_number, kept_state, same_again
from fedroam.errors import InputError


@pytest.mark.parametrize(
    ("first", "again", "told"),
    [
        (np.array([1.0, 2.0]), np.array([1.0, 2.5]), r"another x \(2, then 2.5\); allowed"),
        (np.array([1.0, np.nan]), np.array([1.5, np.nan]), r"another x \(1, then 1.5\); allowed"),
        (np.array([0.0]), np.array([-0.0]), "another x; allowed"),
        (np.array([1, 2]), np.array([1.0, 2.0]), "another x; allowed"),
        (np.array([1, 2]), np.array([1, 2, 3]), "another x; allowed"),
        (np.array([1, 2]), None, "another x; allowed"),
    ],
)
def test_two_answers_to_the_same_question(first: np.ndarray, again: np.ndarray | None, told: str) -> None:
    with pytest.raises(InputError, match=told):
        same_again({"x": first}, {} if again is None else {"x": again})


def test_the_same_answer_twice() -> None:
    same_again(
        {"x": np.array([1.0, np.nan]), "y": np.arange(3)}, {"y": np.arange(3), "x": np.array([1.0, np.nan])}
    )


def test_a_state_is_copied_and_of_the_machines_order_of_bytes() -> None:
    given = {"x": np.arange(3, dtype=">i4"), "place": np.ones((2, 2), dtype=int)}
    found = kept_state(given, None, place=np.float64)
    assert (found["x"].dtype, found["place"].dtype) == (np.dtype("int32"), np.dtype("float64"))
    given["place"][:] = 7
    assert (found["place"] == 1).all()
    assert kept_state({**found, "more": np.zeros(1)}, found).keys() == {"x", "place", "more"}


@pytest.mark.parametrize("number", [0, 1.5, np.float32(2), np.int64(3), np.array(4.0)])
def test_a_number(number: object) -> None:
    assert checked_number("reach", number) == float(number)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [-1, np.nan, np.inf, None, "1", True, [1.0], 1j])
def test_no_number(number: object) -> None:
    with pytest.raises(InputError, match=r"reach is .*, allowed is a number from 0 on"):
        checked_number("reach", number)
