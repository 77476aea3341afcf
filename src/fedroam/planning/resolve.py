"""From a file (or a name, or settings) and the command line to the runs: one resolver for all that ask.

`plan` and `sweep_plan` differ in what they return alone. Every run is laid together in the same order: the file's
settings, a variant's, the kinds that the sweep varies, the settings of parts that `--set` gives, and those that the
sweep varies.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from fedroam.components import FAMILIES, kinds
from fedroam.components import use as load
from fedroam.errors import InputError, unknown
from fedroam.experiment import Experiment
from fedroam.planning.axes import Axes, Combination, label, read_axes
from fedroam.planning.own_parts import files_of
from fedroam.planning.plans import Plan, PlannedRun, Refused, SweepPlan, SweepRun
from fedroam.planning.settings import (
    Settings,
    kind_in,
    named_experiments,
    nest,
    overlay,
    parse_assignment,
    plain_parts,
    read_settings,
)

Source = str | Path | Mapping[str, Any] | Experiment
Variants = dict[str, Settings]


def plan(
    source: Source,
    *,
    assignments: Iterable[str] = (),
    seeds: int | None = None,
    use: Iterable[str | Path] = (),
) -> Plan:
    """Resolve an experiment file (or name, mapping, experiment) into its runs: variants x seeds.

    `assignments` are the texts of `--set`, laid over the file and over the variants; one of a part's settings is
    left out where a variant's kind lacks it (a note says so). `seeds=K` runs seeds seed, seed + 1, ..., seed + K - 1
    and overrides the file's own `seeds`. `use` are files of parts of one's own. Raises InputError with one line
    where anything is wrong.
    """
    found = _resolve(source, assignments, seeds, use, over=None)
    runs = tuple(PlannedRun(run.keys.get("variant", ""), run.experiment) for run in found.runs)
    return Plan(runs[0].experiment.name, runs, found.notes)


def sweep_plan(
    source: Source,
    *,
    over: Iterable[str] = (),
    assignments: Iterable[str] = (),
    seeds: int | None = None,
    use: Iterable[str | Path] = (),
) -> SweepPlan:
    """Resolve an experiment file (or name, mapping, experiment) into the runs of a sweep.

    Runs are variants x rows of `[sweep.zip]` x `[sweep.grid]` x seeds. `over` are the texts of `--over`
    (`"mobility.kind=static,random"`), added to the grid; `assignments`, `seeds` and `use` are those of `plan`. Every
    variant runs the same seeds, so that differences are paired. A varied `mobility = [{kind = "random", mobile = 3},
    "static"]` replaces the whole part; a varied `mobility.kind` keeps the settings that the new kind knows too. A
    varied setting that the kind of a combination lacks, but another kind of the sweep has, is left out there (a note
    says so).

    Raises InputError with one line where an axis makes no sense, or no combination is a valid experiment. Where
    only some are, the others stand in `SweepPlan.refused`.
    """
    found = _resolve(source, assignments, seeds, use, over)
    axes, variants = found.axes, found.variants
    whole = {
        **found.settings,
        "seeds": found.seeds,
        "use": found.use,
        "variants": variants,
        "sweep": axes.table(),
    }
    return SweepPlan(
        name=found.runs[0].experiment.name,
        runs=found.runs,
        varied=(*(["variant"] if variants else []), *axes.names),
        refused=found.refused,
        notes=found.notes,
        source=tomli_w.dumps({k: v for k, v in whole.items() if v or k in found.settings}),
        use=tuple(dict.fromkeys([*found.use, *files_of(run.experiment for run in found.runs)])),
    )


@dataclass(frozen=True)
class _Resolved:
    """What `plan` and `sweep_plan` are made from.

    settings and variants say with their own words what `--set` said, use are the files of own parts that were named.
    """

    settings: Settings
    variants: Variants
    axes: Axes
    seeds: int
    use: tuple[str, ...]
    runs: tuple[SweepRun, ...]
    refused: tuple[Refused, ...]
    notes: tuple[str, ...]


def _resolve(
    source: Source,
    assignments: Iterable[str],
    seeds: int | None,
    use: Iterable[str | Path],
    over: Iterable[str] | None,
) -> _Resolved:
    """Read, check and multiply. over is None for a plan: nothing varies but variants and seeds, and nothing is
    refused alone."""
    settings, home, name = _read(source)
    notes: list[str] = []
    with _named(name):
        given = settings.pop("use", [])
        used = _load(home / str(file) for file in ([given] if isinstance(given, str) else given))
    used += _load(use)
    with _named(name):
        if over is None and "sweep" in settings:
            raise InputError("sweep: this file describes a sweep; use fedroam sweep")
        axes = read_axes(settings.pop("sweep", {}), over or ())
        variants = _variants(settings.pop("variants", {}), axes, notes)
        count = settings.pop("seeds", 1)
        assigned: list[_Assigned] = []
        for text in assignments:
            keys, value = parse_assignment(text)
            if keys[0] == "seeds":
                count = value
            else:
                one = _Assigned.of(text, keys, value, settings, axes)
                settings = one.over_file(settings, notes)
                assigned.append(one)
        count = seeds if seeds is not None else count
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= 10_000:
            raise InputError(f"seeds = {count!r}: allowed is a whole number from 1 to 10000")
        for one in assigned:
            variants = {
                name: one.over_variant(name, changes, settings, notes) for name, changes in variants.items()
            }
        runs, refused = _runs(settings, variants, axes, assigned, count, notes)
        if refused and (over is None or not runs):
            raise InputError(refused[0].reason)
    files = tuple(dict.fromkeys(used))
    return _Resolved(settings, variants, axes, count, files, runs, refused, tuple(dict.fromkeys(notes)))


@contextlib.contextmanager
def _named(source: str) -> Iterator[None]:
    """Within it, an error of the user's begins with what was to be resolved."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def _read(source: Source) -> tuple[Settings, Path, str]:
    """Raw settings, the folder that relative `use` files start from, and a name for messages."""
    if isinstance(source, Experiment):
        return source.settings(), Path(), "experiment"
    if isinstance(source, Mapping):
        return plain_parts(source), Path(), "experiment"
    settings, name = read_settings(source)
    return settings, named_experiments().get(str(source), Path(source)).parent, name


