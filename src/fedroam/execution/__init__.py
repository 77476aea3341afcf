"""Execution: where the clients of one run are computed, in one process or spread over a cluster."""

from fedroam.execution import kinds as kinds
from fedroam.execution.kinds import Execution as Execution
from fedroam.execution.kinds import SpreadComputation as SpreadComputation
from fedroam.execution.kinds import Spreading as Spreading
from fedroam.execution.transport import WorkersLost as WorkersLost
