"""The pages of the papers' results, made from what is kept in `results/PAPER/SCALE`: a part of `make docs`.

    make results      also writes claims.json, cells.json, study.json and figures/ of each record anew

Whatever a page says of runs comes from `runs.jsonl`; the study declares the rest. Nothing is computed but means and
tests.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from html import escape
from pathlib import Path

from fedroam.analysis.formatting import NONE
from fedroam.analysis.report.page import bullets, folded, table_html
from fedroam.analysis.statistics.looks import LOOKS
from fedroam.cli.study_runs import StudyRuns
from fedroam.papers.library import find_study
from fedroam.study import Study
from fedroam.study.claims import NO_TEST
from fedroam.study.evaluation import StudyResult, evaluate_study
from fedroam.study.kept import FILE, SIMULATION, Records, RunRecord, line_numbers, write_records
from fedroam.study.kept_files import kept_figure, write_kept_files
from fedroam.study.outlook import Outlook, outlook, played_seconds
from fedroam.study.presentation.ahead import hours_words, time_words
from fedroam.study.presentation.exhibits import (
    AtScale,
    figure_html,
    findings_html,
    tables_html,
    undrawn_words,
    which_scale,
)
from fedroam.study.presentation.gpu import Measured, gpu_words, needs_words
from fedroam.study.presentation.sections import (
    claims_html,
    limits,
    readings_html,
    settings_html,
    summary_html,
)
from fedroam.study.presentation.wording import MARKS, untested, verdict_words, verdicts_words
from fedroam.study.values import Item
from fedroam.writing import write_text

DOCS = Path(__file__).parent
RECORDS = DOCS.parent / "results"
# Studies in the order of the table, and what they are called there.
PAPERS = {
    "reza": "DAM and DCM (Reza et al.)",
    "jahani": "Steered movement (Jahani et al.)",
    "heredia": "Client mobility (de Heredia)",
    "mohawk": "MOHAWK",
    "mocfl": "MoCFL",
    "contact-limits": "Contact limits (our own study)",
    "prototype": "MOHAWK's prototype, emulated",
    "quickstart": "fedroam's own README",
}
FILES = ("claims.json", "cells.json", "study.json")
_RESTS_ON = (
    'On record: <a href="../records/cifar-cost.json">cores</a>, <a href="../records/gpu.json">GPU</a>. Claims, tables '
    "and figures have runs in common, so what is told of each adds up to more."
)
_NAMED = 6  # tables and figures that are named


@cache
def measured() -> Measured:
    """What was measured of networks that need a GPU, of one, and of runs at scales of which none is kept."""
    cost, gpu, larger = (
        json.loads((DOCS / "records" / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("cifar-cost", "gpu", "larger-scales")
    )
    return Measured.of(cost, gpu, larger)


SHARE = 0.25  # of a scale's claims that have been looked at, from which on a page may be of it


@dataclass(frozen=True)
class Kept:
    """What is kept of a study at a scale, and what it comes to."""

    study: Study
    scale: str
    folder: Path

    @cached_property
    def _runs(self) -> StudyRuns:
        return StudyRuns.of_records(self.study, self.scale, self.folder)

    @property
    def records(self) -> Records:
        """The runs and the sittings."""
        return self._runs.kept

    @property
    def looks(self) -> tuple[int, ...]:
        """The planned looks: what this project keeps grows over many sittings, and is judged by them from the first."""
        return self.records.looks or LOOKS

    @cached_property
    def result(self) -> StudyResult:
        """What they say."""
        runs = self._runs
        return evaluate_study(self.study, self.scale, range(runs.seeds), runs.find, self.looks)

    @property
    def looked(self) -> bool:
        """Whether there are runs enough for a first look at any claim."""
        return any(self.result.seen.values())

    @property
    def leads(self) -> bool:
        """Whether a quarter of its claims, or more, have been looked at: then a page may be of this scale."""
        seen = self.result.seen
        return self.looked and sum(map(bool, seen.values())) >= SHARE * len(seen)

    @cached_property
    def outlook(self) -> Outlook:
        """What would decide more."""
        return outlook(self.result, self.records.runs.values(), self.records.recent_seconds)

    @cached_property
    def states(self) -> dict[str, str]:
        """What is kept of the runs of each item."""
        return {item.name: self._state(item) for item in self.study.items.values()}

    def _state(self, item: Item) -> str:
        if not item.variants:
            return "needs no run"
        needed, whole = self._runs.needed([item]), self.study.can(item, self.scale)
        if not whole and not (needed and item.partial):
            return f"not at scale {self.scale}"
        keys, there, here = self._runs.keys, self.records.runs.keys(), set(self.study.needs(self.scale))
        variants = [variant for variant in item.variants if variant in here]
        seeds = [
            sum((v, s) in keys and keys[v, s] in there for s in range(self._runs.seeds)) for v in variants
        ]
        runs, some = len(needed & there), [n for n in seeds if n]
        told = f"{runs} run{'s' * (runs != 1)} kept"
        if some:
            which = f"{len(some)} of {len(seeds)}" if len(some) < len(seeds) else f"{len(seeds)}"
            told += f" ({_seeds_from_to(some)} of {which} variant{'s' * (len(seeds) > 1)})"
        return told if whole else f"in part at scale {self.scale}, {told}"

    @property
    def _on_gpu(self) -> dict[str, str]:
        """What it would take to have what of tables and figures needs a GPU, by their names."""
        lacking = [item for item in self.study.items.values() if not self.study.can(item, self.scale)]
        takes = {item.name: needs_words(self.study, item, measured()) for item in lacking}
        return {
            name: f"on CIFAR-10 it needs scale full and a GPU: {words}"
            for name, words in takes.items()
            if words
        }

    @property
    def extent(self) -> str:
        """How much of the scale is kept: all variants or some, by how many seeds, and which figures and tables are
        whole where others are not. Runs of a look that is not whole count, though nothing is judged by them yet."""
        variants, keys = self.study.needs(self.scale), self._runs.keys
        runs = self.records.runs.values()
        seeds = Counter(run.variant for run in runs if keys.get((run.variant, run.seed), run.key) == run.key)
        there = [seeds[variant] for variant in variants if seeds[variant]]
        told = f"{len(there)} of {len(variants)} variants, {_seeds_from_to(there)} each, {sum(there)} runs"
        if len(there) == len(variants):
            return f"whole: {told}"
        shown = (*self.study.tables, *self.study.figures)
        whole = [item.title for item in shown if all(seeds[variant] for variant in item.variants)]
        named = f": {', '.join(f'“{title}”' for title in whole)}" * (0 < len(whole) <= _NAMED)
        count = f"{len(whole)} {'is' if len(whole) == 1 else 'are'} whole"
        return f"in part: {told}; of {len(shown)} tables and figures {count}{named}"

    @property
    def on_network(self) -> list[RunRecord]:
        """The runs that the nodes of a network played."""
        return [run for run in self.records.runs.values() if run.where != SIMULATION]

    @property
    def clock(self) -> float:
        """How many hours these lasted by their clock, which no core hours tell; NaN where one does not tell it."""
        took = (played_seconds(self.study, self.scale, run) for run in self.on_network)
        return sum(math.nan if seconds is None else seconds for seconds in took) / 3600

    @property
    def command(self) -> str:
        """The command that goes on with the record, or makes it anew elsewhere."""
        return (
            f"fedroam reproduce {self.study.name} claims --scale {self.scale} --until-decided --hours 8 "
            f"--records results/{self.study.name}/{self.scale}"
        )

    def written(self, name: str) -> bool:
        """Whether a file is kept beside the runs."""
        return (self.folder / name).is_file()

    @property
    def at(self) -> str:
        """Where the record lies, from its page: out of docs/."""
        return f"../../results/{self.study.name}/{self.scale}"

    @property
    def figures(self) -> dict[str, str]:
        """The files of the figures that are kept, from the record, by the names of the figures."""
        files = {figure.name: f"figures/{figure.name}.svg" for figure in self.study.figures}
        return {name: file for name, file in files.items() if self.written(file)}

    def shown(self, *, own: bool) -> AtScale:
        """What a page has of it. own: whether the page is of its scale."""
        pictures = {}
        for name, file in self.figures.items():
            source, title = escape(f"{self.at}/{file}"), escape(self.study.item(name).title)
            pictures[name] = f'<img src="{source}" alt="{title}" loading="lazy">'
        beyond = self._on_gpu if own else {}
        return AtScale(self.result, self.states, pictures, own, beyond, f"results/{self.study.name}")


def _seeds_from_to(counts: Sequence[int]) -> str:
    """`4 to 9 seeds`."""
    span = " to ".join(map(str, sorted({min(counts), max(counts)})))
    return f"{span} seed{'s' * (span != '1')}"


def kept(name: str, root: Path = RECORDS) -> list[Kept]:
    """What is kept of a study, the largest scale first, behind them those at which hardly a claim has been looked
    at, then those that are only begun; at the scale quick, without a run, where nothing is."""
    study = find_study(name)[0]
    scales = [scale for scale in study.scales if (root / name / scale / FILE).is_file()]
    found = [Kept(study, scale, root / name / scale) for scale in reversed(scales or ["quick"])]
    there = [each for each in found if each.records.runs] or found[:1]
    return sorted(there, key=lambda each: (not each.leads, not each.looked)) if len(there) > 1 else there


def all_kept(root: Path = RECORDS) -> dict[str, list[Kept]]:
    """What is kept of every study; each is evaluated once, when a page first asks for it."""
    return {name: kept(name, root) for name in PAPERS}


def page(found: Sequence[Kept]) -> str:
    """The page of a study, from what is kept of it."""
    first, *others = found
    scales = [each.shown(own=each is first) for each in found]
    elsewhere = [each.result for each in others if each.looked]
    gpu = gpu_words(first.study, measured())
    sections = {
        "Claims": claims_html(first.result, first.outlook, elsewhere, measured()),
        "What the runs say": findings_html(scales),
        "Tables": tables_html(scales),
        "Figures": "\n\n".join(_figures(scales)),
        "How the paper was read": readings_html(first.result),
        "Settings": "\n\n".join(_settings(found, scales)),
        "What this cannot tell": f"<ul>{bullets(limits(first.result))}</ul>",
    }
    written = [
        f"<!-- This page is made by `make docs` from results/{first.study.name}. -->",
        f"# {first.study.title}",
        f"<p>{escape(first.study.paper)} {escape(first.study.about)}</p>",
        f'<div class="found">{summary_html(first.result, first.outlook, elsewhere)}</div>',
        *_what_was_run(first, others),
        *(part for each in found for part in _cut(each, own=each is first)),
        *([f"<p>{escape(gpu)} {_RESTS_ON}</p>"] if gpu else []),
        *(part for title, html in sections.items() if html for part in (f"## {title}", _plain(html))),
        "See also [how claims are judged](../how-claims-are-judged.md).",
        "## The record",
        *_record(found),
    ]
    return "\n\n".join(written) + "\n"


def _plain(html: str) -> str:
    """HTML in which nothing is taken for a formula or for code."""
    return html.replace("$", "&#36;").replace("`", "&#96;")


def _cut(kept: Kept, *, own: bool) -> Iterator[str]:
    """What a scale cuts, and which of its runs broke down; folded away, where the page is of another scale."""
    cut, diverged = kept.study.scale(kept.scale).cut, kept.result.diverged
    if cut:
        title, listed = f"What scale {kept.scale} leaves out, or cuts", f"<ul>{_plain(bullets(cut))}</ul>"
        yield from (f"<p>{escape(title)}:</p>", listed) if own else (folded(f"{title}.", listed),)
    if diverged:
        runs = "1 run" if len(diverged) == 1 else f"{len(diverged)} runs"
        where = "" if own else f"At scale {kept.scale} "
        listed = f"<ul>{_plain(bullets(diverged))}</ul>"
        unseen = len(kept.result.unseen)
        if unseen:
            listed += (
                f"<p>Of {unseen} of {len(kept.records.runs)} runs accuracy by round is not kept: one of them that fell "
                "back to guessing without diverging is not listed.</p>"
            )
        yield folded(f"{where}{runs} diverged or fell back to guessing.", listed)


def _what_was_run(first: Kept, others: Sequence[Kept]) -> Iterator[str]:
    """Scale by scale, what is kept of the study's runs, and what they decide where the page does not tell it."""
    by_scale, lines = {each.scale: each for each in (first, *others)}, []
    for scale in first.study.scales:
        kept = by_scale.get(scale)
        if kept is None or not kept.records.runs:
            lines.append(f"Scale {scale}: not run.")
            continue
        lines.append(f"Scale {scale}: {kept.extent}.")
        if not kept.looked:
            lines[-1] += " No claim can be judged by them yet."
        elif kept is not first:
            lines[-1] += f" {verdicts_words(kept.result)}"
    yield f"<p>What was run, scale by scale:</p>\n<ul>{_plain(bullets(lines))}</ul>"


