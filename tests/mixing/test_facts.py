"""A rule gets what it declares; what it does not declare is neither given nor computed."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from fedroam.contacts import graph_of
from fedroam.errors import InputError
from fedroam.mixing import Fact, Facts, Surroundings, facts
from fedroam.mobility import Paths

START, END = np.array([[0.0, 0], [3, 0], [50, 0]]), np.array([[0.0, 0], [3, 4], [50, 0]])


def surroundings() -> Surroundings:
    graph = graph_of(np.array([[0, 1]]), 3)
    return Surroundings(Paths.straight(START, END), graph, 5.0, np.array([[1, 0], [2, 2], [0, 3]]))


class Curious:
    needs: ClassVar[tuple[Fact, ...]] = ("paths", "radius", "class_counts")


def test_declared_facts_are_given() -> None:
    known = Facts.of(Curious(), np.array([1, 4, 3]), surroundings())
    np.testing.assert_array_equal(known.speed, [0, 4, 0])
    np.testing.assert_array_equal(known.paths.end, END)
    assert known.radius == 5.0
    np.testing.assert_array_equal(known.class_counts[1], [2, 2])


def test_what_is_not_declared_is_neither_given_nor_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    def no(*_: object) -> None:
        raise AssertionError("computed")

    monkeypatch.setattr(facts, "contact_durations", no)
    known = Facts.of(Curious(), np.array([1, 4, 3]), surroundings())
    with pytest.raises(InputError, match=r"needs = \('contact_durations',\)"):
        _ = known.contact_durations
    with pytest.raises(InputError, match="without declaring it"):
        _ = Facts.of(object(), np.array([1, 4, 3]), surroundings()).paths


def test_durations_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Waits:
        needs: ClassVar[tuple[Fact, ...]] = ("contact_durations",)

    known = Facts.of(Waits(), np.array([1, 4, 3]), surroundings())
    # 1 is within 5 m of 0 all the way, at its end exactly.
    assert known.contact_durations[0, 1] == pytest.approx(1.0)
    assert known.contact_durations is known.contact_durations


def test_a_fact_that_there_is_not_is_refused_by_name() -> None:
    class Asks:
        needs = ("radios",)

    with pytest.raises(InputError, match="did you mean 'radius'"):
        Facts.of(Asks(), np.array([1, 4, 3]), surroundings())
