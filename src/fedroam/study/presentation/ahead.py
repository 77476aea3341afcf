"""What pages say of runs to come: how many are missing, and what would decide what is undecided or not tested yet."""

from __future__ import annotations

import math
from collections.abc import Iterator

from fedroam.analysis.statistics.paired import POWER
from fedroam.analysis.statistics.verdicts import Verdict
from fedroam.study.claims import Claim
from fedroam.study.evaluation import StudyResult
from fedroam.study.outlook import More, Outlook
from fedroam.study.presentation.gpu import Measured, needs_gpu, needs_words
from fedroam.study.presentation.wording import untested

CHANCE = f"with a chance of {POWER * 100:.0f} %"


def outlook_words(result: StudyResult, outlook: Outlook | None) -> list[str]:
    """What has run of what is needed, and what would decide what is undecided; then what waits for a first look."""
    if outlook is None:
        return []
    until = " until their next looks" if result.looks else ""
    there = (
        f"{outlook.kept_of_claims} of {outlook.needed_of_claims} runs that the claims need{until} are there"
    )
    if outlook.needed > outlook.needed_of_claims:
        there += f" ({outlook.kept} of {outlook.needed} of all tables and figures)"
    lines = [f"{there}."]
    if outlook.missing.runs:
        lines[0] += f" The missing ones take {time_words(outlook.missing)}."
    waiting = untested(result)
    undecided = [
        name
        for name, verdict in result.verdicts.items()
        if verdict.word == "undecided" and name not in waiting
    ]
    last = result.looks[-1] if result.looks else None
    known = [name for name in undecided if name in outlook.within(last)]
    if known:
        of = f"{len(known)} of the" if len(known) < len(undecided) else "the"
        nearest = min(known, key=lambda name: (*_long(outlook.of_claim[name]), undecided.index(name)))
        text = next(claim.text for claim in result.study.claims if claim.name == nearest)
        which = f"The nearest takes {_runs(outlook.of_claim[nearest])}" if len(known) > 1 else "That is"
        lines.append(
            f"To decide {of} {_claims(len(undecided), 'undecided')}, {CHANCE} each, if effects and spreads are as "
            f"estimated: {_runs(outlook.together)}. {which}: {text}"
        )
    rest = len(undecided) - len(known)
    if rest:
        them, cards = ("it", "its card") if rest == 1 else ("them", "their cards")
        why = f"no look up to {last} seeds decides {them} {CHANCE}, or " if last else ""
        lines.append(f"Of {_claims(rest, 'undecided')} {why}no number of seeds can be told: see {cards}.")
    if waiting:
        one = len(waiting) == 1
        what = f"{'its' if one else 'their'} first look" if result.looks else "runs"
        takes = f": {_runs(outlook.first_together, more=False)}" if outlook.first_together.runs else ""
        lines.append(f"{_claims(len(waiting))} {'waits' if one else 'wait'} for {what}{takes}.")
    return lines


def _long(more: More) -> tuple[float, int]:
    """What orders runs to come by the time that they take; last, and by their number, where it is not known."""
    hours = more.hours + more.clock
    return math.inf if math.isnan(hours) else hours, more.runs


def to_decide(
    result: StudyResult,
    claim: Claim,
    verdict: Verdict | None,
    outlook: Outlook | None,
    measured: Measured | None = None,
) -> Iterator[str]:
    """What it would take to decide a claim, or to look at it for the first time: a sentence, or none.

    measured: of what needs a GPU, without which its hours are not told.
    """
    if verdict is None:
        yield from _elsewhere(result, claim, measured)
    elif outlook is not None and claim.name in outlook.of_claim:
        more = outlook.of_claim[claim.name]
        beyond = ", beyond the planned looks" * (bool(result.looks) and more.seeds > result.looks[-1])
        yield f"To decide it: {_runs(more)}{beyond}."
    elif outlook is not None and claim.name in outlook.last:
        yield (
            f"No number of seeds is known that decides it; all looks that are planned, up to {result.looks[-1]} seeds, "
            f"take {_runs(outlook.last[claim.name])}."
        )
    elif outlook is not None and claim.name in outlook.first and outlook.first[claim.name].runs:
        what = "To its first look" if result.looks else "To test it"
        yield f"{what}: {_runs(outlook.first[claim.name], more=False)}."


def _elsewhere(result: StudyResult, claim: Claim, measured: Measured | None) -> Iterator[str]:
    """At which scales a claim can be judged that this one cannot judge, and the hours that it takes there: those that
    were measured, else the command that measures them."""
    study = result.study
    scales = [name for name in study.scales if study.can(claim, name)]
    if not scales:
        return
    needs = f"Needs scale {' or '.join(scales)}"
    if any(needs_gpu(study, variant) for variant in claim.variants):
        takes = f": {needs_words(study, claim, measured)}" if measured else ""
        yield f"{needs}, and a GPU{takes}."
        return
    planned = result.looks or (study.scale(scales[0]).seeds,)
    first, last = planned[0], planned[-1]
    hours = measured.core_hours(study, claim, scales[0], first) if measured else math.nan
    if math.isnan(hours):
        tried = f"{study.command} {claim.name} --scale {scales[0]} --dry-run"
        yield f"{needs}; what that takes is measured by: {tried}."
        return
    count = len(claim.variants)
    takes = f"{first * count} runs ({first} seeds), {hours_words(hours)}"
    if last > first:
        takes = (
            f"to its first look {takes}; to the last that is planned {last * count} runs ({last} seeds), "
            f"{hours_words(hours * last / first)}"
        )
    yield f"{needs}: {takes}; estimated of a few rounds that were measured (docs/records/larger-scales.json)."


def _claims(count: int, which: str = "") -> str:
    """`3 undecided claims`."""
    return f"{count} {which} claim{'s' * (count != 1)}".replace("  ", " ")


def _runs(ahead: More, *, more: bool = True) -> str:
    """`16 more runs, about 23 core minutes`; of runs that are the first ones they are not more."""
    return f"{ahead.runs} {'more ' * more}run{'s' * (ahead.runs != 1)}, {time_words(ahead)}"


def time_words(more: More) -> str:
    """`about 3.2 core hours, estimated`: what runs to come take, and whether that is measured of each variant; of those
    on a network `about 25 minutes by the clock`."""
    told = [hours_words(more.hours)] if more.hours or not more.clock else []
    told += [hours_words(more.clock, "", " by the clock")] if more.clock else []
    return " and ".join(dict.fromkeys(told)) + ", estimated" * more.estimated


def hours_words(hours: float, of: str = "core ", by: str = "") -> str:
    """`about 3.2 core hours`; said so where nothing is known."""
    if math.isnan(hours):
        return "a time that is not measured yet"
    if hours < 1 / 60:
        return f"less than a {of}minute{by}"
    if hours < 1:
        return f"about {60 * hours:.0f} {of}minutes{by}"
    return f"about {hours:.3g} {of}hours{by}" if hours < 100 else f"about {hours:,.0f} {of}hours{by}"
