"""Making a site: its authority, its nodes, and the file that says who they are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import tomli_w

from fedroam.access_points import places_of
from fedroam.deploy.site.experiment import check_begins, check_fits, check_movement
from fedroam.deploy.site.file import (
    EXPERIMENT,
    OWN_PART,
    Limits,
    Movement,
    Site,
    checked_site,
)
from fedroam.deploy.site.identity import DAYS, enrol, make_authority
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.facts import read_text
from fedroam.federation import AggregatesAtHolders
from fedroam.parts import Parts
from fedroam.writing import write_text


def found_site(
    folder: Path,
    experiment: Experiment,
    *,
    address: str,
    name: str = "site",
    days: float = DAYS,
    limits: Limits | None = None,
    relayed: bool = False,
    keys_at_nodes: bool = False,
    listening: str = "",
    paced: bool = False,
    movement: Movement | None = None,
    use: Sequence[str] = (),
) -> Site:
    """Make a site for an experiment in an empty folder: a server, and a node for each client and access point.

    Each gets a key and a certificate; keys_at_nodes: the server alone does, and the others enrol later, with keys that
    they make themselves (`fedroam.deploy.site.enrolling`).

    Where clients or access points aggregate, models go between them; relayed: through the server instead, which stands
    for them. listening: where peers and access points listen (host:port, by default everywhere at any port). paced:
    nodes will take the time that a clock of seconds says. movement: how devices find out where they are, if they do.
    use: files with the user's own parts, which are copied into the site, whose experiment names them.

    Raises InputError where the folder is not empty, or the experiment cannot be run on a network.
    """
    check_fits(experiment, paced=paced)
    check_begins(experiment)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: is not empty; allowed is a new folder")
    wide = max(2, len(str(experiment.clients - 1)))
    parts = Parts.of(experiment)
    rule, places, role = parts.federation, 0, "client"
    if isinstance(rule, AggregatesAtHolders) and not relayed:
        if rule.holders == "clients":
            role = "peer"
        else:
            places = len(places_of(parts.access_points, parts.mobility, experiment.seed))
    drafts: list[dict[str, object]] = [{"name": "server", "role": "server"}]
    drafts += [
        {
            "name": f"access-point-{a:0{max(2, len(str(places - 1)))}d}",
            "role": "access_point",
            "access_point": a,
        }
        for a in range(places)
    ]
    drafts += [{"name": f"{role}-{i:0{wide}d}", "role": role, "client": i} for i in range(experiment.clients)]
    for draft in drafts:
        draft |= {"serial": "", "address": listening if draft["role"] in ("peer", "access_point") else ""}
    site = checked_site(
        {
            "name": name,
            "digest": experiment.digest,
            "address": address,
            "limits": limits or Limits(),
            "movement": movement or Movement(),
            "nodes": drafts,
        },
        "site init",
    )
    check_movement(experiment, site)
    own = _own_parts(use)
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    for part, code in own.items():
        write_text(folder / part, code)
    named = tomli_w.dumps({"use": [*own]}) if own else ""
    write_text(folder / EXPERIMENT, named + experiment.toml())
    make_authority(folder, name)
    for node in site.nodes:
        if node.role == "server" or not keys_at_nodes:
            site = site.changed(enrol(folder, name, node, days))
    site.write(folder)
    return site


def _own_parts(use: Sequence[str]) -> dict[str, str]:
    """The text of files with the user's own parts, by the name that each has in the site. Raises InputError where that
    is none."""
    found: dict[str, str] = {}
    for file in use:
        name = Path(file).name
        if not re.fullmatch(OWN_PART, name):
            raise InputError(
                f"{file}: is brought to nodes by its name; allowed in it are letters, digits, '_' and '-', before .py"
            )
        if name in found:
            raise InputError(
                f"{file}: another file of your own parts is called {name!r}; give it another name"
            )
        try:
            found[name] = read_text(Path(file))
        except OSError as error:
            raise InputError(f"{file}: cannot be read ({error.strerror or error})") from None
    return found
