"""The batched engine on an accelerator, against a plain loop on the same one, and against two cores' worth of engine.

    .venv/bin/python benchmarks/gpu.py                                # cuda, all workloads
    .venv/bin/python benchmarks/gpu.py --device cpu --only A E --repeats 1 --json gpu.json

A to E are those of `fedroam bench`; R is ResNet-18 with GroupNorm; S is E's network with momentum that lives on from
round to round, 1,000 stateful models. M is de Heredia's size: 20 clients, full batches of 3,000 MNIST-like images, of
which so many rounds are played and 1,000 reckoned. Each is timed in turn with the plain loop on the same device and
with the engine of processors on two cores (`--cores`, 0 leaves it out), after a warm-up, to the end of the device's
work; the numbers are medians and the ratios medians of ratios.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import nn

from fedroam.bench.measures import in_turn, ratio
from fedroam.bench.workloads import CLASSES, WORKLOADS, Ours, Plain, Workload
from fedroam.components import build


def _resnet() -> nn.Module:
    part = build("model", {"kind": "resnet18", "norm": "group"})
    network: nn.Module = part.build((3, 32, 32), CLASSES)  # type: ignore[attr-defined]
    return network


MORE = {
    "R": Workload(
        *("ResNet-18, GroupNorm", {"kind": "resnet18", "norm": "group"}, (32, 32, 3)),
        *(10, 32, 3, 107e9, 1.0, 0.0, _resnet),
    ),
    "S": replace(WORKLOADS["E"], about="1,000 stateful MLPs", steps=1),
    "M": replace(
        WORKLOADS["A"], about="MNIST CNN, full batches", batch=3000, steps=1, flops=83e6 / 32 * 3000
    ),
}
MOMENTUM = {"S": 0.9}


@dataclass(frozen=True)
class Timing:
    """Seconds of a round, medians; ratio: of the plain loop's, median of neighbours in time; over_cores: the same of
    the processor's engine on so many `cores`, None where it was left out.
    """

    name: str
    about: str
    device: str
    precision: str
    engine: float
    plain: float
    ratio: float
    cores: int
    over_cores: float | None
    gflops: float


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="*", help="names of workloads")
    parser.add_argument("--precision", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--samples", type=int, default=16384, help="of all models of a pass together")
    parser.add_argument(
        "--cores", type=int, default=2, help="of the engine on the processor; 0: leave it out"
    )
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    device, known = torch.device(options.device), WORKLOADS | MORE
    if device.type == "cuda" and not torch.cuda.is_available():
        print("no CUDA device here: --device cpu shows that it runs, not how fast")
        return 2
    found = []
    for name in options.only or known:
        workload, momentum = known[name], MOMENTUM.get(name, 0.0)
        ours = Ours(
            workload,
            device,
            momentum,
            kind="batched",
            precision=options.precision,
            samples=max(options.samples, workload.batch),
        )
        plain = Plain(workload, ours.x, ours.y, device, momentum)
        works = {
            "plain": partial(_to_the_end, plain.round, device),
            "engine": partial(_to_the_end, ours.round, device),
        }
        on_cores = (
            Ours(workload, momentum=momentum, kind="cpu", workers=options.cores) if options.cores else None
        )
        if on_cores is not None:
            works["cores"] = on_cores.round
        times = in_turn(options.repeats, **works)
        engine = statistics.median(times["engine"])
        rate = workload.flops * workload.steps * workload.clients / engine / 1e9
        one = Timing(
            name,
            workload.about,
            str(device),
            options.precision,
            engine,
            statistics.median(times["plain"]),
            ratio(times, "plain", "engine"),
            options.cores,
            ratio(times, "cores", "engine") if on_cores is not None else None,
            rate,
        )
        found.append(one)
        beside = "" if one.over_cores is None else f"{one.over_cores:6.1f} x {one.cores} cores  "
        more = f", 1,000 rounds {1000 * engine:.0f} s" if name == "M" else ""
        print(
            f"{name}  {one.about:<26} engine {one.engine:9.4f} s  plain {one.plain:9.4f} s  {one.ratio:6.1f} x  "
            f"{beside}{one.gflops:8.0f} GFLOP/s{more}",
            flush=True,
        )
        for each in (ours, on_cores):
            if each is not None:
                each.learner.close()
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(one) for one in found], indent=2) + "\n")
    return 0


def _to_the_end(work: Callable[[], object], device: torch.device) -> None:
    """Do it, and wait until the device has."""
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    sys.exit(main())
