"""Access points placed by rule or by draw, whoever moves in the world."""

from __future__ import annotations

import numpy as np
from pydantic import model_validator

from fedroam.access_points.protocol import MOST, RANGE, everywhere
from fedroam.components import Part, field, register
from fedroam.mobility import Mobility
from fedroam.randomness import stream


@register("access_points", "none")
class NoAccessPoints(Part):
    """There are none."""

    def places(self, mobility: Mobility, seed: int) -> np.ndarray:
        """Nowhere: float64 [0, 2]."""
        return np.zeros((0, 2))


@register("access_points", "grid")
class Grid(Part):
    """One access point in the middle of each of `columns` times `rows` equal cells of the world.

    They are numbered row by row, from the lower left one.
    """

    columns: int = field(10, "cells from left to right", ge=1, le=MOST)
    rows: int = field(10, "cells from bottom to top", ge=1, le=MOST)
    range: float | None = field(None, RANGE, unit="m", gt=0)

    @model_validator(mode="after")
    def _not_too_many(self) -> Grid:
        if self.columns * self.rows > MOST:
            raise ValueError(f"{self.columns} times {self.rows} cells: allowed are up to {MOST} in all")
        return self

    def places(self, mobility: Mobility, seed: int) -> np.ndarray:
        """The middles of the cells."""
        x0, y0, x1, y1 = mobility.bounds()
        x = x0 + (np.arange(self.columns) + 0.5) * ((x1 - x0) / self.columns)
        y = y0 + (np.arange(self.rows) + 0.5) * ((y1 - y0) / self.rows)
        return np.stack([np.tile(x, self.rows), np.repeat(y, self.columns)], axis=1)

    def ranges(self, mobility: Mobility, seed: int) -> np.ndarray:
        """The same for all."""
        return everywhere(self.columns * self.rows, self.range)


@register("access_points", "uniform")
class Uniform(Part):
    """Access points drawn uniformly over the world."""

    number: int = field(100, "number of access points", ge=1, le=MOST)
    range: float | None = field(None, RANGE, unit="m", gt=0)

    def places(self, mobility: Mobility, seed: int) -> np.ndarray:
        """Uniform draws within the bounds."""
        x0, y0, x1, y1 = mobility.bounds()
        draws = stream(seed, "access points").random((self.number, 2))
        return np.asarray(np.array([x0, y0]) + draws * np.array([x1 - x0, y1 - y0]))

    def ranges(self, mobility: Mobility, seed: int) -> np.ndarray:
        """The same for all."""
        return everywhere(self.number, self.range)
