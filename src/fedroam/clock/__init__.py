"""The clock: rounds without a length, or seconds in which to train, meet and send."""

from fedroam.clock import kinds
from fedroam.clock.batteries import Supply
from fedroam.clock.kinds import Clock
from fedroam.clock.schedule import as_kept, check_fits, first_state, free, timetable
from fedroam.clock.spans import STATES, Spans
from fedroam.clock.timed import Timed
from fedroam.clock.timetable import BUSY, COLUMNS, OWED, SO_FAR, TIME, TOTALS, Timetable, Timing

__all__ = [
    "BUSY",
    "COLUMNS",
    "OWED",
    "SO_FAR",
    "STATES",
    "TIME",
    "TOTALS",
    "Clock",
    "Spans",
    "Supply",
    "Timed",
    "Timetable",
    "Timing",
    "as_kept",
    "check_fits",
    "first_state",
    "free",
    "kinds",
    "timetable",
]
