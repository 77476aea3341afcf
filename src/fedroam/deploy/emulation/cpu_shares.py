"""Shares of a processor's core for nodes that stand for slower devices: a cgroup each, of either version."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from fedroam.devices import seconds_of
from fedroam.experiment import Experiment
from fedroam.parts import Parts

ONE, TWO = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
JOIN = "cgroup.procs"
PERIOD, LEAST = 100_000, 1_000  # microseconds: of the scheduler, and the least that a group may have of them
NONE = "no cgroup of the processor can be made here: all nodes are as fast as this machine lets them be"


def shares_of(experiment: Experiment) -> dict[int, float]:
    """The speed of each client's device, as a share of the fastest one's; nothing of those that are as fast."""
    clients = np.arange(experiment.clients)
    seconds = seconds_of(
        Parts.of(experiment).compute, experiment.seed, clients, np.ones(len(clients), np.int64), 1e9
    )
    if not seconds.min() > 0:  # work takes no time
        return {}
    shares = seconds.min() / seconds
    return {i: float(shares[i]) for i in clients.tolist() if shares[i] < 1}


def roots() -> list[Path]:
    """Where groups of the processor are made; none where there is no such place."""
    if (ONE / "cpu.cfs_quota_us").exists() or (ONE / "cpu.shares").exists():
        return [ONE]
    with contextlib.suppress(OSError):
        if "cpu" in (TWO / "cgroup.controllers").read_text(encoding="ascii").split():
            return [TWO]
    return []


def made(name: str, shares: Mapping[str, float], tell: Callable[[str], None]) -> dict[str, Path]:
    """A group for each node (by name) that has a share of a core, below one of this name."""
    if not shares:
        return {}
    try:
        (root,) = roots()
        group = root / name
        group.mkdir()
        if root == TWO:
            for each in (root, group):
                (each / "cgroup.subtree_control").write_text("+cpu", encoding="ascii")
        found = {}
        for node, share in shares.items():
            own = group / node
            own.mkdir()
            quota = max(LEAST, round(share * PERIOD))
            if root == TWO:
                (own / "cpu.max").write_text(f"{quota} {PERIOD}", encoding="ascii")
            else:
                (own / "cpu.cfs_period_us").write_text(str(PERIOD), encoding="ascii")
                (own / "cpu.cfs_quota_us").write_text(str(quota), encoding="ascii")
            found[node] = own
    except (OSError, ValueError):
        remove(name)
        tell(NONE)
        return {}
    return found


def remove(name: str) -> None:
    """Remove the groups of this name; one in which a process still is stays."""
    for root in roots():
        group = root / name
        if group.is_dir():
            for own in [*(each for each in group.iterdir() if each.is_dir()), group]:
                with contextlib.suppress(OSError):
                    own.rmdir()
