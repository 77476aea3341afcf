"""SCAFFOLD."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import torch

from fedroam.components import Part, field, register
from fedroam.federation.protocol import Start
from fedroam.federation.server.loop import GLOBAL, GLOBAL_BUFFERS, ServerLoop, Turn, weighted_mean
from fedroam.learning import Anchor, Job
from fedroam.learning.engine import rate

CONTROL, CONTROLS = "control", "controls"


@register("federation", "scaffold", source="Karimireddy et al., ICML 2020, Alg. 1, Eqs. 3 to 5")
class Scaffold(Part, ServerLoop):
    """Clients correct their drift: c, the server's control, says where all go, and c_i where client i goes.

    Every gradient g of client i becomes g - c_i + c. After K steps from x to y_i,
    c_i+ = c_i - c + (x - y_i) / (K lr) (option II). The server then moves to x + server_lr * mean(y_i - x) over the
    active clients, and c by sum (c_i+ - c_i) / N over them, N being all clients with samples; all controls begin at 0.

    Judged with the server's model. Down: model and c; up: the changes of y_i and of c_i; twice what FedAvg sends. With
    momentum m (started anew each round) K becomes the weight that gradients have in y_i,
    sum over k = 1 .. K of (1 - m^k) / (1 - m); where momentum is kept between rounds that is an approximation.
    """

    server_lr: float = field(1.0, "the server's step on the mean change", gt=0, lt=1e6)
    average: Literal["clients", "samples"] = field(
        "clients", "whether active clients count equally in the mean change (Alg. 1) or by their samples"
    )
    correction: float = field(
        1.0,
        "factor on c - c_i in every gradient; 0 is FedAvg where average is by samples",
        ge=0,
        allow_inf_nan=False,
    )

    def begin(self, turn: Turn, start: Start) -> None:
        """See `ServerLoop.begin`: controls, float32 [parameters] and [clients, parameters], are 0."""
        ServerLoop.begin(self, turn, start)
        turn.state[CONTROL] = np.zeros(turn.layout.size, np.float32)
        turn.state[CONTROLS] = np.zeros((turn.setting.clients, turn.layout.size), np.float32)

    def job(self, turn: Turn, client: int) -> Job:
        """See `ServerLoop.job`: y <- y - lr (g + c - c_i) (Eq. 3)."""
        job = ServerLoop.job(self, turn, client)
        if not self.correction:
            return job
        shift = turn.tensor(CONTROL) - turn.tensor(CONTROLS)[client]
        return replace(job, anchor=Anchor(shift=self.correction * shift))

    def collect(self, turn: Turn) -> None:
        """See `ServerLoop.collect` (Eqs. 4 and 5). A client without a single step leaves its control as it is."""
        before, control, controls = (turn.tensor(name) for name in (GLOBAL, CONTROL, CONTROLS))
        controls, lr = controls.clone(), rate(turn.setting.task.training, turn.round)
        moved = torch.zeros(turn.layout.size, dtype=torch.float64, device=control.device)
        for i in turn.clients.tolist():
            weight = self._weight(turn, i)
            if weight:
                walked = (before - turn.models.parameters[i]) / (weight * lr)
                change = walked - self.correction * (control - controls[i]) - controls[i]
                controls[i] += change
                moved += change
        equal = np.full(len(turn.clients), 1 / len(turn.clients))
        shares = equal if self.average == "clients" else turn.shares()
        mean = torch.from_numpy(weighted_mean(turn.models.parameters, turn.clients, shares)).to(before)
        # So written that a step of 1 ends at the mean itself.
        turn.state[GLOBAL] = (mean + (self.server_lr - 1) * (mean - before)).cpu().numpy()
        turn.state[GLOBAL_BUFFERS] = weighted_mean(turn.models.buffers, turn.clients, shares)
        held = int((turn.setting.samples > 0).sum())
        turn.state[CONTROL] = (control + moved / held).float().cpu().numpy()
        turn.state[CONTROLS] = controls.cpu().numpy()

    def _weight(self, turn: Turn, client: int) -> float:
        """K; with momentum, the sum of the weights of all gradients in y_i (Wang et al., NeurIPS 2020, Sec. 4.1)."""
        task = turn.setting.task
        steps, m = sum(1 for _ in ServerLoop.job(self, turn, client).positions(task)), task.training.momentum
        return float(sum((1 - m**k) / (1 - m) for k in range(1, steps + 1))) if m else float(steps)

    def down(self, turn: Turn) -> int:
        """See `ServerLoop.down`: the model and c, which has no buffers."""
        return 4 * (2 * turn.layout.size + turn.layout.buffer_size)
