"""From a file (or a name, or settings) and the command line to the runs: one resolver for all that ask.

`plan` and `sweep_plan` differ in what they return alone. Every run is laid together in the same order: the file's
settings, a variant's, the kinds that the sweep varies, the settings of parts that `--set` gives, and those that the
sweep varies.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from fedroam.checks.arguments import checked
from fedroam.components import FAMILIES, Part, kinds, lookup, plain
from fedroam.components import use as load
from fedroam.errors import InputError, unknown
from fedroam.experiment import Experiment
from fedroam.facts import BeyondLimits, within_limits
from fedroam.planning.axes import MOST, Axes, Combination, label, read_axes
from fedroam.planning.own_parts import files_of
from fedroam.planning.plans import OWN_NAMES, Plan, PlannedRun, RefusedRun, SweepPlan, SweepRun
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
A_SOURCE = "an experiment file, the name of one, settings, or an Experiment"
SEEDS = "a whole number from 1 to 10000"


@checked(source=A_SOURCE, seeds=SEEDS)
def plan(
    source: Source,
    *,
    assignments: Iterable[str] = (),
    seeds: int | None = None,
    use: Iterable[str | Path] = (),
    common_data: Callable[[Any], None] | None = None,
) -> Plan:
    """Resolve an experiment file (or name, mapping, experiment) into its runs: variants x seeds.

    `assignments` are the texts of `--set`, laid over the file and over the variants; one of a part's settings is
    left out where a variant's kind lacks it (a note says so). `seeds=K` runs seeds seed, seed + 1, ..., seed + K - 1
    and overrides the file's own `seeds`. `use` are files of parts of one's own. `common_data` is given what the file
    says of the data set, before it is checked, if all runs have that in common. Raises InputError with one line where
    anything is wrong.
    """
    found = _resolve(source, assignments, seeds, use, over=None, common_data=common_data)
    runs = tuple(PlannedRun(run.keys.get("variant", ""), run.experiment) for run in found.runs)
    named = "" if isinstance(source, Experiment | Mapping) else str(source)
    return Plan(found.name, runs, found.notes, named, found.use)


@checked(source=A_SOURCE, seeds=SEEDS)
def sweep_plan(
    source: Source,
    *,
    over: Iterable[str] = (),
    assignments: Iterable[str] = (),
    seeds: int | None = None,
    use: Iterable[str | Path] = (),
    to_run: bool = True,
) -> SweepPlan:
    """Resolve an experiment file (or name, mapping, experiment) into the runs of a sweep.

    Runs are variants x rows of `[sweep.zip]` x `[sweep.grid]` x seeds. `over` are the texts of `--over`
    (`"mobility.kind=static,random"`), added to the grid; `assignments`, `seeds` and `use` are those of `plan`. Every
    variant runs the same seeds, so that differences are paired. A varied `mobility = [{kind = "random", mobile = 3},
    "static"]` replaces the whole part; a varied `mobility.kind` keeps the settings that the new kind knows too. A
    varied setting that the kind of a combination lacks, but another kind of the sweep has, is left out there (a note
    says so).

    Raises InputError with one line where an axis makes no sense, or no combination is a valid experiment. Where
    only some are, the others stand in `SweepPlan.refused`; among them, unless `to_run` is false, those of which a
    part is not for so many clients.
    """
    return _resolve(source, assignments, seeds, use, over, to_run=to_run)


def _resolve(
    source: Source,
    assignments: Iterable[str],
    seeds: int | None,
    use: Iterable[str | Path],
    over: Iterable[str] | None,
    common_data: Callable[[Any], None] | None = None,
    to_run: bool = False,
) -> SweepPlan:
    """Read, check and multiply. over is None for a plan: nothing varies but variants and seeds, and whatever is
    refused is an error."""
    settings, home, name = _read(source)
    notes: list[str] = []
    with _named(name):
        files = _load((home / file for file in _own_files(settings.pop("use", []))), "use")
    files = list(dict.fromkeys([*files, *_load(use)]))
    with _named(name):
        if over is None and "sweep" in settings:
            raise InputError("sweep: this file describes a sweep; use fedroam sweep")
        axes = read_axes(settings.pop("sweep", {}), over or ())
        variants = _variants(settings.pop("variants", {}), axes, notes)
        if over is None:  # each gets a folder of its name; the runs of a sweep are named by their digests
            for variant in variants:
                if variant.lower() in OWN_NAMES:
                    told = ", ".join(OWN_NAMES)
                    raise InputError(
                        f"variants.{variant}: a plan's folder itself has {told}; choose another name"
                    )
        count = settings.pop("seeds", 1)
        assigned = [one for text in assignments for one in _assigned(text, axes)]
        changed = {name for changes in variants.values() for name in changes} | {one.name for one in assigned}
        if common_data is not None and "data" not in changed:
            common_data(settings.get("data", {}))
        foreign = []  # settings of parts that the file's own kind lacks
        for one in assigned:
            if one.name == "seeds":
                count = one.value
            elif one.fits(settings):
                settings = overlay(settings, one.nested, notes)
            else:
                foreign.append(one)
        for one in foreign:
            if one.fits(settings):  # the kind that has it was named after it
                settings = overlay(settings, one.nested, notes)
        count = plain(seeds if seeds is not None else count)
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= 10_000:
            raise InputError(f"seeds = {count!r}: allowed is {SEEDS}")
        wanted = max(len(variants), 1) * axes.size * count
        if wanted > MOST:
            raise InputError(
                f"{wanted} runs ({max(len(variants), 1)} variant(s), {axes.size} combination(s), {count} seed(s)); "
                f"allowed are up to {MOST}"
            )
        variants = {
            variant: _over_variant(assigned, variant, changes, settings, notes)
            for variant, changes in variants.items()
        }
        cells = [
            (variant, _with_kinds(overlay(settings, changes, notes), combination, notes), combination)
            for variant, changes in (variants or {"": {}}).items()
            for combination in axes.combinations()
        ]
        laid = [base for _, base, _ in cells]
        _check_keys(foreign, [settings, *laid])
        _check_keys(_varied(cells[0][2]), laid)
        runs, refused = _runs(cells, assigned, count, notes, to_run)
        if refused and (over is None or not runs):
            raise InputError(_whose(refused))
        notes += _alike(runs)
    whole = {**settings, "seeds": count, "use": files, "variants": variants, "sweep": axes.table()}
    return SweepPlan(
        name=runs[0].experiment.name,
        runs=runs,
        varied=(*(["variant"] if variants else []), *axes.names),
        refused=refused,
        notes=tuple(dict.fromkeys(notes)),
        source="" if over is None else tomli_w.dumps({k: v for k, v in whole.items() if v or k in settings}),
        use=tuple(dict.fromkeys([*files, *files_of(run.experiment for run in runs)])),
    )


@contextlib.contextmanager
def _named(source: str) -> Iterator[None]:
    """Within it, an error of the user's begins with what was to be resolved."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def _whose(refused: Sequence[RefusedRun]) -> str:
    """What is wrong with the first, and with which variant, where it is wrong with one alone."""
    first = refused[0]
    variants = {str(row.keys.get("variant", "")) for row in refused if row.reason == first.reason}
    named = first.keys.get("variant") if len(variants) == 1 else None
    return f"variant {named!r}: {first.reason}" if named else first.reason


