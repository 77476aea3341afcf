"""Tables, searches, figures and findings of pages of one scale or of several, and which of them show a claim."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from html import unescape
from typing import ClassVar

import pandas as pd
import pytest

from fedroam.study import Claim, Curves, Measure, Scale, Study, evaluate_study, final, order, table
from fedroam.study.findings import Finding
from fedroam.study.items import OwnFigure, Search
from fedroam.study.kept import RunRecord
from fedroam.study.presentation.exhibits import (
    AtScale,
    chosen,
    figure_html,
    figure_words,
    findings_html,
    tables_html,
    undrawn_words,
)
from fedroam.study.presentation.sections import claims_html, shown_in
from fedroam.study.values import Kind, Reader

# Final accuracies (%) by seed: means 55, 65 and 60 with errors 5, 4 and 4.
ENDS = {"a": (50.0, 60.0), "b": (61.0, 69.0), "c": (56.0, 64.0)}
other = Measure("other", "%", lambda run: 0.0)


def told(read: Reader) -> list[Finding]:
    """Each variant that has run, in a sentence; of c alone a finding of its own."""
    there = {variant: read(final.of(variant)) for variant in ENDS}
    said = [Finding("Means", tuple(f"Of {v}." for v, found in there.items() if found))]
    said += [Finding("Of the third", ("It is there.",))] if there["c"] else []
    return [one for one in said if one.sentences]


STUDY = Study(
    name="made",
    title="Made",
    paper="Nobody.",
    about="Nothing.",
    base={"clients": 4, "mobility": {"kind": "random", "mobile": 2}},
    variants={"a": {"mobility": "static"}, "b": {}, "c": {"rounds": 40}, "d": {"rounds": 50}},
    scales={"small": Scale(2), "less": Scale(2, without=("d",)), "large": Scale(2, {"rounds": 60})},
    tables=(
        table("ends", "Ends <1>", {v: v for v in ENDS}, {"end": final}, lambda v, of: of.of(v), source="Table 1"),
        table("others", "Others", {"a": "a", "b": "b"}, {"other": other}, lambda v, of: of.of(v)),
    ),
    searches=(Search("enough", "Enough", {0: final.of("a"), 1: final.of("b")}, bound=58.0),),
    figures=(
        Curves("curves", "Curves <1>", {"": {v: v for v in ENDS}}, caption="Over rounds."),
        Curves("last", "Last", {"": {"c": "c", "d": "d"}}),
        Curves("alone", "Alone", {"": {"d": "d"}}),
    ),
    claims=(
        Claim("ahead", "b is ahead of a.", order(final.of("b"), final.of("a")), "In words"),
        Claim("other", "b has more than a.", order(other.of("b"), other.of("a")), "In words"),
        Claim("all", "d is ahead of a.", order(final.of("d") + final.of("c"), 2 * final.of("a")), "In words"),
        Claim("high", "c is high.", order(final.of("c"), 0 * final.of("c")), "Table 1"),
    ),
    findings=told,
)  # fmt: skip


@dataclass(frozen=True)
class _Other:
    """A figure of a paper's own kind, which draws itself from runs."""

    kind: ClassVar[Kind] = "figure"
    partial: ClassVar[bool] = False
    name: str
    title: str
    variants: tuple[str, ...]


def at(
    scale: str,
    variants: Iterable[str],
    *,
    own: bool = False,
    pictures: Iterable[str] = (),
    uncurved: Iterable[tuple[str, int]] = (),
) -> AtScale:
    """Two seeds of some variants at a scale; uncurved: of which no curve is kept."""
    curve = {"accuracy": pd.Series([0.1, 0.6], index=[0, 5])}
    runs = {
        (variant, seed): RunRecord(
            variant,
            seed,
            f"{variant}{seed}",
            numbers={"final accuracy": (end, end)},
            curves={} if (variant, seed) in uncurved else curve,
        )
        for variant in variants
        for seed, end in enumerate(ENDS[variant])
    }
    result = evaluate_study(STUDY, scale, range(2), lambda variant, seed: runs.get((variant, seed)))
    states = dict.fromkeys(STUDY.items, f"{len(runs)} runs kept")
    return AtScale(result, states, {name: f"<i>{name}, {scale}</i>" for name in pictures}, own)


def section(html: str, place: str) -> str:
    """The HTML of a table or a search, or the line of a table without numbers."""
    found = re.search(rf'<h3 id="{place}">.*?(?=<h3|$)|<li id="{place}">.*?</li>', html)
    assert found is not None, place
    return unescape(found[0])


