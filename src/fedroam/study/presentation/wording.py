"""What pages and terminal say of a study's results: of numbers, cells, searches and tests, in words.

One test is told in full; many are told in short, with each of them to be unfolded.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedroam.analysis.formatting import NONE
from fedroam.analysis.statistics.paired import Evidence
from fedroam.analysis.statistics.verdicts import Verdict, Word, p_text
from fedroam.study.claims import Claim, Test
from fedroam.study.evaluation import CellResult, SearchResult, StudyResult
from fedroam.study.items import Table
from fedroam.study.study import Study
from fedroam.study.values import Quotient

FEW = 3  # tests that are told in full
_MOST_DIGITS = 3
_NAMED = 4  # of those that point the other way, how many are named
NOT_THE_PAPERS = "not in the paper"  # the source of a claim of our own
_SAID: dict[Word, tuple[str, str]] = {  # of one, and of several
    "holds": ("holds", "hold"),
    "does not hold": ("does not", "do not"),
    "undecided": ("undecided", "undecided"),
}
MARKS = {"holds": "✓", "does not hold": "✗", "undecided": "?"}
NOT_HERE = "not at this scale"
WAITS = "– not tested"  # of a claim that has no runs yet


def number(value: float, error: float, digits: int, signed: bool = False, endless: str = "never") -> str:
    """`59.3 ± 4.5`, `endless` for infinity, a dash for no number."""
    if math.isnan(value):
        return NONE
    if math.isinf(value):
        return endless
    if abs(value) >= 10_000:  # tenths of it tell nothing
        digits = 0
    text = f"{value:{'+' if signed else ''},.{digits}f}".replace("-", "−")
    return f"{text} ± {error:,.{digits}f}" if math.isfinite(error) else text


def ours(result: CellResult) -> str:
    """Our number, with its error, which is not rounded to nothing where a few more digits show it."""
    if not result.possible:
        return NOT_HERE
    if not result.n:
        return "runs missing"
    value = result.cell.value
    endless = "never" if value.unit not in ("", "%") else "∞"  # of a bound nobody waits to be reached
    digits = value.digits
    if result.error >= 10**-_MOST_DIGITS:
        digits = enough_digits((result.error,), digits)
    return number(result.mean, result.error, digits, value.unit == "points", endless)


def papers(result: CellResult) -> str:
    """The paper's number, with its error if it gives one, and no digit less than it prints."""
    cell = result.cell
    if cell.paper is None:
        return NONE
    error = math.nan if cell.paper_error is None else cell.paper_error
    digits = max(cell.value.digits, 1, *(_decimals(each) for each in (cell.paper, error)))
    return number(cell.paper, error, digits, cell.value.unit == "points")


def _decimals(printed: float) -> int:
    """Digits after the point of a number as it was written down."""
    return len(f"{printed:.6f}".rstrip("0").partition(".")[2]) if math.isfinite(printed) else 0


def as_label(study: Study) -> str:
    """What prints the numbers beside ours, as the head of a line or a column."""
    return study.printed_in[:1].upper() + study.printed_in[1:]


def search_words(study: Study, result: SearchResult) -> str:
    """The result of a search, and the paper's."""
    said = NOT_HERE if result.threshold is None else result.threshold.words()
    return said + ("" if result.search.paper is None else f". {as_label(study)}: {result.search.paper:g}")


def not_above(table: Table, cells: Sequence[CellResult]) -> list[str]:
    """For each baseline, the rows whose mean is not above the baseline's, column by column of percentages; a sentence
    for all columns of which the same is to be said.

    Means are over the seeds that both have. Rows that differ by no more than the standard error of the difference
    paired by seed are named too. No sentence where a column has no number of the baseline or of any other row.
    """
    there = {
        (each.cell.column, each.cell.row): each for each in cells if each.cell.value.unit == "%" and each.n
    }
    rows = [row for row in dict.fromkeys(each.cell.row for each in cells) if row not in table.baselines]
    sentences = []
    for baseline in table.baselines:
        said: dict[str, list[str]] = {}
        for column in dict.fromkeys(column for column, _ in there):
            gaps = {row: _gaps(there, column, row, baseline) for row in rows}
            known = {row: gap for row, gap in gaps.items() if len(gap)}
            if known:
                said.setdefault(_sentence(known, baseline), []).append(column)
        every = len({each.cell.column for each in cells}) if len(said) == 1 else 0
        sentences += [f"{_columns(columns, every)}: {one}" for one, columns in said.items()]
    return sentences


