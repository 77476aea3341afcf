"""Traces: who was where when, read from real data, and movement that replays them."""

from fedroam.traces import replay
from fedroam.traces.geography import local_projection, to_metres
from fedroam.traces.importing import import_trace
from fedroam.traces.selection import Selection, select
from fedroam.traces.trace import Trace, read_trace, write_trace

__all__ = [
    "Selection",
    "Trace",
    "import_trace",
    "local_projection",
    "read_trace",
    "replay",
    "select",
    "to_metres",
    "write_trace",
]