def _figures(scales: Sequence[AtScale]) -> Iterator[str]:
    """The figures that are kept; then those that are not."""
    own, without = scales[0], []
    figures = own.result.study.figures
    if figures and len(scales) > 1:
        yield which_scale(scales)
    for figure in figures:
        if html := figure_html(scales, figure):
            yield html
        else:
            state = own.states[figure.name] + undrawn_words(own.result, figure)
            told = "; ".join(filter(None, (state, own.beyond.get(figure.name))))
            state = escape(f"{figure.title}: {told}")
            without.append(f'<li id="figure-{escape(figure.name)}">{state}</li>')
    if without:
        yield f"<p>No picture is kept of:</p><ul>{''.join(without)}</ul>"


def _settings(found: Sequence[Kept], scales: Sequence[AtScale]) -> Iterator[str]:
    """The settings of the page's scale, and folded away those of the others; each with where its runs are kept."""
    first, *others = (line_numbers(each.records) for each in found)
    yield settings_html(scales[0].result, lines=first, file=_file(found[0]))
    for kept, each, lines in zip(found[1:], scales[1:], others, strict=True):
        table = settings_html(each.result, linked=False, lines=lines, file=_file(kept))
        told = folded(f"Settings at scale {each.result.scale}", table)
        yield f'<div id="runs{escape(each.place)}">{told}</div>'


