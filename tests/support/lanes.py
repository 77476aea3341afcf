"""Kernels as this machine has them, and as narrower ones would."""

from __future__ import annotations

from fedroam.native import target
from fedroam.native.target import Target, narrowed

WIDTHS = (4, 8, 16)  # values of a vector


def here() -> Target:
    """What kernels are compiled for on this machine, which has them."""
    found = target()
    assert found is not None
    return found


def of_lanes(lanes: int) -> Target:
    """The same with vectors of so many values, of which this machine has at least as many."""
    return here() if lanes == here().lanes else narrowed(here(), lanes)


def lanes_here() -> list[int]:
    """How many values a vector may have here."""
    return [lanes for lanes in WIDTHS if lanes <= here().lanes]
