"""What a sweep and its workers tell each other. Through the pipe of a worker process it goes as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import get_args

from fedroam.errors import FedroamError
from fedroam.facts import json_object
from fedroam.recording import Existing
from fedroam.sweep.measuring import UnitCosts


@dataclass
class RunTask:
    """A run to do: toml is its experiment, digest what that must come to, folder its run folder, data the name of its
    data set (`data.name_of`); existing, title and order are for `runner.run`."""

    digest: str
    toml: str
    folder: str
    existing: Existing
    title: str
    order: int
    rounds: int
    seed: int
    data: str


@dataclass
class MeasureTask:
    """A run whose costs are to be measured: of is its digest, family what runs that differ in the seed alone have in
    common, budget the seconds that its rounds may take, folder where to write below."""

    digest: str
    of: str
    family: str
    toml: str
    budget: float
    folder: str


@dataclass
class Stop:
    """Leave the present run after its round, with a checkpoint."""


@dataclass
class Share:
    """What a worker may take of the machine from now on: cores, and bytes of memory (None: unlimited)."""

    cores: int
    memory: int | None


@dataclass
class Close:
    """End, once idle."""


@dataclass
class Ready:
    """A worker can take tasks."""


@dataclass
class Broken:
    """A worker cannot be set up."""

    reason: str


@dataclass
class RoundDone:
    """A run has come to a round; accuracy: where it was measured."""

    round: int
    accuracy: float | None


@dataclass
class Done:
    """A run is finished: what it took by the wall clock and of the processor."""

    seconds: float
    cpu_seconds: float


@dataclass
class Failed:
    """A task failed. out_of_memory: the worker ends itself, what is left of its memory is in shreds."""

    reason: str
    out_of_memory: bool = False


@dataclass
class Stopped:
    """A run was left after a checkpoint. cpu_seconds: that this worker spent on it."""

    cpu_seconds: float = 0.0


@dataclass
class TaskBegun:
    """A worker was given the task. Said by the pool, as is `Again`."""


@dataclass
class Again:
    """The worker died; another will take up the task."""

    reason: str


Task = RunTask | MeasureTask
Message = (
    RunTask | MeasureTask | Stop | Share | Close  # to a worker
    | Ready | Broken | RoundDone | Done | Failed | Stopped | UnitCosts  # from it
    | TaskBegun | Again  # of it
)  # fmt: skip


def encode(message: Message) -> bytes:
    """A message as it goes through a pipe."""
    return json.dumps({"message": type(message).__name__, **asdict(message)}).encode()


def decode(data: bytes) -> Message:
    """What came through a pipe. Raises FedroamError where it is no message."""
    try:
        fields = json_object(data)
        name = fields.pop("message")
        message: Message = {kind.__name__: kind for kind in get_args(Message)}[name](**fields)
    except (ValueError, KeyError, TypeError) as error:
        raise FedroamError(f"a worker said what is no message ({type(error).__name__}: {error})") from None
    return message
