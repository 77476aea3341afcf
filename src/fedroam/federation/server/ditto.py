"""Ditto."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from fedroam.components import Part, field, register
from fedroam.federation.protocol import Judged, Setting, Start
from fedroam.federation.server.loop import GLOBAL, GLOBAL_BUFFERS, ServerLoop, Turn
from fedroam.learning import Anchor, Job, Models


@register(
    "federation", "ditto", source="Li et al., ICML 2021, objective h_k and Alg. 1, and the authors' code"
)
class Ditto(Part, ServerLoop):
    """FedAvg, and beside it a personal model for each client, held to the server's: F_i(v) + lambda/2 ||v - w||^2.

    An active client trains the server's model w for the server, and its own model v for itself, each with the whole
    local work of a round and on the same batches: v <- v - lr (grad F_i(v) + lambda (v - w)), w as it was handed out.
    The server's average is weighted by samples (the authors' code draws clients by their samples and takes the plain
    average). Judged with the personal models; the server's is the second. Sends as much as FedAvg does, and computes
    twice as much. With strength = 0 the personal models are those of learning alone.
    """

    strength: float = field(
        1.0,
        "lambda, how strongly personal models are held to the server's (1 is the authors' setting without attacks)",
        ge=0,
        allow_inf_nan=False,
    )

    def begin(self, turn: Turn, start: Start) -> None:
        """See `ServerLoop.begin`: rows clients, clients + 1, ... are the personal models."""
        ServerLoop.begin(self, turn, start)
        clients = range(turn.setting.clients)
        turn.models = start([*clients, *clients])

    def jobs(self, turn: Turn) -> Sequence[Job]:
        """See `ServerLoop.jobs`: for the server, and for oneself."""
        hold, n = Anchor(self.strength, turn.tensor(GLOBAL)), turn.setting.clients
        own = [Job(int(i), n + int(i), turn.setting.train[i], turn.round, anchor=hold) for i in turn.clients]
        return [*ServerLoop.jobs(self, turn), *own]

    def judged(
        self, models: Models, state: Mapping[str, np.ndarray], setting: Setting
    ) -> Mapping[str, Judged]:
        """See `Federation.judged`: with the personal models, and with the server's."""
        n, device = setting.clients, models.parameters.device
        own = Models(models.layout, models.parameters[n:], models.buffers[n:], None)
        values, buffers = (torch.from_numpy(state[name]).to(device) for name in (GLOBAL, GLOBAL_BUFFERS))
        one = Models(models.layout, values[None], buffers[None], None)
        return {
            "personal": Judged(own, np.arange(n), one),
            "global": Judged(one, np.zeros(n, np.int64), one),
        }
