"""Smallest B over 1,000 rounds of ten worlds of Jahani et al., by pattern and number of mobile clients: no training.

    python benchmarks/smallest_b.py          # a minute of a core, with MNIST; docs/records/smallest-b.json

The paper prints none. The caption of its study's table tells these, from the least to the most; a test holds the two
together, and finds the first world again.
"""

from __future__ import annotations

import json
from pathlib import Path

from fedroam.analysis.connectivity.contact_statistics import simulate
from fedroam.papers.jahani.runs import RUNS
from fedroam.papers.jahani.study import STUDY
from fedroam.papers.jahani.tables import SMALLEST_B
from fedroam.writing import write_text

RECORD = Path(__file__).parents[1] / "docs" / "records" / "smallest-b.json"
SCALE, ROUNDS, WORLDS = "full", 1000, 10


def smallest(pattern: str, mobile: int, world: int) -> int | None:
    """The smallest B of a world; None where it has none."""
    experiment = STUDY.experiment(RUNS.variant(pattern, mobile=mobile), SCALE, world)
    return simulate(experiment, ROUNDS).smallest_window().length


def main() -> None:
    found = {
        pattern: {str(mobile): [smallest(pattern, mobile, world) for world in range(WORLDS)] for mobile in of}
        for pattern, of in SMALLEST_B.items()
    }
    record = {"scale": SCALE, "rounds": ROUNDS, "smallest_b": found}
    write_text(RECORD, json.dumps(record, indent=1) + "\n")
    for pattern, of in found.items():
        print(pattern, of)


if __name__ == "__main__":
    main()
