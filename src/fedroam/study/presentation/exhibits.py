"""Tables, searches, figures and findings of a study's pages as HTML, of one scale or of several.

A page is of one scale. Each of these is shown of that scale where it has any of it, else of another that has, and once
more, folded away, of one that has more of it. Whatever is of another scale than the page names its own. Everything that
a study names is escaped here. Places on the page are `#table-NAME`, `#search-NAME`, `#figure-NAME`, and of what is
folded away `#table-NAME.SCALE`: no item has a dot in its name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape

from fedroam.analysis.report.page import bullets, folded, table_html
from fedroam.study.evaluation import CellResult, StudyResult
from fedroam.study.items import Curves, DrawnFromRecords, Figure, Search, Table
from fedroam.study.kept import RunRecord
from fedroam.study.presentation.wording import as_label, not_above, ours, papers, search_words
from fedroam.study.values import Item


@dataclass(frozen=True)
class AtScale:
    """What a page has of a study at a scale.

    states: what became of the runs of each item; pictures: the figures that are drawn, by name, each as HTML; own:
    whether the page is of this scale; beyond: what items need that no run of this scale gives, by name, in words;
    records: the folder below which each scale's record lies, from where its commands are given, empty where there is
    none.
    """

    result: StudyResult
    states: Mapping[str, str]
    pictures: Mapping[str, str] = field(default_factory=dict)
    own: bool = True
    beyond: Mapping[str, str] = field(default_factory=dict)
    records: str = ""

    @cached_property
    def variants(self) -> frozenset[str]:
        """What the scale runs."""
        return frozenset(self.result.study.needs(self.result.scale))

    @property
    def named(self) -> str:
        """The scale, to stand behind a heading; empty where the page is of it."""
        return "" if self.own else f", at scale {self.result.scale}"

    @property
    def place(self) -> str:
        """What the scale adds to a place on the page, so that two scales have two; empty where the page is of it."""
        return "" if self.own else f".{self.result.scale}"

    def state(self, item: Item, source: str = "") -> str:
        """What became of an item's runs, with a link to their settings, as HTML without a full stop. source: where the
        paper has it, told before what no run of this scale gives."""
        words = self.states[item.name]
        told = escape(_capital(words) if self.own else words)
        if self.variants & set(item.variants):
            told = f'<a href="#runs{escape(self.place)}">{told}</a>'
        told += source
        if item.name in self.beyond:
            told += escape(f"; {self.beyond[item.name]}")
        return told if self.own else f"At scale {escape(self.result.scale)}: {told}"


def chosen(scales: Sequence[AtScale], much: Callable[[AtScale], int]) -> tuple[AtScale, AtScale | None]:
    """The scale of which something is shown, and another that has more of it, if there is one.

    scales: the page's own, then others, those first that are preferred; much: how much of it a scale has. The first
    that has any is shown; where none has, the page's own.
    """
    there = [each for each in scales if much(each)] or [scales[0]]
    most = max(there, key=much)
    return there[0], most if much(most) > much(there[0]) else None


def which_scale(scales: Sequence[AtScale]) -> str:
    """A sentence on what is of which scale, where a page has several."""
    if len(scales) < 2:
        return ""
    return f'<p class="small">Of scale {escape(scales[0].result.scale)}, where no other scale is named.</p>'


def _none_here(scales: Sequence[AtScale], shown: AtScale, item: Item, what: str) -> str:
    """Why another scale is shown than the page's own, which has no `what`."""
    own = scales[0]
    if shown is own:
        return ""
    why = undrawn_words(own.result, item)
    return escape(f"Scale {own.result.scale} has no {what} of it: {own.states[item.name]}{why}.")


def _capital(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}"


def _small(parts: Iterable[str]) -> str:
    return f'<p class="small">{" ".join(filter(None, parts))}</p>'


def _over(counts: Iterable[int]) -> str:
    """`over 4 to 9 seeds`; zeros do not count."""
    there = sorted({count for count in counts if count})
    span = str(there[0]) if len(there) == 1 else f"{there[0]} to {there[-1]}"
    return f"over {span} seed{'s' * (there[-1] > 1)}"


def tables_html(scales: Sequence[AtScale]) -> str:
    """Ours beside the paper's, and the searches."""
    study = scales[0].result.study
    empty = [each for each in study.tables if not any(_numbers_of(scale, each) for scale in scales)]
    tables = [_table(scales, each) for each in study.tables if each not in empty]
    tables += [_without_numbers(scales, empty)] if empty else []
    open_ones = [each for each in study.searches if not any(_judged(scale, each) for scale in scales)]
    searches = [_search(scales, each) for each in study.searches if each not in open_ones]
    if open_ones:
        told = f"Searches of whose values no seed has run all: {len(open_ones)}"
        searches.append(folded(told, "".join(_search(scales, each) for each in open_ones)))
    return "".join([which_scale(scales), *tables, *searches]) if tables or searches else ""


