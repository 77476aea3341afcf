"""SCAFFOLD."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from typing_extensions import override

from fedroam.components import Part, field, register
from fedroam.federation.protocol import Start
from fedroam.federation.server.loop import GLOBAL, GLOBAL_BUFFERS, ServerLoop, ServerRound, weighted_mean
from fedroam.learning import Anchor, Job
from fedroam.learning.cpu.workers import shared_workers
from fedroam.learning.engine import rate

CONTROL, CONTROLS = "control", "controls"
COLUMNS = 2**14  # that a worker does at a time


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

    @override
    def begin(self, round: ServerRound, start: Start) -> None:
        """Controls, float32 [parameters] and [clients, parameters], are 0."""
        super().begin(round, start)
        round.state[CONTROL] = np.zeros(round.layout.size, np.float32)
        round.state[CONTROLS] = np.zeros((round.context.clients, round.layout.size), np.float32)

    @override
    @np.errstate(all="ignore")
    def job(self, round: ServerRound, client: int) -> Job:
        """y <- y - lr (g + c - c_i) (Eq. 3)."""
        job = super().job(round, client)
        if not self.correction:
            return job
        # By NumPy: of a row this long torch would let all its threads do a part, and they go on spinning afterwards.
        shift = round.state[CONTROL] - round.state[CONTROLS][client]
        shift *= self.correction
        return replace(job, anchor=Anchor(shift=torch.from_numpy(shift).to(round.models.parameters.device)))

    @override
    @np.errstate(all="ignore")
    def aggregate(self, round: ServerRound) -> None:
        """Eqs. 4 and 5. A client without a single step leaves its control as it is."""
        before, control = round.state[GLOBAL], round.state[CONTROL]
        controls, moved = self._moved(round)
        equal = np.full(len(round.clients), 1 / len(round.clients))
        shares = equal if self.average == "clients" else round.shares()
        mean = weighted_mean(round.models.parameters, round.clients, shares)
        # So written that a step of 1 ends at the mean itself.
        round.state[GLOBAL] = mean + (self.server_lr - 1) * (mean - before)
        round.state[GLOBAL_BUFFERS] = weighted_mean(round.models.buffers, round.clients, shares)
        held = int((round.context.samples > 0).sum())
        round.state[CONTROL] = (control + moved / held).astype(np.float32)
        round.state[CONTROLS] = controls

    def _moved(self, round: ServerRound) -> tuple[np.ndarray, np.ndarray]:
        """All controls as they are now, float32 [clients, parameters], and the sum of their changes, float64
        [parameters]: some columns at a time, of all clients in their order."""
        before, control, controls = (round.state[name] for name in (GLOBAL, CONTROL, CONTROLS))
        weights, lr = self._weights(round), rate(round.context.task.training, round.number)
        models, found = round.models.parameters, np.empty_like(controls)
        moved = np.zeros(round.layout.size)

        def move(_: int, begin: int, end: int) -> None:
            some = slice(begin, end)
            now, total = found[:, some], moved[some]
            now[:] = controls[:, some]
            for i, weight in zip(round.clients.tolist(), weights, strict=True):
                if not weight:
                    continue
                with np.errstate(all="ignore"):
                    change = before[some] - models[i, some].cpu().numpy()
                    change /= weight * lr
                    drift = control[some] - now[i]
                    drift *= self.correction
                    change -= drift
                    change -= now[i]
                    now[i] += change
                    total += change

        # Models that lie elsewhere are fetched row by row, not a part of a row at a time.
        step = COLUMNS if models.device.type == "cpu" else max(1, round.layout.size)
        shared_workers().parts(round.layout.size, step, move, "controls, part {}".format)
        return found, moved

    def _weights(self, round: ServerRound) -> list[float]:
        """Of each active client K; with momentum, the sum of the weights of all gradients in y_i (Wang et al., NeurIPS
        2020, Sec. 4.1)."""
        task, found = round.context.task, dict[int, float]()
        m = task.training.momentum
        for i in round.clients.tolist():
            job = super().job(round, i)
            if len(job.samples) not in found:  # who holds as many takes as many steps
                steps = sum(1 for _ in job.positions(task))
                found[len(job.samples)] = (
                    sum((1 - m**k) / (1 - m) for k in range(1, steps + 1)) if m else steps
                )
        return [float(found[len(round.context.train[i])]) for i in round.clients.tolist()]

    @override
    def download(self, round: ServerRound) -> int:
        return 4 * (2 * round.layout.size + round.layout.buffer_size)  # c has no buffers
