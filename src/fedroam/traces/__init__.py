"""Traces: who was where when, or on when, read from real data; movement and churn that replay them."""

from fedroam.traces import availability, replay
from fedroam.traces.formats import FORMATS
from fedroam.traces.geography import local_projection, to_metres
from fedroam.traces.importing import import_trace
from fedroam.traces.log import Log, read_log
from fedroam.traces.matching import Matching, NamesDevices, NamesHolders, match
from fedroam.traces.selection import Selection, select
from fedroam.traces.trace import Trace, read_trace, write_trace

__all__ = [
    "FORMATS",
    "Log",
    "Matching",
    "NamesDevices",
    "NamesHolders",
    "Selection",
    "Trace",
    "availability",
    "import_trace",
    "local_projection",
    "match",
    "read_log",
    "read_trace",
    "replay",
    "select",
    "to_metres",
    "write_trace",
]
