"""How often whole studies in which nothing is true are said to have found something.

    PYTHONPATH=tests python benchmarks/null_studies.py    # some minutes of one core; docs/records/null-studies.json

Every claim is exactly at its bound (`tests/support/null_studies.py`): whatever is said to hold, or not to hold, is an
error. Half of the studies have runs of equal spreads. Counted are the studies with at least one error, for each family
of claims that shares a level, by the smallest of its p-values, and in any of them. Of the shares, intervals of 95 %
(Clopper & Pearson, Biometrika 26 (1934) 404).

And of studies with one primary claim, which is true by as much as all seeds of the last look find with a chance of
80 %: how often it is given up as hopeless before, and how often runs that went on would have found it; and how many
seeds it takes where it is at its bound. And of such claims that hold, by how much the estimate at the look that said so
is too large, and how often its interval holds the truth.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats

from fedroam.analysis.statistics.chances import power
from fedroam.analysis.statistics.looks import LOOKS, shared
from fedroam.analysis.statistics.paired import Evidence, above
from fedroam.analysis.statistics.verdicts import ALPHA, judge_in_order
from fedroam.randomness import stream
from fedroam.writing import write_text
from support.null_studies import LATER, PRIMARY, SECONDARY, drawn, judged, least, whole_study, without_outlook

RECORD = Path(__file__).parents[1] / "docs" / "records" / "null-studies.json"
FAMILIES = {"primary": PRIMARY, "secondary": SECONDARY, "added later": LATER}
STUDIES = 2000
POWER = 0.8
ESTIMATES = 200_000  # studies of one claim, whose looks are plain t tests
EFFECTS = (0.8, 1.0, 1.5)  # in standard deviations of a seed


def share(errors: Sequence[bool]) -> dict[str, float]:
    """The share of studies that err, and its interval."""
    found, studies = sum(errors), len(errors)
    low, high = stats.binomtest(found, studies).proportion_ci()
    return {"errors": found, "share": found / studies, "low": float(low), "high": float(high)}


def measured(studies: int) -> dict[str, Any]:
    """For each family, how many studies err by "holds", by "does not hold", and by either; and how many err at all."""
    study, draw = whole_study(), stream(2, "null studies")
    smallest: dict[str, list[tuple[float, float]]] = {family: [] for family in FAMILIES}
    with pytest.MonkeyPatch.context() as patched:
        without_outlook(patched)
        for k in range(studies):
            result = judged(study, drawn(draw, study, equal_spreads=k % 2 == 0))
            for family, claims in FAMILIES.items():
                smallest[family].append(least(result.verdicts[name] for name in claims))
            if not (k + 1) % 100:
                print(f"{k + 1} of {studies} studies", flush=True)
    ways: dict[str, dict[str, Any]] = {}
    anywhere = np.zeros(studies, dtype=bool)
    for family, pairs in smallest.items():
        holds, fails = np.array(pairs).T <= ALPHA
        anywhere |= holds | fails
        ways[family] = {
            "claims": len(FAMILIES[family]),
            "holds": share(holds.tolist()),
            "does not hold": share(fails.tolist()),
            "either": share((holds | fails).tolist()),
        }
    return {
        "studies": studies,
        "level": ALPHA,
        "measured": date.today().isoformat(),
        "families": ways,
        "anywhere": share(anywhere.tolist()),
        "true_claims": given_up(studies),
        "estimates": estimates(ESTIMATES),
    }


def given_up(studies: int) -> dict[str, Any]:
    """How studies of one claim that is true end that stop where it is hopeless, and how they would end without that;
    and how many seeds studies take of one that is at its bound."""
    level = ALPHA / len(LOOKS)
    effect = optimize.brentq(
        lambda d: float(power(d, 1.0, np.array(LOOKS[-1:]), level)[0]) - POWER, 0.01, 5.0
    )
    draw = stream(2, "true claims")
    ends, first, lost = Counter[str](), 0, 0
    seeds, without = 0, 0
    for _ in range(studies):
        noise = draw.standard_normal(LOOKS[-1])
        (end, stopped), (would_be, _) = ended(effect + noise)
        ends[end] += 1
        first += (end, stopped) == ("given up", LOOKS[0])
        lost += end == "given up" and would_be == "holds"
        (_, stopped), (_, last) = ended(noise)
        seeds, without = seeds + stopped, without + last
    return {
        "studies": studies,
        "effect": effect,
        "ends": dict(ends),
        "given_up": share([True] * ends["given up"] + [False] * (studies - ends["given up"])),
        "at_the_first_look": first,
        "would_have_held": lost,
        "seeds_at_their_bound": {"mean": seeds / studies, "without_giving_up": without / studies},
    }


def ended(values: np.ndarray) -> tuple[tuple[str, int], tuple[str, int]]:
    """How a study of one primary claim ends that gives up where it is hopeless, and how one that does not, by the
    number of each seed; and after how many seeds."""
    looks: list[Evidence] = []
    stopped: tuple[str, int] | None = None
    for seeds in LOOKS:
        looks.append(above(values[:seeds].tolist()))
        (verdict,) = judge_in_order([shared(looks)], ALPHA, LOOKS)
        if verdict.word != "undecided":
            break
        if stopped is None and verdict.hopeless and seeds < LOOKS[-1]:
            stopped = "given up", seeds
    return stopped or (verdict.word, seeds), (verdict.word, seeds)


def estimates(studies: int) -> dict[str, Any]:
    """Of one primary claim of a true effect that holds by some look: how many times the truth its estimate then is on
    average, and the share of intervals of 95 % that hold the truth."""
    draw = stream(2, "estimates at the look that decides")
    found: list[dict[str, float]] = []
    for effect in EFFECTS:
        x = draw.normal(effect, 1.0, (studies, LOOKS[-1]))
        told, covered = np.full(studies, np.nan), np.zeros(studies, dtype=bool)
        for seeds in LOOKS:
            mean, error = x[:, :seeds].mean(axis=1), x[:, :seeds].std(axis=1, ddof=1) / np.sqrt(seeds)
            now = np.isnan(told) & (mean > stats.t.isf(ALPHA / len(LOOKS), seeds - 1) * error)
            told[now] = mean[now]
            covered[now] = (np.abs(mean - effect) <= stats.t.isf(0.025, seeds - 1) * error)[now]
        held = ~np.isnan(told)
        found.append(
            {
                "effect": effect,
                "holds": float(held.mean()),
                "times_the_truth": float(told[held].mean() / effect),
                "covered": float(covered[held].mean()),
            }
        )
    return {"studies": studies, "effects": found}


def percent(one: dict[str, float]) -> str:
    """`3.8 % (3.0 to 4.7)`."""
    return f"{100 * one['share']:.1f} % ({100 * one['low']:.1f} to {100 * one['high']:.1f})"


def sentence(record: dict[str, Any]) -> str:
    """What the page on judging says of it."""

    def shares(way: str) -> list[str]:
        return [percent(record["families"][family][way]) for family in FAMILIES]

    first, others, added = shares("holds")
    return (
        f"in {first} of {record['studies']:,} studies it was said of a primary claim that it holds, in {others} of "
        f"another one, in {added} of one that was added; and in {', '.join(shares('does not hold'))} that one does "
        f"not. At least one wrong verdict, of whatever kind, had {percent(record['anywhere'])} of the studies"
    )


def of_true_claims(record: dict[str, Any]) -> str:
    """What the page says of claims that are given up."""
    found = record["true_claims"]
    studies, held, lost = found["studies"], found["ends"]["holds"], found["would_have_held"]
    seeds = found["seeds_at_their_bound"]
    return (
        f"Of {studies:,} simulated primary claims that are true, by as much as {LOOKS[-1]} seeds find with a "
        f"chance of {100 * POWER:.0f} %, {percent(found['given_up'])} were given up, "
        f"{100 * found['at_the_first_look'] / studies:.0f} % at the first look, and {100 * held / studies:.1f} % were "
        f"found to hold, where without giving up it would have been {100 * (held + lost) / studies:.1f} %. Claims at "
        f"their bounds took {seeds['mean']:.1f} seeds instead of {seeds['without_giving_up']:.1f}"
    )


def of_estimates(record: dict[str, Any]) -> str:
    """What the page says of estimates at the look that decides."""
    found = record["estimates"]["effects"]
    sizes, more = (
        [f"{one['effect']:g}" for one in found],
        [f"{100 * one['times_the_truth'] - 100:.0f}" for one in found],
    )
    covered = sorted(100 * one["covered"] for one in found)
    return (
        f"Of true effects of {', '.join(sizes[:-1])} and {sizes[-1]} standard deviations of a seed, primary claims say "
        f"{', '.join(more[:-1])} and {more[-1]} % too much on average; their intervals hold the truth in "
        f"{covered[0]:.1f} to {covered[-1]:.1f} % of cases"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--studies", type=int, default=STUDIES, help=f"how many ({STUDIES})")
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument(
        "--only-given-up", action="store_true", help="measure that alone, and keep the rest of the record"
    )
    parser.add_argument(
        "--only-estimates", action="store_true", help="likewise of estimates at the look that decides"
    )
    given = parser.parse_args()
    if given.only_given_up or given.only_estimates:
        found = json.loads(given.record.read_text(encoding="utf-8"))
        if given.only_given_up:
            found["true_claims"] = given_up(found["studies"])
        if given.only_estimates:
            found["estimates"] = estimates(ESTIMATES)
    else:
        found = measured(given.studies)
    write_text(given.record, json.dumps(found, indent=1) + "\n")
    print(f"at least one wrong verdict: {percent(found['anywhere'])}")
    for family, ways in found["families"].items():
        for way in ("holds", "does not hold", "either"):
            print(f"{family}, {way}: {percent(ways[way])}")


if __name__ == "__main__":
    main()
