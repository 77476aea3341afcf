"""Claims of a paper as tests: each asks on which side of a bound a value lies, or several values together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

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
from fedroam.study.values import Quotient, Value, together

Read = Callable[[Value | Quotient], dict[int, float]]


class Test(Protocol):
    """How a claim is tested: what it needs, what it says in words, and what the runs say of it."""

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants whose runs it needs."""
        ...

    @property
    def words(self) -> str:
        """The claim, as it is tested."""
        ...

    @property
    def unit(self) -> str:
        """Of the estimate."""
        ...

    def evidence(self, read: Read) -> Evidence:
        """What the runs say."""
        ...


@dataclass(frozen=True)
class Beyond:
    """A value lies above (or, with `falls`, below) a bound: one-sided t test over seeds."""

    value: Value | Quotient
    bound: float = 0.0
    falls: bool = False
    name: str = ""

    @property
    def variants(self) -> tuple[str, ...]:
        """See `Test`."""
        return self.value.variants

    @property
    def words(self) -> str:
        """See `Test`."""
        return f"{self.value.words} {'<' if self.falls else '>'} {self.bound:g} {self.unit}".strip()

    @property
    def unit(self) -> str:
        """See `Test`."""
        return self.value.unit

    def evidence(self, read: Read) -> Evidence:
        """See `Test`."""
        paired = "paired " if len(self.value.variants) > 1 else ""
        name = self.name or f"{paired}one-sided t"
        return (below if self.falls else above)(list(read(self.value).values()), self.bound, name)


@dataclass(frozen=True)
class Trend:
    """Values rise (or, with `falls`, fall) with their keys: the slope of each seed, t test over seeds.

    The estimate is the rise of the fitted line from the lowest to the highest key.
    """

    values: tuple[Value | Quotient, ...]
    keys: tuple[float, ...]
    falls: bool = False

    @property
    def variants(self) -> tuple[str, ...]:
        """See `Test`."""
        return tuple(dict.fromkeys(v for value in self.values for v in value.variants))

    @property
    def words(self) -> str:
        """See `Test`."""
        keys = ", ".join(f"{key:g}" for key in self.keys)
        return f"{self.values[0].words} and so on {'falls' if self.falls else 'rises'} over {keys}"

    @property
    def unit(self) -> str:
        """See `Test`."""
        return "points" if self.values[0].unit == "%" else self.values[0].unit

    def evidence(self, read: Read) -> Evidence:
        """See `Test`."""
        columns = together(read(value) for value in self.values)
        table = np.array(columns, dtype=np.float64).T.reshape(-1, len(self.keys))
        with np.errstate(invalid="ignore"):  # no slope where several values are infinite
            rises = (table @ slope_weights(self.keys)).tolist()
        found = (below if self.falls else above)(rises, 0.0, "one-sided t on the slope of each seed")
        by_page = page(table[:, np.argsort(self.keys)])[int(self.falls)]
        if np.isfinite(by_page):
            said = f"Page's test (for comparison): {p_text(float(by_page))}"
            found = Evidence(**{**found.__dict__, "note": "; ".join(filter(None, [found.note, said]))})
        return found


@dataclass(frozen=True)
class Within:
    """A value is at most `margin` away from 0: two one-sided tests."""

    value: Value
    margin: float

    @property
    def variants(self) -> tuple[str, ...]:
        """See `Test`."""
        return self.value.variants

    @property
    def words(self) -> str:
        """See `Test`."""
        return f"{self.value.words} within ±{self.margin:g} {self.unit}".strip()

    @property
    def unit(self) -> str:
        """See `Test`."""
        return self.value.unit

    def evidence(self, read: Read) -> Evidence:
        """See `Test`."""
        return within(list(read(self.value).values()), self.margin)


@dataclass(frozen=True)
class Ratio:
    """One value is more than `bound` times another: t test on logarithms, paired by seed."""

    first: Value | Quotient
    second: Value | Quotient
    bound: float = 1.0

    @property
    def variants(self) -> tuple[str, ...]:
        """See `Test`."""
        return tuple(dict.fromkeys([*self.first.variants, *self.second.variants]))

    @property
    def words(self) -> str:
        """See `Test`."""
        return f"({self.first.words}) / ({self.second.words}) > {self.bound:g}"

    @property
    def unit(self) -> str:
        """See `Test`."""
        return "times"

    def evidence(self, read: Read) -> Evidence:
        """See `Test`."""
        first, second = together([read(self.first), read(self.second)])
        return ratio_above(first, second, self.bound)


@dataclass(frozen=True)
class Every:
    """All of several tests: it holds if each does; one that does not hold is enough against it."""

    tests: tuple[Test, ...]

    @property
    def variants(self) -> tuple[str, ...]:
        """See `Test`."""
        return tuple(dict.fromkeys(v for test in self.tests for v in test.variants))

    @property
    def words(self) -> str:
        """See `Test`."""
        return "; ".join(test.words for test in self.tests)

    @property
    def unit(self) -> str:
        """See `Test`."""
        units = {test.unit for test in self.tests}
        return units.pop() if len(units) == 1 else ""

    def evidence(self, read: Read) -> Evidence:
        """See `Test`."""
        return every([test.evidence(read) for test in self.tests])


@dataclass(frozen=True)
class Claim:
    """What a paper says, in its own words as far as possible, and the test of it. source: where it says so.

    family: claims of a family are corrected together (Holm) and apart from all others: those that were added once
    runs had been read leave the verdicts on the declared ones ('') as they were. Its name is shown.
    """

    name: str
    text: str
    test: Test
    source: str = ""
    family: str = ""

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


def over(value: Value | Quotient, bound: float) -> Test:
    """A value is above a bound."""
    return Beyond(value, bound)


def under(value: Value | Quotient, bound: float) -> Test:
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
