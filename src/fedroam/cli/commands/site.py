"""`fedroam site`: who speaks with whom on a network, their keys, and what their machines need."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedroam.cli import options
from fedroam.cli.console import say, writing
from fedroam.errors import InputError

if TYPE_CHECKING:
    from fedroam.experiment import Experiment

app = typer.Typer(cls=options.Commands, help="Make sites: who speaks with whom, and their keys.")

SiteFolder = Annotated[str, options.operand(metavar="DIR", help="The folder of the site.")]
NodeName = Annotated[str, typer.Argument(metavar="NAME", help="A node, as site.toml names it.")]
Days = Annotated[
    float, typer.Option("--days", metavar="N", help="How long certificates of nodes are valid, from 0.")
]
Relayed = Annotated[
    bool,
    typer.Option(
        "--relayed",
        help="Models go through the server, which stands for peers and access points: for clients that cannot reach "
        "each other.",
    ),
]


@app.command("init")
def site_init(
    folder: SiteFolder,
    experiment: Annotated[
        str, typer.Option("--experiment", metavar="FILE|NAME", help="The experiment that the site is for.")
    ],
    address: Annotated[
        str, typer.Option("--address", metavar="HOST:PORT", help="Where the nodes find the server.")
    ],
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="What the site is called.")] = "site",
    days: Days = 365.0,
    relayed: Relayed = False,
    keys_at_nodes: Annotated[
        bool,
        typer.Option(
            "--keys-at-nodes",
            help="Keys of nodes are made where they stay: site push, or enrol, request and sign.",
        ),
    ] = False,
    movement: Annotated[
        str,
        typer.Option(
            "--movement",
            metavar="BY",
            help="Where devices are: experiment (as it says), answers (at the access point that answers quickest; in "
            "contact with peers that answer), signal (at the one whose Wi-Fi they have joined), discovery (as answers, "
            "of those found on the local network).",
        ),
    ] = "experiment",
    assignments: options.Assignments = None,
    use: options.Use = None,
) -> None:
    """Make a site for an experiment: an authority, and a key and a certificate for the server, every client and every
    access point.

    In a decentralized federation clients are peers, who send their models to each other; in a hierarchical one they
    send them to access points.

    Each node needs site.toml, experiment.toml, the files of your own parts beside it, authority.pem and its own folder
    below nodes/. The key of the authority, authority.key, stays where it is: whoever has it can make nodes.
    """
    from fedroam.deploy.site.file import checked_movement
    from fedroam.deploy.site.founding import found_site

    how = checked_movement({"by": movement}, "--movement")
    where = Path(folder)
    with writing(where):
        meant, own = single(experiment, assignments, use)
        site = found_site(
            where,
            meant,
            address=address,
            name=name,
            days=_days(days),
            relayed=relayed,
            keys_at_nodes=keys_at_nodes,
            movement=how,
            use=own,
        )
    counts = Counter(node.role.replace("_", " ") for node in site.nodes if node.role != "server")
    others = " and ".join(f"{number} {role}{'s' * (number > 1)}" for role, number in sorted(counts.items()))
    say(f"site {site.name}: a server, {others} in {where}")
    say(f"the server: fedroam deploy --site {where / 'site.toml'}")
    if keys_at_nodes:
        say(f"a node:     fedroam site push {where} {site.clients[0].name} USER@HOST has its key made there")
    else:
        say(f"a node:     fedroam node --site {where / 'site.toml'} --name {site.clients[0].name}")


@app.command("revoke")
def site_revoke(folder: SiteFolder, name: NodeName) -> None:
    """Take a node's certificate out of use; a server that runs with this site.toml acts on it at once."""
    from fedroam.deploy.site.identity import revoke

    with writing(folder):
        revoke(Path(folder), name)
    others = _others(Path(folder), name)
    say(f"{name}: revoked; a server that runs with this site.toml acts on it at once{others}")


@app.command("renew")
def site_renew(folder: SiteFolder, name: NodeName, days: Days = 365.0) -> None:
    """Give a node a new key and certificate; the old ones are out of use, in every copy of site.toml that is replaced
    by the new one.
    """
    from fedroam.deploy.site.identity import renew

    with writing(folder):
        renew(Path(folder), name, _days(days))
    home = Path(folder) / "nodes" / name
    say(
        f"{name}: has a new certificate in {home}; bring it and site.toml there, and begin its process anew"
        f"{_others(Path(folder), name)}"
    )


