"""What a run ran on, and where its rounds were played: in a simulation, by the nodes of a network, or in part by each.
All of it stands in `environment.json`."""

from __future__ import annotations

import functools
import os
import platform
import re
import sys
from collections.abc import Mapping
from importlib import metadata
from typing import Any

PACKAGES = ("fedroam", "torch", "numpy", "scipy", "pandas", "pyarrow", "scikit-learn", "safetensors")

SIMULATION, NETWORK = "simulation", "network"
WHERE, EARLIER = "where", "earlier"  # of `environment.json`
Stretch = tuple[str, int]  # where rounds were played, and the last one of them


def environment() -> dict[str, Any]:
    """Versions and machine, as JSON values."""
    return {
        "python": sys.version.split()[0],
        "packages": {package: _version(package) for package in PACKAGES},
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
    }


@functools.cache  # what is installed is looked for in many files: once for all runs of a process
def _version(package: str) -> str:
    try:
        found = metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return "not installed"
    # As its header says it, without parsing the description below, which takes ten times as long.
    said = re.search(r"^Version: *(\S+)$", found.read_text("METADATA") or "", re.MULTILINE)
    return said[1] if said else found.version


@functools.cache
def _processor() -> str:
    """The processor's name where the system tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123 (not a user's path)
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def player(facts: Mapping[str, Any]) -> str:
    """Where the last rounds of a run were played, of its `environment.json`."""
    # Networks did not say so by themselves at first.
    network = facts.get(WHERE) == NETWORK or "clients: nodes of a network" in facts.get("computed", ())
    return NETWORK if network else SIMULATION


def stretches(facts: Mapping[str, Any]) -> list[Stretch]:
    """Those before the last one, as they follow one another."""
    return [(each[WHERE], each["round"]) for each in facts.get(EARLIER, ())]


def gone_on(before: Mapping[str, Any], round: int, rounds: int, where: str) -> dict[str, Any]:
    """What `environment.json` says of it, where a run of so many rounds that said `before` goes on after a round.

    Rounds after that one are played again, whoever has played them.
    """
    told, begin = list[Stretch](), 0
    for place, last in [*stretches(before), (player(before), round)]:
        if begin < min(last, round):
            told.append((place, min(last, round)))
        begin = last
    if round >= rounds and told:  # nothing is left to be played
        where = told[-1][0]
    if told and told[-1][0] == where:
        told.pop()
    earlier = [{WHERE: place, "round": last} for place, last in told]
    return {**({WHERE: where} if where != SIMULATION else {}), **({EARLIER: earlier} if earlier else {})}


def in_words(facts: Mapping[str, Any]) -> str:
    """`network`, or `network to round 6, then simulation`."""
    return ", then ".join([*(f"{place} to round {last}" for place, last in stretches(facts)), player(facts)])
