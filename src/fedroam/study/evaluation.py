"""From the runs of a study to its numbers: cells beside the paper's, thresholds, verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fedroam.analysis.statistics.paired import Evidence
from fedroam.analysis.statistics.threshold import Threshold, smallest_reaching
from fedroam.analysis.statistics.verdicts import Verdict, judge
from fedroam.analysis.variants import mean_and_error
from fedroam.study.claims import Claim
from fedroam.study.findings import Finding
from fedroam.study.items import Cell, Search, Table
from fedroam.study.study import Study
from fedroam.study.values import Find, Reader, Value, together


@dataclass(frozen=True)
class Judged:
    """A cell with our numbers: mean and standard error over n seeds; by_seed: the number of each."""

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
class Found:
    """A search with its result; None where the scale does not run what it needs."""

    search: Search
    threshold: Threshold | None


@dataclass(frozen=True)
class Judgement:
    """All that the runs of a study at a scale say so far.

    verdicts: by claim, for those that the scale can judge; those of a family were corrected together, the ones whose
    runs are missing counting as undecided. findings: what the study's runs say beyond its claims.
    """

    study: Study
    scale: str
    seeds: tuple[int, ...]
    reader: Reader
    tables: dict[str, tuple[Judged, ...]]
    searches: dict[str, Found]
    verdicts: dict[str, Verdict]
    missing: tuple[tuple[str, int], ...]
    diverged: tuple[str, ...]
    findings: tuple[Finding, ...] = ()

    def families(self) -> str:
        """Over how many claims verdicts were corrected: `20 claims`, `20 claims and, apart, over 5 (added later)`."""
        sizes: dict[str, int] = {}
        for claim in self.study.claims:
            if claim.name in self.verdicts:
                sizes[claim.family] = sizes.get(claim.family, 0) + 1
        told = f"{sizes.pop('', 0)} claims"
        return told + "".join(f" and, apart, over {n} ({family})" for family, n in sizes.items())

    def claims(self) -> list[tuple[Claim, Verdict | None]]:
        """Each claim with its verdict; None where the scale cannot judge it."""
        return [(claim, self.verdicts.get(claim.name)) for claim in self.study.claims]


def judge_study(study: Study, scale: str, seeds: Iterable[int], find: Find) -> Judgement:
    """Judge every item of a study by the finished runs that there are. `find` gives them by variant and seed."""
    numbers = tuple(seeds)
    reader = Reader(find, numbers)
    variants = study.needs(scale)
    runs = {(variant, seed): find(variant, seed) for variant in variants for seed in numbers}
    able = [claim for claim in study.claims if study.can(claim, scale)]
    verdicts: dict[str, Verdict] = {}
    for family in dict.fromkeys(claim.family for claim in able):
        group = [claim for claim in able if claim.family == family]
        found = judge([claim.test.evidence(reader) for claim in group], study.alpha)
        verdicts |= dict(zip((claim.name for claim in group), found, strict=True))
    here = Reader(lambda variant, seed: find(variant, seed) if variant in variants else None, numbers)
    return Judgement(
        study,
        scale,
        numbers,
        reader,
        {table.name: _cells(table, study, scale, reader) for table in study.tables},
        {search.name: _search(search, study, scale, reader) for search in study.searches},
        verdicts,
        tuple(key for key, run in runs.items() if run is None),
        tuple(
            f"{variant}, seed {seed}: diverged at round {run.status['diverged_at']}; it counts in every mean"
            for (variant, seed), run in runs.items()
            if run is not None and run.status.get("diverged_at") is not None
        ),
        () if study.findings is None else tuple(study.findings(here)),
    )


def _cells(table: Table, study: Study, scale: str, reader: Reader) -> tuple[Judged, ...]:
    without = set(study.scale(scale).without)
    found = []
    for cell in table.cells:
        possible = not without & set(cell.value.variants)
        by_seed = reader(cell.value) if possible else {}
        mean, error = mean_and_error(list(by_seed.values()))
        if any(math.isinf(value) for value in by_seed.values()):  # never reached, in some seed
            mean = float(np.median(list(by_seed.values())))
        found.append(Judged(cell, mean, error, by_seed, possible))
    return tuple(found)


def _search(search: Search, study: Study, scale: str, reader: Reader) -> Found:
    if not study.can(search, scale):
        return Found(search, None)
    columns = [reader(value) for value in search.values.values()]
    bounds = [reader(search.bound)] if isinstance(search.bound, Value) else []
    lists = together([*columns, *bounds])
    n, keys = len(lists[0]), list(search.values)
    values = np.array(lists[: len(keys)], dtype=np.float64).T.reshape(n, len(keys))
    bound = np.array(lists[-1]) if bounds else float(search.bound)  # type: ignore[arg-type]
    return Found(search, smallest_reaching(keys, values, bound, share=search.share))


def evidence_words(evidence: Evidence, unit: str, digits: int = 1) -> str:
    """The numbers of a test: `+33.7 ± 3.1 points (n = 3), 95 % interval +20.2 to +47.2; one-sided t(2) = 10.8`."""
    if evidence.n == 0 or math.isnan(evidence.estimate):
        return f"n = {evidence.n}" + (f"; {evidence.note}" if evidence.note else "")
    sign = "" if unit in ("%", "rounds", "times") else "+"

    def text(value: float) -> str:
        return f"{value:{sign}.{digits}f}".replace("-", "−").replace("inf", "∞")

    words = text(evidence.estimate)
    ratio = unit == "times"  # the error of a ratio is one of its logarithm: the interval tells more
    words += f" ± {evidence.error:.{digits}f}" if math.isfinite(evidence.error) and not ratio else ""
    words += f" {unit}".rstrip() + f" (n = {evidence.n})"
    if math.isfinite(evidence.low):
        words += f", 95 % interval {text(evidence.low)} to {text(evidence.high)}"
    words += f"; {evidence.test}"
    if math.isfinite(evidence.df):
        words += f", t({evidence.df:.0f}) = {evidence.statistic:.2f}".replace("-", "−")
    return words + (f"; {evidence.note}" if evidence.note else "")