def _columns(columns: Sequence[str], every: int) -> str:
    """`NC = 10 (%); NC = 50 (%)`; of three and more, if they are all there are (every), so many."""
    return f"In all {every} columns" if every == len(columns) > 2 else "; ".join(columns)


def _gaps(there: dict[tuple[str, str], CellResult], column: str, row: str, baseline: str) -> np.ndarray:
    """How far a row is ahead of a baseline, one number a seed that both have."""
    if (column, row) not in there or (column, baseline) not in there:
        return np.zeros(0)
    own, base = there[column, row].by_seed, there[column, baseline].by_seed
    return np.array([own[seed] - base[seed] for seed in own if seed in base])


def _sentence(gaps: dict[str, np.ndarray], baseline: str) -> str:
    behind = [row for row, gap in gaps.items() if not gap.mean() > 0]
    close = [
        row
        for row, gap in gaps.items()
        if len(gap) > 1 and abs(gap.mean()) <= gap.std(ddof=1) / np.sqrt(len(gap))
    ]
    if not behind:
        said = f"every method is above {baseline}"
    elif len(behind) == len(gaps) > 2:
        said = f"none of {len(gaps)} is above {baseline}"
    else:
        count = f"{len(behind)} of {len(gaps)} {'is' if len(behind) == 1 else 'are'}"
        said = f"{count} not above {baseline}: {', '.join(behind)}"
    return said + (f" (within a standard error of it: {', '.join(close)})" if close else "") + "."


def evidence_words(evidence: Evidence, unit: str, digits: int = 1) -> str:
    """The numbers of a test: `+33.7 ± 3.1 points (n = 3), 95 % interval +20.2 to +47.2; one-sided t(2) = 10.8`."""
    if _nothing(evidence):
        return f"n = {evidence.n}" + (f"; {evidence.note}" if evidence.note else "")
    size, span = _size(evidence, unit, digits)
    words = [f"{size} (n = {evidence.n}){span}", _tested(evidence), evidence.note]
    return "; ".join(filter(None, words))


def estimate_words(evidence: Evidence, unit: str, digits: int = 1) -> str:
    """What was found: `+33.7 ± 3.1 points, 95 % interval +20.2 to +47.2, effect size d = 6.2, n = 3 seeds`; a sign
    test has neither an interval nor an effect size, which is said."""
    seeds = f"n = {evidence.n} seed{'s' * (evidence.n != 1)}"
    if _nothing(evidence):
        return seeds
    size, span = _size(evidence, unit, digits)
    if evidence.kind == "sign":
        span = ", no interval (sign test)"
    elif d := effect_size(evidence):
        span += f", effect size d = {d}"
    return f"{size}{span}, {seeds}"


def effect_size(evidence: Evidence) -> str:
    """How far the mean is on the claim's side of its bound, in standard deviations of a seed on the scale of the test:
    `6.2`, or `−0.4` where it is on the other side; empty where a test has none."""
    if not (math.isfinite(evidence.df) and evidence.values):
        return ""
    # Of the part that is shown, whose seeds may be more than n.
    return f"{_for_the_claim(evidence) / math.sqrt(len(evidence.values)):z.1f}".replace("-", "−")


def _for_the_claim(evidence: Evidence) -> float:
    """The statistic, positive where the estimate is on the side of its bound on which the claim has it."""
    if evidence.asks == "within":
        inside = abs(evidence.estimate) < evidence.bound
        return abs(evidence.statistic) if inside else -abs(evidence.statistic)
    return -evidence.statistic if evidence.asks == "below" else evidence.statistic


def test_words(evidence: Evidence) -> str:
    """How it was tested: `one-sided t, t(2) = 10.79`; a note where there is one."""
    words = "" if _nothing(evidence) else _tested(evidence)
    return "; ".join(filter(None, (words, evidence.note)))


def _nothing(evidence: Evidence) -> bool:
    return evidence.n == 0 or math.isnan(evidence.estimate)


