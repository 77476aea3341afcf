"""The result in sentences."""

from __future__ import annotations

import math
from pathlib import Path

from fedroam.analysis import compare_runs
from fedroam.analysis.report.headline import headline
from support.made_runs import made_run


def test_headline_says_what_the_interval_allows(tmp_path: Path) -> None:
    runs = [made_run(tmp_path, "static", s, [0.1, v]) for s, v in enumerate((0.50, 0.51, 0.52))]
    runs += [made_run(tmp_path, "random", s, [0.1, v]) for s, v in enumerate((0.80, 0.82, 0.81))]
    runs += [made_run(tmp_path, "wild", s, [0.1, v]) for s, v in enumerate((0.30, 0.51, 0.70))]
    first, clear, unclear, last = headline(compare_runs(runs))
    assert "“random” ends highest: test accuracy 81.0 ± 0.6" in first
    assert "3 seeds" in first
    assert "+30.0 ± 0.6" in clear
    assert "excludes zero" in clear
    assert ", p = 0.0" in clear
    assert "no difference is established" in unclear
    assert "alone; p is corrected for their number (Holm)" in last


def test_headline_of_one_seed_claims_no_error(tmp_path: Path) -> None:
    runs = [made_run(tmp_path, "static", 0, [0.1, 0.5]), made_run(tmp_path, "random", 0, [0.1, 0.4])]
    first, second = headline(compare_runs(runs))
    assert "±" not in first + second
    assert "−10.0 percentage points, one seed: no error can be given" in second


def test_headline_gives_no_difference_to_what_is_no_number(tmp_path: Path) -> None:
    runs = [made_run(tmp_path, "static", s, [0.1, v]) for s, v in enumerate((0.50, math.nan, 0.52))]
    runs += [made_run(tmp_path, "random", s, [0.1, v]) for s, v in enumerate((0.80, 0.82, 0.81))]
    _, second = headline(compare_runs(runs))
    assert second == "“random” minus “static”: in one of 3 seeds or more a final accuracy is no number."


def test_headline_of_seeds_that_agree_has_no_interval_and_a_sign_test(tmp_path: Path) -> None:
    """One of 36 test samples more with every seed: p = 2 / 2^n of n seeds, of which six are enough."""
    for n, said in (
        (2, "p = 0.5: no difference is established."),
        (6, "p = 0.031: more than half of all seeds"),
    ):
        runs = [made_run(tmp_path / f"{n}", "static", s, [0.1, (20 + s) / 36]) for s in range(n)]
        runs += [made_run(tmp_path / f"{n}", "random", s, [0.1, (21 + s) / 36]) for s in range(n)]
        _, second = headline(compare_runs(runs))
        assert "“random” minus “static”: +2.8" in second
        assert (
            f" percentage points in each of {n} seeds, paired; no interval (exact sign test), {said}"
            in second
        )
