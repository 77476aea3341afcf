"""The sections of a study's pages as HTML: what was found, claim by claim, readings, settings, the method.

Everything that a study names is escaped here. Links lead within the page: `#claim-NAME`, `#table-NAME`,
`#figure-NAME`, `#run-VARIANT`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape

from fedroam.analysis.formatting import NONE
from fedroam.analysis.report.page import bullets, folded, table_html
from fedroam.analysis.statistics.paired import Evidence
from fedroam.analysis.statistics.verdicts import Verdict, p_text
from fedroam.analysis.variants import plain_text
from fedroam.recording import flat
from fedroam.study.claims import NO_TEST, Claim
from fedroam.study.evaluation import CellResult, StudyResult
from fedroam.study.items import Table
from fedroam.study.kept import RunRecord
from fedroam.study.outlook import Outlook
from fedroam.study.presentation.ahead import outlook_words, to_decide
from fedroam.study.presentation.gpu import Measured
from fedroam.study.presentation.wording import (
    FEW,
    NOT_THE_PAPERS,
    Examined,
    as_label,
    comparisons,
    enough_digits,
    estimate_words,
    in_short,
    looked_words,
    looks_words,
    number,
    otherwise,
    papers,
    shared_words,
    shown,
    summary,
    test_words,
    unit_of,
    verdict_words,
    weakest,
)
from fedroam.study.values import Item, needed

CLASSES = {"holds": "yes", "does not hold": "no", "undecided": "open"}  # of a claim's box
_NAMED = 4  # variants of a claim that are named


def summary_html(
    result: StudyResult, outlook: Outlook | None = None, elsewhere: Sequence[StudyResult] = ()
) -> str:
    """How many claims hold, the primary ones by name, also as other scales have them, what has run, and what would
    decide more."""
    lines = summary(result, elsewhere)
    told = "".join(f'<p class="headline">{escape(line)}</p>' for line in lines[:1])
    if result.study.caution:
        told += f"<p><strong>{escape(result.study.caution)}</strong></p>"
    if lines[1:]:
        several = "s, in the order in which they are tested" * (len(lines) > 2)
        told += f"<p>Its primary claim{several}:</p><ul>{bullets(lines[1:])}</ul>"
    others = filter(None, (otherwise(result, other) for other in elsewhere))
    return told + "".join(f"<p>{escape(line)}</p>" for line in (*others, *outlook_words(result, outlook)))


def claims_html(
    result: StudyResult,
    outlook: Outlook | None = None,
    elsewhere: Sequence[StudyResult] = (),
    measured: Measured | None = None,
) -> str:
    """Each claim with its verdict, what was found beside what the paper says, and the test of it folded away.

    `elsewhere`: what was found at other scales, of which each claim tells its verdict, and whether it rests on the same
    runs. measured: what was of networks that need a GPU, for the hours of claims that do.
    """
    cards = [
        _card(result, claim, verdict, outlook, elsewhere, measured) for claim, verdict in result.claims()
    ]
    rule = (
        f"Holds: the test rejects the opposite at level {result.study.alpha:g}. Does not hold: it rejects the "
        f"claim. Undecided: neither. Corrected: {result.families()}. {looks_words(result)}Estimates are means "
        "± standard error over these seeds alone. Intervals are for each claim alone; of claims that are not primary "
        "they, effect sizes and numbers of seeds that would decide take the spread over seeds as moderated by that of "
        "all others, so that an interval is wider than its ± says where seeds agree more than is usual in this study, "
        "and narrower where they agree less. Effect size d: how far an estimate is on the side of its bound on which "
        "the claim has it (negative: on the other side), in standard deviations over seeds, on the scale of the test; "
        "t has the same sign. So of a claim that something is less than a bound both are positive where the estimate "
        "is below it."
    )
    names = ""
    if result.study.codes:
        told = "What the letters in names of variants mean stands with their"
        names = f'<p class="small">{told} <a href="#runs">settings</a>.</p>'
    how = '<p class="small">What verdicts, intervals and effect sizes are stands <a href="#how-to-read">below</a>.</p>'
    told = f'<p class="small" id="how-to-read">{escape(rule)}</p>'
    return names + how + "".join(cards) + told if cards else ""


def _card(
    result: StudyResult,
    claim: Claim,
    verdict: Verdict | None,
    outlook: Outlook | None,
    elsewhere: Sequence[StudyResult],
    measured: Measured | None,
) -> str:
    primary = result.study.primary
    place = f"primary claim {primary.index(claim.name) + 1}" if claim.name in primary else ""
    source = "; ".join(filter(None, (claim.source, claim.family, place)))
    source = f' <span class="small">({escape(source)})</span>' * bool(source)
    word, kind = verdict_words(result, claim.name), ""
    if verdict is not None:
        at = f" at scale {result.scale}" if verdict.evidence.n else ""
        word, kind = f"{word}{at}: {verdict.reason}", CLASSES[verdict.word]
    lines = [
        f'<p class="said">{escape(claim.text)}{source}</p>',
        f'<p class="verdict">{escape(word)}</p>',
        *(f"<p>{line}</p>" for line in _numbers(result, claim, verdict)),
        *(f'<p class="small">{escape(line)}</p>' for line in _beside(result, claim, verdict)),
        *(f'<p class="small">{escape(line)}</p>' for line in _elsewhere(result, claim, elsewhere)),
        *(
            f'<p class="small">{escape(line)}</p>'
            for line in to_decide(result, claim, verdict, outlook, measured)
        ),
        _where(result, claim, verdict),
        _tested(result, claim, verdict),
    ]
    return f'<div class="claim {kind}" id="claim-{escape(claim.name)}">{"".join(lines)}</div>'


def _numbers(result: StudyResult, claim: Claim, verdict: Verdict | None) -> Iterator[str]:
    """What was found, and what the paper prints: as the claim has it, else in cells of the same values; as HTML."""
    if verdict is not None and verdict.evidence.n and verdict.evidence.test != NO_TEST:
        evidence, part = shown(claim, verdict)
        which = f", {escape(part)}" * bool(part)
        unit = unit_of(claim, verdict.evidence, evidence)
        yield f"Here: <strong>{escape(estimate_words(evidence, unit))}</strong>{which}"
    cells = [each for each in _cells_of(result, claim) if each.cell.paper is not None]
    if NOT_THE_PAPERS in claim.source:  # whose numbers of the same variants say something else
        cells = []
    printed = list(dict.fromkeys(f"{papers(each)} {each.cell.value.unit}".strip() for each in cells))
    printed = [claim.paper] if claim.paper else printed
    label = escape(as_label(result.study))
    if len(printed) == 1:
        yield f"{label}: {escape(printed[0])}"
    elif 1 < len(cells) <= _NAMED:
        told = (
            f"{papers(each)} {each.cell.value.unit} ({each.cell.row}; {each.cell.column})" for each in cells
        )
        yield f"{label}: {escape('; '.join(told))}"
    elif cells:
        yield f"{label}: {len(cells)} numbers, beside ours in the table"


def _beside(result: StudyResult, claim: Claim, verdict: Verdict | None) -> Iterator[str]:
    """What a reader must know beside the verdict: the claim's own caveat, what had been run when it was declared, seeds
    that do not differ at all, and how many of its runs broke down."""
    if claim.caveat:
        yield claim.caveat
    if claim.known:
        yield f"Declared when {claim.known} had been run."
    if verdict is not None and verdict.evidence.n:
        seeds = verdict.evidence.seeds or result.seeds[: verdict.evidence.n]
        if verdict.evidence.n > 1 and len(set(verdict.evidence.values)) == 1:
            borrowed = "; the test takes the spread that is usual in this study" * (
                verdict.evidence.kind != "sign"
            )
            part = ", of the part that holds least" * bool(verdict.evidence.parts)
            yield f"It is the same number with every seed{part}{borrowed}."
        runs = [(variant, seed) for variant in claim.variants for seed in seeds]
        if broke := sum(run in result.broke for run in runs):
            of_one = Counter(variant for variant, seed in runs if (variant, seed) in result.broke)
            named = [f"{name} {count} of {len(seeds)}" for name, count in of_one.most_common(_NAMED)]
            more = ["others"] * (len(of_one) > _NAMED)
            yield (
                f"{broke} of its {len(runs)} runs diverged or fell back to guessing (listed above; "
                f"{', '.join((*named, *more))}); they count."
            )


def _elsewhere(result: StudyResult, claim: Claim, others: Sequence[StudyResult]) -> Iterator[str]:
    """The verdicts at other scales."""
    for other in others:
        verdict = other.verdicts.get(claim.name)
        if verdict is not None and verdict.evidence.n:
            numbers = shown(claim, verdict)[0]
            found = estimate_words(numbers, unit_of(claim, verdict.evidence, numbers))
            runs = shared_words(result, other, claim)
            yield f"At scale {other.scale}{runs}: {verdict_words(other, claim.name)}, {found}."


def _where(result: StudyResult, claim: Claim, verdict: Verdict | None) -> str:
    """Links to tables and figures that show it, and to the settings of its runs; and the command that repeats them."""
    found = shown_in(result, claim)
    shown, same = (
        [f'<a href="#{item.kind}-{escape(item.name)}">{escape(item.title)}</a>' for item in items]
        for items in (found, pictures_of(result, claim, found))
    )
    here = set(result.study.needs(result.scale))
    variants = [variant for variant in claim.variants if variant in here]
    if 0 < len(variants) <= _NAMED:
        runs = ", ".join(f'<a href="#run-{escape(v)}">{escape(v)}</a>' for v in variants)
    else:
        runs = f'<a href="#runs">{len(variants)} variants</a>' if variants else ""
    again = ""
    if runs and verdict is not None and verdict.evidence.n:
        by = f"--scale {result.scale} --seeds {verdict.evidence.n}"
        command = escape(f"{result.study.command} {claim.name} {by}")
        again = f"Again, {verdict.evidence.n * len(variants)} runs: <code>{command}</code>"
    told = [
        f"Shown in: {'; '.join(shown)}." * bool(shown),
        f"A picture of its runs: {'; '.join(same)}." * bool(same),
        f"Runs: {runs}." * bool(runs),
        again,
    ]
    return f'<p class="small">{" ".join(filter(None, told))}</p>' if any(told) else ""


def _cells_of(result: StudyResult, claim: Claim) -> list[CellResult]:
    """The cells whose value is one that the claim compares."""
    compared = {value.words for value in claim.test.compared}
    return [
        each
        for cells in result.tables.values()
        for each in cells
        if each.possible and each.cell.value.words in compared
    ]


def shown_in(result: StudyResult, claim: Claim) -> list[Item]:
    """Tables and figures of this scale that show what a claim speaks of.

    Those whose cells are its values, and those that its source names; then tables of its variants that these lack.
    """
    study = result.study
    cells = {id(each.cell) for each in _cells_of(result, claim)}
    named = _named_in(claim.source)
    found: list[Item] = [table for table in study.tables if any(id(cell) in cells for cell in table.cells)]
    every: list[tuple[Item, str]] = [(item, item.source) for item in study.tables]
    every += [(item, item.source) for item in study.searches] + [(item, "") for item in study.figures]
    for item, label in every:
        by_name = any(re.fullmatch(rf"{name}(?![0-9]).*", item.name) for name in named)
        by_name &= bool(set(item.variants) & set(claim.variants))
        if (by_name or _within(label, claim.source) or _within(claim.source, label)) and item not in found:
            found.append(item)
    found = [item for item in found if _is_here(result, item)]
    lacking = set(claim.variants) - set(needed(found))
    if lacking and study.can(claim, result.scale):
        others = [table for table in study.tables if _is_here(result, table) and table not in found]
        found += _of_variants(others, lacking, claim)
    return found[:_NAMED]


def _is_here(result: StudyResult, item: Item) -> bool:
    """Whether this scale has some of what an item shows."""
    here = set(result.study.needs(result.scale))
    return bool(here & set(item.variants)) and (item.partial or result.study.can(item, result.scale))


def pictures_of(result: StudyResult, claim: Claim, found: Sequence[Item]) -> list[Item]:
    """Where no figure is among what shows a claim: one of most of its variants, of whatever measure."""
    study = result.study
    if any(item in study.figures for item in found) or not study.can(claim, result.scale):
        return []
    return _most_of([item for item in study.figures if _is_here(result, item)], set(claim.variants))


def _most_of(items: Iterable[Item], wanted: set[str]) -> list[Item]:
    """That of them which has most of some variants, and of such the one with fewest others; none where none has any."""
    some = [item for item in items if wanted & set(item.variants)]
    return (
        [min(some, key=lambda item: (-len(wanted & set(item.variants)), len(item.variants)))] if some else []
    )


def _of_variants(tables: Iterable[Table], wanted: set[str], claim: Claim) -> list[Table]:
    """Those that have all of some variants, the ones with fewest others first.

    Else the one that has most of them, then the one that has most of the rest, and so on. A table of other measures
    than the claim's is named, alone, where nothing else has them all.
    """
    measures = {name for value in claim.test.compared for name in value.measures}

    def strange(table: Table) -> bool:
        return not any(measures & cell.value.measures for cell in table.cells)

    ordered = sorted(tables, key=lambda table: (strange(table), len(table.variants)))
    whole = [table for table in ordered if wanted <= set(table.variants)]
    found = [table for table in whole if not strange(table)] or whole[:1]
    while not whole and any(wanted & set(table.variants) for table in ordered):
        found.append(max(ordered, key=lambda table: len(wanted & set(table.variants))))
        wanted = wanted - set(found[-1].variants)
    return found


def _within(place: str, places: str) -> bool:
    """Whether a place in a paper, such as `Sec. V-B`, is named among others; `Sec. V-B5` is another one.

    A place has a number or a capital letter: `not in the paper` is none.
    """
    named = re.search(rf"(?<!\w){re.escape(place)}(?!\w)", places)
    return named is not None and re.search("[A-Z0-9]", place) is not None


def _named_in(source: str) -> list[str]:
    """The names of items that a place in a paper names: `Figs. 3 and 4, Table 2` are figure-3, figure-4, table-2."""
    found = []
    for word, numbers in re.findall(r"(Fig|Table)s?\.? (\d+[a-z]?(?:(?:, | and )\d+[a-z]?)*)", source):
        kind = "figure" if word == "Fig" else "table"
        found += [f"{kind}-{one}" for one in re.findall(r"\d+[a-z]?", numbers)]
    return found


def _tested(result: StudyResult, claim: Claim, verdict: Verdict | None) -> str:
    """The test, folded away: what was compared, its numbers by look and by seed, and each of several tests."""
    if verdict is None:
        return folded("Tested", f'<p class="small">{escape(in_short(claim, None))}.</p>')
    evidence = verdict.evidence
    which = weakest(claim, evidence)
    lines = [f"{in_short(claim, evidence)}.", *([f"The weakest: {which}."] if which else [])]
    if words := test_words(evidence):
        lines.append(f"{words}.")
    if evidence.n and evidence.test != NO_TEST:
        false, true = p_text(verdict.p_holds), p_text(verdict.p_fails)
        lines.append(f"Corrected: of the hypothesis that it is false {false}, that it is true {true}.")
    if evidence.test != NO_TEST and (looked := looked_words(result, claim)):
        lines.append(looked)
    lines += _by_seed(claim, verdict)
    parts = comparisons(claim, evidence)
    # The steps of a trend are told even where they are few: its card shows the whole, and the weakest decides.
    listed = _parts(parts) if len(parts) > (1 if claim.test.whole_first else FEW) else ""
    name = evidence.test if evidence.n > 1 else "not yet"
    told = "".join(f"<p>{escape(line)}</p>" for line in lines)
    return folded(f"Tested: {name}", f'<div class="small">{told}{listed}</div>')


def _by_seed(claim: Claim, verdict: Verdict) -> Iterator[str]:
    """The numbers of the seeds: of what stands for the claim on its card and, of several parts, of that which holds
    least, where that is another one."""
    least, stands = verdict.evidence, shown(claim, verdict)[0]
    told = [(least, ", of the part that holds least" * bool(least.parts))]
    if stands.values != least.values:
        which = "most clearly against it"
        against = verdict.word == "does not hold"
        told.insert(
            0, (stands, f", of the part {which}" if against else ", from end to end of the fitted line")
        )
    for evidence, of in told:
        if evidence.values and not any(map(math.isnan, evidence.values)):
            yield f"By seed{of}: {by_seed_words(evidence)}."


def _parts(parts: Sequence[Examined]) -> str:
    """Each of many tests as a row of a table; what all of them have in common stands above it, once."""
    measures, asked, how = (
        {part.measures for part in parts},
        {part.asked for part in parts},
        {part.how for part in parts},
    )
    alike = len(measures) == 1  # else a measure is told with each part, and what is asked of it, too
    told = f"All {len(parts)} comparisons"
    told += "".join(f" of {name}" for name in parts[0].measures if alike and len(parts[0].measures) == 1)
    told += f", each {parts[0].asked}" * (len(asked) == 1 and bool(parts[0].asked))
    told += f", by {parts[0].how}" * (len(how) == 1)
    columns: list[tuple[str, Callable[[Examined], str]]] = [
        ("", lambda part: part.label if alike else part.test.words)
    ]
    columns += [("Claimed", lambda part: part.asked)] * (alike and len(asked) > 1)
    columns += [
        ("Estimate", lambda part: part.found[0]),
        ("95 % interval", lambda part: part.found[1]),
        ("d", lambda part: part.found[2]),
        ("Seeds", lambda part: str(part.evidence.n)),
    ]
    columns += [("Test", lambda part: part.how)] * (len(how) > 1)
    rows = [[escape(tell(part)) for _, tell in columns] for part in parts]
    return f"<p>{escape(told)}:</p>{table_html([head for head, _ in columns], rows, 'texts')}"


def by_seed_words(evidence: Evidence) -> str:
    """The number of each seed, of a ratio the ratio; where it was never reached, from what on or up to what."""
    ratio = evidence.asks == "ratio above"
    pairs = [
        tuple(math.exp(end) if ratio else end for end in ends)
        for ends in zip(evidence.values, evidence.most or evidence.values, strict=True)
    ]
    known = [end for ends in pairs for end in ends if math.isfinite(end)]
    # So many that seeds which differ do so here, and that a ratio beside the bound of its test is not that bound.
    away = [abs(end - evidence.bound) for end in known] if ratio else []
    digits = enough_digits((max(known, default=0) - min(known, default=0), *away), 1)
    words = []
    for low, high in pairs:
        text, other = (number(end, math.nan, digits).replace("never", "∞") for end in (low, high))
        words.append(text if low == high else f"{text} to {other}")
    return ", ".join(words)


def readings_html(result: StudyResult) -> str:
    """A table of how the paper was read, and of where the study departs from it."""
    readings = result.study.readings
    if not readings:
        return ""
    rows = [
        [
            escape(each.about),
            escape(each.paper or "silent")
            + f'<div class="small">{escape(each.source)}</div>' * bool(each.source),
            escape(each.here),
            "deviation" if each.deviation else "reading",
            escape(each.effect) or NONE,
        ]
        for each in sorted(readings, key=lambda each: not each.deviation)
    ]
    unknown = "" if all(each.effect for each in readings) else f'<p class="small">{NONE}: not measured.</p>'
    return table_html(["", "The paper", "Here", "", "What it changes"], rows, "texts") + unknown


def settings_html(
    result: StudyResult, linked: bool = True, lines: Mapping[str, int] | None = None, file: str = ""
) -> str:
    """What the letters in variants' names mean, the settings that most variants share, and for each variant what it has
    else, how many runs there are, and which item is the shortest way to them again.

    linked: whether the page's links to settings and variants lead here. lines: where runs that are kept stand in a file
    (see `kept.line_numbers`), which is told then.
    """
    study, scale, find = result.study, result.scale, result.reader.find
    every = {variant: _settings(result, variant) for variant in study.needs(scale)}
    values: dict[str, Counter[str]] = {}
    for settings in every.values():
        for name, value in settings.items():
            values.setdefault(name, Counter())[value] += 1
    usual = {name: counts.most_common(1)[0][0] for name, counts in values.items()}
    common = {name: value for name, value in usual.items() if sum(values[name].values()) > len(every) / 2}
    rows, shortest = [], _shortest(result)
    for variant, settings in every.items():
        own = [f"{name} = {value}" for name, value in settings.items() if common.get(name) != value]
        found = {seed: run for seed in result.seeds if (run := find(variant, seed)) is not None}
        row = [
            f'<span id="run-{escape(variant)}">{escape(variant)}</span>' if linked else escape(variant),
            escape("; ".join(own)) or NONE,
            f"{len(found)} (seeds {escape(_seeds([str(seed) for seed in found]))})" if found else "none",
        ]
        if lines is not None:
            kept = sorted(lines[run.key] for run in found.values() if isinstance(run, RunRecord))
            row.append(escape(_stretches(kept)) or NONE)
        rows.append([*row, escape(shortest.get(variant, NONE))])
    shared = table_html(["Setting", "Value"], [[escape(k), escape(v)] for k, v in common.items()], "texts")
    notes = study.notes(scale)
    place = ' id="runs"' if linked else ""
    heads = ["Variant", "What it has else", "Runs", *([] if lines is None else ["Lines of the file"]), "ITEM"]
    told = [f"Names of variants: {study.codes}"] if study.codes else []
    told += [f"Runs are kept in {file}, a line each."] if file and lines else []
    again = escape(f"{study.command} ITEM --scale {scale} --seeds N")
    repeat = (
        f"<code>{again}</code> computes the first N seeds of all variants of a claim, table or figure again; of each "
        "variant ITEM is the one that has fewest others."
    )
    return (
        "".join(f"<p>{escape(line)}</p>" for line in told)
        + f"<p>{repeat}</p>" * bool(rows)
        + folded(f"Settings that most of the {len(every)} variants share", shared)
        + f"<div{place}>{table_html(heads, rows, 'texts')}</div>"
        + (f'<ul class="remarks">{bullets(notes)}</ul>' if notes else "")
    )


def _shortest(result: StudyResult) -> dict[str, str]:
    """For each variant of a scale the item that needs it and fewest others there, by name."""
    study, here = result.study, set(result.study.needs(result.scale))
    found: dict[str, str] = {}
    for item in sorted(study.items.values(), key=lambda item: len(here & set(item.variants))):
        for variant in here & set(item.variants) if item.partial or study.can(item, result.scale) else ():
            found.setdefault(variant, item.name)
    return found


def _settings(result: StudyResult, variant: str) -> dict[str, str]:
    """Every setting of a variant as text, but name and seed."""
    settings = flat(result.study.experiment(variant, result.scale).settings())
    return {name: plain_text(value) for name, value in settings.items() if name not in ("name", "seed")}


def _seeds(seeds: Sequence[str]) -> str:
    if len(seeds) > 2 and len(seeds) == int(seeds[-1]) + 1:
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(seeds) or "none"


def _stretches(numbers: Sequence[int]) -> str:
    """Rising numbers in words: `2 to 5, 9`."""
    told: list[list[int]] = []
    for each in numbers:
        if told and each == told[-1][-1] + 1:
            told[-1] = [told[-1][0], each]
        else:
            told.append([each])
    return ", ".join(" to ".join(map(str, ends)) for ends in told)


def limits(result: StudyResult) -> Iterable[str]:
    """What the method cannot tell, one sentence each."""
    yield (
        f"Verdicts are of scale {result.scale}, with its cuts and with these data: “holds” says that the claim is "
        f"established there, not that the {result.study.printed_in}'s own numbers were met."
    )
    yield (
        "Variances of claims that are not primary are moderated by those of all others: the error over the claims of a "
        "study is held, not that of a single claim whose spread is unlike all others'. In simulation one with twice "
        "their spread errs in about 6 % at a level of 5 %."
    )
    yield (
        "Tests are over seeds: a seed has its own data split, places and start models. What all seeds share, such as "
        "the data set and the code, no number of seeds can tell."
    )
    yield "Intervals and effect sizes are of each claim alone, at 95 %, and not corrected for how many there are."