def test_the_first_that_has_any_is_shown_and_another_that_has_more() -> None:
    large, less, small = at("large", "", own=True), at("less", ""), at("small", "")
    scales = [large, less, small]
    for much, wanted in (
        ((3, 3, 3), (large, None)),
        ((1, 0, 3), (large, small)),
        ((1, 3, 3), (large, less)),
        ((0, 2, 3), (less, small)),
        ((0, 0, 1), (small, None)),
        ((0, 0, 0), (large, None)),
    ):
        by_scale = dict(zip(("large", "less", "small"), much, strict=True))
        assert chosen(scales, lambda each, by=by_scale: by[each.result.scale]) == wanted


def test_a_page_of_one_scale_names_none() -> None:
    html = tables_html([at("large", "abc", own=True)])
    ends = section(html, "table-ends")
    assert "Ends <1></h3>" in ends
    assert [number in ends for number in ("55.0 ± 5.0", "65.0 ± 4.0", "60.0 ± 4.0")] == [True] * 3
    assert '<a href="#runs">6 runs kept</a>, Table 1. Mean ± standard error over 2 seeds.</p>' in ends
    assert "reached on average from 1 on" in section(html, "search-enough")
    assert section(html, "table-others") == (
        '<li id="table-others">Others: <a href="#runs">6 runs kept</a>; computed by <code>fedroam reproduce made '
        "others --scale large</code>.</li>"
    )
    assert "<p>1 table has no number yet:</p>" in html
    assert html.count("scale") == 1  # in that command


def test_what_the_own_scale_lacks_is_shown_of_another_that_is_named() -> None:
    html = tables_html([at("large", "", own=True), at("less", "c"), at("small", "ab")])
    assert "Of scale large, where no other scale is named." in html
    ends = section(html, "table-ends")
    assert "Ends <1>, at scale less</h3>" in ends
    shown, folded = ends.split("<details>")
    assert "60.0 ± 4.0" in shown
    assert 'At scale less: <a href="#runs.less">2 runs kept</a>, Table 1.' in shown
    assert "Scale large has no number of it: 0 runs kept." in shown
    assert '<div id="table-ends.small">' in shown
    assert folded.startswith("<summary>More of it at scale small: 2 of 3 numbers instead of 1</summary>")
    assert "55.0 ± 5.0" in folded
    assert "60.0 ± 4.0" not in folded
    assert 'At scale small: <a href="#runs.small">4 runs kept</a>, Table 1.' in folded
    enough = section(html, "search-enough")
    assert "Enough, at scale small</h3><p>never reached" not in enough
    assert "Enough, at scale small</h3><p>reached on average from 1 on" in enough
    assert "Scale large has no result of it: 0 runs kept." in enough
    assert "Others: " in section(html, "table-others")  # no scale has any of it


def test_what_the_own_scale_has_in_part_comes_first() -> None:
    ends = section(tables_html([at("large", "a", own=True), at("small", "abc")]), "table-ends")
    shown, folded = ends.split("<details>")
    assert ", at scale" not in shown
    assert "At scale" not in shown
    assert "runs missing" not in shown
    assert (
        "<p>2 of 3 numbers are left out, as no seed has all runs that they need: rows b; c; computed by "
        "<code>fedroam reproduce "
        "made ends --scale large</code>.</p>" in shown
    )
    assert "More of it at scale small: 3 of 3 numbers instead of 1" in folded


def test_rows_and_columns_of_which_nothing_was_run_are_told_in_a_line() -> None:
    """A row that no run is of, a column that the scale runs nothing of, and one cell that lacks its run."""
    wide = table(
        "wide",
        "Wide",
        {"one": ("a", "b"), "two": ("b", "c"), "three": ("c", "c")},
        {"first": 0, "second": 1, "third": 2},
        lambda row, of: final.of("d" if of == 2 else row[of]),
    )
    made = replace(STUDY, tables=(wide,))
    runs = {
        seed: RunRecord("b", seed, f"b{seed}", numbers={"final accuracy": (1.0, 1.0)}) for seed in range(2)
    }

    def html(scale: str) -> str:
        result = evaluate_study(made, scale, range(2), lambda v, s: runs[s] if v == "b" else None)
        return section(tables_html([AtScale(result, dict.fromkeys(made.items, "some"))]), "table-wide")

    told = html("less")
    assert re.findall(r"<th [^>]*>(.*?)</th>", told) == ["", "first", "second"]
    assert re.findall(r"<tr><td [^>]*>(.*?)</td>", told) == ["one", "two"]
    assert told.count("runs missing") == 2
    left_out = (
        "5 of 9 numbers are left out, as no seed has all runs that they need (2) or scale less does not have "
    )
    left_out += "them (3): row three and column third"
    assert f"<p>{left_out}; computed by <code>fedroam reproduce made wide --scale less</code>.</p>" in told
    result = evaluate_study(made, "less", range(2), lambda v, s: runs[s] if v == "b" else None)
    kept = AtScale(result, dict.fromkeys(made.items, "some"), records="results/made")
    assert "fedroam reproduce made wide --scale less --records results/made/less</code>" in tables_html(
        [kept]
    )
    only = replace(made, tables=(replace(wide, cells=tuple(c for c in wide.cells if c.row != "three")),))
    result = evaluate_study(only, "less", range(2), lambda v, s: runs[s] if v == "b" else None)
    # Of those that are shown two lack runs that the scale has, which the command beside them computes.
    assert (
        "<p>2 of 6 numbers are left out, as scale less does not have them: column third.</p><p>Of 2 other numbers no "
        "seed has all runs that it needs; computed by <code>fedroam reproduce made wide --scale less</code>.</p>"
        in tables_html([AtScale(result, dict.fromkeys(only.items, "some"))])
    )