def _size(evidence: Evidence, unit: str, digits: int) -> tuple[str, str]:
    """The estimate with its error and unit, and its interval where it has one."""
    sign = "" if unit in ("%", "rounds", "times") else "+"
    ratio = unit == "times"  # the error of a ratio is one of its logarithm: the interval tells more
    width = evidence.high - evidence.low
    digits = enough_digits((width,) if ratio else (width, evidence.error), digits)

    def text(value: float) -> str:
        return f"{value:{sign}.{digits}f}".replace("-", "−").replace("inf", "∞")

    words = f"{_END[_end(evidence)]}{text(evidence.estimate)}"
    words += f" ± {evidence.error:.{digits}f}" if math.isfinite(evidence.error) and not ratio else ""
    words += f" {unit}".rstrip()
    interval = f", 95 % interval {text(evidence.low)} to {text(evidence.high)}"
    if _end(evidence) == "least":
        interval = f", 95 % interval from {text(evidence.low)} on"
    elif _end(evidence) == "most":
        interval = f", 95 % interval up to {text(evidence.high)}"
    return words, interval if math.isfinite(evidence.low) else ""


_END = {"": "", "least": "at least ", "most": "at most "}


def _end(evidence: Evidence) -> str:
    """Whether what is shown is the least, or the most, that a mean can be: where other ends of seeds are infinite."""
    if evidence.kind == "sign" or not evidence.most:
        return ""
    return "least" if any(map(math.isinf, evidence.most)) else "most" * any(map(math.isinf, evidence.values))


def enough_digits(sizes: Sequence[float], digits: int) -> int:
    """So many digits that an error, and the width of an interval, are not rounded away; within reason."""
    wanted = (math.ceil(-math.log10(each)) for each in sizes if 0 < each < math.inf)
    return max(digits, min(_MOST_DIGITS, max(wanted, default=0)))


def _tested(evidence: Evidence) -> str:
    known = math.isfinite(evidence.df)
    return evidence.test + (
        f", t({evidence.df:.0f}) = {_for_the_claim(evidence):z.2f}".replace("-", "−") if known else ""
    )


@dataclass(frozen=True)
class Examined:
    """One test of a claim and what the runs say of it."""

    test: Test
    evidence: Evidence

    @property
    def asked(self) -> str:
        """What is asked of a value, or of a ratio of two: `> 0 points`, `> 1 times`; empty of a trend."""
        ratio = self.evidence.asks == "ratio above" and not self.test.asked
        return f"> {self.evidence.bound:g} times" if ratio else self.test.asked

    @property
    def measures(self) -> frozenset[str]:
        """The names of the measures of a test of one value, or of a ratio; none of another."""
        parts = [
            part
            for value in (self.test.compared if self.asked else ())
            for part in ((value.first, value.second) if isinstance(value, Quotient) else (value,))
        ]
        return frozenset(name for part in parts for name in part.measures)

    @property
    def label(self) -> str:
        """What is compared, without the measure where there is only one: `fedgh,n=10 − fedavg,n=10`."""
        if len(self.measures) != 1:
            return self.test.words
        (name,) = self.measures
        value = " / ".join(
            f"({each.words})" if len(self.test.compared) > 1 else each.words for each in self.test.compared
        )
        return value.replace(f"{name} of ", "").replace(f"{name}, mean of", "mean of")

    @property
    def size(self) -> str:
        """`+1.2 ± 0.3`, without its unit; of a ratio, whose error is one of its logarithm, `1.2`."""
        return _size(self.evidence, self.test.unit, 1)[0].removesuffix(f" {self.test.unit}")

    @property
    def found(self) -> tuple[str, str, str]:
        """The estimate with its unit, its interval of 95 % and its effect size; dashes for what there is not."""
        if _nothing(self.evidence):
            return NONE, NONE, NONE
        size, span = _size(self.evidence, self.test.unit, 1)
        return size, span.removeprefix(", 95 % interval ") or NONE, effect_size(self.evidence) or NONE

    @property
    def how(self) -> str:
        """The test, and what a reader must know of it."""
        return "; ".join(filter(None, (self.evidence.test, self.evidence.note)))

    @property
    def tested(self) -> bool:
        """Whether at least two seeds have run."""
        return self.evidence.n > 1 and self.evidence.estimate == self.evidence.estimate


def comparisons(claim: Claim, evidence: Evidence) -> list[Examined]:
    """The tests that a claim is made of, with what the runs say of each (see `Verdict.evidence`)."""
    return [Examined(test, found) for test, found in claim.test.parts(evidence)]


