"""Traces: who was where when, or on when, read from real data; movement and churn that replay them."""

from fedroam.traces import availability as availability
from fedroam.traces import replay as replay
from fedroam.traces.calendar import begins_apart as begins_apart
from fedroam.traces.calendar import check_intervals as check_intervals
from fedroam.traces.formats import FORMATS as FORMATS
from fedroam.traces.geography import local_projection as local_projection
from fedroam.traces.geography import to_metres as to_metres
from fedroam.traces.importing import import_trace as import_trace
from fedroam.traces.log import Log as Log
from fedroam.traces.log import read_log as read_log
from fedroam.traces.matching import Matching as Matching
from fedroam.traces.matching import NamesDevices as NamesDevices
from fedroam.traces.matching import NamesHolders as NamesHolders
from fedroam.traces.matching import match as match
from fedroam.traces.selection import Selection as Selection
from fedroam.traces.selection import select as select
from fedroam.traces.trace import Trace as Trace
from fedroam.traces.trace import read_trace as read_trace
from fedroam.traces.trace import write_trace as write_trace