def _numbers_of(each: AtScale, table: Table) -> int:
    """How many cells of a table have a number at a scale, or, of some seed, none."""
    return sum(cell.n > 0 for cell in each.result.tables[table.name])


def _without_numbers(scales: Sequence[AtScale], tables: Sequence[Table]) -> str:
    """The tables that have no number at any scale, a line each, with the command that computes it."""
    lines = []
    for table in tables:
        told = f"{escape(table.title)}{_source(table)}: {scales[0].state(table)}{_computed_by(scales[0], table)}."
        lines.append(f'<li id="table-{escape(table.name)}">{told}</li>')
    which = "1 table has" if len(tables) == 1 else f"{len(tables)} tables have"
    return f"<p>{which} no number yet:</p><ul>{''.join(lines)}</ul>"


def _computed_by(each: AtScale, item: Table | Search) -> str:
    """`; computed by COMMAND` at the scale, or the smallest that has all of the item, as HTML; empty where its runs
    need what no such command gives."""
    study, scale = each.result.study, each.result.scale
    if item.name in each.beyond or not item.variants:
        return ""
    if not each.variants & set(item.variants) or not (item.partial or study.can(item, scale)):
        scale = next((name for name in study.scales if study.can(item, name)), "")
    command = f"{study.command} {item.name} --scale {scale}"
    if each.records:
        command += f" --records {each.records}/{scale}"
    return f"; computed by <code>{escape(command)}</code>" if scale else ""


def _table(scales: Sequence[AtScale], table: Table) -> str:
    def numbers(each: AtScale) -> int:
        return _numbers_of(each, table)

    shown, fuller = chosen(scales, numbers)
    heading = f'<h3 id="table-{escape(table.name)}">{escape(table.title + shown.named)}</h3>'
    html = heading + _numbers(shown, table, _none_here(scales, shown, table, "number"))
    if fuller is not None:
        more = f"{numbers(fuller)} of {len(table.cells)} numbers instead of {numbers(shown)}"
        place = f"table-{table.name}{fuller.place}"
        html += f'<div id="{escape(place)}">{_more(fuller, more, _numbers(fuller, table))}</div>'
    return html


def _numbers(each: AtScale, table: Table, aside: str = "") -> str:
    """A table's cells, and below them what they are."""
    cells = each.result.tables[table.name]
    told_cells, left_out = _with_runs(each, table)
    heads, rows = _matrix(told_cells, len(each.result.seeds), each.result.study.printed_in)
    printed_in = each.result.study.printed_in
    printed = f"; below it the {printed_in}'s" if any(cell.paper is not None for cell in table.cells) else ""
    told = [
        f"{each.state(table, _source(table))}.",
        escape(f"Mean ± standard error {_over(cell.n for cell in cells)}{printed}."),
        "Where a seed has no finite number, the median." * any(cell.endless for cell in cells),
        escape(table.caption),
        aside,
    ]
    below = left_out + "".join(f"<p>{escape(line)}</p>" for line in not_above(table, cells))
    return f"{table_html(heads, rows)}{_small(told)}{below}"


def _with_runs(each: AtScale, table: Table) -> tuple[list[CellResult], str]:
    """The cells of those rows and columns of a table of which anything was run, and, as HTML, what is left out."""
    cells = each.result.tables[table.name]
    rows, columns = ({getattr(one.cell, along) for one in cells if one.n} for along in ("row", "column"))
    kept = [one for one in cells if one.cell.row in rows and one.cell.column in columns]
    computed_by = _computed_by(each, table)
    if len(kept) == len(cells):
        return list(cells), _lacking(cells, computed_by)
    named = [
        f"{along} {names[0]}" if len(names) == 1 else f"{along}s {'; '.join(names)}"
        for along, there in (("row", rows), ("column", columns))
        if (names := [name for name in _named(cells, along) if name not in there])
    ]
    gone = [one for one in cells if one not in kept]
    waiting = sum(one.possible for one in gone)
    one = len(gone) == 1
    whys = [
        (waiting, f"no seed has all runs that {'it needs' if one else 'they need'}"),
        (len(gone) - waiting, f"scale {each.result.scale} does not have {'it' if one else 'them'}"),
    ]
    said = [f"{why} ({n})" if waiting not in (0, len(gone)) else why for n, why in whys if n]
    told = f"{len(gone)} of {len(cells)} numbers {'is' if one else 'are'} left out, as {' or '.join(said)}"
    told += f": {' and '.join(named)}"
    below = f"<p>{escape(told)}{computed_by if waiting else ''}.</p>"
    return kept, below + ("" if waiting else _lacking(kept, computed_by, "other "))


