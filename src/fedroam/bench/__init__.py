"""Measured speed: training, mixing, evaluation and overhead, as ratios against a plain loop in the same run."""

from __future__ import annotations

import dataclasses
import errno
import json
import platform
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from fedroam.bench.measures import Result as Result
from fedroam.bench.measures import evaluation, mixing, overhead, training
from fedroam.bench.server_methods import methods
from fedroam.bench.workloads import WORKLOADS
from fedroam.errors import InputError, unknown
from fedroam.learning.cpu.workers import cores
from fedroam.learning.sums import torch_threads
from fedroam.native import object_cache, target
from fedroam.writing import write_named

# What can be measured, in the order of the table.
NAMES = (*WORKLOADS, "F", "evaluation", "overhead", "methods")


def run(
    workloads: Sequence[str] | None = None,
    repeats: int = 7,
    *,
    workers: int = 0,
    out: str | Path | None = None,
    console: Console | None = None,
) -> list[Result]:
    """Measure `workloads` (names from NAMES; all by default), print a table and what `kernels` says; return its lines.

    workers: of the engine, 0 is one a core; the plain loop uses as many of torch's threads. out: a JSON file to
    write the results to as well, with every single time. Raises InputError for an unknown name, no repeats, or
    a file that cannot be written.
    """
    names = list(NAMES if workloads is None else workloads)
    for name in names:
        if name not in NAMES:
            raise unknown("workload", name, NAMES)
    if repeats < 1:
        raise InputError(f"repeats = {repeats}: allowed are whole numbers from 1")
    if out is not None:
        _check_writable(Path(out))
    console = console or Console(highlight=False)
    count = workers or cores()
    results: list[Result] = []
    with torch_threads(count):
        for name in names:
            with console.status(f"measuring {name}"):
                results += _measure(name, repeats, count)
    console.print(_table(results, count))
    console.print(kernels(), markup=False, soft_wrap=True)
    if out is not None:
        _write(Path(out), results, count)
    return results


def kernels() -> str:
    """What convolutions are compiled for here, and where they are kept: one line."""
    here, kept, torchs = target(), object_cache(), f"torch's: {torch.backends.cpu.get_cpu_capability()}"
    if here is None:
        return f"kernels: none; convolutions are {torchs}"
    told = f"kernels: vectors of {here.lanes} on {here.name} ({torchs})"
    if kept is None:
        return f"{told}, compiled in each process"
    try:
        count, size = kept.size()
    except OSError as error:
        return f"{told}, compiled in each process: {kept.folder} is not used ({error.strerror or error})"
    most = kept.most >> 20
    return f"{told}; {count} compiled ones in {kept.folder}, {size / (1 << 20):.1f} of at most {most} MiB"


def _measure(name: str, repeats: int, workers: int) -> list[Result]:
    if name in WORKLOADS:
        return training(name, repeats, workers)
    if name == "F":
        return mixing(repeats)
    if name == "methods":
        return methods(repeats, workers)
    return evaluation(repeats, workers) if name == "evaluation" else overhead(repeats, workers)


def _table(results: Sequence[Result], workers: int) -> Table:
    table = Table(
        title=f"fedroam bench, {workers} cores, torch {torch.__version__}",
        caption="x: speed over a plain loop of nn.Module and torch.optim.SGD, measured in turn. Trust ratios, not "
        "times. GFLOP/s: as if the backward pass were dense, which it is not in B. disturbed: other programs ran at "
        "the same time; measure again.",
    )
    table.add_column()
    table.add_column("measured")
    table.add_column("target", justify="right")
    table.add_column("reached", justify="right")
    table.add_column()
    table.add_column("times", overflow="fold")
    for result in results:
        sign = ">=" if result.more_is_better else "<="
        target = "" if result.target is None else f"{sign} {result.target:g} {result.unit}"
        if result.least_share:
            target += f", {100 * result.least_share:.0f} % of peak"
        verdict = "disturbed" if result.disturbed else {True: "yes", False: "no", None: ""}[result.reached]
        table.add_row(
            *(result.name, result.about, target, f"{result.value:.2f} {result.unit}", verdict, result.detail)
        )
    return table


def _check_writable(path: Path) -> None:
    """Raise InputError where a file cannot be written: before minutes of measuring, not after."""
    place = path.resolve()
    try:
        if place.is_file() or not place.exists():
            with tempfile.TemporaryFile(dir=place.parent):
                return
        if place.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error})") from None


def _write(path: Path, results: Sequence[Result], workers: int) -> None:
    lines = [
        {**dataclasses.asdict(result), "reached": result.reached, "disturbed": result.disturbed}
        for result in results
    ]
    facts = {
        "workers": workers,
        "torch": torch.__version__,
        "machine": platform.platform(),
        "kernels": kernels(),
        "results": lines,
    }
    text = json.dumps(facts, indent=1) + "\n"
    try:
        write_named(path, lambda aside: aside.write_text(text, encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error})") from None
