"""Numbers and figures by varied settings: pairing, averaging and errors against hand calculations."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedroam.analysis.figures.error_bars import ErrorBars, error_bar_figure
from fedroam.analysis.figures.heatmap import heatmap_figure
from fedroam.analysis.figures.lines import Line, lines_figure
from fedroam.analysis.report.marginals import (
    SweepPoint,
    best_setting,
    final_accuracy,
    marginal,
    marginal_table,
    reaching,
)
from fedroam.analysis.report.report import write_report
from fedroam.analysis.report.swept import sweep_figures
from fedroam.analysis.variants import mean_by_round
from fedroam.errors import InputError
from fedroam.recording import Run
from support.made_runs import made_run

pytestmark = pytest.mark.usefixtures("rough_pictures")

KINDS, MOBILE, SEEDS = ("static", "random"), (1, 3, 5), (0, 1, 2)


def accuracy(kind: str, mobile: int, seed: int) -> float:
    """Final accuracy (%): seeds differ by 10, random gains 2 a moving client, and a little of its own."""
    gain = 0.0 if kind == "static" else 2.0 * mobile + 0.5 * seed
    return 50 + 10 * seed + gain


@pytest.fixture
def points(tmp_path: Path) -> list[SweepPoint]:
    found = []
    for kind in KINDS:
        for mobile in MOBILE:
            for seed in SEEDS:
                final = accuracy(kind, mobile, seed) / 100
                run = made_run(
                    tmp_path / f"{kind}{mobile}", kind, seed, [0.1, final / 2, final], movement=False
                )
                found.append(SweepPoint({"mobility.kind": kind, "mobility.mobile": mobile}, seed, run))
    return found


def test_differences_are_paired_by_seed_after_averaging_over_the_other_settings(
    points: list[SweepPoint],
) -> None:
    found = marginal(points, ["mobility.kind"], final_accuracy)
    assert found.pooled == "mobility.mobile = 1, 3, 5"
    assert found.groups[("static",)] == pytest.approx({0: 50.0, 1: 60.0, 2: 70.0})
    assert found.groups[("random",)] == pytest.approx({0: 56.0, 1: 66.5, 2: 77.0})
    first, second = marginal_table(found).to_dict("records")
    assert (first["mean"], first["error"]) == (pytest.approx(60), pytest.approx(10 / math.sqrt(3)))
    assert math.isnan(first["difference"])
    assert second["difference"] == pytest.approx(6.5)  # 6, 6.5, 7: the seeds' luck of 10 has gone
    assert second["difference_error"] == pytest.approx(0.5 / math.sqrt(3))
    assert second["low"] == pytest.approx(6.5 - 4.302653 * 0.5 / math.sqrt(3), rel=1e-5)
    assert second["n"] == 3
    assert second["p"] < 0.01


def test_what_some_value_never_finished_is_left_out_for_all_and_told(points: list[SweepPoint]) -> None:
    """The other combinations stay paired; a value that never finished anything takes nothing from the rest."""
    some = [
        replace(one, run=None)
        if one.keys["mobility.mobile"] == 5 and one.keys["mobility.kind"] == "random"
        else one
        for one in points
    ]
    never = [
        SweepPoint({"mobility.kind": "steered", "mobility.mobile": k}, s, None) for k in MOBILE for s in SEEDS
    ]
    found = marginal(some + never, ["mobility.kind"], final_accuracy)
    assert found.groups[("static",)] == pytest.approx({0: 50.0, 1: 60.0, 2: 70.0})
    assert found.groups[("random",)] == pytest.approx({0: 54.0, 1: 64.5, 2: 75.0})
    assert found.groups[("steered",)] == {}
    assert found.pooled == "mobility.mobile = 1, 3 (without mobile=5, where nothing is finished for some row)"
    nothing = [replace(one, run=None) for one in points]
    assert marginal(nothing, ["mobility.kind"], final_accuracy).pooled == "mobility.mobile = 1, 3, 5"


def test_a_seed_with_a_missing_run_is_left_out_and_numbers_follow_settings(points: list[SweepPoint]) -> None:
    points[0] = SweepPoint(points[0].keys, points[0].seed, None)  # static, 1 moving, seed 0
    found = marginal(points, ["mobility.kind"], final_accuracy)
    assert set(found.groups[("static",)]) == {1, 2}
    assert marginal_table(found)["n"].tolist() == [0, 2]
    with pytest.raises(
        InputError, match=r"unknown varied setting 'mobility.kin'.*did you mean 'mobility.kind'"
    ):
        marginal(points, ["mobility.kin"], final_accuracy)


def test_reaching_needs_one_setting_of_numbers(points: list[SweepPoint]) -> None:
    random = [p for p in points if p.keys["mobility.kind"] == "random"]
    found = reaching(marginal(random, ["mobility.mobile"], lambda run: final_accuracy(run)), 64.0)
    assert found.by_seed == (None, 3, 1)
    assert found.first == 3  # means 62.5, 66.5, 70.5
    with pytest.raises(InputError, match="values are numbers"):
        reaching(marginal(points, ["mobility.kind"], final_accuracy), 64.0)


def test_figures_show_the_numbers(points: list[SweepPoint]) -> None:
    drawn = {each.name: each for each in sweep_figures(points)}
    pair = "mobility_kind-mobility_mobile"
    heat = [f"heat-{name}{pair}" for name in ("", "best-", "last-", "mean_model-", "loss-")]
    assert list(drawn) == [
        "sweep-curves",
        "dose-mobility_mobile",
        *heat,
    ]  # nothing differs in bytes, time or energy
    panels = [ax for ax in drawn["sweep-curves"].figure.axes if ax.get_visible()]
    assert [ax.get_title(loc="left") for ax in panels] == [f"mobility.mobile = {m}" for m in MOBILE]
    dose = drawn["dose-mobility_mobile"].figure.axes[0]
    random = dose.containers[1].lines[0]
    assert random.get_xdata().tolist() == [1, 3, 5]
    assert random.get_ydata() == pytest.approx([62.5, 66.5, 70.5])
    texts = [text.get_text() for text in drawn["heat-mobility_kind-mobility_mobile"].figure.axes[0].texts]
    assert texts[:2] == ["60.0\n±5.8", "62.5\n±6.1"]


def test_report_of_a_sweep_has_its_tables_and_escapes_them(tmp_path: Path, points: list[SweepPoint]) -> None:
    odd = [
        SweepPoint({**p.keys, "mobility.kind": f"<b>{p.keys['mobility.kind']}"}, p.seed, p.run)
        for p in points
    ]
    runs: list[Run] = [p.run for p in points if p.run is not None and p.keys["mobility.mobile"] == 1]
    page = write_report(runs, tmp_path / "report", swept=odd).read_text(encoding="utf-8")
    assert '<section id="sweep">' in page
    assert "By mobility.mobile" in page
    assert "<b>static" not in page
    assert "&lt;b&gt;static" in page
    assert (tmp_path / "report/figures/heat-mobility_kind-mobility_mobile.svg").exists()


def test_figures_without_numbers_are_none() -> None:
    assert error_bar_figure([ErrorBars("a", ((1, ()), (2, (math.nan,))))], "x", "y") is None
    assert heatmap_figure([1], [2], {(1, 2): []}, "x", "y", "z") is None
    assert lines_figure([("", [Line("a", ())])], "y") is None


def test_keys_that_are_no_numbers_stand_side_by_side() -> None:
    figure = error_bar_figure(
        [ErrorBars("a", ((5.0, (1.0, 2.0)), (math.inf, (3.0, 4.0))))], "Rm", "y", bound=("b", 2.0)
    )
    assert figure is not None
    ax = figure.axes[0]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["5", "∞"]
    assert ax.containers[0].lines[0].get_ydata() == pytest.approx([1.5, 3.5])


def test_one_legend_names_the_lines_of_all_panels() -> None:
    values = (pd.Series([1.0, 2.0], index=[0, 10]),)
    panels = [("p", [Line("a", values), Line("b", values)]), ("q", [Line("a", values), Line("c", values)])]
    figure = lines_figure(panels, "y")
    assert figure is not None
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b", "c"]
    colours = {line.get_label(): line.get_color() for ax in figure.axes for line in ax.get_lines()}
    assert len(set(colours.values())) == 3


def test_a_label_without_any_value_says_so() -> None:
    values = (pd.Series([1.0, 2.0], index=[0, 10]),)
    panels = [
        ("p", [Line("a", ()), Line("b", values), Line("c", ())]),
        ("q", [Line("a", ()), Line("b", values), Line("c", values)]),
    ]
    figure = lines_figure(panels, "y")
    assert figure is not None
    said = [text.get_text() for text in figure.legends[0].get_texts()]
    assert said == ["a (nothing recorded)", "b", "c"]


def test_grey_lines_stand_behind_lines_that_differ_in_all_ways() -> None:
    values = (pd.Series([1.0, 2.0], index=[0, 10]), pd.Series([2.0, 3.0], index=[0, 10]))
    lines = [Line("held", values, grey=True), *(Line(label, values) for label in "abcd")]
    figure = lines_figure([("p", lines), ("q", lines[:2])], "y")
    assert figure is not None
    grey, *others = figure.axes[0].get_lines()
    assert grey.get_label() == "held"
    assert grey.get_zorder() < min(line.get_zorder() for line in others)
    assert grey.get_marker() in ("", "None")
    assert len(figure.axes[0].collections) == 4  # bands, none for the grey one
    looks = [(line.get_color(), line.get_marker()) for line in others]
    assert len({colour for colour, _ in looks} | {grey.get_color()}) == 5
    assert len({marker for _, marker in looks}) == 4
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert sorted(texts) == ["a", "b", "c", "d", "held"]
    without = [Line("held", (), grey=True), *lines[1:3]]
    figure = lines_figure(
        [("p", without), ("q", lines[:2]), ("r", [Line("nowhere", (), grey=True), *lines[:2]])], "y"
    )
    assert figure is not None
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert sorted(texts) == ["a", "b", "held"]
    many = (pd.Series(range(100), dtype=float),)
    figure = lines_figure([("", [Line("a", many), Line("held", many, grey=True)])], "y")
    assert figure is not None
    assert figure.axes[0].get_lines()[0].get_marker() in ("", "None")  # too many points to mark each


def test_lines_are_means_over_the_rounds_that_all_seeds_have() -> None:
    one, two = pd.Series([1.0, 2.0, 9.0], index=[0, 10, 20]), pd.Series([3.0, 4.0], index=[0, 10])
    table = mean_by_round((one, two))
    assert table["round"].tolist() == [0, 10]
    assert table["mean"].tolist() == [2.0, 3.0]
    assert np.allclose(table["error"], 1.0)


def test_numbers_are_ordered_as_numbers(tmp_path: Path) -> None:
    found = [
        SweepPoint({"n": n, "word": word}, 0, made_run(tmp_path / f"{n}{word}", "", 0, [0.1, n / 100]))
        for n in (10, 2, 9)
        for word in ("z", "a")
    ]
    assert list(marginal(found, ["n"], final_accuracy).in_order().groups) == [(2,), (9,), (10,)]
    assert list(marginal(found, ["word"], final_accuracy).in_order().groups) == [("z",), ("a",)]
    assert marginal(found, ["word"], final_accuracy).pooled == "n = 2, 9, 10"


def test_the_best_setting_and_those_like_it(points: list[SweepPoint]) -> None:
    best = best_setting(points)
    assert best is not None
    assert best.keys == {"mobility.kind": "random", "mobility.mobile": 5}
    # random, 5: 60, 70.5, 81; all static ones are told apart. Random, 1 and 3 are 8 and 4 below in every seed: that is
    # no spread for an interval, and three signs (p = 0.25) tell nothing.
    assert (best.mean, best.seeds, best.settings, best.alike) == (pytest.approx(70.5), 3, 6, 2)
    assert best.error == pytest.approx(10.5 / math.sqrt(3))
    assert best.words().startswith("Best of 6 settings: random, mobile=5, final accuracy 70.5 ± 6.1")


def test_those_that_are_the_same_as_the_best_are_told(points: list[SweepPoint]) -> None:
    """As where what varies changes nothing: which of them is the best is then no finding."""
    twin = [
        replace(p, keys={**p.keys, "mobility.mobile": 7}) for p in points if p.keys["mobility.mobile"] == 5
    ]
    best = best_setting([*points, *twin])
    assert best is not None
    assert (best.keys["mobility.mobile"], best.settings, best.alike, best.same) == (5, 8, 3, 1)
    assert (
        "(mean ± standard error over 3 seeds); 1 of the others has the same in every seed; by 95"
        in best.words()
    )
    one = [p for p in [*points, *twin] if p.seed == 0]
    alone = best_setting(one)
    assert alone is not None
    assert alone.words().endswith(
        "(one seed); 1 of the others has the same in every seed. With so few seeds no other can be told from it."
    )


def test_a_setting_that_lacks_seeds_does_not_win(points: list[SweepPoint]) -> None:
    fewer = [p for p in points if not (p.keys["mobility.mobile"] == 5 and p.seed > 0)]
    best = best_setting(fewer)
    assert best is not None
    assert best.keys == {"mobility.kind": "random", "mobility.mobile": 3}


def test_nothing_is_best_of_one(points: list[SweepPoint]) -> None:
    assert best_setting(points[:3]) is None
    assert best_setting([]) is None


def test_a_report_of_a_sweep_names_the_best_and_draws_what_it_costs(tmp_path: Path) -> None:
    found = [
        SweepPoint(
            {"radius": radius},
            seed,
            made_run(tmp_path / str(radius), "", seed, [0.1, gain + seed / 100], sent=10**6 * radius),
        )
        for radius, gain in ((10, 0.8), (2, 0.5), (9, 0.7))
        for seed in (0, 1)
    ]
    runs = [point.run for point in found if point.run is not None]
    page = write_report(runs, tmp_path / "out", swept=found).read_text(encoding="utf-8")
    assert "Best of 3 settings: radius=10" in page
    assert [int(n) for n in re.findall(r'<td data-head="radius">(\d+)</td>', page)] == [2, 9, 10]
    assert (tmp_path / "out/figures/pareto-bytes.svg").exists()
    assert not (tmp_path / "out/figures/pareto-energy.svg").exists()


def test_settings_that_vary_together_are_told_as_such(points: list[SweepPoint]) -> None:
    """With `mobile` bound to `kind`, nothing is averaged, and what differs may be of either."""
    bound = {"static": 1, "random": 5}
    together = [one for one in points if one.keys["mobility.mobile"] == bound[one.keys["mobility.kind"]]]
    found = marginal(together, ["mobility.kind"], final_accuracy)
    assert (found.pooled, found.beside) == ("", "mobility.mobile = 1, 5")
    assert found.words == (
        " Not the same in all rows, so that what differs may be its doing: mobility.mobile = 1, 5."
    )
    assert found.groups[("random",)] == pytest.approx({0: 60.0, 1: 70.5, 2: 81.0})
    # A third that every row was run with is averaged over as ever.
    more = [
        SweepPoint({**one.keys, "mixing.kind": mixing}, one.seed, one.run)
        for one in together
        for mixing in ("plain", "metropolis")
    ]
    found = marginal(more, ["mobility.kind"], final_accuracy)
    assert (found.pooled, found.beside) == ("mixing.kind = metropolis, plain", "mobility.mobile = 1, 5")


def test_rounding_is_no_difference(points: list[SweepPoint]) -> None:
    """The same sum in another order, in every seed, is no evidence; a real difference as regular as that is."""
    pairs = [one for one in points if one.keys["mobility.mobile"] == 1]

    def joules(more: float) -> Callable[[Run], float]:
        return lambda run: 1578.7 * (1.0 + (more if "random" in str(run.folder) else 0.0))

    for more, p in ((1e-15, 1.0), (-3e-14, 1.0), (1e-6, 0.25)):
        table = marginal_table(marginal(pairs, ["mobility.kind"], joules(more)))
        assert table["p"].tolist()[1] == p
        assert (table["difference"].tolist()[1] == 0) == (p == 1.0)
