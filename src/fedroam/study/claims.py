"""Claims of a paper as tests: each asks on which side of a bound a value lies, or several values together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from typing_extensions import override

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


class Test(ABC):
    """How a claim is tested: what it compares, what it says in words, and what the runs say of it."""

    @property
    @abstractmethod
    def compared(self) -> tuple[Value | Quotient, ...]:
        """The values that it compares with one another or with a bound."""

    @property
    @abstractmethod
    def words(self) -> str:
        """The claim, as it is tested."""

    @abstractmethod
    def evidence(self, read: Read) -> Evidence:
        """What the runs say."""

    @property
    def unit(self) -> str:
        """The unit of the estimate."""
        return self.compared[0].unit

    @property
    def asked(self) -> str:
        """What is asked of its only value, `> 0 points`; empty where it compares several."""
        return ""

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants whose runs it needs."""
        return needed(self.compared)

    @property
    def count(self) -> int:
        """How many tests it is made of."""
        return 1

    def parts(self, evidence: Evidence) -> list[tuple[Test, Evidence]]:
        """The tests that its evidence speaks of, and what the runs say of each."""
        return [(self, evidence)]


@dataclass(frozen=True)
class Beyond(Test):
    """A value lies above (or, with `falls`, below) a bound: one-sided t test over seeds."""

    value: Value | Quotient
    bound: float = 0.0
    falls: bool = False

    @property
    @override
    def compared(self) -> tuple[Value | Quotient, ...]:
        return (self.value,)

    @property
    @override
    def asked(self) -> str:
        return f"{'<' if self.falls else '>'} {self.bound:g} {self.unit}".strip()

    @property
    @override
    def words(self) -> str:
        return f"{self.value.words} {self.asked}"

    @override
    def evidence(self, read: Read) -> Evidence:
        name = "paired one-sided t" if len(self.value.variants) > 1 else "one-sided t"
        return (below if self.falls else above)(list(read(self.value).values()), self.bound, name)


@dataclass(frozen=True)
class Trend(Test):
    """Values rise (or, with `falls`, fall) with their keys: the slope of each seed, t test over seeds.

    The estimate is the rise of the fitted line from the lowest to the highest key.
    """

    values: tuple[Value | Quotient, ...]
    keys: tuple[float, ...]
    falls: bool = False

    @property
    @override
    def compared(self) -> tuple[Value | Quotient, ...]:
        return self.values

    @property
    @override
    def words(self) -> str:
        keys = ", ".join(f"{key:g}" for key in self.keys)
        return f"{self.values[0].words} and so on {'falls' if self.falls else 'rises'} over {keys}"

    @property
    @override
    def unit(self) -> str:
        return "points" if self.values[0].unit == "%" else self.values[0].unit

    @override
    def evidence(self, read: Read) -> Evidence:
        columns = together(read(value) for value in self.values)
        table = np.array(columns, dtype=np.float64).T.reshape(-1, len(self.keys))
        with np.errstate(invalid="ignore"):  # no slope where several values are infinite
            rises = (table @ slope_weights(self.keys)).tolist()
        found = (below if self.falls else above)(rises, 0.0, "one-sided t on the slope of each seed")
        by_page = page(table[:, np.argsort(self.keys)])[int(self.falls)]
        if np.isfinite(by_page):
            note = f"Page's test (for comparison): {p_text(float(by_page))}"
            found = replace(found, note="; ".join(filter(None, [found.note, note])))
        return found


@dataclass(frozen=True)
class Within(Test):
    """A value is at most `margin` away from 0: two one-sided tests."""

    value: Value
    margin: float

    @property
    @override
    def compared(self) -> tuple[Value | Quotient, ...]:
        return (self.value,)

    @property
    @override
    def asked(self) -> str:
        return f"within ±{self.margin:g} {self.unit}".strip()

    @property
    @override
    def words(self) -> str:
        return f"{self.value.words} {self.asked}"

    @override
    def evidence(self, read: Read) -> Evidence:
        return within(list(read(self.value).values()), self.margin)


@dataclass(frozen=True)
class Ratio(Test):
    """One value is more than `bound` times another: t test on logarithms, paired by seed."""

    first: Value | Quotient
    second: Value | Quotient
    bound: float = 1.0

    @property
    @override
    def compared(self) -> tuple[Value | Quotient, ...]:
        return self.first, self.second

    @property
    @override
    def words(self) -> str:
        return f"({self.first.words}) / ({self.second.words}) > {self.bound:g}"

    @property
    @override
    def unit(self) -> str:
        return "times"

    @override
    def evidence(self, read: Read) -> Evidence:
        first, second = together([read(self.first), read(self.second)])
        return ratio_above(first, second, self.bound)


@dataclass(frozen=True)
class Every(Test):
    """All of several tests: it holds if each does; one that does not hold is enough against it."""

    tests: tuple[Test, ...]

    @property
    @override
    def compared(self) -> tuple[Value | Quotient, ...]:
        return tuple(value for test in self.tests for value in test.compared)

    @property
    @override
    def words(self) -> str:
        return "; ".join(test.words for test in self.tests)

    @property
    @override
    def unit(self) -> str:
        units = {test.unit for test in self.tests}
        return units.pop() if len(units) == 1 else ""

    @property
    @override
    def count(self) -> int:
        return len(self.tests)

    @override
    def evidence(self, read: Read) -> Evidence:
        return every([test.evidence(read) for test in self.tests])

    @override
    def parts(self, evidence: Evidence) -> list[tuple[Test, Evidence]]:
        if len(evidence.parts) != len(self.tests):
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
    return Beyond(greater - smaller)


def size(greater: Value, smaller: Value, at_least: float) -> Test:
    """`greater` exceeds `smaller` by at least so much. What is tested is "more than": of a mean they are the same."""
    return Beyond(greater - smaller, at_least)


def over(value: Value | Quotient, bound: float = 0.0) -> Test:
    """A value is above a bound."""
    return Beyond(value, bound)


def under(value: Value | Quotient, bound: float = 0.0) -> Test:
    """A value is below a bound."""
    return Beyond(value, bound, falls=True)


def equal(first: Value, second: Value, margin: float) -> Test:
    """Two values differ by less than a margin."""
    return Within(first - second, margin)


def ratio(first: Value | Quotient, second: Value | Quotient, at_least: float = 1.0) -> Test:
    """The first value is at least so many times the second."""
    return Ratio(first, second, at_least)


def rises(values: Mapping[float, Value | Quotient]) -> Test:
    """Values rise with their keys."""
    return _trend(values, falls=False)


def falls(values: Mapping[float, Value | Quotient]) -> Test:
    """Values fall with their keys."""
    return _trend(values, falls=True)


def _trend(values: Mapping[float, Value | Quotient], falls: bool) -> Test:
    slope_weights(list(values))  # refuses too few
    return Trend(tuple(values.values()), tuple(float(key) for key in values), falls)


def all_of(tests: Sequence[Test]) -> Test:
    """Every one of several tests."""
    if not tests:
        raise InputError("all_of([]): give at least one test")
    return Every(tuple(tests))


def each_over(values: Iterable[Value | Quotient], bound: float = 0.0) -> Test:
    """Every one of several values is above a bound."""
    return all_of([over(value, bound) for value in values])