def _check_clients(experiment: Experiment) -> None:
    """Raise InputError where a part is not for so many clients."""
    for family, part in experiment:
        if isinstance(part, Part):
            try:
                part.check_clients(experiment.clients)
            except InputError as error:
                raise InputError(f"{family} kind {part.kind!r}: {error}") from None


def _alike(runs: Sequence[SweepRun]) -> list[str]:
    """A note for variants that are one and the same experiment, as where `--set` has the last word over what they set:
    told of the first seed and combination.
    """

    def varied(run: SweepRun) -> tuple[int, dict[str, Any]]:
        return run.experiment.seed, {name: value for name, value in run.keys.items() if name != "variant"}

    same: dict[str, list[str]] = {}
    for run in runs if "variant" in runs[0].keys else ():
        if varied(run) == varied(runs[0]):
            same.setdefault(run.experiment.digest, []).append(str(run.keys["variant"]))
    return [
        f"variants {', '.join(names)} are the same experiment: their runs will not differ"
        for names in same.values()
        if len(names) > 1
    ]


def _read(source: Source) -> tuple[Settings, Path, str]:
    """Raw settings, the folder that relative `use` files start from, and a name for messages."""
    if isinstance(source, Experiment):
        return source.settings(), Path(), "experiment"
    if isinstance(source, Mapping):
        try:
            within_limits(source)
        except BeyondLimits as error:
            raise InputError(f"experiment: {error}") from None
        return plain_parts(source), Path(), "experiment"
    settings, name = read_settings(source)
    return settings, named_experiments().get(str(source), Path(source)).parent, name


def _own_files(given: Any) -> list[str | Path]:
    """The files of parts that settings say to use."""
    files = [given] if isinstance(given, str | Path) else given
    if not isinstance(files, list | tuple) or not all(isinstance(file, str | Path) for file in files):
        raise InputError(f"use = {given!r}: allowed is the name of a Python file, or a list of such names")
    return [*files]


