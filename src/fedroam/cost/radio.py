"""What a part of the family `radio` promises: the price of each transfer, and of local training."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from fedroam.checks.answers import checked_numbers
from fedroam.errors import InputError
from fedroam.federation import Traffic, access_point


@dataclass(frozen=True)
class DistanceDistribution:
    """Mean and standard deviation (of the whole population) of the distances between clients and their access points
    over a run, metres; NaN where they are not known.

    Farcas et al. let the throughput of a cellular link fall between mean - std and mean + std (Eq. 2).
    """

    mean: float = math.nan
    std: float = math.nan

    @property
    def known(self) -> bool:
        """Whether there is such a number."""
        return math.isfinite(self.mean) and math.isfinite(self.std)

    @classmethod
    def of(cls, distances: Iterable[np.ndarray]) -> DistanceDistribution:
        """The distribution of all distances in these arrays (float64 [any number], metres), which are not kept."""
        count, mean, squares = 0, 0.0, 0.0
        for some in distances:
            if not len(some):
                continue
            # Chan, Golub & LeVeque: moments of two sets joined, without the cancellation of sums of squares.
            own, n = float(some.mean()), len(some)
            gap, total = own - mean, count + n
            squares += float(((some - own) ** 2).sum()) + gap**2 * count * n / total
            mean, count = mean + gap * n / total, total
        return cls(mean, math.sqrt(squares / count)) if count else cls()


@dataclass(frozen=True)
class Cost:
    """What each transfer costs its two ends, float64 [transfers]: joules, and seconds of sending and of receiving.

    An end that is no client pays nothing: servers, clouds and access points hang on the mains.
    """

    energy_up: np.ndarray
    energy_down: np.ndarray
    time_up: np.ndarray
    time_down: np.ndarray

    @classmethod
    def nothing(cls, transfers: int) -> Cost:
        """No cost for anybody."""
        return cls(*(np.zeros(transfers) for _ in range(4)))


@runtime_checkable
class Radio(Protocol):
    """What communication and training cost. Nothing is drawn: the same transfer always costs the same."""

    def spread(self) -> DistanceDistribution | None:
        """The distances that throughput is measured by, as the user set them; None: those of the run itself.

        Those of the run are found by a pass over its movement, before it begins and without any training.
        """

    def cost(self, traffic: Traffic, distances: DistanceDistribution) -> Cost:
        """The price of each transfer. A client pays for what it sends and for what it receives, nobody else pays.

        Raises InputError where the price depends on distances that are not known.
        """

    def training(self, clients: np.ndarray, samples: np.ndarray) -> np.ndarray:
        """Joules of local training, float64 [jobs]: client clients[k] (int64) passes samples[k] (int64) samples."""


def checked_cost(found: Any, transfers: int) -> Cost:
    """What a radio gave as the cost of so many transfers. Raises InputError where it is none."""
    if not isinstance(found, Cost):
        raise InputError(f"cost gave {type(found).__name__}, allowed is a fedroam.cost.Cost")
    every = vars(found).items()
    return Cost(**{name: checked_numbers(f"cost: {name}", one, transfers, "transfer") for name, one in every})


def checked_joules(found: Any, jobs: int) -> np.ndarray:
    """What a radio gave as the joules of so many jobs of training. Raises InputError where it is none."""
    return checked_numbers("training", found, jobs, "job")


def full_exchange(radio: Radio, size: int, distance: float, distances: DistanceDistribution) -> float:
    """Joules that a client pays to get a model of `size` bytes from an access point `distance` metres away, and to send
    one back (Farcas et al., Eq. 1)."""
    ends = (np.array([access_point(0), 0]), np.array([0, access_point(0)]))
    cost = radio.cost(Traffic.of(*ends, size, distance), distances)
    return float(cost.energy_up.sum() + cost.energy_down.sum())
