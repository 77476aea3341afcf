"""What it saves to leave out zeros: kernels with real samples, and with the same samples where nothing can be left out.

    python benchmarks/zeros.py [--repeats 9]
    FEDROAM_VECTOR=8 python benchmarks/zeros.py      # the kernels of a machine with AVX2 alone
    python benchmarks/zeros.py --show                # the record as a table

Perceptrons leave out vectors of inputs that are zeros in all samples at hand, 1-D convolutions places that see nothing
but zeros. In the second samples 1e-30 stands for each zero, which changes no sum.
Seconds of a round of local training and of evaluating every model, in turn, with a worker on every core; for a quiet
machine. Needs the files of MNIST and UNSW-NB15 (FEDROAM_DATA). The record holds a measurement for each kind of vectors.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedroam.bench.measures import in_turn
from fedroam.bench.workloads import CLASSES, Ours, Workload
from fedroam.components import build
from fedroam.data.cache import load_dataset
from fedroam.native import target
from fedroam.recording.environment import environment
from fedroam.writing import write_text

RECORD = Path(__file__).parents[1] / "docs" / "records" / "zeros.json"
# Name of the samples, their data and the work: model, shape of a sample, clients, samples a batch, steps.
MNIST: dict[str, Any] = {"kind": "mnist", "normalise": "unit", "train_samples": 16_000, "test_samples": 1000}
UNSW: dict[str, Any] = {"kind": "unsw_nb15", "test": "none", "train_samples": 16_000}
WORKS: dict[str, tuple[str, dict[str, Any], dict[str, Any], tuple[int, ...], int, int, int]] = {
    "MLP 784-64-10, batch 16": ("MNIST", MNIST, {"kind": "mlp", "hidden": [64]}, (784,), 200, 16, 5),
    "MLP 784-64-10, batch 50": ("MNIST", MNIST, {"kind": "mlp", "hidden": [64]}, (784,), 40, 50, 8),
    "MLP 196-64-10, batch 16": ("UNSW-NB15", UNSW, {"kind": "mlp", "hidden": [64]}, (196,), 200, 16, 5),
    "1-D CNN, batch 64": ("UNSW-NB15", UNSW, {"kind": "cnn1d"}, (196,), 50, 64, 5),
}


def measured(name: str, repeats: int) -> dict[str, Any]:
    """Medians of seconds, as they are (`left out`) and with 1e-30 for each zero (`all`), and the share of zeros."""
    _, data, model, shape, clients, batch, steps = WORKS[name]
    assert CLASSES == 10  # of both
    source: Any = build("data", data)
    held = load_dataset(source)
    count = clients * batch * steps
    x = np.ascontiguousarray(held.x_train[:count].reshape(count, *shape), dtype=np.float32)
    y = np.asarray(held.y_train[:count], dtype=np.int64)
    workload = Workload(name, model, shape, clients, batch, steps, 1.0, 0.0, 0.0, torch.nn.Identity)
    dense = np.where(x == 0, np.float32(1e-30), x)
    works = {
        "left out": Ours(workload, given=(x, y), kind="cpu"),
        "all": Ours(workload, given=(dense, y), kind="cpu"),
    }
    for work in works.values():
        work.test = work.test[0][:500], work.test[1][:500]
    calls = {f"{how}, train": work.round for how, work in works.items()}
    calls |= {f"{how}, evaluate": work.evaluate for how, work in works.items()}
    seconds = in_turn(repeats, **calls)
    for work in works.values():
        work.learner.close()
    return {
        "zeros": float((x == 0).mean()),
        **{what: statistics.median(times) for what, times in seconds.items()},
    }


def table(record: dict[str, Any]) -> str:
    """As the page on performance has it."""
    rows = [
        "| network | samples | of them zeros | vectors | a round of training | over that with all | evaluation |",
        "|---|---|---|---|---|---|---|",
    ]
    for vectors, measurement in sorted(record.items()):
        for name, found in measurement["works"].items():
            ratios = [found[f"left out, {what}"] / found[f"all, {what}"] for what in ("train", "evaluate")]
            rows.append(
                f"| {name} | {WORKS[name][0]} | {found['zeros']:.0%} | {vectors} "
                f"| {1000 * found['left out, train']:.0f} ms | {ratios[0]:.2f} | {ratios[1]:.2f} |"
            )
    return "\n".join(rows).replace("%", " %") + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--show", action="store_true", help="only print the record")
    chosen = parser.parse_args()
    record = json.loads(chosen.record.read_text(encoding="utf-8")) if chosen.record.exists() else {}
    if not chosen.show:
        here = target()
        if here is None:
            parser.error("there are no kernels on this machine")
        narrowed = " of a wider machine" if os.environ.get("FEDROAM_VECTOR") else ""
        record[f"{here.lanes} values{narrowed}"] = {
            "machine": environment(),
            "works": {name: measured(name, chosen.repeats) for name in WORKS},
        }
        write_text(chosen.record, json.dumps(record, indent=1) + "\n")
    print(table(record), end="")


if __name__ == "__main__":
    main()
