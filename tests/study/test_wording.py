"""Words of many tests, families of claims, findings: against numbers made by hand."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from html import unescape
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from fedroam.analysis.statistics.looks import shared
from fedroam.analysis.statistics.paired import Evidence, above, below, every, within
from fedroam.analysis.statistics.verdicts import Verdict, judge
from fedroam.errors import InputError
from fedroam.recording import Run
from fedroam.study import Claim, Measure, Reading, Scale, Study, all_of, equal, evaluate_study, order, over
from fedroam.study import claims as tested
from fedroam.study.claims import declared_knowing, falls, ratio, told_only
from fedroam.study.evaluation import CellResult
from fedroam.study.findings import Effect, Finding, by_side, effects, listed, named
from fedroam.study.items import Cell, table
from fedroam.study.kept import RunRecord
from fedroam.study.presentation.page import write_study
from fedroam.study.presentation.sections import by_seed_words, claims_html, summary_html
from fedroam.study.presentation.tables import claims_table
from fedroam.study.presentation.terminal import print_result
from fedroam.study.presentation.wording import (
    MARKS,
    comparisons,
    effect_size,
    estimate_words,
    in_short,
    not_above,
    of_our_own,
    otherwise,
    ours,
    shared_words,
    shown,
    summary,
    unit_of,
    weakest,
)
from fedroam.study.presentation.wording import test_words as how_words
from fedroam.study.values import Find, Quotient, Reader

# Scores (%) by seed: b to e minus a are +10, +5, -2 and -4, each with a spread of ±1 (standard error 1 for two seeds).
SCORES = {"a": (50.0, 60.0), "b": (61.0, 69.0), "c": (56.0, 64.0), "d": (49.0, 57.0), "e": (47.0, 55.0)}
score = Measure("score", "%", lambda run: SCORES[run.folder.parent.name][int(run.folder.name)])
LATER = "added later"


def claim(name: str, others: str, family: str = "") -> Claim:
    tests = [order(score.of(other), score.of("a")) for other in others]
    return Claim(name, f"{others} are above a.", all_of(tests), family=family)


CLAIMS = (
    claim("four", "bcde"),
    claim("two", "bc"),
    Claim("one", "b is above a.", order(score.of("b"), score.of("a"))),
    claim("later", "be", LATER),
)


def found(read: Reader) -> list[Finding]:
    told = effects(read, {key: score.of(key) - score.of("a") for key in "bcde"})
    return [Finding("What is <above>", tuple(one.words for one in told))] if told else []


def study(claims: tuple[Claim, ...] = CLAIMS) -> Study:
    return Study(
        name="made",
        title="Made",
        paper="Nobody.",
        about="Nothing.",
        base={},
        variants={key: {"rounds": k + 1} for k, key in enumerate(SCORES)},
        scales={"full": Scale(2), "less": Scale(2, cut=("no e",), without=("e",))},
        claims=claims,
        readings=(Reading("alpha", "0.1 here", paper="alpha is <lost>", deviation=True),),
        findings=found,
    )


@pytest.fixture
def find(tmp_path: Path) -> Find:
    def find(variant: str, seed: int) -> Run:
        run = Run(tmp_path / variant / str(seed))
        run.__dict__["status"] = {"digest": "x", "diverged_at": None}
        run.__dict__["rounds"] = pd.DataFrame({"round": [0], "accuracy": [0.1]})
        return run

    return find


def test_many_tests_are_told_in_short(find: Find) -> None:
    verdicts = evaluate_study(study(), "full", range(2), find).verdicts
    assert in_short(CLAIMS[0], verdicts["four"].evidence) == (
        "4 comparisons of score, each > 0 points; smallest −4.0 ± 1.0 points (e − a), largest +10.0 ± 1.0 (b − a). "
        "On the wrong side: 2 (e − a: −4.0 ± 1.0; d − a: −2.0 ± 1.0)"
    )
    assert weakest(CLAIMS[0], verdicts["four"].evidence) == "e − a"
    for few in (1, 2):
        evidence = verdicts[CLAIMS[few].name].evidence
        assert in_short(CLAIMS[few], evidence) == CLAIMS[few].test.words
    assert weakest(CLAIMS[2], verdicts["one"].evidence) == ""
    assert [part.label for part in comparisons(CLAIMS[0], verdicts["four"].evidence)] == [
        f"{key} − a" for key in "bcde"
    ]
    assert in_short(CLAIMS[0], None) == "4 comparisons"  # not at this scale


def test_what_stands_for_a_claim_of_several_parts() -> None:
    """Of a trend the whole, of a claim that does not hold what speaks against it, else the part that holds least."""
    values = {"b": (10.0, 11.0, 12.0), "c": (5.0, 5.1, 4.9), "d": (-2.0, -1.0, -3.0), "e": (-4.0, -4.1, -3.9)}
    read = Reader(lambda variant, seed: None, range(3))
    read.ends = lambda value: dict(enumerate(zip(*2 * [values[value.variants[0]]], strict=True)))  # type: ignore[method-assign]

    def found(test: tested.Test) -> tuple[float, str]:
        claim = Claim("it", "", test)
        evidence, part = shown(claim, judge([test.evidence(read)])[0])
        return round(evidence.estimate, 3), part

    of = {key: over(score.of(key)) for key in values}
    assert found(of["b"]) == (11.0, "")
    assert found(all_of([of["b"], of["c"]])) == (11.0, "of 2 parts the one that holds least: b")
    assert found(all_of([of["b"], of["d"], of["e"]])) == (
        -4.0,
        "of 3 parts the one most clearly against it: e",
    )
    trend = falls({k: Quotient(score.of(key), score.of("b")) for k, key in enumerate("bcde")})
    assert trend.whole_first
    assert not all_of([trend, of["b"]]).whole_first


def test_of_a_trend_its_whole_is_shown(find: Find) -> None:
    """b, c, d fall from 65 to 53 on average over two seeds, each by the same: the fitted line by 12."""
    for claim, size in (
        (Claim("it", "", falls({k: score.of(key) for k, key in enumerate("bcd")})), -12.0),
        (Claim("it", "", falls({k: score.of(key) for k, key in enumerate("dcb")})), 12.0),
    ):
        verdict = evaluate_study(study((claim,)), "full", range(2), find).verdicts["it"]
        evidence, part = shown(claim, verdict)
        assert evidence.estimate == pytest.approx(size)
        if verdict.word != "does not hold":
            assert part == "from end to end of the fitted line (tested with its 2 steps)"


def test_the_card_of_a_trend_tells_seeds_and_tests_of_what_it_shows(find: Find) -> None:
    """b, c, d fall by 20 and by 19. A quarter of that is added to each step: the first, by 1 and 3, holds least."""
    numbers = {"b": (60.0, 62.0), "c": (59.0, 59.0), "d": (40.0, 43.0)}
    given = Measure("given", "%", lambda run: numbers[run.folder.parent.name][int(run.folder.name)])
    trend = Claim("it", "It falls.", falls({k: given.of(key) for k, key in enumerate(numbers)}))
    card = unescape(claims_html(evaluate_study(study((trend,)), "full", range(2), find)))
    assert "Here: <strong>−19.5 ± 0.5 points" in card
    assert "<p>By seed, from end to end of the fitted line: −20.0, −19.0.</p>" in card
    assert "<p>By seed, of the part that holds least: −6.0, −7.8.</p>" in card
    assert re.findall(r"<tr><td[^>]*>(.*?)</td><td[^>]*>(.*?)</td>", card) == [
        ("given of b and so on falls over 0, 1, 2", "−19.5 ± 0.5 points"),
        ("the step from 0 to 1 goes back by less than 0.25 of the whole", "−6.9 ± 0.9 points"),
        ("the step from 1 to 2 goes back by less than 0.25 of the whole", "−22.4 ± 1.6 points"),
    ]
    two = Claim("two", "Both.", all_of([order(score.of(key), score.of("a")) for key in "bc"]))
    plain = claims_html(evaluate_study(study((two,)), "full", range(2), find))
    assert plain.count("By seed") == 1
    assert "<p>All " not in plain


def test_seeds_of_a_claim_that_does_not_hold_are_of_what_speaks_against_it(find: Find) -> None:
    claim = Claim("it", "", all_of([order(score.of(key), score.of("a")) for key in "cd"]))
    result = evaluate_study(study((claim,)), "full", range(2), find)
    parts = tuple(
        replace(part, p_fails=p)
        for part, p in zip(result.verdicts["it"].evidence.parts, (0.01, 0.5), strict=True)
    )
    verdict = result.verdicts["it"]
    against = replace(verdict, word="does not hold", evidence=replace(verdict.evidence, parts=parts))
    card = claims_html(replace(result, verdicts={"it": against}))
    assert "By seed, of the part most clearly against it: 6.0, 4.0." in card
    assert "By seed, of the part that holds least: −1.0, −3.0." in card


def test_steps_of_several_trends_name_their_trends(find: Find) -> None:
    trends = [falls({k: score.of(key) for k, key in enumerate(keys)}) for keys in ("bcd", "cde")]
    claim = Claim("it", "", all_of(trends))
    evidence = evaluate_study(study((claim,)), "full", range(2), find).verdicts["it"].evidence
    labels = [part.label for part in comparisons(claim, evidence)]
    assert len(set(labels)) == len(labels) == 6
    step = "the step from {} to {} goes back by less than 0.25 of the whole"
    assert labels[1] == f"{step.format(0, 1)}, where {trends[0].words}"
    alone = Claim("alone", "", trends[0])
    evidence = evaluate_study(study((alone,)), "full", range(2), find).verdicts["alone"].evidence
    assert [part.label for part in comparisons(alone, evidence)][1] == step.format(0, 1)


def test_how_many_times_has_no_sign(find: Find) -> None:
    """Of a test of quotients: e is 0.94 and 0.92 times a, b 1.22 and 1.15 times."""
    claim = Claim("it", "", all_of([over(Quotient(score.of(key), score.of("a"))) for key in "bcde"]))
    evidence = evaluate_study(study((claim,)), "full", range(2), find).verdicts["it"].evidence
    assert "; smallest 0.9 times ((e) / (a)), largest 1.2 ((b) / (a))." in in_short(claim, evidence)


def test_one_claim_and_one_primary_claim_are_not_told_as_several(find: Find) -> None:
    def families(count: int, primary: tuple[str, ...]) -> str:
        made = replace(study(CLAIMS[:count]), primary=primary)
        return evaluate_study(made, "full", range(2), find).families()

    assert families(1, ()) == "1 claim by Holm's method"
    assert families(1, ("four",)) == "1 primary claim"
    assert families(2, ("four",)) == "1 primary claim and 1 other claim by Holm's method"
    assert (
        families(3, ("four", "two")) == "2 primary claims in their order and 1 other claim by Holm's method"
    )


def test_cards_of_primary_claims_come_first_in_the_order_in_which_they_are_tested(find: Find) -> None:
    result = evaluate_study(replace(study(), primary=("one", "two")), "full", range(2), find)
    assert [claim.name for claim, _ in result.claims()] == ["one", "two", "four", "later"]
    assert all(verdict is result.verdicts[claim.name] for claim, verdict in result.claims())
    cards = re.findall(r'id="claim-([a-z]+)"', claims_html(result))
    assert cards == ["one", "two", "four", "later"]


def without_c(find: Find) -> Find:
    """As if one variant had not run."""
    return lambda variant, seed: None if variant == "c" else find(variant, seed)


def test_claims_of_our_own_are_counted_apart(find: Find) -> None:
    own = replace(CLAIMS[2], name="own", source="as Table 1; not in the paper")
    result = evaluate_study(study((*CLAIMS[:2], own)), "full", range(2), find)
    word = result.verdicts["own"].word
    told = {"holds": "1 holds", "does not hold": "1 does not", "undecided": "1 undecided"}[word]
    assert of_our_own(result) == f"1 of them is not in the paper but ours ({told})."
    waiting = replace(own, name="waits", test=order(score.of("c"), score.of("a")))
    beside = evaluate_study(study((*CLAIMS[:2], own, waiting)), "full", range(2), without_c(find))
    assert of_our_own(beside) == f"2 of them are not in the paper but ours ({told}, 1 not tested)."
    assert summary(result)[0].endswith(of_our_own(result))
    assert of_our_own(evaluate_study(study(), "full", range(2), find)) == ""


def test_what_other_scales_say_of_primary_claims_and_what_they_decide_the_other_way(find: Find) -> None:
    """By the same runs, by others, and by some of each: what a run is known by is the digest of its settings."""
    made = replace(study(CLAIMS[:3]), primary=("one",))
    here, there = (evaluate_study(made, scale, range(2), find) for scale in ("full", "less"))
    claim = made.item("one")
    assert shared_words(here, there, claim) == ", by the same runs"  # whose digest is always x

    def other(variant: str, seed: int) -> Run:
        run = find(variant, seed)
        run.status["digest"] = "y" if variant == "b" or not some else "x"
        return run

    some = True
    there = evaluate_study(made, "less", range(2), other)
    assert shared_words(here, there, claim) == ", in part by the same runs"
    some = False
    there = evaluate_study(made, "less", range(2), other)
    assert shared_words(here, there, claim) == ""
    word = there.verdicts["one"].word
    (line,) = summary(here, [there])[1:]
    assert f"({MARKS[word]} {word} at scale less)." in line
    assert otherwise(here, there) == ""
    turned = {"one": replace(here.verdicts["one"], word="holds")}
    against = {"one": replace(there.verdicts["one"], word="does not hold")}
    told = otherwise(replace(here, verdicts=turned), replace(there, verdicts=against))
    assert told == "At scale less 1 claim is decided the other way: b is above a."
    assert told in summary_html(replace(here, verdicts=turned), None, [replace(there, verdicts=against)])


def test_all_on_the_right_side_and_many_on_the_wrong(find: Find) -> None:
    def words(tests: list, seeds: int = 2) -> str:
        one = Claim("it", "", all_of(tests))
        return in_short(
            one, evaluate_study(study((one,)), "full", range(seeds), find).verdicts["it"].evidence
        )

    right = [over(score.of(key), 40) for key in "abcd"]
    assert words(right) == (
        "4 comparisons of score, each > 40 %; smallest 53.0 ± 4.0 % (d), largest 65.0 ± 4.0 (b). "
        "On the wrong side: none"
    )
    wrong = words([over(score.of(key), 90 + k) for k, key in enumerate("abcdea")])
    assert "each" not in wrong  # bounds differ
    assert wrong.count(" ± ") == 2 + 4
    assert "On the wrong side: 6 (" in wrong
    assert wrong.endswith("; and 2 more)")
    assert words(right, 1) == "4 comparisons of score, each > 40 %. Without two seeds yet: 4"
    # Tests of another form, and parts within parts.
    mixed = [
        all_of([equal(score.of("b"), score.of("c"), 1.0), over(score.of("a"), 0)]),
        over(score.of("b"), 0),
        falls({k: score.of(key) for k, key in enumerate("bcd")}),
    ]
    told = words(mixed)
    assert told.startswith("6 comparisons. On the wrong side: 1")
    assert "b − c: +5.0 ± 0.0" in told  # within ±1, and it is 5


def test_a_family_is_corrected_apart(find: Find) -> None:
    together = evaluate_study(study(), "full", range(2), find)
    alone = evaluate_study(study(CLAIMS[:3]), "full", range(2), find)
    for name in ("four", "two", "one"):
        assert together.verdicts[name] == alone.verdicts[name]
    later: Verdict = together.verdicts["later"]
    assert later.p_fails == pytest.approx(later.evidence.p_fails)  # the only one of its family
    assert together.families() == "3 claims by Holm's method and apart from them 1 (added later)"
    assert alone.families() == "3 claims by Holm's method"
    assert claims_table(together)["family"].tolist() == ["", "", "", LATER]


def test_what_is_only_told_has_no_number_of_a_test_on_its_card(find: Find) -> None:
    fact = Claim("fact", "It is.", told_only(CLAIMS[0].test, "the trace says so"))
    result = evaluate_study(study((*CLAIMS[:2], fact)), "full", range(2), find)
    card = claims_html(result).partition('id="claim-fact"')[2].partition("</details>")[0]
    assert "Tested: no test" in card
    assert "the trace says so" in card.lower()
    assert not [word for word in ("Here:", "By seed", "Corrected", "nan") if word in card]


def test_numbers_by_seed_are_as_long_as_tells_them_apart_from_one_and_each_other(find: Find) -> None:
    ratios = Evidence("t", 2, values=(math.log(0.987), math.log(0.986)), asks="ratio above")
    assert by_seed_words(ratios) == "0.987, 0.986"
    # Beside the bound of the test, whichever seed it is: 0.97 is not 1, and 1.54 is not 1.5.
    assert by_seed_words(replace(ratios, values=(math.log(2.0), math.log(0.97)), bound=1.0)) == "2.00, 0.97"
    assert by_seed_words(replace(ratios, values=(math.log(2.0), math.log(1.54)), bound=1.5)) == "2.00, 1.54"
    assert by_seed_words(Evidence("t", 2, values=(12.34, 15.0))) == "12.3, 15.0"
    assert by_seed_words(Evidence("t", 2, values=(3.0, 3.0))) == "3.0, 3.0"


def test_pages_fold_what_is_long_and_tell_findings_and_readings(find: Find, tmp_path: Path) -> None:
    result = evaluate_study(study(), "full", range(2), find)
    page = write_study(result, tmp_path / "out", dict.fromkeys(study().items, "")).read_text(encoding="utf-8")
    assert page.count("<p>All ") == 1
    assert "All 4 comparisons" in page
    assert page.count("<details><summary>Tested: ") == len(result.verdicts)
    assert (
        "Here: <strong>−4.0 ± 1.0 points, 95 % interval −16.7 to +8.7, effect size d = −2.8, n = 2 seeds</strong>, of "
        "4 parts the one that holds least: e − a" in page
    )
    assert "<p>The weakest: e − a.</p>" in page
    assert "<h3>What is &lt;above&gt;</h3>" in page
    assert "<li>b (+10.0 ± 1.0 points, n = 2)</li>" in page
    assert "alpha is &lt;lost&gt;" in page
    assert "and apart from them 1 (added later)" in page
    whole = json.loads((tmp_path / "out/study.json").read_text(encoding="utf-8"))
    assert whole["findings"]["What is <above>"][-1] == "e (−4.0 ± 1.0 points, n = 2)"
    assert whole["readings"][0]["paper"] == "alpha is <lost>"
    full = next(line for line in whole["claims"] if line["claim"] == "four")["tested"]
    assert full.count("score of") == 8  # nothing is left out of the file
    for items, there in ((set(study().items), True), ({"one"}, False)):
        shown = StringIO()
        print_result(result, Console(file=shown, width=200), items, {})
        assert ("What is <above>" in shown.getvalue()) == there
        assert "corrected: 3 claims by Holm's method and apart from them 1 (added later)" in " ".join(
            shown.getvalue().split()
        )
    assert "4 comparisons of score" not in shown.getvalue()


def test_an_estimate_tells_its_effect_size_and_a_sign_test_that_it_has_no_interval() -> None:
    # Mean 2, deviation 1, standard error 0.577; the interval is 4.303 of these wide to either side.
    found = "+2.0 ± 0.6 points, 95 % interval −0.5 to +4.5, effect size d = {}, n = 3 seeds"
    assert estimate_words(above((1.0, 2.0, 3.0)), "points") == found.format("2.0")
    assert estimate_words(above((1.0, 2.0, 3.0), 4.0), "points") == found.format("−2.0")
    assert estimate_words(above((1.0, 2.0, 3.0), 2.01), "points") == found.format("0.0")  # no "−0.0"
    assert (
        estimate_words(above((3.0,) * 3), "points")
        == "+3.0 ± 0.0 points, no interval (sign test), n = 3 seeds"
    )
    never = above((5.0, 7.0, math.inf))
    assert estimate_words(never, "rounds") == "7.0 rounds, no interval (sign test), n = 3 seeds"
    assert estimate_words(above((2.0,)), "points") == "+2.0 points, n = 1 seed"
    # The part that is shown has four seeds, mean 1.5 and deviation 1.291; the other has two.
    assert "d = 1.2, n = 2" in estimate_words(
        every([above((0.0, 1.0, 2.0, 3.0)), above((10.0, 11.0))]), "points"
    )
    assert "d =" not in how_words(above((1.0, 2.0, 3.0)))


def test_the_weakest_part_is_named_over_looks_too(find: Find) -> None:
    evidence = evaluate_study(study(), "full", range(2), find).verdicts["four"].evidence
    looked = shared([evidence])
    assert looked.p_fails == 1.0 > evidence.p_fails
    assert weakest(CLAIMS[0], looked) == "e − a"
    # Parts without a number are told apart, too.
    never = Claim("x", "", all_of([over(score.of("a")), over(score.of("b"))]))
    parts = every([above((1.0, 2.0, 3.0)), above((math.inf, -math.inf, 1.0))])
    assert weakest(never, parts) == "b"


def test_numbers_have_the_digits_that_their_errors_need() -> None:
    # Error 0.02 / sqrt(3) = 0.0115; the interval is 4.303 of these wide to either side.
    assert estimate_words(above((0.96, 0.98, 1.00)), "times").startswith(
        "0.98 times, 95 % interval 0.93 to 1.03,"
    )
    assert estimate_words(above((-0.21, -0.19, -0.23)), "points").startswith(
        "−0.21 ± 0.01 points, 95 % interval −0.26"
    )
    assert estimate_words(above((1e-7, 2e-7, 3e-7)), "points").startswith(
        "+0.000 ± 0.000 points"
    )  # within reason


def test_a_mean_of_which_the_least_is_known_is_told_as_that() -> None:
    values, most = (140.0, 240.0, 150.0, 160.0), (140.0, math.inf, 150.0, 160.0)
    capped = above([(low, high) for low, high in zip(values, most, strict=True)], 60.0)
    assert estimate_words(capped, "rounds").startswith(
        "at least 172.5 ± 22.9 rounds, 95 % interval from 99.7 on, effect"
    )
    negative = below([(-high, -low) for low, high in zip(values, most, strict=True)], -60.0)
    assert estimate_words(negative, "rounds").startswith(
        "at most −172.5 ± 22.9 rounds, 95 % interval up to −99.7, effect"
    )


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        (above((*19 * [10.0], math.inf), 60.0), "more than half of all seeds are below 60"),
        (below((*19 * [90.0], -math.inf), 60.0), "more than half of all seeds are above 60"),
        (above((10.0, 11.0, 12.0, 11.0), 60.0), "the mean is below 60"),
    ],
)
def test_a_sign_test_speaks_of_seeds_and_not_of_their_mean(evidence: Evidence, said: str) -> None:
    (verdict,) = judge([evidence])
    assert verdict.word == "does not hold"
    assert said in verdict.reason


def test_a_claim_of_one_part_is_told_as_that_part() -> None:
    (verdict,) = judge([every([above((10.0, 11.0, 12.0, 11.0), 60.0)])])
    assert "the mean is below 60" in verdict.reason
    (open_one,) = judge([every([above((1.0, -1.0, 2.0, 3.0))])])
    assert "parts" not in open_one.reason


def test_a_card_tells_what_a_reader_must_know_beside_the_verdict(find: Find, tmp_path: Path) -> None:
    def broken(variant: str, seed: int) -> Run | None:
        run = find(variant, seed)
        if run is not None and (variant, seed) == ("b", 1):
            run.__dict__["status"] = {"digest": "x", "diverged_at": 3}
        return run

    same = Measure("same", "%", lambda run: 70.0)
    claims = (
        Claim("one", "b is above a.", order(score.of("b"), score.of("a")), caveat="Mind <this>."),
        Claim("other", "c is above a.", order(score.of("c"), score.of("a"))),
        Claim("equal", "b is as good as a.", equal(same.of("b"), same.of("a"), 1.0)),
    )
    result = evaluate_study(study(claims), "full", range(2), broken)
    cards = claims_html(result).split('<div class="claim ')[1:]
    said = "1 of its 4 runs diverged or fell back to guessing (listed above; b 1 of 2); they count.</p>"
    assert [said in card for card in cards] == [True, False, True]
    assert ['<p class="small">Mind &lt;this&gt;.</p>' in card for card in cards] == [True, False, False]
    assert ["It is the same number with every seed" in card for card in cards] == [False, False, True]
    assert len(result.diverged) == 1
    assert result.diverged[0].startswith(
        "b, seed 1: diverged at round 3 (a loss was no number, or far above guessing)"
    )


def test_a_claim_of_several_units_tells_that_of_what_is_shown(find: Find) -> None:
    """Points of a difference, and times of a ratio: the part that holds least, or speaks most clearly against it."""
    points, times = order(score.of("b"), score.of("a")), ratio(score.of("d"), score.of("a"))
    claims = (
        Claim("mixed", "b is above a, and d as well.", all_of([points, times])),
        Claim("one", "b.", points),
    )
    result = evaluate_study(study(claims), "full", range(2), find)
    assert claims[0].test.unit == ""
    evidence = {claim.name: result.verdicts[claim.name].evidence for claim in claims}
    parts = {part.test.unit: part.evidence for part in comparisons(claims[0], evidence["mixed"])}
    assert parts.keys() == {"points", "times"}
    assert unit_of(claims[0], evidence["mixed"]) == "times", "d is below a"
    assert unit_of(claims[0], evidence["mixed"], parts["points"]) == "points"
    assert unit_of(claims[1], evidence["one"]) == "points"
    assert list(claims_table(result)["unit"]) == ["times", "points"]
    card = claims_html(result).split('<div class="claim ')[1]
    assert re.search(r"Here: <strong>[\d.]+ times", card)


def test_an_error_is_not_rounded_away() -> None:
    rounds = Measure("rounds", "rounds", lambda run: 0.0, digits=0)
    cell = Cell("row", "column", rounds.of("a"), None)
    assert ours(CellResult(cell, 28.33, 0.33, {0: 28.0, 1: 28.0, 2: 29.0}, True)) == "28.3 ± 0.3"
    assert ours(CellResult(cell, 28.0, 0.0, {0: 28.0, 1: 28.0}, True)) == "28 ± 0"
    assert ours(CellResult(cell, 28.4, 2.4, {0: 26.0, 1: 30.8}, True)) == "28 ± 2"


def test_how_a_kept_run_ended_is_told_without_its_curve(find: Find) -> None:
    """Of a kept run of which there are numbers alone it is not known whether it fell back to guessing."""
    ends = {"a": 9.8, "b": 80.0}

    def kept(variant: str, seed: int) -> RunRecord:
        number = ends.get(variant, 50.0)
        diverged = 7 if variant in ends and seed == 0 else None
        return RunRecord(
            variant,
            seed,
            "x",
            diverged,
            numbers={"score": (number, number), "final accuracy": (number, number)},
        )

    claims = (Claim("one", "b is above a.", order(score.of("b"), score.of("a"))),)
    result = evaluate_study(study(claims), "full", range(2), kept)
    told = "diverged at round 7 (a loss was no number, or far above guessing): accuracy"
    assert result.diverged == [
        f"a, seed 0: {told} 9.8\u00a0% at the end; it counts in every mean",
        f"b, seed 0: {told} 80.0\u00a0% at the end; it counts in every mean",
    ]
    assert {("a", 0), ("a", 1), ("b", 0), ("b", 1)} <= {*result.unseen}
    assert evaluate_study(study(claims), "full", range(2), find).unseen == ()


def test_a_card_tells_what_had_been_run_when_a_claim_was_declared(find: Find) -> None:
    claims = (
        Claim("one", "b is above a.", order(score.of("b"), score.of("a"))),
        Claim("other", "c is above a.", order(score.of("c"), score.of("a"))),
    )
    later = declared_knowing("two seeds at scale quick", ("other",), claims)
    assert [claim.known for claim in later] == ["", "two seeds at scale quick"]
    cards = claims_html(evaluate_study(study(later), "full", range(2), find)).split('<div class="claim ')[1:]
    said = "Declared when two seeds at scale quick had been run."
    assert [said in card for card in cards] == [False, True]
    with pytest.raises(InputError, match="unknown claim 'othr'"):
        declared_knowing("two seeds", ("othr",), claims)


def test_findings_know_only_what_the_scale_runs(find: Find) -> None:
    less = evaluate_study(study(), "less", range(2), find)
    assert [line[0] for line in less.findings[0].sentences] == ["b", "c", "d"]
    assert evaluate_study(study(), "full", range(2), lambda variant, seed: None).findings == ()


def test_effects_by_hand() -> None:
    # 95 % intervals with three seeds: mean ± 4.303 standard errors.
    clear, unclear = Effect("up", "points", (3.0, 4.0, 5.0)), Effect("open", "points", (1.0, 4.0, 7.0))
    down = Effect("down", "points", (-3.0, -4.0, -5.0))
    assert (clear.side, unclear.side, down.side) == (1, 0, -1)
    assert clear.words == f"up (+4.0 ± {1 / math.sqrt(3):.1f} points, n = 3)"
    assert down.size == "−4.0 ± 0.6 points, n = 3"
    assert Effect("one", "%", (80.04,)).words == "one (80.0 %, n = 1)"
    assert Effect("one", "%", (80.0,)).side == 0  # one seed tells nothing
    assert Effect("alike", "points", (2.0, 2.0)).side == 0  # nor do two that agree: they have no interval
    assert by_side([unclear, down, clear]) == {1: [clear], -1: [down], 0: [unclear]}
    assert named([clear, down]) == "up (+4.0 ± 0.6 points, n = 3) and down (−4.0 ± 0.6 points, n = 3)"
    assert (listed([]), listed(["a"]), listed(["a", "b", "c"])) == ("none", "a", "a, b and c")


def test_effect_sizes_and_t_are_positive_on_the_claims_side() -> None:
    """Mean 2, deviation 1: above 1 by one deviation, not below 1 by one, within 3 by one and not within 1 by one."""
    x = (1.0, 2.0, 3.0)
    for evidence, d in (
        (above(x, 1.0), "1.0"),
        (below(x, 1.0), "−1.0"),
        (below(x, 3.0), "1.0"),
        (within(x, 3.0), "1.0"),
        (within([-one for one in x], 3.0), "1.0"),
        (within(x, 1.0), "−1.0"),
    ):
        assert effect_size(evidence) == d
        assert f"t(2) = {'−' * d.startswith('−')}1.73" in how_words(evidence)
    assert effect_size(above((3.0,) * 3)) == ""  # a sign test


def test_many_parts_are_a_table_and_what_they_share_stands_above_it(find: Find) -> None:
    def told(tests: list) -> tuple[str, list[str], list[list[str]]]:
        one = Claim("it", "", all_of(tests))
        html = claims_html(evaluate_study(study((one,)), "full", range(2), find))
        part = html[html.index("<p>All ") :]
        rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(<td.*?)</tr>", part)]
        head = re.search(r"<p>(All .*?)</p>", part)
        assert head is not None
        return unescape(head[1]), re.findall(r"<th [^>]*>(.*?)</th>", part), rows

    head, columns, rows = told([order(score.of(key), score.of("a")) for key in "bcde"])
    assert head == "All 4 comparisons of score, each > 0 points, by paired one-sided t:"
    assert columns == ["", "Estimate", "95 % interval", "d", "Seeds"]
    assert rows[0] == ["b − a", "+10.0 ± 1.0 points", "−2.7 to +22.7", "7.1", "2"]
    head, columns, rows = told([over(score.of(key), 40 + k) for k, key in enumerate("abcd")])
    assert head == "All 4 comparisons of score, by one-sided t:"
    assert columns[:2] == ["", "Claimed"]
    assert [row[:2] for row in rows] == [[key, f"&gt; {40 + k} %"] for k, key in enumerate("abcd")]
    head, columns, rows = told([ratio(score.of(key), score.of("a")) for key in "bcde"])
    assert head.startswith(
        "All 4 comparisons of score, each > 1 times, by one-sided t on logarithms of ratios"
    )
    assert rows[0][:2] == ["(b) / (a)", "1.2 times"]
    mixed = [over(score.of(key), 40) for key in "abc"]
    head, columns, rows = told([*mixed, equal(score.of("b"), score.of("c"), 9.0)])
    assert "each" not in head
    assert columns[-1] == "Test"
    assert rows[-1][:2] == ["b − c", "within ±9 points"]
    trend = told([falls({k: score.of(key) for k, key in enumerate("bcd")}), over(score.of("a"), 40)])
    assert trend[2][0][0].startswith("score of b and so on falls over 0, 1, 2")
    assert trend[2][-1][0] == "score of a &gt; 40 %"  # the measure is not told above


def test_columns_of_which_the_same_is_said_are_told_together(find: Find) -> None:
    """b to e are 10, 5, −2 and −4 above a, each ± 1; a column more has the same numbers, another one only a to c."""
    rows = {key: key for key in SCORES}

    def told(columns: dict[str, str], baselines: tuple[str, ...] = ("a",)) -> list[str]:
        shown = table(
            "t",
            "T",
            rows,
            columns,
            lambda row, of: (score if row in of else never).of(row),
            baselines=baselines,
        )
        made = replace(study(()), tables=(shown,))
        return not_above(shown, evaluate_study(made, "full", range(2), find).tables["t"])

    never = Measure("never", "", lambda run: 1.0)
    same = "2 of 4 are not above a: d, e."
    assert told({"one": "abcde", "two": "abcde"}) == [f"one; two: {same}"]
    assert told(dict.fromkeys(("one", "two", "three"), "abcde")) == [f"In all 3 columns: {same}"]
    assert told({"one": "abcde", "two": "abc"}) == [f"one: {same}", "two: every method is above a."]
    assert told({"one": "abcde"}, ("b",)) == ["one: none of 4 is above b."]
