"""What attackers send in a round, in place of what they trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from fedroam.attacks.attackers import Attack, Trained, Withheld
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

        Buffers (running statistics) are sent as they are.
        """
        matrix = models.parameters
        rows = torch.from_numpy(self.rows).to(matrix.device)
        truth = matrix[rows]
        known = Trained(self.begun, truth, self.clients, matrix, self.honest, self.everybody, seed, round)
        sent = self.attack.sent(known)
        if sent is truth:
            return None
        matrix[rows] = sent
        return Withheld(self.rows, truth)
