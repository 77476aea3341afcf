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


def drawn(points: np.ndarray, number: int, seed: int, owner: str, source: str) -> np.ndarray:
    """`number` of these points (float64 [points, 2]), drawn without replacement; in the order of the draw.

    Raises InputError, in the name of the setting `owner`, where there are fewer.
    """
    if number > len(points):
        raise InputError(f"{owner} = {number}: allowed is up to {len(points)}, as many as {source}")
    return points[stream(seed, "access points").permutation(len(points))[:number]]


def kind_of(mobility: Mobility) -> str:
    """What messages call a mobility pattern: its kind, or its class where it is not registered."""
    return mobility.kind if isinstance(mobility, Part) else type(mobility).__name__