def _file(kept: Kept) -> str:
    """Where the runs of a record are."""
    return f"results/{kept.study.name}/{kept.scale}/{FILE}"


def _record(found: Sequence[Kept]) -> Iterator[str]:
    """Where the numbers of each scale are, the command that repeats them, and the sittings that computed them."""
    if found[0].records.runs:
        yield (
            f"Each run is a line of `{FILE}`, with the digest of its settings. The command of a scale goes on until "
            "each claim is decided or hopeless, eight hours at a time; in an empty folder it begins anew."
        )
    else:
        yield "Nothing is kept yet. This command computes what the claims need, eight hours at a time:"
        yield _block(found[0].command)
    yield (
        "`make docs` makes this page from the record again, without computing a run; `make results` also judges it "
        "anew and draws its figures. Figures are kept as the page shows them. A scale's own are drawn from its runs, "
        f"without computing one: `fedroam reproduce {found[0].study.name} figures --judge-only --scale SCALE --records "
        f"results/{found[0].study.name}/SCALE`."
    )
    for each in found:
        if each.records.runs:
            yield f"### Scale {each.scale}"
            yield from _record_at_scale(each)


def _record_at_scale(kept: Kept) -> Iterator[str]:
    files = ", ".join(f"[{name}]({kept.at}/{name})" for name in (FILE, *FILES) if kept.written(name))
    figures = ", ".join(f"[{name}]({kept.at}/{file})" for name, file in kept.figures.items())
    told = f"{files}, and as figures {figures}" if figures else files
    hours = hours_words(kept.records.hours).removeprefix("about ")
    clock = hours_words(kept.clock, "", " by the clock").removeprefix("about ")
    beside = f"; {len(kept.on_network)} of them on the network, {clock}" if kept.on_network else ""
    yield f"Kept are {told}: {len(kept.records.runs)} runs, {hours}{beside}."
    yield _block(kept.command)
    rows = [
        [
            f"<code>{escape(str(one.get('command', '')))}</code>",
            str(one.get("runs", 0)),
            f"{one.get('hours', 0.0):.2f}",
            escape(_machine(one.get("environment", {}))),
        ]
        for one in kept.records.sittings
    ]
    if rows:
        yield table_html(["Sitting", "Runs", "Core hours", "With"], rows, "texts")


