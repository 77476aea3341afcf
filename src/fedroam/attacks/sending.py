"""What attackers send in a round, in place of what they trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from fedroam.attacks.attackers import Attack, Trained, Withheld
from fedroam.components import answer_of, ours
from fedroam.errors import InputError
from fedroam.learning import Job, Models, clients_of


@dataclass(frozen=True)
class Trial:
    """The attackers' part of a round's training.

    clients: int64 [attackers at work], rows: theirs in the models' matrix, honest: the rows of the others' jobs
    (int64). begun: float32 [attackers, parameters], before training.
    """

    attack: Attack
    clients: np.ndarray
    rows: np.ndarray
    honest: np.ndarray
    begun: torch.Tensor
    everybody: int

    @classmethod
    def before(
        cls, attack: Attack, attackers: np.ndarray, everybody: int, models: Models, jobs: Sequence[Job]
    ) -> Trial | None:
        """Before training; None where no attacker trains. Attackers without a job are honest in this round."""
        clients = clients_of(jobs)
        own = np.isin(clients, attackers)
        if not own.any():
            return None
        rows = np.array([job.row for job in jobs], dtype=np.int64)
        near, place = models.at_hand(rows[own])
        begun = near.parameters[torch.from_numpy(place).to(near.device)]
        return cls(attack, clients[own], rows[own], rows[~own], begun, everybody)

    def send(self, models: Models, seed: int, round: int) -> Withheld | None:
        """After training: attackers' rows become what they send; what they withhold, None where they send the truth.

        Buffers (running statistics) are sent as they are. An attack that does not come with fedroam is handed copies,
        so that what it writes into them is neither learnt nor taken for the truth. Raises InputError where what it
        sends is no models.
        """
        matrix = models.parameters
        rows = torch.from_numpy(self.rows).to(matrix.device)
        truth = matrix[rows]
        trusted = ours(self.attack)
        trained, everything = (truth, matrix) if trusted else (truth.clone(), matrix.clone())
        known = Trained(
            self.begun, trained, self.clients, everything, self.honest, self.everybody, seed, round
        )
        sent = self.attack.sent(known)
        if not trusted:
            with answer_of("attack", self.attack, round):
                sent = _checked(sent, truth)
        if sent is truth:
            return None
        matrix[rows] = sent
        return Withheld(self.rows, truth)


def _checked(sent: Any, truth: torch.Tensor) -> torch.Tensor:
    """What an attack of one's own sends as float32, or `truth` itself where it is the same."""
    is_tensor = isinstance(sent, torch.Tensor)
    if not is_tensor or not sent.is_floating_point() or sent.shape != truth.shape:
        what = f"a {sent.dtype} tensor {list(sent.shape)}" if is_tensor else f"a {type(sent).__name__}"
        raise InputError(f"sent gave {what}, allowed is a float32 tensor {list(truth.shape)}")
    sent = sent.detach().to(truth.device, torch.float32)
    # Models that exploded hold values that are no numbers, and may be sent as they are.
    return truth if torch.allclose(sent, truth.float(), rtol=0, atol=0, equal_nan=True) else sent