def _load(files: Iterable[str | Path]) -> list[str]:
    """Load files of the user's parts; their absolute paths."""
    loaded = []
    for file in files:
        load(file)
        loaded.append(str(Path(file).resolve()))
    return loaded


def _variants(given: Any, axes: Axes, notes: list[str]) -> Variants:
    """The named variants. Nothing may be varied by both them and the axes, but for this: where the axes vary all
    that the variants set, the axes take their place, and a note says so."""
    if not isinstance(given, Mapping) or not all(isinstance(v, Mapping) for v in given.values()):
        raise InputError("variants: allowed are tables, e.g. [variants.static] mobility.kind = 'static'")
    set_by_variants: dict[str, str] = {}
    for variant, changes in given.items():
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", variant):
            raise InputError(f"variants.{variant}: allowed are letters, digits, dots and dashes in a name")
        for family, change in changes.items():
            short = {"kind": change} if family in FAMILIES and isinstance(change, str) else change
            inner = [f"{family}.{k}" for k in short] if isinstance(short, Mapping) else [family]
            set_by_variants.update(dict.fromkeys(inner, variant))
    covered = [n for n in set_by_variants if n in axes.names or n.partition(".")[0] in axes.names]
    if covered and len(covered) == len(set_by_variants):
        notes.append(f"variants {', '.join(given)} left out: the sweep varies what they set")
        return {}
    if covered:
        raise InputError(
            f"{covered[0]}: varied by the sweep and set in variants.{set_by_variants[covered[0]]}; "
            "allowed is one of the two"
        )
    return {variant: plain_parts(changes) for variant, changes in given.items()}


@dataclass(frozen=True)
class _Assigned:
    """One `--set`. kind and details: what it says of a part; value: what it says of anything else, whole.

    settings are laid only where the kind has them: file_kind is that of the file's own part when this was said.
    """

    text: str
    name: str
    value: Any = None
    kind: Any = None
    details: Mapping[str, Any] | None = None
    file_kind: str = ""

    @classmethod
    def of(
        cls, text: str, keys: Sequence[str], value: Any, settings: Mapping[str, Any], axes: Axes
    ) -> _Assigned:
        """From its text and what was read of it. Raises InputError where the sweep varies the same."""
        name, inner = keys[0], nest(keys[1:], value)
        section = {"kind": inner} if isinstance(inner, str) else inner
        is_part = name in FAMILIES and isinstance(section, Mapping)
        touched = {name, *(f"{name}.{key}" for key in (section if is_part else ()))}
        if not touched.isdisjoint(axes.names):
            raise InputError(f"--set {text}: the sweep varies it; give its values with --over instead")
        if not is_part:
            return cls(text, name, inner)
        kind = section.get("kind")
        file_kind = kind_in(settings, name) if kind is None else str(kind)
        return cls(text, name, None, kind, {k: v for k, v in section.items() if k != "kind"}, file_kind)

    def over_file(self, settings: Settings, notes: list[str]) -> Settings:
        """The file's settings with it."""
        if self.details is None:
            return {**settings, self.name: self.value}
        if self.kind is not None:
            settings = overlay(settings, {self.name: {"kind": self.kind}}, notes)
        return self._detailed(settings, self.file_kind)

    def over_variant(
        self, variant: str, changes: Settings, settings: Mapping[str, Any], notes: list[str]
    ) -> Settings:
        """A variant's settings with it: it has the last word over all but the variant's own kind, which is said."""
        if self.name not in changes:
            return changes
        if self.details is None:
            return {**changes, self.name: self.value}
        laid = overlay(settings, changes, [])
        own = kind_in(laid, self.name)
        if self.kind is not None and own != str(self.kind):
            notes.append(f"--set {self.text}: variant {variant!r} keeps its own kind {own!r}")
        return changes if self._detailed(laid, own) == laid else self._detailed(changes, own)

    def _detailed(self, settings: Settings, kind: str) -> Settings:
        """Settings with those of its settings that a kind has; all of them where it is no kind that is known."""
        known = kinds(self.name).get(kind)
        held = {k: v for k, v in (self.details or {}).items() if known is None or k in known.model_fields}
        return overlay(settings, {self.name: held}, []) if held else settings