@app.command("enrol")
def site_enrol(
    folder: SiteFolder,
    name: NodeName,
    hours: Annotated[
        float, typer.Option("--hours", metavar="N", help="How long its ticket is good, from 0.")
    ] = 24.0,
) -> None:
    """Let a node enrol with a key that it makes itself: a ticket for it, good once, to be brought to it.

    There, fedroam site request makes the key and a request; here, fedroam site sign gives it a certificate.
    """
    from fedroam.deploy.site.enrolling import allow

    if not 0 < hours <= 8760:
        raise InputError(f"--hours {hours:g}: allowed are more than 0 to 8760")
    with writing(folder):
        ticket = allow(Path(folder), name, hours)
    say(f"{name}: bring it {ticket}, into nodes/{name} of its own folder, and keep it from others")


@app.command("request")
def site_request(folder: SiteFolder, name: NodeName) -> None:
    """Make a node's key, on the machine where it stays, and a request for its certificate, by the ticket in nodes/NAME.

    The request is for whoever has the site, and no secret; fedroam site sign answers it.
    """
    from fedroam.deploy.site.enrolling import request_certificate

    with writing(folder):
        request = request_certificate(Path(folder), name)
    say(f"{name}: has made its key; bring {request} to where the site is")


@app.command("sign")
def site_sign(
    folder: SiteFolder,
    name: NodeName,
    request: Annotated[str, options.operand(metavar="REQUEST", help="The request that it has made.")],
    days: Days = 365.0,
) -> None:
    """Give a node the certificate that it asks for. What it is, site.toml says, and nothing that is in the request.

    A request is good once, for the node that has the ticket, and as long as the ticket is.
    """
    from fedroam.deploy.site.enrolling import sign

    with writing(folder):
        sign(Path(folder), name, Path(request), _days(days))
    say(
        f"{name}: has a certificate in {Path(folder) / 'nodes' / name}; bring it and site.toml to the nodes: "
        f"fedroam site push, or by hand"
    )


@app.command("push")
def site_push(
    folder: SiteFolder,
    name: NodeName,
    host: Annotated[str, typer.Argument(metavar="[USER@]HOST", help="The node's machine, as ssh takes it.")],
    to: Annotated[
        str, typer.Option("--to", metavar="DIR", help="Where its files go there.")
    ] = "/etc/fedroam",
    keep_key: Annotated[
        bool, typer.Option("--keep-key", help="A node's key that was made here stays here, too.")
    ] = False,
    new_key: Annotated[
        bool, typer.Option("--new-key", help="The node makes another key, there; so does one that has none.")
    ] = False,
    program: Annotated[
        str, typer.Option("--program", metavar="PATH", help="The fedroam there, which makes the key.")
    ] = "/opt/fedroam/current/bin/fedroam",
    days: Days = 365.0,
) -> None:
    """Bring a node its files, over ssh. A node without a certificate makes its key there, which never leaves it.

    A key that was made here goes along, and is deleted here, so that nobody but the node has it. A node that has its
    key already gets the rest: site.toml, for one, after a node was revoked or enrolled.
    """
    from fedroam.deploy.site.push import push

    with writing(folder):
        key = push(
            Path(folder),
            name,
            host,
            to,
            keep_key=keep_key,
            new_key=new_key,
            program=program,
            days=_days(days),
        )
    said = {
        "made there": "has made its key, and has its files",
        "brought": "has its key and its files",
        "there before": "had its key, and has its files",
    }[key]
    say(f"{name}: {said} at {host}:{to}")


@app.command("units")
def site_units(folder: SiteFolder) -> None:
    """Write systemd units, a container file, and the list of what a device installs, into units/ of the site."""
    from fedroam.deploy.site.units import write_units

    with writing(folder):
        found = write_units(Path(folder))
    for path in found:
        say(str(path))


def single(
    source: str, assignments: list[str] | None, use: list[str] | None
) -> tuple[Experiment, tuple[str, ...]]:
    """The one run that is meant, and the files of the user's own parts: those that its file names, too. Raises
    InputError where there are several."""
    from fedroam.planning import plan

    found = plan(source, assignments=assignments or [], use=use or ())
    runs = found.runs
    if len(runs) > 1:
        raise InputError(
            f"{source}: {len(runs)} runs (variants, seeds): a network carries one; choose it by --set, "
            "from a file without variants and seeds"
        )
    return runs[0].experiment, found.use


def _others(folder: Path, name: str) -> str:
    """Who else has to get `site.toml`, where what becomes of a node is to be known to them, in words."""
    from fedroam.deploy.site.file import FILE, KEY, NODES, read_site

    site = read_site(folder / FILE)
    known = site.acquainted(site.named(name))
    here = (folder / NODES / site.server.name / KEY).exists()  # its key: where it is the server is, too
    names = {
        "the server" if each.role == "server" else f"{each.role.replace('_', ' ')}s": None
        for each in known
        if each.role != "server" or not here
    }
    return f"; site.toml has to be brought to {' and '.join(names)}, too: fedroam site push" if names else ""


def _days(days: float) -> float:
    if not 0 < days <= 36_500:
        raise InputError(f"--days {days:g}: allowed are more than 0 to 36500")
    return days
