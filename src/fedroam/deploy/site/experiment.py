"""The experiment of a site, and what of experiments a network can do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedroam.contacts import reach_of
from fedroam.deploy.site.file import EXPERIMENT, FILE, Site
from fedroam.devices import CountsBeside
from fedroam.errors import InputError
from fedroam.experiment import Experiment
from fedroam.federation.hierarchical import Hierarchical
from fedroam.mobility import World, check_limits
from fedroam.parts import Parts
from fedroam.planning import plan


def experiment_of(folder: Path, site: Site, use: Sequence[str] = ()) -> Experiment:
    """The experiment of a site; use: files with the user's own parts.

    Raises InputError where the file is not the one that the site was made for.
    """
    path = folder / EXPERIMENT
    if not path.is_file():
        raise InputError(f"{path}: no such file; the site was made with it")
    (run,) = plan(str(path), use=use).runs
    if run.experiment.digest != site.digest:
        raise InputError(
            f"{path}: is another experiment than the site's (digest {run.experiment.digest[:12]}, {FILE} says "
            f"{site.digest[:12]})"
        )
    return run.experiment


def check_fits(experiment: Experiment, *, paced: bool = False) -> None:
    """Refuse what cannot be done where each sees its own samples alone. paced: nodes take the time that a clock of
    seconds says. Raises InputError."""
    if experiment.device != "cpu":
        raise InputError(f"device = {experiment.device!r}: on a network, allowed is 'cpu'")
    if experiment.execution.kind != "process":
        raise InputError(
            f"execution.kind = {experiment.execution.kind!r}: on a network each node computes its own; allowed is "
            "'process'"
        )
    if experiment.models_at_rest != "float32":
        raise InputError(
            f"models_at_rest = {experiment.models_at_rest!r}: on a network each node holds its own model in float32; "
            "allowed is 'float32'"
        )
    if experiment.clock.kind != "rounds" and not paced:
        raise InputError(
            f"clock.kind = {experiment.clock.kind!r}: a network takes the time that it takes; allowed is 'rounds', or "
            "fedroam emulate --paced"
        )
    if experiment.clock.kind != "rounds":
        _check_clock(experiment)
    if experiment.evaluate_on == "own" and experiment.evaluate_share < 1:
        raise InputError(
            f"evaluate_share = {experiment.evaluate_share:g}: on a network clients are judged on all of their own "
            "samples; allowed with evaluate_on = 'own' is 1"
        )


def check_movement(experiment: Experiment, site: Site) -> None:
    """Refuse a site whose devices are to find out where they are where that says nothing. Raises InputError."""
    by = site.movement.by
    if by == "experiment":
        return
    rule, owner = Parts.of(experiment).federation, f"movement.by = {by!r}"
    if not site.direct:
        raise InputError(
            f"{owner}: all models of this site go through the server; allowed is 'experiment', or a federation with "
            "access points or peers, not relayed"
        )
    if experiment.clock.kind != "rounds":
        raise InputError(f"{owner}: under clock kind {experiment.clock.kind!r}, allowed is 'experiment'")
    peers = any(node.role == "peer" for node in site.nodes)
    if peers and by == "signal":
        raise InputError(f"{owner}: peers have no access points; allowed are 'answers', 'discovery'")
    if isinstance(rule, Hierarchical) and rule.access != "nearest":
        raise InputError(f"{owner}: federation.access = {rule.access!r}; allowed with it is 'nearest'")


def check_begins(experiment: Experiment) -> None:
    """Refuse what could not begin, as far as it can be told where the site is made: its data may lie elsewhere.

    Raises InputError.
    """
    parts = Parts.of(experiment)
    any_classes = np.ones((experiment.clients, 2), dtype=np.int64)
    world = World(
        experiment.seed, experiment.clients, any_classes, reach_of(parts.contacts), experiment.rounds
    )
    for part in (parts.activity, parts.contacts):
        check_limits(part, world)
    parts.mobility.start(world)


def _check_clock(experiment: Experiment) -> None:
    """Refuse what nodes cannot follow of a clock of seconds. Raises InputError."""
    built = Parts.of(experiment)
    for key, found, allowed in (
        ("clock.late", built.clock.late, "dropped"),
        ("link.broken", built.link.broken, "lost"),
        ("battery.kind", experiment.battery.kind, "none"),
        (
            "compute.counts",
            built.compute.counts if isinstance(built.compute, CountsBeside) else "training",
            "training",
        ),
    ):
        if found != allowed:
            raise InputError(f"{key} = {found!r}: on a network that is paced, allowed is {allowed!r}")
