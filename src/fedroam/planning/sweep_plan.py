"""From a file and the command line to the runs of a sweep."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import tomli_w

from fedroam.components import FAMILIES, Part, kinds, load_rooms, use
from fedroam.errors import InputError, unknown
from fedroam.experiment import (
    Experiment,
    named_experiments,
    nest,
    overlay,
    parse_assignment,
    read_settings,
)
from fedroam.planning.axes import Axes, Combination, label, read_axes

USED = "fedroam_use_"  # how `components.use` names the modules it loads


@dataclass(frozen=True)
class SweepRun:
    """One run of a sweep: its experiment, and the varied settings of this run by dotted name.

    keys also holds "variant" where the sweep has named variants. Values that are no numbers or words (a whole
    part, a list) are told as text, see `axes.label`.
    """

    experiment: Experiment
    keys: Mapping[str, Any]

    @property
    def title(self) -> str:
        """The varied settings for people: `static, training.lr=0.1`, '' where nothing varies but the seed."""
        return title(self.keys)


@dataclass(frozen=True)
class Refused:
    """A combination that is no valid experiment: its varied settings, its seed, and what is wrong (one line)."""

    keys: Mapping[str, Any]
    seed: int
    reason: str


@dataclass(frozen=True)
class SweepPlan:
    """A sweep, resolved. runs are ordered by variant, zipped row, grid and seed; varied are the names of `keys`.

    The same run (equal digests) may stand there for several combinations, where a varied setting means nothing to
    one of them, as `mobility.mobile` to kind `static`: it is computed once and counts for each of them. refused
    are combinations that are no valid experiment; source is the whole sweep as TOML; use are the files of the
    user's own parts (absolute paths), to be loaded wherever a run is computed.
    """

    name: str
    runs: tuple[SweepRun, ...]
    varied: tuple[str, ...]
    refused: tuple[Refused, ...] = ()
    notes: tuple[str, ...] = ()
    source: str = ""
    use: tuple[str, ...] = ()

    @cached_property
    def distinct(self) -> dict[str, SweepRun]:
        """The runs to compute by digest: of equal ones the first."""
        found: dict[str, SweepRun] = {}
        for run in self.runs:
            found.setdefault(run.experiment.digest, run)
        return found

    @cached_property
    def digest(self) -> str:
        """Identity of what the sweep compares, whatever the number of seeds and the order."""
        families = sorted({run.experiment.replace(seed=0).digest for run in self.runs})
        return hashlib.sha256("\n".join(families).encode()).hexdigest()

    @property
    def folder(self) -> Path:
        """Where it goes by default: `sweeps/NAME-DIGEST`."""
        return Path("sweeps") / f"{self.name}-{self.digest[:8]}"


def title(keys: Mapping[str, Any]) -> str:
    """Varied settings for people."""
    return ", ".join(str(v) if k == "variant" else f"{k}={v}" for k, v in keys.items())


def sweep_plan(
    source: str | Path | Mapping[str, Any] | Experiment,
    *,
    over: Iterable[str] = (),
    assignments: Iterable[str] = (),
    seeds: int | None = None,
    use: Iterable[str | Path] = (),
) -> SweepPlan:
    """Resolve an experiment file (or name, mapping, experiment) into the runs of a sweep.

    Runs are variants x rows of `[sweep.zip]` x `[sweep.grid]` x seeds. `over` are the texts of `--over`
    (`"mobility.kind=static,random"`), added to the grid; `assignments` those of `--set`, laid over the file and
    the variants; `seeds=K` runs seeds seed .. seed + K - 1, the same for every variant, so that differences are
    paired. A varied `mobility = [{kind = "random", mobile = 3}, "static"]` replaces the whole part; a varied
    `mobility.kind` keeps the settings that the new kind knows too. A varied setting that the kind of a combination
    lacks, but another kind of the sweep has, is left out there (a note says so).

    Raises InputError with one line where an axis makes no sense, or no combination is a valid experiment. Where
    only some are, the others stand in `SweepPlan.refused`.
    """
    over, assignments = tuple(over), tuple(assignments)
    settings, home, place = _read(source)
    try:
        files = _use(settings.pop("use", []), home, use)
        axes = read_axes(settings.pop("sweep", {}), over)
        notes: list[str] = []
        variants = _variants(settings.pop("variants", {}), axes, notes)
        count: Any = settings.pop("seeds", 1)
        for text in assignments:
            keys, value = parse_assignment(text)
            if keys[0] == "seeds":
                count = value
                continue
            if any(name in (keys[0], ".".join(keys)) for name in axes.names):
                raise InputError(f"--set {text}: the sweep varies it; give its values with --over instead")
            settings = overlay(settings, nest(keys, value), notes)
        count = seeds if seeds is not None else count
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= 10_000:
            raise InputError(f"seeds = {count!r}: allowed is a whole number from 1 to 10000")
        runs, refused = _runs(settings, variants, axes, assignments, count, notes)
    except InputError as error:
        raise InputError(f"{place}: {error}" if place else str(error)) from None
    varied = (*(["variant"] if variants else []), *axes.names)
    name = runs[0].experiment.name
    whole = {**settings, "seeds": count, "use": files, "variants": variants, "sweep": axes.table()}
    text = tomli_w.dumps({k: v for k, v in whole.items() if v or k in settings})
    files = tuple(dict.fromkeys([*files, *_files_of(runs)]))
    return SweepPlan(name, runs, varied, refused, tuple(dict.fromkeys(notes)), text, files)


def _read(source: str | Path | Mapping[str, Any] | Experiment) -> tuple[dict[str, Any], Path, str]:
    """Raw settings, the folder that relative `use` files start from, and a name for messages ('' for none)."""
    if isinstance(source, Experiment):
        return source.settings(), Path(), ""
    if isinstance(source, Mapping):
        return {k: v.settings() if isinstance(v, Part) else v for k, v in source.items()}, Path(), ""
    settings, place = read_settings(source)
    return settings, named_experiments().get(str(source), Path(source)).parent, place


def _use(given: Any, home: Path, more: Iterable[str | Path]) -> tuple[str, ...]:
    """Load the user's parts: those a file names (from its own folder) and those of `--use`; absolute paths."""
    named = [given] if isinstance(given, str) else list(given)
    paths = [str((home / str(file)).resolve()) for file in named]
    for path in paths:
        use(path)
    for file in more:
        use(file)
        paths.append(str(Path(file).resolve()))
    return tuple(dict.fromkeys(paths))


