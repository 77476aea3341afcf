"""Tables of the study of contact limits."""

from __future__ import annotations

from fedroam.papers.contact_limits.measures import fit
from fedroam.papers.contact_limits.runs import (
    BEYOND,
    BROKEN,
    DENSER,
    HIDDEN,
    HIERARCHIES,
    HIERARCHY_TIMES,
    INSTANT,
    LARGER,
    METHOD_LABELS,
    PATTERNS,
    RADII,
    RANKING_TIMES,
    REGIMES,
    SENDING,
    SMALLER,
    SPEEDS,
    TIMES,
    TRACE_LABELS,
    TRACE_REGIMES,
    TRACE_TIMES,
    bytes_of,
    on_trace,
    regime,
    roam,
    steered,
    under_access_points,
    walk,
    walk_shared,
)
from fedroam.papers.contact_limits.winners import ALONE, SERVERS, method
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


WAYPOINT_FITS = table(
    "waypoint-fits",
    "Transfers that get through on random waypoint (%)",
    MEETINGS,
    {regime(time): time for time in _TIMED},
    lambda meeting, time: fit.of(roam(time, *meeting)),
    caption="By how fast clients are and how far they reach; columns: how long a model takes.",
)
WAYPOINT_ACCURACY = table(
    "waypoint-accuracy",
    "Accuracy on random waypoint (%)",
    MEETINGS,
    {regime(time): time for time in TIMES},
    lambda meeting, time: later_half.of(roam(time, *meeting)),
    caption="Over the later half of the run; decentralized learning among those whose two models both got through.",
)
COMPARED = {
    **{METHOD_LABELS[server]: server for server in SERVERS},
    **{f"Decentralized: {words}": broken for broken, words in BROKEN.items()},
    METHOD_LABELS[ALONE]: ALONE,
}
WINNERS = table(
    "winners",
    "Which method wins where (%)",
    COMPARED,
    {f"{words}: {regime(time)}": time for words, time in {**REGIMES, "beyond a round": BEYOND}.items()},
    lambda name, time: later_half.of(method(name, time)),
    caption="Accuracy over the later half of the run, fast clients on random waypoint with a reach of 50 m. Columns: "
    "how many models get through, and how long one takes. A server is reached anywhere, at the same rate.",
)
SIZES = table(
    "sizes",
    "Networks of three sizes at one rate (%)",
    {f"{hidden} hidden units, {bytes_of(hidden):,} bytes": hidden for hidden in (SMALLER, HIDDEN, LARGER)},
    {
        f"{measure.name}, {words}": (measure, time)
        for measure, words, time in (
            (later_half, "no time", INSTANT),
            (later_half, "one rate", REGIMES["some"]),
            (fit, "one rate", REGIMES["some"]),
        )
    },
    lambda hidden, column: column[0].of(roam(column[1], hidden=hidden)),
    caption=f"Fast clients on random waypoint, 50 m. At one rate that of {HIDDEN} units takes "
    f"{regime(REGIMES['some'])}.",
)
FITS = table(
    "fits",
    "Transfers that get through on straight walks (%)",
    MEETINGS,
    {regime(time): time for time in _TIMED},
    lambda meeting, time: fit.of(walk(time, *meeting)),
    caption="By how fast walkers are and how far they reach; columns: how long a model takes.",
)
ACCURACY = table(
    "accuracy",
    "Final accuracy on straight walks (%)",
    MEETINGS,
    {regime(time): time for time in TIMES},
    lambda meeting, time: final.of(walk(time, *meeting)),
    caption="Decentralized learning among those whose two models both got through.",
)
METHODS = table(
    "methods",
    "Which method wins on straight walks (%)",
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
VEHICLE_WINNERS = table(
    "vehicle-winners",
    "Which method wins among vehicles (%)",
    COMPARED,
    {
        f"{label}: {regime(time)}": (trace, time)
        for trace, label in TRACE_LABELS.items()
        for time in TRACE_REGIMES[trace].values()
    },
    lambda name, column: later_half.of(on_trace(*column, name)),
    caption="Accuracy over the later half of the run. A server is reached anywhere, at the same rate; at the longest "
    "time of each trace, down and up take it more than a round.",
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
    caption="Fast walkers (straight) by how far they reach; a model takes 2 s alone.",
)
WAYPOINT_CONTENTION = table(
    "waypoint-contention",
    "When all share the air on random waypoint (%)",
    {f"{reach:g} m": reach for reach in DENSER},
    {
        f"{measure.name}, {air} air": (measure, air == "shared")
        for measure in (fit, later_half)
        for air in _AIR
    },
    lambda reach, column: column[0].of(roam(SENDING, radius=reach, shared=column[1])),
    caption="Fast clients by how far they reach; a model takes 2 s alone.",
)
TABLES = (
    WAYPOINT_FITS,
    WAYPOINT_ACCURACY,
    WINNERS,
    SIZES,
    WAYPOINT_CONTENTION,
    VEHICLES,
    VEHICLE_WINNERS,
    RANKINGS,
    HIERARCHICAL,
    FITS,
    ACCURACY,
    METHODS,
    CONTENTION,
)
