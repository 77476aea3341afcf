"""Claims of a paper as tests: each asks on which side of a bound a value lies, or several values together."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from fedroam.analysis.statistics.paired import (
    Evidence,
    Numbers,
    above,
    below,
    every,
    ratio_above,
    slope_weights,
    within,
)
from fedroam.errors import InputError, unknown
from fedroam.study.values import Kind, Quotient, Reader, Value, needed, summed, together, total

_LOGARITHM = "logarithm"  # the unit of a ratio's values

NO_TEST = "no test"  # the name of the test of what is only told
Side = Callable[[Numbers, float, str], Evidence]  # `above` or `below`
STEP_BACK = 0.25  # of the whole rise: no step of a trend goes back by more


@dataclass(frozen=True)
class Test:
    """How a claim is tested.

    compared: the values that it compares with one another or with a bound; words: the claim, as it is tested; unit:
    of the estimate; evidence: what the runs say; asked: what is asked of its only value, `> 0 points`, empty where it
    compares several; tests: those that it is made of, empty for a single one; whole_first: whether the first of them
    is the whole of a trend, whose steps the others are.
    """

    compared: tuple[Value | Quotient, ...]
    words: str
    unit: str
    evidence: Callable[[Reader], Evidence] = field(repr=False)
    asked: str = ""
    tests: tuple[Test, ...] = ()
    whole_first: bool = False

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants whose runs it needs."""
        return needed(self.compared)

    def parts(self, evidence: Evidence) -> list[tuple[Test, Evidence]]:
        """The single tests that its evidence speaks of, and what the runs say of each."""
        if not self.tests or len(evidence.parts) != len(self.tests):
            return [(self, evidence)]
        pairs = zip(self.tests, evidence.parts, strict=True)
        return [(test.named(part), its) for test, found in pairs for part, its in test.parts(found)]

    def named(self, part: Test) -> Test:
        """One of its tests as it is told among those of others: of a step the trend is named."""
        if not self.whole_first or part.words == self.words:
            return part
        return replace(part, words=f"{part.words}, where {self.words}")


