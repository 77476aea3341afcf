"""Making a site: its authority, its nodes, and the file that says who they are."""

from __future__ import annotations

from pathlib import Path

from fedroam.deploy.identity import enrol, make_authority
from fedroam.deploy.serving import check_fits
from fedroam.deploy.site import EXPERIMENT, FILE, Limits, Node, Site, checked_site, read_site
from fedroam.errors import InputError, unknown
from fedroam.experiment import Experiment
from fedroam.writing import write_aside

DAYS = 365.0


def found_site(
    folder: Path,
    experiment: Experiment,
    *,
    address: str,
    name: str = "site",
    days: float = DAYS,
    limits: Limits | None = None,
) -> Site:
    """Make a site for an experiment in an empty folder: a server, and a node for each client.

    Raises InputError where the folder is not empty, or the experiment cannot be run on a network.
    """
    check_fits(experiment)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: is not empty; allowed is a new folder")
    wide = max(2, len(str(experiment.clients - 1)))
    drafts = [Node(name="server", role="server", serial="00")]
    drafts += [
        Node(name=f"client-{i:0{wide}d}", role="client", client=i, serial="00")
        for i in range(experiment.clients)
    ]
    site = checked_site(
        {
            "name": name,
            "digest": experiment.digest,
            "address": address,
            "limits": limits or Limits(),
            "nodes": drafts,
        },
        "site init",
    )
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    text = experiment.toml()
    write_aside(folder / EXPERIMENT, lambda aside: aside.write_text(text, encoding="utf-8"))
    make_authority(folder, name)
    site = site.model_copy(update={"nodes": tuple(enrol(folder, name, draft, days) for draft in drafts)})
    site.write(folder)
    return site


def revoke(folder: Path, name: str) -> None:
    """From now on a node's certificate is good for nothing, also at a server that runs. Raises InputError where the
    site has no such node."""
    site = read_site(folder / FILE)
    site.changed(_named(site, name).model_copy(update={"revoked": True})).write(folder)


def renew(folder: Path, name: str, days: float = DAYS) -> None:
    """Give a node a new key and certificate; the old ones are good for nothing. Raises InputError where the site has
    no such node, or the authority's key is not here."""
    site = read_site(folder / FILE)
    site.changed(enrol(folder, site.name, _named(site, name), days)).write(folder)


def _named(site: Site, name: str) -> Node:
    node = site.node(name)
    if node is None:
        raise unknown("node", name, [each.name for each in site.nodes])
    return node
