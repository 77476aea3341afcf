"""From the runs of a study to its numbers: cells beside the paper's, thresholds, verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from fedroam.analysis.divergence import breakdown
from fedroam.analysis.statistics.looks import shared
from fedroam.analysis.statistics.moderated import moderate
from fedroam.analysis.statistics.paired import Evidence
from fedroam.analysis.statistics.threshold import Threshold, smallest_reaching
from fedroam.analysis.statistics.verdicts import Verdict, judge, judge_in_order
from fedroam.analysis.variants import mean_and_error
from fedroam.recording import Run
from fedroam.study.claims import Claim
from fedroam.study.findings import Finding, listed
from fedroam.study.items import Cell, DrawnFromRecords, Search, Table
from fedroam.study.kept import RunRecord
from fedroam.study.measures import final
from fedroam.study.study import Study
from fedroam.study.values import Computed, Find, Item, Reader, Value, together


@dataclass(frozen=True)
class CellResult:
    """A cell with our numbers: mean and standard error over n seeds, or the median where one is infinite.

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
    def endless(self) -> bool:
        """Whether the number of a seed is infinite: never reached, or a bound that says nothing."""
        return any(math.isinf(value) for value in self.by_seed.values())

    @property
    def distance(self) -> float:
        """Our mean minus the paper's number; NaN where either is missing."""
        return math.nan if self.cell.paper is None else self.mean - self.cell.paper


@dataclass(frozen=True)
class SearchResult:
    """A search with its result; None where the scale does not run what it needs. by: the seeds by which anything is
    established; 0 where nothing is tested yet."""

    search: Search
    threshold: Threshold | None
    by: int = 0


@dataclass(frozen=True)
class StudyResult:
    """All that the runs of a study at a scale say so far.

    verdicts: by claim, for those that the scale can test; those of a family were corrected together, the ones whose
    runs are missing counting as undecided. looks: the planned ones, in seeds, where the study is looked at while it
    grows (see `analysis.statistics.looks`); seen: the evidence of each claim at each look so far. broke: the runs that
    broke down (see `analysis.divergence`), by variant and seed, and what became of each. findings: what the study's
    runs say beyond its claims. unseen: finished runs whose accuracy by round is not known, so that one which fell back
    to guessing without diverging is not among `broke`.
    """

    study: Study
    scale: str
    seeds: tuple[int, ...]
    reader: Reader
    tables: dict[str, tuple[CellResult, ...]]
    searches: dict[str, SearchResult]
    verdicts: dict[str, Verdict]
    missing: tuple[tuple[str, int], ...]
    broke: dict[tuple[str, int], str]
    findings: tuple[Finding, ...] = ()
    looks: tuple[int, ...] = ()
    seen: dict[str, dict[int, Evidence]] = field(default_factory=dict)
    unseen: tuple[tuple[str, int], ...] = ()

    @property
    def diverged(self) -> list[str]:
        """The runs that broke down, a sentence each."""
        return [f"{variant}, seed {seed}: {broke}" for (variant, seed), broke in self.broke.items()]

    def families(self) -> str:
        """What was corrected together: `3 primary claims in their order, 20 claims and, apart, 5 (added later)`."""
        sizes: dict[str, int] = {}
        for claim in self.study.claims:
            if claim.name in self.verdicts and claim.name not in self.study.primary:
                sizes[claim.family] = sizes.get(claim.family, 0) + 1
        primary = sum(name in self.verdicts for name in self.study.primary)
        parts = [f"{primary} primary claim{'s in their order' * (primary > 1)}"] if primary else []
        others = sizes.pop("", 0)
        if others or not parts:
            parts += [f"{others} {'other ' if primary else ''}claim{'s' * (others != 1)} by Holm's method"]
        parts += [f"apart from them {n} ({family})" for family, n in sizes.items()]
        return listed(parts)

    def kept(self) -> list[RunRecord]:
        """All that items of this scale ask of each run, those that are only drawn among them."""
        read = self.reader.of_scale(self.study.needs(self.scale))
        for figure in self.study.figures:
            if isinstance(figure, DrawnFromRecords):
                figure.seeds_of(read)
        return self.reader.kept()

    def claims(self) -> list[tuple[Claim, Verdict | None]]:
        """Each claim with its verdict, the primary ones first, in their order; None where the scale cannot test it."""
        first = {name: k for k, name in enumerate(self.study.primary)}
        claims = sorted(self.study.claims, key=lambda claim: first.get(claim.name, len(first)))
        return [(claim, self.verdicts.get(claim.name)) for claim in claims]