def _block(command: str) -> str:
    return f"<!-- test: skip hours of computing -->\n```bash\n{command}\n```"


def _machine(environment: object) -> str:
    """Versions and processor of a sitting."""
    facts = environment if isinstance(environment, dict) else {}
    packages = facts.get("packages", {}) if isinstance(facts.get("packages"), dict) else {}
    told = [f"Python {facts['python']}"] if "python" in facts else []
    told += [f"{name} {packages[name]}" for name in ("torch", "numpy", "scipy") if name in packages]
    return ", ".join([*told, *(str(facts[key]) for key in ("processor",) if key in facts)]) or NONE


def index(studies: Mapping[str, Sequence[Kept]]) -> str:
    """The table of all studies, from what is kept of them."""
    rows, primaries = [], []
    for name, label in PAPERS.items():
        rows += [_row(f"[{label}]({name}.md)", each) for each in studies[name]]
        study = studies[name][0].study
        for primary in study.primary:
            claim = next(claim for claim in study.claims if claim.name == primary)
            found = [_said(each, primary, alone=len(studies[name]) == 1) for each in studies[name]]
            told = _text(f"{claim.text} ({claim.caveat})" if claim.caveat else claim.text)
            primaries.append([f"[{label}]({name}.md)", told, "<br>".join(found)])
    heads = ["paper", "scale", *MARKS.values(), "–", "runs", "core hours", "to decide more of ?"]
    told = sum(
        verdict.evidence.test == NO_TEST
        for several in studies.values()
        for each in several
        for verdict in each.result.verdicts.values()
    )
    return "\n\n".join(
        [
            "<!-- This page is made by `make docs` from results/. -->",
            "# Results",
            "What five papers claim of learning among things that move, and what we expected of contacts that are too "
            "short, tested claim by claim on runs of fedroam. "
            "[What decides a verdict](../how-claims-are-judged.md) was fixed before the runs at scale medium and "
            "above, but for [changes that were made when some of them had been read]"
            "(../how-claims-are-judged.md#what-was-changed-or-added-later), which are listed there with the verdicts "
            "that were withdrawn; of scale quick the first seeds had been run before. Undecided means just that: the "
            "runs that there are reject neither the claim nor its reverse.",
            "✓ holds, ✗ does not hold, ? undecided"
            + (f" ({told} of them only told, and tested no more)" if told else "")
            + ", – not tested: not at this scale, or it waits for runs; runs: kept, of those that the claims need "
            "until their next looks; to decide more of ?: how many of the undecided ones more runs are likely to "
            "decide, and how long these take.",
            f'<div class="counts" markdown="1">\n\n{_table(heads, rows)}\n\n</div>',
            "The primary claims. That one holds is tested in this order, and only if all before it hold; that one does "
            "not hold is tested of each:",
            _table(["paper", "claim", "verdict"], primaries),
            *(
                f"[{label}]({name}.md): {study.caution}"
                for name, label in PAPERS.items()
                if (study := studies[name][0].study).caution
            ),
            "Everything is made from the kept records in [results/](../../results), and `make docs` makes these pages "
            "again. Core hours are of one processor core, so that a night of ten hours on two cores is 20 of them; "
            "four records at scale quick (DAM and DCM, steered movement, MOHAWK, the README) have those of a machine "
            "that was busy with other work, too, which makes them more. No study's figures on CIFAR-10 with networks "
            "that need a GPU are run here.",
        ]
    ) + "\n"  # fmt: skip


