"""Whole studies without an effect, and with one: judged as the pages judge, they err at most as stated, and decide.

Claims of every kind are declared as studies declare them, and numbers are drawn for their runs, so that each claim is
exactly at its bound: whatever is said to hold, or not to hold, is an error. `tests/analysis/statistics` holds the
statistics by themselves to their rates; here all of it is one: slopes with their steps, logarithms, claims of several
parts, numbers that are never reached, moderated spreads, Holm's method family by family, the order of the primary
claims, and looks while seeds come in.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
import pytest
from scipy import stats

from fedroam.analysis.statistics import verdicts
from fedroam.analysis.statistics.looks import LOOKS
from fedroam.analysis.statistics.paired import POWER, Evidence
from fedroam.analysis.statistics.verdicts import ALPHA, Verdict, Word, power
from fedroam.randomness import stream
from fedroam.recording import Run
from fedroam.study import (
    Claim,
    Measure,
    Quotient,
    Scale,
    Study,
    StudyResult,
    Value,
    all_of,
    average,
    each_over,
    equal,
    evaluate_study,
    falls,
    order,
    over,
    ratio,
    rises,
    size,
    under,
)
from fedroam.study.claims import Test as Asked  # pytest takes classes of that name for tests
from fedroam.study.kept import RunRecord

NULL, TRUE = 100, 40  # studies
SEEDS = LOOKS[-1]
LEVELS = (ALPHA, 0.2)  # a method that is valid is so at each; the larger one tells sooner where it is not
WAYS: tuple[Word, ...] = ("holds", "does not hold")
HORIZON = 300.0  # rounds after which a run ends
SPREAD = 0.2  # of the logarithm of a cost


def _unread(run: Run) -> float:
    raise AssertionError("all numbers are kept")


ACCURACY = Measure("accuracy", "%", _unread)
COST = Measure("cost", "J", _unread)
DISTANCE = Measure("distance", "", _unread)
ROUNDS = Measure("rounds", "rounds", _unread, horizon=_unread)

# The mean accuracy of each variant, above that of most.
MEANS = {
    **dict.fromkeys(("base", "a", "b", "c", "d", "e"), 0.0),
    "one": 1.0,
    "near": 1.5,
    "two": 2.0,
    "back": 8.0,
    "peak": 10.0,
    "far": 12.0,
}
DOUBLE = "two"  # the variant of twice the cost
acc, cost, distance, rounds = ({v: m.of(v) for v in MEANS} for m in (ACCURACY, COST, DISTANCE, ROUNDS))


def _gain(variant: str, over_: str = "base") -> Value:
    return acc[variant] - acc[over_]


PRIMARY: dict[str, Asked] = {
    "first": order(acc["a"], acc["base"]),
    "second": under(_gain("b")),
    "third": each_over([_gain("c"), _gain("a")]),
}
SECONDARY: dict[str, Asked] = {
    **{f"ahead-{v}": order(acc[v], acc["base"]) for v in "bcde"},
    "behind": under(_gain("c", "a")),
    "by-2": size(acc["two"], acc["base"], 2),
    "by-2-of-a": size(acc["two"], acc["a"], 2),
    "below-1": under(_gain("one"), 1),
    "alike": equal(acc["near"], acc["base"], 1.5),
    "rises": rises({1: acc["a"], 2: acc["b"], 3: acc["c"]}),
    "falls": falls({1: acc["b"], 2: acc["c"], 5: acc["d"], 9: acc["e"]}),
    # It rises by 8 in all, and goes back by 2, a quarter of it.
    "steps": rises({1: acc["base"], 2: acc["peak"], 3: acc["back"]}),
    "pair": rises({1: acc["d"], 2: acc["e"]}),
    "weakest": all_of([order(acc["far"], acc["base"]), order(acc["d"], acc["base"])]),
    "each": each_over(_gain(v) for v in "abe"),
    "on-average": order(average(acc[v] for v in "abc"), acc["base"]),
    **{f"dearer-{v}": ratio(cost[v], cost["base"]) for v in "ab"},
    "cheaper": ratio(cost["c"], cost["d"]),
    "twice": ratio(cost[DOUBLE], cost["base"], 2),
    # The mean of a ratio is above that of its logarithm.
    "quotient": over(Quotient(cost["c"], cost["base"]), math.exp(SPREAD**2)),
    "farther": over(distance["a"] - distance["base"]),
    "nearer": under(distance["b"] - distance["base"]),
    "slower": order(rounds["a"], rounds["base"]),
    "sooner": order(rounds["base"], rounds["b"]),
}
LATER: dict[str, Asked] = {f"later-{v}": order(acc[v], acc["d"]) for v in "abce"}
# Claims of runs of their own where an effect is simulated: of the first half each is true, of the others the reverse.
PROBES: dict[str, Asked] = {
    f"probe-{k}": order(ACCURACY.of(f"new-{k}"), ACCURACY.of(f"old-{k}")) for k in range(8)
}
TRUE_ONES, FALSE_ONES = tuple(PROBES)[:4], tuple(PROBES)[4:]


def _study(families: Mapping[str, Mapping[str, Asked]], primary: tuple[str, ...] = ()) -> Study:
    claims = [
        Claim(name, name, test, family=family)
        for family, some in families.items()
        for name, test in some.items()
    ]
    return Study(
        name="null",
        title="No effect",
        paper="Nobody.",
        about="Is anything said of nothing?",
        base={},
        variants={variant: {} for claim in claims for variant in claim.variants},
        scales={"full": Scale(SEEDS)},
        claims=tuple(claims),
        primary=primary,
    )


def _drawn(
    draw: np.random.Generator,
    study: Study,
    effects: Mapping[str, float] | None = None,
    *,
    equal_spreads: bool,
) -> dict[str, np.ndarray]:
    """Numbers [variants, seeds] by measure. Each has a part that all variants of a seed share."""
    known = MEANS | dict(effects or {})
    means = np.array([known.get(variant, 0.0) for variant in study.variants])
    shape = (len(means), SEEDS)
    spreads = np.ones((len(means), 1)) if equal_spreads else np.sqrt(4 / draw.chisquare(4, (len(means), 1)))
    shared = draw.standard_normal((4, SEEDS))
    return {
        "accuracy": means[:, None] + 2 * shared[0] + spreads * draw.standard_normal(shape),
        "cost": 0.3 * shared[1] + SPREAD * draw.standard_normal(shape),
        "distance": shared[2] + spreads * draw.standard_normal(shape),
        "rounds": 200 + 40 * shared[3] + 60 * draw.standard_normal(shape),
    }


def _judged(study: Study, found: Mapping[str, np.ndarray], seeds: int = LOOKS[-1]) -> StudyResult:
    """The study as its page has it, of runs with these numbers."""
    variants = list(study.variants)
    doubled = np.array([[2.0 if variant == DOUBLE else 1.0] for variant in variants])
    numbers = {**found, "cost": doubled * np.exp(found["cost"])}
    runs = {
        (variant, seed): RunRecord(
            variant, seed, "", numbers={name: _ends(name, rows[k, seed]) for name, rows in numbers.items()}
        )
        for k, variant in enumerate(variants)
        for seed in range(seeds)
    }
    return evaluate_study(study, "full", range(seeds), lambda v, s: runs[v, s], LOOKS)


def _ends(name: str, number: float) -> tuple[float, float]:
    never = name == "rounds" and number > HORIZON
    return (HORIZON, math.inf) if never else (float(number), float(number))


def _without_outlook(patched: pytest.MonkeyPatch) -> None:
    """Leave out what would decide a claim that is undecided: it takes half of the time, and decides nothing."""
    patched.setattr(verdicts, "_ahead", lambda *_: (None, "", math.nan))


def _most(level: float, studies: int) -> float:
    """The largest share of so many studies that err, of a method that does so at this level, but for once in ten
    thousand times."""
    return float(stats.binom.isf(1e-4, studies, level)) / studies


def _least(evidence: Iterable[Evidence | Verdict]) -> tuple[float, float]:
    """The smallest p-values, of "holds" and of "does not hold"."""
    pairs = [(each.p_holds, each.p_fails) for each in evidence]
    return min(p for p, _ in pairs), min(p for _, p in pairs)


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
    study, draw = (
        _study({"": PRIMARY | SECONDARY, "added later": LATER}, tuple(PRIMARY)),
        stream(0, "null studies"),
    )
    drawn = [_drawn(draw, study, equal_spreads=k % 2 == 0) for k in range(NULL)]
    usual = [_judged(study, found) for found in drawn[:2]]
    _without_outlook(monkeypatch)
    results = [_judged(study, found) for found in drawn]
    for full, short in zip(usual, results, strict=False):
        assert _p_values(full) == _p_values(short)
    for result in results:
        for verdict in result.verdicts.values():
            decided = {"holds": verdict.p_holds <= ALPHA, "does not hold": verdict.p_fails <= ALPHA}
            assert verdict.word == next((way for way in WAYS if decided[way]), "undecided")
        in_order = [result.verdicts[name].p_holds for name in PRIMARY]
        assert in_order == sorted(in_order)
    for family in (PRIMARY, SECONDARY, LATER):
        assert not _errs_too_often([_least(result.verdicts[name] for name in family) for result in results])
    uncorrected = [_least(result.verdicts[name].evidence for name in SECONDARY) for result in results]
    assert f"either at {ALPHA:g}" in _errs_too_often(uncorrected)
    at_any_look = [_least(result.seen["first"].values()) for result in results]
    assert _errs_too_often(at_any_look)


def _p_values(result: StudyResult) -> dict[str, tuple[str, float, float]]:
    return {name: (each.word, each.p_holds, each.p_fails) for name, each in result.verdicts.items()}


@pytest.mark.slow
def test_effects_are_found_as_often_as_the_page_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight of 33 claims have an effect that 13 seeds are said to find with a chance of 80 %, at the level that Holm's
    method leaves the first of them at a look: the page says that 69 to 79 % are decided by that look. Those claims that
    are at their bounds stay undecided, all the same."""
    _without_outlook(monkeypatch)
    seeds, draw = LOOKS[-2], stream(1, "null studies")
    study = _study({"": SECONDARY | PROBES})
    level = ALPHA / len(study.claims) / len(LOOKS)
    pilot = [_judged(study, _drawn(draw, study, equal_spreads=True), seeds) for _ in range(5)]
    more = float(np.median([result.seen["probe-0"][seeds].df for result in pilot])) - (seeds - 1)
    efforts = np.linspace(0.5, 5.0, 901)
    chances = np.array([power(effort, 1.0, np.array([seeds]), level, more)[0] for effort in efforts])
    effect = math.sqrt(2) * efforts[(chances >= POWER).argmax()]  # of differences of two runs
    means = {f"new-{k}": effect * (1 if name in TRUE_ONES else -1) for k, name in enumerate(PROBES)}
    results = [_judged(study, _drawn(draw, study, means, equal_spreads=True), seeds) for _ in range(TRUE)]
    for way, names in zip(WAYS, (TRUE_ONES, FALSE_ONES), strict=True):
        found = np.mean([[result.verdicts[name].word == way for name in names] for result in results])
        assert 0.58 < found < 0.88, (way, found)  # three standard errors around 69 to 79 %
    assert not _errs_too_often([_least(result.verdicts[name] for name in SECONDARY) for result in results])
