"""Where our ranking differs from that of MoCFL's paper, and why: sentences made of the measured numbers.

Which methods, parts and settings are named, and on which side, is decided by the runs at hand each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fedroam.papers.mocfl import runs
from fedroam.papers.mocfl.claims import MARGIN
from fedroam.papers.mocfl.measures import (
    AGAINST_FEDGH,
    BATCH,
    PART,
    PARTS,
    SERVER_AND_START,
    START,
    UNTRAINED,
    Contrast,
    ahead,
    best,
    drop,
    late,
    mean_of_clients,
    own_head,
    part_brings,
)
from fedroam.papers.mocfl.runs import FEW, variant
from fedroam.study.findings import Effect, Finding, by_side, effects, listed, named
from fedroam.study.values import Reader

_SHARED = {runs.METHODS[kind]: kind for kind in runs.METHODS if kind not in runs.BASELINES}


def findings(read: Reader) -> list[Finding]:
    """Describe the runs that there are; what has no runs is not spoken of."""
    told = (
        Finding("Where our ranking differs from the paper's", tuple(_ranking(read))),
        Finding("Why: what sharing brings over learning alone", tuple(_alone(read))),
        Finding("Why: what MoCFL's parts bring", tuple(_parts(read))),
        Finding("Why: the server's batch and the start models", tuple(_server(read))),
        Finding("Why: how FedProto's clients are judged", tuple(_prototypes(read))),
        Finding("What churn costs", tuple(_churn(read))),
        Finding("Whether it is the imbalance of classes that hurts", tuple(_sets(read))),
    )
    return [one for one in told if one.sentences]


def _with(n: int) -> str:
    return f"With {n} clients, all active"


def _sides(found: Iterable[Effect], above: str, below: str, neither: str) -> str:
    """Effects by the side of 0 on which their interval lies; a side without any is left out."""
    sides = by_side(found)
    words = {1: above, -1: below, 0: neither}
    return "; ".join(f"{words[side]}: {named(sides[side])}" for side in (1, 0, -1) if sides[side])


def _ranking(read: Reader) -> Iterable[str]:
    from scipy.stats import spearmanr  # here: a second to load, and who lists studies never asks for it

    for column, n in enumerate(runs.RATES):
        found = effects(read, {label: best.of(variant(kind, n)) for kind, label in runs.PAPERS.items()})
        if len(found) < 2:
            continue
        ours = sorted(found, key=lambda one: -one.mean)
        printed = {runs.METHODS[kind]: row[column] for kind, row in runs.TABLE_1.items()}
        told = [(one.label, printed[one.label]) for one in found]
        theirs = listed(
            [f"{label} ({value:.1f})" for label, value in sorted(told, key=lambda pair: -pair[1])]
        )
        rho = float(spearmanr([one.mean for one in found], [value for _, value in told]).statistic)
        yield f"{_with(n)}, best round: ours {named(ours)}; the paper's {theirs}. " + (
            f"Rank correlation {rho:+z.2f}.".replace("-", "−") if len(found) > 2 else ""
        )
        place = [one.label for one in ours].index("MoCFL") + 1 if any(o.label == "MoCFL" for o in ours) else 0
        if place:
            yield f"{_with(n)}, MoCFL is number {place} of {len(ours)} by the best round, number 1 in the paper."
        yield from _late(read, n)
        yield from _majority(read, n, printed)


def _late(read: Reader, n: int) -> Iterable[str]:
    """The order without the choice of a round on test data, and what that choice brings to whom."""
    found = effects(read, {label: late.of(variant(kind, n)) for kind, label in runs.PAPERS.items()})
    if len(found) > 1:
        ours = sorted(found, key=lambda one: -one.mean)
        yield f"{_with(n)}, mean of the last ten rounds: {named(ours)}."
    chosen = {
        label: best.of(variant(kind, n)) - late.of(variant(kind, n)) for kind, label in runs.PAPERS.items()
    }
    gains = sorted(effects(read, chosen), key=lambda one: -one.mean)
    if len(gains) > 1:
        yield (
            f"{_with(n)}, the best round, chosen on test data, is above the last ten rounds by most for "
            f"{gains[0].words}, by least for {gains[-1].words}: a table of best rounds is in favour of what fluctuates."
        )


def _majority(read: Reader, n: int, printed: Mapping[str, float]) -> Iterable[str]:
    """How much of the accuracies is the partition's: what answering with one class gives."""
    for one in effects(read, {"majority": best.of(variant("majority", n))}):
        under = [label for label, value in printed.items() if value < one.mean]
        if under:
            yield (
                f"With {n} clients, to answer with the class that a client holds most of gives on our partitions "
                f"{one.size}: more than the paper prints for {listed(under)}. So what counts as a high accuracy "
                "depends on the partition, and the paper's text has lost its Dirichlet alpha."
            )


def _alone(read: Reader) -> Iterable[str]:
    for n in runs.RATES:
        sides = {}
        for baseline in runs.BASELINES:
            found = effects(read, {label: ahead(kind, baseline, n, late) for label, kind in _SHARED.items()})
            if found:
                sides[baseline] = by_side(found)
                words = ("above", "below", "not told apart from")
                yield (
                    f"{_with(n)}, last ten rounds: "
                    + _sides(found, *(f"{word} {runs.BASELINES[baseline]}" for word in words))
                    + "."
                )
        if "local" in sides and not sides["local"][1]:
            yield (
                f"{_with(n)}, no method is clearly above learning alone: the ranking tells how little each one's "
                "sharing costs, not how much it brings."
            )
        elif "local" in sides:
            yield f"{_with(n)}, {len(sides['local'][1])} of {len(_SHARED)} methods bring more than learning alone."