def _row(paper: str, kept: Kept) -> list[str]:
    """A study at a scale, in the table of all."""
    result, ahead, none = kept.result, kept.outlook, untested(kept.result)
    words: list[str] = [verdict.word for name, verdict in result.verdicts.items() if name not in none]
    return [
        paper,
        f"{kept.scale}, {_seeds_of(result)}" if kept.records.runs else "none yet",
        *(str(words.count(word)) for word in MARKS),
        str(len(kept.study.claims) - len(words)),
        f"{ahead.kept_of_claims} of {ahead.needed_of_claims}",
        f"{kept.records.hours:.{1 if kept.records.hours >= 0.05 else 2}f}"
        + (f"<br>{kept.clock:.1f} by the clock" if kept.clock > 0 else ""),
        _to_decide(kept),
    ]


def _seeds_of(result: StudyResult) -> str:
    """By how many seeds claims are judged: `4 to 20 seeds`."""
    judged = sorted({verdict.evidence.n for verdict in result.verdicts.values() if verdict.evidence.n})
    if not judged:
        return "no claim judged"
    span = str(judged[0]) if len(judged) == 1 else f"{judged[0]} to {judged[-1]}"
    return f"{span} seed{'s' * (span != '1')}"


def _to_decide(kept: Kept) -> str:
    """The time until the next looks decide what they would, of how many, and until the first looks at what waits for
    runs."""
    result, ahead = kept.result, kept.outlook
    last = result.looks[-1] if result.looks else None
    undecided = [
        name
        for name, verdict in result.verdicts.items()
        if verdict.word == "undecided" and verdict.evidence.n
    ]
    known, told = [name for name in ahead.within(last) if name in undecided], []
    if ahead.together.runs:
        told.append(f"{len(known)} of {len(undecided)}: {time_words(ahead.together)}")
    elif undecided:
        told.append(f"none of {len(undecided)}" + (f" by {last} seeds" if last else ""))
    if ahead.first_together.runs:
        told.append(f"first looks: {time_words(ahead.first_together)}")
    return "<br>".join(told) or NONE


