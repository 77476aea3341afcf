"""What a study speaks of: variants, a measure of a run, and values made of measures of variants."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self, TypeVar

import numpy as np
import pandas as pd

from fedroam.analysis.statistics.paired import apart
from fedroam.errors import InputError
from fedroam.planning import overlay
from fedroam.recording import Run
from fedroam.study.kept import RunRecord

T = TypeVar("T")
# Settings of an experiment, as in a TOML file, to be laid over others.
Settings = Mapping[str, Any]
# The finished run of a variant and seed, or what is kept of it, or None where there is none.
Find = Callable[[str, int], Run | RunRecord | None]


class StudyVariant(str):
    """The name of a variant that carries its settings, so that whoever names the variant declares it, too.

    settings: laid over the study's base and scale; at: further ones, laid over these at a scale, by the scale's name.
    Two variants are equal if their names are (see `study.declared`, which refuses other settings of one name).
    """

    __slots__ = ("at", "settings")

    settings: Settings
    at: Mapping[str, Settings]

    def __new__(cls, name: str, settings: Settings, at: Mapping[str, Settings] | None = None) -> Self:
        """A name, its settings, and by a scale's name those that are laid over them there."""
        self = super().__new__(cls, name)
        self.settings, self.at = settings, at or {}
        return self

    def changes(self, scale: str) -> Settings:
        """Its settings at a scale."""
        return overlay(self.settings, self.at.get(scale, {}), [])


class NeedsRuns(Protocol):
    """Whatever is computed from the runs of variants."""

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants whose runs it needs."""
        ...


Kind = Literal["table", "search", "figure", "claim"]


class Item(Protocol):
    """A table, search, figure or claim of a study."""

    kind: ClassVar[Kind]
    partial: ClassVar[bool]  # whether it is worth showing with the runs of some of its variants alone

    @property
    def name(self) -> str:
        """What it is called on the command line, and its file."""
        ...

    @property
    def title(self) -> str:
        """Its heading."""
        ...

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants whose runs it needs."""
        ...


def needed(parts: Iterable[NeedsRuns]) -> tuple[str, ...]:
    """The variants that any of several parts needs, each once, in order."""
    return tuple(dict.fromkeys(variant for part in parts for variant in part.variants))


@dataclass(frozen=True)
class Measure:
    """A number of a finished run.

    name: in words, e.g. "final accuracy"; unit: "%", "rounds", "J", ...; number: the function, whose result is in
    that unit (NaN: undefined, inf: never reached); digits: how many to print after the point. alike: a key of a run;
    all runs of one key have the same number, which is then computed once. factors: of a product (see `product`).
    horizon: what the number at least is where it is infinite, so that the run tells something still (see
    `analysis.statistics.paired`). picked: the computation that it is one number of, and its name there (see `Several`).
    """

    name: str
    unit: str
    number: Callable[[Run], float]
    digits: int = 1
    alike: Callable[[Run], Hashable] | None = None
    factors: tuple[Measure, ...] = ()
    horizon: Callable[[Run], float] | None = None
    picked: tuple[Several, str] | None = None

    def of(self, variant: str) -> Value:
        """The measure of a variant, one number a seed."""
        return Value((Term(1.0, self, variant),))


def product(name: str, unit: str, first: Measure, second: Measure) -> Measure:
    """One measure of a run times another."""
    return Measure(name, unit, lambda run: first.number(run) * second.number(run), factors=(first, second))


@dataclass(frozen=True)
class Several:
    """A long computation that gives several numbers of a run at once, by name; each is a measure of its own."""

    compute: Callable[[Run], Mapping[str, float]]

    def pick(self, key: str, name: str, unit: str, *, digits: int = 1) -> Measure:
        """The measure that is the number `key` of it; a reader computes all of them once a run."""
        return Measure(name, unit, lambda run: self.compute(run)[key], digits=digits, picked=(self, key))


@dataclass(frozen=True)
class Term:
    """A weighted measure of a variant."""

    weight: float
    measure: Measure
    variant: str


