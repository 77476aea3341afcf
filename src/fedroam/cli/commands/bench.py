"""`fedroam bench`: how fast this machine trains, mixes and evaluates, as ratios against a plain loop."""

from __future__ import annotations

from typing import Annotated

import typer

from fedroam.cli import options
from fedroam.cli.console import out
from fedroam.cli.outputs import check_spares


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
) -> None:
    """Measure speed: training, mixing and evaluation against a plain loop in the same run, the overhead, and a round of
    every method with a server.

    Trust the ratios, not the times; let nothing else run meanwhile.
    """
    from fedroam import bench as measuring

    if json is not None:
        check_spares("--json", json)
    measuring.run(workloads or None, repeats, workers=workers, out=json, console=out())
