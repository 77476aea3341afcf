"""From evidence to verdicts: holds, does not hold, or undecided and how many seeds would decide."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedroam.analysis.statistics.chances import needed, points_to_yes, predicted
from fedroam.analysis.statistics.looks import FUTILE
from fedroam.analysis.statistics.paired import MOST_SEEDS, POWER, Evidence
from fedroam.errors import InputError

ALPHA = 0.05
Word = Literal["holds", "does not hold", "undecided"]


@dataclass(frozen=True)
class Verdict:
    """What is said of a claim. p_holds, p_fails: corrected over all claims judged together (see `judge`); seeds: how
    many would decide an undecided claim (None: not known, or more than `MOST_SEEDS`); reason: one sentence; outlook:
    the chance that the last of several planned looks decides an undecided one, at most, where it waits for others (see
    `judge_in_order`).
    """

    word: Word
    evidence: Evidence
    p_holds: float
    p_fails: float
    seeds: int | None
    reason: str
    outlook: float = math.nan

    @property
    def hopeless(self) -> bool:
        """Whether the last planned look will hardly decide it."""
        return self.outlook < FUTILE


def holm(p: Sequence[float]) -> list[float]:
    """P-values adjusted by Holm's step-down method, in the given order.

    Rejecting those of at most alpha keeps the chance of any false rejection below alpha, however the tests depend
    on one another. Source: Holm, Scand. J. Stat. 6 (1979) 65.
    """
    values = np.asarray(p, dtype=np.float64)
    if not ((values >= 0) & (values <= 1)).all():
        raise InputError(f"p-values {list(p)}: allowed are numbers from 0 to 1")
    order = np.argsort(values, kind="stable")
    adjusted = np.empty(len(values))
    factors = np.arange(len(values), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(values[order] * factors), 1.0)
    return [float(value) for value in adjusted]


def holm_known(p: Sequence[float]) -> list[float]:
    """The same over those that are numbers; NaN, where nothing was tested, stays."""
    values = np.asarray(p, dtype=np.float64)
    tested = ~np.isnan(values)
    values[tested] = holm(values[tested].tolist())
    return [float(each) for each in values]


def judge(evidence: Sequence[Evidence], alpha: float = ALPHA, looks: Sequence[int] = ()) -> list[Verdict]:
    """A verdict on each claim of a family.

    Two families are corrected, each at level alpha: "it holds" and "it does not hold". So the chance that any claim
    is wrongly said to hold is at most alpha, and so is the chance that any is wrongly said not to.

    looks: where the evidence is of a sequence of looks (see `looks.shared`), after how many seeds each is planned.
    """
    holds, fails = holm([e.p_holds for e in evidence]), holm([e.p_fails for e in evidence])
    return _verdicts(evidence, holds, fails, alpha, looks, in_order=False)


def judge_in_order(
    evidence: Sequence[Evidence], alpha: float = ALPHA, looks: Sequence[int] = ()
) -> list[Verdict]:
    """A verdict on each of a few primary claims, in the order in which they are tested.

    "It holds" is tested in this order, each claim at the full level, until the first that is not established: no
    correction is needed (fixed-sequence test: Maurer, Hothorn & Lehmacher 1995). A p-value is the largest so far.
    "It does not hold" is corrected by Holm's method, since a claim may be refuted whatever became of those before it.
    looks: as in `judge`.

    So an undecided claim that points to yes waits for those before it. Where one of them does not hold, is hopeless, or
    points to no and will hardly turn, seeds could only refute this one, and its outlook is that. Else it takes no fewer
    seeds than they do, and has no better an outlook.
    """
    holds = [float(p) for p in np.maximum.accumulate([e.p_holds for e in evidence])] if evidence else []
    fails = holm([e.p_fails for e in evidence])
    return _verdicts(evidence, holds, fails, alpha, looks, in_order=True)


def _verdicts(
    evidence: Sequence[Evidence],
    holds: list[float],
    fails: list[float],
    alpha: float,
    looks: Sequence[int],
    *,
    in_order: bool,
) -> list[Verdict]:
    if not 0 < alpha < 0.5:
        raise InputError(f"alpha = {alpha:g}: allowed is a number between 0 and 0.5")
    corrected = "in the fixed order of the primary claims" if in_order else "after Holm's correction"
    spent = len(looks) or 1  # each look spends its share of the level
    levels = ((alpha if in_order else _level(holds, alpha)) / spent, _level(fails, alpha) / spent)
    verdicts: list[Verdict] = []
    for each, yes, no in zip(evidence, holds, fails, strict=True):
        held, refuted = each.said_by or (each, each)
        if yes <= alpha:
            reason = f"{p_text(yes)} {corrected}{_by_signs(held)}"
            reason += _at_look(held) * (_by_signs(held) != _by_signs(each))
            verdicts.append(Verdict("holds", each, yes, no, None, reason))
        elif no <= alpha:
            found = f"{_reverse(refuted)}, {p_text(no)} after Holm's correction"
            reason = f"the reverse is established at this scale: {found}"
            reason += _at_look(refuted) * (_reverse(refuted) != _reverse(each))
            verdicts.append(Verdict("does not hold", each, yes, no, None, reason))
        else:
            waits = in_order and each.n > 1 and (each.p_holds <= alpha or points_to_yes(each))
            ahead = _ahead(each, alpha, levels, looks, verdicts if in_order else [], waits)
            verdicts.append(Verdict("undecided", each, yes, no, *ahead))
    return verdicts


def _ahead(
    evidence: Evidence,
    alpha: float,
    levels: tuple[float, float],
    looks: Sequence[int],
    before: Sequence[Verdict],
    waits: bool,
) -> tuple[int | None, str, float]:
    """Of an undecided claim the seeds that would decide it, the reason, and the outlook (see `Verdict`).

    levels: of the tests that it holds and that it does not; before: the verdicts on the claims that have to hold first;
    waits: whether it is on its way to hold, so that they matter to it.
    """
    alone = waits and bool(before) and evidence.p_holds <= alpha  # its own evidence is enough
    barred = next((why for verdict in before if (why := _bar(verdict, alpha, levels, looks))), "")
    holds, fails = 0.0 if barred else levels[0], levels[1]
    seeds, outlook = needed(evidence, holds, fails), math.nan
    if looks and evidence.n > 1:
        outlook = predicted(evidence, looks[-1], holds, fails)
    reason = _undecided(evidence, seeds)
    if not waits:
        before, barred = [], ""
    if alone:
        reason = "it would hold by itself, but a primary claim before it is not established"
    if barred:
        itself = "it would hold by itself, but a primary claim before it"
        reason = f"{itself if alone else 'it can hold only after all primary claims before it, of which one'} {barred}"
    elif waited := [verdict for verdict in before if verdict.word == "undecided"]:
        if alone:
            seeds, outlook = evidence.n, 1.0 if looks else math.nan
        known = [verdict.seeds for verdict in waited if verdict.seeds is not None]
        first = max(known) if len(known) == len(waited) else None
        if not alone and seeds is not None:
            reason += "; a primary claim before it has to hold first"
            if first is None:
                reason += ", and how many decide that one is not known"
            elif first > seeds:
                reason += f", which needs about {first}"
        seeds = None if seeds is None or first is None else max(seeds, first)
        outlook = min([outlook, *(verdict.outlook for verdict in waited if not math.isnan(verdict.outlook))])
    if outlook < FUTILE and (barred or not math.isnan(evidence.estimate)):
        chances = f"hopeless: {looks[-1]} seeds would decide with a chance of {100 * outlook:.0f} %"
        if evidence.n >= looks[-1]:
            chances = "no look is left"
        reason += "; so it is hopeless, too" if barred else f"; {chances}"
    return seeds, reason, outlook


def _bar(verdict: Verdict, alpha: float, levels: tuple[float, float], looks: Sequence[int]) -> str:
    """Why a claim will hardly hold any more, of those behind it in the order; empty where it may, or does."""
    if verdict.word == "does not hold":
        return "does not hold"
    found = verdict.evidence
    if verdict.hopeless:
        return "is undecided after the last look" if looks and found.n >= looks[-1] else "is hopeless"
    if found.n < 2 or found.p_holds <= alpha or math.isnan(found.estimate) or points_to_yes(found):
        return ""
    may_turn = bool(looks) and predicted(found, looks[-1], levels[0], 0.0) >= FUTILE
    return "" if may_turn else "points to no"


def _by_signs(evidence: Evidence) -> str:
    """What is established where signs were tested, which say nothing of a mean; empty where none were."""
    parts = evidence.parts or (evidence,)
    signs = sum(bool(_by_signs(part)) if part.parts else part.kind == "sign" for part in parts)
    if not signs:
        return ""
    which = f"of {signs} of its {len(parts)} parts " if len(parts) > 1 else ""
    return f"; {which}by an exact sign test: it speaks of more than half of all seeds, not of their mean"


def _at_look(evidence: Evidence) -> str:
    """At which look a claim was decided, for one whose last look, which is shown beside it, tests something else."""
    return f"; decided at the look at {evidence.n} seeds, by {evidence.test}"


def _reverse(evidence: Evidence) -> str:
    """What is established where a claim does not hold."""
    if len(evidence.parts) == 1:
        return _reverse(evidence.parts[0])
    if evidence.parts:
        clearest = min(evidence.parts, key=lambda part: part.p_fails)
        return (
            f"of at least one of its {len(evidence.parts)} parts (where it is clearest, {_reverse(clearest)})"
        )
    bound = f"{evidence.bound:g}"
    if evidence.kind == "sign":  # which says nothing of a mean
        side = {"above": "below", "below": "above", "within": "farther from 0 than", "ratio above": "below"}
        return f"more than half of all seeds are {side[evidence.asks]} {bound}"
    return {
        "above": f"the mean is below {bound}",
        "below": f"the mean is above {bound}",
        "within": f"the mean is farther from 0 than {bound}",
        "ratio above": f"the ratio is below {bound}",
    }[evidence.asks]


def _level(adjusted: Sequence[float], alpha: float) -> float:
    """The level that the next claim of a family has to meet."""
    return alpha / max(sum(p > alpha for p in adjusted), 1)


def _undecided(evidence: Evidence, seeds: int | None) -> str:
    if evidence.n < 2 or math.isnan(evidence.estimate):
        return evidence.note or "nothing can be tested"
    if seeds is None:
        return f"more than {MOST_SEEDS} seeds would be needed if effect and spread are as estimated"
    number = f"{seeds} seeds"
    if len(evidence.parts) > 1:  # of the weakest: that all of them are decided is less likely
        number = f"{seeds} seeds or more, for the weakest of its {len(evidence.parts)} parts,"
    if seeds <= evidence.n:
        had = f"{evidence.n} seeds had a chance of at least {POWER * 100:.0f} % to decide"
        return f"{had} if effect and spread are as estimated; more would tell"
    return f"about {number} would decide with a chance of {POWER * 100:.0f} % if effect and spread are as estimated"


def p_text(p: float) -> str:
    """`p = 0.012`, very small ones as a bound."""
    return "p < 0.0001" if p < 1e-4 else f"p = {p:.2g}"
