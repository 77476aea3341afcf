"""Access points at places that people visit."""

from __future__ import annotations

import numpy as np

from fedroam.access_points.protocol import MOST, RANGE, drawn, everywhere, kind_of
from fedroam.components import Part, field, register
from fedroam.errors import InputError
from fedroam.mobility import KnowsPlaces, Mobility


@register("access_points", "points_of_interest", source="Farcas et al., Sec. 4.1 (100 random ones of 37,994)")
class PointsOfInterest(Part):
    """Access points drawn at random among the points of interest that the mobility model knows.

    The mobility model `trace` knows the venues of its trace that lie within the bounds of the selected fixes; where a
    trace names no venues, every distinct place of a selected fix counts as one. The points of interest of another file
    are drawn by the kind `file`.
    """

    number: int = field(100, "number of access points", ge=1, le=MOST)
    range: float | None = field(None, RANGE, unit="m", gt=0)

    def places(self, mobility: Mobility, seed: int) -> np.ndarray:
        """A draw of the points of interest."""
        if not isinstance(mobility, KnowsPlaces):
            raise InputError(
                f"access_points.kind = 'points_of_interest': mobility {kind_of(mobility)!r} knows no points of "
                "interest; allowed here are 'file', 'grid' and 'uniform'"
            )
        return drawn(
            mobility.points_of_interest(),
            self.number,
            seed,
            "access_points.number",
            "the mobility model knows",
        )

    def ranges(self, mobility: Mobility, seed: int) -> np.ndarray:
        """The same for all."""
        return everywhere(self.number, self.range)
