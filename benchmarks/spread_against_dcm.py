"""Does it help when steered clients avoid each other's destinations, and what does their knowledge cost?

    python benchmarks/spread_against_dcm.py            # computes what docs/records/spread.json lacks, then the page
    python benchmarks/spread_against_dcm.py --show     # only prints the tables of the record

Twenty clients on an 18 x 18 grid (or in a rectangle of 18 m x 18 m), reach 3 m, moves of at most 5 m a round, learn
digits for 100 rounds; Dirichlet 0.05. The number of a run was fixed beforehand: the mean accuracy of the later half
of its evaluations, in per cent. Variants are paired by seed (same split, start places and start model): a table gives
the mean and its standard error, the difference from the first row of its group with its standard error, the
two-sided p-value of a paired t test of that difference, and the same after Holm's correction over the table.

- spread: dcm, spread over dcm, and dam; dam and spread over dam; by the number of mobile clients.
- knowledge: dcm and dam with what the mobile clients know as oracle, after a warm-up of 20 rounds, by contacts.
- continuous: dcm_continuous with 1,000 points and with exact candidates, dam_continuous, spread_continuous.
- worlds: the smallest B of 1,000 rounds and the mean degree in the same worlds, without learning.

All with ten seeds: some 200 runs and 80 worlds, about ten minutes on one core. The record has each number by digest of
its experiment; the tables of docs/steered-movement.md are made of it.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fedroam as fr
from fedroam.analysis.connectivity.contact_statistics import simulate, summary
from fedroam.analysis.statistics.paired import above
from fedroam.analysis.statistics.verdicts import holm
from fedroam.analysis.variants import mean_and_error
from fedroam.study.measures import later_half
from fedroam.writing import write_text

DOCS = Path(__file__).parents[1] / "docs"
RECORD, PAGE = DOCS / "records" / "spread.json", DOCS / "steered-movement.md"
STUDIES = ("spread", "knowledge", "continuous")
SEEDS, ROUNDS, MOBILE = 10, 100, [3, 5, 8]
WORLD, LINKED = 1000, (3, 5)  # rounds of a world in which nobody learns; numbers of mobile clients
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


class Kept:
    """Numbers by what was run, each computed once: those of the record first, which is written after each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.values: dict[str, dict[str, float]] = (
            json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        )

    def of(
        self, wanted: fr.Experiment, what: Callable[[fr.Experiment], dict[str, float]]
    ) -> dict[str, float]:
        """The numbers of an experiment; `what` computes them where they are not kept."""
        key = f"{what.__name__} {wanted.digest[:20]}"
        if key not in self.values:
            self.values[key] = {name: round(number, 6) for name, number in what(wanted).items()}
            write_text(self.path, json.dumps(dict(sorted(self.values.items())), indent=1) + "\n")
        return self.values[key]


def learnt(wanted: fr.Experiment) -> dict[str, float]:
    """The number of a run, in per cent."""
    with tempfile.TemporaryDirectory() as folder:
        run = fr.run(wanted, folder)
        if run.status["diverged_at"] is not None:
            print(f"diverged: seed {wanted.seed}, {wanted.mobility.settings()}", file=sys.stderr)
        return {"accuracy": later_half.number(run)}


def linked(wanted: fr.Experiment) -> dict[str, float]:
    """The smallest B of a world, and its mean degree."""
    found = summary(simulate(wanted, wanted.rounds))
    return {"b": found["b"], "degree": found["degree"]}


def accuracies(study: str, kept: Kept) -> str:
    """The table of a study of runs, as Markdown."""
    rows: list[list[str]] = []
    p: list[float] = []
    for title, group in groups(study, MOBILE).items():
        first: list[float] = []
        for name, mobility in group.items():
            runs = [experiment(mobility, seed, ROUNDS) for seed in range(SEEDS)]
            own = [kept.of(run, learnt)["accuracy"] for run in runs]
            mean, error = mean_and_error(own)
            row = [title, name, f"{mean:.1f} ± {error:.1f}"]
            if first:
                found = above([a - b for a, b in zip(own, first, strict=True)])
                p.append(min(1.0, 2 * min(found.p_holds, found.p_fails)))
                row += [f"{found.estimate:+.2f} ± {found.error:.2f}".replace("-", "−"), f"{p[-1]:.2g}"]
            first = first or own
            rows.append(row)
    corrected = iter(holm(p))
    full = [[*row, f"{next(corrected):.2g}"] if len(row) > 3 else [*row, "", "", ""] for row in rows]
    return table(["world", "pattern", "accuracy", "difference from the first", "p", "p, Holm"], full)


def worlds(kept: Kept) -> str:
    """The smallest B and the mean degree by pattern and number of mobile clients, as Markdown."""
    patterns = {name: own for group in groups("spread", [1]).values() for name, own in group.items()}
    rows = []
    for name, own in patterns.items():
        row = [name]
        for mobile in LINKED:
            seeds = [experiment({**own, "mobile": mobile}, seed, WORLD) for seed in range(SEEDS)]
            found = [kept.of(each, linked) for each in seeds]
            b, degree = ([each[what] for each in found] for what in ("b", "degree"))
            row += [
                f"{statistics.median(b):g} ({min(b):g} to {max(b):g})",
                f"{statistics.fmean(degree):.2f}",
            ]
        rows.append(row)
    heads = [f"{mobile} mobile: {what}" for mobile in LINKED for what in ("B", "degree")]
    return table(["pattern", *heads], rows)


def table(heads: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [heads, ["---"] * len(heads), *rows])


def tables(kept: Kept) -> dict[str, str]:
    """All tables of the page by name; what is missing is computed."""
    return {study: accuracies(study, kept) for study in STUDIES} | {"worlds": worlds(kept)}


def filled(page: str, made: dict[str, str]) -> str:
    """The page with these tables in their places."""
    for name, text in made.items():
        place = re.compile(rf"(<!-- spread: {name} -->\n\n).*?(\n\n<!-- /spread -->)", re.S)
        page, count = place.subn(lambda found, text=text: found[1] + text + found[2], page)
        if count != 1:
            raise SystemExit(f"{PAGE}: has {count} places for table {name!r}")
    return page


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--record", type=Path, default=RECORD)
    options.add_argument("--show", action="store_true", help="only print the tables; the page stays as it is")
    given = options.parse_args()
    made = tables(Kept(given.record))
    print("\n\n".join(f"{name}\n\n{text}" for name, text in made.items()))
    if not given.show:
        write_text(PAGE, filled(PAGE.read_text(encoding="utf-8"), made))


if __name__ == "__main__":
    main()
