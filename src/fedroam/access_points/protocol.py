"""What a part of the family `access_points` promises."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from fedroam.checks.answers import as_array, found_as
from fedroam.components import Part, answer_of, ours
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


def places_of(part: AccessPoints, mobility: Mobility, seed: int) -> np.ndarray:
    """Where the access points of a part stand, as `AccessPoints.places`; those of one's own are held against that.

    Raises InputError where they are something else.
    """
    found = part.places(mobility, seed)
    if ours(part):
        return found
    with answer_of("access_points", part):
        return _checked_places(found)


def _checked_places(found: Any) -> np.ndarray:
    """The places that a part gave, as they are to be."""
    places = as_array(found)
    if places.ndim != 2 or places.shape[1] != 2 or places.dtype.kind not in "iuf":
        raise InputError(
            f"places gave {found_as(found)}; allowed is an x and a y of each, float64 [any number, 2]"
        )
    wrong = np.flatnonzero(~np.isfinite(places).all(axis=1))
    if len(wrong):
        x, y = places[wrong[0]]
        raise InputError(f"access point {wrong[0]} is at ({x:g}, {y:g}), allowed are finite numbers, m")
    return places.astype(np.float64)


def _checked_ranges(found: Any, count: int) -> np.ndarray:
    """The ranges that a part gave for so many access points, as they are to be."""
    ranges = as_array(found)
    if ranges.shape != (count,) or ranges.dtype.kind not in "iuf":
        raise InputError(
            f"ranges gave {found_as(found)}; allowed is one of each access point, float64 [{count}]"
        )
    wrong = np.flatnonzero(~(ranges > 0))
    if len(wrong):
        k = int(wrong[0])
        raise InputError(f"access point {k} reaches {ranges[k]:g} m, allowed is more than 0 m, or inf")
    return ranges.astype(np.float64)


RANGE = "how far each reaches; a device out of every range is out of service; not set: everywhere"


def ranges_of(part: AccessPoints, mobility: Mobility, seed: int) -> np.ndarray | None:
    """How far each access point of a part reaches, float64 [access points], metres; None where all reach everywhere.

    Raises InputError, of a part that does not come with fedroam, where it gives something else.
    """
    found = part.ranges(mobility, seed) if isinstance(part, KnowsRanges) else None
    if found is not None and not ours(part):
        with answer_of("access_points", part):
            found = _checked_ranges(found, len(part.places(mobility, seed)))
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
