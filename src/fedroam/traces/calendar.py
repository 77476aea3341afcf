"""Whether movement and availability go by the same time, where both know what time it is."""

from __future__ import annotations

import datetime
from typing import NamedTuple, Protocol, runtime_checkable

from fedroam.errors import InputError

SAME = 1e-3  # s by which begins may differ that are one moment: seconds since 1970 are no exact sums


class Calendar(NamedTuple):
    """begin: where round 0 begins, s since 1970 UTC. interval: how much time a round covers, s."""

    begin: float
    interval: float


@runtime_checkable
class KnowsCalendar(Protocol):
    """A mobility pattern or an activity that replays what happened at some time."""

    def calendar(self) -> Calendar | None:
        """When its rounds are; None by a clock of its own."""


def check_intervals(mobility: object, activity: object) -> None:
    """Raise InputError where a round covers more time of the one than of the other."""
    known = _both(mobility, activity)
    if known is not None and known[0].interval != known[1].interval:
        moving, on = known
        raise InputError(
            f"mobility.interval = {moving.interval:g} and activity.interval = {on.interval:g}: a round would cover "
            "other times of the trace than of the log; allowed is the same for both"
        )


def begins_apart(mobility: object, activity: object) -> str:
    """The sentence on rounds of the one that are at other times than those of the other; empty where they are not."""
    known = _both(mobility, activity)
    if known is None or abs(known[0].begin - known[1].begin) <= SAME:
        return ""
    moving, on = (_iso(each.begin) for each in known)
    return (
        f"round 0 begins at {moving} for movement and at {on} for availability: mobility.begin and activity.begin "
        "say when"
    )


def _both(mobility: object, activity: object) -> tuple[Calendar, Calendar] | None:
    """The calendars of the two; None where one of them has none."""
    moving = mobility.calendar() if isinstance(mobility, KnowsCalendar) else None
    on = activity.calendar() if isinstance(activity, KnowsCalendar) else None
    return None if moving is None or on is None else (moving, on)


def _iso(time: float) -> str:
    """Seconds since 1970 as ISO 8601, UTC."""
    try:
        told = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=time)
    except OverflowError:  # before year 1, or after year 9999
        return f"{time:.15g} s since 1970"
    return f"{told.isoformat()}Z"
