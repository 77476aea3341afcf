"""What kept runs come to: files made of the records alone, what is missing, and pages whose every number is theirs."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from html import unescape
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from fedroam.analysis.statistics.paired import above
from fedroam.analysis.statistics.verdicts import p_text
from fedroam.study import (
    Claim,
    Curves,
    Doses,
    OwnFigure,
    Scale,
    Study,
    evaluate_study,
    final,
    order,
    over,
    table,
)
from fedroam.study.evaluation import StudyResult
from fedroam.study.kept import Records, RunRecord, line_numbers, merged, read_records, write_records
from fedroam.study.kept_files import keep_figures_of_folders, kept_texts, write_kept_files
from fedroam.study.outlook import More, outlook
from fedroam.study.presentation.ahead import outlook_words, time_words
from fedroam.study.presentation.exhibits import AtScale, figure_words
from fedroam.study.presentation.page import write_study
from fedroam.study.presentation.sections import claims_html, settings_html, shown_in
from fedroam.study.presentation.tables import as_json
from fedroam.study.presentation.terminal import print_result
from support.made_runs import made_run

# Final accuracies (%) by seed; b is ahead of a by 10.5, 10 and 10.5, c is beside it.
ENDS = {"a": (50.0, 60.0, 55.0), "b": (60.5, 70.0, 65.5), "c": (50.1, 59.5, 55.3)}
SECONDS = {"a": 360.0, "b": 720.0, "c": 36.0}


def study(**changes: Any) -> Study:
    whole: dict[str, Any] = {
        "name": "made",
        "title": "Made",
        "paper": "Nobody.",
        "about": "Nothing.",
        "base": {"clients": 4, "rounds": 3, "mobility": {"kind": "random", "mobile": 2}},
        "variants": {"a": {"mobility": "static"}, "b": {}, "c": {"rounds": 4}, "large": {"rounds": 9}},
        "scales": {"quick": Scale(3, without=("large",)), "full": Scale(5)},
        "tables": (
            table("gain", "Gain", {"b": "b", "c": "c"}, {"gain": final}, lambda v, of: of.of(v) - of.of("a"),
                  ((8.0,), (None,)), source="Table 2"),
        ),
        "figures": (
            Curves("figure-1", "Curves <1>", {"p": {v: v for v in ENDS}}),
            Doses("dose", "Dose", {"": {0: final.of("a"), 2: final.of("b")}}, "x", "y"),
            OwnFigure("own", "Own", ("a",), lambda runs: None),
        ),
        "claims": (
            Claim("helps", "b is better.", order(final.of("b"), final.of("a")), "Sec. 5"),
            Claim("beside", "c is better.", order(final.of("c"), final.of("a")), "Fig. 1"),
            Claim("large", "The large one is good.", over(final.of("large"), 50), "Sec. 6"),
        ),
        "primary": ("helps",),
    }  # fmt: skip
    return Study(**{**whole, **changes})


def records(made: Study, without: tuple[tuple[str, int], ...] = ()) -> Records:
    """What is kept of the runs."""
    runs = [
        RunRecord(
            variant,
            seed,
            made.experiment(variant, "quick", seed).digest,
            None,
            SECONDS[variant],
            {"final accuracy": (end, end)},
            {"accuracy": pd.Series([0.1, end / 100], [0, 3])},
        )
        for variant, ends in ENDS.items()
        for seed, end in enumerate(ends)
        if (variant, seed) not in without
    ]
    return merged(
        Records("made", "quick"), runs, {"command": "fedroam reproduce made", "runs": len(runs)}
    ).judged_by(3)


def judged(made: Study, there: Records, seeds: int = 3) -> StudyResult:
    runs = {(run.variant, run.seed): run for run in there.runs.values()}
    return evaluate_study(made, "quick", range(seeds), lambda variant, seed: runs.get((variant, seed)))


def test_files_are_made_of_records_alone_and_are_the_same_each_time(tmp_path: Path) -> None:
    made, texts = study(), []
    for place in ("one", "two"):
        folder = tmp_path / place
        write_records(folder, records(made))
        there = read_records(folder, "made", "quick")
        result = judged(made, there)
        write_kept_files(folder, result, there, outlook(result, there.runs.values()))
        texts.append({path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()})
    assert texts[0] == texts[1]
    assert set(texts[0]) == {
        "runs.jsonl",
        "claims.json",
        "cells.json",
        "study.json",
        "figure-1.svg",
        "dose.svg",
    }
    assert b"prefers-color-scheme: dark" in texts[0]["dose.svg"]
    helps = json.loads(texts[0]["claims.json"])[0]
    assert helps["estimate"] == pytest.approx((10.5 + 10 + 10.5) / 3, rel=1e-5)
    assert helps["error"] == pytest.approx(0.166667)
    assert helps["hours_estimated"] is False
    cells = json.loads(texts[0]["cells.json"])["gain"]
    assert (cells[0]["paper"], cells[1]["paper"]) == (8.0, None)
    assert cells[1]["mean"] == pytest.approx((0.1 - 0.5 + 0.3) / 3, rel=1e-4)
    some = records(made, tuple(("c", seed) for seed in range(3)))
    less = judged(made, some)
    left = json.loads(kept_texts(less, some, outlook(less, some.runs.values()))["cells.json"])["gain"]
    assert [(cell["row"], cell["n"]) for cell in left] == [("b", 3)]  # none of what has no runs
    facts = json.loads(texts[0]["study.json"])
    assert (facts["runs_kept"], facts["runs_needed"]) == (9, 9)
    assert facts["core_hours"] == pytest.approx(3 * (360 + 720 + 36) / 3600)
    assert facts["commands"] == ["fedroam reproduce made"]


def test_a_figure_of_places_is_kept_where_folders_are_and_stays(tmp_path: Path) -> None:
    from fedroam.analysis.figures.lines import Line, lines_figure

    def own(runs: Any) -> Any:
        return lines_figure([("", [Line("a", tuple(run.rounds["accuracy"] for run in runs["a"]))])], "y")

    made = study(figures=(OwnFigure("own", "Own", ("a",), own),))
    run = made_run(tmp_path / "runs", "a", 0, [0.1, 0.5])
    with_folders = evaluate_study(made, "quick", range(1), lambda v, s: run if (v, s) == ("a", 0) else None)
    result = judged(made, records(made))
    folder = tmp_path / "kept"
    folder.mkdir()
    keep_figures_of_folders(folder, result, with_folders.reader)
    first = (folder / "figures/own.svg").read_bytes()
    write_kept_files(folder, result, records(made), outlook(result, records(made).runs.values()))
    assert (folder / "figures/own.svg").read_bytes() == first


def test_what_is_missing_and_what_would_decide_by_hand() -> None:
    made = study()
    there = records(made, without=(("b", 2), ("c", 1)))
    result = judged(made, there)
    found = outlook(result, there.runs.values())
    assert (found.kept, found.needed) == (7, 9)
    assert (found.missing.runs, found.missing.hours) == (2, pytest.approx((720 + 36) / 3600))
    seeds = result.verdicts["beside"].seeds
    if seeds is None or seeds <= 2:
        assert "beside" not in found.of_claim
    else:  # a has three of them, c two
        assert found.of_claim["beside"].runs == (seeds - 3) + (seeds - 2)
        hours = ((seeds - 3) * 360 + (seeds - 2) * 36) / 3600
        assert found.of_claim["beside"].hours == pytest.approx(hours)
    assert not found.missing.estimated
    whole = outlook(judged(made, records(made)), records(made).runs.values())
    assert whole.missing.runs == 0


def test_a_run_is_taken_to_cost_what_the_last_of_its_like_did() -> None:
    """Of c, the first seeds were run on a busy machine, or by an older fedroam: 100 s each, then 20 and 30."""
    made = study()
    took = dict(enumerate((100.0, 100.0, 20.0, 30.0)))
    there = [
        replace(run, seed=seed, seconds=seconds)
        for run in records(made).runs.values()
        if run.seed == 0
        for seed, seconds in took.items()
        if run.variant == "c" or seed < 3
    ]
    found = outlook(judged(made, records(made), seeds=5), there)
    assert found.missing.runs == 2 + 2 + 1
    assert found.missing.hours == pytest.approx((2 * 60 + 2 * 60 + 25) / 3600)


def test_a_variant_without_runs_is_taken_to_cost_what_others_do() -> None:
    """Kept are three runs of a and two of c; three of b and one of c are missing: b costs the mean of the five."""
    made = study()
    there = records(made, without=(("c", 1), *(("b", seed) for seed in range(3))))
    result = judged(made, there)
    found = outlook(result, there.runs.values())
    mean = (3 * 360 + 2 * 36) / 5
    assert (found.missing.runs, found.missing.estimated) == (4, True)
    assert found.missing.hours == pytest.approx((3 * mean + 36) / 3600)
    assert time_words(found.missing) == "about 12 core minutes, estimated"
    assert "The missing ones take about 12 core minutes, estimated." in outlook_words(result, found)[0]
    of_late = outlook(result, there.runs.values(), 18.0)
    assert of_late.missing.hours == pytest.approx((3 * 18 + 36) / 3600)
    nothing = outlook(judged(made, Records("made", "quick")), [])
    assert (math.isnan(nothing.missing.hours), nothing.missing.estimated) == (True, False)
    assert time_words(nothing.missing) == "a time that is not measured yet"


def test_what_runs_took_of_late_by_hand() -> None:
    """20 runs of an hour together are enough, of as many sittings as have them; what nobody timed tells nothing."""

    def seconds(*sittings: tuple[int, float]) -> float | None:
        return Records(
            "made", "quick", sittings=tuple({"runs": runs, "hours": hours} for runs, hours in sittings)
        ).recent_seconds

    assert seconds((50, 10.0), (12, 0.5), (10, 0.6)) == pytest.approx(3600 * 1.1 / 22)
    assert seconds((50, 10.0), (20, 1.0)) == pytest.approx(180)
    assert seconds((50, 10.0), (24, 1.2), (20, 0.01)) == pytest.approx(3600 * 1.21 / 44), (
        "short ones tell little"
    )
    assert seconds((2, 1.0)) == pytest.approx(1800)
    assert seconds() is None
    assert seconds((5, 0.0)) is None


def test_runs_on_a_network_are_no_measure_of_others() -> None:
    """What is simulated took its time; a run on a network takes what its clock says, and none of those is measured."""
    made = study(on_network=("b",))
    there = records(made, without=tuple(("b", seed) for seed in range(3)))
    found = outlook(judged(made, there), there.runs.values())
    assert (found.missing.runs, math.isnan(found.missing.clock), found.missing.estimated) == (3, True, False)
    assert time_words(found.missing) == "a time that is not measured yet"


def test_runs_on_a_network_take_the_time_of_their_rounds() -> None:
    """b is played by a network, in 3 rounds of 100 s at quick, which its measure tells; a and c are simulated."""
    made = replace(study(on_network=("b",)), round_time="time of a round")
    there = records(made, without=(("b", 1), ("b", 2), ("a", 2)))
    played = [
        replace(
            run, where="network", seconds=None, numbers={**run.numbers, "time of a round": (100.0, 100.0)}
        )
        if run.variant == "b"
        else run
        for run in there.runs.values()
    ]
    more = outlook(judged(made, there), played).missing
    assert (more.runs, more.clock) == (3, pytest.approx(2 * 300 / 3600))
    assert more.hours == pytest.approx(360 / 3600)
    assert time_words(more) == "about 6 core minutes and about 10 minutes by the clock"
    assert time_words(replace(more, hours=0.0)) == "about 10 minutes by the clock"


def test_claims_that_wait_for_their_first_look_are_told_apart() -> None:
    """Three seeds are kept of a, b and c, and the first look is after four; they take 6, 12 and 0.6 core minutes."""
    made = study()
    there = records(made)
    runs = {(run.variant, run.seed): run for run in there.runs.values()}
    result = evaluate_study(made, "quick", range(3), lambda v, s: runs.get((v, s)), (4, 6))
    found = outlook(result, there.runs.values())
    assert {name: more.runs for name, more in found.first.items()} == {"helps": 2, "beside": 2}
    assert found.first["helps"].hours == pytest.approx((360 + 720) / 3600)
    assert (found.first_together.runs, found.first_together.seeds) == (3, 4)  # a is run once for both
    assert outlook_words(result, found)[1:] == [
        "2 claims wait for their first look: 3 runs, about 19 core minutes."
    ]
    told = claims_html(result, found)
    assert "To its first look: 2 runs, about 18 core minutes." in told[told.index("claim-helps") :]
    assert told.count("To its first look") == 2
    assert "n = 0" not in told
    shown = StringIO()
    items = {claim.name for claim in made.claims}
    print_result(result, Console(file=shown, width=200), items, dict.fromkeys(made.items, ""), found)
    said = shown.getvalue()
    assert said.count("To its first look: 2 runs, about 18 core minutes.") == 1
    assert said.count("To its first look") == 2
    assert "2 claims wait for their first look: 3 runs, about 19 core minutes." in said
    assert "n = 0" not in said
    measures = "what that takes is measured by: fedroam reproduce made large --scale full --dry-run."
    assert f"not at this scale. Needs scale full; {measures}" in said
    # Judged once: without any run they wait for those of the study.
    nothing = judged(made, Records("made", "quick"))
    ahead = outlook(nothing, [])
    assert outlook_words(nothing, ahead)[1:] == [
        "2 claims wait for runs: 9 runs, a time that is not measured yet."
    ]
    assert "To test it: 6 runs, a time that is not measured yet." in claims_html(nothing, ahead)
    whole = outlook(judged(made, there), there.runs.values())
    assert (whole.first, whole.first_together.runs) == ({}, 0)


def test_each_look_at_a_claim_is_told() -> None:
    made = study()
    there = records(made)
    runs = {(run.variant, run.seed): run for run in there.runs.values()}
    result = evaluate_study(made, "quick", range(3), lambda v, s: runs.get((v, s)), (2, 3))
    first, second = (p_text(above(ends).p_holds) for ends in ([10.5, 10.0], [10.5, 10.0, 10.5]))
    assert first != second
    told = (
        f"Looks: after 2 seeds {first}, after 3 seeds {second} (of the hypothesis that it is false; by that look "
        "alone, and not corrected for other looks and claims)."
    )
    assert told in claims_html(result)
    assert "Looks: " not in claims_html(judged(made, there))
    one = evaluate_study(made, "quick", range(3), lambda v, s: runs.get((v, s)), (3,))
    assert "Looks: " not in claims_html(one)


def test_what_decides_a_claim_is_also_what_decides_those_before_it() -> None:
    """c − a = 1, 3, 5 is tested first, then b − a = 4, 1, 6: both are undecided, and point to yes."""
    made = study(primary=("beside", "helps"))
    ends = {"a": (50.0, 60.0, 55.0), "b": (54.0, 61.0, 61.0), "c": (51.0, 63.0, 60.0)}
    runs = [
        RunRecord(v, s, f"{v}{s}", None, SECONDS[v], {"final accuracy": (end, end)}, {})
        for v, row in ends.items()
        for s, end in enumerate(row)
    ]
    result = judged(made, Records("made", "quick", {run.digest: run for run in runs}))
    beside, helps = (result.verdicts[name].seeds for name in ("beside", "helps"))
    assert beside is not None and helps is not None  # noqa: PT018
    assert helps >= beside > 3
    found = outlook(result, runs).of_claim
    assert found["beside"].runs == 2 * (beside - 3)
    assert found["helps"].runs == 2 * (helps - 3) + (beside - 3)
    assert found["helps"].seeds == helps


def test_a_claim_that_a_look_decided_needs_no_more_seeds() -> None:
    """After two of three seeds b is ahead of a: its third is not needed. c is beside a: of both all three are."""
    made = study()
    there = records(made, without=(("b", 2),))
    runs = {(run.variant, run.seed): run for run in there.runs.values()}
    result = evaluate_study(made, "quick", range(3), lambda v, s: runs.get((v, s)), (2, 3))
    assert (result.verdicts["helps"].word, result.verdicts["helps"].evidence.n) == ("holds", 2)
    assert result.verdicts["beside"].word == "undecided"
    found = outlook(result, there.runs.values())
    assert (found.kept_of_claims, found.needed_of_claims, found.missing.runs) == (8, 8, 0)


def test_an_undecided_claim_needs_the_runs_of_its_next_look_however_many_seeds_others_have() -> None:
    """b is ahead of a at the first look; c - a = 1, 3, 5 decides nothing, and its next look is after four seeds."""
    made = study(primary=())
    there = records(made)
    c = {0: 51.0, 1: 63.0, 2: 60.0}
    runs = {
        (run.variant, run.seed): replace(run, numbers={"final accuracy": (c[run.seed],) * 2})
        if run.variant == "c"
        else run
        for run in there.runs.values()
    }
    result = evaluate_study(made, "quick", range(20), lambda v, s: runs.get((v, s)), (3, 4, 20))
    assert (result.verdicts["helps"].word, result.verdicts["beside"].word) == ("holds", "undecided")
    assert not result.verdicts["beside"].hopeless
    found = outlook(result, runs.values())
    # four of a and of c, three of b
    assert (found.kept_of_claims, found.needed_of_claims, found.missing.runs) == (9, 11, 2)
    assert outlook_words(result, found)[0].startswith(
        "9 of 11 runs that the claims need until their next looks"
    )


def test_undecided_by_a_number_of_seeds_that_is_known() -> None:
    """c - a = 1, 3, 5: mean 3, deviation 2: some more seeds decide, and both variants need them."""
    made = study(primary=())
    there = records(made)
    runs = [
        RunRecord(v, s, f"{v}{s}", None, SECONDS[v], {"final accuracy": (end, end)}, {})
        for v, ends in {"a": (50.0, 60.0, 55.0), "b": (50.0, 60.0, 55.0), "c": (51.0, 63.0, 60.0)}.items()
        for s, end in enumerate(ends)
    ]
    result = judged(made, Records("made", "quick", {run.digest: run for run in runs}))
    seeds = result.verdicts["beside"].seeds
    assert result.verdicts["beside"].word == "undecided"
    assert seeds is not None and seeds > 3  # noqa: PT018
    found = outlook(result, runs)
    more = found.of_claim["beside"]
    assert more.runs == 2 * (seeds - 3)
    assert more.hours == pytest.approx((seeds - 3) * (360 + 36) / 3600)
    assert outlook_words(result, found)[1:] == [
        "To decide 1 of the 2 undecided claims, with a chance of 80 % each, if effects and spreads are as estimated: "
        f"{more.runs} more runs, {time_words(more)}. That is: c is better.",
        "Of 1 undecided claim no number of seeds can be told: see its card.",
    ]
    assert there.hours == pytest.approx(3 * 1116 / 3600)


def test_the_nearest_claim_is_the_one_that_takes_the_least_time() -> None:
    made = study(primary=())
    result = judged(made, records(made), seeds=1)
    assert result.verdicts["helps"].word == result.verdicts["beside"].word == "undecided"
    there = outlook(result, records(made).runs.values())
    few_but_long, many_but_short, unknown = More(5, 10, 9.0), More(9, 30, 0.5), More(3, 2, math.nan)
    for other in (few_but_long, unknown):
        of_claim = {"helps": other, "beside": many_but_short}
        told = outlook_words(result, replace(there, of_claim=of_claim, together=many_but_short))[1]
        assert told.endswith("The nearest takes 30 more runs, about 30 core minutes: c is better.")


def test_what_all_planned_looks_take_where_no_number_of_seeds_is_known() -> None:
    """c - a = 1, -2, 1: nothing says how many seeds decide that; five of each variant are the last look."""
    made = study(primary=())
    ends = {"a": (50.0, 60.0, 55.0), "b": (60.0, 70.0, 65.0), "c": (51.0, 58.0, 56.0)}
    runs = {
        (v, s): RunRecord(v, s, f"{v}{s}", None, SECONDS[v], {"final accuracy": (end, end)}, {})
        for v, row in ends.items()
        for s, end in enumerate(row)
    }
    result = evaluate_study(made, "quick", range(5), lambda v, s: runs.get((v, s)), (3, 5))
    found = outlook(result, runs.values())
    assert "beside" not in found.of_claim
    assert found.last["beside"].runs == 4
    assert found.last["beside"].hours == pytest.approx(2 * (360 + 36) / 3600)
    assert "helps" not in found.last  # it is decided
    cards = claims_html(result, found)
    told = "all looks that are planned, up to 5 seeds, take 4 more runs, about 13 core minutes."
    assert f"No number of seeds is known that decides it; {told}" in cards
    assert evaluate_study(made, "quick", range(3), lambda v, s: runs.get((v, s)), (3,)).looks == (3,)
    assert not outlook(evaluate_study(made, "quick", range(3), lambda v, s: runs.get((v, s)), (3,)), []).last


def test_cards_say_what_was_found_beside_the_paper_and_lead_to_it(tmp_path: Path) -> None:
    made = study()
    there = records(made)
    result = judged(made, there)
    ahead = outlook(result, there.runs.values())
    states = dict.fromkeys(made.items, "9 of 9 runs done")
    page = write_study(result, tmp_path, states, ahead).read_text(encoding="utf-8")
    assert page.index("Of 2 claims 1 holds") < page.index("b is better.")
    assert "9 of 9 runs that the claims need are there." in page
    card = re.search(r'<div class="claim yes" id="claim-helps">.*?</details></div>', page)
    assert card is not None
    text = unescape(re.sub(r"<[^>]+>", " ", card[0]))
    assert "primary claim 1" in text
    found = "+10.3 ± 0.2 points, 95 % interval +9.6 to +11.1, effect size d = 35.8, n = 3 seeds"
    assert f"Here: {found}" in " ".join(text.split())
    assert "Paper: +8.0 points" in text
    assert text.count("effect size d = 35.8") == 1  # 10.333 / 0.28868
    assert "By seed: 10.5, 10.0, 10.5." in text
    assert '<a href="#table-gain">Gain</a>' in card[0]
    assert '<a href="#run-b">b</a>' in card[0]
    large = page[page.index('id="claim-large"') :]
    assert "Needs scale full; what that takes is measured by" in large[: large.index("</details>")]
    for anchor in re.findall(r'href="#([^"]+)"', page):
        assert f'id="{anchor}"' in page, anchor
    assert [item.name for item in shown_in(result, made.claims[1])] == ["gain", "figure-1"]
    assert "Curves <1>" not in page


def test_a_card_shows_what_the_paper_prints_for_its_claim() -> None:
    """What the claim has comes first; else the cells that are its values; where there are neither, nothing is said."""
    helps, beside, large = study().claims
    cards, told = {}, {}
    for name, first in (("cells", helps), ("words", replace(helps, paper='Sec. 5: "<8> & more"'))):
        result = judged(made := study(claims=(first, beside, large)), records(made))
        for claim, card in zip((helps, beside), claims_html(result).split('id="claim-')[1:], strict=False):
            cards[name, claim.name] = card
        told[name] = [claim["paper"] for claim in as_json(result)["claims"]]
    assert "<p>Paper: +8.0 points</p>" in cards["cells", "helps"]
    assert "<p>Paper: Sec. 5: &quot;&lt;8&gt; &amp; more&quot;</p>" in cards["words", "helps"]
    assert cards["words", "helps"].count("Paper:") == 1
    assert "Paper:" not in cards["words", "beside"]  # its cell has no number
    assert told == {"cells": ["", "", ""], "words": ['Sec. 5: "<8> & more"', "", ""]}


def test_numbers_that_no_paper_prints_stand_under_the_name_of_what_prints_them(tmp_path: Path) -> None:
    made = study(printed_in="thesis")
    result = judged(made, records(made))
    states = dict.fromkeys(made.items, "")
    page = write_study(result, tmp_path, states).read_text(encoding="utf-8")
    assert "<p>Thesis: +8.0 points</p>" in page
    assert '<div class="small">thesis +8.0' in page
    assert "below it the thesis's" in unescape(page)
    shown = StringIO()
    print_result(result, Console(file=shown, width=200), set(made.items), states)
    assert "Ours − thesis" in shown.getvalue()
    for text in (unescape(page), shown.getvalue()):
        assert "Paper" not in text
        assert "paper's" not in text


def test_nothing_kept_is_told_as_nothing() -> None:
    made = study()
    result = judged(made, Records("made", "quick"))
    told = claims_html(result, outlook(result, []))
    assert told.count("no seed has run") >= 2
    assert "±" not in told.split('id="how-to-read"')[0]


def test_a_card_tells_what_was_found_at_other_scales() -> None:
    made = study()
    nothing, found = judged(made, Records("made", "quick")), judged(made, records(made))
    told = claims_html(nothing, outlook(nothing, []), [found, nothing])
    card = told[told.index('id="claim-helps"') :].split("</details>")[0]
    assert "no seed has run" in card
    assert card.count("At scale") == 1  # only where a seed has run
    numbers = "+10.3 ± 0.2 points, 95 % interval +9.6 to +11.1, effect size d = 35.8, n = 3 seeds"
    assert f"At scale quick: ✓ holds, {numbers}." in card
    again = claims_html(found, outlook(found, []), [found])
    assert f"At scale quick, by the same runs: ✓ holds, {numbers}." in again


def test_shading_is_named_with_its_seeds() -> None:
    made = study()
    result = judged(made, records(made, without=(("c", 2),)))
    words = figure_words(AtScale(result, {}), made.figures[0])
    assert words == "Lines: means over seeds; shaded: mean ± one standard error over 2 to 3 seeds."
    assert figure_words(AtScale(result, {}), made.figures[2]) == ""  # nothing is known of its marks


def test_settings_are_told_once_and_what_differs_by_variant() -> None:
    told = settings_html(judged(study(), records(study(), without=(("c", 1),))))
    rows = dict(re.findall(r'<span id="run-(\w+)">\w+</span></td><td[^>]*>([^<]*)</td>', told))
    assert rows["a"].startswith("mobility.kind = static")
    assert rows["b"] == "–"  # the usual ones
    assert rows["c"] == "rounds = 4"
    assert "large" not in rows
    assert re.findall(r'data-head="Runs">([^<]*)<', told) == [
        "3 (seeds 0 to 2)",
        "3 (seeds 0 to 2)",
        "2 (seeds 0, 2)",
    ]
    assert re.findall(r'data-head="ITEM">([^<]*)<', told) == ["own", "dose", "beside"]
    assert "<code>fedroam reproduce made ITEM --scale quick --seeds N</code>" in told
    coded = replace(study(), codes="<a>: all that is a.")
    assert "<p>Names of variants: &lt;a&gt;: all that is a.</p>" in settings_html(
        judged(coded, records(coded))
    )
    assert told.count("mobility.mobile") == 1
    assert "runs.jsonl" not in told


def test_each_run_is_told_by_its_line_of_the_record(tmp_path: Path) -> None:
    """The head is the first line; behind it a 0 to 2, b 0 to 2, c 0 and 2: not c 1, whose line is not there."""
    there = records(study(), without=(("c", 1),))
    lines = line_numbers(there)
    told = settings_html(judged(study(), there), lines=lines, file="results/made/quick/runs.jsonl")
    assert "<p>Runs are kept in results/made/quick/runs.jsonl, a line each.</p>" in told
    assert re.findall(r'data-head="Lines of the file">([^<]*)<', told) == ["2 to 4", "5 to 7", "8 to 9"]
    written = write_records(tmp_path, there).read_text(encoding="utf-8").splitlines()
    for run in there.runs.values():
        line = json.loads(written[lines[run.key] - 1])
        assert (line["variant"], line["seed"]) == (run.variant, run.seed)
    apart = settings_html(judged(study(), there), lines={**lines, there_key(there, "b", 1): 20})
    assert 'data-head="Lines of the file">5, 7, 20<' in apart


def there_key(there: Records, variant: str, seed: int) -> str:
    return next(run.key for run in there.runs.values() if (run.variant, run.seed) == (variant, seed))
