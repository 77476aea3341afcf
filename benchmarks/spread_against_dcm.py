"""Does it help when steered clients avoid each other's destinations, and what does their knowledge cost?

    python benchmarks/spread_against_dcm.py [--study spread knowledge continuous] [--mobile 3 5 8] [--seeds 10]

Twenty clients on an 18 x 18 grid (or in a rectangle of 18 m x 18 m), reach 3 m, moves of at most 5 m a round, learn
digits for 100 rounds; Dirichlet 0.05. The number of a run was fixed beforehand: the mean accuracy of the later half
of its evaluations, in per cent. Variants are paired by seed (same split, start places and start model): a table gives
the mean and its standard error, the difference from the first row of its group with its standard error, the
two-sided p-value of a paired t test of that difference, and the same after Holm's correction over the table.

- spread: dcm, spread over dcm, and dam; dam and spread over dam; by the number of mobile clients.
- knowledge: dcm and dam with what the mobile clients know as oracle, after a warm-up of 20 rounds, by contacts.
- continuous: dcm_continuous with 1,000 points and with exact candidates, dam_continuous, spread_continuous.

All three with ten seeds: 200 runs, about ten minutes on one core of a busy machine.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import fedroam as fr
from fedroam.analysis.statistics.paired import above
from fedroam.analysis.statistics.verdicts import holm
from fedroam.analysis.variants import mean_and_error
from fedroam.study.measures import later_half

STEP = 5.0
SIDE = {"width": 18.0, "height": 18.0}
KNOWLEDGE = ("oracle", "warm_up", "contacts")
Group = dict[
    str, dict[str, Any]
]  # settings of `mobility` by row; the first is what the others are compared with


def groups(study: str, mobile: list[int]) -> dict[str, Group]:
    """The groups of a table by their titles."""
    if study == "spread":
        found: dict[str, Group] = {}
        for m in mobile:
            found[f"{m} mobile"] = {
                "dcm": {"kind": "dcm", "mobile": m},
                "spread over dcm": {"kind": "spread", "base": "dcm", "mobile": m},
                "dam": {"kind": "dam", "mobile": m},
            }
            found[f"{m} mobile, dam"] = {
                "dam": {"kind": "dam", "mobile": m},
                "spread over dam": {"kind": "spread", "base": "dam", "mobile": m},
            }
        return found
    if study == "knowledge":
        return {
            f"{kind}, 5 mobile": {
                known: {"kind": kind, "knowledge": known, "mobile": 5} for known in KNOWLEDGE
            }
            for kind in ("dcm", "dam")
        }
    plane: Group = {
        "dcm, 1,000 points": {"kind": "dcm_continuous"},
        "dcm, exact": {"kind": "dcm_continuous", "candidates": "intersections"},
        "dam, 1,000 points": {"kind": "dam_continuous"},
        "spread over dcm": {"kind": "spread_continuous", "base": "dcm"},
    }
    return {"rectangle, 5 mobile": {row: {**own, **SIDE, "mobile": 5} for row, own in plane.items()}}


def experiment(mobility: dict[str, Any], seed: int, rounds: int) -> fr.Experiment:
    """One run."""
    return fr.Experiment(
        seed=seed,
        clients=20,
        rounds=rounds,
        evaluate_every=5,
        partition={"kind": "dirichlet", "alpha": 0.05},
        model={"kind": "mlp", "hidden": (64,)},
        training={"kind": "sgd", "lr": 0.1, "momentum": 0.9},
        contacts={"kind": "radius", "radius": 3.0},
        mixing="metropolis",
        mobility={**mobility, "max_step": STEP},
        engine={"kind": "cpu", "workers": 1},
        record_movement="none",
        checkpoint_every=rounds,
    )


class Runs:
    """Values of runs by what was run, each computed once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.values: dict[str, float] = {}

    def value(self, wanted: fr.Experiment) -> float:
        """The number of a run, in per cent."""
        if wanted.digest not in self.values:
            run = fr.run(wanted, self.folder / str(len(self.values)))
            if run.status["diverged_at"] is not None:
                print(f"diverged: seed {wanted.seed}, {wanted.mobility.settings()}", file=sys.stderr)
            self.values[wanted.digest] = later_half.number(run)
        return self.values[wanted.digest]


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    studies = ("spread", "knowledge", "continuous")
    options.add_argument("--study", nargs="+", choices=studies, default=list(studies))
    options.add_argument("--mobile", nargs="+", type=int, default=[3, 5, 8])
    options.add_argument("--seeds", type=int, default=10)
    options.add_argument("--rounds", type=int, default=100)
    given = options.parse_args()
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(Path(folder))
        for study in given.study:
            rows, p = [], []
            for title, group in groups(study, given.mobile).items():
                first: list[float] = []
                for name, mobility in group.items():
                    own = [
                        runs.value(experiment(mobility, seed, given.rounds)) for seed in range(given.seeds)
                    ]
                    mean, error = mean_and_error(own)
                    row = [title, name, f"{mean:.2f} ± {error:.2f}"]
                    if first:
                        found = above([a - b for a, b in zip(own, first, strict=True)])
                        p.append(min(1.0, 2 * min(found.p_holds, found.p_fails)))
                        row += [f"{found.estimate:+.2f} ± {found.error:.2f}", f"{p[-1]:.2g}"]
                    first = first or own
                    rows.append(row)
                    print(f"{study}: {row}, {time.perf_counter() - begun:.0f} s", file=sys.stderr)
            corrected = iter(holm(p))
            print(
                "| group | pattern | accuracy | against the first | p | p, Holm |\n|---|---|---|---|---|---|"
            )
            for row in rows:
                print(
                    "| "
                    + " | ".join([*row, f"{next(corrected):.2g}"] if len(row) > 3 else [*row, "", "", ""])
                    + " |"
                )
            print()
    print(f"{len(runs.values)} runs, {given.seeds} seeds, {time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