def test_single_numbers_that_lack_runs_are_counted_with_their_command() -> None:
    """The two variants of a table of four numbers stand crosswise, so that no row and no column is empty."""
    crossed = table(
        "crossed",
        "Crossed",
        {"one": "ab", "two": "ba"},
        {"first": 0, "second": 1},
        lambda row, of: final.of(row[of]),
    )
    made = replace(STUDY, tables=(crossed,))
    runs = {
        seed: RunRecord("b", seed, f"b{seed}", numbers={"final accuracy": (1.0, 1.0)}) for seed in range(2)
    }

    def told(there: str) -> str:
        result = evaluate_study(made, "small", range(2), lambda v, s: runs[s] if v in there else None)
        return tables_html([AtScale(result, dict.fromkeys(made.items, "some"))])

    assert (
        "<p>Of 2 numbers no seed has all runs that it needs; computed by <code>fedroam reproduce made crossed --scale "
        "small</code>.</p>" in told("b")
    )
    assert "no seed has all" not in told("ab").split("<h3")[1]


def test_a_table_whose_runs_give_no_number_is_shown_as_run() -> None:
    none = RunRecord("a", 0, "a0", numbers={"final accuracy": (math.nan, math.nan)})
    result = evaluate_study(STUDY, "small", range(1), lambda v, s: none if v == "a" else None)
    html = tables_html([AtScale(result, dict.fromkeys(STUDY.items, "some"))])
    assert section(html, "table-ends").startswith('<h3 id="table-ends">')


def test_the_place_in_the_paper_stands_before_what_no_run_of_the_scale_gives() -> None:
    here = replace(at("less", "ab", own=True), beyond={"ends": "it needs more", "enough": "it needs more"})
    ends = section(tables_html([here]), "table-ends")
    assert '<a href="#runs">4 runs kept</a>, Table 1; it needs more. Mean ± ' in ends
    assert "made ends --scale" not in ends  # no command gives what it needs


def test_a_search_of_another_scale_says_so_once_and_names_a_command_of_it() -> None:
    made = replace(
        STUDY,
        searches=(Search("far", "Far", {0: final.of("a"), 1: final.of("d")}, bound=58.0, paper=1.0),),
    )
    runs = {
        seed: RunRecord("a", seed, f"a{seed}", numbers={"final accuracy": (1.0, 1.0)}) for seed in range(2)
    }
    result = evaluate_study(made, "less", range(2), lambda v, s: runs[s] if v == "a" else None)
    states = dict.fromkeys(made.items, "some") | {"far": "not at scale less"}
    html = section(tables_html([AtScale(result, states, records="results/made")]), "search-far")
    assert html.startswith('<h3 id="search-far">Far</h3><p>Paper: 1.</p>')
    assert "not at this scale" not in html
    assert (
        "Not at scale less</a>; computed by <code>fedroam reproduce made far --scale small --records "
        "results/made/small</code>." in html
    )
    assert "tested" not in html


