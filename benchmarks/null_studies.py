"""How often whole studies in which nothing is true are said to have found something.

    PYTHONPATH=tests python benchmarks/null_studies.py    # some minutes of one core; docs/records/null-studies.json

Every claim is exactly at its bound (`tests/support/null_studies.py`): whatever is said to hold, or not to hold, is an
error. Half of the studies have runs of equal spreads. Counted are the studies with at least one error, for each family
of claims that shares a level, by the smallest of its p-values, and in any of them. Of the shares, intervals of 95 %
(Clopper & Pearson, Biometrika 26 (1934) 404).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fedroam.analysis.statistics.verdicts import ALPHA
from fedroam.randomness import stream
from fedroam.writing import write_text
from support.null_studies import LATER, PRIMARY, SECONDARY, drawn, judged, least, whole_study, without_outlook

RECORD = Path(__file__).parents[1] / "docs" / "records" / "null-studies.json"
FAMILIES = {"primary": PRIMARY, "secondary": SECONDARY, "added later": LATER}
STUDIES = 2000


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
    }


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
        "not. "
        f"At least one wrong verdict, of whatever kind, had {percent(record['anywhere'])} of the studies"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--studies", type=int, default=STUDIES, help=f"how many ({STUDIES})")
    parser.add_argument("--record", type=Path, default=RECORD)
    given = parser.parse_args()
    found = measured(given.studies)
    write_text(given.record, json.dumps(found, indent=1) + "\n")
    print(f"at least one wrong verdict: {percent(found['anywhere'])}")
    for family, ways in found["families"].items():
        for way in ("holds", "does not hold", "either"):
            print(f"{family}, {way}: {percent(ways[way])}")


if __name__ == "__main__":
    main()
