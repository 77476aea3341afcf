"""Studies: what is declared is checked; values, measures, claims and judgements agree with hand calculations."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

from fedroam.analysis.statistics.verdicts import Verdict
from fedroam.errors import InputError
from fedroam.papers import studies
from fedroam.recording import Run
from fedroam.study import (
    Cell,
    Claim,
    Curves,
    Doses,
    Heat,
    Measure,
    OwnFigure,
    Quotient,
    Scale,
    Search,
    SearchResult,
    Study,
    StudyVariant,
    Table,
    all_of,
    average,
    best,
    by_group,
    declared,
    declared_by,
    equal,
    evaluate_study,
    falls,
    final,
    gap_over_run,
    group_over_run,
    last,
    mean_model,
    measure,
    order,
    over,
    over_run,
    ratio,
    rises,
    rounds_to,
    size,
    spent_to,
    table,
    told_only,
    under,
)
from fedroam.study.kept import RunRecord
from fedroam.study.outlook import outlook
from fedroam.study.presentation.exhibits import AtScale, tables_html
from fedroam.study.presentation.page import write_study
from fedroam.study.presentation.tables import cells_table, claims_table
from fedroam.study.study import all_but
from fedroam.study.values import Computed, Find, Reader, Several, product
from support.made_runs import made_run

pytestmark = pytest.mark.usefixtures("rough_pictures")

# Final accuracies (%) by seed.
ENDS = {"a": (50.0, 60.0, 55.0, 52.0), "b": (60.5, 70.0, 65.5, 62.0), "c": (61.0, 69.5, 65.0, 62.5)}


@pytest.fixture
def find(tmp_path: Path) -> Find:
    runs: dict[tuple[str, int], Run] = {}
    for variant, ends in ENDS.items():
        for seed, end in enumerate(ends):
            curve = [0.1, end / 200, end / 100]
            runs[variant, seed] = made_run(tmp_path, variant, seed, curve, movement=False)
    return lambda variant, seed: runs.get((variant, seed))


def study(**changes: Any) -> Study:
    """A study of three variants."""
    whole: dict[str, Any] = {
        "name": "made",
        "title": "Made <up>",
        "paper": "Nobody & Co, 2024.",
        "about": "Nothing.",
        "base": {"clients": 4, "rounds": 3, "mobility": {"kind": "random", "mobile": 2}},
        "variants": {"a": {"mobility": "static"}, "b": {}, "c": lambda scale: {"rounds": len(scale)}},
        "scales": {
            "quick": Scale(4, {"rounds": 2}, cut=("fewer <rounds>",), without=("c",)),
            "full": Scale(4),
        },
        "claims": (Claim("helps", "b is <better>", order(final.of("b"), final.of("a")), source="Fig. 1"),),
    }
    return Study(**{**whole, **changes})


def run_of(find: Find, variant: str = "a", seed: int = 0) -> Run:
    run = find(variant, seed)
    assert run is not None
    return run


def test_measures_of_a_run(find: Find) -> None:
    run = run_of(
        find
    )  # accuracy 10, 25, 50 % in rounds 0, 10, 20; client i has 1 point more than client i - 1
    assert final.number(run) == pytest.approx(50)
    assert best.number(run) == pytest.approx(50)
    assert over_run.number(run) == pytest.approx(37.5)  # without the start
    assert mean_model.number(run) == pytest.approx(55)
    assert last(2).number(run) == pytest.approx(37.5)
    assert last(3).number(run) == pytest.approx(37.5)  # of the two that there are after the start
    assert by_group(run, "walker").tolist() == pytest.approx([0.085, 0.235, 0.485])
    assert group_over_run("walker").number(run) == pytest.approx(36.0)
    assert gap_over_run("walker", "stander").number(run) == pytest.approx(-2.0)
    assert rounds_to(25).number(run) == 10
    assert rounds_to(51).number(run) == math.inf
    assert spent_to(25, "bytes", "MB", 1e-6).number(run) == pytest.approx(1.0)
    with pytest.raises(InputError, match=r"unknown group of clients.*'walkers'.*did you mean 'walker'"):
        by_group(run, "walkers")
    assert measure("bytes_to:25").number(run) == pytest.approx(1.0)
    assert measure("drawn_to:25").unit == "J"
    with pytest.raises(InputError, match="no column 'battery_drawn'"):
        measure("drawn_to:25").number(run)
    with pytest.raises(InputError, match="no column 'energy'"):
        measure("energy_to:25").number(run)
    with pytest.raises(InputError, match="no column 'joules'"):
        spent_to(25, "joules", "J").number(run)


def test_measures_by_name() -> None:
    assert measure("final") is final
    assert measure("last:3").name == last(3).name
    assert measure("rounds_to:80").unit == "rounds"
    for wrong in ("finl", "last", "final:3", "rounds_to:x"):
        with pytest.raises(InputError, match="unknown statistic"):
            measure(wrong)


def test_values_are_weighted_sums_paired_by_seed(find: Find) -> None:
    read = Reader(find, range(6))  # seeds 4 and 5 have not run
    gap = final.of("b") - final.of("a")
    assert read(gap) == pytest.approx({0: 10.5, 1: 10.0, 2: 10.5, 3: 10.0})
    assert read(average([final.of("b"), final.of("c")]) - final.of("a"))[0] == pytest.approx(10.75)
    assert read(-2 * final.of("a"))[0] == pytest.approx(-100)
    assert (final.of("a").unit, gap.unit) == ("%", "points")
    assert gap.words == "final accuracy of b − final accuracy of a"
    both = average([final.of("a"), final.of("b")])
    assert (both - final.of("a")).words == "final accuracy, mean of (a; b) − final accuracy of a"
    assert (-2 * both).words == "−final accuracy of a − final accuracy of b"
    assert (-1 * both).words == "−final accuracy, mean of (a; b)"
    assert (1.5 * both).words == "1.5 × final accuracy, mean of (a; b)"
    assert average([final.of("a"), final.of("b"), final.of("a"), final.of("b")]).words == both.words
    assert average([final.of("a"), final.of("a")]).words == "final accuracy of a"
    assert average([final.of("a"), final.of("b"), final.of("a")]).words == "final accuracy, mean of (a; b; a)"
    more = 0.5 * (both - final.of("c")) - average([rounds_to(50).of("a")])
    assert (gap - both + 2 * final.of("c")).words == ("final accuracy: (b) − (a) − mean of (a; b) + 2 × (c)")
    assert (-1 * (gap - both)).words == "final accuracy: −(b) + (a) + mean of (a; b)"
    assert more.words == (
        "0.5 × final accuracy, mean of (a; b) − 0.5 × final accuracy of c − rounds to 50 % of a"
    )
    assert gap.variants == ("b", "a")


def test_each_measure_of_a_run_is_computed_once(find: Find) -> None:
    calls: list[Run] = []
    counted = Measure("counted", "", lambda run: float(len(calls.append(run) or calls)))
    read = Reader(find, range(2))
    assert read(counted.of("a")) == read(counted.of("a") + 0 * counted.of("b"))
    assert len(calls) == 4


@pytest.mark.parametrize(
    ("test", "estimate", "word"),
    [
        (order(final.of("b"), final.of("a")), 10.25, "holds"),
        (order(final.of("a"), final.of("b")), -10.25, "does not hold"),
        (size(final.of("b"), final.of("a"), 9), 10.25, "holds"),
        (size(final.of("b"), final.of("a"), 12), 10.25, "does not hold"),
        (size(final.of("b"), final.of("a"), 10.2), 10.25, "undecided"),
        (equal(final.of("b"), final.of("c"), 2), 0.0, "holds"),
        (equal(final.of("a"), final.of("b"), 2), -10.25, "does not hold"),
        (ratio(final.of("b"), final.of("a"), 1.1), 1.1895, "holds"),
        # The part that holds least: the last step, 0, and a quarter of the rise of 10.25.
        (rises({0: final.of("a"), 1: final.of("b"), 2: final.of("c")}), 2.5625, "holds"),
        (rises({2: final.of("c"), 0: final.of("a")}), 10.25, "holds"),
        (falls({0: final.of("a"), 1: final.of("b"), 2: final.of("c")}), 12.8125, "does not hold"),
        # The last is above the first by 10.25, but the step before the last goes back: no rise.
        (rises({0: final.of("a"), 1: 1.2 * final.of("b"), 2: final.of("c")}), -10.3375, "does not hold"),
        (under(best.of("a"), 90), 54.25, "holds"),
        (all_of([order(final.of("b"), final.of("a")), under(best.of("a"), 40)]), 54.25, "does not hold"),
    ],
)
def test_claims(find: Find, test: Any, estimate: float, word: str) -> None:
    made = study(claims=(Claim("it", "as is said", test),))
    verdict = evaluate_study(made, "full", range(4), find).verdicts["it"]
    assert verdict.word == word
    assert verdict.evidence.estimate == pytest.approx(estimate, abs=0.001)
    assert verdict.evidence.n == 4
    assert test.words


def test_a_threshold_never_reached_counts_with_the_end_of_the_run(find: Find) -> None:
    """Rounds to 58 %: a: never, 20, never, never in runs of 20 rounds; b: 20 each."""

    def judged(test: Any) -> Verdict:
        made = study(claims=(Claim("slow", "", test),))
        return evaluate_study(made, "full", range(4), find).verdicts["slow"]

    read = Reader(find, range(4))
    gap = rounds_to(58).of("a") - rounds_to(58).of("b")
    assert list(read.ends(gap).values()) == [(0.0, math.inf), (0.0, 0.0), (0.0, math.inf), (0.0, math.inf)]
    assert list(read(gap).values()) == [math.inf, 0.0, math.inf, math.inf]
    # "a takes longer by more than -5": with the least, 0 in every seed. "By less": with infinity, so by sign.
    slower = judged(size(rounds_to(58).of("a"), rounds_to(58).of("b"), -5))
    assert slower.evidence.note.startswith("never reached in 3 of 4 seeds")
    assert "the true mean is larger" in slower.evidence.note
    assert slower.evidence.p_holds == pytest.approx(1 / 16)  # all alike: sign
    assert slower.evidence.p_fails == 1.0
    # What is subtracted has its horizon in the most: the cap never helps the direction that it is used for.
    faster = judged(order(rounds_to(58).of("b"), rounds_to(58).of("a")))
    assert (faster.evidence.p_holds, faster.evidence.p_fails) == (1.0, 1.0)
    # A quotient, and a slope over quotients, likewise; a threshold never reached by both says nothing.
    assert read.ends(Quotient(rounds_to(58).of("a"), rounds_to(58).of("b")))[0] == (
        1.0,
        math.inf,
    )
    both = rounds_to(99).of("a") - rounds_to(99).of("b")
    assert list(read.ends(both).values()) == [(-math.inf, math.inf)] * 4
    assert list(read.ends(rounds_to(99).of("a") - rounds_to(99).of("a")).values()) == [(0.0, 0.0)] * 4


def test_what_seeds_say_nothing_of_is_told_and_never_decided(find: Find) -> None:
    """It counts in the correction of the others, and no further seeds are asked for."""
    clear = order(final.of("b"), final.of("a"))
    claims = (Claim("one", "It is.", clear), Claim("other", "It is.", clear))
    fact = Claim("fact", "It is.", told_only(all_of([clear, clear]), "all seeds have one trace"))
    made = study(claims=(*claims, fact))
    looked = evaluate_study(made, "full", range(4), find, (4, 6))
    for result in (evaluate_study(made, "full", range(4), find), looked):
        verdict = result.verdicts["fact"]
        assert (verdict.word, verdict.seeds, verdict.reason) == (
            "undecided",
            None,
            "all seeds have one trace",
        )
        assert (verdict.evidence.n, verdict.evidence.test) == (4, "no test")
        assert math.isnan(verdict.evidence.estimate)
    assert looked.verdicts["fact"].hopeless
    ahead = outlook(looked, [])
    assert "fact" not in ahead.last | ahead.of_claim
    assert ahead.needed_of_claims == 2 * 4  # those of the looks that were taken
    plain = evaluate_study(study(claims=claims), "full", range(4), find).verdicts["one"]
    beside = evaluate_study(made, "full", range(4), find).verdicts["one"]
    assert beside.p_holds == pytest.approx(1.5 * plain.p_holds)


def test_a_verdict_by_signs_speaks_of_seeds(find: Find) -> None:
    """Where all seeds agree exactly there is no variance to test a mean with."""
    ten = Measure("ten", "%", lambda run: 10.0)
    one, other = over(ten.of("b")), over(final.of("b") - final.of("a"))
    claims = (Claim("signs", "It is.", one), Claim("both", "They are.", all_of([one, other])))
    made = replace(study(claims=claims), alpha=0.2)
    told = {
        name: verdict.reason
        for name, verdict in evaluate_study(made, "full", range(4), find).verdicts.items()
    }
    by = "by an exact sign test: it speaks of more than half of all seeds, not of their mean"
    assert told["signs"].endswith(f"after Holm's correction; {by}")
    assert told["both"].endswith(f"after Holm's correction; of 1 of its 2 parts {by}")


def test_holm_is_over_all_claims_that_the_scale_can_judge(find: Find) -> None:
    claims = (
        Claim("one", "", order(final.of("b"), final.of("a"))),
        Claim("two", "", order(final.of("c"), final.of("a"))),
        Claim("three", "", order(mean_model.of("b"), final.of("a"))),
    )
    full = evaluate_study(study(claims=claims), "full", range(4), find)
    quick = evaluate_study(study(claims=claims), "quick", range(4), find)
    assert set(quick.verdicts) == {"one", "three"}  # c is not run at this scale
    assert {claim.name: verdict for claim, verdict in quick.claims()}["two"] is None
    for result, number in ((full, 3), (quick, 2)):
        verdict = result.verdicts["three"]
        assert verdict.p_holds == pytest.approx(number * verdict.evidence.p_holds)


def test_cells_stand_beside_the_papers(find: Find) -> None:
    gains = table(
        "gains",
        "Gains",
        {"b": "b", "c": "c"},
        {"gain": final, "best gain": best},
        lambda variant, number: number.of(variant) - final.of("a"),
        ((10.0, None), (9.0, 8.5)),
        source="Table 1",
    )
    result = evaluate_study(study(tables=(gains,)), "full", range(4), find)
    frame = cells_table(result)
    assert frame["ours"].tolist() == pytest.approx([10.25] * 4)
    assert frame["error"].iloc[0] == pytest.approx(math.sqrt(4 * 0.25**2 / 3) / 2)
    assert frame["difference"].tolist() == pytest.approx([0.25, math.nan, 1.25, 1.75], nan_ok=True)
    quick = evaluate_study(study(tables=(gains,)), "quick", range(4), find)
    assert [cell.possible for cell in quick.tables["gains"]] == [True, True, False, False]
    assert gains.printed("c", "best gain") == 8.5
    with pytest.raises(InputError, match="the paper prints nothing in row 'b', column 'best gain'"):
        gains.printed("b", "best gain")
    with pytest.raises(InputError, match="2 rows of 1"):
        table("t", "", {"b": 1, "c": 2}, {"x": 1}, lambda r, c: final.of("a"), ((1.0,),))


def test_search_with_a_bound_by_seed(find: Find) -> None:
    search = Search("enough", "", {0: final.of("a"), 1: final.of("b")}, bound=final.of("c"), share=0.95)
    found = evaluate_study(study(searches=(search,)), "full", range(4), find).searches["enough"].threshold
    assert found is not None
    assert (found.first, found.sure, found.ruled_out) == (1, 1, 0)
    assert found.by_seed == (1, 1, 1, 1)


def test_a_search_spends_its_share_of_the_level_at_each_look(tmp_path: Path) -> None:
    """Five seeds, of which the look after four is whole; one-sided t of d / (s / 2) with 3 degrees of freedom."""
    values = {
        "a": (1.0, 2.0, 1.5, 2.5, -9.0),
        "b": (9.0, 9.1, 8.9, 9.0, 9.0),
        "c": (10.0, 10.1, 9.9, 10.0, 10.0),
    }
    score = Measure("score", "%", lambda run: values[run.folder.parent.name][int(run.folder.name)])

    def made(variant: str, seed: int) -> Run:
        run = Run(tmp_path / variant / str(seed))
        run.__dict__["status"] = {"digest": "x", "diverged_at": None}
        run.__dict__["rounds"] = pd.DataFrame({"round": [0], "accuracy": [0.1]})
        return run

    search = Search("enough", "", {k: score.of(key) for k, key in enumerate("abc")}, bound=0.0)

    def found(seeds: int, looks: tuple[int, ...] = ()) -> SearchResult:
        return evaluate_study(
            study(searches=(search,), claims=()), "full", range(seeds), made, looks
        ).searches["enough"]

    def of(result: SearchResult) -> tuple[float | None, int]:
        assert result.threshold is not None
        return result.threshold.sure, result.by

    # a: mean 1.75, t = 5.4, p = 0.0062; below 0.05, but also below 0.01, not below 0.05 / 10.
    assert of(found(4)) == (0, 4)
    assert of(found(4, (4, 6, 9, 13, 20))) == (0, 4)
    assert of(found(4, tuple(range(4, 14)))) == (1, 4)
    assert of(found(5)) == (1, 5)  # its last seed speaks against a
    assert of(found(5, (4, 6))) == (0, 4)  # the look before it is the last that is whole
    assert of(found(3, (4, 6))) == (None, 0)
    result = evaluate_study(study(searches=(search,), claims=()), "full", range(4), made, (4, 6))
    page = tables_html([AtScale(result, {"enough": "4 of 4 runs kept"}, {}, True)])
    assert "one-sided t tests over 4 seeds" in page
    assert "at 1/2 of level 0.05 (looks are planned after 4, 6 seeds)" in page


@pytest.mark.parametrize(
    ("found", "kind"), [(None, "NoneType"), (pd.Series([1.0]), "Series"), ("0.5", "str")]
)
def test_a_measure_that_is_no_number_is_told(find: Find, found: Any, kind: str) -> None:
    odd = Measure("odd", "%", lambda run: found)
    claim = Claim("odd", "", over(odd.of("a")))
    with pytest.raises(InputError, match=f"measure 'odd' of a, seed 0: gave a {kind}; allowed is a number"):
        evaluate_study(study(claims=(claim,)), "full", range(4), find)


def test_settings_are_laid_over_base_and_scale() -> None:
    made = study()
    assert made.experiment("b", "full").rounds == 3
    assert made.experiment("b", "quick").rounds == 2
    assert made.experiment("c", "full").rounds == len("full")
    assert made.experiment("a", "full", seed=5).seed == 5
    assert made.experiment("a", "full").mobility.kind == "static"
    assert made.notes("full") == ("mobility kind 'static' has no mobile: left out",)
    assert made.needs("quick") == ("a", "b")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"claims": (Claim("x", "", order(final.of("bb"), final.of("a"))),)},
            "unknown variant 'bb'.*did you mean 'b'",
        ),
        ({"tables": (Table("helps", "", ()),)}, "two items are called 'helps'"),
        ({"tables": (Table("a b", "", ()),)}, "item 'a b': allowed are letters"),
        ({"variants": {"a/b": {}}, "claims": ()}, "'a/b': allowed are"),
        ({"scales": {}}, "at least one scale"),
        ({"scales": {"quick": Scale(0)}}, "seeds = 0: allowed is a whole number from 1"),
        ({"scales": {"quick": Scale("3")}}, "scale quick: seeds = '3': allowed is a whole number from 1"),  # type: ignore[arg-type]
        (
            {"scales": {"quick": Scale(3, cut="Fewer")}},
            "scale quick: cut = 'Fewer': allowed is a tuple of texts",
        ),  # type: ignore[arg-type]
        (
            {"claims": Claim("x", "", order(final.of("b"), final.of("a")))},
            "claims = a Claim: allowed is a tuple of claims",
        ),
        (
            {"tables": (Claim("x", "", order(final.of("b"), final.of("a"))),)},
            "tables = a tuple: allowed is a tuple of tables",
        ),
        ({"scales": {"quick": Scale(1, without=("d",))}}, "unknown variant in scale quick"),
    ],
)
def test_a_wrong_declaration_is_refused_in_a_line(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as error:
        study(**changes)
    assert "\n" not in str(error.value)


def test_wrong_settings_and_names_are_told() -> None:
    with pytest.raises(InputError, match=r"study made, scale quick, variant a: .*clints"):
        study(base={"clints": 3}).experiment("a", "quick")
    for key, value in {
        "use": ["mine.py"],
        "seeds": 5,
    }.items():  # of a file they are left out, of settings nothing is
        with pytest.raises(InputError, match=f"variant a: {key}: unknown key"):
            study(base={"clients": 4, key: value}).experiment("a", "quick")
    with pytest.raises(InputError, match="unknown scale of made 'quik'"):
        study().scale("quik")
    with pytest.raises(InputError, match=r"unknown item of made 'help'.*did you mean 'helps'"):
        study().item("help")


def test_everything_is_written_and_escaped(find: Find, tmp_path: Path) -> None:
    def own(runs: dict[str, Sequence[Run]]) -> Figure:
        figure = Figure()
        figure.add_subplot().plot([run.rounds["accuracy"].iloc[-1] for run in runs["a"]])
        return figure

    made = study(
        tables=(
            Table(
                "t",
                "T <1>",
                (Cell("row <1>", "c", final.of("c") - final.of("a"), paper=9.0, paper_error=0.5),),
            ),
        ),
        searches=(Search("s", "S", {0: final.of("a"), 1: final.of("c")}, bound=60.0, paper=1),),
        figures=(
            Curves("curves", "C", {"p": {"a": "a", "walkers": ("b", lambda run: by_group(run, "walker"))}}),
            Doses(
                "dose",
                "D",
                {"": {0: final.of("a"), 1: final.of("b")}},
                "x",
                "y",
                bound=final.of("b"),
                share=0.9,
            ),
            Heat("heat", "H", {(0, 0): final.of("a"), (1, 0): final.of("b")}, "x", "y", "z"),
            OwnFigure("own", "O", ("a",), own),
            Doses("later", "L", {"": {0: final.of("c")}}, "x", "y"),
        ),
    )
    states = dict.fromkeys(made.items, "4 of 4 runs done")
    for scale in ("quick", "full"):
        result = evaluate_study(made, scale, range(5), find)
        page = write_study(result, tmp_path / scale, states).read_text(encoding="utf-8")
        for raw in ("b is <better>", "Made <up>", "fewer <rounds>", "T <1>", "row <1>"):
            assert raw not in page
        assert "b is &lt;better&gt;" in page
        assert "http:" not in page
        assert "https:" not in page
        assert f"{len(result.missing)} runs of this scale are missing" in page
    drawn = {path.stem for path in (tmp_path / "quick/figures").glob("*.svg")}
    assert drawn == {"curves", "dose", "heat", "own"}  # c is not run at this scale
    assert (tmp_path / "full/figures/later.png").exists()
    whole = json.loads((tmp_path / "full/study.json").read_text(encoding="utf-8"))
    assert whole["claims"][0]["verdict"] == "holds"
    assert whole["runs"]["b"]["2"] == run_of(find, "b", 2).status["digest"]
    assert set(whole["runs"]["a"]) == {"0", "1", "2", "3"}  # the fifth seed has not run
    assert whole["tables"]["t"][0]["by_seed"] == pytest.approx({"0": 11.0, "1": 9.5, "2": 10.0, "3": 10.5})
    claims = pd.read_csv(tmp_path / "quick/claims.csv")
    assert claims["verdict"].tolist() == ["holds"]
    assert claims_table(evaluate_study(made, "full", range(0), find))["verdict"].tolist() == ["undecided"]


def test_the_studies_of_fedroam_are_sound() -> None:
    for name, each in studies().items():
        assert each.name == name
        for scale in each.scales:
            assert each.scale(scale).cut or scale == "full"
            for variant in each.needs(scale):
                each.experiment(variant, scale)
            assert {c.name for c in each.claims if each.can(c, scale)}


def test_a_variant_carries_its_settings_to_the_study() -> None:
    slow = StudyVariant("slow", {"rounds": 9, "mobility": {"mobile": 1}}, {"quick": {"rounds": 4}})
    claims = (Claim("x", "", order(final.of(slow), final.of("a"))), Claim("y", "", over(final.of(slow), 3)))
    variants = {"a": {}, **declared_by(claims)}
    assert list(variants) == ["a", "slow"]
    made = study(variants=variants, claims=claims, scales={"quick": Scale(1), "full": Scale(1)})
    assert made.needs("full") == ("a", "slow")
    assert [made.experiment("slow", scale).rounds for scale in ("quick", "full")] == [4, 9]
    assert made.experiment("slow", "quick").mobility.mobile == 1
    other = StudyVariant("slow", {"rounds": 8})
    with pytest.raises(InputError, match="variant slow: declared twice, with other settings the second time"):
        declared([slow, other])
    assert declared([slow, StudyVariant("slow", dict(slow.settings), dict(slow.at)), "a"]).keys() == {"slow"}
    both = (Claim("z", "", over(final.of(slow) + final.of("b"), 3)),)
    assert all_but((*claims, *both), claims) == ("b",)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (lambda: last(0), "last(0): allowed is a number of evaluations from 1 on"),
        (lambda: last(-3), "last(-3)"),
        (lambda: over(final.of("a"), -math.inf), "final accuracy of a > -inf: allowed is a bound"),
        (lambda: under(final.of("a"), math.nan), "final accuracy of a < nan: allowed is a bound"),
        (lambda: equal(final.of("a"), final.of("b"), margin=-1), "within -1: allowed is a margin above 0"),
        (lambda: equal(final.of("a"), final.of("b"), margin=math.nan), "within nan"),
        (lambda: ratio(final.of("a"), final.of("b"), at_least=-2), "> -2: allowed is a number above 0"),
        (lambda: order(final.of("a"), rounds_to(50).of("b")), "is of % and rounds, which cannot be added up"),
        (lambda: equal(final.of("a"), rounds_to(50).of("b"), margin=1), "is of % and rounds"),
    ],
)
def test_tests_that_make_no_sense_are_refused_before_anything_runs(asked: Any, told: str) -> None:
    with pytest.raises(InputError, match=re.escape(told)):
        asked()


def test_what_is_alike_is_computed_once(find: Find) -> None:
    calls: list[str] = []

    def number(run: Run) -> float:
        calls.append(run.folder.name)
        return 3.0

    shared = Measure("shared", "J", number, alike=lambda run: run.folder.name)
    times = product("times", "J", final, shared)
    read = Reader(find, range(2))
    assert read(times.of("a")) == pytest.approx({0: 150, 1: 180})
    assert read(times.of("b") - 2 * shared.of("c")) == pytest.approx({0: 175.5, 1: 204})
    assert sorted(calls) == ["seed-0", "seed-1"]
    assert times.number(run_of(find)) == pytest.approx(150)


def test_a_long_computation_that_is_kept_is_not_made_again(find: Find) -> None:
    """Of a run whose folder is there, too; what is quickly read is read anew."""
    done: list[str] = []

    def compute(run: Run) -> dict[str, float]:
        done.append(run.folder.name)
        return {"low": 1.0, "high": 100.0}

    both = Several(compute)
    low, high = both.pick("low", "the low one", "J"), both.pick("high", "the high one", "J")
    first, computed = run_of(find), Computed()
    kept = {"the low one": (2.0, math.inf), final.name: (0.0, 0.0)}
    computed.known = {first.folder: RunRecord("a", 0, "d", numbers=kept)}
    read = Reader(find, range(2), computed)
    assert read.ends(low.of("a")) == {0: (2.0, math.inf), 1: (1.0, 1.0)}
    assert read(final.of("a")) == {0: 50.0, 1: 60.0}
    assert done == ["seed-1"]
    assert read(high.of("a")) == {0: 100.0, 1: 100.0}
    assert done == ["seed-1", "seed-0"]


def test_one_computation_gives_several_measures_and_is_done_once_a_run(find: Find) -> None:
    """Whatever number of readers share what is computed, as the looks at a study that grows do."""
    done: list[str] = []
    begun: list[tuple[str, str]] = []

    def compute(run: Run) -> dict[str, float]:
        done.append(run.folder.name)
        return {"low": 1.0 + len(run.folder.name), "high": 100.0}

    both = Several(compute)
    low, high = both.pick("low", "the low one", "J"), both.pick("high", "the high one", "J", digits=3)
    computed = Computed(lambda run, measure: begun.append((run.folder.name, measure.name)))
    read = Reader(find, range(2), computed)
    assert read(high.of("a") - low.of("a")) == {0: 93.0, 1: 93.0}
    assert done == ["seed-0", "seed-1"]
    assert begun == [(seed, name) for seed in done for name in ("the high one", "the low one")]
    again = Reader(find, range(3), computed)
    assert again(low.of("a")) == {0: 7.0, 1: 7.0, 2: 7.0}
    assert done == ["seed-0", "seed-1", "seed-2"]
    assert (low.number(run_of(find)), high.digits) == (7.0, 3)
