"""`fedroam data`: who holds what, and downloads."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from fedroam.cli import options
from fedroam.cli.console import say

app = typer.Typer(
    cls=options.Commands, help="Data sets: who holds what, and downloads.", no_args_is_help=False
)


@app.command("fetch")
def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A public data set, e.g. mnist.")],
    root: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Where to put it: DIR/NAME. [default: the user's cache folder]"),
    ] = None,
    debug: options.Debug = False,
) -> None:
    """Download a public data set, with its checksums verified."""
    from fedroam.data.fetching import fetch as download

    say(f"data: {download(name, root, progress=sys.stderr.isatty())}")