# The measure of a term in some seed; None where its run has not finished.
NumberOf = Callable[[Term], float | None]
# The least and the most that a number can be, of a run that never reached something; else twice the number.
Ends = tuple[float, float]
EndsOf = Callable[[Term], Ends | None]


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
        """The measures' unit; a difference of percentages is in points, also where one of them is weighted."""
        units = list(dict.fromkeys(term.measure.unit for term in self.terms))
        if units == ["%"] and any(term.weight < 0 for term in self.terms):
            return "points"
        return " and ".join(units)

    @property
    def measures(self) -> frozenset[str]:
        """The names of its measures."""
        return frozenset(term.measure.name for term in self.terms)

    @property
    def digits(self) -> int:
        """How many to print after the point."""
        return max((term.measure.digits for term in self.terms), default=1)

    def number(self, of: NumberOf) -> float | None:
        """The sum, where `of` gives each term's measure; None where it lacks one."""
        numbers = [of(term) for term in self.terms]
        known = [number for number in numbers if number is not None]
        if len(known) < len(numbers):
            return None
        return apart(term.weight * number for term, number in zip(self.terms, known, strict=True))

    def ends(self, of: EndsOf) -> Ends | None:
        """The least and the most that the sum can be; None where `of` lacks a term."""
        # A number that is added and taken away again is no unknown.
        weights: dict[tuple[str, str, Ends], float] = {}
        found = [of(term) for term in self.terms]  # all of them, so that what there is can be kept
        for term, ends in zip(self.terms, found, strict=True):
            if ends is None:
                return None
            key = (term.measure.name, term.variant, ends)
            weights[key] = weights.get(key, 0.0) + term.weight
        return summed([(weight, ends) for (*_, ends), weight in weights.items()])

    @property
    def words(self) -> str:
        """`final accuracy of random − final accuracy of static`, or `final accuracy, mean of (a; b) − ...`.

        A sum of more parts says once what is added up: `final accuracy: mean of (a; b) − mean of (c; d) − (e) + (f)`.
        """
        groups: dict[tuple[Any, ...], list[str]] = {}
        for k, term in enumerate(self.terms):  # whole weights are sums and differences: told one by one
            alone = k if abs(term.weight) > 1 - 1e-9 else -1
            groups.setdefault((term.weight, term.measure, alone), []).append(term.variant)
        once = len(groups) > 2 and len({measure for _, measure, _ in groups}) == 1
        text = ""
        for (weight, measure, _), variants in groups.items():
            size = abs(weight) * len(variants)
            factor = "" if abs(size - 1) < 1e-9 else f"{size:.3g} × "
            sign = "−" if weight < 0 else "+"
            joint = f" {sign} " if text else ("−" if weight < 0 else "")
            names = list(dict.fromkeys(variants))
            if len({variants.count(name) for name in names}) > 1:  # some of them count for more than others
                names = variants
            mean = f"mean of ({'; '.join(names)})"
            if once:
                part = f"({names[0]})" if len(names) == 1 else mean
            else:
                part = measure.name + (f" of {names[0]}" if len(names) == 1 else f", {mean}")
            text += f"{joint}{factor}{part}"
        return f"{self.terms[0].measure.name}: {text}" if once else text


def summed(terms: Iterable[tuple[float, Ends]]) -> Ends:
    """The least and the most that a weighted sum can be."""
    some = [(weight, ends) for weight, ends in terms if weight]  # nothing of what may be infinite is nothing
    least = apart(weight * (low if weight > 0 else high) for weight, (low, high) in some)
    most = apart(weight * (high if weight > 0 else low) for weight, (low, high) in some)
    return least, most


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
        return needed([self.first, self.second])

    @property
    def measures(self) -> frozenset[str]:
        """No names: a quotient is a measure of its own."""
        return frozenset()

    @property
    def unit(self) -> str:
        """`times`."""
        return "times"

    def number(self, of: NumberOf) -> float | None:
        """The quotient, where `of` gives each term's measure; None where it lacks one."""
        first, second = self.first.number(of), self.second.number(of)
        if first is None or second is None:
            return None
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.divide(first, second))

    def ends(self, of: EndsOf) -> Ends | None:
        """The least and the most that it can be, of values that are not negative; None where `of` lacks a term."""
        first, second = self.first.ends(of), self.second.ends(of)
        if first is None or second is None:
            return None
        with np.errstate(divide="ignore", invalid="ignore"):
            least, most = np.divide(first, second[::-1])
        return float(least), float(most)

    @property
    def words(self) -> str:
        """`(rounds to 97 % of a) / (rounds to 97 % of b)`."""
        return f"({self.first.words}) / ({self.second.words})"


