"""`fedroam site push` and `fedroam site units`: a site on machines of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedroam.cli import options
from fedroam.cli.commands.network import NodeName, SiteFolder, app
from fedroam.cli.console import say, writing

__all__ = ["app"]


@app.command("push")
def site_push(
    folder: SiteFolder,
    name: NodeName,
    host: Annotated[str, typer.Argument(metavar="[USER@]HOST", help="The node's machine, as ssh takes it.")],
    to: Annotated[
        str, typer.Option("--to", metavar="DIR", help="Where its files go there.")
    ] = "/etc/fedroam",
    keep_key: Annotated[bool, typer.Option("--keep-key", help="The node's key stays here, too.")] = False,
    debug: options.Debug = False,
) -> None:
    """Bring a node its files and its key, over ssh; then the key is deleted here, and nobody but the node has it.

    A node that has its key already gets the rest: site.toml, for one, after a node was revoked.
    """
    from fedroam.deploy.site.push import push

    with writing(folder):
        key = push(Path(folder), name, host, to, keep_key=keep_key)
    say(f"{name}: has its files{' and its key' if key else ', and had its key'} at {host}:{to}")


@app.command("units")
def site_units(folder: SiteFolder, debug: options.Debug = False) -> None:
    """Write systemd units, a container file, and the list of what a device installs, into units/ of the site."""
    from fedroam.deploy.site.units import write_units

    with writing(folder):
        found = write_units(Path(folder))
    for path in found:
        say(str(path))
