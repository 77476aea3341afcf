"""What a study speaks of: a measure of a run, and values made of measures of variants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedroam.recording import Run

# The finished run of a variant and seed, or None where there is none.
Find = Callable[[str, int], Run | None]


@dataclass(frozen=True)
class Measure:
    """A number of a finished run.

    name: in words, e.g. "final accuracy"; unit: "%", "rounds", "J", ...; number: the function, whose result is in
    that unit (NaN: undefined, inf: never reached); digits: how many to print after the point.
    """

    name: str
    unit: str
    number: Callable[[Run], float]
    digits: int = 1

    def of(self, variant: str) -> Value:
        """The measure of a variant, one number a seed."""
        return Value((Term(1.0, self, variant),))


@dataclass(frozen=True)
class Term:
    """A weighted measure of a variant."""

    weight: float
    measure: Measure
    variant: str


@dataclass(frozen=True)
class Value:
    """A weighted sum of measures of variants: `final.of("random") - final.of("static")`.

    It is one number a seed, from the runs with that seed; so a difference is paired by seed.
    """

    terms: tuple[Term, ...]

    def __add__(self, other: Value) -> Value:
        return Value((*self.terms, *other.terms))

    def __sub__(self, other: Value) -> Value:
        return self + -1.0 * other

    def __neg__(self) -> Value:
        return -1.0 * self

    def __mul__(self, factor: float) -> Value:
        return Value(tuple(Term(factor * t.weight, t.measure, t.variant) for t in self.terms))

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Value:
        return self * (1 / divisor)

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants whose runs it needs."""
        return tuple(dict.fromkeys(term.variant for term in self.terms))

    @property
    def unit(self) -> str:
        """The measures' unit; a difference of percentages is in points."""
        units = list(dict.fromkeys(term.measure.unit for term in self.terms))
        if units == ["%"] and abs(sum(term.weight for term in self.terms)) < 1e-9:
            return "points"
        return " and ".join(units)

    @property
    def digits(self) -> int:
        """How many to print after the point."""
        return max((term.measure.digits for term in self.terms), default=1)

    @property
    def words(self) -> str:
        """`final accuracy of random − final accuracy of static`, or `final accuracy, mean of (a; b) − ...`."""
        groups: dict[tuple[Any, ...], list[str]] = {}
        for k, term in enumerate(self.terms):  # whole weights are sums and differences: told one by one
            alone = k if abs(term.weight) > 1 - 1e-9 else -1
            groups.setdefault((term.weight, term.measure, alone), []).append(term.variant)
        text = ""
        for (weight, measure, _), variants in groups.items():
            size = abs(weight) * len(variants)
            factor = "" if abs(size - 1) < 1e-9 else f"{size:.3g} × "
            sign = "−" if weight < 0 else "+"
            joint = f" {sign} " if text else ("−" if weight < 0 else "")
            of = f" of {variants[0]}" if len(variants) == 1 else f", mean of ({'; '.join(variants)})"
            text += f"{joint}{factor}{measure.name}{of}"
        return text


def total(values: Iterable[Value]) -> Value:
    """The sum of several values."""
    return Value(tuple(term for value in values for term in value.terms))


def average(values: Iterable[Value]) -> Value:
    """The mean of several values."""
    every = list(values)
    return total(every) / len(every)


@dataclass(frozen=True)
class Quotient:
    """How many times one value is another, one number a seed: `Quotient(average(baselines), ours)`.

    Infinite where only the first is (a threshold that was never reached), NaN where both are.
    """

    first: Value
    second: Value
    digits: int = 2

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants whose runs it needs."""
        return tuple(dict.fromkeys([*self.first.variants, *self.second.variants]))

    @property
    def unit(self) -> str:
        """`times`."""
        return "times"

    @property
    def words(self) -> str:
        """`(rounds to 97 % of a) / (rounds to 97 % of b)`."""
        return f"({self.first.words}) / ({self.second.words})"


class Reader:
    """Reads values from runs; each measure of each run is computed once."""

    def __init__(self, find: Find, seeds: Iterable[int]) -> None:
        self.find = find
        self.seeds = tuple(seeds)
        self._known: dict[tuple[Any, str, int], float | None] = {}

    def __call__(self, value: Value | Quotient) -> dict[int, float]:
        """By seed, for the seeds whose runs have all finished."""
        if isinstance(value, Quotient):
            first, second = self(value.first), self(value.second)
            with np.errstate(divide="ignore", invalid="ignore"):
                return {s: float(np.divide(first[s], second[s])) for s in first if s in second}
        found = {}
        for seed in self.seeds:
            parts = [self._number(term, seed) for term in value.terms]
            if all(part is not None for part in parts):
                weights = [term.weight for term in value.terms]
                found[seed] = float(sum(w * p for w, p in zip(weights, parts, strict=True) if p is not None))
        return found

    def _number(self, term: Term, seed: int) -> float | None:
        key = (term.measure, term.variant, seed)
        if key not in self._known:
            run = self.find(term.variant, seed)
            self._known[key] = None if run is None else float(term.measure.number(run))
        return self._known[key]


def together(found: Iterable[Mapping[int, float]]) -> list[list[float]]:
    """Several values by seed, cut down to the seeds that all of them have, in the order of seeds."""
    every = list(found)
    seeds = sorted(set.intersection(*(set(each) for each in every))) if every else []
    return [[each[seed] for seed in seeds] for each in every]
