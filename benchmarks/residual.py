"""What networks of residual blocks cost, which go through autograd: ResNet-18 on images of 32 x 32.

    python benchmarks/residual.py [--repeats 5] [--record FILE]

Their convolutions are strided, padded and wide. For each batch: seconds of local training of four clients, two steps
each, and of evaluating their models, as the engine does it and as a plain loop over modules does, in turn; how many
times as fast the engine is, and what share of the machine's best convolution each reaches. For a quiet machine.
The record holds one measurement for each kind of vectors (`AVX2`, `AVX512`): a new one takes the place of that of its
kind.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from fedroam.bench.measures import in_turn, peak
from fedroam.bench.workloads import CLASSES, Ours, Plain, Workload
from fedroam.components import build
from fedroam.learning import make_network
from fedroam.native import target
from fedroam.writing import write_text

RECORD = Path(__file__).parents[1] / "docs" / "records" / "residual.json"
MODEL = {"kind": "resnet18"}
CLIENTS, STEPS, SIDE = 4, 2, 32


def network() -> nn.Module:
    """The network as torch has it."""
    part: Any = build("model", MODEL)
    return make_network(partial(part.build, (3, SIDE, SIDE), CLASSES), 0)


def step_flops(batch: int) -> float:
    """Of convolutions and matrix products in a step, forward and backward, as torch counts them."""
    with FlopCounterMode(display=False) as counted:
        network()(torch.zeros(batch, 3, SIDE, SIDE)).sum().backward()
    return float(counted.get_total_flops())


def measured(batch: int, repeats: int) -> dict[str, float]:
    """What one batch size takes: seconds are medians over repeats, `peak` is in FLOP/s."""
    flops = step_flops(batch)
    workload = Workload("ResNet-18", MODEL, (SIDE, SIDE, 3), CLIENTS, batch, STEPS, flops, 1.0, 0.0, network)
    engine = Ours(workload, kind="cpu")
    plain = Plain(workload, engine.x, engine.y)
    works = {"train": engine.round, "plain_train": plain.round}
    works |= {"evaluate": engine.evaluate, "plain_evaluate": plain.evaluate}
    seconds = in_turn(repeats, **works)
    engine.learner.close()
    best = peak(torch.get_num_threads())
    return {"step_flops": flops, "peak": best, **{k: statistics.median(v) for k, v in seconds.items()}}


def table(record: dict[str, Any]) -> str:
    """As the page on performance has it."""
    rows = [
        "| vectors | batch | training, over the plain loop | share of peak | the plain loop's | evaluation |",
        "|---|---|---|---|---|---|",
    ]
    for vectors, measurement in sorted(record.items()):
        for batch, found in measurement["batches"].items():
            work = CLIENTS * STEPS * found["step_flops"] / found["peak"]
            rows.append(
                f"| {vectors} | {batch} | {found['plain_train'] / found['train']:.2f} | {work / found['train']:.0%} "
                f"| {work / found['plain_train']:.0%} | {found['plain_evaluate'] / found['evaluate']:.2f} |"
            )
    return "\n".join(rows).replace("%", " %") + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--batches", nargs="*", type=int, default=[8, 32])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--record", type=Path, default=RECORD)
    chosen = parser.parse_args()
    vectors = torch.backends.cpu.get_cpu_capability()
    held = json.loads(chosen.record.read_text(encoding="utf-8")) if chosen.record.exists() else {}
    here = target()
    found = {
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "processor": here.name if here else "",
        "torch": torch.__version__,
        "batches": {str(batch): measured(batch, chosen.repeats) for batch in chosen.batches},
    }
    record = {**held, vectors: found}
    write_text(chosen.record, json.dumps(record, indent=1) + "\n")
    print(table(record), end="")


if __name__ == "__main__":
    main()