def test_a_figure_is_shown_of_the_first_scale_that_has_a_picture() -> None:
    curves, last, alone = STUDY.figures
    large = at("large", "a", own=True, pictures=["curves"])
    small = at("small", "abc", pictures=["curves", "last"])
    both = unescape(figure_html([large, small], curves))
    shown, folded = both.split("<details>")
    assert shown == (
        '<figure id="figure-curves"><i>curves, large</i><figcaption><strong>Curves <1></strong> Over rounds. '
        "Lines: means over seeds; shaded: mean ± one standard error over 2 seeds. "
        'Not drawn, as no curve is kept of it: b, c. <a href="#runs">2 runs kept</a>.</figcaption></figure>'
    )
    assert folded.startswith("<summary>More of it at scale small: 3 lines instead of 1</summary>")
    assert '<figure id="figure-curves.small"><i>curves, small</i>' in folded
    assert "Curves <1>, at scale small</strong> Over rounds. " in folded
    assert 'At scale small: <a href="#runs.small">6 runs kept</a>.' in folded
    other_only = figure_html([large, small], last)
    assert other_only.startswith('<figure id="figure-last"><i>last, small</i>')
    assert other_only.endswith("Scale large has no picture of it: 2 runs kept.</figcaption></figure>")
    assert figure_html([large, small], alone) == ""


def test_a_caption_tells_what_is_drawn_not_what_has_run() -> None:
    """Of runs numbers may be kept, and no curve."""
    curves = STUDY.figures[0]
    large = at("large", "ab", own=True, pictures=["curves"], uncurved=[("a", 1), ("b", 0), ("b", 1)])
    small = at("small", "ab", pictures=["curves"])
    told = unescape(figure_html([large, small], curves))
    shown, folded = told.split("<details>")
    assert "one standard error over 1 seed. Not drawn, as no curve is kept of it: b, c. " in shown
    assert "2 lines instead of 1" in folded
    assert "over 2 seeds. Not drawn, as no curve is kept of it: c. " in folded
    assert figure_words(large, Curves("x", "X", {"P": {"a": "a"}, "Q": {"b": "b", "c": "c"}})).endswith(
        "over 1 seed. Not drawn, as no curve is kept of it: Q."
    )
    assert figure_words(large, Curves("x", "X", {"P": {"a": "a", "b": "b"}, "Q": {"c": "c"}})).endswith(
        "over 1 seed. Not drawn, as no curve is kept of it: Q; b (P)."
    )
    three = {"P": {"a": "a", "grey": "c", "b": "b"}, "Q": {"a": "a", "grey": "c"}, "R": {"grey": "c"}}
    assert figure_words(large, Curves("x", "X", three)).endswith("of it: R; grey in all panels; b (P).")
    assert figure_words(large, Curves("x", "X", {"": {"c": "c"}})) == ""


def test_a_figure_that_only_folders_of_runs_give_says_why_it_is_not_there() -> None:
    drawn = OwnFigure("drawn", "Drawn", ("a",), lambda runs: None)
    other = _Other("other", "Other", ("a",))
    result = at("large", "a").result
    for figure in (drawn, other):
        assert undrawn_words(result, figure) == ", drawn only where their folders are"
        assert undrawn_words(at("large", "b").result, figure) == ""  # its runs are not there
    assert undrawn_words(result, STUDY.figures[0]) == ""  # which what is kept of runs can draw
    assert undrawn_words(result, STUDY.tables[0]) == ""


def test_findings_of_other_scales_follow_with_their_names() -> None:
    large, small = at("large", "ab", own=True), at("small", "abc")
    assert re.findall(r"<h3>(.*?)</h3>", findings_html([large, small])) == [
        "Means",
        "Of the third, at scale small",
    ]
    means = findings_html([large, small]).split("<h3>")[1]
    assert means.startswith('Means</h3><ul class="remarks"><li>Of a.</li><li>Of b.</li></ul><details>')
    assert "More of it at scale small: 3 sentences instead of 2</summary>" in means
    assert findings_html([at("large", "", own=True)]) == ""


@pytest.mark.parametrize(
    ("claim", "scale", "items"),
    [
        ("ahead", "small", ["ends"]),  # not the table of another measure
        ("other", "small", ["others"]),
        ("all", "small", ["ends"]),  # no table has all three: the one with most
        ("all", "less", []),  # not at this scale
        ("high", "small", ["ends"]),  # its source says where
    ],
)
def test_a_claim_leads_to_what_shows_its_variants(claim: str, scale: str, items: list[str]) -> None:
    result = at(scale, "abc", own=True).result
    found = shown_in(result, next(one for one in STUDY.claims if one.name == claim))
    assert [item.name for item in found] == items


def test_a_claim_that_no_figure_shows_leads_to_one_of_its_runs_and_says_no_more() -> None:
    result = at("small", "abc", own=True).result
    cards = claims_html(result)
    card = cards[cards.index('id="claim-ahead"') :]
    assert 'Shown in: <a href="#table-ends">' in card[: card.index("</details>")]
    assert 'A picture of its runs: <a href="#figure-curves">' in card[: card.index("</details>")]