def evaluate_study(
    study: Study,
    scale: str,
    seeds: Iterable[int],
    find: Find,
    looks: tuple[int, ...] = (),
    computed: Computed | None = None,
) -> StudyResult:
    """Evaluate every item of a study by the finished runs that there are. `find` gives them by variant and seed.

    looks: where the study is looked at while it grows: the numbers of seeds after which it is planned to be, whatever
    has run in between. computed: measures of runs that other evaluations have computed, to which this one adds.
    """
    numbers = tuple(seeds)
    reader = Reader(find, numbers, computed)
    variants = study.needs(scale)
    runs = {(variant, seed): find(variant, seed) for variant in variants for seed in numbers}
    seen = _seen(study, scale, reader, looks)
    of_this_scale = reader.of_scale(variants)  # findings ask for any variant
    return StudyResult(
        study,
        scale,
        numbers,
        reader,
        {table.name: _cells(table, study, scale, reader) for table in study.tables},
        {search.name: _search(search, study, scale, reader, looks) for search in study.searches},
        _verdicts(study, seen, looks),
        tuple(key for key, run in runs.items() if run is None),
        {which: broke for which, run in runs.items() if run is not None and (broke := _breakdown(run))},
        () if study.findings is None else tuple(study.findings(of_this_scale)),
        looks,
        seen if looks else {},
        tuple(which for which, run in runs.items() if run is not None and _accuracy(run) is None),
    )


def _breakdown(run: Run | RunRecord) -> str:
    """What is told of a run that broke down, as far as it is known."""
    end = run.numbers.get(final.name) if isinstance(run, RunRecord) else None
    return breakdown(_accuracy(run), run.status.get("diverged_at"), None if end is None else end[1] / 100)


def _accuracy(run: Run | RunRecord) -> pd.Series | None:
    """A run's accuracy by round; None where it was not kept."""
    return run.curves.get("accuracy") if isinstance(run, RunRecord) else run.by_round["accuracy"]


def lacking(study: Study, scale: str, items: Iterable[Item], reader: Reader) -> set[tuple[str, int]]:
    """The kept runs (variant and seed) that lack a number or a curve which an item asks for.

    A run is kept with what was asked of it then; a claim or a table of today may ask for more.
    """
    variants = study.needs(scale)
    for item in items:
        probe = reader.of_scale(variants)
        if isinstance(item, Table):
            _cells(item, study, scale, probe)
        elif isinstance(item, Search):
            _search(item, study, scale, probe, ())
        elif isinstance(item, Claim):
            item.test.evidence(probe)
        elif isinstance(item, DrawnFromRecords):
            item.seeds_of(probe)
        reader.lacking |= probe.lacking
    return reader.lacking


def _seen(study: Study, scale: str, reader: Reader, looks: tuple[int, ...]) -> dict[str, dict[int, Evidence]]:
    """The evidence of each claim that the scale can test, at each look whose runs are there; without looks as it is."""
    found: dict[str, dict[int, Evidence]] = {c.name: {} for c in study.claims if study.can(c, scale)}
    for seeds in looks or (len(reader.seeds),):
        if seeds <= len(reader.seeds):
            for name, evidence in _evidence(study, tuple(found), reader.first(seeds)).items():
                if evidence.n == seeds or not looks:
                    found[name][seeds] = evidence
    return found


