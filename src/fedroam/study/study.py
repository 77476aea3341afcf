"""A study: what a paper ran and said, declared, so that it can be run and judged."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from fedroam.analysis.statistics.verdicts import ALPHA
from fedroam.errors import InputError, unknown
from fedroam.experiment import Experiment
from fedroam.planning import overlay, read_settings
from fedroam.study.claims import Claim
from fedroam.study.findings import Describe
from fedroam.study.items import Figure, Search, Table
from fedroam.study.kept import SIMULATION, Where, run_key
from fedroam.study.values import Item, Settings, StudyVariant, needed

# Settings laid over others; or a function of the scale's name that gives them.
Changes = Settings | Callable[[str], Settings]


def declared(names: Iterable[str]) -> dict[str, Changes]:
    """The settings of those variants that carry them, by name, in the order in which they are first named.

    Raises InputError where two of one name have other settings.
    """
    found: dict[str, StudyVariant] = {}
    for variant in names:
        if isinstance(variant, StudyVariant):
            first = found.setdefault(variant, variant)
            if (first.settings, first.at) != (variant.settings, variant.at):
                raise InputError(f"variant {variant!s}: declared twice, with other settings the second time")
    return {name: variant.changes for name, variant in found.items()}


def declared_by(items: Iterable[Item]) -> dict[str, Changes]:
    """The variants that items declare by naming them, in the order of the items (see `declared`)."""
    return declared(variant for item in items for variant in item.variants)


def all_but(items: Iterable[Item], kept: Iterable[Item]) -> tuple[str, ...]:
    """The variants that some of `items` needs and none of `kept`: what a scale that shows these alone leaves out."""
    there = set(needed(kept))
    return tuple(variant for variant in needed(items) if variant not in there)


@dataclass(frozen=True)
class Scale:
    """How large a study is run: settings laid over its base, number of seeds.

    cut: what differs from the paper and why, one sentence each; without: variants that are not run at this scale
    (items that need them are marked so).
    """

    seeds: int
    settings: Settings = field(default_factory=dict)
    cut: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reading:
    """How a paper was read, or where the study departs from it.

    about: what it is of, in a few words; here: what is done here; paper: what the paper says, empty where it is silent;
    source: where it says so; deviation: the paper says something else, or its formula is damaged; effect: what it
    changes, as far as that is known.
    """

    about: str
    here: str
    paper: str = ""
    source: str = ""
    deviation: bool = False
    effect: str = ""


MOST_PRIMARY = 3


def _of(kind: str) -> Callable[[object], bool]:
    return lambda found: getattr(found, "kind", None) == kind


_OF: Mapping[str, Callable[[object], bool]] = {
    "texts": lambda found: isinstance(found, str),
    "tables": _of("table"),
    "searches": _of("search"),
    "figures": _of("figure"),
    "claims": _of("claim"),
}


@dataclass(frozen=True)
class Study:
    """A paper's experiments, tables, figures and claims.

    paper: how to cite it; about: what it asks, in a sentence; base: an experiment's settings, or the name of one;
    variants: settings laid over base and scale, by name; scales: by name, "quick" and "full"; alpha: the level of the
    claims' verdicts, over all of a family together; files: those that runs need and that the study can make (path as
    the settings name it, what makes it: see `make_files`); readings: how the paper was read where it is silent, and
    where the study departs from it; findings: what the runs say beyond the claims, computed from them (see
    `study.findings`); on_network: variants whose rounds are played by the nodes of an emulated network, each held
    against its simulation, and not simulated alone; round_time: the name of the measure that tells the seconds of such
    a run's round; codes: what the letters in variants' names mean, in a line; primary: at most three of the declared
    claims, in the order in which they are tested (see `judge_in_order`); asked: what it was asked for by, where that
    is not its name but a file; printed_in: the word for what prints the numbers that stand beside ours; caution: what
    a reader must know beside all verdicts, in whole sentences. Raises InputError where a name is doubled or leads
    nowhere.
    """

    name: str
    title: str
    paper: str
    about: str
    base: str | Settings
    variants: Mapping[str, Changes]
    scales: Mapping[str, Scale]
    tables: tuple[Table, ...] = ()
    searches: tuple[Search, ...] = ()
    figures: tuple[Figure, ...] = ()
    claims: tuple[Claim, ...] = ()
    alpha: float = ALPHA
    files: Mapping[str, Callable[[Path], None]] = field(default_factory=dict)
    readings: tuple[Reading, ...] = ()
    findings: Describe | None = None
    primary: tuple[str, ...] = ()
    on_network: tuple[str, ...] = ()
    round_time: str = ""
    codes: str = ""
    asked: str = ""
    printed_in: str = "paper"
    caution: str = ""

    @property
    def command(self) -> str:
        """What computes something of it on the command line, to be followed by what."""
        return f"fedroam reproduce {shlex.quote(self.asked or self.name)}"

    def __post_init__(self) -> None:
        for what in ("tables", "searches", "figures", "claims"):
            self._check_tuple(what, getattr(self, what), what)
        names = [item.name for item in self._items()]
        for name in (self.name, *self.variants, *self.scales):
            self._check_name(repr(name), name, r"[A-Za-z0-9._=,+-]*", "letters, digits and . _ = , + -")
        for name in names:
            self._check_name(f"item {name!r}", name, r"[A-Za-z0-9_-]*", "letters, digits, - and _")
            if names.count(name) > 1:
                raise InputError(f"study {self.name}: two items are called {name!r}")
        for item in self._items():
            for variant in item.variants:
                if variant not in self.variants:
                    raise InputError(
                        f"study {self.name}, {item.name}: {unknown('variant', variant, self.variants)}"
                    )
        self._check_primary()
        for variant in self.on_network:
            if variant not in self.variants:
                raise unknown(f"variant on a network of study {self.name}", variant, self.variants)
        if not self.scales or not self.variants:
            raise InputError(f"study {self.name}: needs at least one scale and one variant")
        for name, scale in self.scales.items():
            if not isinstance(scale.seeds, int) or isinstance(scale.seeds, bool) or scale.seeds < 1:
                raise InputError(
                    f"study {self.name}, scale {name}: seeds = {scale.seeds!r}: allowed is a whole number from 1 on"
                )
            self._check_tuple(f"scale {name}: cut", scale.cut, "texts")
            self._check_tuple(f"scale {name}: without", scale.without, "texts")
            for variant in scale.without:
                if variant not in self.variants:
                    raise unknown(f"variant in scale {name} of study {self.name}", variant, self.variants)

    def _check_primary(self) -> None:
        claims = [claim.name for claim in self.claims if not claim.family]
        for name in self.primary:
            if name not in claims:
                raise InputError(f"study {self.name}, primary: {unknown('declared claim', name, claims)}")
        if len(set(self.primary)) < len(self.primary) or len(self.primary) > MOST_PRIMARY:
            raise InputError(
                f"study {self.name}: primary = {list(self.primary)}: allowed are up to {MOST_PRIMARY} claims, each once"
            )

    def _check_tuple(self, what: str, found: object, of: str) -> None:
        """A single one without the comma that makes a tuple of it, a list, and one of another kind are told of."""
        if not isinstance(found, tuple) or not all(_OF[of](each) for each in found):
            shown = repr(found) if isinstance(found, str | list) else f"a {type(found).__name__}"
            raise InputError(
                f"study {self.name}, {what} = {shown}: allowed is a tuple of {of}, even if it is one"
            )

    def _check_name(self, what: str, name: str, pattern: str, allowed: str) -> None:
        if not re.fullmatch(r"[A-Za-z0-9]" + pattern, name):
            raise InputError(f"study {self.name}: {what}: allowed are {allowed} in a name")

    def _items(self) -> tuple[Item, ...]:
        return (*self.tables, *self.searches, *self.figures, *self.claims)

    @cached_property
    def items(self) -> dict[str, Item]:
        """Tables, searches, figures and claims by name, in this order."""
        return {item.name: item for item in self._items()}

    def scale(self, name: str) -> Scale:
        """A scale by name."""
        if name not in self.scales:
            raise unknown(f"scale of {self.name}", name, self.scales)
        return self.scales[name]

    def item(self, name: str) -> Item:
        """An item by name."""
        if name not in self.items:
            raise unknown(f"item of {self.name}", name, self.items)
        return self.items[name]

    def needs(self, scale: str, items: Iterable[Item] | None = None) -> tuple[str, ...]:
        """The variants that items need (default: all of them) and that this scale runs, in the study's order."""
        without = self.scale(scale).without
        wanted = self._wanted if items is None else set(needed(items))
        return tuple(variant for variant in self.variants if variant in wanted and variant not in without)

    @cached_property
    def _wanted(self) -> frozenset[str]:
        """The variants that some item needs: asked for every link of a page."""
        return frozenset(needed(self._items()))

    def can(self, item: Item, scale: str) -> bool:
        """Whether a scale runs all that an item needs."""
        return not set(item.variants) & set(self.scale(scale).without)

    def experiment(self, variant: str, scale: str, seed: int = 0) -> Experiment:
        """The experiment of a variant at a scale; `seed` counts from the base's own seed. Raises InputError."""
        try:
            return Experiment(**self._settings(variant, scale, seed, []))
        except InputError as error:
            raise InputError(f"study {self.name}, scale {scale}, variant {variant}: {error}") from None

    def where(self, variant: str) -> Where:
        """Where a variant's runs are computed."""
        return "network" if variant in self.on_network else SIMULATION

    def key(self, variant: str, scale: str, seed: int = 0) -> str:
        """By what the run of a variant is known (see `kept.run_key`). Raises InputError."""
        return run_key(self.experiment(variant, scale, seed).digest, self.where(variant))

    def notes(self, scale: str) -> tuple[str, ...]:
        """What was left out where a variant changes the kind of a part (see `planning.overlay`)."""
        notes: list[str] = []
        for variant in self.needs(scale):
            self._settings(variant, scale, 0, notes)
        return tuple(dict.fromkeys(notes))

    @cached_property
    def _of_base(self) -> Settings:
        """What all runs begin from: of a file, what describes one run."""
        if not isinstance(self.base, str):
            return self.base
        whole = read_settings(self.base)[0]
        return {
            key: value for key, value in whole.items() if key not in ("variants", "seeds", "use", "sweep")
        }

    def _settings(self, variant: str, scale: str, seed: int, notes: list[str]) -> dict[str, Any]:
        settings = overlay(self._of_base, self.scale(scale).settings, notes)
        changes = self.variants[variant]
        settings = overlay(settings, changes(scale) if callable(changes) else changes, notes)
        first = settings.get("seed", 0)
        return {**settings, "name": self.name, "seed": first + seed if isinstance(first, int) else first}
