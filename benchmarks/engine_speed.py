"""How fast the engine is on this processor: the workloads of `fedroam bench`, kept beside those of other processors.

    python benchmarks/engine_speed.py [--repeats 7] [--record FILE]    # three minutes, nothing else running
    python benchmarks/engine_speed.py --methods                        # and rounds of methods with a server
    python benchmarks/engine_speed.py --only AVX2                      # as if it had no wider vectors

The record holds one measurement for each kind of vectors (`AVX2`, `AVX512`): a new one takes the place of that of its
kind. Rounds of methods are a part of it that is measured by itself, on the same processor. One with wide vectors that
are switched off is not one with narrow ones, so that is a kind of its own (`AVX2-only`). A measurement that other
programs disturbed is told and not kept.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import torch

from fedroam.bench.workloads import WORKLOADS
from fedroam.native import KEPT_TO, target
from fedroam.writing import write_text

RECORD = Path(__file__).parents[1] / "docs" / "records" / "engine-speed.json"
NAMES = (*WORKLOADS, "F", "evaluation", "overhead")
METHODS = "methods"  # the part of a measurement that holds them, and their name in `fedroam bench`
NARROWING = tuple(dict.fromkeys(name for names in KEPT_TO.values() for name in names))


def measured(repeats: int, names: Sequence[str] = NAMES, only: str = "") -> tuple[str, dict[str, Any]]:
    """The kind of this processor's vectors, or of those that it is to keep to, and what was measured on it."""
    here, kept_to = target(), ["--only", only] if only else []
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "bench.json"
        asked = [*names, "--repeats", str(repeats), "--json", str(out), *kept_to]
        subprocess.run([sys.executable, "-m", "fedroam", "bench", *asked], check=True)
        found = json.loads(out.read_text(encoding="utf-8"))
    facts = {
        "machine": platform.machine(),
        "processor": here.name if here else "",
        "cores": found["workers"],
        "python": platform.python_version(),
        "torch": found["torch"],
        "repeats": repeats,
        "measured": date.today().isoformat(),
    }
    keys = ("name", "about", "value", "unit", "share", "busy", "times", "disturbed")
    results = [{key: line[key] for key in keys} for line in found["results"]]
    for line in results:
        line["times"] = {of: [round(second, 5) for second in all_] for of, all_ in line["times"].items()}
    kind = f"{only}-only" if only else torch.backends.cpu.get_cpu_capability()
    return kind, {**facts, "results": results}


def _line(measurement: dict[str, Any], name: str) -> dict[str, Any]:
    return next(line for line in measurement["results"] if line["name"] == name)


def table(record: dict[str, Any]) -> str:
    """Training, as the page on performance has it: a column for each kind of vectors."""
    kinds = sorted(record)
    rows = [f"| | workload | {' | '.join(kinds)} |", "|---|---|" + "---|" * len(kinds)]
    for name, work in WORKLOADS.items():
        cells = []
        for kind in kinds:
            line = _line(record[kind], name)
            share = f"{100 * line['share']:.0f} %"
            cells.append(f"{line['value']:.1f}, {f'({share})' if line['share'] > 1 else share}")
        about = f"{work.about}, {work.clients:,} clients, batch {work.batch}"
        rows.append(f"| {name} | {about} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def others(record: dict[str, Any]) -> str:
    """What is not training, as the page has it: a sentence for each kind of vectors."""
    told = []
    for kind in sorted(record):
        found = record[kind]
        mixing, overhead = _line(found, "F"), _line(found, "overhead")
        share, over = (line["value"] for line in found["results"] if line["name"] == "evaluation")
        # An older record tells what a copy takes, which pays for fresh memory, too.
        least = "in_place" if "in_place" in mixing["times"] else "copy"
        passed = {"in_place": "multiplying them in place", "copy": "copying them"}[least]
        once = 1e3 * statistics.median(mixing["times"][least])
        vectors = kind.replace("-only", " alone")
        told.append(
            f"With {vectors} ({found['processor']}, {found['cores']} cores, torch {found['torch']}, measured "
            f"{found['measured']}) mixing 1,000 models of 100,000 values takes {mixing['value']:.0f} ms, where "
            f"{passed} takes {once:.0f}; testing 20 models is {over:.1f} times as fast as in the plain loop and "
            f"{share:.1f} times training in operations a second; {overhead['value']:.1f} % of a round of A are neither."
        )
    return " ".join(told)


def methods(record: dict[str, Any]) -> str:
    """Rounds of the methods with a server, as the page has them: how many times that of FedAvg each takes, a column for
    each network and kind of vectors; nothing where none is measured."""
    columns, rows = [], dict[str, list[str]]()
    for kind in sorted(record):
        lines = record[kind].get(METHODS, {"results": []})["results"]
        for about in dict.fromkeys(line["about"] for line in lines):
            columns.append(f"{kind}: {about}")
            times = {line["name"]: line["times"]["round"] for line in lines if line["about"] == about}
            base = times[f"{METHODS}: fedavg"]
            for name, found in times.items():
                over = statistics.median(a / b for a, b in zip(found, base, strict=True))
                rows.setdefault(name.removeprefix(f"{METHODS}: "), []).append(f"{over:.1f}")
    if not columns:
        return ""
    head = [f"| method | {' | '.join(columns)} |", "|---|" + "---|" * len(columns)]
    return "\n".join([*head, *(f"| `{name}` | {' | '.join(cells)} |" for name, cells in rows.items())]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument(
        "--methods", action="store_true", help="Measure rounds of methods with a server alone."
    )
    parser.add_argument("--only", choices=list(KEPT_TO), default="", help="no wider vectors than these")
    chosen = parser.parse_args()
    narrowed = [name for name in NARROWING if name in os.environ]
    if narrowed:
        print(f"{', '.join(narrowed)}: set, so this processor is not measured as it is", file=sys.stderr)
        return 2
    kind, found = measured(chosen.repeats, (METHODS,) if chosen.methods else NAMES, chosen.only)
    disturbed = [line["name"] for line in found["results"] if line["disturbed"]]
    if disturbed:
        print(f"disturbed: {', '.join(disturbed)}; nothing is kept", file=sys.stderr)
        return 1
    held = json.loads(chosen.record.read_text(encoding="utf-8")) if chosen.record.exists() else {}
    before = held.get(kind, {})
    alike = all(before.get(fact) == found[fact] for fact in ("processor", "cores", "torch"))
    if chosen.methods and not alike:
        print(
            f"{kind}: all else was measured elsewhere, or with another torch; measure it here",
            file=sys.stderr,
        )
        return 1
    kept = {METHODS: before[METHODS]} if alike and METHODS in before else {}
    record = {**held, kind: {**before, METHODS: found} if chosen.methods else {**found, **kept}}
    write_text(chosen.record, json.dumps(record, indent=1) + "\n")
    print(table(record), others(record), methods(record), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