def _load(files: Iterable[str | Path], owner: str = "--use") -> list[str]:
    """Load files of the user's parts, which `owner` names; their absolute paths."""
    loaded = []
    for file in files:
        load(file, owner)
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
            raise InputError(
                f"variants.{variant}: allowed are letters, digits, dots, dashes and underscores in a name, the "
                "first one a letter or digit"
            )
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
class _Setting:
    """One setting to be laid over others: of a part (its kind, or a key of its kind), or with key '' a whole value.

    text: the `--set` that says so, if one does.
    """

    name: str
    key: str
    value: Any
    text: str = ""

    @property
    def nested(self) -> Settings:
        """As an experiment file says it."""
        return {self.name: {self.key: self.value} if self.key else self.value}

    @property
    def is_detail(self) -> bool:
        """Whether it is a key of a part's kind, which another kind may lack."""
        return self.key not in ("", "kind")

    def fits(self, settings: Mapping[str, Any]) -> bool:
        """Whether settings have a place for it. A kind that is not known has: it will be refused itself."""
        cls = kinds(self.name).get(kind_in(settings, self.name)) if self.is_detail else None
        return cls is None or self.key in cls.model_fields


def _assigned(text: str, axes: Axes) -> list[_Setting]:
    """What a `--set` says, the kind of a part before its keys. Raises InputError where the sweep varies it, and for a
    kind that is not known."""
    keys, value = parse_assignment(text)
    name, inner = keys[0], nest(keys[1:], value)
    section = {"kind": inner} if isinstance(inner, str) else inner
    if name not in FAMILIES or not isinstance(section, Mapping):
        found = [_Setting(name, "", inner, text)]
    else:
        if isinstance(section.get("kind"), str):
            lookup(
                name, section["kind"]
            )  # variants may all keep theirs: then nobody else would see that it is none
        order = sorted(section, key=lambda key: key != "kind")
        found = [_Setting(name, key, section[key], text) for key in order]
    if any(axis in (name, *(f"{name}.{one.key}" for one in found)) for axis in axes.names):
        raise InputError(f"--set {text}: the sweep varies it; give its values with --over instead")
    return found


def _over_variant(
    assigned: Iterable[_Setting],
    variant: str,
    changes: Settings,
    settings: Mapping[str, Any],
    notes: list[str],
) -> Settings:
    """A variant's settings, where `--set` has the last word over all but the variant's kinds: that it keeps."""
    for one in assigned:
        if one.name in changes:
            laid = overlay(settings, changes, [])
            if one.key != "kind":
                changes = overlay(changes, one.nested, []) if one.fits(laid) else changes
            elif kind_in(laid, one.name) != str(one.value):
                own = kind_in(laid, one.name)
                notes.append(f"--set {one.text}: variant {variant!r} keeps its own kind {own!r}")
    return changes


def _with_kinds(settings: Settings, combination: Combination, notes: list[str]) -> Settings:
    """Settings with a combination's whole values and kinds of parts."""
    for name, value in combination.items():
        family, dot, key = name.partition(".")
        if not dot:
            settings = {**settings, name: value}
        elif key == "kind":
            settings = overlay(settings, {family: {"kind": value}}, notes)
    return settings


def _varied(combination: Combination) -> list[_Setting]:
    """A combination's settings of parts' kinds."""
    named = [_Setting(*name.partition(".")[::2], value) for name, value in combination.items()]
    return [one for one in named if one.is_detail]


def _check_keys(details: Iterable[_Setting], laid: Collection[Mapping[str, Any]]) -> None:
    """Raise InputError for the key of a part that none of the kinds has which these settings give it."""
    for one in details:
        named = {kind_in(settings, one.name) for settings in laid}
        there = [cls for kind, cls in kinds(one.name).items() if kind in named]
        known = {key for cls in there for key in cls.model_fields}
        if there and one.key not in known:
            owner = f"{one.name} kind {' or '.join(repr(kind) for kind in sorted(named))}"
            raise InputError(f"{one.name}.{one.key}: {unknown(f'key of {owner}', one.key, known | {'kind'})}")


def _runs(
    cells: Iterable[tuple[str, Settings, Combination]],
    assigned: Iterable[_Setting],
    count: int,
    notes: list[str],
    to_run: bool,
) -> tuple[tuple[SweepRun, ...], tuple[RefusedRun, ...]]:
    """Each combination's runs, or what is wrong with it; cells: its variant, settings and kinds, varied values."""
    details = [one for one in assigned if one.is_detail]
    runs: list[SweepRun] = []
    refused: list[RefusedRun] = []
    for variant, settings, combination in cells:
        own: dict[str, Any] = {"variant": variant} if variant else {}
        own.update({name: label(value) for name, value in combination.items()})
        for one in (*details, *_varied(combination)):
            if one.fits(settings):
                settings = overlay(settings, one.nested, notes)
            else:
                kind = kind_in(settings, one.name)
                notes.append(f"{one.name} kind {kind!r} has no {one.key}: left out")
        seed = settings.get("seed", 0)
        try:
            first = Experiment(**settings)
            if to_run:
                _check_clients(first)
            # Seeds are paired: every combination runs the same ones.
            runs += [SweepRun(first.replace(seed=first.seed + k), own) for k in range(count)]
        except InputError as error:
            numbers = range(seed, seed + count) if isinstance(seed, int) else range(count)
            refused += [RefusedRun(own, number, str(error)) for number in numbers]
    return tuple(runs), tuple(refused)
