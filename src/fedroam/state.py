"""What changes from round to round, and how a checkpoint holds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from fedroam.cost import Account
from fedroam.errors import InputError
from fedroam.federation import Meeting
from fedroam.learning import Models
from fedroam.mobility import Paths
from fedroam.scene import Scene


@dataclass
class State:
    """Everything that changes from round to round; what a checkpoint holds."""

    round: int
    models: Models
    mobility: dict[str, np.ndarray]
    federation: dict[str, np.ndarray]
    activity: dict[str, np.ndarray]
    meeting: Meeting
    bytes_sent: int
    account: Account

    def arrays(self) -> dict[str, np.ndarray]:
        """As named plain arrays, for a checkpoint."""
        paths, graph = self.meeting.paths, self.meeting.graph
        arrays = {
            "models.parameters": self.models.parameters.cpu().numpy(),
            "models.buffers": self.models.buffers.cpu().numpy(),
            "bytes_sent": np.array([self.bytes_sent], dtype=np.int64),
            "meeting.first": paths.first,
            "meeting.time": paths.time,
            "meeting.point": paths.point,
            "meeting.present": paths.present,
            "meeting.indptr": graph.indptr,
            "meeting.indices": graph.indices,
        }
        if self.models.momentum is not None:
            arrays["models.momentum"] = self.models.momentum.cpu().numpy()
        arrays.update({f"mobility.{name}": array for name, array in self.mobility.items()})
        arrays.update({f"activity.{name}": array for name, array in self.activity.items()})
        arrays.update({f"federation.{name}": array for name, array in self.federation.items()})
        arrays.update({f"account.{name}": array for name, array in self.account.arrays().items()})
        return arrays

    @classmethod
    def of(cls, round: int, arrays: Mapping[str, np.ndarray], scene: Scene) -> State:
        """The state that `arrays` gave."""

        def under(prefix: str) -> dict[str, np.ndarray]:
            return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}

        def rows(name: str) -> torch.Tensor:
            return torch.from_numpy(arrays[f"models.{name}"]).to(scene.device)

        try:
            momentum = rows("momentum") if scene.task.training.keeps_momentum() else None
            models = Models(scene.task.layout, rows("parameters"), rows("buffers"), momentum)
            meeting = under("meeting.")
            paths = Paths(*(meeting[name] for name in ("first", "time", "point", "present")))
            graph = scene.graph(meeting["indptr"], meeting["indices"])
            sent, account = int(arrays["bytes_sent"][0]), Account.of(under("account."))
        except KeyError as missing:
            raise InputError(f"checkpoint of round {round}: damaged, {missing} is missing") from None
        states = (under("mobility."), under("federation."), under("activity."))
        return cls(round, models, *states, Meeting(paths, graph), sent, account)
