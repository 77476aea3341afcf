"""The batched engine on an accelerator, against a plain loop on the same one, and against two cores' worth of engine.

    .venv/bin/python benchmarks/gpu.py                                # cuda, all workloads; docs/records/gpu.json
    .venv/bin/python benchmarks/gpu.py --device cpu --only A E --repeats 1 --record gpu.json
    .venv/bin/python benchmarks/gpu.py --show                         # the table of docs/performance.md

A to E are those of `fedroam bench`; R is ResNet-18 with GroupNorm; S is E's network with momentum that lives on from
round to round, 1,000 stateful models. M is 20 clients with full batches of 3,000 MNIST-like images, of which on an
accelerator 1,000 rounds are played besides. Each is timed in turn with the plain loop on the same device and with the
engine of processors on two cores (`--cores`, 0 leaves it out; R, minutes a round there, is left out anyway), after a
warm-up, to the end of the device's work; the numbers are medians and the ratios medians of ratios. Recording and the
compilation of kernels are in the warm-up. `off` is how far two clients are after a step from where engine `reference`
gets on the processor, as a share of the way.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fedroam.bench.measures import in_turn, ratio
from fedroam.bench.workloads import CLASSES, WORKLOADS, Ours, Plain, Workload
from fedroam.components import build
from fedroam.recording import environment
from fedroam.writing import write_text


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
LONG = 1e12  # floating-point operations of a round, with which two cores are not timed
RECORD = Path(__file__).parents[1] / "docs/records/gpu.json"


@dataclass(frozen=True)
class Timing:
    """Seconds of a round, medians; ratio: of the plain loop's, median of neighbours in time; over_cores: the same of
    the processor's engine on so many `cores`, None where it was left out. thousand: of 1,000 rounds, None where they
    were not played. off: see above. measured: the day.
    """

    name: str
    about: str
    precision: str
    engine: float
    plain: float
    ratio: float
    cores: int
    over_cores: float | None
    gflops: float
    off: float
    thousand: float | None = None
    measured: str = field(default_factory=lambda: date.today().isoformat())


@dataclass(frozen=True)
class Machine:
    """Where it was measured."""

    device: str
    torch: str
    processor: str


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
    parser.add_argument("--record", type=Path, default=RECORD, help="write the figures there")
    parser.add_argument("--show", action="store_true", help="print a record as a table, and measure nothing")
    options = parser.parse_args()
    if options.show:
        print(table(json.loads(options.record.read_text(encoding="utf-8"))))
        return 0
    device, known = torch.device(options.device), WORKLOADS | MORE
    if device.type == "cuda" and not torch.cuda.is_available():
        print("no CUDA device here: --device cpu shows that it runs, not how fast")
        return 2
    here, rows = asdict(machine(device)), list[dict[str, Any]]()
    if options.record.exists():
        record = json.loads(options.record.read_text(encoding="utf-8"))
        rows = record["rows"]
        if rows and record["machine"] != here:
            print(
                f"{options.record}: holds what was measured on {record['machine']}, and this is {here}: give another "
                "--record, or measure all of it anew without that file"
            )
            return 2
    for name in options.only or known:
        one = timed(name, known[name], device, options)
        beside = "" if one.over_cores is None else f"{one.over_cores:6.1f} x {one.cores} cores  "
        more = "" if one.thousand is None else f", 1,000 rounds {one.thousand:.1f} s"
        print(
            f"{name}  {one.about:<26} engine {one.engine:9.4f} s  plain {one.plain:9.4f} s  {one.ratio:6.1f} x  "
            f"{beside}{one.gflops:8.0f} GFLOP/s  off {one.off:.0e}{more}",
            flush=True,
        )
        others = [row for row in rows if (row["name"], row["precision"]) != (name, one.precision)]
        rows = [*others, asdict(one)]
        write_text(options.record, json.dumps({"machine": here, "rows": rows}, indent=2) + "\n")
    return 0


def timed(name: str, workload: Workload, device: torch.device, options: argparse.Namespace) -> Timing:
    """A workload in turn by the engine on the device, by the plain loop there and, but for long ones, on cores."""
    momentum, operations = MOMENTUM.get(name, 0.0), workload.flops * workload.steps * workload.clients
    settings = {"precision": options.precision, "samples": max(options.samples, workload.batch)}
    ours = Ours(workload, device, momentum, kind="batched", **settings)
    plain = Plain(workload, ours.x, ours.y, device, momentum)
    works = {
        "plain": partial(_to_the_end, plain.round, device),
        "engine": partial(_to_the_end, ours.round, device),
    }
    on_cores = None
    if options.cores and operations < LONG:
        on_cores = Ours(workload, momentum=momentum, kind="cpu", workers=options.cores)
        works["cores"] = on_cores.round
    ours.round()  # the first round computes, the second one records
    times = in_turn(options.repeats, **works)
    engine = statistics.median(times["engine"])
    thousand = None
    if name == "M" and device.type != "cpu":
        begin = time.perf_counter()
        for _ in range(1000):
            ours.round()
        _to_the_end(lambda: None, device)
        thousand = time.perf_counter() - begin
    for each in (ours, on_cores):
        if each is not None:
            each.learner.close()
    return Timing(
        *(name, workload.about, options.precision, engine, statistics.median(times["plain"])),
        *(ratio(times, "plain", "engine"), options.cores if on_cores is not None else 0),
        ratio(times, "cores", "engine") if on_cores is not None else None,
        operations / engine / 1e9,
        off(workload, device, momentum, settings),
        thousand,
    )


def off(workload: Workload, device: torch.device, momentum: float, settings: dict[str, Any]) -> float:
    """The distance from where a step of `reference` takes two clients on the processor, over the way that it goes."""
    small = replace(workload, clients=2, steps=1)
    ours = Ours(small, device, momentum, kind="batched", **settings)
    truth = Ours(small, momentum=momentum, kind="reference")
    start = truth.models.parameters.clone()
    ours.round()
    truth.round()
    end = truth.models.parameters
    return float((ours.models.parameters.cpu() - end).norm() / (end - start).norm())


def machine(device: torch.device) -> Machine:
    """What computes."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return Machine(name, torch.__version__, environment()["processor"])


def table(record: dict[str, Any]) -> str:
    """A record as a table of Markdown."""
    lines = [
        "| | Workload | A round | Times the plain loop there | Times two cores |",
        "|---|---|---|---|---|",
    ]
    for row in record["rows"]:
        cores = "not measured" if row["over_cores"] is None else f"{row['over_cores']:.3g}"
        lines.append(
            f"| {row['name']} | {row['about']} | {1000 * row['engine']:.3g} ms | {row['ratio']:.3g} | {cores} |"
        )
    return "\n".join(lines)


def _to_the_end(work: Callable[[], object], device: torch.device) -> None:
    """Do it, and wait until the device has."""
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    sys.exit(main())
