"""What `fedroam bench` finds on this machine, and with vectors as narrow as older processors have them.

    python benchmarks/engine_speed.py [--repeats 7] [--record FILE]    # four minutes, nothing else running

Everything is measured twice: with all that the processor has, and with instructions beyond AVX2 switched off in torch,
in oneDNN and in fedroam's own kernels. On a processor without AVX-512 the two are alike.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from fedroam.writing import write_text

RECORD = Path(__file__).parents[1] / "docs" / "records" / "engine-speed.json"
NARROW = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "FEDROAM_VECTOR": "8"}
MEASURED = {"all": {}, "AVX2": NARROW}
WORKLOADS = {
    "A": "MNIST CNN, 20 clients, batch 32",
    "B": "1-D CNN, 196 features, 50 clients, batch 64",
    "C": "Conv5 of MOHAWK, 16 clients, batch 8",
    "D": "LeNet with GroupNorm, 48 clients, batch 8",
    "E": "MLP 784-64-10, 1,000 clients, batch 16",
}


def benched(settings: dict[str, str], repeats: int) -> dict[str, Any]:
    """What a `fedroam bench` with these variables of the environment writes."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bench.json"
        command = [sys.executable, "-m", "fedroam", "bench", "--repeats", str(repeats), "--json", str(file)]
        subprocess.run(command, env={**os.environ, **settings}, check=True)
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def kept(found: dict[str, Any]) -> dict[str, Any]:
    """What the record keeps of one: not the name of the machine's system, and no path."""
    columns = ("name", "about", "value", "unit", "detail", "disturbed")
    rows = [{name: row[name] for name in columns} for row in found["results"]]
    return {"kernels": found["kernels"].split(";")[0], "results": rows}


def table(record: dict[str, Any]) -> str:
    """As the page on performance has it."""
    found = {name: {row["about"]: row for row in one["results"]} for name, one in record["measured"].items()}
    rows = [
        "| | workload | over the plain loop | share of peak | AVX2 only | share of its peak |",
        "|---|---|---|---|---|---|",
    ]
    for name, words in WORKLOADS.items():
        cells = []
        for measured in found.values():
            (row,) = (each for each in measured.values() if each["name"] == name)
            share = re.search(r"\((\d+)%\)", row["detail"])
            assert share is not None
            cells += [f"{row['value']:.1f}", f"({share[1]} %)" if name == "B" else f"{share[1]} %"]
        rows.append(f"| {name} | {words} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def others(record: dict[str, Any]) -> str:
    """What is not training, in words, of both measurements."""
    told = []
    for name, one in record["measured"].items():
        rows = {row["about"]: row for row in one["results"]}
        mixing, round = rows["mixing, X[1000, 100000], degree 7.5"], rows["all but training, round of A"]
        copying = re.search(r"copying X (\d+) ms", mixing["detail"])
        assert copying is not None
        told.append(
            f"{'With AVX2 only' if name == 'AVX2' else 'Here'} mixing X[1000, 100000] with 7.5 neighbours takes "
            f"{mixing['value']:.0f} ms, where copying X takes {copying[1]}; all of a round of A that is not training "
            f"takes {round['value']:.1f} % {round['detail']}; evaluation is "
            f"{rows['20 models of A, over the plain loop']['value']:.1f} times as fast as the plain loop's."
        )
    return " ".join(told) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--record", type=Path, default=RECORD)
    chosen = parser.parse_args()
    measured = {name: benched(settings, chosen.repeats) for name, settings in MEASURED.items()}
    record = {
        "machine": f"{platform.machine()}, {measured['all']['workers']} cores",
        "torch": measured["all"]["torch"],
        "repeats": chosen.repeats,
        "measured": {name: kept(found) for name, found in measured.items()},
    }
    write_text(chosen.record, json.dumps(record, indent=1) + "\n")
    print(table(record) + "\n" + others(record), end="")


if __name__ == "__main__":
    main()
