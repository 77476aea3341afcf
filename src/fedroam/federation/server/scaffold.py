"""SCAFFOLD."""

from __future__ import annotations

from collections.abc import Sequence
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
# The round in which each client's last work was handed out, int64 [clients]; and of rounds whose work is still to come
# after the server has moved on, their numbers, int64 [rounds], the server's model and its control, float32 [rounds,
# parameters] each.
HANDED, ROUNDS, MODELS, THEIR_CONTROLS = "handed", "handed_rounds", "handed_global", "handed_control"
COLUMNS = 2**14  # that a worker does at a time
Origin = tuple[
    np.ndarray, np.ndarray, int
]  # the server's model and control that work began with, and its round


@register("federation", "scaffold", source="Karimireddy et al., ICML 2020, Alg. 1, Eqs. 3 to 5")
class Scaffold(Part, ServerLoop):
    """Clients correct their drift: c, the server's control, says where all go, and c_i where client i goes.

    Every gradient g of client i becomes g - c_i + c. After K steps from x to y_i,
    c_i+ = c_i - c + (x - y_i) / (K lr) (option II). The server then moves to x + server_lr * mean(y_i - x) over the
    active clients, and c by sum (c_i+ - c_i) / N over them, N being all clients with samples; all controls begin at 0.

    Judged with the server's model. Down: model and c; up: the changes of y_i and of c_i; twice what FedAvg sends.
    `correction` is a factor on c - c_i wherever it stands, in c_i+, too: so that is the mean gradient of the client.
    With momentum m (started anew each round) K becomes the weight that gradients have in y_i,
    sum over k = 1 .. K of (1 - m^k) / (1 - m); where momentum is kept between rounds that is an approximation.

    Work that is carried over to a later round of a clock counts from what its client was handed: x and c are those of
    the round in which it began, in c_i+ and in y_i - x, which is added to the server's present model.
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
    def broadcast(self, round: ServerRound) -> None:
        super().broadcast(round)
        handed = self._handed(round).copy()
        handed[round.clients] = round.number
        round.state[HANDED] = handed

    @override
    @np.errstate(all="ignore")
    def aggregate(self, round: ServerRound) -> None:
        """Eqs. 4 and 5. A client without a single step leaves its control as it is."""
        before, control = round.state[GLOBAL], round.state[CONTROL]
        origins = self._origins(round)
        controls, moved = self._moved(round, origins)
        equal = np.full(len(round.clients), 1 / len(round.clients))
        shares = equal if self.average == "clients" else round.shares()
        mean = weighted_mean(round.models.parameters, round.clients, shares)
        if any(handed is not before for handed, _, _ in origins):
            # Who began with another model moves the present one as far as that one.
            for share, (handed, _, _) in zip(shares, origins, strict=True):
                mean += np.float32(share) * (before - handed)
        # So written that a step of 1 ends at the mean itself.
        round.state[GLOBAL] = mean + (self.server_lr - 1) * (mean - before)
        round.state[GLOBAL_BUFFERS] = weighted_mean(round.models.buffers, round.clients, shares)
        held = int((round.context.samples > 0).sum())
        round.state[CONTROL] = (control + moved / held).astype(np.float32)
        round.state[CONTROLS] = controls
        self._keep(round, before, control)

    def _handed(self, round: ServerRound) -> np.ndarray:
        """In which round each client's work was handed out; 0 where a checkpoint does not say."""
        return round.state.get(HANDED, np.zeros(round.context.clients, np.int64))

    def _origins(self, round: ServerRound) -> list[Origin]:
        """The server's model and its control that each active client was handed, and in which round."""
        known = {number: k for k, number in enumerate(round.state.get(ROUNDS, np.zeros(0)).tolist())}
        found = []
        for number in self._handed(round)[round.clients].tolist():
            if (k := known.get(number)) is None:
                found.append((round.state[GLOBAL], round.state[CONTROL], number or round.number))
            else:
                found.append((round.state[MODELS][k], round.state[THEIR_CONTROLS][k], number))
        return found

    def _keep(self, round: ServerRound, before: np.ndarray, control: np.ndarray) -> None:
        """Keep what those were handed whose work is still to come; before, control: until now the server's."""
        wanted = np.unique(self._handed(round)[round.under_way])
        kept = round.state.get(ROUNDS, np.zeros(0, np.int64))
        if not len(wanted) and not len(kept):
            return
        models, controls = [], []
        for number in wanted.tolist():
            at = np.flatnonzero(kept == number)
            models.append(round.state[MODELS][at[0]] if len(at) else before)
            controls.append(round.state[THEIR_CONTROLS][at[0]] if len(at) else control)
        nothing = np.zeros((0, len(before)), np.float32)
        round.state |= {
            ROUNDS: wanted,
            MODELS: np.stack(models) if models else nothing,
            THEIR_CONTROLS: np.stack(controls) if controls else nothing,
        }

    def _moved(self, round: ServerRound, origins: Sequence[Origin]) -> tuple[np.ndarray, np.ndarray]:
        """All controls as they are now, float32 [clients, parameters], and the sum of their changes, float64
        [parameters]: some columns at a time, of all clients in their order. origins: of the active ones."""
        controls, weights = round.state[CONTROLS], self._weights(round)
        lrs = [rate(round.context.task.training, number) for _, _, number in origins]
        models, found = round.models.parameters, np.empty_like(controls)
        moved = np.zeros(round.layout.size)

        def move(_: int, begin: int, end: int) -> None:
            some = slice(begin, end)
            now, total = found[:, some], moved[some]
            now[:] = controls[:, some]
            all_ = zip(round.clients.tolist(), weights, lrs, origins, strict=True)
            for i, weight, lr, (before, control, _) in all_:
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
