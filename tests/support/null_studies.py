"""Studies whose claims are exactly at their bounds, of every kind: whatever is said to hold, or not to, is an error.

Claims are declared as studies declare them, and numbers are drawn for their runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
import pytest

from fedroam.analysis.statistics import verdicts
from fedroam.analysis.statistics.looks import LOOKS
from fedroam.analysis.statistics.paired import Evidence
from fedroam.analysis.statistics.verdicts import Verdict
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
from fedroam.study.claims import Test as Asked
from fedroam.study.kept import RunRecord

SEEDS = LOOKS[-1]
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


def null_study(families: Mapping[str, Mapping[str, Asked]], primary: tuple[str, ...] = ()) -> Study:
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


def drawn(
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


def judged(study: Study, found: Mapping[str, np.ndarray], seeds: int = LOOKS[-1]) -> StudyResult:
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


def least(evidence: Iterable[Evidence | Verdict]) -> tuple[float, float]:
    """The smallest p-values, of "holds" and of "does not hold"."""
    pairs = [(each.p_holds, each.p_fails) for each in evidence]
    return min(p for p, _ in pairs), min(p for _, p in pairs)


def without_outlook(patched: pytest.MonkeyPatch) -> None:
    """Leave out what would decide a claim that is undecided: it takes half of the time, and decides nothing."""
    patched.setattr(verdicts, "_ahead", lambda *_: (None, "", math.nan))


def whole_study() -> Study:
    """Primary claims, others, and a family that was added later."""
    return null_study({"": PRIMARY | SECONDARY, "added later": LATER}, tuple(PRIMARY))
