"""Whole studies without an effect, and with one: judged as the pages judge, they err at most as stated, and decide.

`tests/analysis/statistics` holds the statistics by themselves to their rates; here all of it is one: slopes with their
steps, logarithms, claims of several parts, numbers that are never reached, moderated spreads, Holm's method family by
family, the order of the primary claims, and looks while seeds come in. `benchmarks/null_studies.py` counts more.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from fedroam.analysis.statistics.chances import power
from fedroam.analysis.statistics.looks import LOOKS
from fedroam.analysis.statistics.paired import POWER
from fedroam.analysis.statistics.verdicts import ALPHA, Word
from fedroam.randomness import stream
from fedroam.study import StudyResult
from support.null_studies import (
    FALSE_ONES,
    LATER,
    PRIMARY,
    PROBES,
    SECONDARY,
    TRUE_ONES,
    drawn,
    judged,
    least,
    null_study,
    whole_study,
    without_outlook,
)

NULL, TRUE = 100, 40  # studies
LEVELS = (ALPHA, 0.2)  # a method that is valid is so at each; the larger one tells sooner where it is not
WAYS: tuple[Word, ...] = ("holds", "does not hold")


def _most(level: float, studies: int) -> float:
    """The largest share of so many studies that err, of a method that does so at this level, but for once in ten
    thousand times."""
    return float(stats.binom.isf(1e-4, studies, level)) / studies


def _errs_too_often(least: list[tuple[float, float]]) -> list[str]:
    """At which levels, and which way, more studies err than a method that keeps its level would have err."""
    found = []
    for level in LEVELS:
        for k, way in enumerate(WAYS):
            if np.mean([p[k] <= level for p in least]) > _most(level, len(least)):
                found.append(f"{way} at {level:g}")
        if np.mean([min(p) <= level for p in least]) > _most(2 * level, len(least)):
            found.append(f"either at {level:g}")
    return found


@pytest.mark.slow
def test_where_nothing_is_true_studies_err_as_seldom_as_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each claim is at its bound, half of the studies have equal spreads. What the page says is done against errors is
    needed for that: without it, the same studies err too often."""
    study, draw = whole_study(), stream(0, "null studies")
    numbers = [drawn(draw, study, equal_spreads=k % 2 == 0) for k in range(NULL)]
    usual = [judged(study, found) for found in numbers[:2]]
    without_outlook(monkeypatch)
    results = [judged(study, found) for found in numbers]
    for full, short in zip(usual, results, strict=False):
        assert _p_values(full) == _p_values(short)
    for result in results:
        for verdict in result.verdicts.values():
            decided = {"holds": verdict.p_holds <= ALPHA, "does not hold": verdict.p_fails <= ALPHA}
            assert verdict.word == next((way for way in WAYS if decided[way]), "undecided")
        in_order = [result.verdicts[name].p_holds for name in PRIMARY]
        assert in_order == sorted(in_order)
    for family in (PRIMARY, SECONDARY, LATER):
        assert not _errs_too_often([least(result.verdicts[name] for name in family) for result in results])
    uncorrected = [least(result.verdicts[name].evidence for name in SECONDARY) for result in results]
    assert f"either at {ALPHA:g}" in _errs_too_often(uncorrected)
    at_any_look = [least(result.seen["first"].values()) for result in results]
    assert _errs_too_often(at_any_look)


def _p_values(result: StudyResult) -> dict[str, tuple[str, float, float]]:
    return {name: (each.word, each.p_holds, each.p_fails) for name, each in result.verdicts.items()}


@pytest.mark.slow
def test_effects_are_found_as_often_as_the_page_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight of 33 claims have an effect that 13 seeds are said to find with a chance of 80 %, at the level that Holm's
    method leaves the first of them at a look: the page says that 69 to 79 % are decided by that look. Those claims that
    are at their bounds stay undecided, all the same."""
    without_outlook(monkeypatch)
    seeds, draw = LOOKS[-2], stream(1, "null studies")
    study = null_study({"": SECONDARY | PROBES})
    level = ALPHA / len(study.claims) / len(LOOKS)
    pilot = [judged(study, drawn(draw, study, equal_spreads=True), seeds) for _ in range(5)]
    more = float(np.median([result.seen["probe-0"][seeds].df for result in pilot])) - (seeds - 1)
    efforts = np.linspace(0.5, 5.0, 901)
    chances = np.array([power(effort, 1.0, np.array([seeds]), level, more)[0] for effort in efforts])
    effect = math.sqrt(2) * efforts[(chances >= POWER).argmax()]  # of differences of two runs
    means = {f"new-{k}": effect * (1 if name in TRUE_ONES else -1) for k, name in enumerate(PROBES)}
    results = [judged(study, drawn(draw, study, means, equal_spreads=True), seeds) for _ in range(TRUE)]
    for way, names in zip(WAYS, (TRUE_ONES, FALSE_ONES), strict=True):
        found = np.mean([[result.verdicts[name].word == way for name in names] for result in results])
        assert 0.58 < found < 0.88, (way, found)  # three standard errors around 69 to 79 %
    assert not _errs_too_often([least(result.verdicts[name] for name in SECONDARY) for result in results])
