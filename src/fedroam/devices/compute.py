"""What a part of the family `compute` promises, and the plain one: work that takes no time."""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

import numpy as np

from fedroam.checks.answers import checked_numbers
from fedroam.components import Part, answer_of, ours, register


@runtime_checkable
class Compute(Protocol):
    """How long local work takes."""

    def seconds(self, seed: int, clients: np.ndarray, passes: np.ndarray, flops: float) -> np.ndarray:
        """Seconds of each piece of local work, float64 [jobs], finite and not negative.

        clients: int64 [jobs]. passes: int64 or float64 [jobs], samples passed, each as often as it is in a batch; other
        work counts as so many of them as have its arithmetic. flops: of training on one sample, forward and backward.
        What differs from device to device is drawn from the run's seed.
        """


def seconds_of(
    compute: Compute, seed: int, clients: np.ndarray, passes: np.ndarray, flops: float
) -> np.ndarray:
    """What `Compute.seconds` gives; what one's own gives is held against that.

    Raises InputError where it is something else.
    """
    if ours(compute):
        return compute.seconds(seed, clients, passes, flops)
    found = compute.seconds(seed, clients.copy(), passes.copy(), flops)
    with answer_of("compute", compute):
        return checked_numbers("seconds", found, len(clients), "job", lambda k: f"client {clients[k]}")


Counts = Literal["training", "all"]


@runtime_checkable
class CountsBeside(Protocol):
    """Devices that take time for what methods compute beside training, too, if they are asked to."""

    @property
    def counts(self) -> Counts:
        """What of a client's work takes time: its training, or all that is computed of samples."""


@register("compute", "instant")
class InstantCompute(Part):
    """Local work takes no time."""

    def seconds(self, seed: int, clients: np.ndarray, passes: np.ndarray, flops: float) -> np.ndarray:
        """Zero."""
        return np.zeros(len(clients))