class Computed:
    """The measures of run folders that have been computed, for readers that share them: a study that grows is read
    at every look.

    begin: told of each run and measure that is about to be computed. known: what is kept of runs in these folders; a
    number of a long computation (see `Several`) is taken from there, others are computed of the folder, which may have
    more.
    """

    def __init__(self, begin: Callable[[Run, Measure], None] | None = None) -> None:
        self._begin = begin
        self.known: Mapping[Path, RunRecord] = {}
        self._ends: dict[tuple[Measure, Path], Ends] = {}
        self._alike: dict[tuple[Measure, Hashable], float] = {}
        self._several: dict[tuple[Several, Path], Mapping[str, float]] = {}

    def ends(self, measure: Measure, run: Run) -> Ends:
        """The least that a measure of a run can be, its horizon where it is infinite, and the measure."""
        if measure.factors:
            every = [self.ends(factor, run) for factor in measure.factors]
            return math.prod(least for least, _ in every), math.prod(number for _, number in every)
        key = measure, run.folder
        if key not in self._ends and measure.picked is not None and run.folder in self.known:
            there = self.known[run.folder].numbers.get(measure.name)
            if there is not None:
                self._ends[key] = there
        if key not in self._ends:
            if self._begin is not None:
                self._begin(run, measure)
            number = self._number(measure, run)
            least = float(measure.horizon(run)) if measure.horizon and number == math.inf else number
            self._ends[key] = least, number
        return self._ends[key]

    def _number(self, measure: Measure, run: Run) -> float:
        if measure.picked is not None:
            several, name = measure.picked
            if (several, run.folder) not in self._several:
                self._several[several, run.folder] = several.compute(run)
            return float(self._several[several, run.folder][name])
        if measure.alike is None:
            return _as_number(measure, run)
        key = measure, measure.alike(run)
        if key not in self._alike:
            self._alike[key] = _as_number(measure, run)
        return self._alike[key]


def _as_number(measure: Measure, run: Run) -> float:
    """What a measure says of a run. Raises InputError where that is no number."""
    found: object = measure.number(run)
    if isinstance(found, int | float | np.number) and not isinstance(found, np.complexfloating):
        return float(found)
    which = f"{run.status.get('variant', '')}, seed {run.status.get('seed', '')}"
    raise InputError(
        f"measure {measure.name!r} of {which}: gave a {type(found).__name__}; allowed is a number"
    )


