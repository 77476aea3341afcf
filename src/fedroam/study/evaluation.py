"""From the runs of a study to its numbers: cells beside the paper's, thresholds, verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fedroam.analysis.statistics.threshold import Threshold, smallest_reaching
from fedroam.analysis.statistics.verdicts import Verdict, judge
from fedroam.analysis.variants import mean_and_error
from fedroam.study.claims import Claim
from fedroam.study.findings import Finding
from fedroam.study.items import Cell, Search, Table
from fedroam.study.study import Study
from fedroam.study.values import Find, Reader, Value, together


@dataclass(frozen=True)
class CellResult:
    """A cell with our numbers: mean and standard error over n seeds.

    by_seed: the number of each seed; possible: whether the scale runs what the cell needs.
    """

    cell: Cell
    mean: float
    error: float
    by_seed: dict[int, float]
    possible: bool

    @property
    def n(self) -> int:
        """Seeds that count."""
        return len(self.by_seed)

    @property
    def distance(self) -> float:
        """Our mean minus the paper's number; NaN where either is missing."""
        return math.nan if self.cell.paper is None else self.mean - self.cell.paper


@dataclass(frozen=True)
class SearchResult:
    """A search with its result; None where the scale does not run what it needs."""

    search: Search
    threshold: Threshold | None


@dataclass(frozen=True)
class StudyResult:
    """All that the runs of a study at a scale say so far.

    verdicts: by claim, for those that the scale can test; those of a family were corrected together, the ones whose
    runs are missing counting as undecided. findings: what the study's runs say beyond its claims.
    """

    study: Study
    scale: str
    seeds: tuple[int, ...]
    reader: Reader
    tables: dict[str, tuple[CellResult, ...]]
    searches: dict[str, SearchResult]
    verdicts: dict[str, Verdict]
    missing: tuple[tuple[str, int], ...]
    diverged: tuple[str, ...]
    findings: tuple[Finding, ...] = ()

    def families(self) -> str:
        """How many claims were corrected together: `20 claims`, `20 claims and, apart, over 5 (added later)`."""
        sizes: dict[str, int] = {}
        for claim in self.study.claims:
            if claim.name in self.verdicts:
                sizes[claim.family] = sizes.get(claim.family, 0) + 1
        declared = f"{sizes.pop('', 0)} claims"
        return declared + "".join(f" and, apart, over {n} ({family})" for family, n in sizes.items())

    def claims(self) -> list[tuple[Claim, Verdict | None]]:
        """Each claim with its verdict; None where the scale cannot test it."""
        return [(claim, self.verdicts.get(claim.name)) for claim in self.study.claims]


def evaluate_study(study: Study, scale: str, seeds: Iterable[int], find: Find) -> StudyResult:
    """Evaluate every item of a study by the finished runs that there are. `find` gives them by variant and seed."""
    numbers = tuple(seeds)
    reader = Reader(find, numbers)
    variants = study.needs(scale)
    runs = {(variant, seed): find(variant, seed) for variant in variants for seed in numbers}
    # Findings ask for any variant; they know only those of this scale.
    of_this_scale = Reader(
        lambda variant, seed: find(variant, seed) if variant in variants else None, numbers
    )
    return StudyResult(
        study,
        scale,
        numbers,
        reader,
        {table.name: _cells(table, study, scale, reader) for table in study.tables},
        {search.name: _search(search, study, scale, reader) for search in study.searches},
        _verdicts(study, scale, reader),
        tuple(key for key, run in runs.items() if run is None),
        tuple(
            f"{variant}, seed {seed}: diverged at round {run.status['diverged_at']}; it counts in every mean"
            for (variant, seed), run in runs.items()
            if run is not None and run.status.get("diverged_at") is not None
        ),
        () if study.findings is None else tuple(study.findings(of_this_scale)),
    )


def _verdicts(study: Study, scale: str, reader: Reader) -> dict[str, Verdict]:
    """A verdict on each claim that the scale can test, corrected family by family."""
    families: dict[str, list[Claim]] = {}
    for claim in study.claims:
        if study.can(claim, scale):
            families.setdefault(claim.family, []).append(claim)
    verdicts: dict[str, Verdict] = {}
    for group in families.values():
        found = judge([claim.test.evidence(reader) for claim in group], study.alpha)
        verdicts |= dict(zip((claim.name for claim in group), found, strict=True))
    return verdicts


def _cells(table: Table, study: Study, scale: str, reader: Reader) -> tuple[CellResult, ...]:
    without = set(study.scale(scale).without)
    found = []
    for cell in table.cells:
        possible = not without & set(cell.value.variants)
        by_seed = reader(cell.value) if possible else {}
        mean, error = mean_and_error(list(by_seed.values()))
        if any(math.isinf(value) for value in by_seed.values()):  # never reached, in some seed
            mean = float(np.median(list(by_seed.values())))
        found.append(CellResult(cell, mean, error, by_seed, possible))
    return tuple(found)


def _search(search: Search, study: Study, scale: str, reader: Reader) -> SearchResult:
    if not study.can(search, scale):
        return SearchResult(search, None)
    keys, bound = list(search.values), search.bound
    columns = [reader(value) for value in search.values.values()]
    # A bound that is one number is the same for every seed.
    bounds = reader(bound) if isinstance(bound, Value) else dict.fromkeys(reader.seeds, float(bound))
    *lists, limits = together([*columns, bounds])
    values = np.array(lists, dtype=np.float64).T.reshape(len(limits), len(keys))
    return SearchResult(search, smallest_reaching(keys, values, limits, share=search.share))