def _lacking(cells: Sequence[CellResult], computed_by: str, which: str = "") -> str:
    """How many of the cells that are shown lack runs which the scale has; empty where none does."""
    count = sum(one.possible and not one.n for one in cells)
    told = f"Of {count} {which}number{'s' * (count > 1)} no seed has all runs that it needs"
    return f"<p>{told}{computed_by}.</p>" if count else ""


def _named(cells: Sequence[CellResult], along: str) -> list[str]:
    """The names of rows or columns, in their order."""
    return list(dict.fromkeys(getattr(one.cell, along) for one in cells))


def _source(table: Table) -> str:
    return escape(f", {table.source}") if table.source else ""


def _more(each: AtScale, words: str, html: str) -> str:
    """What a scale has beyond what is shown, folded away. words: how much more."""
    return folded(f"More of it at scale {each.result.scale}: {words}", html)


def _matrix(cells: Sequence[CellResult], seeds: int, printed_in: str) -> tuple[list[str], list[list[str]]]:
    """Headings and rows as the paper sets them: our number, below it the paper's and the seeds if some are missing."""
    heads = list(dict.fromkeys(each.cell.column for each in cells))
    there = {(each.cell.row, each.cell.column): each for each in cells}
    rows = []
    for name in dict.fromkeys(each.cell.row for each in cells):
        row = [escape(name)]
        for head in heads:
            each = there.get((name, head))
            if each is None:
                row.append("")
                continue
            told = [f"{printed_in} {papers(each)}"] if each.cell.paper is not None else []
            told += [f"n = {each.n}"] if 0 < each.n < seeds else []
            row.append(
                escape(ours(each)) + f'<div class="small">{escape(", ".join(told))}</div>' * bool(told)
            )
        rows.append(row)
    return ["", *heads], rows


def _judged(each: AtScale, search: Search) -> bool:
    """Whether any seed of a scale has all that a search asks for."""
    threshold = each.result.searches[search.name].threshold
    return threshold is not None and any(key.n for key in threshold.evidence)


def _search(scales: Sequence[AtScale], search: Search) -> str:
    shown, _ = chosen(scales, lambda each: int(_judged(each, search)))
    result = shown.result.searches[search.name]
    here = result.threshold is not None
    # Of a scale that does not have it, the state of its runs says so.
    said = search_words(shown.result.study, result) if here else ""
    if not here and search.paper is not None:
        said = f"{as_label(shown.result.study)}: {search.paper:g}"
    told = [
        f"{shown.state(search)}{'' if _judged(shown, search) else _computed_by(shown, search)}.",
        escape(_of_the_search(shown.result, search)) * here,
        _none_here(scales, shown, search, "result"),
    ]
    return (
        f'<h3 id="search-{escape(search.name)}">{escape(search.title + shown.named)}</h3>'
        f"{f'<p>{escape(said)}.</p>' if said else ''}{_small(told)}"
    )


def _of_the_search(result: StudyResult, search: Search) -> str:
    """How what is established was tested."""
    by, alpha, looks = result.searches[search.name].by, result.study.alpha, result.looks
    if not by:
        return f"Nothing is tested before {looks[0]} seeds." if looks else "Nothing is tested yet."
    level = f"level {alpha:g}"
    if looks:
        level = (
            f"1/{len(looks)} of level {alpha:g} (looks are planned after {', '.join(map(str, looks))} seeds)"
        )
    return (
        f"“Established” and “ruled out”: one-sided t tests over {by} seeds, from the largest and from the smallest "
        f"value, each until the first that does not reject, at {level}; not corrected for the claims."
    )


def figure_html(scales: Sequence[AtScale], figure: Figure, large: bool = False) -> str:
    """A figure with its caption; empty where no scale has a picture of it."""

    def parts(each: AtScale) -> int:
        return sum(count > 0 for count in seeds_drawn(each, figure).values())

    shown, fuller = chosen(scales, lambda each: much_drawn(each, figure))
    if not much_drawn(shown, figure):
        return ""
    aside = _none_here(scales, shown, figure, "picture")
    html = _drawn(shown, figure, f"figure-{figure.name}", large, aside)
    if fuller is not None:
        what = figure.parts if isinstance(figure, DrawnFromRecords) else "variants"
        more = f"{parts(fuller)} {what} instead of {parts(shown)}"
        place = f"figure-{figure.name}{fuller.place}"
        html += _more(fuller, more, _drawn(fuller, figure, place, large))
    return html


