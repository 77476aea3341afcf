"""`fedroam bench`: how fast this machine trains, mixes and evaluates, as ratios against a plain loop."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Annotated, NoReturn

import typer

from fedroam.cli import options
from fedroam.cli.console import out
from fedroam.cli.outputs import check_spares
from fedroam.errors import InputError, unknown


def bench(
    workloads: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WORKLOAD]...",
            help="A, B, C, D, E (training), F (mixing), evaluation, overhead, methods (rounds). (default: all)",
            show_default=False,
        ),
    ] = None,
    repeats: Annotated[
        int, typer.Option(metavar="N", help="Measurements of each, in turn; the median counts.")
    ] = 7,
    workers: Annotated[int, typer.Option(metavar="N", help="Threads; 0 is one a core.", min=0)] = 0,
    json: Annotated[
        str | None,
        options.place("--json", metavar="FILE", help="Write every single time to a JSON file too."),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(metavar="AVX2", help="Compute as a processor with no wider vectors than these."),
    ] = None,
) -> None:
    """Measure speed: training, mixing and evaluation against a plain loop in the same run, the overhead, and a round of
    every method with a server.

    Trust the ratios, not the times; let nothing else run meanwhile.
    """
    if json is not None:
        check_spares("--json", json)
    if only is not None:
        _kept_to(only, workloads or [], {"--repeats": repeats, "--workers": workers, "--json": json})
    from fedroam import bench as measuring

    measuring.run(workloads or None, repeats, workers=workers, out=json, console=out())


def _kept_to(only: str, workloads: list[str], given: Mapping[str, object]) -> NoReturn:
    """The same command in a process whose libraries are told, before they are loaded, to keep to these vectors."""
    from fedroam.native import KEPT_TO, target

    if only not in KEPT_TO:
        raise unknown("kind of vectors", only, KEPT_TO)
    here = target()
    if here is not None and here.lanes < int(KEPT_TO[only]["FEDROAM_VECTOR"]):
        raise InputError(f"--only {only}: this processor ({here.name}) has no such vectors")
    words = [word for name, value in given.items() if value is not None for word in (name, str(value))]
    asked = [sys.executable, "-m", "fedroam", "bench", *workloads, *words]
    raise typer.Exit(subprocess.run(asked, env=os.environ | KEPT_TO[only], check=False).returncode)
