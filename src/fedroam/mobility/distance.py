"""Whether places are within a distance, decided as if there were no rounding but that of the result."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

# np.hypot is off by one unit in the last place or two, never by so much
_DOUBT = 4 * np.finfo(np.float64).eps
_WHOLE = 2.0**25  # up to which whole numbers are decided by their squares


def within_reach(dx: np.ndarray, dy: np.ndarray, reach: float) -> np.ndarray:
    """Whether the correctly rounded length of each vector (dx, dy) is at most `reach`, inclusive; bool.

    dx, dy: float64 of shapes that broadcast; reach: of the same unit, at least 0, inf for always. So a reach that is
    a distance to the last bit, such as math.sqrt(17**2 + 27**2), includes it. `np.hypot` alone decides 17 offsets of
    whole numbers up to 100 otherwise; where it is in doubt, exact fractions decide.
    """
    length = np.asarray(np.hypot(dx, dy))
    found = np.asarray(length <= reach)
    if not 0 < reach < math.inf:
        return found
    doubtful = np.abs(length - reach) <= _DOUBT * reach
    if not doubtful.any():
        return found
    x, y = (np.broadcast_to(np.abs(values), length.shape)[doubtful] for values in (dx, dy))
    if (
        float(reach).is_integer()
        and max(reach, x.max(), y.max()) <= _WHOLE
        and not (x % 1).any()
        and not (y % 1).any()
    ):
        # Of whole numbers the squares are exact, and another one is far beyond any rounding.
        found = np.array(found)
        found[doubtful] = x * x + y * y <= reach * reach
        return found
    pairs, place = np.unique(np.stack([x, y], axis=-1), axis=0, return_inverse=True)
    exact = np.array([_at_most(float(a), float(b), reach) for a, b in pairs])
    found = np.array(found)
    found[doubtful] = exact[place.reshape(-1)]
    return found


def _at_most(x: float, y: float, reach: float) -> bool:
    """Whether sqrt(x^2 + y^2), rounded to the nearest float64 (a tie to the even one), is at most `reach`."""
    square = Fraction(x) ** 2 + Fraction(y) ** 2
    middle = (Fraction(reach) + Fraction(math.nextafter(reach, math.inf))) / 2
    even = int(np.float64(reach).view(np.uint64)) % 2 == 0
    return square <= middle**2 if even else square < middle**2