def _evidence(study: Study, names: tuple[str, ...], reader: Reader) -> dict[str, Evidence]:
    """The evidence of claims: of primary ones by their own variance, of the others by moderated ones.

    Spreads are those of the declared claims and of the claim's own family, so that what is added later leaves the
    declared ones as they were.
    """
    claims = {claim.name: claim for claim in study.claims if claim.name in names}
    plain = {name: claim.test.evidence(reader) for name, claim in claims.items()}
    found: dict[str, Evidence] = {}
    for family in dict.fromkeys(claim.family for claim in claims.values()):
        known = [name for name, claim in claims.items() if claim.family in ("", family)]
        moderated = dict(zip(known, moderate([plain[name] for name in known]), strict=True))
        found |= {name: moderated[name] for name in known if claims[name].family == family}
    return found | {name: plain[name] for name in study.primary if name in plain}


def _verdicts(
    study: Study, seen: dict[str, dict[int, Evidence]], looks: tuple[int, ...]
) -> dict[str, Verdict]:
    """A verdict on each claim that the scale can test: primary ones in their order, others family by family."""
    before = Evidence("", 0, note=f"the first look is after {looks[0]} seeds" if looks else "")
    evidence = {
        name: shared(list(found.values()), len(looks) or 1) if found else before
        for name, found in seen.items()
    }
    families: dict[str, list[str]] = {}
    for claim in study.claims:
        if claim.name in seen and claim.name not in study.primary:
            families.setdefault(claim.family, []).append(claim.name)
    primary = [name for name in study.primary if name in seen]
    verdicts = dict(
        zip(primary, judge_in_order([evidence[name] for name in primary], study.alpha, looks), strict=True)
    )
    for group in families.values():
        judged = judge([evidence[name] for name in group], study.alpha, looks)
        verdicts |= dict(zip(group, judged, strict=True))
    return {claim.name: verdicts[claim.name] for claim in study.claims if claim.name in verdicts}


def _cells(table: Table, study: Study, scale: str, reader: Reader) -> tuple[CellResult, ...]:
    without = set(study.scale(scale).without)
    found = []
    for cell in table.cells:
        possible = not without & set(cell.value.variants)
        by_seed = reader(cell.value) if possible else {}
        mean, error = mean_and_error(list(by_seed.values()))
        result = CellResult(cell, mean, error, by_seed, possible)
        found.append(
            replace(result, mean=float(np.median(list(by_seed.values())))) if result.endless else result
        )
    return tuple(found)


def _search(search: Search, study: Study, scale: str, reader: Reader, looks: tuple[int, ...]) -> SearchResult:
    """What is reached from which key on. What is established is so after the last planned look that is whole, at its
    share of the level, as of claims; without planned looks by all seeds."""
    if not study.can(search, scale):
        return SearchResult(search, None)
    found = _threshold(search, reader, study.alpha)
    if not looks:
        return SearchResult(search, found, len(found.by_seed))
    for seeds in reversed([look for look in looks if look <= len(reader.seeds)]):
        then = _threshold(search, reader.first(seeds), study.alpha / len(looks))
        if len(then.by_seed) == seeds:
            return SearchResult(search, replace(found, sure=then.sure, ruled_out=then.ruled_out), seeds)
    return SearchResult(search, replace(found, sure=None, ruled_out=None))


def _threshold(search: Search, reader: Reader, alpha: float) -> Threshold:
    """The threshold by all seeds that a reader has, each test at this level."""
    keys, bound = list(search.values), search.bound
    columns = [reader(value) for value in search.values.values()]
    # A bound that is one number is the same for every seed.
    bounds = reader(bound) if isinstance(bound, Value) else dict.fromkeys(reader.seeds, float(bound))
    *lists, limits = together([*columns, bounds])
    values = np.array(lists, dtype=np.float64).T.reshape(len(limits), len(keys))
    return smallest_reaching(keys, values, limits, share=search.share, alpha=alpha)
