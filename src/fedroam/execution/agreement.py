"""Whether the machines of a cluster compute what this one would: what is installed on each, and its vectors."""

from __future__ import annotations

import functools
import platform
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy
import torch

from fedroam.errors import InputError
from fedroam.native import sources, target


@dataclass(frozen=True)
class Installed:
    """What decides the numbers that a process computes.

    node: its machine, in words. versions: of what every machine must have the same, by name. details: what may change
    the last digits, by name.
    """

    node: str
    versions: dict[str, str]
    details: dict[str, str]


def installed() -> Installed:
    """Of this process."""
    return Installed(node_in_words(), versions(), details())


def node_in_words() -> str:
    """This machine in words: its own name and, in a cluster, its address there."""
    name, ray = socket.gethostname(), sys.modules.get("ray")  # whoever is in a cluster has loaded it
    if ray is None or not ray.is_initialized():
        return name
    return f"{name} ({ray.util.get_node_ip_address()})"


def versions() -> dict[str, str]:
    """What every machine must have the same, in words, by name."""
    return {
        "fedroam": str(vars(sys.modules["fedroam"])["__version__"]),  # a room imports no more than rooms
        "torch": str(torch.__version__),
        "Python": ".".join(platform.python_version_tuple()[:2]),
    }


def details() -> dict[str, str]:
    """What may change the last digits, in words, by name.

    Of a processor it is the widest vectors that torch and our kernels use: whatever its name, they add up in one order.
    """
    cut = target()
    kernels = "no kernels" if cut is None else f"kernels of {cut.lanes} values"
    vectors = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}, {kernels}"
    return {
        "vectors": vectors,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "sources of fedroam": _sources(),
    }


@functools.cache  # as this process has loaded them: what is written there later it does not run
def _sources() -> str:
    return sources(Path(__file__).parents[1])[:8]


def check_versions(here: dict[str, str], there: dict[str, str], node: str) -> None:
    """Raise InputError where a machine has other versions than this one."""
    other = [name for name, version in here.items() if there.get(name) != version]
    if other:
        raise InputError(
            f"node {node} has {_told(there, other)}; this machine has {_told(here, other)}; allowed are the same "
            "versions on all machines of a cluster"
        )


def otherwise(here: Installed, there: Sequence[Installed]) -> dict[str, str]:
    """The machines whose numbers may have other last digits than those of this one, and what they have, in words."""
    found = {}
    for each in there:
        other = [name for name, detail in here.details.items() if each.details.get(name) != detail]
        if other:
            found[each.node] = f"{_told(each.details, other)} (here {_told(here.details, other)})"
    return found


def _told(facts: dict[str, str], names: Sequence[str]) -> str:
    return ", ".join(f"{name} {facts.get(name, 'unknown')}" for name in names)