def _parts(read: Reader) -> Iterable[str]:
    words = ("raises accuracy", "lowers accuracy", "not told apart from no effect")
    for n in runs.RATES:
        found = effects(read, {word: part_brings(key, n) for key, word in PARTS.items()})
        if found:
            yield f"{n} clients, mean of CAR 1.0 and 0.5, MoCFL's own server and start: {_sides(found, *words)}."
        found = effects(read, {word: value(n, late) for word, value in PART.items()})
        if found:
            yield f"{n} clients, all active, one pair a step and equal start as in FedGH: {_sides(found, *words)}."
    whole = effects(read, {word: part_brings(key, FEW) for key, word in PARTS.items()})
    harmful = [one for one in whole if one.side < 0]
    if harmful:
        better = listed(
            [runs.ABLATIONS[key][0] for key, word in PARTS.items() if word in {o.label for o in harmful}]
        )
        yield (
            f"On average over our partitions MoCFL is better {better} ({FEW} clients): under these conditions its "
            "place does not come from there."
        )


def _contrasts(read: Reader, contrasts: Mapping[str, Contrast], n: int) -> str:
    """`last ten rounds: a (+1.0 ± 0.2 points) and b (...); best round: ...`; empty without runs."""
    told = []
    for word, measure in (("last ten rounds", late), ("best round", best)):
        found = effects(read, {label: value(n, measure) for label, value in contrasts.items()})
        told += [f"{word}: {named(found)}"] if found else []
    return "; ".join(told)


def _server(read: Reader) -> Iterable[str]:
    for n in runs.RATES:
        against = _contrasts(read, AGAINST_FEDGH, n)
        if against:
            yield f"{_with(n)}, MoCFL minus FedGH, {against}."
        for one in effects(read, {"": SERVER_AND_START(n, late)}):
            side = {1: "raise", -1: "lower", 0: "do not clearly change"}[one.side]
            told = (
                f"{_with(n)}, 64 pairs a step and independent start, which MoCFL has and FedGH has not, {side} MoCFL's "
                f"accuracy over the last ten rounds ({one.size})"
            )
            lead = effects(read, {"": ahead("mocfl", "fedgh", n, late)})
            explained = one.side > 0 and any(each.mean >= one.mean for each in lead)
            yield told + (
                ": so much of its lead over FedGH, as declared, is neither affinity nor history."
                if explained
                else "."
            )
        batch, start = _contrasts(read, BATCH, n), _contrasts(read, START, n)
        if batch:
            yield f"{_with(n)}, one pair a step instead of 64, {batch}."
        if start:
            yield f"{_with(n)}, equal start models instead of independent ones for MoCFL, {start}."
        head = _contrasts(read, {"FedGH": UNTRAINED}, n)
        if head:
            yield f"{_with(n)}, a server's head never trained, as in the public code of FedGH's authors, {head}."


def _prototypes(read: Reader) -> Iterable[str]:
    for n in runs.RATES:
        among_all = mean_of_clients.of(variant("fedproto", n))
        ways = {
            "among the classes it holds": mean_of_clients.of(variant("fedproto", n, without="held"))
            - among_all,
            "by its own head": own_head.of(variant("fedproto", n)) - among_all,
        }
        found = effects(read, ways)
        if len(found) == len(ways):
            yield (
                f"{_with(n)}, last ten rounds, mean over clients, against the nearest of all prototypes: a client "
                f"judged {named(found)}."
            )


def _churn(read: Reader) -> Iterable[str]:
    for n in runs.RATES:
        found = effects(read, {label: drop(kind, n) for label, kind in _SHARED.items()})
        stable = [one for one in found if one.mean < MARGIN]
        falling = [one for one in found if one.mean >= MARGIN]
        if not found:
            continue
        said = f"{n} clients, CAR 1.0 minus 0.5, last ten rounds: less than {MARGIN:g} points lost by {named(stable)}; "
        said += f"more by {named(falling)}."
        if n == FEW:
            said += f" The paper names {listed([runs.METHODS[kind] for kind in runs.ROBUST])} as robust."
        yield said
        for one in effects(read, {"local": drop("local", n)}):
            told = "training less does not clearly cost anything here"
            if one.side > 0:
                told = "so much is lost by training less, not by missing others"
            yield f"{n} clients, learning alone, which trains only when active, too, loses {one.size}: {told}."


def _sets(read: Reader) -> Iterable[str]:
    """App. B: is UNSW-NB15 harder for who shares than for who learns alone?"""
    for kind in runs.SETS_METHODS:
        found = effects(read, {label: late.of(variant(kind, data=data)) for data, label in runs.SETS.items()})
        if len(found) > 1:
            yield f"{runs.METHODS[kind]}, 10 clients, last ten rounds: {named(found)}."
    for kind in runs.SETS_METHODS:
        if kind in runs.BASELINES:
            continue
        found = effects(
            read,
            {
                label: late.of(variant(kind, data=data)) - late.of(variant("local", data=data))
                for data, label in runs.SETS.items()
            },
        )
        if len(found) > 1:
            yield f"{runs.METHODS[kind]} minus local: {named(found)}."