@dataclass(frozen=True)
class Claim:
    """What a paper says, in its own words as far as possible, and the test of it. source: where it says so; paper: what
    it prints for this, in short and with the place, or its decisive words where it has no number; '' where nothing is
    to be told beyond the cells that are the claim's own values.

    caveat: what a reader must know beside the verdict, in whole sentences.

    family: claims of a family are corrected together (Holm) and apart from all others: those that were added once
    runs had been read leave the verdicts on the declared ones ('') as they were. Its name is shown.

    known: what of its study had been run when it was declared; '' where nothing had.
    """

    kind: ClassVar[Kind] = "claim"
    partial: ClassVar[bool] = False
    name: str
    text: str
    test: Test
    source: str = ""
    family: str = ""
    paper: str = ""
    caveat: str = ""
    known: str = ""

    @property
    def title(self) -> str:
        """What it says."""
        return self.text

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants whose runs it needs."""
        return self.test.variants


def declared_knowing(known: str, names: Collection[str], claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """The claims, of which those of these names were declared when so much of the study had been run.

    Raises InputError where there is no claim of a name.
    """
    found = tuple(replace(claim, known=known) if claim.name in names else claim for claim in claims)
    there = {claim.name for claim in found}
    for name in names:
        if name not in there:
            raise unknown("claim", name, there)
    return found


def order(greater: Value, smaller: Value) -> Test:
    """`greater` is greater than `smaller`."""
    return over(greater - smaller)


def size(greater: Value, smaller: Value, at_least: float) -> Test:
    """`greater` exceeds `smaller` by at least so much. What is tested is "more than": of a mean they are the same."""
    return over(greater - smaller, at_least)


def over(value: Value | Quotient, bound: float = 0.0) -> Test:
    """A value is above a bound: one-sided t test over seeds. Raises InputError where the bound is no finite number, or
    the value mixes units."""
    return _one_sided(value, bound, ">", above)


def under(value: Value | Quotient, bound: float = 0.0) -> Test:
    """A value is below a bound: one-sided t test over seeds. Raises InputError as `over` does."""
    return _one_sided(value, bound, "<", below)


def _one_sided(value: Value | Quotient, bound: float, sign: str, side: Side) -> Test:
    _sensible(value)
    if not math.isfinite(bound):
        raise InputError(f"{value.words} {sign} {bound:g}: allowed is a bound that is a finite number")
    asked = f"{sign} {bound:g} {value.unit}".strip()
    name = "paired one-sided t" if len(value.variants) > 1 else "one-sided t"

    def evidence(read: Reader) -> Evidence:
        found = read.ends(value)
        return _of(side(list(found.values()), bound, name), value.unit, found)

    return Test((value,), f"{value.words} {asked}", value.unit, evidence, asked)


def _sensible(value: Value | Quotient) -> None:
    """Raise InputError where measures in different units are added up, or one taken from the other."""
    parts = (value.first, value.second) if isinstance(value, Quotient) else (value,)
    for part in parts:
        units = sorted({term.measure.unit or "no unit" for term in part.terms})
        if len(units) > 1:
            raise InputError(f"{part.words}: is of {' and '.join(units)}, which cannot be added up")


def _of(evidence: Evidence, unit: str, seeds: Iterable[int]) -> Evidence:
    """The evidence with the unit of its values and the seeds that they are of."""
    return replace(evidence, unit=unit, seeds=tuple(sorted(seeds)))


def equal(first: Value, second: Value, margin: float) -> Test:
    """Two values differ by less than a margin: two one-sided tests. Raises InputError where the margin is not above 0,
    or the values are in different units."""
    value = first - second
    _sensible(value)
    if not 0 < margin < math.inf:
        raise InputError(f"{value.words} within {margin:g}: allowed is a margin above 0")
    asked = f"within ±{margin:g} {value.unit}".strip()

    def evidence(read: Reader) -> Evidence:
        found = read.ends(value)
        return _of(within(list(found.values()), margin), value.unit, found)

    return Test((value,), f"{value.words} {asked}", value.unit, evidence, asked)


def ratio(first: Value | Quotient, second: Value | Quotient, at_least: float = 1.0) -> Test:
    """The first value is at least so many times the second: t test on logarithms, paired by seed. Raises InputError
    where that is not a number above 0."""
    if not 0 < at_least < math.inf:
        raise InputError(f"{first.words} / {second.words} > {at_least:g}: allowed is a number above 0")

    def evidence(read: Reader) -> Evidence:
        found = [read.ends(first), read.ends(second)]
        numbers = together(found)
        return _of(ratio_above(numbers[0], numbers[1], at_least), _LOGARITHM, set(found[0]) & set(found[1]))

    words = f"({first.words}) / ({second.words}) > {at_least:g}"
    return Test((first, second), words, "times", evidence)


def rises(values: Mapping[float, Value | Quotient]) -> Test:
    """Values rise with their keys: as a whole, and at no step back by more than a quarter of the whole rise.

    As a whole: the slope of each seed's fitted line, one-sided t test over seeds; the estimate is its rise from the
    lowest to the highest key. With three keys that alone is the last value minus the first, whatever the one between;
    so of each step s it is tested, too, that s plus `STEP_BACK` of the rise is above 0. All must hold (`all_of`).
    """
    return _trend(values, "rises", above)


def falls(values: Mapping[float, Value | Quotient]) -> Test:
    """Values fall with their keys: like `rises`, the other way."""
    return _trend(values, "falls", below)


def _trend(values: Mapping[float, Value | Quotient], verb: str, side: Side) -> Test:
    ordered = dict(sorted((float(key), value) for key, value in values.items()))
    keys, compared = list(ordered), tuple(ordered.values())
    line = slope_weights(keys)  # refuses too few
    words = f"{compared[0].words} and so on {verb} over {', '.join(f'{key:g}' for key in keys)}"
    whole = _linear(compared, line, words, side, "one-sided t on the slope of each seed")
    if len(keys) == 2:
        return whole
    steps = []
    for k in range(len(keys) - 1):
        weights = STEP_BACK * line
        weights[k] -= 1
        weights[k + 1] += 1
        back = (
            f"the step from {keys[k]:g} to {keys[k + 1]:g} goes back by less than {STEP_BACK:g} of the whole"
        )
        steps.append(_linear(compared, weights, back, side, "one-sided t on a step of each seed"))
    return replace(all_of([whole, *steps]), compared=compared, words=words, whole_first=True)


def _linear(
    compared: tuple[Value | Quotient, ...], weights: np.ndarray, words: str, side: Side, name: str
) -> Test:
    """A weighted sum of values is above, or below, 0."""
    unit = "points" if compared[0].unit == "%" else compared[0].unit
    shares = [float(weight) for weight in weights]

    def evidence(read: Reader) -> Evidence:
        if all(isinstance(value, Value) for value in compared):
            terms = [
                share * value
                for share, value in zip(shares, compared, strict=True)
                if isinstance(value, Value)
            ]
            found = read.ends(total(terms))
        else:
            each = [read.ends(value) for value in compared]
            found = {
                seed: summed([(share, ends[seed]) for share, ends in zip(shares, each, strict=True)])
                for seed in sorted(set.intersection(*(set(ends) for ends in each)))
            }
        return _of(side(list(found.values()), 0.0, name), unit, found)

    return Test(compared, words, unit, evidence)


def all_of(tests: Iterable[Test]) -> Test:
    """Every one of several tests: it holds if each does; one that does not hold is enough against it."""
    tests = tuple(tests)
    if not tests:
        raise InputError("all_of([]): give at least one test")
    units = {test.unit for test in tests}
    return Test(
        tuple(value for test in tests for value in test.compared),
        "; ".join(test.words for test in tests),
        units.pop() if len(units) == 1 else "",
        lambda read: every([test.evidence(read) for test in tests]),
        tests=tests,
    )


def told_only(test: Test, why: str) -> Test:
    """A test of values of which seeds are no observations of their own, such as times of one sitting, or what follows
    from a trace: it decides nothing, however many seeds there are. why: a sentence without its full stop, the reason
    that is told."""

    def evidence(read: Reader) -> Evidence:
        return Evidence(NO_TEST, test.evidence(read).n, note=why)

    return replace(test, words=f"{test.words}, by no test", evidence=evidence, tests=())


def each_over(values: Iterable[Value | Quotient], bound: float = 0.0) -> Test:
    """Every one of several values is above a bound."""
    return all_of(over(value, bound) for value in values)
