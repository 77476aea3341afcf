"""How much local training a round was: passes of samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedroam.learning import Job, clients_of, held_of, some_of
from fedroam.learning.training import Training, sample_passes


class SamplePasses:
    """Counts the samples that local training passes, each as often as it is in a batch.

    How many they are depends on how many a client holds, not on which of them a batch draws; so each number is counted
    once a run.
    """

    def __init__(self, training: Training) -> None:
        self.training = training
        self.passes: dict[int, int] = {}
        self._last = np.zeros((2, 0), dtype=np.int64)  # samples held, and what passed of them

    def of(self, jobs: Sequence[Job]) -> tuple[np.ndarray, np.ndarray]:
        """The client of each job and its sample passes, int64 [jobs] each; work that a server does is left out."""
        own = some_of(jobs, clients_of(jobs) >= 0)
        clients, held = clients_of(own), held_of(own)
        if not np.array_equal(held, self._last[0]):  # mostly the same clients train in each round
            sizes, place = np.unique(held, return_inverse=True)
            passes = np.array([self._passes(size) for size in sizes.tolist()], dtype=np.int64)
            self._last = np.stack([held, passes[place]])
        return clients, self._last[1].copy()

    def _passes(self, samples: int) -> int:
        if samples not in self.passes:
            self.passes[samples] = sample_passes(self.training, samples)
        return self.passes[samples]
