"""What a part of the family `access_points` promises."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from fedroam.components import Part
from fedroam.errors import InputError
from fedroam.mobility import Mobility
from fedroam.randomness import stream

MOST = 100_000  # access points of a world


@runtime_checkable
class AccessPoints(Protocol):
    """Where the access points of a run stand. They do not move."""

    def places(self, mobility: Mobility, seed: int) -> np.ndarray:
        """Their places, float64 [access points, 2], metres, for a run in the world of `mobility`.

        Draws come from the run's stream "access points" alone. Raises InputError where the world does not fit.
        """


@runtime_checkable
class KnowsRanges(Protocol):
    """Access points that do not reach everywhere."""

    def ranges(self, mobility: Mobility, seed: int) -> np.ndarray:
        """How far each of `places` reaches, float64 [access points], metres; inf for everywhere."""


RANGE = "how far each reaches; a device out of every range is out of service; not set: everywhere"


def ranges_of(part: AccessPoints, mobility: Mobility, seed: int) -> np.ndarray | None:
    """How far each access point of a part reaches, float64 [access points], metres; None where all reach everywhere."""
    found = part.ranges(mobility, seed) if isinstance(part, KnowsRanges) else None
    return None if found is None or np.isinf(found).all() else found


def everywhere(number: int, reach: float | None) -> np.ndarray:
    """The same range for a number of access points, float64 [access points], metres; None: everywhere."""
    return np.full(number, np.inf if reach is None else reach)


def drawn(points: np.ndarray, number: int, seed: int, owner: str, source: str) -> np.ndarray:
    """`number` of these points (rows of float64), drawn without replacement; in the order of the draw.

    Raises InputError, in the name of the setting `owner`, where there are fewer.
    """
    if number > len(points):
        raise InputError(f"{owner} = {number}: allowed is up to {len(points)}, as many as {source}")
    return points[stream(seed, "access points").permutation(len(points))[:number]]


def kind_of(mobility: Mobility) -> str:
    """What messages call a mobility pattern: its kind, or its class where it is not registered."""
    return mobility.kind if isinstance(mobility, Part) else type(mobility).__name__