def in_short(claim: Claim, evidence: Evidence | None) -> str:
    """What was tested, in one or two sentences.

    Of more than `FEW` tests: how many, the smallest and the largest estimate, and those that point the other way
    (an estimate on the wrong side of its bound: not yet evidence against it), the farthest first.
    """
    parts = [] if evidence is None else comparisons(claim, evidence)
    count = len(parts) or max(len(claim.test.tests), 1)
    if count <= FEW:
        return claim.test.words
    asked = {part.asked for part in parts}
    measures = {part.measures for part in parts}
    said = f"{count} comparisons"
    said += f" of {next(iter(names))}" if len(measures) == 1 and len(names := measures.pop()) == 1 else ""
    said += f", each {asked.pop()}" if len(asked) == 1 and "" not in asked else ""
    known = sorted((part for part in parts if part.tested), key=lambda part: part.evidence.estimate)
    if known and claim.test.unit:
        low, high = known[0], known[-1]
        said += f"; smallest {low.size} {claim.test.unit} ({low.label}), largest {high.size} ({high.label})"
    wrong = sorted(
        (part for part in known if part.evidence.p_holds > 0.5), key=lambda part: -part.evidence.p_holds
    )
    if known:
        said += f". On the wrong side: {len(wrong) or 'none'}"
    if wrong:
        said += " (" + "; ".join(f"{part.label}: {part.size}" for part in wrong[:_NAMED])
        said += f"; and {len(wrong) - _NAMED} more)" if len(wrong) > _NAMED else ")"
    missing = len(parts) - len(known)
    return said + (f". Without two seeds yet: {missing}" if missing else "")


def verdicts_words(result: StudyResult, at: str = "") -> str:
    """How many claims hold, do not hold and are undecided (`at` a scale), and how many wait for runs."""
    waiting = untested(result)
    words: list[str] = [verdict.word for name, verdict in result.verdicts.items() if name not in waiting]
    told = [
        f"{(count := words.count(word))} {one if count == 1 else several}"
        for word, one, several in (
            ("holds", "holds", "hold"),
            ("does not hold", "does not hold", "do not hold"),
            ("undecided", "is undecided", "are undecided"),
        )
    ]
    rest = f"; {len(waiting)} wait{'s' * (len(waiting) == 1)} for runs" if waiting else ""
    return f"Of {len(result.verdicts)} claims {told[0]}, {told[1]} and {told[2]}{at}{rest}."


def summary(result: StudyResult, elsewhere: Sequence[StudyResult] = ()) -> list[str]:
    """What holds, does not hold and is undecided, in numbers; then each primary claim with its verdict, and those at
    other scales (`elsewhere`)."""
    if not result.verdicts:
        return []
    told = f"{verdicts_words(result, f' at scale {result.scale}')} {of_our_own(result)}"
    lines = [told.rstrip()]
    claims = {claim.name: claim for claim in result.study.claims}
    for name in result.study.primary:
        if name in result.verdicts:
            mark, word = verdict_words(result, name).split(" ", 1)
            others = [
                f"{verdict_words(other, name)} at scale {other.scale}{shared_words(result, other, claims[name])}"
                for other in elsewhere
                if name in other.verdicts and other.verdicts[name].evidence.n
            ]
            also = f" ({'; '.join(others)})" if others else ""
            lines.append(
                f"{mark} {claims[name].text} {word.capitalize()}{also}. {claims[name].caveat}".rstrip()
            )
    return lines


def of_our_own(result: StudyResult) -> str:
    """How many claims the paper does not make, and what is said of them; empty where it makes them all."""
    own = [c.name for c in result.study.claims if NOT_THE_PAPERS in c.source and c.name in result.verdicts]
    if not own:
        return ""
    waiting = untested(result)
    words = [result.verdicts[name].word for name in own if name not in waiting]
    parts = [f"{n} {said[n > 1]}" for word, said in _SAID.items() if (n := words.count(word))]
    if len(words) < len(own):
        parts.append(f"{len(own) - len(words)} not tested")
    them = "1 of them is" if len(own) == 1 else f"{len(own)} of them are"
    return f"{them} not in the paper but ours ({', '.join(parts)})."


def otherwise(result: StudyResult, other: StudyResult) -> str:
    """The claims that another scale decides the other way; empty where none is."""
    texts = [
        claim.text
        for claim in result.study.claims
        if claim.name in result.verdicts
        and claim.name in other.verdicts
        and {result.verdicts[claim.name].word, other.verdicts[claim.name].word} == {"holds", "does not hold"}
    ]
    if not texts:
        return ""
    one = len(texts) == 1
    return (
        f"At scale {other.scale} {len(texts)} claim{'' if one else 's'} {'is' if one else 'are'} decided the other "
        f"way: {' '.join(texts)}"
    )