def _files_of(runs: Iterable[SweepRun]) -> list[str]:
    """Files of own parts that were loaded before, by `fr.use`, and that these runs are made of."""
    load_rooms()
    found: dict[str, None] = {}
    for run in runs:
        for family in FAMILIES:
            module = type(getattr(run.experiment, family)).__module__
            file = getattr(sys.modules.get(module), "__file__", None)
            if module.startswith(USED) and file:
                found[str(Path(file).resolve())] = None
    return list(found)


def modules_of(runs: Iterable[SweepRun]) -> list[str]:
    """Modules that can be imported by name and hold parts of these runs that are not fedroam's own."""
    names = {type(getattr(run.experiment, family)).__module__ for run in runs for family in FAMILIES}
    own = ("__main__", "__mp_main__")
    return sorted(n for n in names if n not in own and not n.startswith((USED, "fedroam.")))


def _variants(given: Any, axes: Axes, notes: list[str]) -> dict[str, Mapping[str, Any]]:
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
    return dict(given)


def _runs(
    settings: Mapping[str, Any],
    variants: Mapping[str, Mapping[str, Any]],
    axes: Axes,
    assignments: Iterable[str],
    count: int,
    notes: list[str],
) -> tuple[tuple[SweepRun, ...], tuple[Refused, ...]]:
    cells: list[tuple[str, dict[str, Any], Combination]] = []
    for variant, changes in (variants or {"": {}}).items():
        varied = overlay(settings, changes, notes)
        for text in assignments:  # the command line has the last word over variants too, but for their kind
            keys, value = parse_assignment(text)
            if keys[0] in changes and keys[-1] != "kind":
                varied = overlay(varied, nest(keys, value), notes)
        cells += [(variant, varied, combination) for combination in axes.combinations()]
    laid = [_whole(varied, combination, notes) for _, varied, combination in cells]
    known = _kinds_in_play(laid, axes)
    runs: list[SweepRun] = []
    refused: list[Refused] = []
    for (variant, _, combination), base in zip(cells, laid, strict=True):
        own: dict[str, Any] = {"variant": variant} if variant else {}
        own.update({name: label(value) for name, value in combination.items()})
        seed = base.get("seed", 0)
        try:
            first = Experiment(**_details(base, combination, known, notes))
            # Seeds are paired: every combination runs the same ones.
            each = [SweepRun(first.replace(seed=first.seed + k), own) for k in range(count)]
        except InputError as error:
            each = []
            numbers = range(seed, seed + count) if isinstance(seed, int) else range(count)
            refused += [Refused(own, number, str(error)) for number in numbers]
        runs += each
    if not runs:
        raise InputError(refused[0].reason)
    return tuple(runs), tuple(refused)


def _whole(settings: Mapping[str, Any], combination: Combination, notes: list[str]) -> dict[str, Any]:
    """The settings with this combination's whole parts and kinds."""
    result = dict(settings)
    for name, value in combination.items():
        family, dot, rest = name.partition(".")
        if not dot:
            result[name] = value
        elif rest == "kind":
            result = overlay(result, {family: {"kind": value}}, notes)
    return result


def _details(
    settings: Mapping[str, Any], combination: Combination, known: Mapping[str, set[str]], notes: list[str]
) -> dict[str, Any]:
    """The settings with this combination's settings of parts, but for those that its kind does not have."""
    result = dict(settings)
    for name, value in combination.items():
        family, dot, rest = name.partition(".")
        if not dot or rest == "kind":
            continue
        kind = _kind(result, family)
        fields = kinds(family)[kind].model_fields if kind in kinds(family) else {}
        if rest not in fields and rest in known[family]:
            notes.append(f"{family} kind {kind!r} has no {rest}: left out")
        else:
            result = overlay(result, nest([family, rest], value), notes)
    return result


def _kind(settings: Mapping[str, Any], family: str) -> str:
    part = settings.get(family, {})
    if isinstance(part, Mapping):
        return str(part.get("kind", FAMILIES[family].default))
    return str(getattr(part, "kind", part))


def _kinds_in_play(laid: Iterable[Mapping[str, Any]], axes: Axes) -> dict[str, set[str]]:
    """For each family of which a setting varies: the settings that any of its kinds in this sweep has."""
    known: dict[str, set[str]] = {}
    for name in axes.names:
        family, dot, rest = name.partition(".")
        if not dot or rest == "kind":
            continue
        named = {_kind(settings, family) for settings in laid}
        there = [kinds(family)[kind] for kind in named if kind in kinds(family)]
        known[family] = {field for cls in there for field in cls.model_fields}
        if there and rest not in known[family]:
            raise unknown(f"setting of {family} kind {' or '.join(sorted(named))}", rest, known[family])
    return known