def _said(kept: Kept, claim: str, *, alone: bool) -> str:
    """The verdict on a claim, with the scale where there are several."""
    said = verdict_words(kept.result, claim)
    return said if alone else f"{said} ({kept.scale})"


def _table(heads: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in (heads, ["---"] * len(heads), *rows))


def _text(text: str) -> str:
    """Plain text in a cell of a Markdown table."""
    for mark in "\\|*_<`$":
        text = text.replace(mark, f"&#{ord(mark)};")
    return text


def pages(studies: Mapping[str, Sequence[Kept]]) -> dict[str, Callable[[str], str]]:
    """What makes each page below docs/, by its name."""

    def made(name: str) -> Callable[[str], str]:
        return lambda _: page(studies[name])

    return {"results/index.md": lambda _: index(studies)} | {
        f"results/{name}.md": made(name) for name in PAPERS
    }


def write_pages(made: Mapping[str, Callable[[str], str]]) -> None:
    """Rewrite those pages below docs/ that are out of date, and say so."""
    for name, make in made.items():
        path = DOCS / name
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        new = make(old)
        if new != old:
            path.parent.mkdir(exist_ok=True)
            write_text(path, new)
        print(f"docs/{name}: {'rewritten' if new != old else 'up to date'}")


def main() -> int:
    """Judge each record anew and write the files beside it, then the pages."""
    studies = all_kept()
    for found in studies.values():
        scales = [each for each in found if each.records.runs]
        for each in scales:
            write_records(each.folder, each.records.judged_by(len(each.result.seeds), each.looks))
            write_kept_files(each.folder, each.result, each.records, each.outlook)
            print(f"{each.folder.relative_to(RECORDS.parent)}: {verdicts_words(each.result)}")
        if scales:
            leave_out_figures(found)
    write_pages(pages(studies))
    return 0


def leave_out_figures(found: Sequence[Kept]) -> None:
    """Keep no picture that the page does not show: the kept runs give it at any time."""
    shown = page(found)
    for each in found:
        for figure in each.study.figures:
            file = each.figures.get(figure.name, "")
            if (
                file
                and f'src="{each.at}/{file}"' not in shown
                and kept_figure(figure, each.result) is not None
            ):
                (each.folder / file).unlink()


if __name__ == "__main__":
    sys.exit(main())
