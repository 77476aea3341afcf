"""What changes from round to round, and how a checkpoint holds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from fedroam.clock import as_kept, first_state
from fedroam.cost import Account
from fedroam.devices import battery_at_start
from fedroam.errors import InputError
from fedroam.federation import Meeting, judged_by
from fedroam.learning import Models, in_half_precision
from fedroam.mobility import Paths, active_at_start
from fedroam.mobility.steered.surveyed import as_bits
from fedroam.recording.models import FinalModels, Keep
from fedroam.scene import Scene


@dataclass
class State:
    """Everything that changes from round to round; what a checkpoint holds.

    clock: what the clock keeps; nothing where nothing takes time. battery: what is left in the batteries; nothing where
    nobody runs out.
    """

    round: int
    models: Models
    mobility: dict[str, np.ndarray]
    federation: dict[str, np.ndarray]
    activity: dict[str, np.ndarray]
    meeting: Meeting
    bytes_sent: int
    account: Account
    clock: dict[str, np.ndarray]
    battery: dict[str, np.ndarray]

    def arrays(self) -> dict[str, np.ndarray]:
        """As named plain arrays, for a checkpoint."""
        paths, graph = self.meeting.paths, self.meeting.graph
        arrays = {
            **{f"models.{name}": array for name, array in self.models.arrays().items()},
            "bytes_sent": np.array([self.bytes_sent], dtype=np.int64),
            "meeting.first": paths.first,
            "meeting.time": paths.time,
            "meeting.point": paths.point,
            "meeting.present": paths.present,
            "meeting.indptr": graph.indptr,
            "meeting.indices": graph.indices,
        }
        arrays.update({f"mobility.{name}": array for name, array in self.mobility.items()})
        arrays.update({f"activity.{name}": array for name, array in self.activity.items()})
        arrays.update({f"federation.{name}": array for name, array in self.federation.items()})
        arrays.update({f"account.{name}": array for name, array in self.account.arrays().items()})
        arrays.update({f"clock.{name}": array for name, array in self.clock.items()})
        arrays.update({f"battery.{name}": array for name, array in self.battery.items()})
        return arrays

    @classmethod
    def of(cls, round: int, arrays: Mapping[str, np.ndarray], scene: Scene) -> State:
        """The state that `arrays` gave. Raises InputError where an array is missing, or of another type or shape."""

        def under(prefix: str) -> dict[str, np.ndarray]:
            return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}

        found = _Arrays(round, arrays)
        clients, layout = scene.experiment.clients, scene.task.layout
        parameters = found.get("models.parameters", "f2" if scene.half else "f4", None, layout.size)
        buffers = found.get("models.buffers", "f4", len(parameters), layout.buffer_size)
        momentum = None
        if scene.task.training.keeps_momentum():
            momentum = found.get("models.momentum", "f4", *parameters.shape)
        first = found.get("meeting.first", "i8", clients + 1)
        points = int(first[-1])
        paths = Paths(
            first,
            found.get("meeting.time", "f8", points),
            found.get("meeting.point", "f8", points, 2),
            found.get("meeting.present", "b1", clients),
        )
        indptr = found.get("meeting.indptr", "i", clients + 1)
        indices = found.get("meeting.indices", "i", int(indptr[-1]))
        rising = (np.diff(first) >= 2).all() and first[0] == 0 and (np.diff(indptr) >= 0).all()
        if not rising or not ((indices >= 0) & (indices < clients)).all():
            raise found.damaged("meeting.* name clients that there are not")
        account = Account.new(clients).arrays()
        for name, column in account.items():
            found.get(f"account.{name}", column.dtype.str[1:], clients)
        clock = {} if scene.timing is None else first_state(clients, scene.timing)
        kept = as_kept(under("clock.")) if clock else under("clock.")
        moved, begun = under("mobility."), scene.start_mobility()
        if "seen" in moved and "seen" in begun and begun["seen"].dtype == np.uint8:
            moved["seen"] = as_bits(moved["seen"])
        again = {"clock": kept, "mobility": moved}
        named = {f"{family}.{name}": array for family, some in again.items() for name, array in some.items()}
        found = _Arrays(round, {**arrays, **named})
        for name, array in clock.items():  # what is empty before round 1 may grow
            found.get(f"clock.{name}", array.dtype.str[1:], len(array) or None)
        starts = {
            "mobility": begun,
            "activity": active_at_start(scene.parts.activity, scene.experiment.seed, clients),
            "battery": battery_at_start(scene.parts.battery, scene.experiment.seed, clients),
        }
        for family, start in starts.items():
            for name, array in start.items():
                # one row a client; other arrays may grow
                fixed = family == "battery" or name in ("position", "present", "active")
                shape = array.shape if fixed else [None] * array.ndim
                found.get(f"{family}.{name}", array.dtype.str[1:], *shape)

        def tensor(array: np.ndarray) -> torch.Tensor:
            return torch.from_numpy(array).to(scene.device)

        return cls(
            round,
            scene.placed(
                Models(
                    layout,
                    in_half_precision(tensor(parameters)) if scene.half else tensor(parameters),
                    tensor(buffers),
                    None if momentum is None else tensor(momentum),
                )
            ),
            moved,
            under("federation."),
            under("activity."),
            Meeting(paths, scene.graph(indptr, indices)),
            int(found.get("bytes_sent", "i8", 1)[0]),
            Account.of(under("account.")),
            kept,
            under("battery."),
        )


def final_models(scene: Scene, state: State, keep: Keep, source: str = "") -> FinalModels:
    """The models of a state that clients are judged by, each once."""
    models = judged_by(scene.parts.federation, state.models, state.federation, scene.context)
    return FinalModels.of(models, keep, source)


@dataclass(frozen=True)
class _Arrays:
    """The arrays of a checkpoint, held against what they must be when they are asked for."""

    round: int
    arrays: Mapping[str, np.ndarray]

    def get(self, name: str, kind: str, *shape: int | None) -> np.ndarray:
        """An array of a kind (numpy's letter and bytes, or the letter alone) and shape (None: any length)."""
        if name not in self.arrays:
            raise self.damaged(f"{name!r} is missing")
        array = self.arrays[name]
        same = len(array.shape) == len(shape) and all(
            b in (None, a) for a, b in zip(array.shape, shape, strict=True)
        )
        if not same or not array.dtype.str[1:].startswith(kind):
            wanted = [("any" if length is None else length) for length in shape]
            raise self.damaged(
                f"{name!r} is {array.dtype} {list(array.shape)}, expected {np.dtype(kind)} {wanted}"
            )
        return array

    def damaged(self, what: str) -> InputError:
        """The error that says so."""
        return InputError(f"checkpoint of round {self.round}: damaged, {what}")
