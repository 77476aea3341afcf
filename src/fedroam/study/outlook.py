"""What is kept of the runs that a study needs, and what it would take to decide what is undecided."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean

from fedroam.analysis.statistics.chances import points_to_yes
from fedroam.analysis.statistics.looks import following
from fedroam.study.claims import NO_TEST, Claim
from fedroam.study.evaluation import StudyResult
from fedroam.study.kept import SIMULATION, RunRecord, Where
from fedroam.study.study import Study
from fedroam.study.values import Item

# Runs of a variant by whose seconds another one is reckoned, those of its highest seeds: seeds are run in their order,
# and fedroam becomes faster.
LATEST = 2


@dataclass(frozen=True)
class More:
    """Runs that are still to be computed, and the core hours that they take (NaN: of some, nothing is known).

    seeds: of each variant, in all; 0 where no number of seeds is known to be enough; estimated: whether some are of
    variants without a measured run, which are taken to cost what runs of the scale did of late, or do on average;
    clock: hours of those that the nodes of a network play, which last as long as their clock says, whatever computes
    them, and are no core hours (NaN: of some, nothing is known).
    """

    seeds: int
    runs: int
    hours: float
    estimated: bool = False
    clock: float = 0.0


@dataclass(frozen=True)
class Outlook:
    """Runs that are kept of those that the study needs at its scale, in all and for its claims; and what is to come.

    A claim that a planned look has decided, or that none will, needs no more seeds than it was judged by, and each
    other one those of its next look; without looks all of them need all. missing:
    what the claims lack; of_claim: what would decide each undecided claim, by name, where a number of seeds is known;
    together: what would decide all of these that a planned look would; first: what the first look at each claim takes
    that waits for runs, by name; first_together: what those at all of them take; last: what all looks up to the last
    take at each undecided claim that has been looked at and that no known number of seeds decides, by name.
    """

    kept: int
    needed: int
    kept_of_claims: int
    needed_of_claims: int
    missing: More
    of_claim: Mapping[str, More] = field(default_factory=dict)
    together: More = field(default=More(0, 0, 0.0))
    first: Mapping[str, More] = field(default_factory=dict)
    first_together: More = field(default=More(0, 0, 0.0))
    last: Mapping[str, More] = field(default_factory=dict)

    def within(self, last: int | None) -> list[str]:
        """The claims of `of_claim` that so many seeds decide; without a last look all of them."""
        return [name for name, more in self.of_claim.items() if last is None or more.seeds <= last]


class _Costs:
    """Runs by what they compute: variants whose settings are the same share theirs."""

    def __init__(self, result: StudyResult, runs: Iterable[RunRecord], recent: float | None) -> None:
        study, scale = result.study, result.scale
        self.of = {variant: study.key(variant, scale) for variant in study.needs(scale)}
        self.place = {alike: study.where(variant) for variant, alike in self.of.items()}
        self.there: dict[str, set[int]] = {}
        took: dict[str, dict[int, float]] = {}
        anywhere: dict[Where, list[float]] = {}
        for run in runs:
            if run.variant in self.of:
                alike = self.of[run.variant]
                self.there.setdefault(alike, set()).add(run.seed)
                seconds = run.seconds if run.where == SIMULATION else played_seconds(study, scale, run)
                if seconds is not None:
                    took.setdefault(alike, {})[run.seed] = seconds
                    anywhere.setdefault(self.place[alike], []).append(seconds)
        self.seconds = {
            alike: fmean(times[seed] for seed in sorted(times)[-LATEST:]) for alike, times in took.items()
        }
        # A run on a network takes the time that its clock says, which those that are simulated do not tell.
        self.usual = {place: fmean(times) for place, times in anywhere.items()}
        if recent is not None:
            self.usual[SIMULATION] = recent

    def alike(self, items: Iterable[Item]) -> set[str]:
        """What the items need of this scale."""
        return {self.of[variant] for item in items for variant in item.variants if variant in self.of}

    def kept(self, alike: Iterable[str], seeds: int) -> int:
        """How many of their first runs are kept."""
        return sum(len(self.there.get(each, set()) & set(range(seeds))) for each in alike)

    def more(self, wanted: Mapping[str, int]) -> More:
        """The runs that so many seeds of each lack."""
        lacking = {
            each: len(set(range(seeds)) - self.there.get(each, set())) for each, seeds in wanted.items()
        }
        hours, clock = (
            math.fsum(
                count * self._took(each) / 3600 for each, count in lacking.items() if count and there(each)
            )
            for there in (self._simulated, lambda each: not self._simulated(each))
        )
        estimated = any(count and each not in self.seconds for each, count in lacking.items())
        most = max(wanted.values(), default=0)
        known = not math.isnan(hours + clock)
        return More(most, sum(lacking.values()), hours, estimated and known, clock)

    def _simulated(self, alike: str) -> bool:
        return self.place[alike] == SIMULATION

    def _took(self, alike: str) -> float:
        """Core-seconds of a run, of one on a network those of its clock: the mean of the last of its like, else what is
        usual where it is computed."""
        return self.seconds.get(alike, self.usual.get(self.place[alike], math.nan))


def played_seconds(study: Study, scale: str, run: RunRecord) -> float | None:
    """How long the nodes of a network played a run, by what it tells of its rounds; None where it tells nothing."""
    told = run.numbers.get(study.round_time)
    return None if told is None else told[0] * study.experiment(run.variant, scale).rounds


def outlook(result: StudyResult, runs: Iterable[RunRecord], recent: float | None = None) -> Outlook:
    """What is kept and what is missing. runs: those that are kept; each other one takes as long as the last of its like
    did, or, where its like is not measured, as runs did of late (`recent`, core-seconds), else as all did on average.
    """
    study, costs, seeds = result.study, _Costs(result, runs, recent), len(result.seeds)
    every = costs.alike(study.items.values())
    claims = [claim for claim in study.claims if claim.name in result.verdicts]
    of_claims: dict[str, int] = {}
    for claim in claims:
        needs = _needs(result, claim.name) if result.looks else seeds
        for alike in costs.alike([claim]):
            of_claims[alike] = max(of_claims.get(alike, 0), needs)
    wanted: dict[str, dict[str, int]] = {}
    for claim in claims:
        enough = _enough(result, claim.name)
        for each in (*_waits_for(result, claim), claim) if enough else ():
            asked = dict.fromkeys(costs.alike([each]), _enough(result, each.name) or enough)
            wanted[claim.name] = wanted.get(claim.name, {}) | asked
    last = result.looks[-1] if result.looks else math.inf
    together: dict[str, int] = {}
    for those in wanted.values():
        if max(those.values(), default=0) <= last:
            together |= {alike: max(enough, together.get(alike, 0)) for alike, enough in those.items()}
    first = result.looks[0] if result.looks else seeds
    waiting = [claim for claim in claims if not result.verdicts[claim.name].evidence.n]
    open_ones = [
        claim for claim in claims if claim.name not in wanted and _may_be_looked_at(result, claim.name)
    ]
    return Outlook(
        costs.kept(every, seeds),
        len(every) * seeds,
        sum(costs.kept([each], some) for each, some in of_claims.items()),
        sum(of_claims.values()),
        costs.more(of_claims),
        {name: costs.more(each) for name, each in wanted.items()},
        costs.more(together),
        {claim.name: costs.more(dict.fromkeys(costs.alike([claim]), first)) for claim in waiting},
        costs.more(dict.fromkeys(costs.alike(waiting), first)),
        {
            claim.name: costs.more(dict.fromkeys(costs.alike([claim]), result.looks[-1]))
            for claim in open_ones
        },
    )


def _may_be_looked_at(result: StudyResult, name: str) -> bool:
    """Whether a claim that has been looked at is undecided, and planned looks are left, which may decide it."""
    verdict = result.verdicts[name]
    left = bool(result.looks) and 0 < verdict.evidence.n < result.looks[-1]
    return left and verdict.word == "undecided" and verdict.evidence.test != NO_TEST


def _needs(result: StudyResult, name: str) -> int:
    """The seeds that a claim was judged by, or, where a planned look may still decide it, those of the next one."""
    verdict = result.verdicts[name]
    judged_by = verdict.evidence.n
    if verdict.word != "undecided" or verdict.hopeless or verdict.evidence.test == NO_TEST:
        return judged_by
    return following(judged_by, result.looks) or judged_by


def _enough(result: StudyResult, name: str) -> int:
    """The seeds that would decide an undecided claim, of a planned look where one has as many; 0 where unknown.

    Where the seeds that have run had the chance already, nothing says how many more are enough.
    """
    verdict = result.verdicts[name]
    if verdict.word != "undecided" or verdict.seeds is None or verdict.seeds <= verdict.evidence.n:
        return 0
    return following(verdict.seeds - 1, result.looks) or verdict.seeds


def _waits_for(result: StudyResult, claim: Claim) -> list[Item]:
    """The undecided primary claims that have to hold before this one does; none where it is none, or points to no."""
    study, verdicts = result.study, result.verdicts
    if claim.name not in study.primary or not points_to_yes(verdicts[claim.name].evidence):
        return []
    before = study.primary[: study.primary.index(claim.name)]
    return [study.item(one) for one in before if one in verdicts and verdicts[one].word == "undecided"]