def _runs(
    settings: Settings,
    variants: Variants,
    axes: Axes,
    assigned: Iterable[_Assigned],
    count: int,
    notes: list[str],
) -> tuple[tuple[SweepRun, ...], tuple[Refused, ...]]:
    """Every variant and combination as runs, or as refused."""
    cells: list[tuple[str, Settings, Combination]] = []
    for variant, changes in (variants or {"": {}}).items():
        laid = overlay(settings, changes, notes)
        cells += [(variant, _with_kinds(laid, cell, notes), cell) for cell in axes.combinations()]
    kinds_of = {family: {kind_in(base, family) for _, base, _ in cells} for family in FAMILIES}
    given = [
        _Detail(one.name, key, value, _known(one.name, key, {*kinds_of[one.name], one.file_kind}))
        for one in assigned
        for key, value in (one.details or {}).items()
    ]
    dotted = [(axis, *axis.split(".")) for axis in axes.names if "." in axis and not axis.endswith(".kind")]
    known = {axis: _known(family, key, kinds_of[family]) for axis, family, key in dotted}
    runs: list[SweepRun] = []
    refused: list[Refused] = []
    for variant, base, cell in cells:
        own: dict[str, Any] = {"variant": variant} if variant else {}
        own.update({name: label(value) for name, value in cell.items()})
        varied = [_Detail(family, key, cell[axis], known[axis]) for axis, family, key in dotted]
        for detail in (*given, *varied):
            base = detail.over(base, notes)
        seed = base.get("seed", 0)
        try:
            first = Experiment(**base)
            # Seeds are paired: every combination runs the same ones.
            runs += [SweepRun(first.replace(seed=first.seed + k), own) for k in range(count)]
        except InputError as error:
            numbers = range(seed, seed + count) if isinstance(seed, int) else range(count)
            refused += [Refused(own, number, str(error)) for number in numbers]
    return tuple(runs), tuple(refused)


def _with_kinds(settings: Settings, cell: Combination, notes: list[str]) -> Settings:
    """Settings with a combination's whole values and kinds of parts."""
    for name, value in cell.items():
        family, dot, rest = name.partition(".")
        if not dot:
            settings = {**settings, name: value}
        elif rest == "kind":
            settings = overlay(settings, {family: {"kind": value}}, notes)
    return settings


@dataclass(frozen=True)
class _Detail:
    """A setting of a part that several kinds may have. known: the settings of all kinds in play."""

    family: str
    key: str
    value: Any
    known: frozenset[str]

    def over(self, settings: Settings, notes: list[str]) -> Settings:
        """Settings with it, or without it and a note where their kind lacks it."""
        kind = kind_in(settings, self.family)
        cls = kinds(self.family).get(kind)
        if self.key in self.known and (cls is None or self.key not in cls.model_fields):
            notes.append(f"{self.family} kind {kind!r} has no {self.key}: left out")
            return settings
        return overlay(settings, {self.family: {self.key: self.value}}, notes)


def _known(family: str, key: str, kinds_in_play: Iterable[str]) -> frozenset[str]:
    """The settings that any of these kinds has. Raises InputError where `key` is none of them."""
    named = set(kinds_in_play)
    there = [cls for kind, cls in kinds(family).items() if kind in named]
    known = frozenset(name for cls in there for name in cls.model_fields)
    if there and key not in known:
        owner = f"{family} kind {' or '.join(repr(kind) for kind in sorted(named))}"
        raise InputError(f"{family}.{key}: {unknown(f'key of {owner}', key, known | {'kind'})}")
    return known
