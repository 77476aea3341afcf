"""Tables of the study of contact limits."""

from __future__ import annotations

from fedroam.papers.contact_limits.measures import fit
from fedroam.papers.contact_limits.runs import (
    DENSER,
    HIERARCHIES,
    HIERARCHY_TIMES,
    INSTANT,
    METHOD_LABELS,
    PATTERNS,
    RADII,
    RANKING_TIMES,
    SENDING,
    SPEEDS,
    TIMES,
    TRACE_LABELS,
    TRACE_TIMES,
    on_trace,
    regime,
    steered,
    under_access_points,
    walk,
    walk_shared,
)
from fedroam.papers.steered_variants import LABELS
from fedroam.study.items import table
from fedroam.study.measures import final, later_half
from fedroam.study.values import Measure

MEETINGS = {f"{speed}, {radius:g} m": (speed, radius) for speed in SPEEDS for radius in RADII}
_TIMED = tuple(time for time in TIMES if time != INSTANT)


def _by_time(measures: tuple[Measure, ...], times: tuple[float, ...]) -> dict[str, tuple[Measure, float]]:
    """A column for each measure and time, but for what gets through where all does."""
    return {
        f"{measure.name}, {regime(time)}": (measure, time)
        for measure in measures
        for time in times
        if (measure, time) != (fit, INSTANT)
    }


FITS = table(
    "fits",
    "Transfers that get through on the walk (%)",
    MEETINGS,
    {regime(time): time for time in _TIMED},
    lambda meeting, time: fit.of(walk(time, *meeting)),
    caption="By how fast walkers are and how far they reach; columns: how long a model takes.",
)
ACCURACY = table(
    "accuracy",
    "Final accuracy on the walk (%)",
    MEETINGS,
    {regime(time): time for time in TIMES},
    lambda meeting, time: final.of(walk(time, *meeting)),
    caption="Decentralized learning among those whose two models both got through.",
)
METHODS = table(
    "methods",
    "Which method wins (%)",
    {label: method for method, label in METHOD_LABELS.items()},
    {regime(time): time for time in TIMES},
    lambda method, time: final.of(walk(time, "fast", method=method)),
    caption="Final accuracy, fast walkers with a reach of 50 m. A server is reached anywhere, at the same rate.",
)
VEHICLES = table(
    "vehicles",
    "Vehicles that meet (%)",
    {label: trace for trace, label in TRACE_LABELS.items()},
    _by_time((fit, final), TRACE_TIMES),
    lambda trace, column: column[0].of(on_trace(trace, column[1])),
)
RANKINGS = table(
    "rankings",
    "Do rankings survive? (%)",
    {LABELS[pattern]: pattern for pattern in PATTERNS},
    {regime(time): time for time in RANKING_TIMES},
    lambda pattern, time: later_half.of(steered(pattern, time)),
    caption="Accuracy over the later half of the run, five of 20 move; rounds of 60 s.",
)
HIERARCHICAL = table(
    "hierarchical",
    "MOHAWK and HierFAVG under access points (%)",
    {label: method for method, label in HIERARCHIES.items()},
    _by_time((later_half, fit), HIERARCHY_TIMES),
    lambda method, column: column[0].of(under_access_points(method, column[1])),
    caption="Taxis, 60 access points with a reach of 600 m, rounds of 300 s.",
)
_AIR = {"free": lambda reach: walk(SENDING, "fast", reach), "shared": walk_shared}
CONTENTION = table(
    "contention",
    "When all share the air (%)",
    {f"{reach:g} m": reach for reach in DENSER},
    {f"{measure.name}, {air} air": (measure, air) for measure in (fit, final) for air in _AIR},
    lambda reach, column: column[0].of(_AIR[column[1]](reach)),
    caption="Fast walkers by how far they reach; a model takes 2 s alone.",
)
TABLES = (FITS, ACCURACY, METHODS, VEHICLES, RANKINGS, HIERARCHICAL, CONTENTION)
