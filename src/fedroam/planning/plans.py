"""What resolving gives: a plan, whose runs go one after the other, and the plan of a sweep."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fedroam.checks.arguments import check_fields
from fedroam.experiment import Experiment

# What a plan's folder, or the report in it, holds beside the folders of variants.
OWN_NAMES = ("report.html", "figures", "run.json", "runs", "sweep.json", "sweep.toml")


@dataclass(frozen=True)
class PlannedRun:
    """One run of a plan: the name of its variant ('' if the plan has none) and its experiment."""

    variant: str
    experiment: Experiment

    @property
    def folder(self) -> str:
        """Where it goes below the plan's folder, e.g. `random/seed-2`."""
        seed = f"seed-{self.experiment.seed}"
        return f"{self.variant}/{seed}" if self.variant else seed


@dataclass(frozen=True)
class Plan:
    """An experiment file, resolved: its runs (variants times seeds) and what a reader should know of it.

    source is what messages call it: its file, or its name where it has one; nothing where it came from no file. use are
    the files of the user's own parts (absolute paths), to be loaded wherever a run is computed.
    """

    name: str
    runs: tuple[PlannedRun, ...]
    notes: tuple[str, ...] = ()
    source: str = ""
    use: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self, runs="runs, as plan(...).runs are")

    @property
    def digest(self) -> str:
        """Identity of the whole plan, independent of the order of its runs."""
        return _sha256(f"{run.variant} {run.experiment.digest}" for run in self.runs)

    @property
    def folder(self) -> Path:
        """Where it goes by default: `runs/NAME-DIGEST`, whatever the number of seeds."""
        first = {run.variant: PlannedRun(run.variant, run.experiment.replace(seed=0)) for run in self.runs}
        one = Plan(self.name, tuple(first.values()))
        digest = first[""].experiment.digest if first.keys() == {""} else one.digest
        return Path("runs") / f"{self.name}-{digest[:8]}"


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
class RefusedRun:
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
    refused: tuple[RefusedRun, ...] = ()
    notes: tuple[str, ...] = ()
    source: str = ""
    use: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self, runs="runs, as sweep_plan(...).runs are")

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
        return _sha256({run.experiment.replace(seed=0).digest for run in self.runs})

    @property
    def folder(self) -> Path:
        """Where it goes by default: `sweeps/NAME-DIGEST`."""
        return Path("sweeps") / f"{self.name}-{self.digest[:8]}"


def title(keys: Mapping[str, Any], seed: int | None = None) -> str:
    """Varied settings for people, and the seed where it is given."""
    told = ", ".join(str(v) if k == "variant" else f"{k}={v}" for k, v in keys.items())
    return told if seed is None else ", ".join(filter(None, (told, f"seed {seed}")))


def _sha256(lines: Iterable[str]) -> str:
    """SHA-256 (hex) over lines of text, whatever their order."""
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()