def shared_words(result: StudyResult, other: StudyResult, claim: Claim) -> str:
    """Whether what two scales say of a claim rests on the same runs: where a scale changes nothing of a variant, they
    have the same settings, and are computed once."""
    pairs = [
        [one.reader.find(variant, seed) for one in (result, other)]
        for variant in claim.variants
        for seed in sorted({*result.seeds} & {*other.seeds})
    ]
    alike = [a.status["digest"] == b.status["digest"] for a, b in pairs if a is not None and b is not None]
    if not any(alike):
        return ""
    return ", by the same runs" if all(alike) else ", in part by the same runs"


def verdict_words(result: StudyResult, claim: str) -> str:
    """The verdict on a claim with its mark, as `? undecided`."""
    verdict = result.verdicts.get(claim)
    if verdict is None:
        return NOT_HERE
    return f"{MARKS[verdict.word]} {verdict.word}" if verdict.evidence.n else WAITS


def untested(result: StudyResult) -> list[str]:
    """The claims that wait for runs: no seed has all that they need."""
    return [name for name, verdict in result.verdicts.items() if not verdict.evidence.n]


def looks_words(result: StudyResult) -> str:
    """How often the study is looked at while it grows, and what that costs; empty where it is judged once."""
    if not result.looks:
        return ""
    planned = ", ".join(map(str, result.looks))
    return (
        f"Looks are planned after {planned} seeds, each at 1/{len(result.looks)} of the level; p-values are of all "
        "looks together. "
    )


def looked_words(result: StudyResult, claim: Claim) -> str:
    """What each look at a claim said so far; empty where one look is planned, or none was taken."""
    seen = result.seen.get(claim.name, {})
    if not seen or len(result.looks) < 2:
        return ""
    told, reverse = [], False
    for seeds, evidence in seen.items():
        against = evidence.p_fails < evidence.p_holds
        reverse |= against
        p = p_text(evidence.p_fails if against else evidence.p_holds)
        told.append(f"after {seeds} seeds {p}{' against it' * against}")
    what = "of the hypothesis that it is false" + ", or, against it, that it is true" * reverse
    parts = len(evidence.parts)
    if reverse and parts:
        what += f": {parts} times the smallest p of its {parts} parts"
    elif reverse and evidence.asks == "within":
        what += ": twice the smaller p of both sides"
    return f"Looks: {', '.join(told)} ({what}; by that look alone, and not corrected for other looks and claims)."


def shown(claim: Claim, verdict: Verdict) -> tuple[Evidence, str]:
    """The evidence whose numbers stand for a claim, and, of a claim of several parts, which of them it is of.

    Of a trend it is the whole of it, of a claim that does not hold what speaks most clearly against it, else the part
    that holds least.
    """
    parts, evidence = comparisons(claim, verdict.evidence), verdict.evidence
    if len(parts) < 2:
        return evidence, ""
    if verdict.word == "does not hold":
        against = min(parts, key=lambda part: part.evidence.p_fails)
        return against.evidence, f"of {len(parts)} parts the one most clearly against it: {against.label}"
    if claim.test.whole_first:
        return parts[
            0
        ].evidence, f"from end to end of the fitted line (tested with its {len(parts) - 1} steps)"
    least = weakest(claim, evidence)
    return evidence, f"of {len(parts)} parts the one that holds least: {least}" if least else ""


def weakest(claim: Claim, evidence: Evidence) -> str:
    """Which of several tests the shown numbers are of; empty where there is one."""
    part = _part_of(claim, evidence, evidence)
    return part.label if part is not None else ""


def unit_of(claim: Claim, evidence: Evidence, numbers: Evidence | None = None) -> str:
    """The unit of the numbers that stand for a claim (see `shown`; default: those of its evidence): of a claim of
    several units that of the part that they are of."""
    part = None if claim.test.unit else _part_of(claim, evidence, evidence if numbers is None else numbers)
    return part.test.unit if part is not None else claim.test.unit


def _part_of(claim: Claim, evidence: Evidence, numbers: Evidence) -> Examined | None:
    """Which of several tests such numbers are of; None where there is one.

    P-values do not tell: those of the claim are of all looks together.
    """
    parts = comparisons(claim, evidence)
    for part in parts if len(parts) > 1 else []:
        pairs = (
            (part.evidence.estimate, numbers.estimate),
            (part.evidence.statistic, numbers.statistic),
            *itertools.zip_longest(part.evidence.values, numbers.values, fillvalue=None),
        )
        if all(one == other or (one != one and other != other) for one, other in pairs):  # NaN is as NaN
            return part
    return None