def _drawn(each: AtScale, figure: Figure, place: str, large: bool, aside: str = "") -> str:
    """A picture, and below it what it shows."""
    kind = ' class="large"' if large else ""
    told = [escape(figure_words(each, figure)), f"{each.state(figure)}.", aside]
    return (
        f'<figure id="{escape(place)}"{kind}>{each.pictures[figure.name]}<figcaption>'
        f"<strong>{escape(figure.title + each.named)}</strong> {' '.join(filter(None, told))}</figcaption></figure>"
    )


def figure_words(each: AtScale, figure: Figure) -> str:
    """What a figure shows, what stands for the seeds in it, and which of its lines it lacks."""
    found = seeds_drawn(each, figure)
    marks = f"{figure.marks} {_over(found.values())}." if figure.marks and any(found.values()) else ""
    return " ".join(filter(None, (figure.caption, marks, _lines_left_out(figure, found))))


def much_drawn(each: AtScale, figure: Figure) -> int:
    """How much a scale has of a figure, 0 where it has no picture of it; some need no variant."""
    if figure.name not in each.pictures:
        return 0
    return 1 + sum(count > 0 for count in seeds_drawn(each, figure).values())


def seeds_drawn(each: AtScale, figure: Figure) -> dict[str, int]:
    """Of how many seeds a figure is, part by part, at a scale; where that is not known, how many seeds have run of each
    of its variants."""
    read = each.result.reader.of_scale(each.variants)
    if isinstance(figure, DrawnFromRecords):
        return figure.seeds_of(read)
    there = [variant for variant in figure.variants if variant in each.variants]
    return {variant: sum(read.find(variant, seed) is not None for seed in read.seeds) for variant in there}


def _lines_left_out(figure: Figure, seeds: Mapping[str, int]) -> str:
    """Which lines, or whole panels, are not drawn; empty where all are, or none is."""
    if not isinstance(figure, Curves) or all(seeds.values()) or not any(seeds.values()):
        return ""
    lacking = {
        title: [label for label in lines if not seeds[f"{title}: {label}" if title else label]]
        for title, lines in figure.panels.items()
    }
    gone = [title for title, without in lacking.items() if len(without) == len(figure.panels[title])]
    drawn = [title for title in figure.panels if title not in gone]
    asked, missed = (
        Counter(label for title in drawn for label in labels[title]) for labels in (figure.panels, lacking)
    )
    everywhere = [label for label, times in missed.items() if times == asked[label] > 1]
    gone += [f"{label} in all panels" for label in everywhere]
    for title in drawn:
        if own := [label for label in lacking[title] if label not in everywhere]:
            gone.append(f"{', '.join(own)}{f' ({title})' if title else ''}")
    return f"Not drawn, as no curve is kept of it: {'; '.join(gone)}."


def undrawn_words(result: StudyResult, item: Item) -> str:
    """Why a figure is not there though its runs are done: what is kept of a run holds numbers and curves."""
    find = result.reader.find
    if item.kind != "figure" or isinstance(item, DrawnFromRecords):
        return ""
    kept = any(isinstance(find(v, s), RunRecord) for v in item.variants for s in result.seeds)
    return ", drawn only where their folders are" if kept else ""


def findings_html(scales: Sequence[AtScale]) -> str:
    """What the runs say beyond the claims: what those of the page's own scale say first."""
    titles = dict.fromkeys(finding.title for each in scales for finding in each.result.findings)
    said = " ".join(line for each in scales for found in each.result.findings for line in found.sentences)
    sides = "“Above” and “below”: the 95 % interval over seeds lies on one side of 0; it is not corrected for how many "
    rule = "Computed from the runs of this page"
    if re.search(r"\b([Aa]bove|[Bb]elow)\b", said):
        rule += f". {sides}are looked at, so this describes and does not test."
    else:
        rule += "; it describes, and tests nothing."
    parts = [which_scale(scales), *(_finding(scales, title) for title in titles)]
    return "".join(parts) + _small([escape(rule)]) if titles else ""


def _finding(scales: Sequence[AtScale], title: str) -> str:
    def said(each: AtScale) -> list[str]:
        return [line for found in each.result.findings if found.title == title for line in found.sentences]

    def listed(each: AtScale) -> str:
        return f'<ul class="remarks">{bullets(said(each))}</ul>'

    shown, fuller = chosen(scales, lambda each: len(said(each)))
    html = f"<h3>{escape(title + shown.named)}</h3>{listed(shown)}"
    if fuller is not None:
        more = f"{len(said(fuller))} sentences instead of {len(said(shown))}"
        html += _more(fuller, more, listed(fuller))
    return html
