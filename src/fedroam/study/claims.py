"""Claims of a paper as tests: each asks on which side of a bound a value lies, or several values together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from fedroam.analysis.statistics.paired import (
    Evidence,
    above,
    below,
    every,
    page,
    ratio_above,
    slope_weights,
    within,
)
from fedroam.analysis.statistics.verdicts import p_text
from fedroam.errors import InputError
from fedroam.study.values import Kind, Quotient, Value, needed, together

Read = Callable[[Value | Quotient], dict[int, float]]
Side = Callable[[Sequence[float], float, str], Evidence]  # `above` or `below`


@dataclass(frozen=True)
class Test:
    """How a claim is tested.

    compared: the values that it compares with one another or with a bound; words: the claim, as it is tested; unit:
    of the estimate; evidence: what the runs say; asked: what is asked of its only value, `> 0 points`, empty where it
    compares several; tests: those that it is made of, empty for a single one.
    """

    compared: tuple[Value | Quotient, ...]
    words: str
    unit: str
    evidence: Callable[[Read], Evidence] = field(repr=False)
    asked: str = ""
    tests: tuple[Test, ...] = ()

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants whose runs it needs."""
        return needed(self.compared)

    def parts(self, evidence: Evidence) -> list[tuple[Test, Evidence]]:
        """The single tests that its evidence speaks of, and what the runs say of each."""
        if not self.tests or len(evidence.parts) != len(self.tests):
            return [(self, evidence)]
        pairs = zip(self.tests, evidence.parts, strict=True)
        return [part for test, found in pairs for part in test.parts(found)]


@dataclass(frozen=True)
class Claim:
    """What a paper says, in its own words as far as possible, and the test of it. source: where it says so.

    family: claims of a family are corrected together (Holm) and apart from all others: those that were added once
    runs had been read leave the verdicts on the declared ones ('') as they were. Its name is shown.
    """

    kind: ClassVar[Kind] = "claim"
    partial: ClassVar[bool] = False
    name: str
    text: str
    test: Test
    source: str = ""
    family: str = ""

    @property
    def title(self) -> str:
        """What it says."""
        return self.text

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants whose runs it needs."""
        return self.test.variants


def order(greater: Value, smaller: Value) -> Test:
    """`greater` is greater than `smaller`."""
    return over(greater - smaller)


def size(greater: Value, smaller: Value, at_least: float) -> Test:
    """`greater` exceeds `smaller` by at least so much. What is tested is "more than": of a mean they are the same."""
    return over(greater - smaller, at_least)


def over(value: Value | Quotient, bound: float = 0.0) -> Test:
    """A value is above a bound: one-sided t test over seeds."""
    return _one_sided(value, bound, ">", above)


def under(value: Value | Quotient, bound: float = 0.0) -> Test:
    """A value is below a bound: one-sided t test over seeds."""
    return _one_sided(value, bound, "<", below)


def _one_sided(value: Value | Quotient, bound: float, sign: str, side: Side) -> Test:
    asked = f"{sign} {bound:g} {value.unit}".strip()
    name = "paired one-sided t" if len(value.variants) > 1 else "one-sided t"

    def evidence(read: Read) -> Evidence:
        return side(list(read(value).values()), bound, name)

    return Test((value,), f"{value.words} {asked}", value.unit, evidence, asked)


def equal(first: Value, second: Value, margin: float) -> Test:
    """Two values differ by less than a margin: two one-sided tests."""
    value = first - second
    asked = f"within ±{margin:g} {value.unit}".strip()

    def evidence(read: Read) -> Evidence:
        return within(list(read(value).values()), margin)

    return Test((value,), f"{value.words} {asked}", value.unit, evidence, asked)


def ratio(first: Value | Quotient, second: Value | Quotient, at_least: float = 1.0) -> Test:
    """The first value is at least so many times the second: t test on logarithms, paired by seed."""

    def evidence(read: Read) -> Evidence:
        numbers = together([read(first), read(second)])
        return ratio_above(numbers[0], numbers[1], at_least)

    words = f"({first.words}) / ({second.words}) > {at_least:g}"
    return Test((first, second), words, "times", evidence)


def rises(values: Mapping[float, Value | Quotient]) -> Test:
    """Values rise with their keys: the slope of each seed, one-sided t test over seeds.

    The estimate is the rise of the fitted line from the lowest to the highest key.
    """
    return _trend(values, "rises", above)


def falls(values: Mapping[float, Value | Quotient]) -> Test:
    """Values fall with their keys: like `rises`, the other way."""
    return _trend(values, "falls", below)


def _trend(values: Mapping[float, Value | Quotient], verb: str, side: Side) -> Test:
    keys, compared = [float(key) for key in values], tuple(values.values())
    weights = slope_weights(keys)  # refuses too few

    def evidence(read: Read) -> Evidence:
        columns = together(read(value) for value in compared)
        table = np.array(columns, dtype=np.float64).T.reshape(-1, len(keys))
        with np.errstate(invalid="ignore"):  # no slope where several values are infinite
            slopes = (table @ weights).tolist()
        found = side(slopes, 0.0, "one-sided t on the slope of each seed")
        by_page = page(table[:, np.argsort(keys)])[side is below]
        if np.isfinite(by_page):
            note = f"Page's test (for comparison): {p_text(float(by_page))}"
            found = replace(found, note="; ".join(filter(None, [found.note, note])))
        return found

    unit = compared[0].unit
    words = f"{compared[0].words} and so on {verb} over {', '.join(f'{key:g}' for key in keys)}"
    return Test(compared, words, "points" if unit == "%" else unit, evidence)


def all_of(tests: Sequence[Test]) -> Test:
    """Every one of several tests: it holds if each does; one that does not hold is enough against it."""
    if not tests:
        raise InputError("all_of([]): give at least one test")
    units = {test.unit for test in tests}
    return Test(
        tuple(value for test in tests for value in test.compared),
        "; ".join(test.words for test in tests),
        units.pop() if len(units) == 1 else "",
        lambda read: every([test.evidence(read) for test in tests]),
        tests=tuple(tests),
    )


def each_over(values: Iterable[Value | Quotient], bound: float = 0.0) -> Test:
    """Every one of several values is above a bound."""
    return all_of([over(value, bound) for value in values])