class Reader:
    """Reads values from runs; each measure of each run is computed once.

    computed: what has been computed before, of the same folders (default: nothing). lacking: kept runs (variant and
    seed) that were kept without something that has been asked for since.
    """

    def __init__(self, find: Find, seeds: Iterable[int], computed: Computed | None = None) -> None:
        self.find = find
        self.seeds = tuple(seeds)
        self.computed = Computed() if computed is None else computed
        self._by_run: dict[tuple[Measure, str, int], Ends | None] = {}
        self._curves: dict[tuple[str, str, int], pd.Series] = {}
        self.lacking: set[tuple[str, int]] = set()

    def __call__(self, value: Value | Quotient) -> dict[int, float]:
        """A value by seed, for the seeds whose runs have all finished."""
        found = {seed: value.number(partial(self._term, seed)) for seed in self.seeds}
        return {seed: number for seed, number in found.items() if number is not None}

    def ends(self, value: Value | Quotient) -> dict[int, Ends]:
        """The least and the most that a value can be, by seed, as `__call__` gives it."""
        found = {seed: value.ends(partial(self._ends, seed)) for seed in self.seeds}
        return {seed: ends for seed, ends in found.items() if ends is not None}

    def first(self, seeds: int) -> Reader:
        """A reader of the first so many seeds, which shares what is computed."""
        fewer = Reader(self.find, self.seeds[:seeds], self.computed)
        fewer._by_run, fewer._curves = self._by_run, self._curves
        return fewer

    def of_scale(self, variants: Iterable[str]) -> Reader:
        """A reader that finds the runs of these variants alone, and shares what is computed."""
        known = set(variants)
        fewer = self.first(len(self.seeds))
        fewer.find = lambda variant, seed: self.find(variant, seed) if variant in known else None
        return fewer

    def runs(self, variant: str) -> list[Run]:
        """The finished runs of a variant whose folders are there, in the order of seeds."""
        found = [self.find(variant, seed) for seed in self.seeds]
        return [run for run in found if isinstance(run, Run)]

    def curves(self, variant: str, name: str, curve: Callable[[Run], pd.Series]) -> list[pd.Series]:
        """A curve of the finished runs of a variant, in the order of seeds. name: what it is kept by."""
        found = []
        for seed in self.seeds:
            key, run = (name, variant, seed), self.find(variant, seed)
            if key not in self._curves and isinstance(run, Run):
                self._curves[key] = curve(run)
            elif key not in self._curves and isinstance(run, RunRecord) and name in run.curves:
                self._curves[key] = run.curves[name]
            elif isinstance(run, RunRecord):
                self.lacking.add((variant, seed))
            if run is not None and key in self._curves:
                found.append(self._curves[key])
        return found

    def kept(self) -> list[RunRecord]:
        """All that has been read of each run so far.

        Raises InputError where two measures of one name gave a run different numbers.
        """
        numbers: dict[tuple[str, int], dict[str, Ends]] = {}
        for (measure, variant, seed), ends in self._by_run.items():
            if ends is not None:
                there = numbers.setdefault((variant, seed), {})
                if repr(there.setdefault(measure.name, ends)) != repr(ends):
                    raise InputError(
                        f"measures: two are called {measure.name!r} and differ: give them two names"
                    )
        curves: dict[tuple[str, int], dict[str, pd.Series]] = {}
        for (name, variant, seed), curve in self._curves.items():
            curves.setdefault((variant, seed), {})[name] = curve
        found = []
        for variant, seed in {**numbers, **curves}:
            run = self.find(variant, seed)
            if run is not None:
                digest, diverged = str(run.status["digest"]), run.status.get("diverged_at")
                key = (variant, seed)
                found.append(
                    RunRecord(
                        variant, seed, digest, diverged, None, numbers.get(key, {}), curves.get(key, {})
                    )
                )
        return found

    def measured(self, measure: Measure, run: Run) -> float:
        """A measure of a run, or of one that is alike for it."""
        return self.computed.ends(measure, run)[1]

    def _term(self, seed: int, term: Term) -> float | None:
        ends = self._ends(seed, term)
        return None if ends is None else ends[1]

    def _ends(self, seed: int, term: Term) -> Ends | None:
        key = (term.measure, term.variant, seed)
        if key not in self._by_run:
            run = self.find(term.variant, seed)
            if isinstance(run, RunRecord):
                self._by_run[key] = run.numbers.get(term.measure.name)
                if self._by_run[key] is None:
                    self.lacking.add((term.variant, seed))
            else:
                self._by_run[key] = None if run is None else self.computed.ends(term.measure, run)
        return self._by_run[key]


def together(found: Iterable[Mapping[int, T]]) -> list[list[T]]:
    """Several values by seed, cut down to the seeds that all of them have, in the order of seeds."""
    every = list(found)
    seeds = sorted(set.intersection(*(set(each) for each in every))) if every else []
    return [[each[seed] for seed in seeds] for each in every]
